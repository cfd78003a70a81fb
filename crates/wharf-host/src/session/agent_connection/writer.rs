//! Messages to the agent, and the requests among them that it has not answered yet.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use serde_json::json;
use tokio::sync::oneshot;
use wharf_acp::Envelope;
use wharf_core::{AskKind, AskReply, ClientId, PromptId, Raw, Seq, State};
use wharf_json::ReadError;
use wharf_json::rpc::{self, FrameId, code};

use super::link::AgentDelete;
use crate::agent::Outbox;
use crate::agent::ledger::{InFlight, LineNote, log_ledger_fault};
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
    /// The request of a caller that is not a client of the session; the caller waits for the
    /// answer.
    Call(AgentCall),
    /// The host's own request to delete a session; told whether the agent did.
    Delete(oneshot::Sender<AgentDelete>),
    /// A request that an earlier host passed on. Its caller is gone; its success counts all the
    /// same.
    Inherited(ForwardKind),
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

/// Tells requests whose success changes the settings in force from others (rule 12.9).
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
    /// Returns the kind of a client's request. The error: it asks for a setting in a way that
    /// cannot be read.
    pub(super) fn of(frame: &[u8]) -> Result<Self, ReadError> {
        let Ok(envelope) = wharf_acp::scan(frame) else { return Ok(Self::Other) };
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
    /// The last id of a request other than a prompt. These ids are odd.
    last_id: u64,
    owed: HashMap<u64, PendingRequest>,
    /// Requests of the agent that are elicitations: they are cancelled in other words than
    /// permissions.
    elicitations: HashSet<Bytes>,
    /// The end of the line of output that is being taken in; 0 if none is.
    line: u64,
    /// An earlier host has taken in this line before: its requests were taken or answered then.
    is_known_line: bool,
}

/// Returns the id of a prompt's request: even, and the same for every host, since the event that
/// starts the turn gives it.
const fn prompt_request_id(turn_started: Seq) -> u64 {
    turn_started.0 * 2
}

impl AgentWriter {
    pub(super) fn new(outbox: Outbox, session: String, next_id: u64) -> Self {
        // Odd, and behind those of the agent's start.
        let last_id = next_id | 1;
        let owed = HashMap::new();
        let elicitations = HashSet::new();
        Self {
            outbox,
            session,
            last_id,
            owed,
            elicitations,
            line: 0,
            is_known_line: false,
        }
    }

    /// Goes on for an earlier host, with its running turns and open asks.
    pub(super) fn resume(
        outbox: Outbox,
        session: String,
        in_flight: &InFlight,
        state: &State,
    ) -> Self {
        let mut writer = Self::new(outbox, session, in_flight.last_request_id);
        for turn in &state.turns {
            writer.owed.insert(
                prompt_request_id(turn.started_seq),
                PendingRequest::Prompt(turn.prompt.clone()),
            );
        }
        for (id, setting) in &in_flight.requests {
            let kind = setting
                .as_ref()
                .and_then(|frame| ForwardKind::of(frame).ok())
                .unwrap_or(ForwardKind::Other);
            writer.owed.insert(*id, PendingRequest::Inherited(kind));
        }
        let forms = state.asks.values().filter(|ask| ask.kind == AskKind::Elicitation);
        writer.elicitations = forms.map(|ask| ask.agent_request.bytes().clone()).collect();
        writer
    }

    /// Notes which line of output is being taken in, by its end.
    pub(super) fn begin_line(&mut self, line: u64, is_known: bool) {
        (self.line, self.is_known_line) = (line, is_known);
    }

    pub(super) fn end_line(&mut self) {
        (self.line, self.is_known_line) = (0, false);
    }

    /// Notes that a request of the agent is being served. Returns false if an earlier host has
    /// noted it: then it is served, or answered, already.
    pub(super) fn take_request(&self, id: &Raw, repeatable: Option<&Bytes>) -> bool {
        if self.is_known_line {
            return false;
        }
        let noted = self.outbox.ledger().lock().note_taken(self.line, id.bytes(), repeatable);
        log_ledger_fault(noted);
        true
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
        self.say_noted(frame, LineNote::Plain)
    }

    fn say_noted(&self, frame: Bytes, note: LineNote<'_>) -> Result<(), StdinStalled> {
        self.outbox.send_frame(frame, note).map_err(|_| StdinStalled)
    }

    /// Answers a request of the agent that is not an ask. Sends nothing for a line that is read
    /// again, since an earlier host may have answered it.
    fn say_answer(&self, id: &[u8], frame: Bytes) -> Result<(), StdinStalled> {
        if self.is_known_line {
            return Ok(());
        }
        self.say_noted(frame, LineNote::Answer { id, line: self.line })
    }

    /// Wharf's own answer to a request.
    pub(super) fn say_served(
        &self,
        id: &Raw,
        frame: Bytes,
        permit: Option<CountPermit>,
    ) -> Result<(), StdinStalled> {
        let note = LineNote::Answer { id: id.bytes(), line: self.line };
        let sent = match permit {
            Some(permit) => self.outbox.send_with_permit(&frame, note, permit),
            None => self.outbox.send_frame(frame, note),
        };
        sent.map_err(|_| StdinStalled)
    }

    /// Sends a prompt and remembers which answer will be its own. `turn_started` is the event that
    /// starts its turn.
    pub(super) fn prompt(
        &mut self,
        prompt: PromptId,
        frame: &Raw,
        turn_started: Seq,
    ) -> Result<(), StdinStalled> {
        let id = prompt_request_id(turn_started);
        self.request(
            id,
            frame.bytes(),
            PendingRequest::Prompt(prompt),
            LineNote::Effect(turn_started),
        )
    }

    /// Passes a client's request on.
    pub(super) fn forward(&mut self, frame: &Bytes, to: Forwarded) -> Result<(), StdinStalled> {
        let is_setting = matches!(to.kind, ForwardKind::Set { .. });
        self.request_noted(frame, PendingRequest::Forward(to), is_setting)
    }

    /// Sends the request of a caller that waits for its answer.
    pub(super) fn call(&mut self, frame: &Bytes, call: AgentCall) -> Result<(), StdinStalled> {
        let is_setting = matches!(call.kind, ForwardKind::Set { .. });
        self.request_noted(frame, PendingRequest::Call(call), is_setting)
    }

    fn request_noted(
        &mut self,
        frame: &Bytes,
        owed: PendingRequest,
        is_setting: bool,
    ) -> Result<(), StdinStalled> {
        let id = self.take_id();
        let setting = Some(&frame[..]).filter(|_| is_setting);
        self.request(id, frame, owed, LineNote::Request { id, setting })
    }

    fn request(
        &mut self,
        id: u64,
        frame: &Bytes,
        owed: PendingRequest,
        note: LineNote<'_>,
    ) -> Result<(), StdinStalled> {
        let Ok(envelope) = wharf_acp::scan(frame) else { return Ok(()) };
        let frame = wharf_acp::with_session(
            frame,
            &envelope,
            &self.session,
            Some(id.to_string().as_bytes()),
        );
        self.owed.insert(id, owed);
        self.say_noted(frame, note)
    }

    /// Passes a client's notification on.
    pub(super) fn notify(&self, frame: &Bytes) -> Result<(), StdinStalled> {
        match wharf_acp::scan(frame) {
            Ok(envelope) => {
                self.say(wharf_acp::with_session(frame, &envelope, &self.session, None))
            }
            Err(_) => Ok(()),
        }
    }

    /// Asks the agent to end its turns. `cause` is the event that says so, if it could be logged.
    pub(super) fn cancel(&self, cause: Option<Seq>) -> Result<(), StdinStalled> {
        let frame = rpc::notification("session/cancel", json!({ "sessionId": self.session }));
        self.say_noted(frame, note_effect(cause))
    }

    /// Takes back a request that a client takes back.
    pub(super) fn cancel_forward(
        &self,
        client: &ClientId,
        request: &[u8],
    ) -> Result<(), StdinStalled> {
        let found = self.owed.iter().find(|(_, owed)| match owed {
            PendingRequest::Forward(to) => to.client == *client && to.request == request,
            PendingRequest::Prompt(_)
            | PendingRequest::Call(_)
            | PendingRequest::Delete(_)
            | PendingRequest::Inherited(_) => false,
        });
        let Some((id, _)) = found else { return Ok(()) };
        self.say(rpc::cancel_request(*id))
    }

    /// Answers an ask. `cause` is the event that settles it; an ask that was never opened has none.
    pub(super) fn answer_ask(
        &mut self,
        agent_request: &Raw,
        reply: &AskReply,
        cause: Option<Seq>,
    ) -> Result<(), StdinStalled> {
        let id = agent_request.as_str();
        let elicitation = self.elicitations.remove(agent_request.bytes());
        let frame = match reply {
            AskReply::Frame(frame) => match wharf_acp::scan(frame.bytes()) {
                Ok(envelope) => wharf_acp::with_id(frame.bytes(), &envelope, agent_request.bytes()),
                Err(_) => return Ok(()),
            },
            AskReply::Cancelled if elicitation => cancelled_elicitation(agent_request),
            AskReply::Cancelled => {
                rpc::response(id, json!({ "outcome": { "outcome": "cancelled" } }))
            }
            AskReply::Withdrawn => error(id, code::REQUEST_CANCELLED, "request cancelled"),
            AskReply::Refused => {
                error(id, code::INTERNAL_ERROR, "too many requests are open; answer some first")
            }
        };
        // A refused ask does not make an event; the ledger has noted it as a request that is
        // served.
        let refused = LineNote::Answer { id: agent_request.bytes(), line: 0 };
        self.say_noted(frame, cause.map_or(refused, LineNote::Effect))
    }

    /// Answers an elicitation that no client fills in.
    pub(super) fn cancel_elicitation(&self, agent_request: &Raw) -> Result<(), StdinStalled> {
        self.say_answer(agent_request.bytes(), cancelled_elicitation(agent_request))
    }

    /// A response frame under the agent's own id.
    pub(super) fn answer(&self, agent_request: &Raw, frame: &[u8]) -> Result<(), StdinStalled> {
        match wharf_acp::scan(frame) {
            Ok(envelope) => {
                let frame = wharf_acp::with_id(frame, &envelope, agent_request.bytes());
                self.say_answer(agent_request.bytes(), frame)
            }
            Err(_) => Ok(()),
        }
    }

    pub(super) fn fail(
        &self,
        agent_request: &Raw,
        code: i32,
        message: &str,
    ) -> Result<(), StdinStalled> {
        self.say_answer(agent_request.bytes(), error(agent_request.as_str(), code, message))
    }

    /// Refuses a request at once.
    pub(super) fn refuse(&self, frame: &[u8], envelope: &Envelope<'_>, code: i32, message: &str) {
        let id = envelope.id_text(frame);
        let _ = self.say_answer(id, error(id, code, message));
    }

    /// Refuses a request of which only the id could be read.
    pub(super) fn refuse_unread(&self, id: &str, message: &str) {
        let _ = self.say_answer(id.as_bytes(), error(id, code::INVALID_REQUEST, message));
    }

    pub(super) fn settle(&mut self, id: u64) -> Option<PendingRequest> {
        let owed = self.owed.remove(&id)?;
        if !matches!(owed, PendingRequest::Prompt(_)) {
            log_ledger_fault(self.outbox.ledger().lock().note_settled(id, self.line));
        }
        Some(owed)
    }

    pub(super) fn forwarded(&self, id: u64) -> Option<&Forwarded> {
        match self.owed.get(&id) {
            Some(PendingRequest::Forward(to)) => Some(to),
            Some(
                PendingRequest::Prompt(_)
                | PendingRequest::Call(_)
                | PendingRequest::Delete(_)
                | PendingRequest::Inherited(_),
            )
            | None => None,
        }
    }

    /// Notes on the requests for settings which of their values the agent reports.
    pub(super) fn note_reported(&mut self, settings: &AgentSettings) {
        for owed in self.owed.values_mut() {
            let (PendingRequest::Forward(Forwarded { kind, .. })
            | PendingRequest::Call(AgentCall { kind, .. })
            | PendingRequest::Inherited(kind)) = owed
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
        self.owed
            .values()
            .any(|owed| matches!(owed, PendingRequest::Forward(to) if to.client == *client))
    }

    /// Every client's request that will get no answer any more.
    pub(super) fn into_unanswered(self) -> Vec<Forwarded> {
        let forwards = self.owed.into_values().filter_map(|owed| match owed {
            PendingRequest::Forward(to) => Some(to),
            PendingRequest::Prompt(_)
            | PendingRequest::Call(_)
            | PendingRequest::Delete(_)
            | PendingRequest::Inherited(_) => None,
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
    pub(super) fn delete(
        &mut self,
        session: &str,
        done: oneshot::Sender<AgentDelete>,
    ) -> Result<(), StdinStalled> {
        let id = self.take_id();
        self.owed.insert(id, PendingRequest::Delete(done));
        self.say_noted(
            about_session("session/delete", id, session),
            LineNote::Request { id, setting: None },
        )
    }

    pub(super) fn note_elicitation(&mut self, agent_request: Bytes) {
        self.elicitations.insert(agent_request);
    }

    pub(super) fn take_id(&mut self) -> u64 {
        self.last_id += 2;
        self.last_id
    }
}

const fn note_effect(cause: Option<Seq>) -> LineNote<'static> {
    match cause {
        Some(seq) => LineNote::Effect(seq),
        None => LineNote::Plain,
    }
}

fn cancelled_elicitation(agent_request: &Raw) -> Bytes {
    rpc::response(agent_request.as_str(), json!({ "action": "cancel" }))
}

/// A request whose only parameter is the agent's id of a session.
pub(super) fn about_session(method: &str, id: u64, session: &str) -> Bytes {
    rpc::request(id, method, json!({ "sessionId": session }))
}

/// Makes an error response without data.
pub(super) fn error<'a>(id: impl Into<FrameId<'a>>, code: i32, message: &str) -> Bytes {
    rpc::error_response(id, rpc::error(code, message, None))
}
