//! Event ids in and out of frames, and wishes in.

use crate::bridge::meta::{EventId, event_id, wish, with_wish, without};

/// What the host makes of each: the bytes before the place of the id, the text that is put there, the rest.
const FRAMES: &[(&str, &str, &str)] = &[
    (r#"{"method":"m","params":{"#, r#""_meta":{"wharf":{"eventId":"2-7"}},"#, r#""a":1.10}}"#),
    (r#"{"method":"m","params":{"#, r#""_meta":{"wharf":{"eventId":"2-7"}}"#, r" }}"),
    (r#"{"params" : {"a":{"_meta":{}},"_meta":{"#, r#""wharf":{"eventId":"2-7"},"#, r#""x":[1]}},"method":"m"}"#),
    (r#"{"params":{"_meta":{"#, r#""wharf":{"eventId":"2-7"} "#, r#"},"a":1}}"#),
    (r#"{"params":{"_meta":{"#, r#""wharf":{"eventId":"2-7"} "#, r#" },"a":1}}"#),
    (r#"{"params":{"_meta":{"#, r#""wharf":{"eventId":"2-7"},"#, r#""wharf":{"eventId":"9-9"}}}}"#),
    (r#"{"params":{"_meta":{"#, r#""wharf":{"eventId":"2-7"},"#, r#" "wharf":{"eventId":"9-9"} }}}"#),
    (r#"{"params":{"#, r#""_meta":{"wharf":{"eventId":"2-7"}},"#, r#""_meta":null}}"#),
];

#[test]
fn an_event_id_is_taken_out_and_every_other_byte_stays() {
    for (before, id, after) in FRAMES {
        let frame = [*before, *id, *after].concat();
        let (event, span) = event_id(frame.as_bytes()).unwrap_or_else(|| panic!("no id in {frame}"));
        assert_eq!(event, EventId { epoch: 2, seq: 7 });
        assert_eq!(without(frame.as_bytes(), span), [*before, *after].concat().as_bytes(), "{frame}");
    }
}

#[test]
fn a_null_meta_comes_back_when_the_event_id_is_taken_out() {
    let shown = "{\"params\":{\"_meta\": {\"wharf\":{\"eventId\":\"2-7\"}\t},\"a\":1}}";
    let (_, place) = event_id(shown.as_bytes()).unwrap();
    assert_eq!(without(shown.as_bytes(), place), r#"{"params":{"_meta": null,"a":1}}"#.as_bytes());
}

#[test]
fn what_is_no_event_id_stays() {
    let frames = [
        r#"{"params":{"_meta":{"x":1,"wharf":{"eventId":"2-7"}}}}"#,
        r#"{"params":{"_meta":{"wharf":{"eventId":"seven"}}}}"#,
        r#"{"params":{"update":{"_meta":{"wharf":{"eventId":"2-7"}}}}}"#,
        r#"{"params":[{"_meta":{"wharf":{"eventId":"2-7"}}}]}"#,
        r#"{"result":{"_meta":{"wharf":{"eventId":"2-7"}}}}"#,
    ];
    for frame in frames {
        assert_eq!(event_id(frame.as_bytes()), None, "{frame}");
    }
}

#[test]
fn a_wish_finds_its_place() {
    let cases = [
        (r#"{"params":{}}"#, r#"{"params":{"_meta":{"wharf":{"k":true}}}}"#),
        (r#"{"params":{ "a":1.10 }}"#, r#"{"params":{"_meta":{"wharf":{"k":true}}, "a":1.10 }}"#),
        (r#"{"params":{"_meta":{ }}}"#, r#"{"params":{"_meta":{"wharf":{"k":true} }}}"#),
        (r#"{"params":{"_meta":null,"a":1}}"#, r#"{"params":{"_meta":{"wharf":{"k":true}},"a":1}}"#),
        (r#"{"params":{"_meta":{"x":[]}}}"#, r#"{"params":{"_meta":{"wharf":{"k":true},"x":[]}}}"#),
        (r#"{"params":{"_meta":{"wharf":{"x":1}}}}"#, r#"{"params":{"_meta":{"wharf":{"k":true,"x":1}}}}"#),
        (r#"{"params":{"_meta":{"wharf":{"x":1,"k":false}}}}"#, r#"{"params":{"_meta":{"wharf":{"x":1,"k":true}}}}"#),
        (r#"{"params":{"_meta":{"wharf":7}}}"#, r#"{"params":{"_meta":{"wharf":{"k":true}}}}"#),
    ];
    for (frame, expected) in cases {
        let with = with_wish(frame.as_bytes(), "k", "true").unwrap();
        assert_eq!(String::from_utf8_lossy(&with), expected);
    }
    assert_eq!(with_wish(br#"{"method":"m"}"#, "k", "true"), None);
    assert_eq!(with_wish(br#"{"params":[]}"#, "k", "true"), None);
    assert_eq!(wish(br#"{"params":{"_meta":{"wharf":{"k":[1]}}}}"#, "k"), Some(serde_json::json!([1])));
}
