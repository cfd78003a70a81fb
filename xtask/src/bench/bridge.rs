//! Measures `wharf acp` from its start to the first byte of its first answer, with a running host.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::host::Host;
use super::peer;
use super::stats::{Series, percentile, round_figure};
use super::{Bench, print_measure};
use crate::output::print_progress;
use crate::process::command;

/// An editor's user does not notice a delay below this.
const TARGET_MS: f64 = 50.0;
const STARTS: usize = 20;

impl Bench {
    pub(super) fn bridge(&self) -> Result<()> {
        let host = self.host()?;
        // The first client starts the agent to learn its capabilities, which is not part of the bridge's time.
        self.start_bridge(&host)?;
        let [mut p50, mut p99, mut bare] = [Series::default(), Series::default(), Series::default()];
        for round in 0..self.plan.repeats {
            print_progress(&format!("bridge, round {}", round + 1));
            let mut starts = Vec::new();
            let mut bare_starts = Vec::new();
            for _ in 0..STARTS {
                starts.push(self.start_bridge(&host)?);
                bare_starts.push(self.start_bare()?);
            }
            starts.sort_by(f64::total_cmp);
            bare_starts.sort_by(f64::total_cmp);
            p50.push(percentile(&starts, 0.5));
            p99.push(percentile(&starts, 0.99));
            bare.push(percentile(&bare_starts, 0.5));
        }
        host.stop()?;
        print_measure(json!({
            "measure": "bridge", "starts": STARTS, "p50_ms": p50.to_json(), "p99_ms": p99.to_json(),
            "bare_start_ms": bare.to_json(), "ratio": round_figure(p50.median() / bare.median()),
            "target_ms": TARGET_MS, "holds": p99.median() < TARGET_MS,
        }));
        Ok(())
    }

    /// Returns the milliseconds to the first byte of the answer to `initialize`.
    fn start_bridge(&self, host: &Host) -> Result<f64> {
        let began = Instant::now();
        let mut child = command(&self.wharf)
            .args(["acp", "--no-start", "--state-dir"])
            .arg(host.state_dir())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting the bridge")?;
        let mut stdin = child.stdin.take().context("taking the bridge's stdin")?;
        stdin.write_all(format!("{}\n", peer::initialize_request()).as_bytes())?;
        let mut stdout = BufReader::new(child.stdout.take().context("taking the bridge's stdout")?);
        let came = !stdout.fill_buf()?.is_empty();
        let took = began.elapsed().as_secs_f64() * 1e3;
        // The bytes must be the beginning of exactly that answer.
        let mut line = String::new();
        stdout.read_line(&mut line)?;
        drop(stdin);
        let _ = child.kill();
        child.wait()?;
        ensure!(came && peer::is_initialized(line.as_bytes()), "the bridge answered {line:?}");
        Ok(took)
    }

    /// Returns the milliseconds that the program needs to start, print its version and exit: a little more than a
    /// start.
    fn start_bare(&self) -> Result<f64> {
        let began = Instant::now();
        command(&self.wharf).arg("--version").output().context("starting the program")?;
        Ok(began.elapsed().as_secs_f64() * 1e3)
    }
}
