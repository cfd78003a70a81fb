//! Removes null members of a JSON-RPC message, and an empty `method` of an answer. Some libraries
//! write `"error":null` or `"method":""` beside a result; others take the mere presence for an
//! error or a request.

use bytes::Bytes;
use wharf_json::{Json, Kind, ReadError};

use super::FrameKind;

/// Returns the frame without a `method`, `result` or `error` that is null, and without the empty
/// `method` of an answer. The null result of a response without an error stays.
pub fn without_null_members(frame: &[u8], kind: FrameKind) -> Result<Bytes, ReadError> {
    let is_answer = matches!(kind, FrameKind::Result | FrameKind::Error);
    let mut text = Json::parse(frame)?.raw().to_owned();
    for name in ["method", "result", "error"] {
        let json = Json::parse(text.as_bytes())?;
        let is_absent = |value: Json<'_>| {
            value.kind() == Kind::Null
                || (name == "method"
                    && is_answer
                    && value.text().is_some_and(|text| text.is_empty()))
        };
        if json.members().any(|(key, value)| key == name && is_absent(value))
            && !(kind == FrameKind::Result && name == "result")
        {
            text = wharf_json::remove(json, &[name])?.into_owned();
        }
    }
    Ok(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan;

    #[test]
    fn null_members_are_left_out_and_nothing_else_changes() {
        for (frame, expected) in [
            (r#"{"id":1, "result":{"n":1e400},"error":null}"#, r#"{"id":1, "result":{"n":1e400}}"#),
            (r#"{"error":null,"id":1,"result":null}"#, r#"{"id":1,"result":null}"#),
            (r#"{"id":1,"result":null,"error":{"code":1}}"#, r#"{"id":1,"error":{"code":1}}"#),
            (r#"{"id":1,"method":null,"result":1}"#, r#"{"id":1,"result":1}"#),
            (r#"{"id":1,"method":"","result":1}"#, r#"{"id":1,"result":1}"#),
            (r#"{"method":"","id":1,"result":null,"error":null}"#, r#"{"id":1,"result":null}"#),
            (r#"{"method":"","id":1,"result":null,"error":{}}"#, r#"{"id":1,"error":{}}"#),
            (r#"{"id":1,"method":"","error":null}"#, r#"{"id":1,"method":""}"#),
            (
                r#"{"id":1,"method":"m","result":null,"error":null,"params":null}"#,
                r#"{"id":1,"method":"m","params":null}"#,
            ),
        ] {
            let envelope = scan(frame.as_bytes()).unwrap();
            assert!(envelope.has_null_members, "{frame}");
            assert_eq!(without_null_members(frame.as_bytes(), envelope.kind).unwrap(), expected);
            assert!(!scan(expected.as_bytes()).unwrap().has_null_members, "{expected}");
        }
    }
}
