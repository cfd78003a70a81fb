//! Event ids in frames: `params._meta.wharf.eventId`, and in the answers that join a session `result._meta.wharf.eventId`,
//! for clients that asked for them (rule 1.5).

use std::ops::Range;

use bytes::Bytes;
use wharf_host::core::{Epoch, Seq};
use wharf_host::{ByteBudget, Entry, SessionHandle};
use wharf_json::Json;

use super::out_frame::OutFrame;

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
    let Some((place, text)) = place_id(frame, "params", id) else { return frame.clone().into() };
    if frame.len() <= ByteBudget::UNCOUNTED_BYTES {
        return replace(frame, place, &text).into();
    }
    OutFrame::extended(frame.slice(..place.start), text.into(), frame.slice(place.end..))
}

/// The answer with the id of the event up to which it tells; every other byte stays.
pub(super) fn answer_with_event_id(frame: &Bytes, id: &str) -> Bytes {
    place_id(frame, "result", id).map_or_else(|| frame.clone(), |(place, text)| replace(frame, place, &text))
}

/// Finds the place of the id, and its text there: in the deepest object that there is of `_meta.wharf`. An agent's own `_meta.wharf` has another name by
/// now, so one that is here is Wharf's. `None` if there is no object to put it into.
fn place_id(frame: &Bytes, holder: &str, id: &str) -> Option<(Range<usize>, String)> {
    let body = Json::parse(frame).ok()?.member(holder).ok().flatten().filter(|body| body.is_object())?;
    let Some(meta) = body.member("_meta").ok()? else {
        if let Some((_, null)) = body.members().find(|(key, _)| key == "_meta") {
            // The tab tells a reader who takes the id out again what was there.
            return Some((null.span_in(frame)?, format!("{{\"wharf\":{{\"eventId\":\"{id}\"}}\t}}")));
        }
        return first_member(frame, body, format!(r#""_meta":{{"wharf":{{"eventId":"{id}"}}}}"#), false);
    };
    if !meta.is_object() {
        return None;
    }
    match meta.member("wharf").ok()? {
        Some(wharf) if wharf.is_object() => first_member(frame, wharf, format!(r#""eventId":"{id}""#), true),
        Some(_) => None,
        None => first_member(frame, meta, format!(r#""wharf":{{"eventId":"{id}"}}"#), true),
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

fn replace(frame: &Bytes, place: Range<usize>, text: &str) -> Bytes {
    [&frame[..place.start], text.as_bytes(), &frame[place.end..]].concat().into()
}

/// Where a member goes that is to stand before all others of an object, and its text with what follows it.
fn first_member(frame: &Bytes, object: Json<'_>, mut text: String, was_there: bool) -> Option<(Range<usize>, String)> {
    let at = object.span_in(frame)?.start + 1;
    let comma = match (object.members().next().is_none(), was_there) {
        (false, _) => ",",
        // So that a reader who takes the id out again can tell an empty object from none.
        (true, true) => " ",
        (true, false) => "",
    };
    text.push_str(comma);
    Some((at..at, text))
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
            (
                r#"{"method":"m","params":{"a":1,"\u005fmeta": null }}"#,
                "{\"method\":\"m\",\"params\":{\"a\":1,\"\\u005fmeta\": {\"wharf\":{\"eventId\":\"2-7\"}\t} }}",
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
