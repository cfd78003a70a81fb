//! JSON-RPC 2.0 as far as Wharf writes it: the frames that it makes itself, the numbers of errors,
//! ids, and the id of a line that cannot be read.
//!
//! Every frame that Wharf makes begins with `"jsonrpc"`, then `"id"`, then the rest, on one line if
//! its parts are. Parts are JSON text, so that a value of another program stands in the frame as it
//! came: a [`Json`](crate::Json), a `serde_json::Value`, a `&str` or `format_args!`. Nothing checks
//! that such text is JSON.
//!
//! Frames of other programs are read by `wharf_acp`, which finds the members of JSON-RPC
//! and of ACP in one pass.

pub mod code;
mod id;
mod salvage;

use std::fmt::Display;

use bytes::Bytes;
use serde_json::{Value, json};

pub use id::{FrameId, is_same_id};
pub use salvage::{HEAD_BYTES, Salvaged, refused_id, salvage, salvage_head};

/// The id of a request or response that gets its real id on the way to its receiver.
pub const PLACEHOLDER_ID: FrameId<'static> = FrameId::from_text("0");

/// Makes a request. `params` is JSON text.
pub fn request<'a>(id: impl Into<FrameId<'a>>, method: &str, params: impl Display) -> Bytes {
    let id = id.into();
    let method = Value::from(method);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method},"params":{params}}}"#).into()
}

/// Makes a notification. `params` is JSON text.
pub fn notification(method: &str, params: impl Display) -> Bytes {
    let method = Value::from(method);
    format!(r#"{{"jsonrpc":"2.0","method":{method},"params":{params}}}"#).into()
}

/// Makes the notification that takes back a request.
pub fn cancel_request<'a>(id: impl Into<FrameId<'a>>) -> Bytes {
    notification("$/cancel_request", format_args!(r#"{{"requestId":{}}}"#, id.into()))
}

/// Makes a response that holds a result. `result` is JSON text.
pub fn response<'a>(id: impl Into<FrameId<'a>>, result: impl Display) -> Bytes {
    format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, id.into()).into()
}

/// Makes a response that holds an error object, which is JSON text.
pub fn error_response<'a>(id: impl Into<FrameId<'a>>, error: impl Display) -> Bytes {
    format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, id.into()).into()
}

/// Makes an error object.
pub fn error(code: i32, message: &str, data: Option<Value>) -> Value {
    let mut error = json!({ "code": code, "message": message });
    if let Some(data) = data {
        error["data"] = data;
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Json;

    /// Ids as other programs write them.
    const ODD_IDS: [&str; 9] = [
        "null",
        "0",
        "-1",
        "1.5",
        "1e400",
        "123456789012345678901234567890",
        r#""a\"b\\c\u0000""#,
        r#""\ud83d""#,
        r#""é😀""#,
    ];

    fn member<'a>(frame: &'a Bytes, name: &str) -> &'a str {
        let frame = Json::parse(frame).unwrap();
        frame
            .members()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.raw())
            .unwrap_or_default()
    }

    #[test]
    fn frames_are_written_with_the_version_first_and_the_id_second() {
        let params = json!({ "a": [1] });
        assert_eq!(
            request(7, "m", &params),
            r#"{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":[1]}}"#
        );
        assert_eq!(
            notification("m", &params),
            r#"{"jsonrpc":"2.0","method":"m","params":{"a":[1]}}"#
        );
        assert_eq!(response(PLACEHOLDER_ID, "null"), r#"{"jsonrpc":"2.0","id":0,"result":null}"#);
        let error = error(code::INTERNAL_ERROR, "no \"disk\"", None);
        let expected =
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"no \"disk\""}}"#;
        assert_eq!(error_response(7, error), expected);
        let expected =
            r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"x"}}"#;
        assert_eq!(cancel_request(r#""x""#), expected);
    }

    #[test]
    fn odd_ids_come_back_as_they_were_written() {
        for id in ODD_IDS {
            for frame in [request(id, "m", "{}"), response(id, "{}"), error_response(id, "{}")] {
                assert_eq!(member(&frame, "id"), id);
            }
            let bytes = Bytes::from_static(id.as_bytes());
            assert_eq!(response(&bytes, "1"), response(id, "1"));
            assert_eq!(response(&bytes[..], "1"), response(id, "1"));
            let cancelled = cancel_request(id);
            let request = Json::parse(&cancelled)
                .unwrap()
                .members()
                .find(|(key, _)| key == "params")
                .unwrap()
                .1;
            assert_eq!(request.members().next().map(|(_, value)| value.raw()), Some(id));
        }
    }

    #[test]
    fn parts_of_other_programs_stay_byte_for_byte() {
        for part in [r#"{ "n":1e400,"s":"\ud83d","a":1,"a":2 }"#, "[[[]]]", "-0.0", r#""\u0041""#] {
            assert_eq!(member(&request(1, "m", part), "params"), part);
            assert_eq!(
                member(&notification("m", Json::parse(part.as_bytes()).unwrap()), "params"),
                part
            );
            assert_eq!(member(&response(1, part), "result"), part);
            assert_eq!(member(&error_response(1, part), "error"), part);
        }
    }

    #[test]
    fn method_names_are_escaped() {
        let frame = notification("_a/\"b\"\n", "{}");
        assert_eq!(
            Json::parse(&frame).unwrap().text_at(&["method"]).unwrap().as_deref(),
            Some("_a/\"b\"\n")
        );
    }

    #[test]
    fn error_holds_data_only_if_there_is_some() {
        assert_eq!(error(1, "m", None), json!({ "code": 1, "message": "m" }));
        assert_eq!(error(1, "m", Some(json!({ "x": 1 })))["data"], json!({ "x": 1 }));
    }
}
