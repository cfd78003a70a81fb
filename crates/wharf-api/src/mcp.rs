//! The arguments and results of MCP tools that REST does not have in the same form.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    AnswerAction, ChangedFileList, Content, LoginState, OnLabelChange, OpenAsk, SessionInfo,
    SessionStatus, SpawnArgs, SpawnedSession, TurnPhase,
};

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StartInput {
    #[serde(flatten)]
    pub session: SpawnArgs,
    #[serde(flatten)]
    pub key: StartKey,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StartKey {
    /// A repeated call with the same key gives the session of the first.
    #[serde(default)]
    pub idempotency_key: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StartOutput {
    #[serde(flatten)]
    pub session: SpawnedSession,
    /// The idempotency key was known: this is the session of an earlier call.
    pub duplicate: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptInput {
    /// The session's id.
    pub session_id: String,
    /// A text, or ACP content blocks.
    pub prompt: Content,
    /// While a turn runs: wait in the queue instead of being refused.
    #[serde(default)]
    pub queue: Option<bool>,
    /// While a turn runs: end it, then run this prompt.
    #[serde(default)]
    pub interrupt: Option<bool>,
    /// A repeated call with the same key gives the prompt of the first.
    #[serde(default)]
    pub idempotency_key: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ListInput {
    /// Only sessions that are starting or running.
    pub only_alive: Option<bool>,
    /// The slug of a workspace.
    pub workspace_slug: Option<String>,
    /// The slug of an adapter.
    pub adapter: Option<String>,
    /// The whole label.
    pub label: Option<String>,
    /// Sessions in a page: 1 to 1000, else 100.
    pub limit: Option<usize>,
    /// `nextCursor` of the page before.
    pub cursor: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutputInput {
    /// The session's id.
    pub session_id: String,
    /// How many of the newest lines: 1 to 10000, 200 by default. Of rows: 1 to 200, 60 by default.
    /// Of changed files: 1 to 1000, 200 by default.
    #[serde(default)]
    pub last_n: Option<usize>,
    /// `lines` (default): what the agent said and did as plain text. `rows`: prompts, messages,
    /// tool calls, plans, questions and ends of turns, each in one line with its id. `changes`: the
    /// files that its tool calls changed, with added and removed lines.
    #[serde(default)]
    pub format: Option<OutputFormat>,
    /// With `rows` and `changes`: only the turn of the prompt with this id.
    #[serde(default)]
    pub turn: Option<String>,
    /// With `rows`: only these kinds, separated by commas: prompt, message, thought, tool, plan,
    /// ask, notice, turn_end.
    #[serde(default)]
    pub kinds: Option<String>,
    /// With `rows`: whole rows with their texts, diffs and output instead of summaries.
    #[serde(default)]
    pub whole: Option<bool>,
    /// With `rows`: the `before` of an earlier answer, for older rows.
    #[serde(default)]
    pub before: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SearchInput {
    /// Words that must all occur; the last one may be the beginning of a word. Words between double
    /// quotes must follow one another.
    pub query: String,
    /// The id of a session: only its transcript.
    #[serde(default)]
    pub session_id: Option<String>,
    /// Only these kinds, separated by commas: prompt, message, tool, ask.
    #[serde(default)]
    pub kinds: Option<String>,
    /// The slug of a workspace.
    #[serde(default)]
    pub workspace_slug: Option<String>,
    /// The slug of an adapter.
    #[serde(default)]
    pub adapter: Option<String>,
    /// Hits in a page: 1 to 30, else 20.
    #[serde(default)]
    pub limit: Option<usize>,
    /// `nextCursor` of the page before.
    #[serde(default)]
    pub cursor: Option<String>,
}

/// The form of a session's output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutputFormat {
    #[default]
    Lines,
    Rows,
    Changes,
}

/// A row of the transcript in one line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RowLine {
    pub id: String,
    pub kind: String,
    pub summary: String,
    /// The id of the prompt whose turn it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<String>,
    /// True while it may still change.
    pub open: bool,
    /// The whole row, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row: Option<Map<String, Value>>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForkInput {
    /// The id of the session to be copied.
    pub session_id: String,
    /// A title of the copy.
    #[serde(default)]
    pub title: Option<String>,
    /// A label of the copy.
    #[serde(default)]
    pub label: Option<String>,
    /// Says what happens if another session has the label; `share` if it is left out.
    #[serde(default)]
    pub on_label: Option<OnLabelChange>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KillInput {
    /// The session's id.
    pub session_id: String,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InterruptInput {
    /// The session's id.
    pub session_id: String,
    /// True: the turn ends at once, and with it the agent, which is started again if it can come
    /// back.
    #[serde(default)]
    pub force: Option<bool>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResumeInput {
    /// The session's id.
    pub session_id: String,
    /// This mode instead of the one that was in force.
    #[serde(default)]
    pub session_mode: Option<String>,
    /// Take the settings that the agent has, instead of setting those that were in force.
    #[serde(default)]
    pub accept_agent_settings: Option<bool>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentsInput {
    /// Only agents whose program is there.
    pub only_installed: Option<bool>,
}

/// An agent that can be started, in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentLine {
    /// The `adapter` of `start_agent_session`.
    pub adapter: String,
    pub name: String,
    pub description: String,
    pub installed: bool,
    pub login: LoginState,
    /// True for the agent of clients that name none.
    pub default: bool,
    /// The `mode`s of `start_agent_session`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modes: Vec<String>,
    /// Sentences about everything that prevents a start or is odd.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install_hint: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login_hint: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentsOutput {
    /// By name of the adapter.
    pub agents: Vec<AgentLine>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InterruptOutput {
    pub ok: bool,
    pub session_id: String,
    /// True if a turn was running.
    pub was_busy: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitInput {
    /// The session's id.
    pub session_id: String,
    /// How long at most: 0 to 3600, else 300. The outcome is `timeout` then, and the turn goes on.
    #[serde(default)]
    pub timeout_seconds: Option<f64>,
    /// So many of the newest lines come with the answer: 1 to 10000, else 200.
    #[serde(default)]
    pub last_n: Option<usize>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnswerInput {
    /// The session's id.
    pub session_id: String,
    /// Which question; needed if several are open.
    #[serde(default)]
    pub ask_id: Option<u64>,
    /// For a permission: the `optionId` of the choice.
    #[serde(default)]
    pub option_id: Option<String>,
    /// True: no answer.
    #[serde(default)]
    pub cancel: Option<bool>,
    /// For a form.
    #[serde(default)]
    pub action: Option<AnswerAction>,
    /// For a form that is accepted: what was filled in.
    #[serde(default)]
    pub content: Option<Map<String, Value>>,
}

/// The prompt is in the log. Its output comes with `get_agent_session_output` or
/// `wait_agent_session`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptOutput {
    pub ok: bool,
    pub session_id: String,
    pub prompt_id: String,
    /// Its place in the queue, 0 being next; absent once its turn has begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<usize>,
    /// The idempotency key was known: this is the prompt of an earlier call.
    pub duplicate: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LinesOutput {
    pub session_id: String,
    /// The oldest first.
    pub lines: Vec<String>,
    /// The rows, if they were asked for, the oldest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<Vec<RowLine>>,
    /// The changed files, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<ChangedFileList>,
    /// There are older rows: ask again with this as `before`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Older lines, rows or files were left out: all together are too long for a tool's answer, or
    /// they are too far back.
    pub truncated: bool,
    pub status: SessionStatus,
    pub turn: TurnPhase,
    /// The asks that the agent waits for: see `answer_agent_session`.
    pub asks: Vec<OpenAsk>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KillOutput {
    pub ok: bool,
    pub session_id: String,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnswerOutput {
    pub ok: bool,
    pub session_id: String,
    pub ask_id: u64,
}

/// Why the wait is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitOutcome {
    /// No turn runs and no prompt waits.
    TurnEnded,
    /// The agent asks something: see `asks`.
    AwaitingInput,
    SessionEnded,
    /// The turn goes on.
    Timeout,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitOutput {
    pub session_id: String,
    pub outcome: WaitOutcome,
    /// Why the turn ended, if it did so during the wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// The newest lines of output, the oldest first.
    pub lines: Vec<String>,
    /// Older lines were left out: all together are too long for a tool's answer, or they are too
    /// far back.
    pub truncated: bool,
    /// The asks that the agent waits for: see `answer_agent_session`.
    pub asks: Vec<OpenAsk>,
    pub session: SessionInfo,
}
