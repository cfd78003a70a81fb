//! A row: one thing that a person reads in a session's transcript (rule 13.1).

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{ContextUse, FileDiff, ForkOrigin, RowAsk, RowTool, TokenUsage};

/// The number of the rules by which a log becomes rows. It rises with every change that gives other
/// rows for an old log.
pub const FOLD_NUMBER: u32 = 7;

/// A row. Its place in the transcript is that of the event that created it; it never moves and
/// never disappears.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Row)]
#[schemars(rename = "Row")]
pub struct TranscriptRow {
    /// The id of the event that created the row, `<epoch>-<seq>`, with `.2`, `.3` for further rows
    /// of one event.
    pub id: String,
    /// The seq of the last event that changed the row.
    pub rev: u64,
    /// ISO 8601, the time of the event that created it.
    pub at: String,
    /// ISO 8601, the time of the last change.
    pub changed_at: String,
    /// The id of the prompt whose turn it belongs to; null between turns.
    pub turn: Option<String>,
    /// The row that it belongs under: the tool call of a subagent.
    pub parent: Option<String>,
    /// True while the row may still change.
    pub open: bool,
    /// One line of plain text for every reader, at most 200 characters.
    pub summary: String,
    #[serde(flatten)]
    pub body: RowBody,
}

/// The part of a row that depends on its kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RowBody {
    Prompt(RowPrompt),
    Message(RowText),
    Thought(RowText),
    Tool(Box<RowTool>),
    Plan(RowPlan),
    Ask(Box<RowAsk>),
    Notice(RowNotice),
    TurnEnd(Box<RowTurnEnd>),
    /// A kind of a newer host: its `summary` can be shown.
    #[serde(other)]
    Unknown,
}

impl RowBody {
    /// The words of the kinds that this version knows.
    pub const KINDS: &'static [&'static str] =
        &["prompt", "message", "thought", "tool", "plan", "ask", "notice", "turn_end"];

    /// Returns the word of the kind.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Prompt(_) => "prompt",
            Self::Message(_) => "message",
            Self::Thought(_) => "thought",
            Self::Tool(_) => "tool",
            Self::Plan(_) => "plan",
            Self::Ask(_) => "ask",
            Self::Notice(_) => "notice",
            Self::TurnEnd(_) => "turn_end",
            Self::Unknown => "unknown",
        }
    }
}

/// A prompt whose turn has begun, or that ended without a turn.
#[derive(
    Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct RowPrompt {
    pub by: RowActor,
    /// ISO 8601, the time when Wharf accepted it; null for a prompt that only the agent reported.
    pub accepted_at: Option<String>,
    pub parts: Vec<RowPart>,
    /// The client that changed it in the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited_by: Option<RowActor>,
    /// True if an interrupted turn is repeated.
    #[serde(default)]
    pub again: bool,
}

/// A client, a person or the agent, as far as the log names it.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct RowActor {
    /// The name that the client gave itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The id of the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The id of its token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The session whose agent did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_session: Option<String>,
    /// True if the agent itself did it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub agent: bool,
}

/// A message or a thought of the agent.
#[derive(
    Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct RowText {
    pub parts: Vec<RowPart>,
    /// The agent's id of the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
}

/// A piece of content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum RowPart {
    Text(RowTextPart),
    /// An image, audio or other bytes that are kept by their hash.
    Blob(RowBlobPart),
    /// A file or resource that is named, not held.
    File(RowFilePart),
    /// A kind of a newer host.
    #[serde(other)]
    Unknown,
}

#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct RowTextPart {
    pub text: String,
    /// Present if the row holds only the beginning, or the beginning and the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<RowCut>,
}

/// Text that a row leaves out.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct RowCut {
    /// The bytes of the whole text.
    pub bytes: u64,
    /// The lines that are missing, if the row shows the beginning and the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing_lines: Option<u64>,
    /// The end of the text, if the row shows it. The event `tail` appends to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<String>,
    /// The address of the whole, below `/sessions/{id}/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<String>,
}

#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct RowBlobPart {
    /// `image`, `audio` or `resource`.
    pub media: String,
    /// The type by the first bytes, if Wharf knows them, else `application/octet-stream`.
    pub mime: String,
    pub bytes: u64,
    /// The address is `/sessions/{id}/blobs/{blob}`.
    pub blob: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct RowFilePart {
    pub uri: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The agent's plan. A turn has one row of it, which changes in place.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct RowPlan {
    pub entries: Vec<RowPlanEntry>,
    pub done: usize,
    pub total: usize,
}

#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct RowPlanEntry {
    pub text: String,
    /// The agent's word: `pending`, `in_progress`, `completed`, …
    pub status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<String>,
}

words! {
    /// The subject of a notice.
    pub enum NoticeTopic as "NoticeTopic" {
        Mode = "mode",
        Model = "model",
        Setting = "option",
        Started = "started",
        Forked = "forked",
        Resumed = "resumed",
        Restarted = "restarted",
        Asleep = "asleep",
        Ended = "ended",
        Killed = "killed",
        Paused = "paused",
        Continued = "continued",
        ProtocolFault = "fault",
        Compaction = "compaction",
        AgentNotice = "agent",
        StrayOutput = "stray_output",
        Renamed = "renamed",
        Background = "background",
        OtherUpdate = "other",
    }
}

words! {
    /// How much a notice matters.
    pub enum NoticeLevel as "NoticeLevel" {
        Debug = "debug",
        Info = "info",
        Warning = "warning",
        Error = "error",
    }
}

/// Something that happened beside the conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RowNotice {
    pub what: NoticeTopic,
    pub level: NoticeLevel,
    pub text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<RowActor>,
    /// With `forked`: the session that holds the conversation up to here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkOrigin>,
}

words! {
    /// How a turn ended, in Wharf's words.
    pub enum TurnOutcome as "TurnOutcome" {
        Done = "done",
        Stopped = "stopped",
        Refused = "refused",
        Cancelled = "cancelled",
        Failed = "failed",
        CutOff = "cut_off",
    }
}

/// The end of a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RowTurnEnd {
    /// The agent's stop reason, or Wharf's word if the agent gave none.
    pub reason: String,
    pub outcome: TurnOutcome,
    /// Null if the turn never began.
    pub duration_ms: Option<u64>,
    /// Null if the agent reported none.
    pub usage: Option<TokenUsage>,
    pub context: Option<ContextUse>,
    pub tools: ToolCount,
    /// The files that the turn's diffs changed.
    pub files: Vec<FileChangeCount>,
    /// The reason of a failure, for a person.
    pub message: Option<String>,
    /// The end of the agent's stderr at a failure.
    pub stderr: Option<String>,
    /// The sequel, if there is one.
    pub next: Option<TurnSequel>,
    /// The agent's own error, as it sent it, if it is small.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Value>,
}

#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    ToSchema,
    schemars::JsonSchema,
)]
pub struct ToolCount {
    pub count: u64,
    pub failed: u64,
}

#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, schemars::JsonSchema,
)]
pub struct FileChangeCount {
    pub path: String,
    pub added: u64,
    pub removed: u64,
}

impl From<&FileDiff> for FileChangeCount {
    fn from(diff: &FileDiff) -> Self {
        Self {
            path: diff.path.clone(),
            added: diff.added,
            removed: diff.removed,
        }
    }
}

/// The sequel of a turn that did not end by itself.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct TurnSequel {
    /// The prompt is in the queue again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub requeued: bool,
}
