//! Measures the full-screen client through its terminal: opening a long session, a flood of
//! updates, keys during the flood, and an idle client.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::Bench;
use super::compare::{Binary, in_round, print_compared};
use super::host::Host;
use super::http::{get_json, send_json};
use super::rows_page::PageFigures;
use super::screen::ScreenClient;
use super::stats::{Series, percentile, round_figure};
use crate::output::print_progress;

const TARGET_OPEN_MS: f64 = 100.0;
const TARGET_FRAMES_PER_SECOND: f64 = 30.0;
const TARGET_FLOOD_CPU: f64 = 0.15;
const TARGET_KEY_P99_MS: f64 = 30.0;
const TARGET_PEAK_KIB: f64 = 60.0 * 1024.0;
/// The streams of rows and of the sessions bring a heartbeat every 10 s each. The ages on the
/// screen change with one of them at most once a minute, which wakes the thread that writes frames;
/// and a heartbeat may fall on each end of the time.
const TARGET_IDLE_WAKES_PER_MINUTE: f64 = 2.0 * 60.0 / 10.0 + 1.0 + 2.0;
const FLOOD_INTERVAL_MICROS: u64 = 1_000;
/// The updates of one turn: its text stays below the length at which a row is cut and not drawn any
/// more.
const UPDATES_PER_TURN: u64 = 1_500;
/// More turns than a measurement takes; those that still wait at its end are removed.
const FLOOD_TURNS: u32 = 40;
/// The time between two keys: faster than a person types, slower than the frames.
const KEY_INTERVAL: Duration = Duration::from_millis(37);
/// Letters that the agents and the client's own texts do not have.
const TYPED_LETTERS: &str = "абвгдежзиклмнопрстуфхцчшщъыьэюя";
/// The time until a client that has just started draws nothing any more.
const SETTLE_TIME: Duration = Duration::from_secs(6);

#[derive(Default)]
struct TuiFigures {
    open_ms: Series,
    frames_per_second: Series,
    flood_cpu: Series,
    /// Milliseconds of every key, in all rounds.
    keys_ms: Vec<f64>,
    key_p99_ms_of_round: Series,
    /// The share of the machine's time that its hypervisor took while keys were pressed.
    stolen_cpu: Series,
    idle_wakes_per_minute: Series,
    peak_kib: Series,
}

impl Bench {
    pub(super) fn tui(&self) -> Result<()> {
        let mut sides = self.sides::<_, TuiFigures>(&[()]);
        for side in &sides {
            self.make_cold_sessions(side.binary, 1, self.plan.long_session)?;
            self.take_snapshot(side.binary)?;
            // This host folds the log and leaves the rows.
            self.read_first_page(side.binary, &mut PageFigures::default())?;
        }
        for round in 0..self.plan.repeats {
            print_progress(&format!("tui, round {}", round + 1));
            for side in in_round(round, &mut sides) {
                self.measure_client(side.binary, &mut side.figures)?;
            }
        }
        let line = json!({
            "measure": "tui", "events": self.plan.long_session, "updates_per_second": 1_000_000 / FLOOD_INTERVAL_MICROS,
            "target_open_ms": TARGET_OPEN_MS, "target_frames_per_second": TARGET_FRAMES_PER_SECOND,
            "target_flood_cpu": TARGET_FLOOD_CPU, "target_key_p99_ms": TARGET_KEY_P99_MS,
            "target_idle_wakes_per_minute": TARGET_IDLE_WAKES_PER_MINUTE, "target_peak_kib": TARGET_PEAK_KIB,
        });
        print_compared(line, sides.iter().map(|side| side.figures.to_json()));
        self.remove_cold_sessions()
    }

    /// Opens a long session from the list; then, with a host of its own, lets a session flood and
    /// the client rest.
    fn measure_client(&self, binary: &Binary, figures: &mut TuiFigures) -> Result<()> {
        let host = Host::start(&binary.wharf, &self.agent, &self.cold_dir(binary))?;
        let mut client = ScreenClient::start(&binary.wharf, &host, "")?;
        client.wait_for("long")?;
        let pressed = client.press("\r")?;
        // The end of the newest answer.
        let shown = client.wait_for("sess_01k9t")?;
        figures.open_ms.push((shown - pressed).as_secs_f64() * 1e3);
        figures.peak_kib.push(client.memory()?.peak as f64);
        drop(client);
        host.stop_and_keep()?;

        let host = self.host(binary)?;
        let spawned = send_json(
            &host,
            "POST",
            "/sessions/agent",
            &json!({ "adapter": "agent", "cwd": self.cwd() }),
        )?;
        let session = spawned["id"].as_str().context("no session was made")?.to_owned();
        let mut client = ScreenClient::start(&binary.wharf, &host, &format!("attach {session}"))?;
        client.wait_for("idle")?;
        self.measure_flood(&host, &session, &mut client, figures)?;
        figures.peak_kib.push(client.memory()?.peak as f64);

        client.count_frames(SETTLE_TIME)?;
        let (before, time) = (client.count_sleeps()?, Duration::from_secs(self.plan.idle_seconds));
        client.count_frames(time)?;
        let wakes = (client.count_sleeps()? - before) as f64;
        figures.idle_wakes_per_minute.push(wakes * 60.0 / time.as_secs_f64());
        drop(client);
        host.stop()
    }

    fn measure_flood(
        &self,
        host: &Host,
        session: &str,
        client: &mut ScreenClient,
        figures: &mut TuiFigures,
    ) -> Result<()> {
        let watched = Duration::from_secs(self.plan.flood_seconds);
        let path = format!("/sessions/{session}");
        let prompt = json!({ "prompt": format!("tick {UPDATES_PER_TURN} {FLOOD_INTERVAL_MICROS}"), "queue": true });
        for _ in 0..FLOOD_TURNS {
            send_json(host, "POST", &format!("{path}/prompt"), &prompt)?;
        }
        client.wait_for("tick")?;
        let (before, began) = (client.cpu()?, Instant::now());
        let frames = client.count_frames(watched)?;
        let seconds = began.elapsed().as_secs_f64();
        figures.flood_cpu.push((client.cpu()? - before).as_secs_f64() / seconds);
        figures.frames_per_second.push(frames as f64 / seconds);
        let letters: Vec<char> = TYPED_LETTERS.chars().collect();
        let (stolen_before, first_key) = (read_cpu_ticks()?, figures.keys_ms.len());
        for number in 0..self.plan.typed_keys as usize {
            let letter = letters[number % letters.len()];
            if number > 0 && number % letters.len() == 0 {
                // A new line of text, so that no letter is drawn twice.
                client.press("\x15")?;
                client.wait_for("prompt")?;
            }
            let pressed = client.press(&letter.to_string())?;
            let shown = client.wait_for(&letter.to_string())?;
            figures.keys_ms.push((shown - pressed).as_secs_f64() * 1e3);
            thread::sleep(KEY_INTERVAL.saturating_sub(pressed.elapsed()));
        }
        figures.stolen_cpu.push(stolen_share(stolen_before, read_cpu_ticks()?));
        figures
            .key_p99_ms_of_round
            .push(percentile(&sorted(&figures.keys_ms[first_key..]), 0.99));
        let waiting = get_json(host, &format!("{path}/queue"))?;
        let waiting = waiting["queue"].as_array().context("no queue is listed")?;
        ensure!(!waiting.is_empty(), "the flood was over before the last key");
        for prompt in waiting.iter().filter_map(|entry| entry["promptId"].as_str()) {
            send_json(host, "DELETE", &format!("{path}/queue/{prompt}"), &json!({}))?;
        }
        client.press("\x15")?;
        send_json(host, "POST", &format!("{path}/interrupt"), &json!({}))?;
        client.wait_for("idle")?;
        Ok(())
    }
}

impl TuiFigures {
    fn to_json(&self) -> Value {
        let keys = sorted(&self.keys_ms);
        let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| round_figure(percentile(&keys, share)));
        let within = self.open_ms.median() <= TARGET_OPEN_MS
            && self.frames_per_second.median() <= TARGET_FRAMES_PER_SECOND
            && self.flood_cpu.median() <= TARGET_FLOOD_CPU
            && p99 <= TARGET_KEY_P99_MS
            && self.idle_wakes_per_minute.median() <= TARGET_IDLE_WAKES_PER_MINUTE
            && self.peak_kib.max() <= TARGET_PEAK_KIB;
        json!({
            "open_ms": self.open_ms.to_json(), "frames_per_second": self.frames_per_second.to_json(),
            "flood_cpu": self.flood_cpu.to_json(), "keys": keys.len(), "key_p50_ms": p50, "key_p99_ms": p99,
            "key_max_ms": max, "key_p99_ms_of_round": self.key_p99_ms_of_round.to_json(),
            "stolen_cpu": self.stolen_cpu.to_json(), "idle_wakes_per_minute": self.idle_wakes_per_minute.to_json(),
            "peak_kib": self.peak_kib.to_json(), "within_target": within,
        })
    }
}

fn sorted(figures: &[f64]) -> Vec<f64> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The time of all processors since the boot, in ticks.
#[derive(Clone, Copy)]
struct CpuTicks {
    all: u64,
    stolen: u64,
}

fn read_cpu_ticks() -> Result<CpuTicks> {
    let stat = std::fs::read_to_string("/proc/stat").context("reading /proc/stat")?;
    let line = stat.lines().next().context("/proc/stat is empty")?;
    // user, nice, system, idle, iowait, irq, softirq, steal
    let ticks: Vec<u64> = line
        .split_whitespace()
        .skip(1)
        .take(8)
        .filter_map(|ticks| ticks.parse().ok())
        .collect();
    Ok(CpuTicks {
        all: ticks.iter().sum(),
        stolen: ticks.get(7).copied().unwrap_or_default(),
    })
}

fn stolen_share(before: CpuTicks, after: CpuTicks) -> f64 {
    (after.stolen - before.stolen) as f64 / (after.all - before.all).max(1) as f64
}
