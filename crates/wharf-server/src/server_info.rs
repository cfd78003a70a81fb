//! The address and the stop signal of a running server, and its version on every response.

use std::sync::Arc;

use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use tokio::sync::Notify;

/// Names the version that answers: a client verb of another version reads it first (rule 1.7).
const VERSION_HEADER: HeaderName = HeaderName::from_static("wharf-version");
pub(crate) const FILE_VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(Debug, Default)]
pub(crate) struct ServerInfo {
    /// The address for clients, such as `http://127.0.0.1:7433`.
    pub(crate) url: String,
    stop: Notify,
}

impl ServerInfo {
    pub(crate) fn new(url: String) -> Arc<Self> {
        Arc::new(Self { url, stop: Notify::new() })
    }

    /// Stops the server, as SIGTERM does.
    pub(crate) fn request_stop(&self) {
        self.stop.notify_one();
    }

    /// Completes when a client has asked the server to stop.
    pub(crate) async fn stop_requested(&self) {
        self.stop.notified().await;
    }
}

pub(crate) async fn add_version_header(mut response: Response) -> Response {
    response.headers_mut().insert(VERSION_HEADER, HeaderValue::from_static(FILE_VERSION));
    response
}
