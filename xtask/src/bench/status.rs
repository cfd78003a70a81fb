//! Measures `session/status` on an idle session, during a burst and while the agent hangs, and
//! checks that it appends nothing to the log.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use serde_json::json;

use super::compare::{Binary, in_round, print_compared};
use super::echo::measure_echoes;
use super::host::Host;
use super::peer;
use super::stats::{Series, percentile, round_figure};
use super::traffic::{Pace, Party, Traffic};
use super::ws::WebSocket;
use super::{Bench, UPDATE_BYTES};
use crate::output::print_progress;

/// The interval for 1,000 calls a second.
const PROBE_EVERY: Duration = Duration::from_millis(1);
/// The upper bound of the probe's latency in every case.
const TARGET_P99_US: f64 = 5_000.0;

/// The activity of the probed session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Nothing,
    Burst,
    Hang,
}

impl Beside {
    const ALL: [Self; 3] = [Self::Nothing, Self::Burst, Self::Hang];

    const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Burst => "burst",
            Self::Hang => "hang",
        }
    }
}

impl Bench {
    pub(super) fn status(&self) -> Result<()> {
        let mut sides = self.sides::<_, [Series; 4]>(&Beside::ALL);
        for round in 0..self.plan.repeats {
            print_progress(&format!("status, round {}", round + 1));
            for side in in_round(round, &mut sides) {
                let (mut probes, mut echoes) = self.probe_with_echo(side.binary, side.variant)?;
                let [p50, p99, echo_p50, echo_p99] = &mut side.figures;
                for (latencies, p50, p99) in
                    [(&mut probes, p50, p99), (&mut echoes, echo_p50, echo_p99)]
                {
                    latencies.sort_by(f64::total_cmp);
                    p50.push(percentile(latencies, 0.5));
                    p99.push(percentile(latencies, 0.99));
                }
            }
        }
        for sides in sides.chunks(self.binaries.len()) {
            let beside = sides[0].variant;
            let line = json!({
                "measure": "status", "beside": beside.name(), "calls": self.plan.calls, "per_second": 1_000,
                "target_p99_us": TARGET_P99_US,
                // A burst appends events itself; otherwise no event may be appended.
                "events_appended": if beside == Beside::Burst { None } else { Some(0) },
            });
            print_compared(
                line,
                sides.iter().map(|side| {
                    let [p50, p99, echo_p50, echo_p99] = &side.figures;
                    json!({
                        "p50_us": p50.to_json(), "p99_us": p99.to_json(),
                        "echo_p50_us": echo_p50.to_json(), "echo_p99_us": echo_p99.to_json(),
                        "ratio": round_figure(p99.median() / echo_p99.median()), "holds": p99.median() < TARGET_P99_US,
                    })
                }),
            );
        }
        Ok(())
    }

    /// Returns the latencies of the probes, and of a bare echo at the same time.
    fn probe_with_echo(&self, binary: &Binary, beside: Beside) -> Result<(Vec<f64>, Vec<f64>)> {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let echo = scope.spawn(|| measure_echoes(PROBE_EVERY, &stop));
            let probes = self.probe_beside(binary, beside);
            stop.store(true, Ordering::Relaxed);
            let echoes = echo.join().map_err(|_| anyhow!("the echo panicked"))??;
            Ok((probes?, echoes))
        })
    }

    fn probe_beside(&self, binary: &Binary, beside: Beside) -> Result<Vec<f64>> {
        let host = self.host(binary)?;
        let mut party = Party::gather(&host, &self.cwd(), 1)?;
        let session = party.session().to_owned();
        let mut prober = WebSocket::connect(&host.authority, &host.token)?;
        peer::initialize_peer(&mut prober)?;
        let latencies = match beside {
            Beside::Nothing => self.probe_quietly(&host, &mut prober, &session, "idle")?,
            Beside::Hang => {
                party.start("hang hard")?;
                self.probe_quietly(&host, &mut prober, &session, "running")?
            }
            Beside::Burst => self.probe_burst(&mut party, &mut prober, &session)?,
        };
        drop((party, prober));
        // An agent that hangs like this delays the host's stop by the whole grace period.
        if beside != Beside::Hang {
            host.stop()?;
        }
        Ok(latencies)
    }

    /// Probes while the session is idle: its log stays as it is.
    fn probe_quietly(
        &self,
        host: &Host,
        prober: &mut WebSocket<std::net::TcpStream>,
        session: &str,
        turn: &str,
    ) -> Result<Vec<f64>> {
        let began = Instant::now();
        while peer::request_status(prober, 0, session)?["_meta"]["wharf"]["turn"] != turn {
            ensure!(began.elapsed() < Duration::from_secs(10), "the turn does not become {turn}");
        }
        let before = host.logged(session)?;
        let latencies = probe_status(prober, session, self.plan.calls, || true)?;
        let after = host.logged(session)?;
        ensure!(
            before == after,
            "the log grew from {before} to {after} bytes while it was only asked about"
        );
        Ok(latencies)
    }

    /// Probes while the session streams at full rate to another client.
    fn probe_burst(
        &self,
        party: &mut Party,
        prober: &mut WebSocket<std::net::TcpStream>,
        session: &str,
    ) -> Result<Vec<f64>> {
        let traffic = Traffic::Burst {
            updates: self.plan.burst,
            size: UPDATE_BYTES,
            pace: Pace::Single,
        };
        let (bursting, asked) = (AtomicBool::new(true), AtomicBool::new(false));
        thread::scope(|scope| {
            let burst = scope.spawn(|| {
                let mut result = Ok(Vec::new());
                while result.is_ok() && !asked.load(Ordering::Relaxed) {
                    result = party.run(traffic);
                }
                bursting.store(false, Ordering::Relaxed);
                result
            });
            let latencies =
                probe_status(prober, session, self.plan.calls, || bursting.load(Ordering::Relaxed));
            asked.store(true, Ordering::Relaxed);
            burst.join().map_err(|_| anyhow!("the burst panicked"))??;
            latencies
        })
    }
}

/// Waits until a call is due and returns the instant from which it counts. Oversleeping does not
/// count, but a call that is late because of a slow predecessor counts from its due time.
pub(super) fn wait_until_due(due_at: Instant, last: Option<&f64>) -> Instant {
    thread::sleep(due_at.saturating_duration_since(Instant::now()));
    if last.is_some_and(|last| *last > PROBE_EVERY.as_secs_f64() * 1e6) {
        due_at
    } else {
        Instant::now()
    }
}

/// Probes at a fixed pace for as long as `goes_on`.
fn probe_status(
    prober: &mut WebSocket<std::net::TcpStream>,
    session: &str,
    calls: u32,
    goes_on: impl Fn() -> bool,
) -> Result<Vec<f64>> {
    let began = Instant::now();
    let mut latencies = Vec::new();
    for call in 0..calls {
        let from = wait_until_due(began + PROBE_EVERY * call, latencies.last());
        ensure!(goes_on(), "the burst ended before the last call");
        let answer = peer::request_status(prober, call, session)?;
        latencies.push(from.elapsed().as_secs_f64() * 1e6);
        ensure!(answer["status"] == "live", "{answer}");
    }
    Ok(latencies)
}
