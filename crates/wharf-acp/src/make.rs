//! ACP frames that Wharf makes in more than one place.

use std::fmt::Display;

use bytes::Bytes;
use serde_json::Value;
use wharf_json::rpc;

/// Makes a `session/prompt`. `prompt` is the JSON text of its content blocks. Both ids are replaced
/// on the way to the agent.
pub fn prompt_request(session: &str, prompt: impl Display) -> Bytes {
    let session = Value::from(session);
    rpc::request(
        rpc::PLACEHOLDER_ID,
        "session/prompt",
        format_args!(r#"{{"sessionId":{session},"prompt":{prompt}}}"#),
    )
}

/// Makes the update by which clients are shown one content block (JSON text) of a user's prompt.
/// The bridge knows its own client's prompts by these very bytes.
pub fn user_message_chunk(session: &str, block: &str) -> Bytes {
    let session = Value::from(session);
    let update = format_args!(r#"{{"sessionUpdate":"user_message_chunk","content":{block}}}"#);
    rpc::notification(
        "session/update",
        format_args!(r#"{{"sessionId":{session},"update":{update}}}"#),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_blocks_stay_byte_for_byte() {
        let expected = concat!(
            r#"{"jsonrpc":"2.0","id":0,"method":"session/prompt","#,
            r#""params":{"sessionId":"a\"b","prompt":[ {"n":1e400} ]}}"#
        );
        assert_eq!(prompt_request("a\"b", r#"[ {"n":1e400} ]"#), expected);
        let expected = concat!(
            r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":"#,
            r#"{"sessionUpdate":"user_message_chunk","content":{"text":"\ud83d"}}}}"#
        );
        assert_eq!(user_message_chunk("s", r#"{"text":"\ud83d"}"#), expected);
    }
}
