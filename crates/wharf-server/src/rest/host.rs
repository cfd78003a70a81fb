//! `/host` and `/stop`: what the host says of itself, and how it is told to end.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use crate::App;
use crate::problem::Problem;
use crate::running::VERSION;
use crate::use_cases::Caller;

/// The host itself.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Described {
    version: &'static str,
    pid: u32,
    /// Where it listens.
    url: String,
    state_dir: String,
    /// The agent of clients that name none.
    default_agent: String,
    sessions: Count,
}

/// How many sessions there are.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Count {
    /// With an agent.
    live: usize,
    /// With those that have ended.
    total: usize,
}

/// What the host is and where. Not for observers, nor for tokens of one workspace.
#[utoipa::path(
    get, path = "/host", tag = "host", operation_id = "describe_host",
    responses((status = 200, description = "The host", body = Described), (status = 403, description = "`host_only`"))
)]
pub(super) async fn describe(State(app): State<App>, caller: Caller) -> Result<Json<Described>, Problem> {
    caller.may_change()?;
    caller.sees_the_host()?;
    let sessions = app.seen_by(&caller.identity).descriptors();
    let live = sessions.iter().filter(|session| session.status.is_alive()).count();
    Ok(Json(Described {
        version: VERSION,
        pid: std::process::id(),
        url: app.running.url.clone(),
        state_dir: app.host.config().state_dir.display().to_string(),
        default_agent: app.agent.to_string(),
        sessions: Count { live, total: sessions.len() },
    }))
}

/// The host is on its way out.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Stopping {
    ok: bool,
    /// The process that will be gone.
    pid: u32,
}

/// Stops the host as SIGTERM does: no new work, agents are ended, logs are synced. Answers at once. For admins.
#[utoipa::path(
    post, path = "/stop", tag = "host", operation_id = "stop_host",
    responses((status = 202, description = "It begins to stop", body = Stopping), (status = 403, description = "`admin_only`"))
)]
pub(super) async fn stop(State(app): State<App>, caller: Caller) -> Result<(StatusCode, Json<Stopping>), Problem> {
    caller.may_administrate()?;
    tracing::info!("stopping: asked by a client; no new work, agents are ended");
    app.running.stop();
    Ok((StatusCode::ACCEPTED, Json(Stopping { ok: true, pid: std::process::id() })))
}
