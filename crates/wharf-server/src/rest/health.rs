//! Is the host there, does it take work, and what runs in it.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;
use wharf_host::StorageFault;
use wharf_host::core::SessionId;
use wharf_host::metrics::Insight;

use crate::App;
use crate::problem::Problem;
use crate::use_cases::{Caller, Session};

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
        (status = 503, description = "`stopping`: the host is on its way out; `storage_full`: the disk is full; `storage_gone`: the state directory was deleted or moved; `storage_failed`: it cannot be read or written. All that applies is in `reasons`"),
    )
)]
pub(super) async fn readyz(State(app): State<App>) -> Result<&'static str, Problem> {
    // There is no "starting": nothing is listened to before the host is ready.
    let stopping =
        (*app.stopping.borrow()).then_some(("stopping", "the host is stopping; start it again with `wharf serve`"));
    let fault = app.host.storage_fault().await.or_else(|| app.host.storage_full().then_some(StorageFault::Full));
    let storage = fault.map(|fault| match fault {
        StorageFault::Full => ("storage_full", "the disk is full: sessions wait for space"),
        StorageFault::Gone => ("storage_gone", "the state directory was deleted or moved; the host stops"),
        StorageFault::Failed => {
            ("storage_failed", "the state directory cannot be read or written; the host's log says why")
        }
    });
    let reasons: Vec<_> = stopping.into_iter().chain(storage).collect();
    match reasons.first() {
        None => Ok("ready\n"),
        Some((code, detail)) => {
            let all: Vec<&str> = reasons.iter().map(|(code, _)| *code).collect();
            Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, code, *detail).with("reasons", all))
        }
    }
}

/// Sessions with what they run as.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Processes {
    sessions: Vec<SessionProcesses>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionProcesses {
    #[serde(flatten)]
    session: Session,
    /// The roots of its process trees: the agent's, and its terminals'.
    pids: Vec<u32>,
    /// Asks that are open.
    asks: u64,
    /// Readers that follow it, and by how many events the slowest of them is behind.
    readers: u64,
    lag_events: u64,
    log_bytes: u64,
    /// How long its agent has had nothing to do; left out while it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    idle_millis: Option<u64>,
}

/// The sessions that are alive, with what they run as and how they are; nothing of what was said. Not for observers.
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
        let id = SessionId::new(known.id.as_str());
        let Insight { asks, readers, lag_events, log_bytes, idle_millis, .. } = app.host.insight(&id);
        // What people and agents wrote has no place here.
        let silent = Session { title: None, label: None, name: None, message: None, ..Session::from(&**known) };
        let pids = app.host.processes_of(&id);
        SessionProcesses { session: silent, pids, asks, readers, lag_events, log_bytes, idle_millis }
    });
    Ok(Json(Processes { sessions: sessions.collect() }))
}
