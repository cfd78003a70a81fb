//! Segments, their indexes, and the layout of the directory.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tempfile::TempDir;
use wharf_store::conformance::{read_all, sync_and_wait};
use wharf_store::{Engine, FileEngine, FileOptions, LogId};

use crate::{SMALL, body, engine, files, id, log_dir, quick_dir, write_log};

#[test]
fn a_long_log_is_many_segments_with_an_index_each() {
    let dir = TempDir::new().unwrap();
    write_log(dir.path(), SMALL, 300);
    let (logs, indexes) = (files(dir.path(), ".log"), files(dir.path(), ".idx"));
    assert!(logs.len() > 5);
    assert_eq!(indexes.len(), logs.len() - 1, "every segment but the active one");
    assert!(logs[0].ends_with("00000000000000000001.log"));
    let engine = engine(dir.path(), SMALL);
    let log = engine.open(&id()).unwrap();
    assert_eq!(log.head().seq, 300);
    let size: u64 = logs.iter().map(|path| path.metadata().unwrap().len()).sum();
    assert_eq!((log.head().bytes, engine.list().unwrap()[0].bytes), (size, size));
    for from in 1..=300 {
        let page = log.read(from, 0).unwrap();
        assert_eq!(
            (page.records.len(), page.records[0].seq, &page.records[0].body),
            (1, from, &body(from))
        );
    }
}

/// Damages an index, given its content.
type Spoil<'a> = &'a dyn Fn(&Path, &[u8]);

#[test]
fn an_index_that_is_missing_damaged_or_wrong_is_made_again() {
    let dir = TempDir::new().unwrap();
    let log = engine(dir.path(), 200 << 10).create(&id()).unwrap();
    let filler = |seq: u64| Bytes::from(vec![b'a' + (seq % 26) as u8; 900]);
    for batch in 0..50 {
        let bodies: Vec<Bytes> = (batch * 20 + 1..=batch * 20 + 20).map(filler).collect();
        log.append(1, batch * 20, &bodies).unwrap();
    }
    drop(log);
    let indexes = files(dir.path(), ".idx");
    assert!(indexes.len() >= 3);
    let good: Vec<Vec<u8>> = indexes.iter().map(|path| fs::read(path).unwrap()).collect();
    let spoil: [Spoil<'_>; 4] = [
        &|path, _| fs::remove_file(path).unwrap(),
        &|path, good| fs::write(path, &good[..good.len() / 2]).unwrap(),
        &|path, _| fs::write(path, b"").unwrap(),
        // This index is intact but of another file: every offset is in the middle of a line.
        &|path, good| {
            let text = String::from_utf8(good[9..good.len() - 1].to_vec()).unwrap();
            let shifted = text
                .replace("9]", "8]")
                .replace("7]", "6]")
                .replace("5]", "4]")
                .replace("3]", "2]");
            assert_ne!(shifted, text);
            fs::write(path, format!("{:08x} {shifted}\n", crc32fast::hash(shifted.as_bytes())))
                .unwrap();
        },
    ];
    for spoil in spoil {
        for (path, good) in indexes.iter().zip(&good) {
            spoil(path, good);
        }
        let log = engine(dir.path(), 200 << 10).open(&id()).unwrap();
        for from in (1..=1000).rev().step_by(3) {
            let page = log.read(from, 0).unwrap();
            assert_eq!(page.damage, []);
            assert_eq!((page.records[0].seq, &page.records[0].body), (from, &filler(from)));
        }
        for (path, good) in indexes.iter().zip(&good) {
            assert_eq!(&fs::read(path).unwrap(), good, "made again as it was");
        }
    }
}

#[test]
fn a_stale_index_of_the_last_segment_does_not_mislead() {
    let dir = TempDir::new().unwrap();
    write_log(dir.path(), SMALL, 100);
    // The last segment gets an index that covers more bytes than it has, or of another segment.
    let last = files(dir.path(), ".log").pop().unwrap();
    let first: u64 = last.file_stem().unwrap().to_str().unwrap().parse().unwrap();
    for (len, points) in [(1_u64 << 40, format!("[{first},46]")), (100, format!("[{first},47]"))] {
        let payload =
            format!("{{\"wharf_idx\":1,\"first\":{first},\"len\":{len},\"points\":[{points}]}}");
        let text = format!("{:08x} {payload}\n", crc32fast::hash(payload.as_bytes()));
        fs::write(last.with_extension("idx"), text).unwrap();
        let log = engine(dir.path(), SMALL).open(&id()).unwrap();
        assert_eq!((log.head().seq, log.mended().torn_bytes), (100, 0));
        assert_eq!(read_all(&*log, 1, 1 << 20).len(), 100);
        assert!(
            !last.with_extension("idx").exists(),
            "thrown away, so that it cannot fit later by accident"
        );
    }
}

#[test]
fn opening_a_long_segment_reads_only_its_end() {
    let dir = TempDir::new().unwrap();
    let options = FileOptions {
        sync_interval: Duration::ZERO,
        ..FileOptions::new(dir.path())
    };
    let engine_before = FileEngine::open(options).unwrap();
    let log = engine_before.create(&id()).unwrap();
    let big = Bytes::from(vec![b'x'; 100_000]);
    let bodies = vec![big; 100];
    log.append(1, 0, &bodies).unwrap();
    // The background sync stores an index of such a long segment.
    let idx = log_dir(dir.path()).join("00000000000000000001.idx");
    while !idx.exists() {
        thread::yield_now();
    }
    log.append(1, 100, &bodies[..50]).unwrap();
    drop((log, engine_before));

    let path = idx.with_extension("log");
    let mut bytes = fs::read(&path).unwrap();
    bytes[5_000_000] ^= 1;
    let torn = b"cut off".as_slice();
    bytes.extend_from_slice(torn);
    fs::write(&path, bytes).unwrap();
    let log = engine(dir.path(), 64 << 20).open(&id()).unwrap();
    assert_eq!((log.head().seq, log.mended().torn_bytes), (150, torn.len() as u64));
    let page = log.read(1, usize::MAX).unwrap();
    assert_eq!(
        (page.records.len(), page.damage.len()),
        (149, 1),
        "damage before it is found when it is read"
    );
    for from in [1, 51, 99, 100, 101, 149, 150] {
        let expected = if from == page.damage[0].first { from + 1 } else { from };
        assert_eq!(log.read(from, 0).unwrap().records[0].seq, expected);
    }
}

#[test]
fn files_and_directories_are_private_to_their_owner() {
    let dir = TempDir::new().unwrap();
    write_log(&dir.path().join("state"), SMALL, 100);
    let mut seen = 0;
    let mut open = vec![dir.path().join("state")];
    while let Some(path) = open.pop() {
        let metadata = path.metadata().unwrap();
        let expected = if metadata.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(metadata.permissions().mode() & 0o777, expected, "{}", path.display());
        if metadata.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        seen += 1;
    }
    assert!(seen > 10);
}

#[test]
fn records_are_lines_that_tools_can_read() {
    let dir = TempDir::new().unwrap();
    let log = engine(dir.path(), SMALL).create(&id()).unwrap();
    log.append(7, 0, &[Bytes::from_static(b"{\"kind\":\"x\"}")]).unwrap();
    let text = fs::read_to_string(&files(dir.path(), ".log")[0]).unwrap();
    let payloads: Vec<&str> = text.lines().map(|line| line.split_once(' ').unwrap().1).collect();
    assert_eq!(
        payloads,
        [r#"{"wharf_log":1,"first":1,"epoch":0}"#, r#"{"seq":1,"epoch":7,"event":{"kind":"x"}}"#]
    );
}

#[test]
fn leftovers_of_interrupted_work_are_swept() {
    let dir = TempDir::new().unwrap();
    write_log(dir.path(), SMALL, 10);
    let sessions = dir.path().join("workspaces/bucket/sessions");
    fs::create_dir_all(sessions.join(".trash-0-sess/log")).unwrap();
    fs::write(sessions.join(".trash-0-sess/log/00000000000000000001.log"), "x").unwrap();
    fs::create_dir_all(sessions.join("half/.log-new")).unwrap();
    let engine = engine(dir.path(), SMALL);
    assert_eq!(engine.list().unwrap().len(), 1);
    assert!(!sessions.join(".trash-0-sess").exists());
    let half = LogId::new("bucket", "half").unwrap();
    assert_eq!(engine.create(&half).unwrap().head().seq, 0);
    assert!(!sessions.join("half/.log-new").exists());
}

#[test]
fn files_beside_a_log_are_deleted_with_it() {
    let dir = TempDir::new().unwrap();
    write_log(dir.path(), SMALL, 10);
    let session = log_dir(dir.path()).parent().unwrap().to_owned();
    fs::write(session.join("launch.json"), "{}").unwrap();
    let engine = engine(dir.path(), SMALL);
    engine.remove(&id()).unwrap();
    assert_eq!(fs::read_dir(session.parent().unwrap()).unwrap().count(), 0);
}

#[test]
fn ten_thousand_logs_are_listed_quickly() {
    let dir = quick_dir();
    for nth in 0..10_000 {
        let log = dir
            .path()
            .join(format!("workspaces/bucket-{}/sessions/sess_{nth}/log", nth % 7));
        fs::create_dir_all(&log).unwrap();
        fs::write(log.join("00000000000000000001.log"), "").unwrap();
    }
    let engine = engine(dir.path(), SMALL);
    let start = Instant::now();
    assert_eq!(engine.list().unwrap().len(), 10_000);
    let took = start.elapsed();
    // Listing takes about 30 ms in a release build on a quiet machine; the bound only catches an
    // open or a read of each log.
    assert!(took.as_secs() < 20, "{took:?}");
}

#[test]
fn sync_threads_finish_what_was_asked_and_end_with_the_engine() {
    let dir = TempDir::new().unwrap();
    let engine = engine(dir.path(), SMALL);
    let log = engine.create(&id()).unwrap();
    log.append(1, 0, &[body(1)]).unwrap();
    let (send, done) = mpsc::sync_channel(10);
    for _ in 0..10 {
        let send = send.clone();
        log.sync(Box::new(move |result| {
            send.send((thread::current().name().map(str::to_owned), result.unwrap()))
                .unwrap()
        }));
    }
    drop(engine);
    let answers: Vec<_> = done.try_iter().collect();
    assert_eq!(answers.len(), 10, "dropping the engine waits for them");
    assert!(answers.iter().all(|answer| answer == &(Some("wharf-sync".to_owned()), 1)));
    log.append(1, 1, &[body(2)]).unwrap();
    assert_eq!(sync_and_wait(&*log).unwrap(), 2, "a handle that is left syncs by itself");
}

#[test]
fn an_engine_can_be_dropped_by_a_callback() {
    let dir = TempDir::new().unwrap();
    let engine = engine(dir.path(), SMALL);
    let log = engine.create(&id()).unwrap();
    let (send, done) = mpsc::sync_channel(10);
    log.sync(Box::new(move |_| {
        drop(engine);
        send.send(()).unwrap();
    }));
    done.recv().unwrap();
}

#[test]
fn panicking_callback_stops_no_other_sync() {
    let dir = TempDir::new().unwrap();
    let log = engine(dir.path(), SMALL);
    let log = (log.create(&id()).unwrap(), log);
    log.0.sync(Box::new(|_| panic!("as the test asks")));
    assert_eq!(sync_and_wait(&*log.0).unwrap(), 0);
}
