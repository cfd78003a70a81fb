//! Is the host there, does it take work, and what runs in it.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;
use wharf_host::core::SessionId;

use crate::App;
use crate::calls::{Caller, Session};
use crate::problem::Problem;

/// Says that the host is there. Needs no token.
#[utoipa::path(
    get, path = "/healthz", tag = "host", security(()),
    responses((status = 200, description = "It is", body = String, content_type = "text/plain"))
)]
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// Says whether the host takes work. Needs no token.
#[utoipa::path(
    get, path = "/readyz", tag = "host", security(()),
    responses(
        (status = 200, description = "It does", body = String, content_type = "text/plain"),
        (status = 503, description = "`stopping`: the host is on its way out"),
    )
)]
pub(super) async fn readyz(State(app): State<App>) -> Result<&'static str, Problem> {
    if *app.stopping.borrow() {
        let detail = "the host is stopping; start it again with `wharf serve`";
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", detail));
    }
    Ok("ready\n")
}

/// Sessions with what they run as.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Processes {
    sessions: Vec<SessionProcesses>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SessionProcesses {
    #[serde(flatten)]
    session: Session,
    /// The roots of its process trees: the agent's, and its terminals'.
    pids: Vec<u32>,
}

/// The sessions that are alive, with the roots of their process trees. Not for observers.
#[utoipa::path(
    get, path = "/debug/sessions", tag = "host", operation_id = "debug_sessions",
    responses((status = 200, description = "The newest first", body = Processes))
)]
pub(super) async fn processes(State(app): State<App>, caller: Caller) -> Result<Json<Processes>, Problem> {
    caller.may_change()?;
    let mut known = app.seen_by(&caller.identity).descriptors();
    known.retain(|known| known.status.is_alive());
    known.sort_unstable_by(|a, b| b.id.cmp(&a.id));
    let sessions = known.iter().map(|known| {
        let pids = app.host.processes_of(&SessionId::new(known.id.as_str()));
        SessionProcesses { session: Session::from(&**known), pids }
    });
    Ok(Json(Processes { sessions: sessions.collect() }))
}
