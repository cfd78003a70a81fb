//! The metrics of `/metrics`: the host's own, and the counts of the surfaces.
//!
//! A metric holds numbers and Wharf's own words only: no ids, no tokens, no text of people or
//! agents.

mod refusals;
mod text;

use wharf_host::metrics::Family;

pub(crate) use refusals::{RefusalCode, RefusalCounts, count_refusals};
pub(crate) use text::to_prometheus_text;

use crate::App;

/// Collects all metrics.
pub(crate) fn gather_families(app: &App) -> Vec<Family> {
    let limit = app.host.config().limits.connections;
    let mut families = app.host.families();
    families.extend([
        Family::gauge(
            "wharf_connections",
            "Open connections of callers that have said who they are",
        )
        .of(app.limits.open_connections() as u64),
        Family::gauge("wharf_connections_limit", "How many there may be (limits.connections)")
            .of(limit as u64),
        Family::gauge("wharf_streams", "Open event streams of the REST surface, and waits of MCP")
            .of(app.limits.open_streams() as u64),
        Family::gauge(
            "wharf_histories",
            "Histories that are being built for clients, or wait for it",
        )
        .of(app.histories.wanted() as u64),
        Family::counter("wharf_failed_logins_total", "Wrong tokens and codes")
            .of(app.failed_logins.total()),
        app.refusals.to_family(),
    ]);
    families
}
