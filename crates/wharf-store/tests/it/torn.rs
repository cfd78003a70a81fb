//! A log that is cut at any byte is a shorter log.

use std::fs;

use tempfile::TempDir;
use wharf_store::conformance::read_all;
use wharf_store::{Engine, LogRecord};

use crate::{SMALL, body, engine, files, id, log_dir, quick_dir, torn_files, write_log};

#[test]
fn a_log_cut_at_any_byte_is_a_prefix_and_goes_on() {
    let dir = quick_dir();
    write_log(dir.path(), 64 << 20, 12);
    let path = files(dir.path(), ".log").remove(0);
    let whole = fs::read(&path).unwrap();
    let all = read_all(&*engine(dir.path(), SMALL).open(&id()).unwrap(), 1, 1 << 20);
    let ends: Vec<usize> = memchr::memchr_iter(b'\n', &whole).map(|at| at + 1).collect();

    for cut in 0..whole.len() {
        fs::remove_dir_all(log_dir(dir.path())).unwrap();
        fs::create_dir(log_dir(dir.path())).unwrap();
        fs::write(&path, &whole[..cut]).unwrap();
        let engine = engine(dir.path(), 64 << 20);
        let log = engine.open(&id()).unwrap();
        // The first line is the header.
        let kept = ends.iter().filter(|&&end| end <= cut).count().saturating_sub(1);
        let last_end = ends.iter().rev().find(|&&end| end <= cut).copied().unwrap_or(0);
        assert_eq!(read_all(&*log, 1, 1 << 20), all[..kept], "cut at {cut}");
        assert_eq!(log.mended().torn_bytes, (cut - last_end) as u64, "cut at {cut}");
        match &torn_files(dir.path())[..] {
            [] => assert_eq!(cut, last_end),
            [torn] => {
                assert_eq!(fs::read(torn).unwrap(), whole[last_end..cut], "what was cut is kept")
            }
            more => panic!("{more:?}"),
        }

        let seq = kept as u64;
        log.append(9, seq, &[body(99)]).unwrap();
        drop((log, engine));
        let log = super::engine(dir.path(), 64 << 20).open(&id()).unwrap();
        assert_eq!(log.mended().torn_bytes, 0, "mended once");
        let mut expected = all[..kept].to_vec();
        expected.push(LogRecord { seq: seq + 1, epoch: 9, body: body(99) });
        assert_eq!(read_all(&*log, 1, 1 << 20), expected, "cut at {cut}");
    }
}

#[test]
fn new_segment_with_a_torn_header_is_repaired() {
    let dir = TempDir::new().unwrap();
    write_log(dir.path(), SMALL, 100);
    let segments = files(dir.path(), ".log");
    let last = segments.last().unwrap();
    let whole = fs::read(last).unwrap();
    let header = memchr::memchr(b'\n', &whole).unwrap() + 1;
    let first: u64 = last.file_stem().unwrap().to_str().unwrap().parse().unwrap();
    for cut in 0..=header {
        fs::write(last, &whole[..cut]).unwrap();
        let engine = engine(dir.path(), SMALL);
        let log = engine.open(&id()).unwrap();
        let head = log.head();
        assert_eq!((head.seq, head.epoch), (first - 1, 1 + (first - 1) / 10), "cut at {cut}");
        assert_eq!(head.bytes, engine.list().unwrap()[0].bytes);
        assert_eq!(read_all(&*log, 1, 1 << 20).len() as u64, head.seq);
        assert!(log.append(head.epoch - 1, head.seq, &[body(1)]).is_err(), "the epoch is known");
    }
}

#[test]
fn zeros_and_garbage_at_the_end_are_torn() {
    for garbage in
        [&[0_u8; 5000][..], b"\n\n\n", b"00000000 {}\n", &[0xff; 70_000], b"ffffffff {\"seq\":4"]
    {
        let dir = TempDir::new().unwrap();
        write_log(dir.path(), 64 << 20, 3);
        let path = files(dir.path(), ".log").remove(0);
        let mut bytes = fs::read(&path).unwrap();
        let good = bytes.len();
        bytes.extend_from_slice(garbage);
        fs::write(&path, &bytes).unwrap();
        let log = engine(dir.path(), 64 << 20).open(&id()).unwrap();
        assert_eq!(log.mended().torn_bytes, garbage.len() as u64);
        assert_eq!(read_all(&*log, 1, 1 << 20).len(), 3);
        assert_eq!(fs::read(&path).unwrap(), bytes[..good]);
        assert_eq!(fs::read(&torn_files(dir.path())[0]).unwrap(), garbage);
    }
}
