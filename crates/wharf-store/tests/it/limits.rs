//! A full disk and unusable files: a clear error, and never a corrupted log.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use bytes::Bytes;
use tempfile::TempDir;
use wharf_store::conformance::{read_all, sync_and_wait};
use wharf_store::{AppendError, Engine, StoreError};

use crate::{SMALL, body, engine, files, id, log_dir, write_log};

const CHILD: &str = "WHARF_STORE_FULL_DIR";

/// Runs in a process with a file size limit, which a writer cannot tell from a full disk; not a
/// test of its own.
#[test]
fn full_child() {
    let Ok(root) = std::env::var(CHILD) else { return };
    let root = Path::new(&root);
    let engine = engine(root, 64 << 20);
    let log = engine.create(&id()).unwrap();
    let big = |seq: u64| Bytes::from(vec![b'a' + (seq % 26) as u8; 3000]);
    let mut head = log.head();
    let refusal = loop {
        match log.append(1, head.seq, &[big(head.seq + 1), big(head.seq + 2)]) {
            Ok(next) => head = next,
            Err(refusal) => break refusal,
        }
    };
    assert!(matches!(&refusal, AppendError::Full(full) if *full == id()), "{refusal}");
    let size = || files(root, ".log")[0].metadata().unwrap().len();
    assert!(head.seq > 2 && size() == head.bytes, "nothing of the batch is left");
    assert!(
        matches!(log.append(1, head.seq, &[big(1), big(2)]), Err(AppendError::Full(_))),
        "still full"
    );
    assert_eq!(log.head(), head);
    assert_eq!(sync_and_wait(&*log).unwrap(), head.seq);
    assert_eq!(read_all(&*log, 1, 1 << 20).len() as u64, head.seq);
    // A record that fits is still written.
    let head = log.append(1, head.seq, &[Bytes::from_static(b"small")]).unwrap();
    drop((log, engine));
    let log = super::engine(root, 64 << 20).open(&id()).unwrap();
    assert_eq!((log.head(), log.mended().torn_bytes), (head, 0));
    let records = read_all(&*log, 1, 1 << 20);
    let (last, before) = records.split_last().unwrap();
    assert_eq!(last.body, "small");
    assert!(before.iter().all(|record| record.body == big(record.seq)));
}

#[test]
fn a_full_disk_refuses_whole_batches_and_corrupts_nothing() {
    let dir = TempDir::new().unwrap();
    // The limit is 100 blocks of 512 or 1024 bytes. The signal of the limit is ignored, also by the
    // executed program.
    let script = "trap '' XFSZ; ulimit -f 100; exec \"$0\" --exact limits::full_child --nocapture";
    let output = crate::command(script).env(CHILD, dir.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    assert!(files(dir.path(), ".log")[0].metadata().unwrap().len() > 40_000, "it did fill up");
}

#[test]
fn no_space_for_the_next_segment_leaves_the_log_as_it_was() {
    let dir = TempDir::new().unwrap();
    let engine = engine(dir.path(), SMALL);
    let log = engine.create(&id()).unwrap();
    let mut head = log.head();
    while head.bytes < SMALL {
        head = log.append(1, head.seq, &[body(head.seq + 1)]).unwrap();
    }
    // A device that is always full is put in the place of the next segment.
    let next = log_dir(dir.path()).join(format!("{:020}.log", head.seq + 1));
    symlink("/dev/full", &next).unwrap();
    assert!(matches!(log.append(1, head.seq, &[body(head.seq + 1)]), Err(AppendError::Full(_))));
    assert_eq!(log.head(), head);
    assert!(!next.exists() && !next.is_symlink(), "nothing of it is left");
    let after = log.append(1, head.seq, &[body(head.seq + 1)]).unwrap();
    assert_eq!(after.seq, head.seq + 1);
    assert_eq!(read_all(&*log, 1, 1 << 20).len() as u64, after.seq);
    assert_eq!(engine.list().unwrap()[0].bytes, after.bytes);
}

#[test]
fn failed_sync_is_reported_and_closes_the_log_for_writing() {
    let dir = TempDir::new().unwrap();
    let engine = engine(dir.path(), SMALL);
    let log = engine.create(&id()).unwrap();
    let mut head = log.head();
    while head.bytes < SMALL {
        head = log.append(1, head.seq, &[body(head.seq + 1)]).unwrap();
    }
    // A device that accepts writes and cannot be synced is put in the place of the next segment.
    let next = log_dir(dir.path()).join(format!("{:020}.log", head.seq + 1));
    symlink("/dev/null", &next).unwrap();
    let lost = log.append(1, head.seq, &[body(head.seq + 1)]).unwrap();
    let error = sync_and_wait(&*log).unwrap_err().to_string();
    assert!(error.contains(next.to_str().unwrap()), "{error}");
    for refusal in [
        log.append(1, lost.seq, &[body(1)]).unwrap_err().to_string(),
        sync_and_wait(&*log).unwrap_err().to_string(),
    ] {
        assert!(
            refusal.contains("until it is opened again") && refusal.contains(&error),
            "{refusal}"
        );
    }
    assert_eq!(log.head(), lost);

    drop((log, engine));
    fs::remove_file(&next).unwrap();
    let log = super::engine(dir.path(), SMALL).open(&id()).unwrap();
    assert_eq!(log.head().seq, head.seq);
    log.append(2, head.seq, &[body(head.seq + 1)]).unwrap();
    assert_eq!(sync_and_wait(&*log).unwrap(), head.seq + 1);
}

#[test]
fn log_that_cannot_be_opened_is_named_and_left_alone() {
    let dir = TempDir::new().unwrap();
    write_log(dir.path(), SMALL, 60);
    let segments = files(dir.path(), ".log");
    let (first, last) = (&segments[0], segments.last().unwrap());
    let named = |error: StoreError, path: &Path| {
        assert!(matches!(error, StoreError::Io { .. }), "{error:?}");
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    };

    // A directory in the place of a file is unreadable for every user, root included.
    let kept = first.with_extension("kept");
    fs::rename(first, &kept).unwrap();
    fs::create_dir(first).unwrap();
    let log = engine(dir.path(), SMALL).open(&id()).unwrap();
    named(log.read(1, 1 << 20).unwrap_err(), first);
    let second: u64 = segments[1].file_stem().unwrap().to_str().unwrap().parse().unwrap();
    assert_eq!(read_all(&*log, second, 1 << 20).len() as u64, 61 - second, "the rest can be read");
    assert_eq!(log.append(100, 60, &[body(61)]).unwrap().seq, 61, "and it goes on");
    drop(log);
    fs::remove_dir(first).unwrap();
    fs::rename(&kept, first).unwrap();

    fs::rename(last, &kept).unwrap();
    fs::create_dir(last).unwrap();
    let engine_now = engine(dir.path(), SMALL);
    named(engine_now.open(&id()).unwrap_err(), last);
    assert_eq!(engine_now.list().unwrap().len(), 1, "it is still listed");
    fs::remove_dir(last).unwrap();
    fs::rename(&kept, last).unwrap();

    let segments_dir = log_dir(dir.path());
    let aside = segments_dir.with_file_name("aside");
    fs::rename(&segments_dir, &aside).unwrap();
    fs::write(&segments_dir, "a file").unwrap();
    named(engine_now.open(&id()).unwrap_err(), &segments_dir);
    fs::remove_file(&segments_dir).unwrap();
    fs::create_dir(&segments_dir).unwrap();
    named(engine_now.open(&id()).unwrap_err(), &segments_dir);
    fs::remove_dir(&segments_dir).unwrap();
    fs::rename(&aside, &segments_dir).unwrap();
    assert_eq!(
        read_all(&*engine_now.open(&id()).unwrap(), 1, 1 << 20).len(),
        61,
        "nothing was lost meanwhile"
    );
}

#[test]
fn a_state_directory_that_cannot_be_written_is_named() {
    let dir = TempDir::new().unwrap();
    let root = dir.path().join("state");
    fs::write(&root, "a file").unwrap();
    let error = wharf_store::FileEngine::open(wharf_store::FileOptions::new(&root)).unwrap_err();
    assert!(error.to_string().contains(root.to_str().unwrap()), "{error}");

    // Root may write all the same; other users get an error. In both cases nothing is half-created.
    let locked = dir.path().join("locked");
    let engine = engine(&locked, SMALL);
    let workspaces = locked.join("workspaces");
    fs::set_permissions(&workspaces, fs::Permissions::from_mode(0o500)).unwrap();
    let made = engine.create(&id());
    fs::set_permissions(&workspaces, fs::Permissions::from_mode(0o700)).unwrap();
    match made {
        Ok(_) => assert_eq!(engine.list().unwrap().len(), 1),
        Err(error) => {
            assert!(error.to_string().contains(workspaces.to_str().unwrap()), "{error}");
            assert_eq!(engine.list().unwrap(), []);
        }
    }
}
