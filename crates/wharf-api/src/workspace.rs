//! Directories with a name.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

/// How a registry is written: AIP-46's `workspaces.json`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = WorkspaceList)]
pub struct WorkspaceRegistry {
    pub version: u64,
    /// The workspace of spawns that name none.
    pub active: Option<String>,
    pub workspaces: Vec<WorkspaceInfo>,
    /// Members that this version does not know.
    #[serde(flatten)]
    #[schema(ignore)]
    pub more: Map<String, Value>,
}

/// A registered directory.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Workspace)]
pub struct WorkspaceInfo {
    pub slug: String,
    pub path: String,
    /// ISO 8601.
    pub added_at: String,
    pub updated_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub label: Option<String>,
    /// Members that this version does not know.
    #[serde(flatten)]
    #[schema(ignore)]
    pub more: Map<String, Value>,
}

/// A directory to register.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct NewWorkspace {
    /// Up to 64 of a-z, 0-9, - and _, beginning with a letter or a digit.
    pub slug: String,
    /// An absolute path to a directory that exists.
    pub path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ActiveWorkspace {
    pub slug: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct WorkspaceRemovalQuery {
    /// Delete its ended sessions too.
    pub purge: Option<bool>,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Removed)]
pub struct RemovedWorkspace {
    pub ok: bool,
    pub slug: String,
    /// Sessions that were deleted with it.
    pub purged: usize,
}
