//! `/sessions/{id}/settings`: mode, model, options and commands of the agent.

use axum::Json;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wharf_api::{SessionSettingsInfo, SettingsChange};

use super::extract::{JsonBody, PathParams};
use crate::App;
use crate::fault::Fault;
use crate::use_cases::{self, Caller};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(get_settings, change_settings))
}

/// The agent's settings that are in force, and what can be chosen. A sleeping session is not woken.
#[utoipa::path(
    get, path = "/sessions/{id}/settings", tag = "settings", operation_id = "get_settings", params(("id" = String, Path)),
    responses((status = 200, description = "Mode, model, options, commands, and the content that a prompt may have", body = SessionSettingsInfo))
)]
pub(super) async fn get_settings(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<SessionSettingsInfo>, Fault> {
    use_cases::get_settings(&app, &caller, &id).await.map(Json)
}

/// Sets the mode, the model or options. A sleeping session is woken. The answer comes when the
/// agent has agreed.
#[utoipa::path(
    patch, path = "/sessions/{id}/settings", tag = "settings", operation_id = "change_settings", request_body = SettingsChange,
    params(("id" = String, Path)),
    responses(
        (status = 200, description = "All of it is set; the settings that are in force now", body = SessionSettingsInfo),
        (status = 409, description = "`not_resumable`, `killed`"),
        (status = 422, description = "`setting_not_offered` with `offered`, `agent_refused` with `agentError`"),
        (status = 502, description = "`start_failed`, `agent_exited`"),
        (status = 504, description = "`agent_timeout`"),
    )
)]
pub(super) async fn change_settings(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    JsonBody(change): JsonBody<SettingsChange>,
) -> Result<Json<SessionSettingsInfo>, Fault> {
    use_cases::change_settings(&app, &caller, &id, change).await.map(Json)
}
