//! `cargo xtask bench` measures the binary of the `dist` profile beside a bare pipe in the same
//! run, and beside another binary if `--against` names one. It prints one JSON line per measure on
//! stdout.

mod bridge;
mod build;
mod cold;
mod compare;
mod echo;
mod host;
mod http;
mod keepers;
mod peer;
mod pipe;
mod restart;
mod rows_burst;
mod rows_page;
mod screen;
mod search;
mod stats;
mod status;
mod traffic;
mod tui;
mod ws;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use crate::output::{print_line, print_progress};
use crate::page;
use crate::process::{cargo_command, run_checked};
use crate::repo;
use compare::{Binary, Side, print_compared};
pub(crate) use host::{Host, quote_path};
pub(crate) use http::fetch_text;
use pipe::Pipe;
use stats::{Series, percentile, round_figure};
use traffic::{Pace, Party, Seen, Traffic, drive_connection};

/// The measures of a running host; all of them if the command names none.
const MEASURES: &[&str] = &[
    "burst",
    "burst_packed",
    "tick",
    "never_reading",
    "status",
    "bridge",
    "restart",
    "keepers",
    "rows_page",
    "rows_burst",
    "search",
    "tui",
];
/// The measure of the build itself. It runs only if it is named: it takes minutes and needs no
/// host.
const BUILD_MEASURE: &str = "build";
/// The measure of the web page in a browser. It runs only if it is named: it takes half an hour.
const PAGE_MEASURE: &str = "page";
/// The profile of the measured programs, and of xtask while it measures.
const BENCH_PROFILE: &str = "dist";
const CLIENT_COUNTS: &[usize] = &[1, 8];
/// The approximate size of a token of a streamed answer with its envelope.
const UPDATE_BYTES: u64 = 200;

/// The number of updates and rounds.
struct Plan {
    measures: Vec<String>,
    measures_build: bool,
    measures_page: bool,
    /// Few updates and rounds.
    is_quick: bool,
    builds_programs: bool,
    /// The binary of another version, whose figures stand beside those of this one.
    against: Option<PathBuf>,
    repeats: usize,
    burst: u64,
    ticks: u64,
    flood: u64,
    calls: u32,
    cold: u32,
    /// The number of events of a long session.
    long_session: u32,
    /// The number of sessions that are searched.
    searched: u32,
    /// The seconds for which a flood is drawn, and an idle client is watched, by the full-screen
    /// client.
    flood_seconds: u64,
    idle_seconds: u64,
    /// The number of keys that are pressed during the flood.
    typed_keys: u32,
}

impl Plan {
    fn parse(args: &[String]) -> Result<Self> {
        let (measures, measures_build, builds_programs, repeats) = (Vec::new(), false, true, 3);
        let (burst, ticks, flood, calls, cold) = (300_000, 3_000, 1_000_000, 5_000, 10_000);
        let (long_session, searched) = (100_000, 1_000);
        let (flood_seconds, idle_seconds, typed_keys) = (10, 60, 400);
        let (mut plan, mut args) = (
            Self {
                measures,
                measures_build,
                measures_page: false,
                is_quick: false,
                builds_programs,
                against: None,
                repeats,
                burst,
                ticks,
                flood,
                calls,
                cold,
                long_session,
                searched,
                flood_seconds,
                idle_seconds,
                typed_keys,
            },
            args.iter(),
        );
        while let Some(arg) = args.next() {
            match arg.as_str() {
                // A quick run only shows that the benchmark works; its figures mean little.
                "--quick" => {
                    let (burst, ticks, flood, calls, cold) = (20_000, 300, 50_000, 1_000, 500);
                    let (long_session, searched) = (5_000, 20);
                    let (flood_seconds, idle_seconds, typed_keys) = (2, 10, 40);
                    plan = Self {
                        is_quick: true,
                        repeats: 1,
                        burst,
                        ticks,
                        flood,
                        calls,
                        cold,
                        long_session,
                        searched,
                        flood_seconds,
                        idle_seconds,
                        typed_keys,
                        ..plan
                    };
                }
                "--no-build" => plan.builds_programs = false,
                "--against" => {
                    let path = args.next().context("--against needs the path of a wharf binary")?;
                    let found = fs::canonicalize(path)
                        .with_context(|| format!("finding the binary {path:?}"))?;
                    plan.against = Some(found);
                }
                BUILD_MEASURE => plan.measures_build = true,
                PAGE_MEASURE => plan.measures_page = true,
                name if MEASURES.contains(&name) => plan.measures.push(name.to_owned()),
                other => bail!(
                    "no measure called {other:?}; there are: {}, {BUILD_MEASURE}, {PAGE_MEASURE}",
                    MEASURES.join(", ")
                ),
            }
        }
        if plan.measures.is_empty() && !plan.measures_build && !plan.measures_page {
            plan.measures = MEASURES.iter().map(|name| (*name).to_owned()).collect();
        }
        Ok(plan)
    }
}

/// The programs under measurement, and the directory for their files.
struct Bench {
    /// The binary of this repo and, with `--against`, the other one.
    binaries: Vec<Binary>,
    agent: PathBuf,
    dir: PathBuf,
    plan: Plan,
}

pub(crate) fn run(root: &Path, args: &[String]) -> Result<()> {
    let plan = Plan::parse(args)?;
    let target = repo::target_dir(root)?;
    // The directory is on a real disk, whereas /tmp may be in memory.
    let dir = target.join("bench").join(std::process::id().to_string());
    if plan.measures_build {
        build::measure(root, &dir)?;
    }
    if plan.measures_page {
        if plan.builds_programs {
            run_checked(cargo_command(root).args([
                "build",
                "--profile",
                BENCH_PROFILE,
                "-p",
                "wharf",
                "--bins",
            ]))?;
        }
        page::measure_page(root, &target.join(BENCH_PROFILE).join("wharf"), plan.is_quick)?;
    }
    if plan.measures.is_empty() {
        return Ok(());
    }
    if cfg!(debug_assertions) {
        // The readers share the machine with the measured host, so they must be optimised too.
        print_progress("starting over, optimised");
        let args = args.iter().filter(|arg| *arg != BUILD_MEASURE && *arg != PAGE_MEASURE);
        let bench = ["--profile", BENCH_PROFILE, "-p", "xtask", "--", "bench"];
        let manifest = root.join("Cargo.toml");
        // It stays in the caller's directory, for a relative path after `--against`.
        return run_checked(
            cargo_command(root)
                .current_dir(".")
                .args(["run", "--quiet", "--manifest-path"])
                .arg(manifest)
                .args(bench)
                .args(args),
        );
    }
    if plan.builds_programs {
        print_progress(&format!("building with the profile {BENCH_PROFILE}"));
        run_checked(cargo_command(root).args([
            "build",
            "--profile",
            BENCH_PROFILE,
            "-p",
            "wharf",
            "-p",
            "wharf-testkit",
            "--bins",
        ]))?;
    }
    let programs = target.join(BENCH_PROFILE);
    let mut binaries = vec![Binary { wharf: programs.join("wharf"), name: "new" }];
    binaries.extend(plan.against.clone().map(|wharf| Binary { wharf, name: "old" }));
    let bench = Bench {
        binaries,
        agent: programs.join("wharf-scripted-agent"),
        dir,
        plan,
    };
    fs::create_dir_all(&bench.dir).with_context(|| format!("making {}", bench.dir.display()))?;
    let result = bench.measure();
    // Every host has removed its own files, so the directory is empty.
    let _ = fs::remove_dir_all(&bench.dir);
    result
}

impl Bench {
    fn measure(&self) -> Result<()> {
        for measure in &self.plan.measures {
            match measure.as_str() {
                "burst" => self.burst(measure, Pace::Single)?,
                "burst_packed" => self.burst(measure, Pace::Packed)?,
                "tick" => self.tick()?,
                "status" => self.status()?,
                "bridge" => self.bridge()?,
                "restart" => self.restart()?,
                "keepers" => self.keepers()?,
                "rows_page" => self.rows_page()?,
                "rows_burst" => self.rows_burst()?,
                "search" => self.search()?,
                "tui" => self.tui()?,
                _ => self.never_reading()?,
            }
        }
        Ok(())
    }

    /// Measures the throughput of a stream at full rate.
    fn burst(&self, name: &str, pace: Pace) -> Result<()> {
        let traffic = Traffic::Burst { updates: self.plan.burst, size: UPDATE_BYTES, pace };
        let mut pipe = Series::default();
        let mut sides = self.sides::<_, HostFigures>(CLIENT_COUNTS);
        for round in 0..self.plan.repeats {
            // The variants take turns, so that a slow period of the machine affects all of them.
            print_progress(&format!("{name}, round {}", round + 1));
            pipe.push(per_second(traffic, &[self.over_pipe(traffic)?]));
            for side in compare::in_round(round, &mut sides) {
                let seen = self.over_host(traffic, side)?;
                side.figures.main.push(per_second(traffic, &seen));
            }
        }
        for sides in sides.chunks(self.binaries.len()) {
            let line = json!({
                "measure": name, "clients": sides[0].variant, "updates": traffic.updates(), "size": UPDATE_BYTES,
                "pipe_per_second": pipe.to_json(),
            });
            print_compared(line, sides.iter().map(|side| json!({
                "per_second": side.figures.main.to_json(), "ratio": round_figure(side.figures.main.median() / pipe.median()),
                "host_cpu_us_per_message": side.figures.cpu.to_json(), "host_rss_kib": side.figures.rss.to_json(),
            })));
        }
        Ok(())
    }

    /// Measures the latency of a calm stream.
    fn tick(&self) -> Result<()> {
        let traffic = Traffic::Tick { updates: self.plan.ticks, micros: 1_000 };
        let mut pipe = [Series::default(), Series::default()];
        let mut sides = self.sides::<_, HostFigures>(CLIENT_COUNTS);
        for round in 0..self.plan.repeats {
            print_progress(&format!("tick, round {}", round + 1));
            let [p50, p99] = latency_percentiles(&[self.over_pipe(traffic)?]);
            pipe[0].push(p50);
            pipe[1].push(p99);
            for side in compare::in_round(round, &mut sides) {
                let [p50, p99] = latency_percentiles(&self.over_host(traffic, side)?);
                side.figures.main.push(p50);
                side.figures.second.push(p99);
            }
        }
        for sides in sides.chunks(self.binaries.len()) {
            let line = json!({
                "measure": "tick", "clients": sides[0].variant, "updates": traffic.updates(), "per_second": 1_000,
                "pipe_p50_us": pipe[0].to_json(), "pipe_p99_us": pipe[1].to_json(),
            });
            print_compared(line, sides.iter().map(|side| json!({
                "p50_us": side.figures.main.to_json(), "p99_us": side.figures.second.to_json(),
                "ratio": round_figure(side.figures.main.median() / pipe[0].median()),
                "host_cpu_us_per_message": side.figures.cpu.to_json(), "host_rss_kib": side.figures.rss.to_json(),
            })));
        }
        Ok(())
    }

    /// Measures whether a client that never reads slows a reader at full rate or costs the host
    /// memory.
    fn never_reading(&self) -> Result<()> {
        let traffic = Traffic::Burst {
            updates: self.plan.flood,
            size: UPDATE_BYTES,
            pace: Pace::Packed,
        };
        let mut sides = self.sides::<_, [Series; 2]>(&[false, true]);
        for round in 0..self.plan.repeats {
            print_progress(&format!("never_reading, round {}", round + 1));
            for side in compare::in_round(round, &mut sides) {
                let host = self.host(side.binary)?;
                let mut party = Party::gather(&host, &self.cwd(), 1)?;
                let silent =
                    if side.variant { Some(party.newcomer(&host, &self.cwd())?) } else { None };
                let before = host.memory()?;
                let seen = party.run(traffic)?;
                let [rate, growth] = &mut side.figures;
                growth.push(host.memory()?.peak.saturating_sub(before.now) as f64);
                rate.push(per_second(traffic, &seen));
                drop((party, silent));
                host.stop()?;
            }
        }
        let (alone, beside) = sides.split_at(self.binaries.len());
        let line =
            json!({"measure": "never_reading", "updates": traffic.updates(), "size": UPDATE_BYTES});
        print_compared(
            line,
            alone.iter().zip(beside).map(|(alone, beside)| {
                let ([rate_alone, growth_alone], [rate, growth]) = (&alone.figures, &beside.figures);
                json!({
                    "per_second_alone": rate_alone.to_json(), "per_second_beside": rate.to_json(),
                    "ratio": round_figure(rate.median() / rate_alone.median()),
                    "host_rss_growth_kib_alone": growth_alone.to_json(), "host_rss_growth_kib": growth.to_json(),
                })
            }),
        );
        Ok(())
    }

    fn over_pipe(&self, traffic: Traffic) -> Result<Seen> {
        let mut pipe = Pipe::start(&self.agent)?;
        peer::initialize_peer(&mut pipe)?;
        let session = peer::open_session(&mut pipe, &self.cwd())?;
        drive_connection(&mut pipe, &session, traffic).context("over the pipe")
    }

    fn over_host(
        &self,
        traffic: Traffic,
        side: &mut Side<'_, usize, HostFigures>,
    ) -> Result<Vec<Seen>> {
        let host = self.host(side.binary)?;
        let mut party = Party::gather(&host, &self.cwd(), side.variant)?;
        let before = host.cpu()?;
        let seen = party.run(traffic).with_context(|| format!("with {} clients", side.variant))?;
        let used = host.cpu()?.saturating_sub(before);
        side.figures.cpu.push(used.as_secs_f64() * 1e6 / traffic.updates() as f64);
        side.figures.rss.push(host.memory()?.now as f64);
        drop(party);
        host.stop()?;
        Ok(seen)
    }

    fn cwd(&self) -> String {
        self.dir.display().to_string()
    }
}

/// The figures of a host that streams to clients.
#[derive(Default)]
struct HostFigures {
    main: Series,
    second: Series,
    cpu: Series,
    rss: Series,
}

/// Returns the updates per second of the slowest reader.
fn per_second(traffic: Traffic, seen: &[Seen]) -> f64 {
    let slowest = seen.iter().map(|seen| seen.took).max().unwrap_or_default();
    traffic.updates() as f64 / slowest.as_secs_f64()
}

/// Returns p50 and p99 over all readers.
fn latency_percentiles(seen: &[Seen]) -> [f64; 2] {
    let mut all: Vec<f64> = seen.iter().flat_map(|seen| &seen.latencies).copied().collect();
    all.sort_by(f64::total_cmp);
    [percentile(&all, 0.5), percentile(&all, 0.99)]
}

fn print_measure(figures: Value) {
    print_line(&figures.to_string());
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_slowest_reader_counts() {
        let seen =
            [1, 4, 2].map(|secs| Seen { took: Duration::from_secs(secs), latencies: Vec::new() });
        assert_eq!(
            per_second(Traffic::Burst { updates: 400, size: 1, pace: Pace::Packed }, &seen),
            100.0
        );
    }

    #[test]
    fn misspelt_measure_is_refused_and_an_empty_list_means_all() {
        assert!(Plan::parse(&["brust".to_owned()]).is_err());
        assert_eq!(Plan::parse(&["--quick".to_owned()]).unwrap().measures, MEASURES);
        assert_eq!(
            Plan::parse(&["tick".to_owned(), "--quick".to_owned()]).unwrap().measures,
            ["tick"]
        );
    }

    #[test]
    fn other_binary_must_exist() {
        let parse = |args: &[&str]| {
            Plan::parse(&args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>())
        };
        assert!(parse(&["--against"]).is_err());
        assert!(parse(&["--against", "/nonexistent/wharf"]).is_err());
        assert_eq!(parse(&["--against", "/", "tick"]).unwrap().against, Some(PathBuf::from("/")));
    }

    #[test]
    fn build_is_measured_only_if_it_is_named() {
        assert!(!Plan::parse(&[]).unwrap().measures_build);
        let plan = Plan::parse(&["build".to_owned()]).unwrap();
        assert!(plan.measures_build && plan.measures.is_empty());
    }
}
