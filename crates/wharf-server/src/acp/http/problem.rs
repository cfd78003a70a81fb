//! Faults of the transport as HTTP answers. What is wrong with a message's content is a JSON-RPC error instead.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// A fault: its status, a word that stays the same, and a sentence.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
}

impl Problem {
    pub(super) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into() }
    }

    pub(super) fn no_connection_id() -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "connection_id_missing",
            "the header Acp-Connection-Id is missing; it is in the answer to `initialize`",
        )
    }

    /// Also for a connection of another token: whose it is, is nobody's business.
    pub(super) fn unknown_connection() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "unknown_connection",
            "no such connection, or it has ended; send `initialize` without Acp-Connection-Id, then load or resume the session",
        )
    }

    pub(super) fn unknown_event(id: &str) -> Self {
        Self::new(
            StatusCode::CONFLICT,
            "unknown_event",
            format!(
                "this stream cannot go on from Last-Event-ID {id:?}; open it without that header and send `session/load`"
            ),
        )
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Self { status, code, detail } = self;
        let title = status.canonical_reason().unwrap_or_default();
        let body = json!({ "title": title, "status": status.as_u16(), "code": code, "detail": detail });
        let kind = (header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        (status, [kind], body.to_string()).into_response()
    }
}
