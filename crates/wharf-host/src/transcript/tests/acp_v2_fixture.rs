//! A stored log of an agent that speaks ACP v2, and the rows that it makes. The log is never
//! edited; the rows change with the fold.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;
use wharf_core::{Epoch, EventId, Seq, decode};
use wharf_store::conformance::read_all;
use wharf_store::{Engine, FileEngine, FileOptions, LogId};
use wharf_transcript::{Fold, MemoryRows};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/log/v1").join(name)
}

#[test]
fn stored_log_of_acp_v2_makes_the_expected_rows() {
    let dir = TempDir::new().unwrap();
    let id = LogId::new("demo", "sess_00000000000000000000000002").unwrap();
    let log = Path::new("workspaces/demo/sessions/sess_00000000000000000000000002/log");
    std::fs::create_dir_all(dir.path().join(log)).unwrap();
    let segment = log.join("00000000000000000001.log");
    std::fs::copy(fixture("acp-v2").join(&segment), dir.path().join(&segment)).unwrap();
    let engine = FileEngine::open(FileOptions::new(dir.path())).unwrap();
    let log = engine.open(&id).unwrap();
    let (mut fold, mut rows, mut changes) = (Fold::default(), MemoryRows::default(), Vec::new());
    // The summaries of rows that later events change.
    let mut passing = Vec::new();
    for record in read_all(&*log, 1, 1 << 20) {
        let (at, event) = decode(&record.body).unwrap();
        let position = EventId { epoch: Epoch(record.epoch), seq: Seq(record.seq) };
        fold.apply(position, at, &event, &mut rows, &mut changes);
        if [8, 18].contains(&record.seq) {
            passing.extend(rows.rows().last().map(|row| row.summary.clone()));
        }
    }
    assert_eq!(passing, ["I will look. One moment.", "cargo test --test slow (paused)"]);
    let expected: Value =
        serde_json::from_slice(&std::fs::read(fixture("acp-v2-rows.json")).unwrap()).unwrap();
    let found = serde_json::to_value(rows.rows()).unwrap();
    let (expected, found) = (expected.as_array().unwrap(), found.as_array().unwrap());
    for (expected, found) in expected.iter().zip(found) {
        assert_eq!(found, expected, "row {}", found["id"]);
    }
    assert_eq!(found.len(), expected.len());
}
