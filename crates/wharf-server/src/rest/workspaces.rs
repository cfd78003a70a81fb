//! `/workspaces`: the registry of workspaces (rule 8.6). Only an admin may change it.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use wharf_api::{
    ActiveWorkspace, NewWorkspace, RemovedWorkspace, WorkspaceInfo, WorkspaceRegistry,
    WorkspaceRemovalQuery,
};

use super::extract::{JsonBody, PathParams, QueryParams};
use crate::App;
use crate::fault::Fault;
use crate::use_cases::{self, Caller};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list_workspaces, add_workspace))
        .routes(routes!(activate_workspace))
        .routes(routes!(remove_workspace))
}

/// The registered workspaces; to a token of one workspace, that one.
#[utoipa::path(
    get, path = "/workspaces", tag = "workspaces", operation_id = "list_workspaces",
    responses(
        (status = 200, description = "The registry", body = WorkspaceRegistry),
        (status = 500, description = "`registry_damaged`, naming the line"),
    )
)]
pub(super) async fn list_workspaces(
    State(app): State<App>,
    caller: Caller,
) -> Result<Json<WorkspaceRegistry>, Fault> {
    use_cases::list_workspaces(&app, &caller).map(Json)
}

/// Registers a directory. The first one becomes the active one.
#[utoipa::path(
    post, path = "/workspaces", tag = "workspaces", operation_id = "add_workspace", request_body = NewWorkspace,
    responses(
        (status = 201, description = "It is registered", body = WorkspaceInfo),
        (status = 409, description = "`workspace_exists`"),
        (status = 422, description = "`invalid_slug`, `invalid_path`, `label_too_long`"),
        (status = 500, description = "`registry_damaged`, `registry_unwritable`"),
    )
)]
pub(super) async fn add_workspace(
    State(app): State<App>,
    caller: Caller,
    JsonBody(new): JsonBody<NewWorkspace>,
) -> Result<(StatusCode, Json<WorkspaceInfo>), Fault> {
    use_cases::add_workspace(&app, &caller, &new).map(|added| (StatusCode::CREATED, Json(added)))
}

/// Makes a workspace the one of spawns that name none.
#[utoipa::path(
    put, path = "/workspaces/active", tag = "workspaces", operation_id = "activate_workspace", request_body = ActiveWorkspace,
    responses(
        (status = 200, description = "The registry", body = WorkspaceRegistry),
        (status = 404, description = "`unknown_workspace`"),
        (status = 500, description = "`registry_damaged`, `registry_unwritable`"),
    )
)]
pub(super) async fn activate_workspace(
    State(app): State<App>,
    caller: Caller,
    JsonBody(active): JsonBody<ActiveWorkspace>,
) -> Result<Json<WorkspaceRegistry>, Fault> {
    use_cases::activate_workspace(&app, &caller, &active).map(Json)
}

/// Takes a workspace out of the registry. Its sessions stay unless `purge` is set, which is refused
/// while one runs.
#[utoipa::path(
    delete, path = "/workspaces/{slug}", tag = "workspaces", operation_id = "remove_workspace",
    params(("slug" = String, Path), WorkspaceRemovalQuery),
    responses(
        (status = 200, description = "It is not registered any more", body = RemovedWorkspace),
        (status = 404, description = "`unknown_workspace`, `unknown_route`"),
        (status = 409, description = "`workspace_in_use`: it has running sessions; `workspace_has_tokens`: tokens are for it alone"),
        (status = 422, description = "`invalid_params`"),
        (status = 500, description = "`registry_damaged`, `registry_unwritable`"),
    )
)]
pub(super) async fn remove_workspace(
    State(app): State<App>,
    caller: Caller,
    PathParams(slug): PathParams<String>,
    QueryParams(query): QueryParams<WorkspaceRemovalQuery>,
) -> Result<Json<RemovedWorkspace>, Fault> {
    use_cases::remove_workspace(&app, &caller, &slug, &query).await.map(Json)
}
