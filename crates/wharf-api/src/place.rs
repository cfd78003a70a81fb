//! Places to start a session.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Says how many places.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub struct PlaceQuery {
    /// The most recent directories in the answer.
    #[param(minimum = 1, maximum = 100, default = 20)]
    pub limit: Option<usize>,
}

/// Directories in which the caller may start a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Places)]
pub struct PlaceList {
    /// Directories of sessions that the caller sees, the last used first.
    pub recent: Vec<RecentDirectory>,
    /// Registered workspaces that the caller may use, by slug.
    pub workspaces: Vec<WorkspacePlace>,
}

/// A directory in which a session ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecentDirectory {
    pub cwd: String,
    /// The agent that was started there last.
    pub adapter_slug: String,
    /// ISO 8601.
    pub last_used_at: String,
    /// How many sessions it has.
    pub sessions: usize,
}

/// A registered workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorkspacePlace {
    pub slug: String,
    pub path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub label: Option<String>,
    /// True for the workspace of starts that name none.
    pub active: bool,
}
