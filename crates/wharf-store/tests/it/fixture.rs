//! Logs of every released format can be read. The fixtures are never edited.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use wharf_store::conformance::read_all;
use wharf_store::{Engine, LogId};

use crate::{body, engine};

fn fixture(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../fixtures/log/v{version}/store"))
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (from, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if from.is_dir() {
            copy(&from, &to)
        } else {
            fs::write(&to, fs::read(&from).unwrap()).unwrap()
        }
    }
}

#[test]
fn a_log_of_format_1_loads() {
    let dir = TempDir::new().unwrap();
    copy(&fixture(1), dir.path());
    let engine = engine(dir.path(), 64 << 20);
    let id = LogId::new("demo", "sess_00000000000000000000000001").unwrap();
    assert!(engine.list().unwrap().iter().map(|stat| &stat.id).eq([&id]));
    let log = engine.open(&id).unwrap();
    assert_eq!((log.head().seq, log.head().epoch, log.mended().torn_bytes), (60, 3, 0));
    for (seq, record) in (1..).zip(read_all(&*log, 1, 1 << 20)) {
        let epoch = if seq <= 20 {
            1
        } else if seq <= 50 {
            2
        } else {
            3
        };
        assert_eq!((record.seq, record.epoch, record.body), (seq, epoch, body(seq)));
    }
    assert_eq!(log.append(3, 60, &[body(61)]).unwrap().seq, 61);
}
