//! Places to start a session: recent directories and workspaces (rule 17.8).

use std::collections::HashMap;
use std::path::Path;

use wharf_api::{ErrorCode, PlaceList, PlaceQuery, RecentDirectory, WorkspacePlace};

use super::faults::invalid_query;
use super::{Caller, list_workspaces, visible_sessions};
use crate::App;
use crate::fault::Fault;

const DEFAULT_RECENT: usize = 20;
const MAX_RECENT: usize = 100;
/// Directories that are looked at, in case many are gone or not allowed.
const MAX_CHECKED: usize = 500;

/// Lists the directories of the caller's sessions, the last used first, and the workspaces that it
/// may use.
pub(crate) async fn list_places(
    app: &App,
    caller: &Caller,
    query: &PlaceQuery,
) -> Result<PlaceList, Fault> {
    caller.may_change()?;
    if caller.identity.agent_session().is_some() {
        return Err(Fault::new(
            ErrorCode::NOT_FOR_AGENTS,
            "an agent starts sessions in its own directory",
        ));
    }
    let limit = query.limit.unwrap_or(DEFAULT_RECENT);
    if limit == 0 || limit > MAX_RECENT {
        return Err(invalid_query(format!("limit: {limit} is not between 1 and {MAX_RECENT}")));
    }
    let app = app.clone();
    let caller = caller.clone();
    let listed = tokio::task::spawn_blocking(move || {
        let registry = list_workspaces(&app, &caller)?;
        let active = registry.active;
        let mut workspaces: Vec<_> = registry.workspaces.into_iter().collect();
        workspaces.sort_by(|one, other| one.slug.cmp(&other.slug));
        let to_place = |known: wharf_api::WorkspaceInfo| WorkspacePlace {
            active: active.as_ref() == Some(&known.slug),
            slug: known.slug,
            path: known.path,
            label: known.label,
        };
        Ok(PlaceList {
            recent: recent_directories(&app, &caller, limit),
            workspaces: workspaces.into_iter().map(to_place).collect(),
        })
    });
    listed
        .await
        .map_err(|_| Fault::new(ErrorCode::UNAVAILABLE, "the host is stopping"))
        .flatten()
}

/// Returns the directories of the sessions that the caller sees, without those that are gone or
/// that it may not name.
fn recent_directories(app: &App, caller: &Caller, limit: usize) -> Vec<RecentDirectory> {
    let mut known: HashMap<String, RecentDirectory> = HashMap::new();
    for session in visible_sessions(app, caller) {
        let used_at = session.last_output_at.clone().unwrap_or_else(|| session.started_at.clone());
        let directory = known.entry(session.cwd.clone()).or_insert_with(|| RecentDirectory {
            cwd: session.cwd.clone(),
            adapter_slug: session.adapter_slug.clone(),
            last_used_at: used_at.clone(),
            sessions: 0,
        });
        directory.sessions += 1;
        if used_at >= directory.last_used_at {
            (directory.last_used_at, directory.adapter_slug) =
                (used_at, session.adapter_slug.clone());
        }
    }
    let mut recent: Vec<_> = known.into_values().collect();
    recent.sort_by(|one, other| {
        other.last_used_at.cmp(&one.last_used_at).then_with(|| one.cwd.cmp(&other.cwd))
    });
    let scope = caller.identity.directory_scope();
    let usable = |directory: &RecentDirectory| {
        let path = Path::new(&directory.cwd);
        path.is_dir() && app.host.workspaces().allows_path(&scope, path)
    };
    recent.into_iter().take(MAX_CHECKED).filter(usable).take(limit).collect()
}
