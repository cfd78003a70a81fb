//! Any frame, however odd: its ids are found and replaced, and nothing else is touched.

use bytes::Bytes;
use wharf_testkit::odd_json::{OddJson, OddStyle, fill_template};
use wharf_testkit::random::TestRandom;

use super::super::*;

const FRAMES: u64 = 5_000;

/// A template, and what kind of frame it is.
fn template(dice: &mut TestRandom) -> (String, FrameKind) {
    let kind = dice.next_below(3);
    let mut odd = OddJson::new(dice, OddStyle { wild: true, breaks: true });
    match kind {
        0 => (odd.make_message("session/update", false, &[]), FrameKind::Notification),
        1 => (odd.make_message("_any/thing", true, &[]), FrameKind::Request),
        _ => {
            let text = odd.make_response();
            let kind = scan(one_line(text.replace("@ID_MARK@", "1").into()).as_ref()).unwrap().kind;
            (text, kind)
        }
    }
}

fn line(template: &str, id: &str, session: &str) -> Bytes {
    one_line(fill_template(template, id, session).into())
}

#[test]
fn ids_go_there_and_back_and_every_other_byte_stays() {
    let mut dice = TestRandom::from_environment().unwrap();
    for number in 0..FRAMES {
        let (template, kind) = template(&mut dice);
        let id = OddJson::new(&mut dice, OddStyle { wild: true, breaks: false }).make_id(number);
        let (theirs, ours) =
            (line(&template, &id, r#""a\u0067ent's \"own\"""#), line(&template, "7", "\"sess_1\""));
        let envelope = scan(&theirs).unwrap_or_else(|error| panic!("{error}: {theirs:?}"));
        assert_eq!(envelope.kind, kind, "{theirs:?}");
        assert_eq!(
            envelope.id.clone().map(|span| &theirs[span]),
            Some(id.as_bytes()).filter(|_| has_id(kind))
        );
        let named = envelope.session.as_ref().map(|session| session.value.as_ref());
        assert_eq!(
            named,
            Some("agent's \"own\"").filter(|_| !envelope.method.is_empty()),
            "{theirs:?}"
        );
        assert_eq!(with_session(&theirs, &envelope, "sess_1", Some(b"7")), ours);
        let envelope = scan(&ours).unwrap();
        let back = line(&template, &id, r#""agent's \"own\"""#);
        assert_eq!(with_session(&ours, &envelope, "agent's \"own\"", Some(id.as_bytes())), back);
    }
}

const fn has_id(kind: FrameKind) -> bool {
    !matches!(kind, FrameKind::Notification)
}

#[test]
fn scanner_reader_and_codec_agree_on_frames_with_bytes_changed() {
    let mut dice = TestRandom::from_environment().unwrap();
    for number in 0..4 * FRAMES {
        let (template, _) = template(&mut dice);
        let mut frame = fill_template(&template, &number.to_string(), "\"s\"").into_bytes();
        for _ in 0..dice.next_below(4) {
            let place = usize::try_from(dice.next_below(frame.len() as u64 + 1)).unwrap();
            match dice.next_below(5) {
                0 => frame.truncate(place),
                1 => frame.insert(place, u8::try_from(dice.next_below(256)).unwrap()),
                2 => frame.insert(place, u8::try_from(dice.next_below(32)).unwrap()),
                3 => frame.insert(
                    place,
                    *b"\"{}[],:\\".get(usize::try_from(dice.next_below(8)).unwrap()).unwrap(),
                ),
                _ => drop(frame.drain(place..frame.len().min(place + 1))),
            }
        }
        crate::fuzz::readers(&frame);
    }
}

#[test]
fn a_frame_with_a_byte_changed_is_refused_or_understood_and_nothing_else() {
    let mut dice = TestRandom::from_environment().unwrap();
    for number in 0..FRAMES {
        let (template, _) = template(&mut dice);
        let mut frame = line(&template, &number.to_string(), "\"s\"").to_vec();
        let place = usize::try_from(dice.next_below(frame.len() as u64)).unwrap();
        match dice.next_below(3) {
            0 => frame.truncate(place),
            1 => frame[place] = u8::try_from(dice.next_below(256)).unwrap(),
            _ => drop(frame.remove(place)),
        }
        let Ok(envelope) = scan(&frame) else { continue };
        let changed = with_session(&frame, &envelope, "other", Some(b"\"x\""));
        let again = scan(&changed).unwrap_or_else(|error| panic!("{error}: {changed:?}"));
        assert_eq!((again.kind, &again.method), (envelope.kind, &envelope.method));
        assert_eq!(
            again.session.map(|session| session.value),
            envelope.session.map(|_| "other".into())
        );
    }
}
