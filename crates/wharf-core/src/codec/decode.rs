//! Decodes events.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::{CodecError, SNAPSHOT_VERSION};
use crate::{
    AgentEvent, AgentSetting, AgentTraits, Ask, AskEvent, AskId, AskOutcome, Ending, Event, Fault,
    Millis, Origin, PauseReason, PromptEnd, PromptEvent, PromptId, Raw, Sender, Seq, SessionEvent,
    StartKind, StartNo, StorageEvent, ToolCall, TurnLimit, UpdateKind,
};

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    at: Millis,
}

/// Parses the variant's members out of the body.
macro_rules! read {
    ($body:expr, $kind:expr, $group:ident::$variant:ident { $($(#[$attr:meta])* $member:ident: $type:ty),* $(,)? }) => {{
        #[derive(Deserialize)]
        struct Members { $($(#[$attr])* $member: $type),* }
        let Members { $($member),* } = parse($body, $kind)?;
        $group::$variant { $($member),* }
    }};
}

/// Reads one encoded event. An update's frame shares the body's memory; unknown kinds are kept
/// whole.
pub fn decode(body: &Bytes) -> Result<(Millis, Event), CodecError> {
    if let Some((at, update)) = decode_update(body) {
        return Ok((at, Event::Agent(update)));
    }
    let head: Head<'_> = wharf_json::read_own(body)
        .map_err(|error| CodecError::NotAnEvent { why: error.to_string().into() })?;
    Ok((head.at, decode_kind(body, head.kind.as_ref())?))
}

/// Asks each group for the kind in turn: the groups share no kind.
fn decode_kind(body: &Bytes, kind: &str) -> Result<Event, CodecError> {
    Ok(if let Some(event) = decode_prompt_event(body, kind)? {
        Event::Prompt(event)
    } else if let Some(event) = decode_agent_event(body, kind)? {
        Event::Agent(event)
    } else if let Some(event) = decode_ask_event(body, kind)? {
        Event::Ask(event)
    } else if let Some(event) = decode_session_event(body, kind)? {
        Event::Session(event)
    } else if let Some(event) = decode_storage_event(body, kind)? {
        Event::Storage(event)
    } else {
        Event::Unknown { kind: kind.into(), body: raw(body.clone(), kind)? }
    })
}

fn decode_session_event(body: &Bytes, kind: &str) -> Result<Option<SessionEvent>, CodecError> {
    Ok(Some(match kind {
        "created" => SessionEvent::Created(parse::<CreatedMembers>(body, kind)?.origin),
        "ended" => SessionEvent::Ended(parse::<EndedMembers>(body, kind)?.ending),
        "renamed" => {
            read!(body, kind, SessionEvent::Renamed { title: Option<Arc<str>>, by: Option<Sender> })
        }
        "labelled" => {
            read!(body, kind, SessionEvent::Labelled { label: Option<Arc<str>>, by: Option<Sender> })
        }
        "archived" => {
            read!(body, kind, SessionEvent::Archived { archived: bool, by: Option<Sender> })
        }
        _ => return Ok(None),
    }))
}

fn decode_agent_event(body: &Bytes, kind: &str) -> Result<Option<AgentEvent>, CodecError> {
    Ok(Some(match kind {
        "agent_starting" => {
            read!(body, kind, AgentEvent::Starting { start: StartNo, how: StartKind })
        }
        "agent_started" => read!(
            body,
            kind,
            AgentEvent::Started { start: StartNo, agent_session: Arc<str>, traits: AgentTraits, answer: Raw }
        ),
        "start_failed" => read!(
            body,
            kind,
            AgentEvent::StartFailed {
                start: StartNo,
                exit_code: Option<i32>,
                message: Option<Arc<str>>,
                retry_in: Millis,
            }
        ),
        "agent_updated" => parse_update(body, kind)?,
        "settings_changed" => read!(
            body,
            kind,
            AgentEvent::SettingsChanged {
                settings: Vec<AgentSetting>,
                #[serde(default)]
                are_all: bool,
            }
        ),
        "agent_faulted" => {
            read!(body, kind, AgentEvent::Faulted { fault: Fault, detail: Arc<str> })
        }
        _ => return Ok(None),
    }))
}

fn decode_prompt_event(body: &Bytes, kind: &str) -> Result<Option<PromptEvent>, CodecError> {
    Ok(Some(match kind {
        "prompt_accepted" => read!(
            body,
            kind,
            PromptEvent::Accepted {
                prompt: PromptId,
                sender: Sender,
                frame: Raw,
                key: Option<Arc<str>>,
                #[serde(default)]
                first: bool,
            }
        ),
        "prompt_updated" => {
            read!(body, kind, PromptEvent::Updated { prompt: PromptId, by: Sender, frame: Raw, sender: Option<Sender> })
        }
        "prompt_moved" => {
            read!(body, kind, PromptEvent::Moved { prompt: PromptId, by: Sender, position: usize })
        }
        "turn_started" => {
            read!(body, kind, PromptEvent::TurnStarted { prompt: PromptId, content: Seq })
        }
        "cancel_requested" => read!(
            body,
            kind,
            PromptEvent::CancelRequested {
                prompt: PromptId,
                by: Option<Sender>,
                limit: Option<TurnLimit>,
                reason: Option<Arc<str>>,
            }
        ),
        "prompt_ended" => {
            read!(body, kind, PromptEvent::Ended { prompt: PromptId, end: PromptEnd, failure: Option<Arc<str>> })
        }
        "prompt_requeued" => read!(body, kind, PromptEvent::Requeued { prompt: PromptId }),
        _ => return Ok(None),
    }))
}

fn decode_ask_event(body: &Bytes, kind: &str) -> Result<Option<AskEvent>, CodecError> {
    Ok(Some(match kind {
        "ask_opened" => AskEvent::Opened(parse::<AskMembers>(body, kind)?.ask),
        "ask_resolved" => {
            read!(body, kind, AskEvent::Resolved { ask: AskId, outcome: AskOutcome, by: Option<Sender> })
        }
        _ => return Ok(None),
    }))
}

fn decode_storage_event(body: &Bytes, kind: &str) -> Result<Option<StorageEvent>, CodecError> {
    Ok(Some(match kind {
        "paused" => read!(body, kind, StorageEvent::Paused { why: PauseReason }),
        "continued" => StorageEvent::Continued,
        "snapshot" => decode_snapshot(body, kind)?,
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

/// Decodes an update on the hot path, in exactly the spelling of `encode`. Returns `None` for any
/// other spelling, which the caller leaves to the parser.
///
/// This function does not parse the frame: a line with a correct checksum holds the text that the
/// host wrote, and the host scans each frame before it writes it. So a frame that is not JSON comes
/// only from a log that was changed together with its checksums, or from an earlier version, whose
/// scanner accepted control bytes. This function looks for those bytes.
fn decode_update(body: &Bytes) -> Option<(Millis, AgentEvent)> {
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
    // An update with a title or a tool call is rare and may hold escapes, so it is left to the
    // parser.
    let frame = rest.strip_prefix(br#"","frame":"#)?.strip_suffix(b"}")?;
    // The scanner of an earlier version let control bytes in names pass: whether this is JSON is
    // left to the parser.
    if frame.iter().any(|byte| *byte < b' ') {
        return None;
    }
    let update = UpdateKind::from_tag(std::str::from_utf8(tag).ok()?);
    let frame = Raw::new(body.slice_ref(frame))?;
    Some((Millis(at), AgentEvent::Updated { update, frame, title: None, tool: None }))
}

fn parse_update(body: &Bytes, kind: &str) -> Result<AgentEvent, CodecError> {
    #[derive(Deserialize)]
    struct Members<'a> {
        #[serde(borrow)]
        update: Cow<'a, str>,
        title: Option<Arc<str>>,
        tool: Option<ToolCall>,
        #[serde(borrow)]
        frame: &'a RawValue,
    }
    let Members { update, title, tool, frame } =
        wharf_json::read_own(body).map_err(|error| malformed(kind, &error))?;
    let frame = raw(body.slice_ref(frame.get().as_bytes()), kind)?;
    Ok(AgentEvent::Updated { update: UpdateKind::from_tag(&update), frame, title, tool })
}

fn decode_snapshot(body: &Bytes, kind: &str) -> Result<StorageEvent, CodecError> {
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
    let Version { v: found } =
        wharf_json::read_own(saved.get().as_bytes()).map_err(|error| malformed(kind, &error))?;
    if found > SNAPSHOT_VERSION {
        return Err(CodecError::Newer { found, known: SNAPSHOT_VERSION });
    }
    Ok(StorageEvent::Snapshot(raw(body.slice_ref(saved.get().as_bytes()), kind)?))
}

fn parse<T: DeserializeOwned>(body: &[u8], kind: &str) -> Result<T, CodecError> {
    wharf_json::read_own(body).map_err(|error| malformed(kind, &error))
}

fn raw(text: Bytes, kind: &str) -> Result<Raw, CodecError> {
    Raw::new(text).ok_or_else(|| CodecError::Malformed {
        kind: kind.into(),
        why: "not one line of UTF-8".into(),
    })
}

fn malformed(kind: &str, error: &serde_json::Error) -> CodecError {
    CodecError::Malformed { kind: kind.into(), why: error.to_string().into() }
}
