//! A new session.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{Content, SessionInfo};

/// AIP-46's `SpawnAgentRequest`, with Wharf's own members besides.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpawnArgs {
    /// The slug of an adapter; `GET /adapters` lists them.
    pub adapter: String,
    /// A registered workspace. Without it and `cwd` the active one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_slug: Option<String>,
    /// An absolute path; wins over the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The first prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<Content>,
    /// For people and filters, up to 1024 bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Says what happens if another session has the label; `share` if it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_label: Option<OnLabel>,
    /// A mode of the adapter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Options of the adapter by their ids.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub options: Option<BTreeMap<String, Value>>,
    /// Environment variables for the agent; those that the adapter or the configuration names are
    /// passed on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// MCP servers for the agent, as ACP writes them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp_servers: Option<Vec<Value>>,
    /// Further directories that the agent may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub additional_directories: Option<Vec<String>>,
}

/// Says what happens if another session has the label already: one of the same workspace that the
/// caller sees, that is not archived, and that has an agent or can come back.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum OnLabel {
    /// Both have it.
    #[default]
    Share,
    /// The request is refused (`label_in_use`, with the session that has it).
    Refuse,
    /// The other session loses it.
    Take,
    /// The other session is the answer, if it has the same adapter; it gets the prompt.
    Continue,
}

/// The same for a session that is there already, or for a copy.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum OnLabelChange {
    /// Both have it.
    #[default]
    Share,
    /// The request is refused (`label_in_use`, with the session that has it).
    Refuse,
    /// The other session loses it.
    Take,
}

/// A session and the outcome of its start.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpawnedSession {
    #[serde(flatten)]
    pub session: SessionInfo,
    /// Warnings for the caller.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The first prompt, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub prompt_id: Option<String>,
}
