//! Event ids in frames: `params._meta.wharf.eventId`, for clients that asked for them (rule 1.5).

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use wharf_host::Entry;
use wharf_host::core::{Epoch, Seq};

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    params: &'a RawValue,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow, rename = "_meta")]
    meta: Option<&'a RawValue>,
}

/// `<epoch>-<seq>`.
pub(super) fn event_id(entry: &Entry) -> String {
    format!("{}-{}", entry.epoch, entry.seq)
}

pub(super) fn parse(id: &str) -> Option<(Epoch, Seq)> {
    let (epoch, seq) = id.split_once('-')?;
    Some((Epoch(epoch.parse().ok()?), Seq(seq.parse().ok()?)))
}

/// The frame with the id put in; every other byte stays.
pub(super) fn with_event_id(frame: &Bytes, id: &str) -> Bytes {
    let Ok(message) = serde_json::from_slice::<Message<'_>>(frame) else { return frame.clone() };
    let params = message.params.get();
    let meta = serde_json::from_str::<Params<'_>>(params).ok().and_then(|params| params.meta);
    let (object, text) = match meta.map(RawValue::get).filter(|meta| meta.starts_with('{')) {
        Some(meta) => (meta, format!(r#""wharf":{{"eventId":"{id}"}}"#)),
        None if params.starts_with('{') => (params, format!(r#""_meta":{{"wharf":{{"eventId":"{id}"}}}}"#)),
        None => return frame.clone(),
    };
    let at = object.as_ptr() as usize - frame.as_ptr() as usize + 1;
    let comma = match (object[1..].trim_ascii_start().starts_with('}'), meta.is_some()) {
        (false, _) => ",",
        // So that a reader who takes the id out again can tell an empty `_meta` from none.
        (true, true) => " ",
        (true, false) => "",
    };
    [&frame[..at], text.as_bytes(), comma.as_bytes(), &frame[at..]].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_goes_into_meta_and_nothing_else_changes() {
        let cases = [
            (
                r#"{"method":"m","params":{"a":1.10}}"#,
                r#"{"method":"m","params":{"_meta":{"wharf":{"eventId":"2-7"}},"a":1.10}}"#,
            ),
            (r#"{"method":"m","params":{ }}"#, r#"{"method":"m","params":{"_meta":{"wharf":{"eventId":"2-7"}} }}"#),
            (
                r#"{"method":"m","params":{"a":{"_meta":{}},"_meta":{"x":[1]}}}"#,
                r#"{"method":"m","params":{"a":{"_meta":{}},"_meta":{"wharf":{"eventId":"2-7"},"x":[1]}}}"#,
            ),
            (
                r#"{"method":"m","params":{"_meta":{},"a":1}}"#,
                r#"{"method":"m","params":{"_meta":{"wharf":{"eventId":"2-7"} },"a":1}}"#,
            ),
        ];
        for (frame, expected) in &cases {
            assert_eq!(with_event_id(&Bytes::from_static(frame.as_bytes()), "2-7"), expected.as_bytes());
        }
        assert_eq!(parse("2-7"), Some((Epoch(2), Seq(7))));
        assert_eq!(parse("27"), None);
    }
}
