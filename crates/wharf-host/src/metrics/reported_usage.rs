//! Tokens and cost that agents reported, in sum over all sessions that the host knows (rule 15.3).

use std::collections::BTreeMap;
use std::sync::Arc;

use wharf_api::UsageCost;
use wharf_core::ReportedTokens;

use super::{Family, Value};
use crate::descriptor::Descriptor;

/// Returns the sums. A number that no agent reported is absent.
pub(super) fn of_reported_usage(known: &[Arc<Descriptor>]) -> Vec<Family> {
    let mut tokens = ReportedTokens::default();
    let mut costs = BTreeMap::<&str, f64>::new();
    for usage in known.iter().filter_map(|known| known.usage.as_ref()) {
        tokens = tokens.plus(usage.tokens);
        if let Some(cost) = &usage.cost
            && let Ok(amount) = cost.amount.parse::<f64>()
        {
            let sum = costs.entry(currency_word(&cost.currency)).or_default();
            *sum = UsageCost::add_amounts(*sum, amount);
        }
    }
    let ReportedTokens { input, output, thought, cached_read, cached_write, .. } = tokens;
    let counts = [
        ("input", input),
        ("output", output),
        ("thought", thought),
        ("cached_read", cached_read),
        ("cached_write", cached_write),
    ];
    let mut of_tokens = Family::gauge(
        "wharf_reported_tokens",
        "Tokens that agents reported for the turns of all sessions",
    );
    for (kind, count) in counts.into_iter().filter_map(|(kind, count)| Some((kind, count?))) {
        of_tokens = of_tokens.with("kind", kind, Value::Whole(count));
    }
    let mut of_costs = Family::gauge(
        "wharf_reported_cost",
        "Cost that agents reported for all sessions, by currency",
    );
    for (currency, amount) in costs {
        let exact = UsageCost::new(amount, String::new()).amount;
        of_costs = of_costs.with("currency", currency, Value::Real(exact));
    }
    vec![of_tokens, of_costs]
}

/// Returns a currency of three letters, or `other`: metrics hold no text of agents.
fn currency_word(currency: &str) -> &str {
    let is_code = currency.len() == 3 && currency.bytes().all(|byte| byte.is_ascii_uppercase());
    if is_code { currency } else { "other" }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn session_with_cost(amount: &str) -> Arc<Descriptor> {
        let usage = json!({ "turns": 0, "tokens": {}, "lastTurn": {}, "cost": { "amount": amount, "currency": "USD" } });
        let summary = json!({
            "id": "a", "adapterSlug": "any", "workspaceSlug": "default", "cwd": "/", "status": "exited",
            "startedAt": "", "turn": "idle", "queued": 0, "clients": 0, "lastSeq": 9, "resumable": true,
            "attention": { "asks": 0, "quietSince": "" }, "usage": usage,
        });
        Arc::new(Descriptor::from_summary(summary.to_string().as_bytes()).unwrap())
    }

    #[test]
    fn sum_of_costs_is_an_exact_decimal_and_finite() {
        for (amounts, sum) in [(["0.1", "0.2"], 0.3), (["1e308", "1e308"], f64::MAX)] {
            let families = of_reported_usage(&amounts.map(session_with_cost));
            let expected = Family::gauge(
                "wharf_reported_cost",
                "Cost that agents reported for all sessions, by currency",
            );
            let expected = expected.with("currency", "USD", Value::Real(sum));
            assert_eq!(format!("{:?}", families[1]), format!("{expected:?}"));
        }
    }
}
