//! Event ids in frames: `params._meta.wharf.eventId`, and in the answers that join a session `result._meta.wharf.eventId`,
//! for clients that asked for them (rule 1.5).

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use wharf_host::core::{Epoch, Seq};
use wharf_host::{ByteBudget, Entry, SessionHandle};

use super::out_frame::OutFrame;

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

/// `<epoch>-<seq>`.
pub(super) fn event_id(entry: &Entry) -> String {
    format!("{}-{}", entry.epoch, entry.seq)
}

pub(super) fn parse(id: &str) -> Option<(Epoch, Seq)> {
    let (epoch, seq) = id.split_once('-')?;
    Some((Epoch(epoch.parse().ok()?), Seq(seq.parse().ok()?)))
}

/// The frame with the id put in; every other byte stays, and those of a large frame are shared.
pub(super) fn with_event_id(frame: &Bytes, id: &str) -> OutFrame {
    let Ok(message) = serde_json::from_slice::<Message<'_>>(frame) else { return frame.clone().into() };
    let params = message.params.get();
    let meta = serde_json::from_str::<Params<'_>>(params).ok().and_then(|params| params.meta);
    let (object, text) = match meta.map(RawValue::get).filter(|meta| meta.starts_with('{')) {
        Some(meta) => (meta, format!(r#""wharf":{{"eventId":"{id}"}}"#)),
        None if params.starts_with('{') => (params, format!(r#""_meta":{{"wharf":{{"eventId":"{id}"}}}}"#)),
        None => return frame.clone().into(),
    };
    let (at, text) = first_member(frame, object, text, meta.is_some());
    if frame.len() <= ByteBudget::UNCOUNTED_BYTES {
        return insert(frame, at, &text).into();
    }
    OutFrame::extended(frame.slice(..at), text.into(), frame.slice(at..))
}

/// The answer with the id of the event up to which it tells; every other byte stays.
pub(super) fn answer_with_event_id(frame: &Bytes, id: &str) -> Bytes {
    let Ok(answer) = serde_json::from_slice::<Answer<'_>>(frame) else { return frame.clone() };
    let result = answer.result.get();
    let meta = member(result, "_meta").filter(|meta| meta.starts_with('{'));
    let wharf = meta.and_then(|meta| member(meta, "wharf"));
    match (meta, wharf) {
        (Some(_), Some(wharf)) if wharf.starts_with('{') => {
            put_first(frame, wharf, &format!(r#""eventId":"{id}""#), true)
        }
        (Some(meta), None) => put_first(frame, meta, &format!(r#""wharf":{{"eventId":"{id}"}}"#), true),
        (None, None) if result.starts_with('{') => {
            put_first(frame, result, &format!(r#""_meta":{{"wharf":{{"eventId":"{id}"}}}}"#), false)
        }
        (None | Some(_), None | Some(_)) => frame.clone(),
    }
}

/// The id of the event with this number; none before the first.
pub(super) async fn event_id_at(handle: &SessionHandle, seq: Seq) -> Option<String> {
    if seq == Seq::ZERO {
        return None;
    }
    let batch = handle.cursor(Seq(seq.0 - 1)).next().await.ok()?;
    batch.entries().first().filter(|entry| entry.seq == seq).map(event_id)
}

fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    serde_json::from_str::<BTreeMap<String, &'a RawValue>>(object).ok()?.remove(name).map(RawValue::get)
}

/// Puts a member before all others of an object in the frame.
fn put_first(frame: &Bytes, object: &str, text: &str, was_there: bool) -> Bytes {
    let (at, text) = first_member(frame, object, text.to_owned(), was_there);
    insert(frame, at, &text)
}

fn insert(frame: &Bytes, at: usize, text: &str) -> Bytes {
    [&frame[..at], text.as_bytes(), &frame[at..]].concat().into()
}

/// Where a member goes that is to stand before all others of an object, and its text with what follows it.
fn first_member(frame: &Bytes, object: &str, mut text: String, was_there: bool) -> (usize, String) {
    let at = object.as_ptr() as usize - frame.as_ptr() as usize + 1;
    let comma = match (object[1..].trim_ascii_start().starts_with('}'), was_there) {
        (false, _) => ",",
        // So that a reader who takes the id out again can tell an empty object from none.
        (true, true) => " ",
        (true, false) => "",
    };
    text.push_str(comma);
    (at, text)
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
            assert_eq!(with_event_id(&Bytes::from_static(frame.as_bytes()), "2-7").into_bytes(), expected.as_bytes());
        }
        let large = format!(r#"{{"method":"m","params":{{"a":"{}"}}}}"#, "x".repeat(100_000));
        let shared = Bytes::from(large.clone());
        let extended = with_event_id(&shared, "2-7");
        assert_eq!(extended.parts()[0].as_ptr(), shared.as_ptr(), "the very bytes");
        let expected = large.replace(r#"{"a""#, r#"{"_meta":{"wharf":{"eventId":"2-7"}},"a""#);
        assert_eq!(extended.into_bytes(), expected.as_bytes());
        assert_eq!(parse("2-7"), Some((Epoch(2), Seq(7))));
        assert_eq!(parse("27"), None);
    }

    #[test]
    fn an_answer_gets_its_id_beside_what_is_in_meta() {
        let cases = [
            (r#"{"id":1,"result":{"a":1.10}}"#, r#"{"id":1,"result":{"_meta":{"wharf":{"eventId":"2-7"}},"a":1.10}}"#),
            (r#"{"id":1,"result":{}}"#, r#"{"id":1,"result":{"_meta":{"wharf":{"eventId":"2-7"}}}}"#),
            (
                r#"{"id":1,"result":{"_meta":{"x":1}}}"#,
                r#"{"id":1,"result":{"_meta":{"wharf":{"eventId":"2-7"},"x":1}}}"#,
            ),
            (
                r#"{"id":1,"result":{"_meta":{"wharf":{"status":"killed"}}}}"#,
                r#"{"id":1,"result":{"_meta":{"wharf":{"eventId":"2-7","status":"killed"}}}}"#,
            ),
            (
                r#"{"id":1,"result":{"_meta":{"wharf":{}}}}"#,
                r#"{"id":1,"result":{"_meta":{"wharf":{"eventId":"2-7" }}}}"#,
            ),
            (r#"{"id":1,"error":{"code":1}}"#, r#"{"id":1,"error":{"code":1}}"#),
        ];
        for (frame, expected) in cases {
            assert_eq!(answer_with_event_id(&Bytes::from_static(frame.as_bytes()), "2-7"), expected.as_bytes());
        }
    }
}
