//! Usage that the agent reports in its answers to prompts, in sum and for the newest turn (chapter 15 of the
//! specification).

use serde::{Deserialize, Serialize};
use wharf_json::Json;

use crate::Raw;

/// Tokens as an agent counts them. `None`: the agent did not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportedTokens {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thought: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_read: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_write: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

/// The usage of a session's turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionTokens {
    /// The number of turns whose answer reported usage.
    pub turns: u64,
    /// The sum of these turns.
    pub tokens: ReportedTokens,
    /// The newest of these turns.
    pub last_turn: ReportedTokens,
}

impl ReportedTokens {
    /// Reads the usage in an answer to `session/prompt`. Returns `None` if it reports none that can be read.
    pub fn from_answer(frame: &Raw) -> Option<Self> {
        let usage = Json::parse(frame.bytes()).ok()?.at(&["result", "usage"]).ok()??;
        let count = |name: &str| usage.last_member(name)?.integer()?.try_into().ok();
        let usage = Self {
            input: count("inputTokens"),
            output: count("outputTokens"),
            thought: count("thoughtTokens"),
            cached_read: count("cachedReadTokens"),
            cached_write: count("cachedWriteTokens"),
            total: count("totalTokens"),
        };
        (usage != Self::default()).then_some(usage)
    }

    /// Adds the other counts. A count that neither has stays unknown.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
        };
        Self {
            input: sum(self.input, other.input),
            output: sum(self.output, other.output),
            thought: sum(self.thought, other.thought),
            cached_read: sum(self.cached_read, other.cached_read),
            cached_write: sum(self.cached_write, other.cached_write),
            total: sum(self.total, other.total),
        }
    }
}

impl SessionTokens {
    pub(super) fn add(&mut self, turn: ReportedTokens) {
        self.turns = self.turns.saturating_add(1);
        (self.tokens, self.last_turn) = (self.tokens.plus(turn), turn);
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.turns == 0
    }
}
