//! Defines the faults of the transport. A fault in a message's content is a JSON-RPC error instead.

use wharf_api::ErrorCode;

pub(super) use crate::fault::Fault;

impl Fault {
    pub(super) fn no_connection_id() -> Self {
        Self::new(
            ErrorCode::CONNECTION_ID_MISSING,
            "the header Acp-Connection-Id is missing; it is in the answer to `initialize`",
        )
    }

    /// Also for a connection of another token, whose existence is not told.
    pub(super) fn unknown_connection() -> Self {
        Self::new(
            ErrorCode::UNKNOWN_CONNECTION,
            "no such connection, or it has ended; send `initialize` without Acp-Connection-Id, then load or resume the session",
        )
    }

    pub(super) fn unknown_event(id: &str) -> Self {
        Self::new(
            ErrorCode::UNKNOWN_EVENT,
            format!(
                "this stream cannot go on from Last-Event-ID {id:?}; open it without that header and send `session/load`"
            ),
        )
    }
}
