//! Tokens and cost that agents reported, in sum over all sessions that the host knows (rule 15.3).

use std::collections::BTreeMap;
use std::sync::Arc;

use wharf_api::UsageCost;
use wharf_core::ReportedTokens;

use super::{Family, Value};
use crate::descriptor::Descriptor;

/// Returns the sums. A number that no agent reported is absent.
pub(super) fn of_reported_usage(known: &[Arc<Descriptor>]) -> Vec<Family> {
    let (mut tokens, mut costs) = (ReportedTokens::default(), BTreeMap::<&str, f64>::new());
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
    let mut of_tokens =
        Family::gauge("wharf_reported_tokens", "Tokens that agents reported for the turns of all sessions");
    for (kind, count) in counts.into_iter().filter_map(|(kind, count)| Some((kind, count?))) {
        of_tokens = of_tokens.with("kind", kind, Value::Whole(count));
    }
    let mut of_costs = Family::gauge("wharf_reported_cost", "Cost that agents reported for all sessions, by currency");
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
