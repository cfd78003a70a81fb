//! Decodes events.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::{CodecError, SNAPSHOT_VERSION};
use crate::{
    AgentSetting, AgentTraits, Ask, AskId, AskOutcome, Ending, Event, Fault, Millis, Origin, PauseReason, PromptEnd,
    PromptId, Raw, Sender, Seq, StartKind, StartNo, ToolCall, TurnLimit, UpdateKind,
};

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    at: Millis,
}

/// Parses the variant's members out of the body.
macro_rules! read {
    ($body:expr, $kind:expr, Event::$variant:ident { $($(#[$attr:meta])* $member:ident: $type:ty),* $(,)? }) => {{
        #[derive(Deserialize)]
        struct Members { $($(#[$attr])* $member: $type),* }
        let Members { $($member),* } = parse($body, $kind)?;
        Event::$variant { $($member),* }
    }};
}

/// Reads one encoded event. An update's frame shares the body's memory; unknown kinds are kept whole.
pub fn decode(body: &Bytes) -> Result<(Millis, Event), CodecError> {
    if let Some(update) = decode_update(body) {
        return Ok(update);
    }
    let head: Head<'_> =
        wharf_json::read_own(body).map_err(|error| CodecError::NotAnEvent { why: error.to_string().into() })?;
    let kind = head.kind.as_ref();
    let event = match kind {
        "created" => Event::Created(parse::<CreatedMembers>(body, kind)?.origin),
        "ended" => Event::Ended(parse::<EndedMembers>(body, kind)?.ending),
        "agent_starting" => read!(body, kind, Event::AgentStarting { start: StartNo, how: StartKind }),
        "agent_started" => read!(
            body,
            kind,
            Event::AgentStarted { start: StartNo, agent_session: Arc<str>, traits: AgentTraits, answer: Raw }
        ),
        "start_failed" => read!(
            body,
            kind,
            Event::StartFailed {
                start: StartNo,
                exit_code: Option<i32>,
                message: Option<Arc<str>>,
                retry_in: Millis,
            }
        ),
        "agent_updated" => parse_update(body, kind)?,
        "settings_changed" => read!(body, kind, Event::SettingsChanged { settings: Vec<AgentSetting> }),
        "ask_opened" => Event::AskOpened(parse::<AskMembers>(body, kind)?.ask),
        "ask_resolved" => {
            read!(body, kind, Event::AskResolved { ask: AskId, outcome: AskOutcome, by: Option<Sender> })
        }
        "agent_faulted" => read!(body, kind, Event::AgentFaulted { fault: Fault, detail: Arc<str> }),
        "paused" => read!(body, kind, Event::Paused { why: PauseReason }),
        "continued" => Event::Continued,
        "snapshot" => decode_snapshot(body, kind)?,
        _ => match decode_prompt_event(body, kind)? {
            Some(event) => event,
            None => Event::Unknown { kind: kind.into(), body: raw(body.clone(), kind)? },
        },
    };
    Ok((head.at, event))
}

fn decode_prompt_event(body: &Bytes, kind: &str) -> Result<Option<Event>, CodecError> {
    Ok(Some(match kind {
        "prompt_accepted" => read!(
            body,
            kind,
            Event::PromptAccepted {
                prompt: PromptId,
                sender: Sender,
                frame: Raw,
                key: Option<Arc<str>>,
                #[serde(default)]
                first: bool,
            }
        ),
        "prompt_updated" => {
            read!(body, kind, Event::PromptUpdated { prompt: PromptId, by: Sender, frame: Raw, sender: Option<Sender> })
        }
        "prompt_moved" => read!(body, kind, Event::PromptMoved { prompt: PromptId, by: Sender, position: usize }),
        "turn_started" => read!(body, kind, Event::TurnStarted { prompt: PromptId, content: Seq }),
        "cancel_requested" => read!(
            body,
            kind,
            Event::CancelRequested {
                prompt: PromptId,
                by: Option<Sender>,
                limit: Option<TurnLimit>,
                reason: Option<Arc<str>>,
            }
        ),
        "prompt_ended" => read!(body, kind, Event::PromptEnded { prompt: PromptId, end: PromptEnd }),
        "prompt_requeued" => read!(body, kind, Event::PromptRequeued { prompt: PromptId }),
        _ => return Ok(None),
    }))
}

#[derive(Deserialize)]
struct CreatedMembers {
    origin: Origin,
}

#[derive(Deserialize)]
struct EndedMembers {
    ending: Ending,
}

#[derive(Deserialize)]
struct AskMembers {
    ask: Ask,
}

/// Decodes an update on the hot path: exactly the spelling of `encode`. Returns `None` for any other spelling, which is
/// left to the parser.
fn decode_update(body: &Bytes) -> Option<(Millis, Event)> {
    let rest = body.strip_prefix(br#"{"kind":"agent_updated","at":"#)?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    // A u64 has at most 20 digits; 19 cannot overflow.
    if digits == 0 || digits > 19 {
        return None;
    }
    let (number, rest) = rest.split_at(digits);
    let at = number.iter().fold(0, |at: u64, digit| at * 10 + u64::from(digit - b'0'));
    let rest = rest.strip_prefix(br#","update":""#)?;
    let (tag, rest) = rest.split_at(rest.iter().position(|byte| *byte == b'"')?);
    // An update with a title or a tool call is rare and may hold escapes, so it is left to the parser.
    let frame = rest.strip_prefix(br#"","frame":"#)?.strip_suffix(b"}")?;
    let update = UpdateKind::from_tag(std::str::from_utf8(tag).ok()?);
    let frame = Raw::new(body.slice_ref(frame))?;
    Some((Millis(at), Event::AgentUpdated { update, frame, title: None, tool: None }))
}

fn parse_update(body: &Bytes, kind: &str) -> Result<Event, CodecError> {
    #[derive(Deserialize)]
    struct Members<'a> {
        #[serde(borrow)]
        update: Cow<'a, str>,
        title: Option<Arc<str>>,
        tool: Option<ToolCall>,
        #[serde(borrow)]
        frame: &'a RawValue,
    }
    let Members { update, title, tool, frame } = wharf_json::read_own(body).map_err(|error| malformed(kind, &error))?;
    let frame = raw(body.slice_ref(frame.get().as_bytes()), kind)?;
    Ok(Event::AgentUpdated { update: UpdateKind::from_tag(&update), frame, title, tool })
}

fn decode_snapshot(body: &Bytes, kind: &str) -> Result<Event, CodecError> {
    #[derive(Deserialize)]
    struct Version {
        v: u32,
    }
    #[derive(Deserialize)]
    struct Members<'a> {
        #[serde(borrow)]
        saved: &'a RawValue,
    }
    let Members { saved } = wharf_json::read_own(body).map_err(|error| malformed(kind, &error))?;
    let Version { v: found } = wharf_json::read_own(saved.get().as_bytes()).map_err(|error| malformed(kind, &error))?;
    if found > SNAPSHOT_VERSION {
        return Err(CodecError::Newer { found, known: SNAPSHOT_VERSION });
    }
    Ok(Event::Snapshot(raw(body.slice_ref(saved.get().as_bytes()), kind)?))
}

fn parse<T: DeserializeOwned>(body: &[u8], kind: &str) -> Result<T, CodecError> {
    wharf_json::read_own(body).map_err(|error| malformed(kind, &error))
}

fn raw(text: Bytes, kind: &str) -> Result<Raw, CodecError> {
    Raw::new(text).ok_or_else(|| CodecError::Malformed { kind: kind.into(), why: "not one line of UTF-8".into() })
}

fn malformed(kind: &str, error: &serde_json::Error) -> CodecError {
    CodecError::Malformed { kind: kind.into(), why: error.to_string().into() }
}
