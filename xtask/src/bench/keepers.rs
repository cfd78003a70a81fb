//! Measures agents that outlive the host: how long the next host takes to take them over, and what
//! a keeper costs meanwhile.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::Bench;
use super::compare::{Binary, print_compared};
use super::host::Host;
use super::http::{fetch_text, get_json, send_json};
use super::stats::Series;
use crate::output::print_progress;

const KEEPERS: usize = 100;
/// The upper bounds: of taking all over, and of the memory that only one keeper uses.
const TARGET_READY_MS: f64 = 2_000.0;
const TARGET_PRIVATE_KIB: f64 = 1_024.0;
/// How long the idle keepers are watched.
const WATCH_TIME: Duration = Duration::from_secs(10);

impl Bench {
    /// Measures this binary alone: others have no keepers.
    pub(super) fn keepers(&self) -> Result<()> {
        let (mut ready, mut private, mut wakes) =
            (Series::default(), Series::default(), Series::default());
        let Some(binary) = self.binaries.first() else { return Ok(()) };
        for round in 0..self.plan.repeats {
            print_progress(&format!("keepers, round {}", round + 1));
            self.take_over_once(binary, &mut ready, &mut private, &mut wakes)?;
        }
        let line = json!({
            "measure": "keepers", "agents": KEEPERS, "target_ready_ms": TARGET_READY_MS,
            "target_private_kib": TARGET_PRIVATE_KIB, "watched_s": WATCH_TIME.as_secs(),
        });
        let figures = json!({
            "ready_ms": ready.to_json(), "private_kib": private.to_json(), "wakes_of_all": wakes.to_json(),
            "within_target": ready.median() < TARGET_READY_MS && private.median() < TARGET_PRIVATE_KIB,
        });
        print_compared(line, [figures]);
        Ok(())
    }

    fn take_over_once(
        &self,
        binary: &Binary,
        ready: &mut Series,
        private: &mut Series,
        wakes: &mut Series,
    ) -> Result<()> {
        let dir = self.dir.join("keepers");
        let host = Host::start(&binary.wharf, &self.agent, &dir)?;
        for _ in 0..KEEPERS {
            send_json(
                &host,
                "POST",
                "/sessions/agent",
                &json!({ "adapter": "agent", "cwd": self.cwd() }),
            )?;
        }
        let keepers = list_keepers(&host)?;
        ensure!(keepers.len() == KEEPERS, "{} agents are kept", keepers.len());
        let before = count_wakes(&keepers)?;
        // Nothing happens in this time: that is what is measured.
        thread::sleep(WATCH_TIME);
        wakes.push((count_wakes(&keepers)? - before) as f64);
        for pid in &keepers {
            private.push(private_kib(*pid)? as f64);
        }
        host.kill_and_keep()?;
        let began = Instant::now();
        let host = Host::start(&binary.wharf, &self.agent, &dir)?;
        fetch_text(&host, "/readyz")?;
        ready.push(began.elapsed().as_secs_f64() * 1e3);
        let live = get_json(&host, "/host")?["sessions"]["live"].as_u64().unwrap_or_default();
        ensure!(live == KEEPERS as u64, "{live} of {KEEPERS} agents were taken over");
        host.stop()
    }
}

fn list_keepers(host: &Host) -> Result<Vec<u32>> {
    let sockets =
        fs::read_dir(host.state_dir().join("run/keepers-1")).context("listing the keepers")?;
    Ok(sockets
        .flatten()
        .filter_map(|socket| socket.file_name().to_str()?.parse().ok())
        .collect())
}

/// Returns how often the threads of these processes have been woken.
fn count_wakes(pids: &[u32]) -> Result<u64> {
    let mut wakes = 0;
    for pid in pids {
        for task in
            fs::read_dir(format!("/proc/{pid}/task")).context("listing a keeper's threads")?
        {
            let status = fs::read_to_string(task?.path().join("status"))
                .context("reading a thread's status")?;
            let line =
                status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            wakes += line.context("no count of switches")?.trim().parse::<u64>()?;
        }
    }
    Ok(wakes)
}

/// Returns the memory that no other process shares.
fn private_kib(pid: u32) -> Result<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))
        .context("reading a keeper's memory")?;
    let fields = rollup.lines().filter_map(|line| line.strip_prefix("Private_")?.split_once(':'));
    fields
        .map(|(_, size)| Ok(size.trim().trim_end_matches("kB").trim().parse::<u64>()?))
        .sum()
}
