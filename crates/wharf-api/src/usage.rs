//! Tokens, context and cost, as agents report them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Tokens that an agent reported. A number that it did not report is null, never 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenUsage {
    pub input: Option<u64>,
    pub output: Option<u64>,
    pub cached: Option<u64>,
    pub total: Option<u64>,
    pub cost: Option<UsageCost>,
    /// More tokens were used: the agent reports the last call of the model only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
    /// The log does not say what the agent's numbers mean; the adapter's name decided.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub guessed: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
pub struct UsageCost {
    pub amount: f64,
    pub currency: String,
}

impl UsageCost {
    /// Sums of decimal fractions have rounding errors beyond this part of a unit.
    const STEPS: f64 = 1e9;

    /// Returns a cost whose amount is the decimal that was meant: `0.012`, not
    /// `0.011999999999999999`.
    pub fn new(amount: f64, currency: String) -> Self {
        Self { amount: (amount * Self::STEPS).round() / Self::STEPS, currency }
    }
}

/// How full the model's context is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
pub struct ContextUse {
    pub used: u64,
    pub size: u64,
}

/// The usage of sessions that match a query.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsagePage {
    /// The newest session first.
    pub sessions: Vec<UsageOfSession>,
    /// The sums over all sessions that match, not only those of this page.
    pub total: UsageTotal,
    /// There are more: ask again with this as `cursor`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_cursor: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageOfSession {
    pub id: String,
    pub adapter_slug: String,
    pub workspace_slug: String,
    pub title: Option<String>,
    /// Null if its agent reported none.
    pub usage: Option<TokenUsage>,
    pub context: Option<ContextUse>,
}

/// Sums of what agents reported. A number that no agent reported is null, never 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageTotal {
    pub sessions: usize,
    /// The sessions among them whose agent reported usage.
    pub reporting: usize,
    pub input: Option<u64>,
    pub output: Option<u64>,
    pub cached: Option<u64>,
    pub total: Option<u64>,
    /// One sum per currency.
    pub costs: Vec<UsageCost>,
    /// More tokens were used: an agent reports only a part of its turns.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
    /// The meaning of some numbers is not known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub guessed: bool,
}
