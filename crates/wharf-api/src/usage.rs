//! Tokens, context and cost, as agents report them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Tokens that an agent reported. A number that it did not report is null, never 0.
#[derive(
    Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema, schemars::JsonSchema,
)]
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

impl TokenUsage {
    /// Returns a count as people read it with the marks of its doubts: `≥` for a lower bound, `?`
    /// for a guess.
    pub fn mark_count(&self, count: &str) -> String {
        mark_count(count, self.at_least, self.guessed)
    }
}

impl UsageTotal {
    /// Returns a count as people read it with the marks of its doubts, as
    /// [`TokenUsage::mark_count`] does.
    pub fn mark_count(&self, count: &str) -> String {
        mark_count(count, self.at_least, self.guessed)
    }
}

fn mark_count(count: &str, at_least: bool, guessed: bool) -> String {
    let bound = if at_least { "≥" } else { "" };
    let doubt = if guessed { "?" } else { "" };
    format!("{bound}{count}{doubt}")
}

impl UsageCost {
    /// Sums of decimal fractions have rounding errors beyond this part of a unit.
    const STEPS: f64 = 1e9;
    /// From here on a floating-point number has no room for the parts of a step.
    const MAX_STEPS: f64 = 9_007_199_254_740_992.0;
    /// Larger amounts are shown with an exponent.
    const MAX_PLAIN_AMOUNT: f64 = 1e15;

    /// Returns a cost whose amount is the decimal that was meant: `0.012`, not
    /// `0.011999999999999999`. An amount without room for such an error stays as it is.
    pub fn new(amount: f64, currency: String) -> Self {
        let steps = (amount * Self::STEPS).round();
        let is_exact = steps.abs() < Self::MAX_STEPS;
        Self {
            amount: if is_exact { steps / Self::STEPS } else { amount },
            currency,
        }
    }

    /// Returns the sum of two amounts, which is a number that JSON can hold.
    pub fn add_amounts(one: f64, other: f64) -> f64 {
        (one + other).clamp(f64::MIN, f64::MAX)
    }

    /// Returns the amount as people read it: two digits after the point, four for costs of less
    /// than ten cents, since single turns often cost less than one.
    pub fn format_amount(&self) -> String {
        if self.amount.abs() >= Self::MAX_PLAIN_AMOUNT {
            return format!("{:e}", self.amount);
        }
        let digits = if self.amount == 0.0 || self.amount >= 0.1 { 2 } else { 4 };
        format!("{:.digits$}", self.amount)
    }
}

/// How full the model's context is.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, schemars::JsonSchema,
)]
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
#[derive(
    Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema, schemars::JsonSchema,
)]
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

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(reported: f64) -> f64 {
        UsageCost::new(reported, "USD".to_owned()).amount
    }

    #[test]
    fn amount_is_the_decimal_that_was_meant() {
        assert_eq!(
            [0.011999999999999999, 0.1 + 0.2, 0.0, -0.3].map(amount),
            [0.012, 0.3, 0.0, -0.3]
        );
    }

    #[test]
    fn huge_amount_and_sum_stay_numbers_that_json_can_hold() {
        assert_eq!([1e300, 1e16, f64::MAX].map(amount), [1e300, 1e16, f64::MAX]);
        let sum = UsageCost::add_amounts(f64::MAX, f64::MAX);
        assert_eq!(
            serde_json::to_value(amount(sum)).ok().and_then(|sum| sum.as_f64()),
            Some(f64::MAX)
        );
    }

    #[test]
    fn amount_for_people_has_two_digits_or_four() {
        let shown = [0.0, 0.07, 0.7, 1e300]
            .map(|amount| UsageCost::new(amount, "USD".to_owned()).format_amount());
        assert_eq!(shown, ["0.00", "0.0700", "0.70", "1e300"]);
    }

    #[test]
    fn count_has_the_marks_of_its_doubts() {
        let marked = TokenUsage { at_least: true, guessed: true, ..TokenUsage::default() };
        assert_eq!(
            [marked.mark_count("18.2k"), TokenUsage::default().mark_count("7")],
            ["≥18.2k?", "7"]
        );
    }
}
