//! Sorts the messages of the agent: facts for the core, responses for the clients that sent the
//! requests, and requests for the party that can serve them.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use serde::Deserialize;
use wharf_acp::{Envelope, FrameKind, Payload, Span, ToolUpdate};
use wharf_core::{
    AgentInput, AskKind, ClientId, Fault, Input, Raw, ToolCall, ToolCallState, UpdateKind,
};
use wharf_json::Json;
use wharf_json::rpc::{Salvaged, code, salvage, salvage_head};

use super::link::AgentDelete;
use super::writer::{AgentCall, AgentWriter, ForwardKind, Forwarded, PendingRequest, error};
use crate::agent::initialize::classify_fault;
use crate::agent::lines::FrameLine;
use crate::session::agent_calls::AgentAnswer;

/// The buffer that the frames of a stream are cut from: one allocation serves some hundred of them.
const ARENA_BYTES: usize = 64 * 1024;

/// The longest id of a tool call that is kept.
const MAX_TOOL_ID_BYTES: usize = 1_024;

/// The meaning of a line.
#[derive(Debug)]
pub(super) enum AgentMessage {
    Nothing,
    Input(Input),
    Fault(Fault, String),
    /// A line that could not be read and that names requests under way: they fail.
    Malformed {
        kind: Fault,
        detail: String,
        failed: Vec<Self>,
    },
    /// The answer to a request that a client made.
    Answer {
        to: Forwarded,
        frame: Bytes,
        ok: bool,
    },
    /// The answer to the request of a caller that waits for it.
    Called {
        call: AgentCall,
        answer: AgentAnswer,
    },
    /// The agent agreed to a request whose caller went with an earlier host.
    Agreed {
        kind: ForwardKind,
        frame: Bytes,
    },
    /// A request that one client is to answer, or Wharf itself.
    Request(AgentRequest),
    /// The agent takes back a request.
    Withdrawn {
        agent_request: Raw,
    },
    /// A notification for one client. It is not a fact, so the log does not get it.
    Note(Bytes),
}

impl AgentMessage {
    /// Returns true if the line that this message was made of is not JSON at all.
    pub(super) fn is_stray(&self, line: &[u8]) -> bool {
        matches!(self, Self::Fault(Fault::Malformed | Fault::NotUtf8, _) | Self::Malformed { .. })
            && Json::parse(line).is_err()
    }
}

#[derive(Debug)]
pub(in crate::session) struct AgentRequest {
    pub(in crate::session) method: String,
    pub(in crate::session) agent_request: Raw,
    /// With Wharf's session id, and ids inside restored.
    pub(in crate::session) frame: Bytes,
    pub(in crate::session) whom: Whom,
}

/// The party that answers a request that is not for all clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::session) enum Whom {
    /// The client that serves files and terminals, or Wharf.
    Server,
    /// The sender of the running prompt.
    Prompter,
    /// The client whose own request led to this one.
    Requester(ClientId),
}

/// Parses lines of the agent into messages.
#[derive(Debug)]
pub(super) struct AgentFrameParser {
    /// Wharf's id of the session, as JSON.
    session: Bytes,
    arena: BytesMut,
}

impl AgentFrameParser {
    pub(super) fn new(session: &str) -> Self {
        Self {
            session: serde_json::Value::from(session).to_string().into(),
            arena: BytesMut::new(),
        }
    }

    pub(super) fn parse(&mut self, line: FrameLine<'_>, writer: &mut AgentWriter) -> AgentMessage {
        let frame = match line {
            FrameLine::Frame(frame) => frame,
            FrameLine::Oversized { bytes, head } => {
                let detail = format!("a line of {bytes} bytes was skipped (limits.frame)");
                return malformed(Fault::Oversized, detail, &salvage_head(head), writer);
            }
        };
        let envelope = match wharf_acp::scan(frame) {
            Ok(envelope) => envelope,
            Err(error) => {
                let (kind, detail) = classify_fault(&error);
                return malformed(kind, detail, &salvage(frame), writer);
            }
        };
        if envelope.has_null_members {
            return match wharf_acp::without_null_members(frame, envelope.kind) {
                Ok(plain) => self.parse(FrameLine::Frame(&plain), writer),
                Err(error) => {
                    malformed(Fault::Malformed, error.to_string(), &salvage(frame), writer)
                }
            };
        }
        // First: within another member a `wharf` of the agent says nothing any more.
        let changed = if envelope.has_odd_meta && is_logged(&envelope.method) {
            Some(wharf_acp::wrap_odd_meta(frame))
        } else if envelope.has_wharf_meta {
            Some(wharf_acp::rename_wharf_meta(frame))
        } else {
            None
        };
        match changed {
            Some(Ok(changed)) => return self.parse(FrameLine::Frame(&changed), writer),
            Some(Err(error)) => {
                return malformed(Fault::Malformed, error.to_string(), &salvage(frame), writer);
            }
            None => {}
        }
        if let Some(session) =
            envelope.session.as_ref().filter(|session| session.value != writer.session())
        {
            return refuse_session(frame, &envelope, &format!("session {}", session.value), writer);
        }
        match envelope.kind {
            FrameKind::Notification => self.notified(frame, &envelope),
            FrameKind::Request => self.asked(frame, &envelope, writer),
            FrameKind::Result | FrameKind::Error => answered(frame, &envelope, writer),
        }
    }

    fn notified(&mut self, frame: &[u8], envelope: &Envelope<'_>) -> AgentMessage {
        match envelope.method.as_ref() {
            "session/update" => self.updated(frame, envelope).map_or_else(
                || {
                    AgentMessage::Fault(
                        Fault::ForeignSession,
                        "session/update without a sessionId".to_owned(),
                    )
                },
                AgentMessage::Input,
            ),
            "$/cancel_request" => {
                let request = match wharf_acp::peek::<CancelRequest<'_>>(frame) {
                    Ok(request) => request.params.request_id,
                    Err(error) => {
                        return AgentMessage::Fault(
                            Fault::Malformed,
                            format!("$/cancel_request: {error}"),
                        );
                    }
                };
                let agent_request = Raw::new(request.raw().to_owned());
                agent_request.map_or(AgentMessage::Nothing, |agent_request| {
                    AgentMessage::Withdrawn { agent_request }
                })
            }
            _ => AgentMessage::Note(self.copied(frame, envelope, None)),
        }
    }

    fn updated(&mut self, frame: &[u8], envelope: &Envelope<'_>) -> Option<Input> {
        let update = envelope.update.unwrap_or(UpdateKind::Other);
        let is_tool = matches!(update, UpdateKind::ToolCall | UpdateKind::ToolCallUpdate);
        let tool = if is_tool { tool_call(frame, update) } else { None };
        let frame = self.rewritten(frame, envelope, update.is_state())?;
        let told = envelope.title.as_deref().filter(|_| update == UpdateKind::SessionInfoUpdate);
        let title = told.map(Arc::from);
        Some(Input::Agent(AgentInput::Updated { update, frame, title, tool }))
    }

    fn asked(
        &mut self,
        frame: &[u8],
        envelope: &Envelope<'_>,
        writer: &mut AgentWriter,
    ) -> AgentMessage {
        let id = envelope
            .id
            .clone()
            .and_then(|span| Raw::new(wharf_acp::one_line(Bytes::copy_from_slice(&frame[span]))));
        let Some(agent_request) = id else { return AgentMessage::Nothing };
        match envelope.method.as_ref() {
            "session/request_permission" => self.permission(frame, envelope, agent_request, writer),
            "elicitation/create" => self.elicitation(frame, envelope, agent_request, writer),
            method => {
                let served = method.starts_with("fs/") || method.starts_with("terminal/");
                AgentMessage::Request(AgentRequest {
                    method: method.to_owned(),
                    agent_request,
                    frame: self.copied(frame, envelope, None),
                    whom: if served { Whom::Server } else { Whom::Prompter },
                })
            }
        }
    }

    fn permission(
        &mut self,
        frame: &[u8],
        envelope: &Envelope<'_>,
        agent_request: Raw,
        writer: &AgentWriter,
    ) -> AgentMessage {
        let request = match wharf_acp::peek::<PermissionRequest<'_>>(frame) {
            Ok(request) => request,
            Err(error) => {
                writer.refuse(
                    frame,
                    envelope,
                    code::INVALID_PARAMS,
                    &format!("options with optionId are needed: {error}"),
                );
                return AgentMessage::Fault(
                    Fault::Malformed,
                    format!("a permission request without options: {error}"),
                );
            }
        };
        let ids = request
            .params
            .options
            .iter()
            .map(|option| option.option_id.text_or_number().map(Arc::from));
        let Some(options) = ids.collect() else {
            let why = "an optionId is neither a text nor a number";
            writer.refuse(frame, envelope, code::INVALID_PARAMS, why);
            return AgentMessage::Fault(Fault::Malformed, format!("a permission request: {why}"));
        };
        let tool_call = request.params.tool_call.map(|call| Arc::from(call.tool_call_id.as_ref()));
        match self.rewritten(frame, envelope, true) {
            Some(frame) => AgentMessage::Input(Input::Agent(AgentInput::Asked {
                kind: AskKind::Permission,
                agent_request,
                frame,
                options,
                tool_call,
            })),
            None => refuse_session(frame, envelope, "no session", writer),
        }
    }

    /// A form for the session goes to everyone; a link goes to the one who prompts; what belongs to
    /// a request goes to whoever made that (rule 3.7).
    fn elicitation(
        &mut self,
        frame: &[u8],
        envelope: &Envelope<'_>,
        agent_request: Raw,
        writer: &mut AgentWriter,
    ) -> AgentMessage {
        let request = match wharf_acp::peek::<Elicitation<'_>>(frame) {
            Ok(request) => request,
            Err(error) => {
                writer.refuse(
                    frame,
                    envelope,
                    code::INVALID_PARAMS,
                    &format!("the elicitation cannot be read: {error}"),
                );
                return AgentMessage::Fault(
                    Fault::Malformed,
                    format!("an elicitation that cannot be read: {error}"),
                );
            }
        };
        let method = envelope.method.to_string();
        if let Some(inner) = request.params.request_id {
            let asker = inner.id_number().and_then(|id| writer.forwarded(id)).cloned();
            let Some(asker) = asker else {
                writer.refuse(frame, envelope, code::INVALID_PARAMS, "no such request");
                return AgentMessage::Nothing;
            };
            let own = inner.span_in(frame).map(|span| (span, asker.request.clone()));
            let frame = self.copied(frame, envelope, own);
            return AgentMessage::Request(AgentRequest {
                method,
                agent_request,
                frame,
                whom: Whom::Requester(asker.client),
            });
        }
        if request.params.mode.as_deref() == Some("url") {
            let frame = self.copied(frame, envelope, None);
            return AgentMessage::Request(AgentRequest {
                method,
                agent_request,
                frame,
                whom: Whom::Prompter,
            });
        }
        let Some(frame) = self.rewritten(frame, envelope, true) else {
            return refuse_session(frame, envelope, "no session", writer);
        };
        writer.note_elicitation(agent_request.bytes().clone());
        AgentMessage::Input(Input::Agent(AgentInput::Asked {
            kind: AskKind::Elicitation,
            agent_request,
            frame,
            options: Vec::new(),
            tool_call: None,
        }))
    }

    /// A frame for one client: Wharf's session id where the agent's was, and one more part
    /// replaced.
    fn copied(&self, frame: &[u8], envelope: &Envelope<'_>, other: Option<(Span, Bytes)>) -> Bytes {
        let mut parts: Vec<(Span, &[u8])> = Vec::with_capacity(2);
        if let Some(session) = &envelope.session {
            parts.push((session.span.clone(), &self.session));
        }
        if let Some((span, with)) = &other {
            parts.push((span.clone(), with));
        }
        wharf_acp::one_line(wharf_acp::splice(frame, &mut parts).into())
    }

    /// The frame with Wharf's session id. What stays for long is copied, so that it does not keep
    /// the arena alive.
    fn rewritten(&mut self, frame: &[u8], envelope: &Envelope<'_>, keep: bool) -> Option<Raw> {
        let span = envelope.session.as_ref()?.span.clone();
        let parts = [&frame[..span.start], &self.session[..], &frame[span.end..]];
        let length = parts.iter().map(|part| part.len()).sum();
        // Lines come without line breaks, but a bare carriage return may stand between tokens.
        let clean = memchr::memchr(b'\r', frame).is_none();
        if keep || length > ARENA_BYTES / 2 || !clean {
            return Raw::new(wharf_acp::one_line(parts.concat().into()));
        }
        if self.arena.capacity() < length {
            self.arena = BytesMut::with_capacity(ARENA_BYTES);
        }
        for part in parts {
            self.arena.put_slice(part);
        }
        Some(Raw::new_checked_before(self.arena.split().freeze()))
    }
}

/// Returns true if frames of this method can get into the log, and from there to clients with their
/// event id.
fn is_logged(method: &str) -> bool {
    matches!(method, "session/update" | "session/request_permission" | "elicitation/create")
}

/// Refuses a message for a session that is not the agent's own: it would act in the name of
/// another.
fn refuse_session(
    frame: &[u8],
    envelope: &Envelope<'_>,
    named: &str,
    writer: &AgentWriter,
) -> AgentMessage {
    if envelope.kind == FrameKind::Request {
        writer.refuse(frame, envelope, code::INVALID_PARAMS, "not a session of this connection");
    }
    AgentMessage::Fault(Fault::ForeignSession, format!("{} for {named}", envelope.method))
}

/// The tool call that the update begins or ends. One whose id is longer than any agent's is not
/// followed.
fn tool_call(frame: &[u8], update: UpdateKind) -> Option<ToolCall> {
    let call = ToolUpdate::of(Payload::open_bytes(frame).ok()?);
    let id = call.id().ok()??;
    let status = call.status().ok()?;
    let state = match status.as_deref() {
        Some("pending" | "in_progress") => ToolCallState::Open,
        // A call begins as pending.
        None if update == UpdateKind::ToolCall => ToolCallState::Open,
        // A word that is not known may be an end.
        Some(_) => ToolCallState::Closed,
        None => return None,
    };
    (id.len() <= MAX_TOOL_ID_BYTES).then(|| ToolCall { id: id.as_ref().into(), state })
}

fn answered(frame: &[u8], envelope: &Envelope<'_>, writer: &mut AgentWriter) -> AgentMessage {
    let id = envelope.id_number(frame);
    // Not ours, or settled without it: dropped (rule 3.15).
    let Some(owed) = id.and_then(|id| writer.settle(id)) else { return AgentMessage::Nothing };
    let ok = envelope.kind == FrameKind::Result;
    let copy = wharf_acp::one_line(Bytes::copy_from_slice(frame));
    match owed {
        PendingRequest::Delete(done) => {
            let _ = done.send(AgentDelete::from_answer(ok));
            AgentMessage::Nothing
        }
        PendingRequest::Forward(to) => {
            let frame = wharf_acp::scan(&copy)
                .map(|envelope| wharf_acp::with_id(&copy, &envelope, &to.request));
            frame.map_or(AgentMessage::Nothing, |frame| AgentMessage::Answer { to, frame, ok })
        }
        PendingRequest::Call(call) => {
            AgentMessage::Called { call, answer: AgentAnswer { frame: copy, is_result: ok } }
        }
        PendingRequest::Inherited(kind) if ok => AgentMessage::Agreed { kind, frame: copy },
        PendingRequest::Inherited(_) => AgentMessage::Nothing,
        PendingRequest::Prompt(prompt) => {
            let stop_reason = ok.then(|| stop_reason(frame));
            let frame = Raw::new(copy);
            frame.map_or(AgentMessage::Nothing, |frame| {
                AgentMessage::Input(Input::Agent(AgentInput::Answered {
                    prompt,
                    stop_reason,
                    frame,
                    stderr: None,
                }))
            })
        }
    }
}

/// The agent's word for how a turn ended. An answer without one ends the turn all the same.
fn stop_reason(frame: &[u8]) -> Arc<str> {
    let told = Json::parse(frame).and_then(|answer| answer.text_at(&["result", "stopReason"]));
    told.ok().flatten().map_or_else(|| "unknown".into(), Arc::from)
}

/// Handles a line that could not be read, so that neither side waits in vain for its messages:
/// refuses a request of the agent, and fails the request that an answer of the agent belongs to.
fn malformed(
    kind: Fault,
    detail: String,
    found: &[Salvaged],
    writer: &mut AgentWriter,
) -> AgentMessage {
    let mut failed = Vec::new();
    for message in found {
        let before = failed.len();
        if message.may_be_answer() {
            let why = format!("the agent's answer could not be read: {detail}");
            failed.extend(message.id_numbers().filter_map(|id| fail_owed(id, &why, writer)));
        }
        if message.has_method && failed.len() == before {
            let why = format!("the request could not be read: {detail}");
            message.ids.iter().for_each(|id| writer.refuse_unread(id, &why));
        }
    }
    if failed.is_empty() {
        return AgentMessage::Fault(kind, detail);
    }
    AgentMessage::Malformed { kind, detail, failed }
}

fn fail_owed(id: u64, message: &str, writer: &mut AgentWriter) -> Option<AgentMessage> {
    Some(match writer.settle(id)? {
        PendingRequest::Delete(done) => {
            let _ = done.send(AgentDelete::Failed);
            AgentMessage::Nothing
        }
        PendingRequest::Forward(to) => {
            let frame = error(&to.request, code::INTERNAL_ERROR, message);
            AgentMessage::Answer { to, frame, ok: false }
        }
        PendingRequest::Call(call) => {
            let frame = error(id, code::INTERNAL_ERROR, message);
            AgentMessage::Called { call, answer: AgentAnswer { frame, is_result: false } }
        }
        PendingRequest::Inherited(_) => AgentMessage::Nothing,
        PendingRequest::Prompt(prompt) => {
            let frame = Raw::new(error(id, code::INTERNAL_ERROR, message))?;
            AgentMessage::Input(Input::Agent(AgentInput::Answered {
                prompt,
                stop_reason: None,
                frame,
                stderr: None,
            }))
        }
    })
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
    request_id: Json<'a>,
}

#[derive(Deserialize)]
struct Elicitation<'a> {
    #[serde(borrow)]
    params: ElicitationParams<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ElicitationParams<'a> {
    #[serde(borrow)]
    mode: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow)]
    request_id: Option<Json<'a>>,
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
    tool_call: Option<AskedToolCall<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PermissionOption<'a> {
    #[serde(borrow)]
    option_id: Json<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AskedToolCall<'a> {
    #[serde(borrow)]
    tool_call_id: std::borrow::Cow<'a, str>,
}
