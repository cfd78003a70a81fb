//! `params._meta.wharf` of a frame: a wish put in, an event id taken out, every other byte as it was.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use wharf_host::frame::{Span, splice};

/// Where the host puts an event id: first in `params`, or first in a `_meta` that is there already.
const IN_PARAMS: &str = r#""_meta":{"wharf":{"eventId":""#;
const IN_META: &str = r#""wharf":{"eventId":""#;
/// In an answer also first in a `wharf` that is there already.
const IN_WHARF: &str = r#""eventId":""#;

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

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    params: &'a RawValue,
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    result: &'a RawValue,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow, rename = "_meta")]
    meta: Option<&'a RawValue>,
}

/// The params of a frame as they came.
pub(super) fn params(frame: &[u8]) -> Option<&str> {
    serde_json::from_slice::<Message<'_>>(frame).ok().map(|message| message.params.get())
}

/// What `params._meta.wharf` says under this name.
pub(super) fn wish(frame: &[u8], name: &str) -> Option<Value> {
    let params: Value = serde_json::from_str(params(frame)?).ok()?;
    params["_meta"]["wharf"].get(name).cloned()
}

/// The frame with `params._meta.wharf.<name>` set. `value` is JSON text. `None` if the frame has no params to put it in.
pub(super) fn with_wish(frame: &[u8], name: &str, value: &str) -> Option<Bytes> {
    let params = params(frame)?;
    let meta = member(params, "_meta");
    let wharf = meta.and_then(|meta| member(meta, "wharf"));
    let wish = format!("\"{name}\":{value}");
    let (place, text) = match (meta, wharf) {
        (_, Some(wharf)) if is_object(wharf) => match member(wharf, name) {
            Some(old) => (old, value.to_owned()),
            None => first_in(wharf, wish),
        },
        (_, Some(other)) => (other, format!("{{{wish}}}")),
        (Some(meta), None) if is_object(meta) => first_in(meta, format!("\"wharf\":{{{wish}}}")),
        (Some(other), None) => (other, format!("{{\"wharf\":{{{wish}}}}}")),
        (None, None) if is_object(params) => first_in(params, format!("\"_meta\":{{\"wharf\":{{{wish}}}}}")),
        (None, None) => return None,
    };
    let at = offset(frame, place);
    Some(splice(frame, &mut [(at..at + place.len(), text.as_bytes())]).into())
}

/// The event id that the host put into a frame, and where it stands with all that was put in for it.
pub(super) fn event_id(frame: &[u8]) -> Option<(EventId, Span)> {
    let text = std::str::from_utf8(frame).ok()?;
    if !text.contains(IN_META) {
        return None;
    }
    id_in(frame, params(frame)?)
}

/// The same for an answer.
pub(super) fn event_id_of_answer(frame: &[u8]) -> Option<(EventId, Span)> {
    let result = serde_json::from_slice::<Answer<'_>>(frame).ok()?.result.get();
    if let Some(found) = id_in(frame, result) {
        return Some(found);
    }
    let wharf = member(member(result, "_meta")?, "wharf")?.strip_prefix('{')?;
    let (id, rest) = wharf.strip_prefix(IN_WHARF)?.split_once('"')?;
    let rest = rest.strip_prefix([',', ' ']).unwrap_or(rest);
    Some((EventId::parse(id)?, offset(frame, wharf)..offset(frame, rest)))
}

fn id_in(frame: &[u8], object: &str) -> Option<(EventId, Span)> {
    let inside = object.strip_prefix('{')?;
    if let Some((id, rest)) = inside.strip_prefix(IN_PARAMS).and_then(id_and_rest)
        && let Some(rest) = rest.strip_prefix('}')
    {
        // The whole `_meta` is the host's.
        let rest = rest.strip_prefix(',').unwrap_or(rest);
        return Some((id, offset(frame, inside)..offset(frame, rest)));
    }
    let meta = serde_json::from_str::<Params<'_>>(object).ok()?.meta?.get().strip_prefix('{')?;
    let (id, rest) = meta.strip_prefix(IN_META).and_then(id_and_rest)?;
    let rest = rest.strip_prefix([',', ' ']).unwrap_or(rest);
    Some((id, offset(frame, meta)..offset(frame, rest)))
}

/// The frame without what stands there.
pub(super) fn without(frame: &[u8], span: Span) -> Bytes {
    splice(frame, &mut [(span, b"")]).into()
}

fn id_and_rest(text: &str) -> Option<(EventId, &str)> {
    let (id, rest) = text.split_once('"')?;
    Some((EventId::parse(id)?, rest.strip_prefix('}')?))
}

/// A member of an object; of several with that name the last, as most readers have it.
fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    serde_json::from_str::<BTreeMap<String, &'a RawValue>>(object).ok()?.remove(name).map(RawValue::get)
}

fn is_object(json: &str) -> bool {
    json.starts_with('{')
}

/// The object with one more member, the first.
fn first_in(object: &str, member: String) -> (&str, String) {
    let rest = &object[1..];
    let comma = if rest.trim_ascii_start().starts_with('}') { "" } else { "," };
    (object, format!("{{{member}{comma}{rest}"))
}

/// Where a part of the frame begins.
fn offset(frame: &[u8], part: &str) -> usize {
    part.as_ptr() as usize - frame.as_ptr() as usize
}
