//! Event ids in the frames of clients that asked for them (rule 1.5).

use bytes::Bytes;
use wharf_acp::{IdHolder, place_event_id, splice, wrap_odd_meta};
use wharf_host::core::{EventId, Seq};
use wharf_host::{ByteBudget, Entry, SessionHandle};

use super::out_frame::OutFrame;

/// Returns the frame with the id put in; every other byte stays, and those of a large frame are
/// shared.
pub(super) fn with_event_id(frame: &Bytes, id: EventId) -> OutFrame {
    let Some((place, text)) = place_event_id(frame, IdHolder::Params, id) else {
        return make_room(frame)
            .map_or_else(|| frame.clone().into(), |frame| with_event_id(&frame, id));
    };
    if frame.len() <= ByteBudget::UNCOUNTED_BYTES {
        return Bytes::from(splice(frame, &mut [(place, text.as_bytes())])).into();
    }
    OutFrame::extended(frame.slice(..place.start), text.into(), frame.slice(place.end..))
}

/// Returns the answer with the id of the event up to which it tells; every other byte stays.
pub(super) fn answer_with_event_id(frame: &Bytes, id: EventId) -> Bytes {
    match place_event_id(frame, IdHolder::Result, id) {
        Some((place, text)) => splice(frame, &mut [(place, text.as_bytes())]).into(),
        None => {
            make_room(frame).map_or_else(|| frame.clone(), |frame| answer_with_event_id(&frame, id))
        }
    }
}

/// Returns the frame with room for an event id if its `_meta` has none: the log of an older version
/// may hold a `_meta` that is not an object.
fn make_room(frame: &Bytes) -> Option<Bytes> {
    wrap_odd_meta(frame).ok().filter(|wrapped| wrapped != frame)
}

/// Returns the id of the event with this number; `None` before the first.
pub(super) async fn event_id_at(handle: &SessionHandle, seq: Seq) -> Option<EventId> {
    if seq == Seq::ZERO {
        return None;
    }
    let batch = handle.cursor(Seq(seq.0 - 1)).next().await.ok()?;
    batch.entries().first().filter(|entry| entry.seq == seq).map(Entry::id)
}

#[cfg(test)]
mod tests {
    use wharf_host::core::Epoch;

    use super::*;

    const ID: EventId = EventId { epoch: Epoch(2), seq: Seq(7) };

    #[test]
    fn large_frame_shares_its_bytes_with_the_one_that_has_an_event_id() {
        let large = format!(r#"{{"method":"m","params":{{"a":"{}"}}}}"#, "x".repeat(100_000));
        let shared = Bytes::from(large.clone());
        let extended = with_event_id(&shared, ID);
        assert_eq!(extended.parts()[0].as_ptr(), shared.as_ptr(), "the very bytes");
        let expected = large.replace(r#"{"a""#, r#"{"_meta":{"wharf":{"eventId":"2-7"}},"a""#);
        assert_eq!(extended.into_bytes(), expected.as_bytes());
    }

    #[test]
    fn frame_of_an_older_log_gets_room_for_its_event_id() {
        for (frame, expected) in [
            (
                r#"{"method":"m","params":{"_meta":7}}"#,
                r#"{"method":"m","params":{"_meta":{"wharf":{"eventId":"2-7"},"wharf.agentMeta":7}}}"#,
            ),
            (
                r#"{"method":"m","params":{"_meta":{},"a":1,"_meta":{"b":2}}}"#,
                r#"{"method":"m","params":{"_meta":{"wharf":{"eventId":"2-7"},"wharf.agentMeta":[{},{"b":2}]},"a":1}}"#,
            ),
            (r#"{"method":"m","params":[1]}"#, r#"{"method":"m","params":[1]}"#),
        ] {
            assert_eq!(
                with_event_id(&Bytes::from_static(frame.as_bytes()), ID).into_bytes(),
                expected
            );
        }
        let answer = Bytes::from_static(br#"{"id":1,"result":{"_meta":"x"}}"#);
        let expected =
            r#"{"id":1,"result":{"_meta":{"wharf":{"eventId":"2-7"},"wharf.agentMeta":"x"}}}"#;
        assert_eq!(answer_with_event_id(&answer, ID), expected);
    }

    #[test]
    fn answer_without_a_result_stays_as_it_is() {
        let error = Bytes::from_static(br#"{"id":1,"error":{"code":1}}"#);
        assert_eq!(answer_with_event_id(&error, ID), error);
        let answer = Bytes::from_static(br#"{"id":1,"result":{}}"#);
        assert_eq!(
            answer_with_event_id(&answer, ID),
            r#"{"id":1,"result":{"_meta":{"wharf":{"eventId":"2-7"}}}}"#
        );
    }
}
