//! Pages of rows, and the stream that follows them (rule 13.1).

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::session::present_or_null;
use crate::{AttachedClientInfo, QueueEntry, SessionInfo, SessionSettingsInfo, TranscriptRow};

/// Selects a part of a text that is too large for its row.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", default)]
pub struct RowTextQuery {
    /// The part: `output`, `input`, or the index of a text among the row's parts.
    #[param(default = "0")]
    pub part: Option<String>,
    /// The bytes to leave out.
    #[param(minimum = 0, default = 0)]
    pub offset: Option<u64>,
}

/// A page of the text of a row's part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RowTextPage)]
pub struct RowTextPage {
    /// The row.
    pub row: String,
    pub part: String,
    /// Where this page begins, in bytes of UTF-8.
    pub offset: u64,
    /// The bytes of the whole text.
    pub bytes: u64,
    pub text: String,
    /// There is more: ask again with this as `offset`.
    pub next: Option<u64>,
}

/// Selects a page of rows. Without a position it is the newest.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", default)]
pub struct RowQuery {
    /// `before` of another page: the rows before it.
    pub before: Option<String>,
    /// `after` of another page: the rows after it.
    pub after: Option<String>,
    /// A row id, or the id of an event: the page with that row.
    pub around: Option<String>,
    /// A prompt id: the rows of its turn from the beginning; with `before` or `after` those before
    /// or after a row.
    pub turn: Option<String>,
    /// Rows in a page.
    #[param(minimum = 1, maximum = 200, default = 60)]
    pub limit: Option<usize>,
    /// Only rows of these kinds, separated by commas. Cursors stay the same.
    pub kinds: Option<String>,
}

words! {
    /// The format of an export.
    pub enum ExportType as "ExportFormat" {
        Markdown = "md",
        Json = "json",
        Html = "html",
    }
}

/// Selects the format of an export, and whether it keeps text that looks like a secret.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", default)]
pub struct ExportQuery {
    /// `md` if it is left out.
    #[serde(deserialize_with = "known_format")]
    #[param(inline)]
    pub format: Option<ExportType>,
    /// Leaves text in that looks like a secret.
    pub raw: bool,
}

fn known_format<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<ExportType>, D::Error> {
    crate::word::read_known_word(deserializer, ExportType::WORDS)
}

/// A page of rows, the oldest first.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RowPage {
    /// The number of the rules by which the rows were made.
    pub fold: u32,
    pub session: String,
    /// The last event that the rows cover.
    pub as_of: String,
    pub rows: Vec<TranscriptRow>,
    /// There are older rows: ask again with this as `before`.
    pub before: Option<String>,
    /// There are newer rows: ask again with this as `after`.
    pub after: Option<String>,
    /// True if the first row is not the first of its turn.
    pub mid_turn: bool,
    /// The prompt of the turn that the page begins within.
    pub turn_head: Option<RowHead>,
    /// The session as it is now; only in the newest page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<TranscriptState>,
}

/// A row in one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
pub struct RowHead {
    pub id: String,
    pub summary: String,
}

/// The session beside its rows: what a reader shows around the transcript.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TranscriptState {
    pub session: SessionInfo,
    /// The rows of the open asks, the oldest first.
    pub asks: Vec<String>,
    /// The row of the newest plan.
    pub plan: Option<String>,
    /// The prompts that wait, the next one first.
    pub queue: Vec<QueueEntry>,
    /// The settings and commands of the agent; at most 64 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub settings: Option<Box<SessionSettingsInfo>>,
    /// The attached clients in the order in which they came.
    #[serde(default)]
    pub clients: Vec<AttachedClientInfo>,
    /// The output of commands that run, as far as Wharf runs them. It is not in the log yet.
    #[serde(default)]
    pub live: Vec<LiveOutput>,
}

/// The output of a command that runs in a terminal of Wharf. Its tool call's row gets it when the
/// command ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LiveOutput {
    /// The tool call that shows it: the newest row with this id.
    pub tool_call_id: String,
    /// The agent's id of the terminal.
    pub terminal: String,
    /// The last lines, at most 16 KiB.
    pub text: String,
    /// All bytes that the command has written.
    pub bytes: u64,
}

/// The members of [`TranscriptState`] that changed, each of them whole.
#[derive(
    Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema, schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct StateChange {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Box<SessionInfo>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks: Option<Vec<String>>,
    /// Null if there is no plan any more.
    #[serde(
        default,
        deserialize_with = "present_or_null",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>)]
    pub plan: Option<Option<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Vec<QueueEntry>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<Box<SessionSettingsInfo>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<Vec<AttachedClientInfo>>,
    /// At most once a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<Vec<LiveOutput>>,
}

/// Text that a row gained at its end. It is valid only for a reader whose revision of the row is
/// `from`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RowAppend {
    pub id: String,
    pub from: u64,
    pub rev: u64,
    /// The index of the part that grew, a text.
    pub part: usize,
    pub text: String,
    pub changed_at: String,
}

/// Tells that the stream lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StreamBeat {
    pub as_of: String,
    /// ISO 8601.
    pub now: String,
}

/// Tells that a reader has to load the rows afresh.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
pub struct StreamReset {
    /// `fold_changed`, `log_cut`, `too_far_behind` or `rows_remade`.
    pub why: String,
}

/// Tells that the session was deleted with its history.
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
pub struct StreamGone {}

/// The name and the data of each event of `GET /sessions/{id}/rows/stream`.
#[derive(Debug, ToSchema)]
#[serde(tag = "event", content = "data", rename_all = "snake_case")]
#[schema(as = RowStreamEvent)]
pub enum RowStreamSchema {
    Page(RowPage),
    Row(TranscriptRow),
    Append(RowAppend),
    Tail(RowAppend),
    State(StateChange),
    Beat(StreamBeat),
    Reset(StreamReset),
    Gone(StreamGone),
}

/// An event of `GET /sessions/{id}/rows/stream`.
#[derive(Clone, Debug)]
pub enum RowStreamEvent {
    Page(Box<RowPage>),
    Row(Box<TranscriptRow>),
    Append(RowAppend),
    /// The end of a part that is cut has grown.
    Tail(RowAppend),
    State(StateChange),
    Beat(StreamBeat),
    Reset(StreamReset),
    /// The session was deleted with its history.
    Gone,
    /// An event of a newer host.
    Other,
}

impl RowStreamEvent {
    /// Reads the data of the event that has this name.
    pub fn read<'de, D: Deserializer<'de>>(name: &str, data: D) -> Result<Self, D::Error> {
        Ok(match name {
            "page" => Self::Page(Deserialize::deserialize(data)?),
            "row" => Self::Row(Deserialize::deserialize(data)?),
            "append" => Self::Append(Deserialize::deserialize(data)?),
            "tail" => Self::Tail(Deserialize::deserialize(data)?),
            "state" => Self::State(Deserialize::deserialize(data)?),
            "beat" => Self::Beat(Deserialize::deserialize(data)?),
            "reset" => Self::Reset(Deserialize::deserialize(data)?),
            "gone" => Self::Gone,
            _ => Self::Other,
        })
    }

    /// Returns the name of the event, for `event:`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Page(_) => "page",
            Self::Row(_) => "row",
            Self::Append(_) => "append",
            Self::Tail(_) => "tail",
            Self::State(_) => "state",
            Self::Beat(_) => "beat",
            Self::Reset(_) => "reset",
            Self::Gone => "gone",
            Self::Other => "other",
        }
    }
}

/// The data alone, for `data:`.
impl Serialize for RowStreamEvent {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Page(data) => data.serialize(serializer),
            Self::Row(data) => data.serialize(serializer),
            Self::Append(data) | Self::Tail(data) => data.serialize(serializer),
            Self::State(data) => data.serialize(serializer),
            Self::Beat(data) => data.serialize(serializer),
            Self::Reset(data) => data.serialize(serializer),
            Self::Gone | Self::Other => {
                serializer.serialize_map(Some(0)).and_then(serde::ser::SerializeMap::end)
            }
        }
    }
}
