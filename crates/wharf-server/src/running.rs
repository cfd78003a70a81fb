//! What the host says of itself, and how it is told to stop: `GET /host`, `POST /stop`, and the version on every answer.

use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Json, Response};
use serde_json::json;
use tokio::sync::Notify;

use crate::App;
use crate::auth::{Access, Identity};
use crate::problem::Problem;

/// Which version answers: a client verb of another one looks at it first (rule 1.7).
const VERSION_HEADER: HeaderName = HeaderName::from_static("wharf-version");
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What a running server knows of itself.
#[derive(Debug, Default)]
pub(crate) struct Running {
    /// `http://127.0.0.1:7433`.
    url: String,
    stop: Notify,
}

impl Running {
    pub(crate) fn at(url: String) -> Arc<Self> {
        Arc::new(Self { url, stop: Notify::new() })
    }

    /// Done when a client has asked for the end.
    pub(crate) async fn stop_asked(&self) {
        self.stop.notified().await;
    }
}

pub(crate) async fn sign(mut response: Response) -> Response {
    response.headers_mut().insert(VERSION_HEADER, HeaderValue::from_static(VERSION));
    response
}

pub(crate) async fn describe(State(app): State<App>) -> Response {
    let sessions = app.host.descriptors();
    let live = sessions.iter().filter(|session| session.status.is_alive()).count();
    Json(json!({
        "version": VERSION,
        "pid": std::process::id(),
        "url": app.running.url,
        "stateDir": app.host.config().state_dir,
        "defaultAgent": &*app.agent,
        "sessions": { "live": live, "total": sessions.len() },
    }))
    .into_response()
}

/// Answers at once; the host then does what SIGTERM makes it do.
pub(crate) async fn stop(State(app): State<App>, Extension(who): Extension<Identity>) -> Response {
    if who.access < Access::Admin {
        let detail = "only an admin stops the host: use the local socket (`wharf stop`) or an admin's token";
        return Problem::new(StatusCode::FORBIDDEN, "admin_only", detail).into_response();
    }
    tracing::info!("stopping: asked by a client; no new work, agents are ended");
    app.running.stop.notify_one();
    (StatusCode::ACCEPTED, Json(json!({ "ok": true, "pid": std::process::id() }))).into_response()
}
