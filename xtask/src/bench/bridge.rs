//! Measures `wharf acp` from its start to the first byte of its first answer, with a running host.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::Bench;
use super::compare::{Binary, in_round, print_compared};
use super::host::Host;
use super::peer;
use super::stats::{Series, percentile, round_figure};
use crate::output::print_progress;
use crate::process::command;

/// An editor's user does not notice a delay below this.
const TARGET_MS: f64 = 50.0;
const STARTS_PER_ROUND: usize = 20;

impl Bench {
    pub(super) fn bridge(&self) -> Result<()> {
        let mut hosts = Vec::new();
        for side in self.sides::<_, [Series; 3]>(&[()]) {
            let host = self.host(side.binary)?;
            // The first client starts the agent to learn its capabilities, which is not part of the
            // bridge's time.
            start_bridge(side.binary, &host)?;
            hosts.push((side, host));
        }
        for round in 0..self.plan.repeats {
            print_progress(&format!("bridge, round {}", round + 1));
            for (side, host) in in_round(round, &mut hosts) {
                let (mut starts, mut bare_starts) = (Vec::new(), Vec::new());
                for _ in 0..STARTS_PER_ROUND {
                    starts.push(start_bridge(side.binary, host)?);
                    bare_starts.push(start_bare(side.binary)?);
                }
                starts.sort_by(f64::total_cmp);
                bare_starts.sort_by(f64::total_cmp);
                let [p50, p99, bare] = &mut side.figures;
                p50.push(percentile(&starts, 0.5));
                p99.push(percentile(&starts, 0.99));
                bare.push(percentile(&bare_starts, 0.5));
            }
        }
        let mut figures = Vec::new();
        for (side, host) in hosts {
            host.stop()?;
            let [p50, p99, bare] = side.figures;
            figures.push(json!({
                "p50_ms": p50.to_json(), "p99_ms": p99.to_json(), "bare_start_ms": bare.to_json(),
                "ratio": round_figure(p50.median() / bare.median()), "holds": p99.median() < TARGET_MS,
            }));
        }
        print_compared(
            json!({"measure": "bridge", "starts": STARTS_PER_ROUND, "target_ms": TARGET_MS}),
            figures,
        );
        Ok(())
    }
}

/// Returns the milliseconds to the first byte of the answer to `initialize`.
fn start_bridge(binary: &Binary, host: &Host) -> Result<f64> {
    let began = Instant::now();
    let mut child = command(&binary.wharf)
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

/// Returns the milliseconds that the program needs to start, print its version and exit: a little
/// more than a start.
fn start_bare(binary: &Binary) -> Result<f64> {
    let began = Instant::now();
    command(&binary.wharf)
        .arg("--version")
        .output()
        .context("starting the program")?;
    Ok(began.elapsed().as_secs_f64() * 1e3)
}
