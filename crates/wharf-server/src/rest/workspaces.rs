//! `/workspaces`: the registry of directories with a name (rule 8.6). Only an admin changes it.

use std::path::Path;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use wharf_host::{Workspace, WorkspaceError, WorkspaceList};

use super::extract::{Body, Named, Params};
use crate::App;
use crate::problem::Problem;
use crate::use_cases::{Caller, from_workspace};

/// How a registry is written: AIP-46's `workspaces.json`.
#[derive(ToSchema)]
#[schema(as = WorkspaceList)]
#[expect(dead_code, reason = "a schema")]
pub(super) struct ListShape {
    version: u64,
    /// The workspace of spawns that name none.
    active: Option<String>,
    workspaces: Vec<WorkspaceShape>,
}

/// A registered directory.
#[derive(ToSchema)]
#[schema(as = Workspace)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "a schema")]
pub(super) struct WorkspaceShape {
    slug: String,
    path: String,
    /// ISO 8601.
    added_at: String,
    updated_at: String,
    #[schema(nullable = false)]
    label: Option<String>,
}

/// A directory to register.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct NewWorkspace {
    /// Up to 64 of a-z, 0-9, - and _, beginning with a letter or a digit.
    slug: String,
    /// An absolute path to a directory that exists.
    path: String,
    label: Option<String>,
}

#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct ActiveWorkspace {
    slug: String,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct RemoveArgs {
    /// Delete its ended sessions too.
    purge: Option<bool>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Removed {
    ok: bool,
    slug: String,
    /// Sessions that were deleted with it.
    purged: usize,
}

/// The registered workspaces; to a token of one workspace, that one.
#[utoipa::path(
    get, path = "/workspaces", tag = "workspaces", operation_id = "list_workspaces",
    responses(
        (status = 200, description = "The registry", body = ListShape),
        (status = 500, description = "`registry_damaged`, naming the line"),
    )
)]
pub(super) async fn list(State(app): State<App>, caller: Caller) -> Result<Json<WorkspaceList>, Problem> {
    let list = app.host.workspaces().known_on(&caller.identity.ground());
    list.map(Json).map_err(|error| from_workspace(&error))
}

/// Registers a directory. The first one becomes the active one.
#[utoipa::path(
    post, path = "/workspaces", tag = "workspaces", operation_id = "add_workspace", request_body = NewWorkspace,
    responses(
        (status = 201, description = "It is registered", body = WorkspaceShape),
        (status = 409, description = "`workspace_exists`"),
        (status = 422, description = "`invalid_slug`, `invalid_path`, `label_too_long`"),
        (status = 500, description = "`registry_damaged`, `registry_unwritable`"),
    )
)]
pub(super) async fn add(
    State(app): State<App>,
    caller: Caller,
    Body(new): Body<NewWorkspace>,
) -> Result<(StatusCode, Json<Workspace>), Problem> {
    caller.may_administrate()?;
    let added = app.host.workspaces().add(&new.slug, Path::new(&new.path), new.label.as_deref());
    added.map(|added| (StatusCode::CREATED, Json(added))).map_err(|error| from_workspace(&error))
}

/// Makes a workspace the one of spawns that name none.
#[utoipa::path(
    put, path = "/workspaces/active", tag = "workspaces", operation_id = "activate_workspace", request_body = ActiveWorkspace,
    responses(
        (status = 200, description = "The registry", body = ListShape),
        (status = 404, description = "`unknown_workspace`"),
        (status = 500, description = "`registry_damaged`, `registry_unwritable`"),
    )
)]
pub(super) async fn activate(
    State(app): State<App>,
    caller: Caller,
    Body(active): Body<ActiveWorkspace>,
) -> Result<Json<WorkspaceList>, Problem> {
    caller.may_administrate()?;
    app.host.workspaces().activate(&active.slug).map(Json).map_err(|error| named(&error))
}

/// Takes a workspace out of the registry. Its sessions stay unless `purge` is set, which is refused while one runs.
#[utoipa::path(
    delete, path = "/workspaces/{slug}", tag = "workspaces", operation_id = "remove_workspace",
    params(("slug" = String, Path), RemoveArgs),
    responses(
        (status = 200, description = "It is not registered any more", body = Removed),
        (status = 404, description = "`unknown_workspace`, `unknown_route`"),
        (status = 409, description = "`workspace_in_use`: it has running sessions; `workspace_has_tokens`: tokens are for it alone"),
        (status = 422, description = "`invalid_query`"),
        (status = 500, description = "`registry_damaged`, `registry_unwritable`"),
    )
)]
pub(super) async fn remove(
    State(app): State<App>,
    caller: Caller,
    Named(slug): Named<String>,
    Params(args): Params<RemoveArgs>,
) -> Result<Json<Removed>, Problem> {
    caller.may_administrate()?;
    let tokens = app.tokens.of_workspace(&slug);
    if !tokens.is_empty() {
        // Else they would open the next directory that gets this slug.
        let detail = format!("tokens are for {slug:?} alone: {}; revoke them first", tokens.join(", "));
        return Err(Problem::new(StatusCode::CONFLICT, "workspace_has_tokens", detail).with("tokens", tokens));
    }
    let removed = app.host.remove_workspace(&slug, args.purge.unwrap_or(false)).await.map_err(|error| named(&error))?;
    Ok(Json(Removed { ok: true, slug: removed.workspace.slug.to_string(), purged: removed.purged }))
}

/// Where the workspace is what the request is about, an unknown one is not found.
fn named(error: &WorkspaceError) -> Problem {
    let mut problem = from_workspace(error);
    if matches!(error, WorkspaceError::Unknown { .. }) {
        problem.status = StatusCode::NOT_FOUND;
    }
    problem
}
