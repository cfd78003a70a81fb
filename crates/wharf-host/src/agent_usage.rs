//! Usage, cost and context as agents report them (chapter 15 of the specification). An unknown number is absent, never zero.

use serde::{Deserialize, Serialize};
use wharf_core::{ReportedTokens, State};
use wharf_json::Json;

/// The longest name of a currency. ISO 4217 has three letters; an agent may use credits of its own.
const MAX_CURRENCY_CHARS: usize = 16;

/// The usage of a session: the tokens of its turns, and its cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentUsage {
    /// The number of turns whose answer reported tokens.
    pub turns: u64,
    /// The sum of these turns.
    pub tokens: ReportedTokens,
    /// The newest of these turns.
    pub last_turn: ReportedTokens,
    /// The agent reports only a part of what its turns use.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
    /// The log does not say what the agent's numbers mean.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub guessed: bool,
    /// The cost of the session so far, as the agent reported it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<ReportedCost>,
}

/// An amount of money, as the agent wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedCost {
    /// The JSON text of the number.
    pub amount: String,
    pub currency: String,
}

/// The context window: tokens in it, and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedContext {
    pub used: u64,
    pub size: u64,
}

impl AgentUsage {
    pub(crate) fn of_state(state: &State) -> Option<Self> {
        let cost = reported(state).and_then(read_cost);
        let wharf_core::SessionTokens { turns, tokens, last_turn, at_least, guessed, .. } = state.usage;
        // Without numbers there is nothing to guess.
        let guessed = guessed && turns > 0;
        (turns > 0 || cost.is_some()).then_some(Self { turns, tokens, last_turn, at_least, guessed, cost })
    }
}

impl ReportedContext {
    pub(crate) fn of_state(state: &State) -> Option<Self> {
        let update = reported(state)?;
        let count = |name: &str| update.last_member(name)?.integer()?.try_into().ok();
        Some(Self { used: count("used")?, size: count("size")? })
    }
}

/// Returns the newest `usage_update`.
fn reported(state: &State) -> Option<Json<'_>> {
    Json::parse(state.latest.usage.as_ref()?.bytes()).ok()?.at(&["params", "update"]).ok()?
}

fn read_cost(update: Json<'_>) -> Option<ReportedCost> {
    let cost = update.last_member("cost")?;
    let amount = cost.last_member("amount")?;
    let currency: String = cost.last_member("currency")?.text()?.chars().take(MAX_CURRENCY_CHARS).collect();
    let is_readable = amount.float().is_some_and(|amount| amount.is_finite() && amount >= 0.0);
    (is_readable && !currency.is_empty()).then(|| ReportedCost { amount: amount.raw().to_owned(), currency })
}
