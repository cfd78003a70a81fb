//! Serves `/host`, its settings, and `/stop`: the host's description, the values of its settings,
//! and its shutdown.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wharf_api::{HostInfo, HostSettingList, ReloadReceipt, StopQuery, StopReceipt};

use super::extract::QueryParams;
use crate::App;
use crate::fault::Fault;
use crate::use_cases::{self, Caller};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(describe_host))
        .routes(routes!(list_settings))
        .routes(routes!(reload_settings))
        .routes(routes!(stop_host))
}

/// The host and its addresses. Not for observers, nor for tokens of one workspace.
#[utoipa::path(
    get, path = "/host", tag = "host", operation_id = "describe_host",
    responses((status = 200, description = "The host", body = HostInfo), (status = 403, description = "`host_only`"))
)]
pub(super) async fn describe_host(
    State(app): State<App>,
    caller: Caller,
) -> Result<Json<HostInfo>, Fault> {
    use_cases::describe_host(&app, &caller).map(Json)
}

/// The host's settings, with the source of each. For admins.
#[utoipa::path(
    get, path = "/host/settings", tag = "host", operation_id = "list_settings",
    responses((status = 200, description = "The settings", body = HostSettingList), (status = 403, description = "`admin_only`"))
)]
pub(super) async fn list_settings(
    State(app): State<App>,
    caller: Caller,
) -> Result<Json<HostSettingList>, Fault> {
    use_cases::list_settings(&app, &caller).map(Json)
}

/// Loads `config.toml` again. Settings that cannot change while the host runs are named; a file
/// that cannot be used changes nothing. For admins.
#[utoipa::path(
    post, path = "/host/reload", tag = "host", operation_id = "reload_settings",
    responses(
        (status = 200, description = "The keys that changed, and those that wait for a restart", body = ReloadReceipt),
        (status = 403, description = "`admin_only`"),
        (status = 409, description = "`invalid_settings`"),
    )
)]
pub(super) async fn reload_settings(
    State(app): State<App>,
    caller: Caller,
) -> Result<Json<ReloadReceipt>, Fault> {
    use_cases::reload_settings(&app, &caller).await.map(Json)
}

/// Stops the host: no new work, logs are synced; agents are ended, or go on with `?agents=leave`
/// until the next host takes them over. Answers at once. For admins.
#[utoipa::path(
    post, path = "/stop", tag = "host", operation_id = "stop_host", params(StopQuery),
    responses((status = 202, description = "It begins to stop", body = StopReceipt), (status = 403, description = "`admin_only`"))
)]
pub(super) async fn stop_host(
    State(app): State<App>,
    caller: Caller,
    QueryParams(query): QueryParams<StopQuery>,
) -> Result<(StatusCode, Json<StopReceipt>), Fault> {
    use_cases::stop_host(&app, &caller, query.agents.unwrap_or_default())
        .map(|receipt| (StatusCode::ACCEPTED, Json(receipt)))
}
