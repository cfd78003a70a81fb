//! The host itself: its description, its readiness, the processes of its sessions, and its
//! shutdown.

use axum::http::StatusCode;
use wharf_api::{
    AttentionInfo, ErrorCode, HostInfo, HostSettingList, ProcessList, ReloadReceipt, SessionCount,
    SessionInfo, SessionProcesses, StopAgents, StopReceipt,
};
use wharf_host::StorageFault;
use wharf_host::core::SessionId;
use wharf_host::metrics::Insight;

use super::Caller;
use super::attention::AttentionView;
use crate::fault::Fault;
use crate::server_info::FILE_VERSION;
use crate::{App, StopKind};

/// Describes the host.
pub(crate) fn describe_host(app: &App, caller: &Caller) -> Result<HostInfo, Fault> {
    caller.may_change()?;
    caller.may_see_host()?;
    let sessions = app.visible_to(&caller.identity).descriptors();
    let live = sessions.iter().filter(|session| session.status.is_alive()).count();
    Ok(HostInfo {
        version: FILE_VERSION.to_owned(),
        pid: std::process::id(),
        url: app.server_info.url.clone(),
        public_url: app
            .host
            .config()
            .public_url
            .as_ref()
            .map(wharf_config::PublicUrl::page_address),
        state_dir: app.host.config().state_dir.display().to_string(),
        default_agent: app.host.config().default_agent.clone(),
        cancel_timeout_ms: app
            .host
            .config()
            .core_settings()
            .cancel_timeout
            .map(|timeout| timeout.0),
        log_file: app.host.config().log_file.as_ref().map(|file| file.display().to_string()),
        sessions: SessionCount { live, total: sessions.len() },
        turns: Some(app.host.running_turns()),
        settings: caller.identity.is_admin().then(|| app.host.settings_state()),
        process: caller.identity.is_admin().then(|| app.host.config().process.clone()),
    })
}

/// Lists the host's settings, with the source of each.
pub(crate) fn list_settings(app: &App, caller: &Caller) -> Result<HostSettingList, Fault> {
    caller.may_administrate()?;
    Ok(app.host.describe_settings())
}

/// Loads the settings again, as SIGHUP does.
pub(crate) async fn reload_settings(app: &App, caller: &Caller) -> Result<ReloadReceipt, Fault> {
    caller.may_administrate()?;
    let host = app.host.clone();
    let reloaded = tokio::task::spawn_blocking(move || host.reload_config()).await;
    match reloaded {
        Ok(Ok(report)) => Ok(ReloadReceipt { changed: report.changed, waiting: report.waiting }),
        Ok(Err(error)) => Err(Fault::new(ErrorCode::INVALID_SETTINGS, error.to_string())),
        Err(_) => Err(Fault::new(
            ErrorCode::INTERNAL,
            "the settings could not be loaded; the host's log says why",
        )),
    }
}

/// Stops the host. Returns at once.
pub(crate) fn stop_host(
    app: &App,
    caller: &Caller,
    agents: StopAgents,
) -> Result<StopReceipt, Fault> {
    caller.may_administrate()?;
    let kind = match agents {
        StopAgents::End => StopKind::EndAgents,
        StopAgents::Leave => StopKind::LeaveAgents,
    };
    tracing::info!(?kind, "stopping: asked by a client; no new work");
    app.server_info.request_stop(kind);
    Ok(StopReceipt { ok: true, pid: std::process::id() })
}

/// Fails if the host takes no work. A state "starting" does not exist: the server listens only once
/// the host is ready.
pub(crate) async fn check_readiness(app: &App) -> Result<(), Fault> {
    let stopping = (*app.stopping.borrow()).then_some((
        ErrorCode::STOPPING,
        "the host is stopping; start it again with `wharf serve`",
    ));
    let fault = app
        .host
        .storage_fault()
        .await
        .or_else(|| app.host.storage_full().then_some(StorageFault::Full));
    let storage = fault.map(|fault| match fault {
        StorageFault::Full => {
            (ErrorCode::STORAGE_FULL, "the disk is full: sessions wait for space")
        }
        StorageFault::Gone => {
            (ErrorCode::STORAGE_GONE, "the state directory was deleted or moved; the host stops")
        }
        StorageFault::Failed => (
            ErrorCode::STORAGE_FAILED,
            "the state directory cannot be read or written; the host's log says why",
        ),
    });
    let reasons: Vec<_> = stopping.into_iter().chain(storage).collect();
    let Some((code, detail)) = reasons.first().copied() else { return Ok(()) };
    let all = reasons.iter().map(|(code, _)| *code).collect();
    let fault = Fault::new(code, detail).with_status(StatusCode::SERVICE_UNAVAILABLE);
    Err(fault.with_members(|body| body.reasons = Some(all)))
}

/// Lists the sessions that are alive, the newest first, with their processes and figures, and
/// without any text of people or agents.
pub(crate) fn list_processes(app: &App, caller: &Caller) -> Result<ProcessList, Fault> {
    caller.may_change()?;
    let mut known = app.visible_to(&caller.identity).descriptors();
    known.retain(|known| known.status.is_alive());
    known.sort_unstable_by(|a, b| b.id.cmp(&a.id));
    let view = AttentionView::new(app, &caller.identity);
    let sessions = known.iter().map(|known| {
        let id = SessionId::new(known.id.as_str());
        let Insight { asks, readers, lag_events, log_bytes, idle_millis, .. } =
            app.host.insight(&id);
        // These members hold text of people or agents.
        let attention = Some(AttentionInfo { text: None, ..view.attention_of(known) });
        let shown = view.session_info(known);
        let silent = SessionInfo {
            title: None,
            label: None,
            name: None,
            message: None,
            attention,
            ..shown
        };
        let pids = app.host.processes_of(&id);
        SessionProcesses {
            session: silent,
            pids,
            asks,
            readers,
            lag_events,
            log_bytes,
            idle_millis,
        }
    });
    Ok(ProcessList { sessions: sessions.collect() })
}
