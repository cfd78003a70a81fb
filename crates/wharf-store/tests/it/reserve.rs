//! A disk that is really full: required records use the reserve, others are refused, and appends go
//! on when there is space.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tempfile::TempDir;
use wharf_store::conformance::{read_all, sync_and_wait};
use wharf_store::{
    AppendError, Engine, FileEngine, FileOptions, Hostility, Log, LogId, MemoryEngine, StoreError,
};

use crate::{body, id};

const CHILD: &str = "WHARF_STORE_SMALL_DISK";
const RESERVE: u64 = 1 << 20;

fn engine(root: &Path) -> Arc<FileEngine> {
    FileEngine::open(FileOptions { reserve: RESERVE, ..FileOptions::new(root) }).unwrap()
}

/// Fills every free byte of the disk.
fn fill_up(root: &Path) -> fs::File {
    let mut filler = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(root.join("filler"))
        .unwrap();
    for size in [64 << 10, 4 << 10, 1] {
        while filler.write_all(&vec![0; size]).is_ok() {}
    }
    filler
}

/// Retries until there is space again; the engine itself checks only at intervals.
fn append_soon(log: &dyn Log, bodies: &[Bytes]) -> u64 {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        match log.append(1, log.head().seq, bodies) {
            Ok(head) => return head.seq,
            Err(AppendError::Full(_)) if Instant::now() < deadline => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Runs on a disk of 6 MiB; not a test of its own.
#[test]
fn small_disk_child() {
    let Ok(root) = std::env::var(CHILD) else { return };
    let root = Path::new(&root);
    let engine = engine(root);
    assert_eq!(fs::metadata(root.join("reserve")).unwrap().len(), RESERVE);
    let log = engine.create(&id()).unwrap();
    log.append(1, 0, &[body(1)]).unwrap();
    let filler = fill_up(root);

    // A page is free behind the last record; this exceeds it.
    let big = Bytes::from(vec![b'x'; 10_000]);
    assert!(matches!(log.append(1, 1, std::slice::from_ref(&big)), Err(AppendError::Full(_))));
    assert!(matches!(
        log.append_from_reserve(1, 1, std::slice::from_ref(&big)).map(|head| head.seq),
        Ok(2)
    ));
    assert_eq!(sync_and_wait(&*log).unwrap(), 2, "what was written can be synced");
    assert!(
        matches!(log.append(1, 2, &[body(3)]), Err(AppendError::Full(_))),
        "what can wait waits, however small"
    );
    let other = LogId::new("bucket", "other").unwrap();
    match engine.create(&other) {
        Err(StoreError::Io { source, .. }) => assert_eq!(source.kind(), ErrorKind::StorageFull),
        made => panic!("{made:?}"),
    }
    assert!(!root.join("workspaces/bucket/sessions/other").exists(), "nothing half made");

    // This continues until the reserve is used up. One batch may not take all of it.
    let huge = Bytes::from(vec![b'x'; (RESERVE / 2) as usize]);
    assert!(matches!(log.append_from_reserve(1, 2, &[huge]), Err(AppendError::Full(_))));
    while log.append_from_reserve(1, log.head().seq, std::slice::from_ref(&big)).is_ok() {}
    assert!(
        log.head().bytes > RESERVE / 2 && fs::metadata(root.join("reserve")).unwrap().len() == 0
    );
    let written = log.head().seq;
    assert_eq!(read_all(&*log, 1, 1 << 20).len() as u64, written);

    // A host that starts now finds no space for its reserve, and creates it when there is space.
    drop((log, engine));
    let engine = self::engine(root);
    let log = engine.open(&id()).unwrap();
    assert_eq!(log.head().seq, written);
    assert!(matches!(log.append(1, written, &[body(1)]), Err(AppendError::Full(_))));
    filler.set_len(0).unwrap();
    assert_eq!(append_soon(&*log, &[big]), written + 1);
    assert_eq!(fs::metadata(root.join("reserve")).unwrap().len(), RESERVE, "and it is whole again");
    assert_eq!(read_all(&*log, 1, 1 << 20).len() as u64, written + 1);
}

#[test]
fn reserve_on_a_full_disk_accepts_required_records_only() {
    let dir = TempDir::new().unwrap();
    // The disk is mounted for this process only, in a user namespace where that is needed and
    // allowed.
    let mounted =
        "mount -t tmpfs -o size=6m tmpfs \"$WHARF_STORE_SMALL_DISK\" || { echo no-mount; exit 0; }";
    let inner = format!("{mounted}; exec \"$0\" --exact reserve::small_disk_child --nocapture");
    let script = format!("exec unshare -rm sh -c '{inner}' \"$0\" || echo no-mount");
    let output = crate::command(&script).env(CHILD, dir.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    if text.contains("no-mount") || text.contains("unshare") {
        let told = format!(
            "SKIPPED: no small disk can be mounted here; only the hostile engine was tried.\n{text}"
        );
        std::io::stderr().write_all(told.as_bytes()).unwrap();
        return;
    }
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
fn the_hostile_engine_has_a_reserve_too() {
    let hostility = Hostility::default();
    let log = MemoryEngine::new(hostility.clone()).create(&id()).unwrap();
    hostility.fill_appends(usize::MAX);
    hostility.keep_reserve(2);
    assert!(matches!(log.append(1, 0, &[body(1)]), Err(AppendError::Full(_))));
    assert_eq!(log.append_from_reserve(1, 0, &[body(1)]).unwrap().seq, 1);
    assert_eq!(log.append_from_reserve(1, 1, &[body(2)]).unwrap().seq, 2);
    assert!(matches!(log.append_from_reserve(1, 2, &[body(3)]), Err(AppendError::Full(_))));
    hostility.fill_appends(0);
    assert_eq!(log.append(1, 2, &[body(3)]).unwrap().seq, 3);
}

#[test]
fn store_without_a_reserve_keeps_no_space_back() {
    let dir = TempDir::new().unwrap();
    drop(engine(dir.path()));
    let engine = crate::engine(dir.path(), 64 << 20);
    assert!(!dir.path().join("reserve").exists());
    let log = engine.create(&id()).unwrap();
    assert_eq!(log.append_from_reserve(1, 0, &[body(1)]).unwrap().seq, 1);
    assert_eq!(log.append(1, 1, &[body(2)]).unwrap().seq, 2);
}
