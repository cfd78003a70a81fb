//! Measures the start of a host and its memory with thousands of ended sessions on disk, with its index and without.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::Bench;
use super::compare::{Binary, in_round, print_compared};
use super::host::Host;
use super::stats::Series;
use crate::output::print_progress;
use crate::process::{command, run_checked};

/// The upper bound of a start.
const TARGET_MS: f64 = 300.0;
const TARGET_RSS_KIB: f64 = 60.0 * 1024.0;

impl Bench {
    pub(super) fn restart(&self) -> Result<()> {
        let mut sides = self.sides::<_, [Figures; 2]>(&[()]);
        for side in &sides {
            self.make_cold_sessions(side.binary)?;
            // The first host reads all sessions and leaves an index.
            self.once(side.binary, &mut Figures::default())?;
        }
        for round in 0..self.plan.repeats {
            print_progress(&format!("restart, round {}", round + 1));
            for side in in_round(round, &mut sides) {
                let [indexed, bare] = &mut side.figures;
                self.once(side.binary, indexed)?;
                for file in ["index.db", "index.db-wal", "index.db-shm"] {
                    let _ = fs::remove_file(self.cold_dir(side.binary).join("state").join(file));
                }
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
        for binary in &self.binaries {
            let dir = self.cold_dir(binary);
            fs::remove_dir_all(&dir).with_context(|| format!("deleting {}", dir.display()))?;
        }
        Ok(())
    }

    fn cold_dir(&self, binary: &Binary) -> PathBuf {
        self.dir.join(format!("cold-{}", binary.name))
    }

    /// Makes the ended sessions with the program beside the binary, or with this repo's if there is none.
    fn make_cold_sessions(&self, binary: &Binary) -> Result<()> {
        let dir = self.cold_dir(binary);
        fs::create_dir_all(&dir).with_context(|| format!("making {}", dir.display()))?;
        print_progress(&format!("restart: making {} sessions", self.plan.cold));
        let mut maker = binary.wharf.with_file_name("wharf-cold-sessions");
        if !maker.exists() {
            maker = self.agent.with_file_name("wharf-cold-sessions");
        }
        run_checked(command(&maker).arg(dir.join("state")).arg(self.plan.cold.to_string()))
    }

    /// Starts a host, measures it and stops it.
    fn once(&self, binary: &Binary, figures: &mut Figures) -> Result<()> {
        let began = Instant::now();
        let host = Host::start(&binary.wharf, &self.agent, &self.cold_dir(binary))?;
        fetch_json(&host, "/readyz")?;
        figures.ready.push(began.elapsed().as_secs_f64() * 1e3);
        let memory = host.memory()?;
        figures.now.push(memory.now as f64);
        figures.peak.push(memory.peak as f64);
        let (began, mut path, mut listed, mut pages) = (Instant::now(), PAGE_PATH.to_owned(), 0, 0_u32);
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

/// Returns the JSON at a path.
fn get_json(host: &Host, path: &str) -> Result<Value> {
    let body = fetch_json(host, path)?;
    serde_json::from_str(&body).with_context(|| format!("reading {body:?}"))
}

fn fetch_json(host: &Host, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(&host.authority).context("connecting to the host")?;
    let (authority, token) = (&host.authority, &host.token);
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {authority}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no body")?;
    ensure!(head.starts_with("HTTP/1.1 200"), "{path}: {head}");
    Ok(body.to_owned())
}
