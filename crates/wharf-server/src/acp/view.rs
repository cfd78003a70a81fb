//! The ACP view of a session's events, for one client.

use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use wharf_host::core::{Ask, Event, PromptEnd, Raw, Role, Seq, SessionId, UpdateKind};
use wharf_host::{Entry, frame};

use super::errors::from_end;
use super::ledger::Ledger;

/// How one client sees one session.
#[derive(Debug)]
pub(super) struct View {
    session: SessionId,
    role: Role,
    ledger: Arc<Ledger>,
    /// Events up to here are history: shown as such, and asks in them are not asked again.
    history: Seq,
    turn: TurnSeen,
}

/// What this client knows of the turn that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TurnSeen {
    None,
    Own,
    Other,
}

/// What an event comes to.
#[derive(Debug)]
pub(super) enum Shown {
    Nothing,
    Frame(Bytes),
    Frames(Vec<Bytes>),
    /// A prompt of someone else (or of the past) begins; its frame is in the event `content`.
    Prompt {
        content: Seq,
    },
}

impl View {
    pub(super) fn new(session: SessionId, role: Role, ledger: Arc<Ledger>, history: Seq, turn: TurnSeen) -> Self {
        Self { session, role, ledger, history, turn }
    }

    pub(super) fn session(&self) -> &SessionId {
        &self.session
    }

    /// The frame for an event, if it is one that this client is to see.
    pub(super) fn show(&mut self, entry: &Entry) -> Shown {
        let live = entry.seq > self.history;
        match &entry.event {
            Event::AgentUpdated { update: UpdateKind::UserMessageChunk, frame, .. } => self.echo(frame, live),
            Event::AgentUpdated { frame, .. } => Shown::Frame(frame.bytes().clone()),
            Event::TurnStarted { prompt, content } => {
                let own = live && self.ledger.owes(prompt);
                self.turn = if own { TurnSeen::Own } else { TurnSeen::Other };
                if own { Shown::Nothing } else { Shown::Prompt { content: *content } }
            }
            Event::PromptEnded { prompt, end } => {
                self.turn = TurnSeen::None;
                match self.ledger.settle(prompt) {
                    Some(request) => Shown::Frame(response(end, &request, self.session.as_str())),
                    None => Shown::Nothing,
                }
            }
            Event::AskOpened(ask) if live => self.ask(ask).map_or(Shown::Nothing, Shown::Frame),
            Event::AskResolved { ask, .. } => {
                Shown::Frames(self.ledger.withdraw(&self.session, *ask).into_iter().map(cancel_request).collect())
            }
            Event::AskOpened(_)
            | Event::Created(_)
            | Event::AgentStarting { .. }
            | Event::AgentStarted { .. }
            | Event::Ended(_)
            | Event::PromptAccepted { .. }
            | Event::PromptUpdated { .. }
            | Event::PromptMoved { .. }
            | Event::PromptRequeued { .. }
            | Event::CancelRequested { .. }
            | Event::AgentFaulted { .. }
            | Event::Snapshot(_)
            | Event::Unknown { .. } => Shown::Nothing,
        }
    }

    /// The request for an open ask, with an id of this connection. Observers are not asked.
    pub(super) fn ask(&self, ask: &Ask) -> Option<Bytes> {
        if self.role == Role::Observer {
            return None;
        }
        let envelope = frame::scan(ask.frame.bytes()).ok()?;
        let id = self.ledger.show(self.session.clone(), ask.id);
        Some(frame::with_id(ask.frame.bytes(), &envelope, id.to_string().as_bytes()))
    }

    /// The agent's echo of a running prompt is for its sender only and no part of the history: the prompt itself is
    /// shown instead (rule 4.5). Outside a turn it is news like any other.
    fn echo(&self, frame: &Raw, live: bool) -> Shown {
        match self.turn {
            TurnSeen::Own if live => Shown::Frame(frame.bytes().clone()),
            TurnSeen::None => Shown::Frame(frame.bytes().clone()),
            TurnSeen::Own | TurnSeen::Other => Shown::Nothing,
        }
    }
}

fn cancel_request(request: u64) -> Bytes {
    format!(r#"{{"jsonrpc":"2.0","method":"$/cancel_request","params":{{"requestId":{request}}}}}"#).into()
}

/// The response to the prompt's own request.
fn response(end: &PromptEnd, request: &[u8], session: &str) -> Bytes {
    if let PromptEnd::Answered { frame, .. } | PromptEnd::Failed { frame } = end
        && let Ok(envelope) = frame::scan(frame.bytes())
    {
        return frame::with_id(frame.bytes(), &envelope, request);
    }
    match from_end(end, session) {
        Some(error) => error.frame(request),
        None => {
            let id = String::from_utf8_lossy(request);
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"stopReason":"cancelled"}}}}"#).into()
        }
    }
}

#[derive(Deserialize)]
struct PromptRequest<'a> {
    #[serde(borrow)]
    params: PromptParams<'a>,
}

#[derive(Deserialize)]
struct PromptParams<'a> {
    #[serde(borrow)]
    prompt: Vec<&'a RawValue>,
}

/// A prompt as the standard updates that show a user's message, one per content block.
pub(super) fn user_message(session: &SessionId, prompt: &Raw) -> Vec<Bytes> {
    let Some(request) = frame::peek::<PromptRequest<'_>>(prompt.bytes()) else { return Vec::new() };
    let blocks = request.params.prompt.iter().map(|block| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{session}","update":{{"sessionUpdate":"user_message_chunk","content":{}}}}}}}"#,
            block.get()
        )
        .into()
    });
    blocks.collect()
}
