//! Frames that real agents send, and frames that none should.

mod random;

use bytes::Bytes;
use wharf_core::UpdateKind;

use super::*;

const UPDATE: &str = r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"20261115_1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"}}}}"#;

#[test]
fn an_update_is_scanned_for_its_session_and_kind() {
    let envelope = scan(UPDATE.as_bytes()).unwrap();
    assert_eq!(envelope.kind, FrameKind::Notification);
    assert_eq!(envelope.method, "session/update");
    assert_eq!(envelope.session.as_ref().unwrap().value, "20261115_1");
    assert_eq!(envelope.update, Some(UpdateKind::AgentMessageChunk));
}

#[test]
fn kinds_of_messages_are_told_apart() {
    let kind = |text: &str| scan(text.as_bytes()).map(|envelope| envelope.kind);
    assert_eq!(kind(r#"{"id":0,"method":"m"}"#), Ok(FrameKind::Request));
    assert_eq!(kind(r#"{"id":null,"method":"m"}"#), Ok(FrameKind::Request));
    assert_eq!(
        kind(r#"{"method":"m","params":[1,{"sessionId":"x"}]}"#),
        Ok(FrameKind::Notification)
    );
    assert_eq!(kind(r#"{"id":"a","result":null}"#), Ok(FrameKind::Result));
    assert_eq!(kind(r#"{"id":"a","error":{}}"#), Ok(FrameKind::Error));
    assert!(matches!(kind("[{}]"), Err(ScanError::Batch)));
    assert!(matches!(kind(r#"{"id":1}"#), Err(ScanError::NotMessage(_))));
    assert!(matches!(kind(r#"{"id":1,"method":"m","result":1}"#), Err(ScanError::NotMessage(_))));
    assert!(matches!(kind(r#"{"jsonrpc":"2.0"}"#), Err(ScanError::NotMessage(_))));
    assert!(matches!(kind("hello"), Err(ScanError::NotJson(_))));
    assert!(matches!(kind(r#"{"method":"m"} x"#), Err(ScanError::NotJson(_))));
    assert_eq!(scan(b"{\"method\":\"\xff\"}").unwrap_err(), ScanError::NotUtf8);
}

#[test]
fn null_members_are_absent() {
    let kind = |text: &str| scan(text.as_bytes()).map(|envelope| envelope.kind);
    assert_eq!(kind(r#"{"id":1,"result":{},"error":null}"#), Ok(FrameKind::Result));
    assert_eq!(kind(r#"{"id":1,"result":null,"error":null}"#), Ok(FrameKind::Result));
    assert_eq!(kind(r#"{"id":1,"result":null,"error":{}}"#), Ok(FrameKind::Error));
    assert_eq!(kind(r#"{"id":1,"method":null,"result":1e400}"#), Ok(FrameKind::Result));
    assert_eq!(kind(r#"{"id":1,"method":"m","result":null,"error":null}"#), Ok(FrameKind::Request));
    assert!(matches!(kind(r#"{"id":1,"error":null}"#), Err(ScanError::NotMessage(_))));
    assert!(matches!(kind(r#"{"id":1,"result":{},"error":{}}"#), Err(ScanError::NotMessage(_))));
}

#[test]
fn empty_method_beside_an_outcome_is_absent() {
    let kind = |text: &str| {
        scan(text.as_bytes()).map(|envelope| (envelope.kind, envelope.has_null_members))
    };
    assert_eq!(kind(r#"{"id":1,"method":"","result":{}}"#), Ok((FrameKind::Result, true)));
    assert_eq!(kind(r#"{"id":1,"method":"","result":null}"#), Ok((FrameKind::Result, true)));
    assert_eq!(
        kind(r#"{"id":1,"method":"","result":null,"error":{}}"#),
        Ok((FrameKind::Error, true))
    );
    assert_eq!(kind(r#"{"id":1,"method":""}"#), Ok((FrameKind::Request, false)));
    assert_eq!(kind(r#"{"id":1,"method":"","error":null}"#), Ok((FrameKind::Request, true)));
    assert!(matches!(kind(r#"{"id":1,"method":"m","result":{}}"#), Err(ScanError::NotMessage(_))));
    for twice in
        [r#"{"id":1,"method":null,"method":"m"}"#, r#"{"id":1,"method":"m","method":null}"#]
    {
        assert!(
            kind(twice).unwrap_err().to_string().contains("`method` stands there twice"),
            "{twice}"
        );
    }
}

#[test]
fn control_bytes_and_line_breaks_within_names_and_texts_are_no_json() {
    for byte in (0..0x20).map(char::from) {
        for place in [
            r#"{"a@":1,"id":1,"result":{}}"#,
            r#"{"id":1,"result":{"a":["@"]}}"#,
            r#"{"method":"m","params":{"@":1}}"#,
        ] {
            let frame = Bytes::from(place.replace('@', &byte.to_string()));
            assert!(matches!(scan(&frame), Err(ScanError::NotJson(_))), "{frame:?}");
            let is_line_break = matches!(byte, '\n' | '\r');
            assert_eq!(read_line(frame.clone()).is_err(), is_line_break, "{frame:?}");
        }
    }
    let pretty = Bytes::from_static(b"{\n\"id\":1,\r\n\"result\":{}}");
    assert_eq!(read_line(pretty).unwrap(), &b"{ \"id\":1,  \"result\":{}}"[..]);
    let twice = Bytes::from_static(b"{\n\"id\":1,\"id\":1}");
    assert!(
        read_line(twice.clone()).is_ok_and(|line| scan(&line).is_err()),
        "no message, but JSON"
    );
}

#[test]
fn text_in_brackets_is_no_batch() {
    for text in ["[INFO] started", "[", "[1,]", "\u{c}[]", "[{}"] {
        assert!(matches!(scan(text.as_bytes()), Err(ScanError::NotJson(_))), "{text}");
    }
    assert!(matches!(scan(b" \t[{}] "), Err(ScanError::Batch)));
}

#[test]
fn keys_and_values_that_common_parsers_refuse_are_scanned() {
    for odd in ["1e400", r#""\ud83d""#, r#"{"\ud83d":-1E+999}"#] {
        let frame = format!(
            r#"{{"\ud83d":{odd},"method":"session/update","params":{{"\ude00":{odd},"sessionId":"s\ud83d","update":{{"\ud83d":{odd},"sessionUpdate":"plan","content":{odd}}}}}}}"#
        );
        let envelope = scan(frame.as_bytes()).unwrap();
        assert_eq!(envelope.session.as_ref().unwrap().value, "s\u{fffd}");
        assert_eq!(envelope.update, Some(UpdateKind::Plan));
        let answer = format!(r#"{{"id":{odd},"result":{odd}}}"#);
        assert_eq!(scan(answer.as_bytes()).unwrap().kind, FrameKind::Result, "{odd}");
    }
    assert!(
        matches!(scan(br#"{"method":"m","params":1e400}"#), Err(ScanError::NotMessage(_))),
        "it is JSON"
    );
}

#[test]
fn a_member_of_an_update_that_wharf_reads_stands_there_once() {
    for name in [
        "sessionUpdate",
        "content",
        "currentModeId",
        "configOptions",
        "title",
        "toolCallId",
        "_meta",
    ] {
        let frame = format!(
            r#"{{"method":"m","params":{{"update":{{"{name}":1,"x":2,"x":3,"{name}":1}}}}}}"#
        );
        let error = scan(frame.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(&format!("`{name}` stands there twice")), "{error}");
    }
}

#[test]
fn escaped_keys_and_values_are_understood() {
    let frame = r#"{"\u006dethod":"session\/update","params":{"session\u0049d":"a\"b","update":{"sessionUpdate":"pl\u0061n"}}}"#;
    let envelope = scan(frame.as_bytes()).unwrap();
    assert_eq!(envelope.method, "session/update");
    assert_eq!(envelope.session.as_ref().unwrap().value, "a\"b");
    assert_eq!(envelope.update, Some(UpdateKind::Plan));
    let replaced = with_session(frame.as_bytes(), &envelope, "new", None);
    let expected = frame.replace(r#""a\"b""#, r#""new""#);
    assert_eq!(replaced, expected.as_bytes());
}

#[test]
fn an_id_that_stands_there_twice_is_refused() {
    for twice in [
        r#"{"id":1,"id":2,"method":"m"}"#,
        r#"{"method":"m","params":{"sessionId":"a","sessionId":"b"}}"#,
        r#"{"method":"m","params":{"sessionId":"a"},"params":{"sessionId":"b"}}"#,
    ] {
        assert!(matches!(scan(twice.as_bytes()), Err(ScanError::NotMessage(_))), "{twice}");
    }
}

#[test]
fn a_session_id_elsewhere_is_left_alone() {
    let frame =
        r#"{"method":"m","params":{"_meta":{"sessionId":"x"},"sessionId":"y"},"sessionId":"z"}"#;
    let envelope = scan(frame.as_bytes()).unwrap();
    let replaced = with_session(frame.as_bytes(), &envelope, "w", None);
    assert_eq!(replaced, frame.replace(r#""y""#, r#""w""#).as_bytes());
}

#[test]
fn ids_are_replaced_and_every_other_byte_stays() {
    let odd = r#"{ "id" : 9223372036854775808 ,"method":"m","params":{"a":1.10,"b":1e2,"c":12345678901234567890123,"d":"\u00e9\/","e":[1,1 ,  1],"sessionId":"s"},"traceparent":"00-ab"}"#;
    let envelope = scan(odd.as_bytes()).unwrap();
    let there = with_session(odd.as_bytes(), &envelope, "longer-session", Some(b"7"));
    let envelope = scan(&there).unwrap();
    let back = with_session(&there, &envelope, "s", Some(b"9223372036854775808"));
    assert_eq!(back, odd.as_bytes());
}

#[test]
fn deep_nesting_is_scanned() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let frame = format!(r#"{{"method":"m","params":{{"sessionId":"s","deep":{deep}}}}}"#);
    assert_eq!(scan(frame.as_bytes()).unwrap().session.unwrap().value, "s");
}

#[test]
fn a_pretty_printed_frame_becomes_one_line() {
    let frame = Bytes::from_static(b"{\n  \"method\": \"m\"\r\n}");
    assert_eq!(one_line(frame), &b"{   \"method\": \"m\"  }"[..]);
}

#[test]
fn half_a_surrogate_pair_in_a_title_is_scanned() {
    let frame = r#"{"method":"session/update","params":{"sessionId":"a","update":{"sessionUpdate":"tool_call","title":"\ud83d"}}}"#;
    let envelope = scan(frame.as_bytes()).unwrap();
    assert_eq!(
        (envelope.update, envelope.title.as_deref()),
        (Some(UpdateKind::ToolCall), Some("\u{fffd}"))
    );
}
