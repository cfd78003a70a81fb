//! Measures a search over many sessions, and the time until all of them are in the index.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::Bench;
use super::compare::print_compared;
use super::host::Host;
use super::http::get_json;
use super::stats::{percentile, round_figure};
use crate::output::print_progress;

/// The upper bound of a search.
const TARGET_MS: f64 = 50.0;
const EVENTS_PER_SESSION: u32 = 1_000;
const CALLS_PER_QUERY: usize = 50;
/// How long all sessions may take to get into the index.
const INDEX_LIMIT: Duration = Duration::from_secs(900);
/// The queries: a word of every turn, a word of one session, several words, a phrase, the beginning
/// of a path, and a word that no row has.
const QUERIES: &[(&str, &str)] = &[
    ("common", "answer"),
    ("rare", "sess_01k9t000000000000000000042"),
    ("all_of_four", "piece+answer+turn+40"),
    ("phrase", "%22answer+to+turn%22"),
    ("beginning", "modul"),
    ("missing", "nothing"),
];

/// The figures of one binary.
#[derive(Default)]
struct SearchFigures {
    indexed_s: f64,
    database_bytes: u64,
    /// For each query the latencies in milliseconds, sorted.
    queries: Vec<(&'static str, Vec<f64>)>,
}

impl Bench {
    pub(super) fn search(&self) -> Result<()> {
        let mut sides = self.sides::<_, SearchFigures>(&[()]);
        for side in &mut sides {
            self.make_cold_sessions(side.binary, self.plan.searched, EVENTS_PER_SESSION)?;
            side.figures = self.search_once(&side.binary.wharf, &self.cold_dir(side.binary))?;
        }
        let line = json!({
            "measure": "search", "sessions": self.plan.searched, "events": EVENTS_PER_SESSION, "target_ms": TARGET_MS,
        });
        print_compared(line, sides.iter().map(|side| side.figures.to_json()));
        Ok(())
    }

    /// Starts a host on new sessions, waits until they are searched, and measures. Its directory is
    /// deleted with it.
    fn search_once(&self, wharf: &Path, dir: &Path) -> Result<SearchFigures> {
        let mut figures = SearchFigures::default();
        let host = Host::start(wharf, &self.agent, dir)?;
        print_progress("search: waiting for the index");
        let began = Instant::now();
        while get_json(&host, "/search?q=nothing")?["pending"] != 0 {
            ensure!(
                began.elapsed() < INDEX_LIMIT,
                "the sessions are not indexed within {INDEX_LIMIT:?}"
            );
        }
        figures.indexed_s = began.elapsed().as_secs_f64();
        for (name, query) in QUERIES {
            let mut latencies = Vec::new();
            for _ in 0..CALLS_PER_QUERY {
                let began = Instant::now();
                get_json(&host, &format!("/search?q={query}"))?;
                latencies.push(began.elapsed().as_secs_f64() * 1e3);
            }
            latencies.sort_by(f64::total_cmp);
            figures.queries.push((name, latencies));
        }
        let database = host.state_dir().join("transcript.db");
        figures.database_bytes =
            fs::metadata(&database).context("reading the size of the database")?.len();
        host.stop()?;
        Ok(figures)
    }
}

impl SearchFigures {
    fn to_json(&self) -> serde_json::Value {
        let queries = self.queries.iter().map(|(name, latencies)| {
            let [p50, p99] = [0.5, 0.99].map(|share| round_figure(percentile(latencies, share)));
            ((*name).to_owned(), json!({ "p50_ms": p50, "p99_ms": p99 }))
        });
        let within = self
            .queries
            .iter()
            .all(|(_, latencies)| percentile(latencies, 0.5) <= TARGET_MS);
        json!({
            "queries": queries.collect::<serde_json::Map<_, _>>(), "within_target": within,
            "indexed_s": round_figure(self.indexed_s), "database_mib": self.database_bytes >> 20,
        })
    }
}
