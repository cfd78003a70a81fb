//! `params._meta.wharf` of a frame: a wish put in, an event id taken out, every other byte as it was.

use std::fmt;

use bytes::Bytes;
use serde_json::Value;
use wharf_host::frame::{Span, splice};
use wharf_json::Json;

/// Where the host puts an event id: first in `params`, or first in a `_meta` that is there already.
const IN_PARAMS: &str = r#""_meta":{"wharf":{"eventId":""#;
const IN_META: &str = r#""wharf":{"eventId":""#;
/// Also first in a `wharf` that is there already.
const IN_WHARF: &str = r#""eventId":""#;

/// How a `_meta` ends that the host has put in the place of a null.
const INSTEAD_OF_NULL: &str = "\t}";

/// `<epoch>-<seq>` (rule 1.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EventId {
    pub(super) epoch: u64,
    pub(super) seq: u64,
}

impl EventId {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (epoch, seq) = text.split_once('-')?;
        Some(Self { epoch: epoch.parse().ok()?, seq: seq.parse().ok()? })
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.epoch, self.seq)
    }
}

/// The params of a frame as they came.
pub(super) fn params(frame: &[u8]) -> Option<&str> {
    member(Json::parse(frame).ok()?, "params").map(Json::raw)
}

/// What `params._meta.wharf` says under this name. What cannot be read is the host's to refuse.
pub(super) fn wish(frame: &[u8], name: &str) -> Option<Value> {
    let wish = Json::parse(frame).and_then(|frame| frame.seek(&["params", "_meta", "wharf", name]));
    wish.ok().flatten().map(Json::to_value)
}

/// The frame with `params._meta.wharf.<name>` set. `value` is JSON text. `None` if the frame has no params to put it in.
pub(super) fn with_wish(frame: &[u8], name: &str, value: &str) -> Option<Bytes> {
    let params = member(Json::parse(frame).ok()?, "params")?;
    let meta = member(params, "_meta");
    let wharf = meta.and_then(|meta| member(meta, "wharf"));
    let wish = format!("\"{name}\":{value}");
    let (place, text) = match (meta, wharf) {
        (_, Some(wharf)) if wharf.is_object() => match member(wharf, name) {
            Some(old) => (old, value.to_owned()),
            None => first_in(wharf, wish),
        },
        (_, Some(other)) => (other, format!("{{{wish}}}")),
        (Some(meta), None) if meta.is_object() => first_in(meta, format!("\"wharf\":{{{wish}}}")),
        (Some(other), None) => (other, format!("{{\"wharf\":{{{wish}}}}}")),
        (None, None) if params.is_object() => first_in(params, format!("\"_meta\":{{\"wharf\":{{{wish}}}}}")),
        (None, None) => return None,
    };
    Some(splice(frame, &mut [(place.span_in(frame)?, text.as_bytes())]).into())
}

/// Where an event id stands with all that was put in for it, and the text that was there before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IdPlace {
    span: Span,
    before: &'static str,
}

impl IdPlace {
    /// Nothing was there.
    fn new(frame: &[u8], from: &str, to: &str) -> Self {
        Self { span: offset(frame, from)..offset(frame, to), before: "" }
    }
}

/// The event id that the host put into a frame, and its place.
pub(super) fn event_id(frame: &[u8]) -> Option<(EventId, IdPlace)> {
    let text = std::str::from_utf8(frame).ok()?;
    if !text.contains(IN_META) {
        return None;
    }
    id_in(frame, member(Json::parse(frame).ok()?, "params")?)
}

/// The same for an answer.
pub(super) fn event_id_of_answer(frame: &[u8]) -> Option<(EventId, IdPlace)> {
    id_in(frame, member(Json::parse(frame).ok()?, "result")?)
}

fn id_in(frame: &[u8], object: Json<'_>) -> Option<(EventId, IdPlace)> {
    let inside = object.raw().strip_prefix('{')?;
    if let Some((id, rest)) = inside.strip_prefix(IN_PARAMS).and_then(id_and_rest)
        && let Some(rest) = rest.strip_prefix('}')
    {
        // The whole `_meta` is the host's.
        let rest = rest.strip_prefix(',').unwrap_or(rest);
        return Some((id, IdPlace::new(frame, inside, rest)));
    }
    let meta = member(object, "_meta")?;
    let inside = meta.raw().strip_prefix('{')?;
    if let Some((id, rest)) = inside.strip_prefix(IN_META).and_then(id_and_rest) {
        if rest == INSTEAD_OF_NULL {
            return Some((id, IdPlace { span: meta.span_in(frame)?, before: "null" }));
        }
        let rest = rest.strip_prefix([',', ' ']).unwrap_or(rest);
        return Some((id, IdPlace::new(frame, inside, rest)));
    }
    // A `wharf` that was there already.
    let wharf = member(meta, "wharf")?.raw().strip_prefix('{')?;
    let (id, rest) = wharf.strip_prefix(IN_WHARF)?.split_once('"')?;
    // The host leaves one of them behind what it puts in.
    let rest = rest.strip_prefix([',', ' '])?;
    Some((EventId::parse(id)?, IdPlace::new(frame, wharf, rest)))
}

/// The frame as it was before the event id was put in.
pub(super) fn without(frame: &[u8], place: IdPlace) -> Bytes {
    splice(frame, &mut [(place.span, place.before.as_bytes())]).into()
}

fn id_and_rest(text: &str) -> Option<(EventId, &str)> {
    let (id, rest) = text.split_once('"')?;
    Some((EventId::parse(id)?, rest.strip_prefix('}')?))
}

/// A member of an object, null or not; of several with that name the last. What those mean is the host's to refuse.
fn member<'a>(object: Json<'a>, name: &str) -> Option<Json<'a>> {
    object.members().filter(|(key, _)| key == name).last().map(|(_, value)| value)
}

/// The object with one more member, the first.
fn first_in(object: Json<'_>, member: String) -> (Json<'_>, String) {
    let rest = &object.raw()[1..];
    let comma = if object.members().next().is_none() { "" } else { "," };
    (object, format!("{{{member}{comma}{rest}"))
}

/// Where a part of the frame begins.
fn offset(frame: &[u8], part: &str) -> usize {
    part.as_ptr() as usize - frame.as_ptr() as usize
}
