//! Tests of the store through its public interface: the contract, crashes, damage, full disks,
//! leases, the index, and old logs.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod crash;
mod damage;
mod fixture;
mod index;
mod lease;
mod limits;
mod memory;
mod reserve;
mod segments;
mod torn;
mod transcript;
mod word_index;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use bytes::Bytes;
use tempfile::TempDir;
use wharf_store::{Engine, FileEngine, FileOptions, LogId, MemoryEngine, conformance};

/// A segment size that a few records fill.
const SMALL: u64 = 4 << 10;

#[test]
fn the_file_engine_keeps_the_contract() {
    let dirs = std::cell::RefCell::new(Vec::new());
    conformance::check_engine(&|| {
        let dir = TempDir::new().unwrap();
        let engine = engine(dir.path(), 64 << 20);
        dirs.borrow_mut().push(dir);
        engine
    });
}

#[test]
fn the_file_engine_keeps_the_contract_across_many_segments() {
    let dirs = std::cell::RefCell::new(Vec::new());
    conformance::check_engine(&|| {
        let dir = TempDir::new().unwrap();
        let engine = engine(dir.path(), SMALL);
        dirs.borrow_mut().push(dir);
        engine
    });
}

#[test]
fn the_memory_engine_keeps_the_contract() {
    conformance::check_engine(&|| MemoryEngine::new(Default::default()));
}

fn engine(root: &Path, segment_bytes: u64) -> Arc<FileEngine> {
    FileEngine::open(FileOptions { segment_bytes, ..FileOptions::new(root) }).unwrap()
}

fn id() -> LogId {
    LogId::new("bucket", "sess").unwrap()
}

fn log_dir(root: &Path) -> PathBuf {
    root.join("workspaces/bucket/sessions/sess/log")
}

/// Returns a directory in memory where the system has one, for thousands of syncs or files.
fn quick_dir() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap()
}

/// Returns the files of the log with this suffix, in order.
fn files(root: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(log_dir(root))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_str().unwrap().ends_with(ending))
        .collect();
    found.sort();
    found
}

fn torn_files(root: &Path) -> Vec<PathBuf> {
    let mut found = files(root, "");
    found.retain(|path| path.file_name().unwrap().to_str().unwrap().starts_with("torn-"));
    found
}

/// Returns a body that depends on its seq and has at least `0..300` bytes.
fn body(seq: u64) -> Bytes {
    Bytes::from(format!("{{\"n\":{seq},\"pad\":\"{}\"}}", "é".repeat((seq * 31 % 97) as usize)))
}

/// Writes a log of `count` records with [`body`]s and closes it.
fn write_log(root: &Path, segment_bytes: u64, count: u64) {
    let log = engine(root, segment_bytes).create(&id()).unwrap();
    for seq in 1..=count {
        log.append(1 + seq / 10, seq - 1, &[body(seq)]).unwrap();
    }
}

/// Returns a shell command that runs this test binary, as `$0`, in a process of its own.
#[expect(clippy::disallowed_methods, reason = "the one place where these tests start a process")]
fn command(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(std::env::current_exe().unwrap());
    command
}

/// A random number generator; the random seed is printed so that a failure can be repeated.
struct Dice(u64);

impl Dice {
    fn new() -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let seed = std::env::var("WHARF_WALK_SEED")
            .map_or(now.as_nanos() as u64, |seed| seed.parse().unwrap());
        let mut err = std::io::stderr();
        std::io::Write::write_all(&mut err, format!("WHARF_WALK_SEED={seed}\n").as_bytes())
            .unwrap();
        Self(seed | 1)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}
