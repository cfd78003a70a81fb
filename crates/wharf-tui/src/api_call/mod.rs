//! Requests to the host: method, path and JSON body, made from the types of the contract.
//!
//! Only public routes are called. One file per group of routes; a function makes one request and
//! names its purpose where it is sent (`model/calls.rs`).

mod session_calls;
mod start_calls;
mod transcript_calls;

pub(crate) use session_calls::*;
pub(crate) use start_calls::*;
pub(crate) use transcript_calls::*;

use serde::Serialize;

/// A request to the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiCall {
    pub method: ApiMethod,
    /// The path with its query.
    pub path: String,
    /// JSON text.
    pub body: Option<String>,
    /// The host does not repeat a request with the same key.
    pub idempotency_key: Option<String>,
    /// The answer comes before the agent is up.
    pub respond_async: bool,
    /// For a start: the shell adds these variables of its environment to the body, as `env`.
    pub forwarded_variables: Option<Vec<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiMethod {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

impl ApiCall {
    fn get(path: String) -> Self {
        Self {
            method: ApiMethod::Get,
            path,
            body: None,
            idempotency_key: None,
            respond_async: false,
            forwarded_variables: None,
        }
    }

    fn with_body(method: ApiMethod, path: String, body: &impl Serialize) -> Self {
        // Every type of the contract has a JSON form.
        let body = serde_json::to_string(body).unwrap_or_default();
        Self { method, body: Some(body), ..Self::get(path) }
    }

    fn post(path: String, body: &impl Serialize) -> Self {
        Self::with_body(ApiMethod::Post, path, body)
    }
}

/// Returns a path with these segments, each written so that it stays one.
fn join_path(segments: &[&str]) -> String {
    segments.iter().map(|segment| format!("/{}", percent_encode(segment))).collect()
}

/// Percent-encodes a text for one segment or value of a URL.
pub fn percent_encode(text: &str) -> String {
    let plain =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    let encode =
        |byte: u8| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_stay_one_segment() {
        assert_eq!(join_path(&["sessions", "a/b?c", "rows"]), "/sessions/a%2Fb%3Fc/rows");
    }

    #[test]
    fn prompt_waits_in_line_and_has_its_key() {
        let call =
            send_prompt("sess_1", prompt_content("fix \"it\"", &[]), PromptWhen::InTurn, "key-1");
        assert_eq!(call.path, "/sessions/sess_1/prompt");
        assert_eq!(call.body.as_deref(), Some(r#"{"prompt":"fix \"it\"","queue":true}"#));
        let with_file = prompt_content("see", &["up_1".to_owned()]);
        assert_eq!(
            with_file.json(),
            r#"[{"text":"see","type":"text"},{"id":"up_1","type":"upload"}]"#
        );
        assert_eq!(
            (call.method, call.idempotency_key.as_deref()),
            (ApiMethod::Post, Some("key-1"))
        );
    }
}
