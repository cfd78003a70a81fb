//! The span `client{id}` of the host's log: every line that belongs to a client carries it.

use std::future::Future;

use tracing::{Instrument, Span};
use wharf_host::core::ClientId;

/// Returns the span of a client's connection, or of its calls without one. Of the level error, so
/// that no filter lets a line through without it.
pub(crate) fn client_span(client: &ClientId) -> Span {
    tracing::error_span!(parent: None, "client", id = %client)
}

/// Spawns a task that stays in the client's span.
pub(crate) fn spawn_in_span(work: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(work.in_current_span());
}
