//! A refusal or failure as an HTTP answer.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::ErrorCode;

/// A fault; further members depend on its code.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Problem)]
pub struct ProblemBody {
    /// Always `about:blank`.
    #[serde(rename = "type", default)]
    #[schema(required = true)]
    pub kind: String,
    #[serde(default)]
    #[schema(required = true)]
    pub title: String,
    #[serde(default)]
    #[schema(required = true)]
    pub status: u16,
    /// A word that stays the same.
    #[serde(default)]
    #[schema(required = true, value_type = String)]
    pub code: ErrorCode,
    /// The word that an earlier release had for it, for one release.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub legacy_code: Option<String>,
    /// A sentence for a person: the fault, and what to do about it.
    #[serde(default)]
    #[schema(required = true)]
    pub detail: String,
    /// The session that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub session_id: Option<String>,
    /// The end of what an agent that did not start wrote to stderr.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub stderr: Option<String>,
    /// The exit code of an agent that did not start.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub exit_code: Option<i32>,
    /// The JSON-RPC error that an agent gave instead of starting.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, nullable = false)]
    pub agent_error: Option<Value>,
    /// The command that installs the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub install: Option<String>,
    /// The options that there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub offered: Option<Vec<String>>,
    /// All codes that apply.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Vec<String>, nullable = false)]
    pub reasons: Option<Vec<ErrorCode>>,
    /// After how many seconds the request may succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub retry_after: Option<u64>,
    /// The tokens that stand in the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub tokens: Option<Vec<String>>,
}

impl ProblemBody {
    /// The constant value of `type`.
    pub const KIND: &'static str = "about:blank";
}
