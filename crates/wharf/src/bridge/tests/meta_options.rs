//! BridgeOptions that the bridge puts into frames.

use crate::bridge::meta_options::{read_option, with_option};

#[test]
fn a_wish_finds_its_place() {
    let cases = [
        (r#"{"params":{}}"#, r#"{"params":{"_meta":{"wharf":{"k":true}}}}"#),
        (r#"{"params":{ "a":1.10 }}"#, r#"{"params":{"_meta":{"wharf":{"k":true}}, "a":1.10 }}"#),
        (r#"{"params":{"_meta":{ }}}"#, r#"{"params":{"_meta":{"wharf":{"k":true} }}}"#),
        (
            r#"{"params":{"_meta":null,"a":1}}"#,
            r#"{"params":{"_meta":{"wharf":{"k":true}},"a":1}}"#,
        ),
        (r#"{"params":{"_meta":{"x":[]}}}"#, r#"{"params":{"_meta":{"wharf":{"k":true},"x":[]}}}"#),
        (
            r#"{"params":{"_meta":{"wharf":{"x":1}}}}"#,
            r#"{"params":{"_meta":{"wharf":{"k":true,"x":1}}}}"#,
        ),
        (
            r#"{"params":{"_meta":{"wharf":{"x":1,"k":false}}}}"#,
            r#"{"params":{"_meta":{"wharf":{"x":1,"k":true}}}}"#,
        ),
        (r#"{"params":{"_meta":{"wharf":7}}}"#, r#"{"params":{"_meta":{"wharf":{"k":true}}}}"#),
    ];
    for (frame, expected) in cases {
        let with = with_option(frame.as_bytes(), "k", "true").unwrap();
        assert_eq!(String::from_utf8_lossy(&with), expected);
    }
    assert_eq!(with_option(br#"{"method":"m"}"#, "k", "true"), None);
    assert_eq!(with_option(br#"{"params":[]}"#, "k", "true"), None);
    assert_eq!(
        read_option(br#"{"params":{"_meta":{"wharf":{"k":[1]}}}}"#, "k"),
        Some(serde_json::json!([1]))
    );
}
