//! A bad byte in the middle is found and reported, and the rest stays readable.

use std::fs;
use std::path::Path;

use bytes::Bytes;
use tempfile::TempDir;
use wharf_store::conformance::read_all;
use wharf_store::{DamagedRange, Engine, Log, LogRecord, StoreError};

use crate::{SMALL, body, engine, files, id, quick_dir, write_log};

/// Reads all records and all damage in pages of `max_bytes`.
fn read_damaged(log: &dyn Log, max_bytes: usize) -> (Vec<LogRecord>, Vec<DamagedRange>) {
    let (mut records, mut damage) = (Vec::new(), Vec::new());
    let mut next = 1;
    while next <= log.head().seq {
        let page = log.read(next, max_bytes).unwrap();
        let last_record = page.records.last().map_or(0, |record: &LogRecord| record.seq);
        let last_lost = page.damage.last().map_or(0, |damage| damage.last);
        assert!(last_record.max(last_lost) >= next, "a page goes on");
        next = last_record.max(last_lost) + 1;
        records.extend(page.records);
        damage.extend(page.damage);
    }
    (records, damage)
}

/// Checks that the records and the lost ranges together are the whole log, in order and once each.
fn check(log: &dyn Log, all: &[LogRecord], what: &str) -> Vec<DamagedRange> {
    let (records, damage) = read_damaged(log, 1 << 20);
    assert_eq!(
        (&records, &damage),
        (&read_damaged(log, 200).0, &read_damaged(log, 200).1),
        "{what}: pages agree"
    );
    for record in &records {
        assert_eq!(record, &all[record.seq as usize - 1], "{what}: never wrong data");
    }
    let mut seqs: Vec<u64> = records.iter().map(|record| record.seq).collect();
    seqs.extend(damage.iter().flat_map(|damage| damage.first..=damage.last));
    seqs.sort_unstable();
    assert_eq!(
        seqs,
        (1..=log.head().seq).collect::<Vec<_>>(),
        "{what}: every seq is there or named"
    );
    damage
}

#[test]
fn a_flipped_bit_anywhere_is_named_and_costs_only_its_line() {
    let dir = quick_dir();
    let log = engine(dir.path(), 64 << 20).create(&id()).unwrap();
    for seq in 0..6 {
        log.append(1, seq, &[Bytes::from(format!("{{\"n\":{seq}}}"))]).unwrap();
    }
    let all = read_all(&*log, 1, 1 << 20);
    drop(log);
    let path = files(dir.path(), ".log").remove(0);
    let whole = fs::read(&path).unwrap();
    let header = memchr::memchr(b'\n', &whole).unwrap() + 1;
    let last_line = memchr::memrchr(b'\n', &whole[..whole.len() - 1]).unwrap() + 1;
    // The newline before the last line belongs to the line before it, but without it the last line
    // is incomplete.
    let tail = last_line - 1;

    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            fs::write(&path, &bytes).unwrap();
            let log = engine(dir.path(), 64 << 20).open(&id()).unwrap();
            let what = format!("bit {bit} of byte {at}");
            let damage = check(&*log, &all, &what);
            if at < header - 1 {
                assert_eq!(
                    (log.head().seq, &damage[..]),
                    (6, &[][..]),
                    "{what}: a header holds no record"
                );
            } else if at < tail {
                assert_eq!((log.head().seq, damage.len()), (6, 1), "{what}");
                assert!(damage[0].last - damage[0].first <= 1, "{what}: {damage:?}");
                assert!(damage[0].place.starts_with(path.to_str().unwrap()), "{what}");
                assert_eq!(log.mended().torn_bytes, 0, "{what}: damage is not a torn end");
            } else {
                assert!(log.mended().torn_bytes > 0, "{what}");
                assert_eq!(damage, [], "{what}");
                assert!((4..=5).contains(&log.head().seq), "{what}");
            }
        }
    }
}

#[test]
fn damage_across_segments_is_named() {
    let dir = TempDir::new().unwrap();
    write_log(dir.path(), SMALL, 150);
    let engine_before = engine(dir.path(), SMALL);
    let all = read_all(&*engine_before.open(&id()).unwrap(), 1, 1 << 20);
    drop(engine_before);
    let segments = files(dir.path(), ".log");
    assert!(segments.len() > 4);
    let first_of =
        |path: &Path| path.file_stem().unwrap().to_str().unwrap().parse::<u64>().unwrap();

    // The damage covers the end of one segment, the beginning of another and the whole of a third.
    let end = fs::read(&segments[0]).unwrap();
    fs::write(&segments[0], &end[..end.len() - 10]).unwrap();
    let mut start = fs::read(&segments[2]).unwrap();
    start[..300].fill(b'?');
    fs::write(&segments[2], &start).unwrap();
    fs::remove_file(&segments[3]).unwrap();

    let log = engine(dir.path(), SMALL).open(&id()).unwrap();
    assert_eq!((log.head().seq, log.mended().torn_bytes), (150, 0));
    let damage = check(&*log, &all, "three segments");
    assert_eq!(damage.len(), 3, "{damage:?}");
    assert_eq!(
        (damage[0].first, damage[0].last),
        (first_of(&segments[1]) - 1, first_of(&segments[1]) - 1)
    );
    assert_eq!(damage[1].first, first_of(&segments[2]));
    assert_eq!(
        (damage[2].first, damage[2].last),
        (first_of(&segments[3]), first_of(&segments[4]) - 1)
    );
    log.append(100, 150, &[body(151)]).unwrap();
}

#[test]
fn damaged_line_has_the_same_epoch_on_each_page() {
    let dir = TempDir::new().unwrap();
    let log = engine(dir.path(), SMALL).create(&id()).unwrap();
    let epoch_of = |seq: u64| 1 + seq / 7;
    for seq in 1..=150 {
        log.append(epoch_of(seq), seq - 1, &[Bytes::from(vec![b'x'; 100])]).unwrap();
    }
    drop(log);
    let segments = files(dir.path(), ".log");
    assert!(segments.len() > 4);
    for (nth, path) in segments.iter().enumerate() {
        let mut bytes = fs::read(path).unwrap();
        let starts = bytes
            .iter()
            .enumerate()
            .filter(|(_, byte)| **byte == b'\n')
            .map(|(at, _)| at + 1);
        let mut starts: Vec<usize> = starts.filter(|start| *start < bytes.len()).collect();
        // The first record of every second segment, every fifth one, and the last one.
        let last = starts.pop().unwrap();
        let damaged: Vec<usize> =
            starts.iter().copied().skip(nth % 2).step_by(5).chain([last]).collect();
        damaged.into_iter().for_each(|start| bytes[start] ^= 1);
        fs::write(path, bytes).unwrap();
    }
    for is_read_backwards in [false, true] {
        let log = engine(dir.path(), SMALL).open(&id()).unwrap();
        let whole = log.read(1, usize::MAX).unwrap();
        let before = |first: u64| whole.records.iter().rev().find(|record| record.seq < first);
        let expected = |range: &DamagedRange| before(range.first).map_or(0, |record| record.epoch);
        assert!(whole.damage.len() > 30);
        let mut starts: Vec<u64> = (1..=150).collect();
        if is_read_backwards {
            starts.reverse();
        }
        for from in starts {
            for max_bytes in [0, 500, usize::MAX] {
                for range in log.read(from, max_bytes).unwrap().damage {
                    assert_eq!(range.epoch, expected(&range), "{range:?} on the page from {from}");
                }
            }
        }
    }
}

#[test]
fn damage_where_the_index_points_is_read_past() {
    let dir = TempDir::new().unwrap();
    let log = engine(dir.path(), 512 << 10).create(&id()).unwrap();
    let big = Bytes::from(vec![b'x'; 20_000]);
    for seq in 0..60 {
        log.append(1, seq, std::slice::from_ref(&big)).unwrap();
    }
    drop(log);
    let path = files(dir.path(), ".log").remove(0);
    let idx = fs::read_to_string(path.with_extension("idx")).unwrap();
    // This is the second point: `…],[seq,offset],…`.
    let point: Vec<u64> = idx
        .split("],[")
        .nth(1)
        .unwrap()
        .split(',')
        .map(|n| n.parse().unwrap())
        .collect();
    let mut bytes = fs::read(&path).unwrap();
    bytes[point[1] as usize + 100] ^= 1;
    fs::write(&path, &bytes).unwrap();

    let log = engine(dir.path(), 512 << 10).open(&id()).unwrap();
    for from in 1..=60 {
        let page = log.read(from, 1 << 10).unwrap();
        let lost = from == point[0];
        assert_eq!(page.damage.len(), usize::from(lost), "from {from}");
        assert_eq!(page.records[0].seq, from + u64::from(lost));
    }
}

#[test]
fn lines_that_were_repeated_are_not_read_twice() {
    let dir = TempDir::new().unwrap();
    write_log(dir.path(), 64 << 20, 6);
    let path = files(dir.path(), ".log").remove(0);
    let whole = fs::read(&path).unwrap();
    let lines: Vec<&[u8]> = whole.split_inclusive(|&byte| byte == b'\n').collect();
    let twice =
        [lines[0], lines[1], lines[2], lines[2], lines[3], lines[1], lines[4], lines[5], lines[6]]
            .concat();
    fs::write(&path, twice).unwrap();
    let log = engine(dir.path(), 64 << 20).open(&id()).unwrap();
    assert_eq!(read_all(&*log, 1, 1 << 20).len(), 6);
    assert_eq!(read_all(&*log, 3, 1 << 20).len(), 4);
}

#[test]
fn a_newer_format_is_refused_and_left_alone() {
    let dir = TempDir::new().unwrap();
    write_log(dir.path(), 64 << 20, 2);
    let path = files(dir.path(), ".log").remove(0);
    let payload = "{\"wharf_log\":2,\"made\":\"otherwise\"}";
    let newer = format!("{:08x} {payload}\n\u{1}\u{2}binary", crc32fast::hash(payload.as_bytes()));
    fs::write(&path, &newer).unwrap();
    let refusal = engine(dir.path(), SMALL).open(&id()).unwrap_err();
    assert!(matches!(refusal, StoreError::Newer { found: 2, known: 1, .. }), "{refusal}");
    assert!(refusal.to_string().contains("format 2"));
    assert_eq!(fs::read(&path).unwrap(), newer.as_bytes());
}

#[test]
fn sync_fails_when_the_log_was_deleted_by_another_program() {
    let dir = quick_dir();
    let log = engine(dir.path(), 64 << 20).create(&id()).unwrap();
    log.append(1, 0, &[body(1)]).unwrap();
    assert!(matches!(sync(&*log), Ok(1)));
    fs::remove_dir_all(dir.path().join("workspaces")).unwrap();
    log.append(1, 1, &[body(2)]).unwrap();
    let error = sync(&*log).unwrap_err();
    assert!(error.to_string().contains("deleted"), "{error}");
    assert!(log.append(1, 2, &[body(3)]).is_err(), "it takes no more records");
}

#[test]
fn probe_fails_when_logs_cannot_be_listed_or_files_not_be_written() {
    let dir = quick_dir();
    let engine = engine(dir.path(), 64 << 20);
    engine.probe().unwrap();
    let files = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(files.collect::<Vec<_>>(), ["workspaces"], "a probe leaves nothing behind");
    let (workspaces, elsewhere) = (dir.path().join("workspaces"), dir.path().join("elsewhere"));
    fs::rename(&workspaces, &elsewhere).unwrap();
    fs::write(&workspaces, "").unwrap();
    assert!(engine.probe().is_err());
    fs::remove_file(&workspaces).unwrap();
    fs::rename(&elsewhere, &workspaces).unwrap();
    fs::create_dir(dir.path().join("probe")).unwrap();
    assert!(engine.probe().is_err());
}

fn sync(log: &dyn Log) -> Result<u64, StoreError> {
    let (done, synced) = std::sync::mpsc::sync_channel(1);
    log.sync(Box::new(move |result| done.send(result).unwrap()));
    synced.recv().unwrap()
}
