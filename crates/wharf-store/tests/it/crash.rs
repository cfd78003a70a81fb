//! A writer that is killed at random points loses no acknowledged record.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;

use bytes::Bytes;
use tempfile::TempDir;
use wharf_store::conformance::{read_all, sync_and_wait};
use wharf_store::{Engine, FileLease, Lease};

use crate::{Dice, body, engine, files, id, torn_files};

const CHILD: &str = "WHARF_STORE_CRASH_DIR";
const ROUNDS: u64 = 60;
/// The segment size: small enough that most rounds are killed in or near the beginning of a
/// segment.
const SEGMENT: u64 = 48 << 10;

/// Runs in the killed process; not a test of its own.
#[test]
fn crash_writer_child() {
    let Ok(root) = std::env::var(CHILD) else { return };
    let root = Path::new(&root);
    let lease = FileLease::acquire(root).unwrap();
    let engine = engine(root, SEGMENT);
    let log = engine.open(&id()).or_else(|_| engine.create(&id())).unwrap();
    let mut out = std::io::stdout();
    loop {
        let seq = log.head().seq;
        let batch: Vec<Bytes> = (seq + 1..=seq + 1 + seq % 4).map(body).collect();
        let head = log.append(lease.epoch(), seq, &batch).unwrap();
        if head.seq.is_multiple_of(64) {
            assert!(sync_and_wait(&*log).unwrap() >= head.seq);
        }
        out.write_all(format!("ack {}\n", head.seq).as_bytes()).unwrap();
    }
}

#[test]
fn a_killed_writer_loses_nothing_it_acknowledged() {
    let mut dice = Dice::new();
    let dir = TempDir::new().unwrap();
    let root = dir.path();
    let mut torn = 0;
    let mut before = 0;
    for round in 1..=ROUNDS {
        let acked = kill_after(root, 1 + dice.below(400)).max(before);
        if round.is_multiple_of(3) {
            tear(root, &mut dice);
        }

        let engine = engine(root, SEGMENT);
        let log = engine.open(&id()).unwrap();
        // A kill can also interrupt a write by itself, between two pages.
        assert!(log.mended().torn_bytes > 0 || !round.is_multiple_of(3), "round {round}");
        torn += usize::from(log.mended().torn_bytes > 0);
        assert_eq!(torn_files(root).len(), torn, "round {round}: each torn end is kept");
        let head = log.head();
        assert!(head.seq >= acked, "round {round}: acknowledged {acked}, found {}", head.seq);
        let records = read_all(&*log, 1, 256 << 10);
        assert_eq!(records.len() as u64, head.seq, "round {round}");
        for (seq, record) in (1..).zip(&records) {
            assert_eq!((record.seq, &record.body), (seq, &body(seq)), "round {round}");
            assert!(record.epoch <= round, "round {round}");
        }
        assert!(records.is_sorted_by_key(|record| record.epoch));
        before = head.seq;
    }
    assert!(files(root, ".log").len() > 10, "segments were rolled");
}

/// Runs the writer until it has acknowledged `times` batches, kills it, and returns the last
/// acknowledged seq.
fn kill_after(root: &Path, times: u64) -> u64 {
    let mut child = crate::command("exec \"$0\" --exact crash::crash_writer_child --nocapture")
        .env(CHILD, root)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let ack = |line: String| line.split_once("ack ").and_then(|(_, seq)| seq.parse::<u64>().ok());
    let mut acked = 0;
    for _ in 0..times {
        acked = lines.by_ref().find_map(ack).unwrap();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // Lines that it wrote into the pipe before it died are acknowledgements too; the last line may
    // be incomplete.
    let rest: Vec<String> = lines.collect();
    let whole = rest.len().saturating_sub(1);
    rest.into_iter().take(whole).filter_map(ack).fold(acked, u64::max)
}

/// Appends the beginning of one more batch, as an interrupted write would.
fn tear(root: &Path, dice: &mut Dice) {
    let scratch = TempDir::new().unwrap();
    crate::write_log(scratch.path(), 64 << 20, 4);
    let whole = std::fs::read(&files(scratch.path(), ".log")[0]).unwrap();
    let start = whole.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    let first_end = start + whole[start..].iter().position(|&byte| byte == b'\n').unwrap();
    let end = start + 1 + dice.below((first_end - start - 1) as u64) as usize;
    let mut file = OpenOptions::new()
        .append(true)
        .open(files(root, ".log").last().unwrap())
        .unwrap();
    file.write_all(&whole[start..end]).unwrap();
}
