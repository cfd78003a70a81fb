//! `/healthz`, `/readyz` and `/debug/sessions`: liveness, readiness, and the processes of sessions.

use axum::Json;
use axum::extract::State;
use wharf_api::ProcessList;

use crate::App;
use crate::fault::Fault;
use crate::use_cases::{self, Caller};

/// Says that the host is there. Needs no token.
#[utoipa::path(
    get, path = "/healthz", tag = "host", operation_id = "healthz", security(()),
    responses((status = 200, description = "It is", body = String, content_type = "text/plain"))
)]
pub(super) async fn check_health() -> &'static str {
    "ok\n"
}

/// Says whether the host takes work. Needs no token.
#[utoipa::path(
    get, path = "/readyz", tag = "host", operation_id = "readyz", security(()),
    responses(
        (status = 200, description = "It does", body = String, content_type = "text/plain"),
        (status = 503, description = "`stopping`: the host is on its way out; `storage_full`: the disk is full; `storage_gone`: the state directory was deleted or moved; `storage_failed`: it cannot be read or written. All that applies is in `reasons`"),
    )
)]
pub(super) async fn check_readiness(State(app): State<App>) -> Result<&'static str, Fault> {
    use_cases::check_readiness(&app).await.map(|()| "ready\n")
}

/// The sessions that are alive, with what they run as and how they are; nothing of what was said.
/// Not for observers.
#[utoipa::path(
    get, path = "/debug/sessions", tag = "host", operation_id = "debug_sessions",
    responses((status = 200, description = "The newest first", body = ProcessList))
)]
pub(super) async fn list_processes(
    State(app): State<App>,
    caller: Caller,
) -> Result<Json<ProcessList>, Fault> {
    use_cases::list_processes(&app, &caller).map(Json)
}
