//! Faults of the transport. What is wrong with a message's content is a JSON-RPC error instead.

use axum::http::StatusCode;

pub(super) use crate::problem::Problem;

impl Problem {
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
