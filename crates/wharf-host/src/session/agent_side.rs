//! What the agent says, as inputs for the core; and what the core wants said, as frames for the agent.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use serde::Deserialize;
use serde_json::value::RawValue;
use wharf_core::{AskKind, AskReply, Fault, Input, PromptId, Raw, UpdateKind};

use super::link::AgentLink;
use crate::agent::introduction::{fault, not_yet};
use crate::frame::{self, Envelope, FrameKind, Line};

/// The buffer that the frames of a stream are cut from: one allocation serves some hundred of them.
const ARENA: usize = 64 * 1024;

/// Turns lines into inputs.
#[derive(Debug)]
pub(super) struct Ear {
    /// Wharf's id of the session, as JSON.
    session: Bytes,
    arena: BytesMut,
}

impl Ear {
    pub(super) fn new(session: &str) -> Self {
        Self { session: serde_json::Value::from(session).to_string().into(), arena: BytesMut::new() }
    }

    /// One line; `None` if it means nothing to the session.
    pub(super) fn hear(&mut self, line: Line<'_>, link: &mut LinkView<'_>) -> Option<Input> {
        let frame = match line {
            Line::Frame(frame) => frame,
            Line::Oversized { bytes } => {
                return link.fault(Fault::Oversized, format!("a line of {bytes} bytes was skipped (limits.frame)"));
            }
        };
        let envelope = match frame::scan(frame) {
            Ok(envelope) => envelope,
            Err(error) => {
                let (kind, detail) = fault(&error);
                return link.fault(kind, detail);
            }
        };
        match envelope.kind {
            FrameKind::Notification => self.notified(frame, &envelope, link),
            FrameKind::Request => self.asked(frame, &envelope, link),
            FrameKind::Result | FrameKind::Error => answered(frame, &envelope, link),
        }
    }

    fn notified(&mut self, frame: &[u8], envelope: &Envelope<'_>, link: &mut LinkView<'_>) -> Option<Input> {
        match envelope.method.as_ref() {
            "session/update" => {
                if !link.owns(envelope) {
                    return link.foreign(envelope);
                }
                let update = envelope.update.unwrap_or(UpdateKind::Other);
                let frame = self.rewritten(frame, envelope, update.is_state())?;
                let told = envelope.title.as_deref().filter(|_| update == UpdateKind::SessionInfoUpdate);
                let title = told.map(Arc::from);
                Some(Input::AgentUpdated { update, frame, title })
            }
            "$/cancel_request" => {
                let cancel: CancelRequest<'_> = frame::peek(frame)?;
                let agent_request = Raw::new(cancel.params.request_id.get().to_owned())?;
                Some(Input::AgentWithdrew { agent_request })
            }
            _ => None,
        }
    }

    fn asked(&mut self, frame: &[u8], envelope: &Envelope<'_>, link: &mut LinkView<'_>) -> Option<Input> {
        if envelope.method != "session/request_permission" || !link.owns(envelope) {
            link.reply(not_yet(frame, envelope));
            return None;
        }
        let Some(request) = frame::peek::<PermissionRequest<'_>>(frame) else {
            link.reply(invalid(frame, envelope));
            return link.fault(Fault::Malformed, "a permission request without options".to_owned());
        };
        let agent_request = Raw::new(Bytes::copy_from_slice(&frame[envelope.id.clone()?]))?;
        let options = request.params.options.iter().map(|option| Arc::from(option.option_id.as_ref())).collect();
        let tool_call = request.params.tool_call.map(|call| Arc::from(call.tool_call_id.as_ref()));
        let frame = self.rewritten(frame, envelope, true)?;
        Some(Input::AgentAsked { kind: AskKind::Permission, agent_request, frame, options, tool_call })
    }

    /// The frame with Wharf's session id. What stays for long is copied, so that it does not keep the arena alive.
    fn rewritten(&mut self, frame: &[u8], envelope: &Envelope<'_>, keep: bool) -> Option<Raw> {
        let span = envelope.session.as_ref()?.span.clone();
        let parts = [&frame[..span.start], &self.session[..], &frame[span.end..]];
        let length = parts.iter().map(|part| part.len()).sum();
        // Lines come without line breaks, but a bare carriage return may stand between tokens.
        let clean = memchr::memchr(b'\r', frame).is_none();
        if keep || length > ARENA / 2 || !clean {
            return Raw::new(frame::one_line(parts.concat().into()));
        }
        if self.arena.capacity() < length {
            self.arena = BytesMut::with_capacity(ARENA);
        }
        for part in parts {
            self.arena.put_slice(part);
        }
        Some(Raw::new_checked_before(self.arena.split().freeze()))
    }
}

/// What hearing needs of the link, apart from the reader that the line is borrowed from.
pub(super) struct LinkView<'a> {
    pub(super) agent_session: &'a str,
    pub(super) prompts: &'a mut std::collections::HashMap<u64, PromptId>,
    pub(super) outbox: &'a crate::agent::Outbox,
    pub(super) fault: &'a mut Option<(Fault, String)>,
}

impl LinkView<'_> {
    fn owns(&self, envelope: &Envelope<'_>) -> bool {
        envelope.session.as_ref().is_some_and(|session| session.value == self.agent_session)
    }

    fn foreign(&mut self, envelope: &Envelope<'_>) -> Option<Input> {
        let id = envelope.session.as_ref().map_or("none", |session| session.value.as_ref());
        self.fault(Fault::ForeignSession, format!("{} for session {id}", envelope.method))
    }

    fn fault(&mut self, fault: Fault, detail: String) -> Option<Input> {
        *self.fault = Some((fault, detail));
        None
    }

    fn reply(&self, frame: Bytes) {
        let _ = self.outbox.send(frame);
    }
}

fn answered(frame: &[u8], envelope: &Envelope<'_>, link: &mut LinkView<'_>) -> Option<Input> {
    let id: u64 = std::str::from_utf8(&frame[envelope.id.clone()?]).ok()?.parse().ok()?;
    // Not a prompt, or one whose turn was settled without it: dropped (rule 3.15).
    let prompt = link.prompts.remove(&id)?;
    let stop_reason = match envelope.kind {
        FrameKind::Error => None,
        FrameKind::Result | FrameKind::Request | FrameKind::Notification => {
            let answer = frame::peek::<PromptAnswer<'_>>(frame);
            Some(answer.and_then(|answer| answer.result.stop_reason).map_or_else(|| "unknown".into(), Arc::from))
        }
    };
    let frame = Raw::new(frame::one_line(Bytes::copy_from_slice(frame)))?;
    Some(Input::AgentAnswered { prompt, stop_reason, frame })
}

impl AgentLink {
    /// Sends a prompt and remembers which answer will be its own.
    pub(super) fn send_prompt(&mut self, prompt: PromptId, frame: &Raw) {
        let id = self.next_id();
        let Ok(envelope) = frame::scan(frame.bytes()) else { return };
        let frame = frame::with_session(frame.bytes(), &envelope, &self.agent_session, Some(id.to_string().as_bytes()));
        self.prompts.insert(id, prompt);
        self.send(frame);
    }

    pub(super) fn send_cancel(&self) {
        let session = serde_json::Value::from(self.agent_session.as_str());
        let frame = format!(r#"{{"jsonrpc":"2.0","method":"session/cancel","params":{{"sessionId":{session}}}}}"#);
        self.send(frame.into());
    }

    pub(super) fn answer_ask(&self, agent_request: &Raw, reply: &AskReply) {
        let id = agent_request.as_str();
        let frame = match reply {
            AskReply::Frame(frame) => match frame::scan(frame.bytes()) {
                Ok(envelope) => frame::with_id(frame.bytes(), &envelope, id.as_bytes()),
                Err(_) => return,
            },
            AskReply::Cancelled => {
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"outcome":{{"outcome":"cancelled"}}}}}}"#).into()
            }
            AskReply::Withdrawn => error(id, -32800, "request cancelled"),
            AskReply::Refused => error(id, -32603, "too many requests are open; answer some first"),
        };
        self.send(frame);
    }
}

fn invalid(frame: &[u8], envelope: &Envelope<'_>) -> Bytes {
    let id = envelope.id.clone().map_or(&b"null"[..], |span| &frame[span]);
    error(&String::from_utf8_lossy(id), -32602, "options with optionId are missing")
}

fn error(id: &str, code: i32, message: &str) -> Bytes {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{message}"}}}}"#).into()
}

#[derive(Deserialize)]
struct CancelRequest<'a> {
    #[serde(borrow)]
    params: CancelParams<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CancelParams<'a> {
    #[serde(borrow)]
    request_id: &'a RawValue,
}

#[derive(Deserialize)]
struct PermissionRequest<'a> {
    #[serde(borrow)]
    params: PermissionParams<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PermissionParams<'a> {
    #[serde(borrow)]
    options: Vec<PermissionOption<'a>>,
    #[serde(borrow)]
    tool_call: Option<ToolCall<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PermissionOption<'a> {
    #[serde(borrow)]
    option_id: std::borrow::Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolCall<'a> {
    #[serde(borrow)]
    tool_call_id: std::borrow::Cow<'a, str>,
}

#[derive(Deserialize)]
struct PromptAnswer<'a> {
    #[serde(borrow)]
    result: PromptResult<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PromptResult<'a> {
    #[serde(borrow)]
    stop_reason: Option<std::borrow::Cow<'a, str>>,
}
