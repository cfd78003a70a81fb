//! The rows of tool calls and asks, and the diffs that both show.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{AskOption, RowActor, RowCut, RowPart};

words! {
    /// Where a tool call is in its life.
    pub enum ToolState as "ToolState" {
        Pending = "pending",
        Running = "running",
        Paused = "paused",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
        CutOff = "cut_off",
    }
}

impl ToolState {
    /// Returns true if the tool call can still go on. An unknown word counts as open.
    pub const fn is_open(&self) -> bool {
        !matches!(self, Self::Completed | Self::Failed | Self::Cancelled | Self::CutOff)
    }
}

/// A tool call of the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RowTool {
    pub tool_call_id: String,
    /// The name of the tool, if the agent tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub title: String,
    /// The agent's word: `read`, `edit`, `execute`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_kind: Option<String>,
    pub state: ToolState,
    /// The agent's `rawInput`, secrets redacted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Value>,
    /// Present if the input is too large for the row; `input` is absent then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_cut: Option<RowCut>,
    /// The path that the input names, also if the input is too large for the row. It is relative to
    /// the session's directory if it lies in it, and may differ from the locations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_path: Option<String>,
    /// The command line of a tool call that runs one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locations: Vec<ToolLocation>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diffs: Vec<FileDiff>,
    /// The text that its command wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<ToolOutput>,
    /// Other content: text, images, links.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<RowPart>,
    /// The reason of a failure in one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The asks about this tool call, by their row ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asks: Vec<String>,
    /// The rows of a subagent that belong under this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub children: Option<ChildCount>,
    /// The session of a subagent that has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_session: Option<String>,
    pub started_at: String,
    pub ended_at: Option<String>,
}

#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, schemars::JsonSchema,
)]
pub struct ToolLocation {
    /// Relative to the session's directory if it lies in it.
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
}

/// Counts the rows below a tool call.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, schemars::JsonSchema,
)]
pub struct ChildCount {
    pub count: u64,
    pub open: u64,
    pub failed: u64,
    /// The summary of the newest one.
    pub latest: String,
}

/// The text that a command wrote: whole, or its beginning and its end.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct ToolOutput {
    pub text: String,
    pub bytes: u64,
    pub lines: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<RowCut>,
    pub exit_code: Option<i64>,
    pub signal: Option<String>,
    /// True while the command runs.
    #[serde(default)]
    pub live: bool,
}

words! {
    /// The effect of a diff on its file.
    pub enum FileChange as "FileChange" {
        Create = "create",
        Modify = "modify",
        Delete = "delete",
    }
}

/// The change of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileDiff {
    /// Relative to the session's directory if it lies in it.
    pub path: String,
    pub change: FileChange,
    pub added: u64,
    pub removed: u64,
    /// False if the agent sent only the replaced fragment, so that no line numbers are known.
    pub numbered: bool,
    pub hunks: Vec<DiffHunk>,
    /// Present if hunks are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<RowCut>,
}

/// Consecutive lines of a diff with their context.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, schemars::JsonSchema,
)]
pub struct DiffHunk {
    /// The first line and the number of lines before the change; null without line numbers.
    pub old: Option<[u64; 2]>,
    /// The first line and the number of lines after the change; null without line numbers.
    pub new: Option<[u64; 2]>,
    /// Each begins with a space, `-` or `+`.
    pub lines: Vec<String>,
}

words! {
    /// Where an ask is in its life.
    pub enum AskState as "AskState" {
        Open = "open",
        Answered = "answered",
        Declined = "declined",
        Cancelled = "cancelled",
        Withdrawn = "withdrawn",
        AgentGone = "agent_gone",
    }
}

/// A question of the agent, with its subject and its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RowAsk {
    /// The id by which `/sessions/{id}/asks/{askId}` takes the answer.
    pub ask_id: u64,
    /// `permission` or `form`.
    pub ask: String,
    pub state: AskState,
    /// The row of the tool call that it is about.
    pub tool: Option<String>,
    pub subject: AskSubject,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<AskOption>,
    /// The options that the row has no room for. `GET /sessions/{id}/asks` lists all.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_options: u64,
    /// The form of an elicitation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<AskForm>,
    pub answer: Option<AskAnswer>,
}

/// The subject of an ask, as the person who answers sees it. It follows the tool call while the ask
/// is open, and stays as it is from the answer on.
#[derive(
    Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct AskSubject {
    pub title: String,
    pub command: Option<String>,
    pub cwd: Option<String>,
    pub paths: Vec<String>,
    pub diffs: Vec<FileDiff>,
    /// Other content in words.
    pub text: Option<String>,
    /// The paths that lie outside of the session's directories.
    pub outside: Vec<String>,
    /// False if the agent sent nothing but a title.
    pub detailed: bool,
}

/// The input that a form asks for.
#[derive(
    Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct AskForm {
    /// The agent's JSON schema; absent if it is too large for a row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// The address that a person is to open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AskAnswer {
    /// The id of the chosen option; null if it is too long for a row.
    pub option: Option<String>,
    /// The name of the chosen option.
    pub name: Option<String>,
    pub by: Option<RowActor>,
    pub at: String,
    /// Milliseconds between the question and the answer.
    pub after: u64,
}
