//! The registry of workspaces, which are directories with a name (rule 8.6). Only an admin may
//! change it.

use std::path::Path;
use std::sync::Arc;

use wharf_api::{
    ActiveWorkspace, ErrorCode, NewWorkspace, RemovedWorkspace, WorkspaceInfo, WorkspaceRegistry,
    WorkspaceRemovalQuery,
};
use wharf_host::Now;

use super::faults::{fault_from_named_workspace_error, fault_from_workspace_error};
use super::{Caller, contract};
use crate::App;
use crate::auth::Identity;
use crate::fault::Fault;

/// Lists the registered workspaces. A token of one workspace gets only that one.
pub(crate) fn list_workspaces(app: &App, caller: &Caller) -> Result<WorkspaceRegistry, Fault> {
    let list = app.host.workspaces().list_in_scope(&caller.identity.directory_scope());
    list.map(contract::to_workspace_registry)
        .map_err(|error| fault_from_workspace_error(&error))
}

/// Registers a directory. The first one becomes the active one.
pub(crate) fn add_workspace(
    app: &App,
    caller: &Caller,
    new: &NewWorkspace,
) -> Result<WorkspaceInfo, Fault> {
    caller.may_administrate()?;
    let workspaces = app.host.workspaces();
    let path = Path::new(&new.path);
    let added = workspaces.add(&new.slug, path, new.label.as_deref(), Now::millis());
    added
        .map(contract::to_workspace_info)
        .map_err(|error| fault_from_workspace_error(&error))
}

/// Makes a workspace the default of spawns that name none.
pub(crate) fn activate_workspace(
    app: &App,
    caller: &Caller,
    active: &ActiveWorkspace,
) -> Result<WorkspaceRegistry, Fault> {
    caller.may_administrate()?;
    let list = app.host.workspaces().activate(&active.slug, Now::millis());
    list.map(contract::to_workspace_registry)
        .map_err(|error| fault_from_named_workspace_error(&error))
}

/// Takes a workspace out of the registry. Its sessions stay unless `purge` is set.
pub(crate) async fn remove_workspace(
    app: &App,
    caller: &Caller,
    slug: &str,
    query: &WorkspaceRemovalQuery,
) -> Result<RemovedWorkspace, Fault> {
    caller.may_administrate()?;
    let tokens = app.tokens.ids_of_workspace(slug);
    if !tokens.is_empty() {
        // Otherwise the tokens would open the next directory that gets this slug.
        let detail =
            format!("tokens are for {slug:?} alone: {}; revoke them first", tokens.join(", "));
        return Err(Fault::new(ErrorCode::WORKSPACE_HAS_TOKENS, detail)
            .with_members(|body| body.tokens = Some(tokens)));
    }
    let removed = app.host.remove_workspace(slug, query.purge.unwrap_or(false)).await;
    let removed = removed.map_err(|error| fault_from_named_workspace_error(&error))?;
    Ok(RemovedWorkspace {
        ok: true,
        slug: removed.workspace.slug.to_string(),
        purged: removed.purged,
    })
}

/// Returns the slug of a registered workspace that the identity covers.
pub(crate) fn find_workspace(app: &App, asker: &Identity, slug: &str) -> Result<Arc<str>, Fault> {
    let found = app.host.workspaces().find_in_scope(&asker.directory_scope(), slug);
    found
        .map(|workspace| workspace.slug.as_str().into())
        .map_err(|error| fault_from_workspace_error(&error))
}
