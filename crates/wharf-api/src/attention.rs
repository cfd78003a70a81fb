//! The attention of a session, the marks of persons, and asks over all sessions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::OpenAsk;

words! {
    /// Whether a session wants something from the caller, the most urgent first.
    pub enum AttentionState as "AttentionState" {
        NeedsAnswer = "needs_answer",
        Failed = "failed",
        Finished = "finished",
        Parked = "parked",
        Working = "working",
        Quiet = "quiet",
    }
}

/// The attention of a session, for the person that asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Attention)]
#[schemars(rename = "Attention")]
pub struct AttentionInfo {
    pub state: AttentionState,
    /// ISO 8601.
    pub since: String,
    /// The event that opened the ask or ended the turn; the id of its row.
    pub row: Option<String>,
    /// The reason in one word: the kind of the ask, the cause of the failure, the kind of work.
    pub why: Option<String>,
    /// One line for a person: the command or title that is asked about, or the failure.
    pub text: Option<String>,
    /// Open asks of this session and of the sessions that its agent started.
    pub count: usize,
    /// The session that asks, if it is one that this session's agent started.
    pub via: Option<String>,
    /// The caller has not seen `row`.
    pub unread: bool,
    /// The last event that the caller has seen, if there is one. Callers that are no person have
    /// none.
    pub seen: Option<String>,
    /// The caller does not want to be notified.
    pub muted: bool,
}

/// Says how far a person has seen a session.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SeenArgs {
    /// An event of its log.
    pub up_to: String,
}

/// The caller's mark, which never falls.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SeenMark {
    pub ok: bool,
    pub id: String,
    /// The last event that counts as seen.
    pub seen: String,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct MuteArgs {
    pub muted: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct MuteMark {
    pub ok: bool,
    pub id: String,
    pub muted: bool,
}

/// Says how many asks.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase", default)]
pub struct AskQuery {
    #[param(minimum = 1, maximum = 1000, default = 100)]
    pub limit: Option<usize>,
}

/// The asks of all sessions that the caller sees.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema, JsonSchema)]
#[schema(as = AskOverview)]
#[schemars(rename = "AskOverview")]
pub struct AskOverview {
    /// The longest waiting first.
    pub asks: Vec<SessionAsk>,
    /// There are more than `limit`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// An ask, and its session.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionAsk {
    pub session_id: String,
    /// The session's title, else its label, name or adapter.
    pub session_title: String,
    pub workspace_slug: String,
    #[serde(flatten)]
    pub ask: OpenAsk,
}
