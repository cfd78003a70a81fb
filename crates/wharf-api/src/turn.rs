//! Turns: a prompt, the agent's answer and its end (rule 13.7).

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{ContextUse, TokenUsage, TurnOutcome};

words! {
    /// Where a turn is.
    pub enum TurnState as "TurnState" {
        Queued = "queued",
        Running = "running",
        Ended = "ended",
    }
}

/// Selects a page of turns.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub struct TurnQuery {
    /// `before` of another page: the turns before it.
    pub before: Option<String>,
    #[param(minimum = 1, maximum = 100, default = 20)]
    pub limit: Option<usize>,
}

/// A page of turns, the newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TurnPage {
    /// The number of the rules by which the rows were made.
    pub fold: u32,
    pub turns: Vec<TurnInfo>,
    /// There are older turns: ask again with this as `before`.
    pub before: Option<String>,
}

/// A turn in short.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnInfo {
    pub prompt_id: String,
    pub state: TurnState,
    /// The prompt in one line.
    pub summary: String,
    /// ISO 8601; null before it begins.
    pub started_at: Option<String>,
    /// ISO 8601; null while it runs.
    pub ended_at: Option<String>,
    /// The agent's stop reason, or Wharf's word if the agent gave none; null while it runs.
    pub stop_reason: Option<String>,
    pub outcome: Option<TurnOutcome>,
    /// The reason of a failure, for a person.
    pub message: Option<String>,
    pub duration_ms: Option<u64>,
    /// Null if the agent reported none.
    pub usage: Option<TokenUsage>,
    pub context: Option<ContextUse>,
    /// The row of the prompt.
    pub first_row: Option<String>,
    /// The row of the end; while it runs the newest row of the session.
    pub last_row: Option<String>,
}

/// A turn with the agent's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnDetail {
    #[serde(flatten)]
    pub turn: TurnInfo,
    /// The messages of the agent, with blank lines between them.
    pub text: String,
    /// True if the text is longer than an answer holds; the rows have the rest.
    pub text_cut: bool,
}
