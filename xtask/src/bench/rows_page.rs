//! Measures the newest page of rows of a long session: after a restart of the host, and with all
//! derived data deleted.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::Bench;
use super::compare::{Binary, in_round, print_compared};
use super::host::Host;
use super::http::{fetch_text, get_json, send_json};
use super::stats::Series;
use crate::output::print_progress;

const TARGET_PAGE_MS: f64 = 20.0;
const TARGET_READ_BYTES: f64 = 2_000_000.0;
const TARGET_REBUILD_MS: f64 = 1_000.0;
/// The files that the host can make again from the logs.
const DERIVED_DATABASES: &[&str] = &["index.db", "transcript.db"];

impl Bench {
    pub(super) fn rows_page(&self) -> Result<()> {
        let mut sides = self.sides::<_, [PageFigures; 2]>(&[()]);
        for side in &sides {
            self.make_cold_sessions(side.binary, 1, self.plan.long_session)?;
            self.take_snapshot(side.binary)?;
            // This host folds the log and leaves the rows.
            self.read_first_page(side.binary, &mut PageFigures::default())?;
        }
        for round in 0..self.plan.repeats {
            print_progress(&format!("rows_page, round {}", round + 1));
            for side in in_round(round, &mut sides) {
                let [restarted, rebuilt] = &mut side.figures;
                self.read_first_page(side.binary, restarted)?;
                self.delete_databases(side.binary, DERIVED_DATABASES);
                self.read_first_page(side.binary, rebuilt)?;
            }
        }
        let line = json!({
            "measure": "rows_page", "events": self.plan.long_session, "target_page_ms": TARGET_PAGE_MS,
            "target_read_bytes": TARGET_READ_BYTES, "target_rebuild_ms": TARGET_REBUILD_MS,
        });
        print_compared(line, sides.iter().map(|side| {
            let [restarted, rebuilt] = &side.figures;
            json!({
                "page_ms": restarted.page.to_json(), "read_bytes": restarted.read.to_json(), "second_page_ms": restarted.again.to_json(),
                "rebuild_ms": rebuilt.page.to_json(), "rebuild_peak_kib": rebuilt.peak.to_json(),
                "within_target": restarted.page.median() <= TARGET_PAGE_MS && restarted.read.median() <= TARGET_READ_BYTES
                    && rebuilt.page.median() <= TARGET_REBUILD_MS,
            })
        }));
        self.remove_cold_sessions()
    }

    /// Lets a host add an event to the session. It takes a snapshot then, as it does every few
    /// thousand events while it makes a log by itself.
    pub(super) fn take_snapshot(&self, binary: &Binary) -> Result<()> {
        let host = Host::start(&binary.wharf, &self.agent, &self.cold_dir(binary))?;
        let path = format!("/sessions/{}", find_session(&host)?);
        send_json(&host, "PATCH", &path, &json!({ "title": "A long session" }))?;
        host.stop_and_keep()
    }

    /// Starts a host, reads the newest page twice and stops the host.
    pub(super) fn read_first_page(&self, binary: &Binary, figures: &mut PageFigures) -> Result<()> {
        let host = Host::start(&binary.wharf, &self.agent, &self.cold_dir(binary))?;
        fetch_text(&host, "/readyz")?;
        let path = format!("/sessions/{}/rows", find_session(&host)?);
        let (before, began) = (host.bytes_read()?, Instant::now());
        let page = fetch_text(&host, &path)?;
        figures.page.push(began.elapsed().as_secs_f64() * 1e3);
        figures.read.push(host.bytes_read()?.saturating_sub(before) as f64);
        ensure!(
            page.contains(r#""kind":"turn_end""#),
            "the page does not show the last turn: {page:.400}"
        );
        let began = Instant::now();
        ensure!(fetch_text(&host, &path)? == page, "the page changed");
        figures.again.push(began.elapsed().as_secs_f64() * 1e3);
        figures.peak.push(host.memory()?.peak as f64);
        host.stop_and_keep()
    }
}

/// Returns the id of the only session.
fn find_session(host: &Host) -> Result<String> {
    let sessions = get_json(host, "/sessions")?;
    sessions["sessions"][0]["id"]
        .as_str()
        .map(ToOwned::to_owned)
        .context("no session is listed")
}

#[derive(Default)]
pub(super) struct PageFigures {
    page: Series,
    again: Series,
    read: Series,
    peak: Series,
}
