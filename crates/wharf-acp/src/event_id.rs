//! Event ids in frames: `params._meta.wharf.eventId`, and `result._meta.wharf.eventId` in the
//! answers that join a session, for clients that asked for them (rule 1.5).
//!
//! The server puts them in. The bridge takes them out again for a client that did not ask. Both
//! directions are here, because the second has to undo the first byte for byte.

use bytes::Bytes;
use wharf_core::EventId;
use wharf_json::Json;

use super::{Span, first_member, splice};

/// How an inserted id begins: first in `params`, or first in a `_meta` that was there.
const IN_PARAMS: &str = r#""_meta":{"wharf":{"eventId":""#;
const IN_META: &str = r#""wharf":{"eventId":""#;
/// The same, first in a `wharf` that was there.
const IN_WHARF: &str = r#""eventId":""#;
/// The end of a `_meta` that replaced a null one. The tab tells the reader so.
const END_OF_REPLACED_NULL: &str = "\t}";

/// The member of a frame whose `_meta` holds the event id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdHolder {
    Params,
    Result,
}

impl IdHolder {
    const fn name(self) -> &'static str {
        match self {
            Self::Params => "params",
            Self::Result => "result",
        }
    }
}

/// Finds the place of an event id in the deepest object of `_meta.wharf` that the frame has, and
/// the text to put there. A `_meta.wharf` in the frame is Wharf's, since an agent's own has another
/// name by now. Returns `None` if the frame has no object to put the id into.
pub fn place_event_id(frame: &[u8], holder: IdHolder, id: EventId) -> Option<(Span, String)> {
    let body = Json::parse(frame)
        .ok()?
        .member(holder.name())
        .ok()
        .flatten()
        .filter(|body| body.is_object())?;
    let Some(meta) = body.member("_meta").ok()? else {
        if let Some(null) = body.last_member("_meta") {
            return Some((
                null.span_in(frame)?,
                format!(r#"{{{IN_META}{id}"}}{END_OF_REPLACED_NULL}"#),
            ));
        }
        return first_member(frame, body, format!(r#"{IN_PARAMS}{id}"}}}}"#));
    };
    let (place, mut text) = match meta.member("wharf").ok()? {
        Some(wharf) => first_member(frame, wharf, format!(r#"{IN_WHARF}{id}""#)),
        None => first_member(frame, meta, format!(r#"{IN_META}{id}"}}"#)),
    }?;
    if !text.ends_with(',') {
        // The space tells a reader that an empty object was there.
        text.push(' ');
    }
    Some((place, text))
}

/// An event id in a frame, with all that was inserted for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedEventId {
    pub id: EventId,
    span: Span,
    /// The text that the insertion replaced.
    before: &'static str,
}

impl PlacedEventId {
    /// Returns the frame as it was before the id was put in.
    pub fn remove_from(&self, frame: &[u8]) -> Bytes {
        splice(frame, &mut [(self.span.clone(), self.before.as_bytes())]).into()
    }
}

/// Finds the event id that the server put into a frame.
pub fn find_event_id(frame: &[u8], holder: IdHolder) -> Option<PlacedEventId> {
    // Most frames of a client that did not ask have none.
    if holder == IdHolder::Params && memchr::memmem::find(frame, IN_META.as_bytes()).is_none() {
        return None;
    }
    let object = Json::parse(frame).ok()?.last_member(holder.name())?;
    let inside = object.raw().strip_prefix('{')?;
    let placed = |id, from, to| {
        Some(PlacedEventId { id, span: offset(frame, from)..offset(frame, to), before: "" })
    };
    if let Some((id, rest)) = inside.strip_prefix(IN_PARAMS).and_then(read_id)
        && let Some(rest) = rest.strip_prefix("}}")
    {
        // The whole `_meta` was inserted.
        return placed(id, inside, rest.strip_prefix(',').unwrap_or(rest));
    }
    let meta = object.last_member("_meta")?;
    let inside = meta.raw().strip_prefix('{')?;
    if let Some((id, rest)) = inside.strip_prefix(IN_META).and_then(read_id)
        && let Some(rest) = rest.strip_prefix('}')
    {
        if rest == END_OF_REPLACED_NULL {
            return Some(PlacedEventId { id, span: meta.span_in(frame)?, before: "null" });
        }
        return placed(id, inside, rest.strip_prefix([',', ' ']).unwrap_or(rest));
    }
    let inside = meta.last_member("wharf")?.raw().strip_prefix('{')?;
    let (id, rest) = inside.strip_prefix(IN_WHARF).and_then(read_id)?;
    placed(id, inside, rest.strip_prefix([',', ' '])?)
}

/// Reads an id up to its closing quote. Returns the text behind that, too.
fn read_id(text: &str) -> Option<(EventId, &str)> {
    let (id, rest) = text.split_once('"')?;
    Some((id.parse().ok()?, rest))
}

/// Returns the offset at which a part of the frame begins.
fn offset(frame: &[u8], part: &str) -> usize {
    part.as_ptr() as usize - frame.as_ptr() as usize
}

#[cfg(test)]
mod tests {
    use wharf_core::{Epoch, Seq};

    use super::*;

    const ID: EventId = EventId { epoch: Epoch(2), seq: Seq(7) };

    fn inserted(frame: &str, holder: IdHolder) -> Option<String> {
        let (place, text) = place_event_id(frame.as_bytes(), holder, ID)?;
        Some([&frame[..place.start], &text, &frame[place.end..]].concat())
    }

    #[test]
    fn event_id_goes_into_meta_and_nothing_else_changes() {
        let cases = [
            (
                r#"{"method":"m","params":{"a":1.10}}"#,
                r#"{"method":"m","params":{"_meta":{"wharf":{"eventId":"2-7"}},"a":1.10}}"#,
            ),
            (
                r#"{"method":"m","params":{ }}"#,
                r#"{"method":"m","params":{"_meta":{"wharf":{"eventId":"2-7"}} }}"#,
            ),
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
        for (frame, expected) in cases {
            assert_eq!(inserted(frame, IdHolder::Params).as_deref(), Some(expected));
        }
    }

    #[test]
    fn answer_gets_its_event_id_beside_other_members_of_meta() {
        let cases = [
            (
                r#"{"id":1,"result":{"a":1.10}}"#,
                r#"{"id":1,"result":{"_meta":{"wharf":{"eventId":"2-7"}},"a":1.10}}"#,
            ),
            (
                r#"{"id":1,"result":{}}"#,
                r#"{"id":1,"result":{"_meta":{"wharf":{"eventId":"2-7"}}}}"#,
            ),
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
        ];
        for (frame, expected) in cases {
            assert_eq!(inserted(frame, IdHolder::Result).as_deref(), Some(expected));
        }
        assert_eq!(inserted(r#"{"id":1,"error":{"code":1}}"#, IdHolder::Result), None);
    }

    #[test]
    fn frames_without_a_place_for_an_event_id_get_none() {
        for params in [
            "[1]",
            "null",
            "7",
            r#"{"_meta":7}"#,
            r#"{"_meta":{"wharf":7}}"#,
            r#"{"_meta":{},"_meta":{}}"#,
        ] {
            assert_eq!(
                inserted(&format!(r#"{{"method":"m","params":{params}}}"#), IdHolder::Params),
                None,
                "{params}"
            );
        }
    }

    #[test]
    fn removal_undoes_insertion_byte_for_byte() {
        let bodies = [
            "{}",
            "{ }",
            r#"{"a":1.10}"#,
            r#"{ "a" : 1e400 , "s":"\ud83d" }"#,
            r#"{"_meta":null}"#,
            r#"{"a":1,"\u005fmeta": null }"#,
            r#"{"_meta":{},"a":1}"#,
            r#"{"_meta":{ },"a":1}"#,
            r#"{"_meta": {"x":{"_meta":{}}}}"#,
            r#"{"_meta":{"\u0077harf":{"status":"killed"},"y":1}}"#,
            r#"{"_meta":{"wharf":{}}}"#,
            r#"{"_meta":{"wharf":{ }}}"#,
            r#"{"_meta":{"wharf":null,"y":1}}"#,
        ];
        for body in bodies {
            let frame = format!(r#"{{"id":1,"result":{body}}}"#);
            let with_id = inserted(&frame, IdHolder::Result).unwrap();
            let found = find_event_id(with_id.as_bytes(), IdHolder::Result)
                .unwrap_or_else(|| panic!("none in {with_id}"));
            assert_eq!(
                (found.id, found.remove_from(with_id.as_bytes())),
                (ID, Bytes::from(frame)),
                "{with_id}"
            );
        }
    }

    /// Frames of hosts, older ones included: the bytes before the id, the inserted text, the rest.
    const FRAMES: &[(&str, &str, &str)] = &[
        (r#"{"method":"m","params":{"#, r#""_meta":{"wharf":{"eventId":"2-7"}},"#, r#""a":1.10}}"#),
        (r#"{"method":"m","params":{"#, r#""_meta":{"wharf":{"eventId":"2-7"}}"#, r" }}"),
        (
            r#"{"params" : {"a":{"_meta":{}},"_meta":{"#,
            r#""wharf":{"eventId":"2-7"},"#,
            r#""x":[1]}},"method":"m"}"#,
        ),
        (r#"{"params":{"_meta":{"#, r#""wharf":{"eventId":"2-7"} "#, r#"},"a":1}}"#),
        (r#"{"params":{"_meta":{"#, r#""wharf":{"eventId":"2-7"} "#, r#" },"a":1}}"#),
        (
            r#"{"params":{"_meta":{"#,
            r#""wharf":{"eventId":"2-7"},"#,
            r#""wharf":{"eventId":"9-9"}}}}"#,
        ),
        (
            r#"{"params":{"_meta":{"#,
            r#""wharf":{"eventId":"2-7"},"#,
            r#" "wharf":{"eventId":"9-9"} }}}"#,
        ),
        (r#"{"params":{"#, r#""_meta":{"wharf":{"eventId":"2-7"}},"#, r#""_meta":null}}"#),
    ];

    #[test]
    fn event_id_is_taken_out_and_every_other_byte_stays() {
        for (before, id, after) in FRAMES {
            let frame = [*before, *id, *after].concat();
            let found = find_event_id(frame.as_bytes(), IdHolder::Params)
                .unwrap_or_else(|| panic!("no id in {frame}"));
            assert_eq!(found.id, ID);
            assert_eq!(
                found.remove_from(frame.as_bytes()),
                [*before, *after].concat().as_bytes(),
                "{frame}"
            );
        }
    }

    #[test]
    fn null_meta_comes_back_when_the_event_id_is_taken_out() {
        let shown = "{\"params\":{\"_meta\": {\"wharf\":{\"eventId\":\"2-7\"}\t},\"a\":1}}";
        let found = find_event_id(shown.as_bytes(), IdHolder::Params).unwrap();
        assert_eq!(
            found.remove_from(shown.as_bytes()),
            r#"{"params":{"_meta": null,"a":1}}"#.as_bytes()
        );
    }

    #[test]
    fn members_that_are_no_event_ids_stay() {
        let frames = [
            r#"{"params":{"_meta":{"x":1,"wharf":{"eventId":"2-7"}}}}"#,
            r#"{"params":{"_meta":{"wharf":{"eventId":"seven"}}}}"#,
            r#"{"params":{"update":{"_meta":{"wharf":{"eventId":"2-7"}}}}}"#,
            r#"{"params":[{"_meta":{"wharf":{"eventId":"2-7"}}}]}"#,
            r#"{"result":{"_meta":{"wharf":{"eventId":"2-7"}}}}"#,
        ];
        for frame in frames {
            assert_eq!(find_event_id(frame.as_bytes(), IdHolder::Params), None, "{frame}");
        }
    }
}
