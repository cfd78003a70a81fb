//! Tokens, context and cost as agents report them. A number that an agent does not report stays
//! unknown.

use serde::{Deserialize, Serialize};
use wharf_api::{ContextUse, TokenUsage, UsageCost};
use wharf_core::{Raw, StartKind, TokenSeries, TurnTokens, UpdateKind, UsageMeaning};
use wharf_json::{Json, ReadError};

use crate::RowStore;
use crate::fold::FoldStep;
use crate::text_rules::clean_word;

/// The newest report of the session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ReportedUsage {
    pub(crate) context: Option<ContextUse>,
    /// The cost of the session so far.
    pub(crate) cost: Option<UsageCost>,
}

/// The cost that the session gained while a turn was the newest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct TurnCost {
    /// `None` until the agent reports a cost.
    gained: Option<UsageCost>,
    /// True once a report did not follow from the one before it.
    is_unknown: bool,
}

impl TurnCost {
    fn add(&mut self, gained: Option<UsageCost>) {
        match (&mut self.gained, gained) {
            (Some(sum), Some(gained)) if sum.currency == gained.currency => {
                sum.amount = UsageCost::add_amounts(sum.amount, gained.amount);
            }
            (sum @ None, Some(gained)) => *sum = Some(gained),
            (_, _) => self.is_unknown = true,
        }
    }

    fn known(&self) -> Option<UsageCost> {
        let gained = self.gained.as_ref().filter(|_| !self.is_unknown)?;
        Some(UsageCost::new(gained.amount, gained.currency.clone()))
    }
}

/// Takes a `usage_update`.
pub(crate) fn session_usage(
    step: &mut FoldStep<'_, impl RowStore>,
    update: Json<'_>,
) -> Result<(), ReadError> {
    if let (Some(used), Some(size)) = (read_count(update, "used")?, read_count(update, "size")?) {
        step.fold.usage.context = Some(ContextUse { used, size });
    }
    if let Some(cost) = read_cost(update)? {
        let gained = subtract_cost(step.fold.usage.cost.as_ref(), &cost);
        if let Some(turn) = step.fold.newest_turn_mut() {
            turn.cost.add(gained);
        }
        step.fold.usage.cost = Some(cost);
    }
    Ok(())
}

fn read_count(object: Json<'_>, name: &str) -> Result<Option<u64>, ReadError> {
    Ok(object
        .member(name)?
        .and_then(Json::integer)
        .and_then(|count| u64::try_from(count).ok()))
}

fn read_cost(object: Json<'_>) -> Result<Option<UsageCost>, ReadError> {
    let Some(cost) = object.member("cost")?.filter(|cost| cost.is_object()) else {
        return Ok(None);
    };
    let amount = cost
        .member("amount")?
        .and_then(Json::float)
        .filter(|amount| amount.is_finite() && *amount >= 0.0);
    let currency = cost
        .member("currency")?
        .and_then(Json::text)
        .map(|currency| clean_word(&currency));
    Ok(amount.zip(currency).map(|(amount, currency)| UsageCost::new(amount, currency)))
}

/// Counts the tokens of turns (rule 15.1).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TokenCounter {
    pub(crate) adapter: String,
    /// How the agent was started last.
    pub(crate) how: Option<StartKind>,
    /// True if the log does not say what the numbers mean.
    guessed: bool,
    series: TokenSeries,
}

impl TokenCounter {
    pub(crate) fn begin_process(&mut self, meaning: Option<UsageMeaning>) {
        self.guessed = meaning.is_none();
        self.series
            .begin_process(&self.adapter, meaning, self.how.unwrap_or(StartKind::New));
    }

    pub(crate) fn add_update(&mut self, kind: UpdateKind, frame: &Raw) {
        self.series.add_update(kind, frame);
    }

    /// Returns the usage of a turn that ran by the result of its answer, with the cost that the
    /// session gained in it.
    pub(crate) fn end_turn(
        &mut self,
        result: Option<Json<'_>>,
        cost: &TurnCost,
    ) -> Option<TokenUsage> {
        // The rows of earlier turns keep the numbers that they had, marked as guessed.
        let turn = self.series.take_turn(result);
        let mut usage = turn.map(|TurnTokens { tokens, .. }| TokenUsage {
            input: tokens.input,
            output: tokens.output,
            cached: tokens.cached_read,
            total: tokens.total,
            cost: None,
            at_least: self.series.is_at_least(),
            guessed: self.guessed,
        });
        if let Some(cost) = cost.known() {
            usage.get_or_insert_default().cost = Some(cost);
        }
        usage
    }
}

/// Returns the cost between two reports of the session's cost so far. It is unknown if the currency
/// changed, or if the agent began to count again. The first report counts from nothing.
fn subtract_cost(before: Option<&UsageCost>, after: &UsageCost) -> Option<UsageCost> {
    let before = match before {
        None => 0.0,
        Some(before) if before.currency == after.currency => before.amount,
        Some(_) => return None,
    };
    let amount = after.amount - before;
    (amount >= 0.0).then(|| UsageCost { amount, currency: after.currency.clone() })
}
