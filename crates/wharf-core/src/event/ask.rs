//! Events of asks: the agent's requests that need exactly one answer.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{AskId, PromptId, Raw, Sender, Seq};

/// A fact about an ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskEvent {
    /// The agent sent a request that needs one answer.
    Opened(Ask),
    /// The single end of an ask.
    Resolved { ask: AskId, outcome: AskOutcome, by: Option<Sender> },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    pub id: AskId,
    pub kind: AskKind,
    /// The agent's request id in its spelling (`0`, `"7f…"`).
    pub agent_request: Raw,
    /// The agent's request in the form for clients; its `id` is replaced for each of them.
    pub frame: Raw,
    /// The option ids of a permission, against which answers are checked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<Arc<str>>,
    /// The tool call that the permission is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<Arc<str>>,
    /// The turn that was running when the ask was opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<PromptId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskKind {
    Permission,
    Elicitation,
}

/// The end of an ask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case", try_from = "crate::codec::StoredOutcome")]
pub enum AskOutcome {
    /// A client gave the first valid answer. `answer` is its response frame; the id is replaced on
    /// the way to the agent.
    Answered {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        option: Option<Arc<str>>,
        answer: Raw,
    },
    /// Every attached controller answered with an error or `cancelled`; holds the last frame.
    Declined { answer: Raw },
    /// A cancel, a time limit or the end of its turn closed the ask, or no attached client could
    /// handle it.
    Cancelled,
    /// The agent withdrew the ask.
    Withdrawn,
    /// The agent that asked is gone.
    AgentGone,
}

/// The id of an ask is the seq of the event that opened it.
impl From<Seq> for AskId {
    fn from(seq: Seq) -> Self {
        Self(seq.0)
    }
}
