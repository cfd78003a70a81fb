//! Prompts, and the end of a turn.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{Content, TurnDetail};

/// Says whether to wait for the answer of the agent.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub struct PromptQuery {
    /// Waits so long for the end of the turn, such as `30s` or `5m`, at most `1h`. The answer has
    /// `turn` then.
    pub wait: Option<String>,
}

/// One prompt.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptArgs {
    pub prompt: Content,
    /// While a turn runs: wait in the queue instead of being refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<bool>,
    /// While a turn runs: end it, then run this prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupt: Option<bool>,
}

/// Why a turn failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TurnFailure {
    /// For a person.
    pub message: String,
    /// The end of what the agent wrote to stderr, and of what it wrote to stdout besides messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub stderr: Option<String>,
}

/// The prompt is in the log.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Prompted {
    pub ok: bool,
    /// The session.
    pub id: String,
    pub prompt_id: String,
    /// Its place in the queue, 0 being next; absent once its turn has begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub position: Option<usize>,
    /// The idempotency key was known: this is the prompt of an earlier request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub duplicate: bool,
    /// With `wait`: the turn as it is at its end, or when the time is up. Absent if the prompt was
    /// taken out of the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub turn: Option<TurnDetail>,
}

/// How the running turn is ended.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InterruptArgs {
    /// True: the turn ends at once, and with it the agent, which is started again if it can come
    /// back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
}

/// The running turn was asked to end.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Interrupted {
    pub ok: bool,
    pub id: String,
    /// Was there one?
    pub was_busy: bool,
}
