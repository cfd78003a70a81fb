//! The usage and cost that agents reported, by session and in sum (rule 15.3).

use std::collections::BTreeMap;
use std::sync::Arc;

use wharf_api::{SessionQuery, TokenUsage, UsageCost, UsageOfSession, UsagePage, UsageTotal};
use wharf_host::Descriptor;

use super::Caller;
use super::contract::{to_context_use, to_token_usage};
use super::sessions::{page_limit, select_sessions};
use crate::App;
use crate::fault::Fault;

/// Returns the usage of the sessions that match the query, and its sum.
pub(crate) fn list_usage(
    app: &App,
    caller: &Caller,
    query: &SessionQuery,
) -> Result<UsagePage, Fault> {
    let limit = page_limit(query)?;
    // The sum is that of all pages.
    let all = select_sessions(app, caller, &SessionQuery { cursor: None, ..query.clone() })?.0;
    let total = sum_usage(&all);
    let mut page: Vec<_> = all
        .iter()
        .filter(|known| query.cursor.as_ref().is_none_or(|cursor| known.id < *cursor))
        .collect();
    let more = page.len() > limit;
    page.truncate(limit);
    let next_cursor = page.last().filter(|_| more).map(|last| last.id.clone());
    let sessions = page.into_iter().map(|known| to_usage_of_session(known)).collect();
    Ok(UsagePage { sessions, total, next_cursor })
}

fn to_usage_of_session(known: &Descriptor) -> UsageOfSession {
    UsageOfSession {
        id: known.id.clone(),
        adapter_slug: known.adapter_slug.clone(),
        workspace_slug: known.workspace_slug.clone(),
        title: known.title.clone(),
        usage: known.usage.as_ref().map(to_token_usage),
        context: known.context.map(to_context_use),
    }
}

fn sum_usage(sessions: &[Arc<Descriptor>]) -> UsageTotal {
    let mut total = UsageTotal { sessions: sessions.len(), ..UsageTotal::default() };
    let mut costs: BTreeMap<String, f64> = BTreeMap::new();
    let add = |sum: &mut Option<u64>, count: Option<u64>| {
        *sum = count.map_or(*sum, |count| Some(sum.unwrap_or(0).saturating_add(count)));
    };
    for usage in sessions.iter().filter_map(|known| known.usage.as_ref()) {
        let TokenUsage { input, output, cached, total: all, cost, at_least, guessed } =
            to_token_usage(usage);
        total.at_least |= at_least;
        total.guessed |= guessed;
        total.reporting += 1;
        add(&mut total.input, input);
        add(&mut total.output, output);
        add(&mut total.cached, cached);
        add(&mut total.total, all);
        if let Some(UsageCost { amount, currency }) = cost {
            let sum = costs.entry(currency).or_default();
            *sum = UsageCost::add_amounts(*sum, amount);
        }
    }
    total.costs = costs
        .into_iter()
        .map(|(currency, amount)| UsageCost::new(amount, currency))
        .collect();
    total
}
