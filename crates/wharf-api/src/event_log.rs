//! The log: as it is stored, and as lines of output.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

/// Selects events.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub struct EventQuery {
    /// The id of an event: those after it.
    pub after: Option<String>,
    #[param(minimum = 1, maximum = 1000, default = 100)]
    pub limit: Option<usize>,
}

/// A page of the log.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct EventPage {
    #[schema(value_type = Vec<StoredEvent>)]
    pub events: Vec<Box<RawValue>>,
    /// There are more: ask again with this as `after`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next: Option<String>,
}

/// An event as it is stored; its further members depend on its kind.
#[derive(ToSchema)]
#[expect(dead_code, reason = "a schema")]
struct StoredEvent {
    /// `<epoch>-<seq>`.
    id: String,
    seq: u64,
    /// The run of the host that appended it.
    epoch: u64,
    /// Milliseconds since 1970.
    at: u64,
    kind: String,
}

/// Says how many lines.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", default)]
pub struct OutputQuery {
    /// How many of the newest lines.
    #[param(minimum = 1, maximum = 10000, default = 200)]
    pub last_n: Option<usize>,
    /// Lines besides those of AIP-46, separated by commas: `prompts`, `plans`.
    pub include: Option<String>,
}

/// The agent's actions and words as lines of plain text.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Output)]
pub struct OutputLines {
    /// The session.
    pub id: String,
    /// The oldest first.
    pub lines: Vec<String>,
    /// The id of the last line: the event stream can go on from here.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub last_event_id: Option<String>,
    /// There are fewer lines than asked for, and there may be older ones: too far back in the log
    /// to be looked for, or too long for one answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}
