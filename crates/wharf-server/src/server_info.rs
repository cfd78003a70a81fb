//! The address and the stop signal of a running server, and its version on every response.

use std::sync::Arc;

use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use tokio::sync::watch;

use crate::StopKind;

/// Names the version that answers: a client verb of another version reads it first (rule 1.7).
const VERSION_HEADER: HeaderName = HeaderName::from_static("wharf-version");
pub(crate) const FILE_VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(Debug, Default)]
pub(crate) struct ServerInfo {
    /// The address for clients, such as `http://127.0.0.1:7433`.
    pub(crate) url: String,
    stop: watch::Sender<Option<StopKind>>,
}

impl ServerInfo {
    pub(crate) fn new(url: String) -> Arc<Self> {
        Arc::new(Self { url, stop: watch::Sender::new(None) })
    }

    /// Stops the server.
    pub(crate) fn request_stop(&self, kind: StopKind) {
        self.stop.send_replace(Some(kind));
    }

    /// Completes when a client has asked the server to stop.
    pub(crate) async fn stop_requested(&self) -> StopKind {
        let mut stop = self.stop.subscribe();
        match stop.wait_for(Option::is_some).await {
            Ok(kind) => kind.unwrap_or(StopKind::EndAgents),
            Err(_) => std::future::pending().await,
        }
    }
}

pub(crate) async fn add_version_header(mut response: Response) -> Response {
    response
        .headers_mut()
        .insert(VERSION_HEADER, HeaderValue::from_static(FILE_VERSION));
    response
}
