//! Reads lines that may not be events any more.

use bytes::Bytes;

use super::{CodecError, decode};
use crate::{Event, LostEvents, Millis, Seq, SettingsLoss, UpdateKind};

/// An event of the log, or what stands in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodedEvent {
    /// `None` if the line does not tell it any more.
    pub at: Option<Millis>,
    pub event: Event,
}

/// Holds the beginning of a line. It is read without a parser, so that it is known even if the rest
/// of the line is not JSON.
struct LineHead<'a> {
    kind: &'a str,
    at: Option<Millis>,
    /// The kind of an update of the agent.
    update: Option<&'a str>,
}

/// Reads the encoded event `seq`. An event that cannot be decoded counts as lost. Fails only for a
/// snapshot of a newer version: without that snapshot the session would have a different state.
pub fn decode_or_lost(seq: Seq, body: &Bytes) -> Result<DecodedEvent, CodecError> {
    match decode(body) {
        Ok((at, event)) => Ok(DecodedEvent { at: Some(at), event }),
        Err(newer @ CodecError::Newer { .. }) => Err(newer),
        Err(error) => {
            let head = read_head(body);
            let settings = head.as_ref().map_or(SettingsLoss::Possible, find_settings_loss);
            let lost = LostEvents { first: seq, settings, why: error.to_string().into() };
            Ok(DecodedEvent { at: head.and_then(|head| head.at), event: Event::Lost(lost) })
        }
    }
}

/// Reads the members that `encode` always writes first.
fn read_head(body: &[u8]) -> Option<LineHead<'_>> {
    let rest = body.strip_prefix(br#"{"kind":""#)?;
    let kind = read_word(rest)?;
    let rest = rest[kind.len()..].strip_prefix(br#"","at":"#)?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let at = std::str::from_utf8(&rest[..digits])
        .ok()
        .and_then(|text| text.parse().ok())
        .map(Millis);
    let update = rest[digits..].strip_prefix(br#","update":""#).and_then(read_word);
    Some(LineHead { kind, at, update })
}

/// Returns the text up to the next quote, if it is a word of Wharf's own.
fn read_word(text: &[u8]) -> Option<&str> {
    let length = text.iter().position(|byte| *byte == b'"')?;
    let is_word = text[..length].iter().all(|byte| byte.is_ascii_lowercase() || *byte == b'_');
    std::str::from_utf8(&text[..length]).ok().filter(|_| is_word)
}

/// Tells whether an event of this kind changes the settings of the agent. A kind that this version
/// does not know may.
fn find_settings_loss(head: &LineHead<'_>) -> SettingsLoss {
    match head.kind {
        "settings_changed" | "agent_started" => SettingsLoss::Certain,
        "agent_updated" => match head.update {
            Some(tag) if UpdateKind::from_tag(tag).changes_settings() => SettingsLoss::Certain,
            Some(_) => SettingsLoss::None,
            None => SettingsLoss::Possible,
        },
        "created" | "ended" | "renamed" | "labelled" | "archived" | "agent_starting"
        | "start_failed" | "agent_faulted" | "prompt_accepted" | "prompt_updated"
        | "prompt_moved" | "turn_started" | "cancel_requested" | "prompt_ended"
        | "prompt_requeued" | "ask_opened" | "ask_resolved" | "paused" | "continued"
        | "snapshot" => SettingsLoss::None,
        _ => SettingsLoss::Possible,
    }
}
