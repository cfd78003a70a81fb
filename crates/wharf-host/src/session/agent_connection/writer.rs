//! Messages to the agent, and the requests among them that it has not answered yet.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use serde_json::json;
use tokio::sync::oneshot;
use wharf_core::{AskReply, ClientId, PromptId, Raw};
use wharf_json::ReadError;
use wharf_json::rpc::{self, FrameId, code};

use super::link::AgentDelete;
use crate::agent::Outbox;
use crate::frame::{self, Envelope};
use crate::limits::CountPermit;
use crate::session::agent_calls::AgentAnswer;
use crate::settings::{AgentSettings, SettingRequest};

/// Requests that the agent may leave unanswered before no more are passed on.
const MAX_OWED_ANSWERS: usize = 1_024;

/// A request of ours that the agent has yet to answer.
#[derive(Debug)]
pub(super) enum PendingRequest {
    Prompt(PromptId),
    Forward(Forwarded),
    /// The request of a caller that is no client of the session; the caller waits for the answer.
    Call(AgentCall),
    /// The host's own request to delete a session; told whether the agent did.
    Delete(oneshot::Sender<AgentDelete>),
}

/// A request to the agent whose answer goes to one waiting caller.
#[derive(Debug)]
pub(super) struct AgentCall {
    pub(super) kind: ForwardKind,
    /// Dropped if the agent goes away before it has answered.
    pub(super) answer: oneshot::Sender<AgentAnswer>,
}

/// A client's request that was passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Forwarded {
    pub(super) client: ClientId,
    /// The client's own id of it, as it spelled it.
    pub(super) request: Bytes,
    pub(super) kind: ForwardKind,
}

/// Requests whose success changes what is in force (rule 12.9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ForwardKind {
    Set {
        request: SettingRequest,
        /// Has the agent reported this value since it was asked for?
        was_reported: bool,
    },
    Other,
}

impl ForwardKind {
    /// Returns the kind of a client's request. The error: it asks for a setting in a way that cannot be read.
    pub(super) fn of(frame: &[u8]) -> Result<Self, ReadError> {
        let Ok(envelope) = frame::scan(frame) else { return Ok(Self::Other) };
        let request = SettingRequest::read(&envelope.method, frame)?;
        Ok(request.map_or(Self::Other, |request| Self::Set { request, was_reported: false }))
    }
}

/// The agent does not read its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StdinStalled;

#[derive(Debug)]
pub(super) struct AgentWriter {
    outbox: Outbox,
    /// The agent's own id of the session.
    session: String,
    next_id: u64,
    owed: HashMap<u64, PendingRequest>,
    /// Requests of the agent that are elicitations: they are cancelled in other words than permissions.
    elicitations: HashSet<Bytes>,
}

impl AgentWriter {
    pub(super) fn new(outbox: Outbox, session: String, next_id: u64) -> Self {
        Self { outbox, session, next_id, owed: HashMap::new(), elicitations: HashSet::new() }
    }

    pub(super) fn session(&self) -> &str {
        &self.session
    }

    /// Does the agent owe so many answers that it gets no further requests?
    pub(super) fn owes_too_much(&self) -> bool {
        self.owed.len() >= MAX_OWED_ANSWERS
    }

    /// Is an answer of the agent waited for?
    pub(super) fn is_owed(&self) -> bool {
        !self.owed.is_empty()
    }

    pub(super) fn say(&self, frame: Bytes) -> Result<(), StdinStalled> {
        self.outbox.send_frame(frame).map_err(|_| StdinStalled)
    }

    /// Wharf's own answer to a request.
    pub(super) fn say_served(&self, frame: Bytes, permit: Option<CountPermit>) -> Result<(), StdinStalled> {
        let sent = match permit {
            Some(permit) => self.outbox.send_with_permit(frame, permit),
            None => self.outbox.send_frame(frame),
        };
        sent.map_err(|_| StdinStalled)
    }

    /// Sends a prompt and remembers which answer will be its own.
    pub(super) fn prompt(&mut self, prompt: PromptId, frame: &Raw) -> Result<(), StdinStalled> {
        self.request(frame.bytes(), PendingRequest::Prompt(prompt))
    }

    /// Passes a client's request on.
    pub(super) fn forward(&mut self, frame: &Bytes, to: Forwarded) -> Result<(), StdinStalled> {
        self.request(frame, PendingRequest::Forward(to))
    }

    /// Sends the request of a caller that waits for its answer.
    pub(super) fn call(&mut self, frame: &Bytes, call: AgentCall) -> Result<(), StdinStalled> {
        self.request(frame, PendingRequest::Call(call))
    }

    fn request(&mut self, frame: &Bytes, owed: PendingRequest) -> Result<(), StdinStalled> {
        let Ok(envelope) = frame::scan(frame) else { return Ok(()) };
        let id = self.take_id();
        let frame = frame::with_session(frame, &envelope, &self.session, Some(id.to_string().as_bytes()));
        self.owed.insert(id, owed);
        self.say(frame)
    }

    /// Passes a client's notification on.
    pub(super) fn notify(&self, frame: &Bytes) -> Result<(), StdinStalled> {
        match frame::scan(frame) {
            Ok(envelope) => self.say(frame::with_session(frame, &envelope, &self.session, None)),
            Err(_) => Ok(()),
        }
    }

    pub(super) fn cancel(&self) -> Result<(), StdinStalled> {
        self.say(rpc::notification("session/cancel", json!({ "sessionId": self.session })))
    }

    /// Takes back a request that a client takes back.
    pub(super) fn cancel_forward(&self, client: &ClientId, request: &[u8]) -> Result<(), StdinStalled> {
        let found = self.owed.iter().find(|(_, owed)| match owed {
            PendingRequest::Forward(to) => to.client == *client && to.request == request,
            PendingRequest::Prompt(_) | PendingRequest::Call(_) | PendingRequest::Delete(_) => false,
        });
        let Some((id, _)) = found else { return Ok(()) };
        self.say(rpc::cancel_request(*id))
    }

    pub(super) fn answer_ask(&mut self, agent_request: &Raw, reply: &AskReply) -> Result<(), StdinStalled> {
        let id = agent_request.as_str();
        let elicitation = self.elicitations.remove(agent_request.bytes());
        let frame = match reply {
            AskReply::Frame(frame) => return self.answer(agent_request, frame.bytes()),
            AskReply::Cancelled if elicitation => return self.cancel_elicitation(agent_request),
            AskReply::Cancelled => rpc::response(id, json!({ "outcome": { "outcome": "cancelled" } })),
            AskReply::Withdrawn => error(id, code::REQUEST_CANCELLED, "request cancelled"),
            AskReply::Refused => error(id, code::INTERNAL_ERROR, "too many requests are open; answer some first"),
        };
        self.say(frame)
    }

    /// Answers an elicitation that no client fills in.
    pub(super) fn cancel_elicitation(&self, agent_request: &Raw) -> Result<(), StdinStalled> {
        self.say(rpc::response(agent_request.as_str(), json!({ "action": "cancel" })))
    }

    /// A response frame under the agent's own id.
    pub(super) fn answer(&self, agent_request: &Raw, frame: &[u8]) -> Result<(), StdinStalled> {
        match frame::scan(frame) {
            Ok(envelope) => self.say(frame::with_id(frame, &envelope, agent_request.bytes())),
            Err(_) => Ok(()),
        }
    }

    pub(super) fn fail(&self, agent_request: &Raw, code: i32, message: &str) -> Result<(), StdinStalled> {
        self.say(error(agent_request.as_str(), code, message))
    }

    /// Refuses a request at once.
    pub(super) fn refuse(&self, frame: &[u8], envelope: &Envelope<'_>, code: i32, message: &str) {
        let _ = self.say(error(envelope.id_text(frame), code, message));
    }

    pub(super) fn settle(&mut self, id: u64) -> Option<PendingRequest> {
        self.owed.remove(&id)
    }

    pub(super) fn forwarded(&self, id: u64) -> Option<&Forwarded> {
        match self.owed.get(&id) {
            Some(PendingRequest::Forward(to)) => Some(to),
            Some(PendingRequest::Prompt(_) | PendingRequest::Call(_) | PendingRequest::Delete(_)) | None => None,
        }
    }

    /// Notes on the requests for settings which of their values the agent reports.
    pub(super) fn note_reported(&mut self, settings: &AgentSettings) {
        for owed in self.owed.values_mut() {
            let (PendingRequest::Forward(Forwarded { kind, .. }) | PendingRequest::Call(AgentCall { kind, .. })) = owed
            else {
                continue;
            };
            if let ForwardKind::Set { request, was_reported } = kind {
                *was_reported |= settings.is_in_force(request);
            }
        }
    }

    /// Does the agent owe this client an answer?
    pub(super) fn owes(&self, client: &ClientId) -> bool {
        self.owed.values().any(|owed| matches!(owed, PendingRequest::Forward(to) if to.client == *client))
    }

    /// Every client's request that will get no answer any more.
    pub(super) fn into_unanswered(self) -> Vec<Forwarded> {
        let forwards = self.owed.into_values().filter_map(|owed| match owed {
            PendingRequest::Forward(to) => Some(to),
            PendingRequest::Prompt(_) | PendingRequest::Call(_) | PendingRequest::Delete(_) => None,
        });
        forwards.collect()
    }

    /// The way to the agent, to be used beside the writer's own end.
    pub(super) fn outbox(&self) -> Outbox {
        self.outbox.clone()
    }

    /// Is the agent at work on a prompt?
    pub(super) fn owes_prompt(&self) -> bool {
        self.owed.values().any(|owed| matches!(owed, PendingRequest::Prompt(_)))
    }

    /// Asks the agent to delete a session, its own or another that it has on disk.
    pub(super) fn delete(&mut self, session: &str, done: oneshot::Sender<AgentDelete>) -> Result<(), StdinStalled> {
        let id = self.take_id();
        self.owed.insert(id, PendingRequest::Delete(done));
        self.say(about_session("session/delete", id, session))
    }

    pub(super) fn note_elicitation(&mut self, agent_request: Bytes) {
        self.elicitations.insert(agent_request);
    }

    pub(super) fn take_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }
}

/// A request whose only parameter is the agent's id of a session.
pub(super) fn about_session(method: &str, id: u64, session: &str) -> Bytes {
    rpc::request(id, method, json!({ "sessionId": session }))
}

/// Makes an error response without data.
pub(super) fn error<'a>(id: impl Into<FrameId<'a>>, code: i32, message: &str) -> Bytes {
    rpc::error_response(id, rpc::error(code, message, None))
}
