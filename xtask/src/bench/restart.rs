//! Measures the start of a host and its memory with thousands of ended sessions on disk, with its
//! index and without.

use std::time::Instant;

use anyhow::{Result, ensure};
use serde_json::json;

use super::Bench;
use super::compare::{Binary, in_round, print_compared};
use super::host::Host;
use super::http::{fetch_text, get_json};
use super::stats::Series;
use crate::output::print_progress;

/// The upper bound of a start.
const TARGET_MS: f64 = 300.0;
const TARGET_RSS_KIB: f64 = 60.0 * 1024.0;

impl Bench {
    pub(super) fn restart(&self) -> Result<()> {
        let mut sides = self.sides::<_, [Figures; 2]>(&[()]);
        for side in &sides {
            self.make_cold_sessions(side.binary, self.plan.cold, 0)?;
            // The first host reads all sessions and leaves an index.
            self.once(side.binary, &mut Figures::default())?;
        }
        for round in 0..self.plan.repeats {
            print_progress(&format!("restart, round {}", round + 1));
            for side in in_round(round, &mut sides) {
                let [indexed, bare] = &mut side.figures;
                self.once(side.binary, indexed)?;
                self.delete_databases(side.binary, &["index.db"]);
                self.once(side.binary, bare)?;
            }
        }
        let line = json!({
            "measure": "restart", "sessions": self.plan.cold, "target_ready_ms": TARGET_MS, "target_rss_kib": TARGET_RSS_KIB,
        });
        print_compared(line, sides.iter().map(|side| {
            let [indexed, bare] = &side.figures;
            json!({
                "ready_ms": indexed.ready.to_json(), "rss_kib": indexed.now.to_json(), "peak_kib": indexed.peak.to_json(),
                "page_ms": indexed.page.to_json(),
                "within_target": indexed.ready.median() < TARGET_MS && indexed.now.median() < TARGET_RSS_KIB,
                "without_index_ready_ms": bare.ready.to_json(), "without_index_peak_kib": bare.peak.to_json(),
            })
        }));
        self.remove_cold_sessions()
    }

    /// Starts a host, measures it and stops it.
    fn once(&self, binary: &Binary, figures: &mut Figures) -> Result<()> {
        let began = Instant::now();
        let host = Host::start(&binary.wharf, &self.agent, &self.cold_dir(binary))?;
        fetch_text(&host, "/readyz")?;
        figures.ready.push(began.elapsed().as_secs_f64() * 1e3);
        let memory = host.memory()?;
        figures.now.push(memory.now as f64);
        figures.peak.push(memory.peak as f64);
        let (began, mut path, mut listed, mut pages) =
            (Instant::now(), PAGE_PATH.to_owned(), 0, 0_u32);
        loop {
            let page = get_json(&host, &path)?;
            listed += page["sessions"].as_array().map_or(0, Vec::len);
            pages += 1;
            match page["nextCursor"].as_str() {
                Some(cursor) => path = format!("{PAGE_PATH}&cursor={cursor}"),
                None => break,
            }
        }
        ensure!(listed == self.plan.cold as usize, "{listed} sessions are listed");
        figures.page.push(began.elapsed().as_secs_f64() * 1e3 / f64::from(pages));
        host.stop_and_keep()
    }
}

const PAGE_PATH: &str = "/sessions?limit=100";

#[derive(Default)]
struct Figures {
    ready: Series,
    now: Series,
    peak: Series,
    page: Series,
}
