//! The contract of every engine and every index, as checks. The functions are public, so that an
//! engine elsewhere can run them too.
//!
//! Each function panics at the first violation.

#![expect(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a test that ships: to panic is how it reports"
)]

use std::collections::BTreeSet;
use std::io;
use std::slice;
use std::sync::{Arc, mpsc};
use std::thread;

use bytes::Bytes;

use crate::{
    AppendError, Engine, Head, Index, IndexRow, Log, LogId, LogRecord, LogStat, StoreError,
};

/// Checks an engine. `make` returns a new, empty one each time.
pub fn check_engine(make: &dyn Fn() -> Arc<dyn Engine>) {
    logs_are_made_once_and_opened_as_one(&*make());
    appends_are_numbered(&*make());
    refused_appends_leave_nothing(&*make());
    bodies_come_back_byte_for_byte(&*make());
    pages_are_bounded_and_leave_out_nothing(&*make());
    syncs_tell_how_far(&*make());
    readers_see_only_what_is_appended(&*make());
    lists_show_what_is_there(&*make());
    removed_logs_are_gone(&*make());
    logs_keep_apart(&*make());
}

/// Checks an index. `make` returns a new, empty one each time.
pub fn check_index(make: &dyn Fn() -> Arc<dyn Index>) {
    let index = make();
    let one = log_id("a", "one");
    let two = log_id("b", "two");
    assert_eq!(index.get(&one).unwrap(), None);
    assert_eq!(index.all().unwrap(), []);
    index.put(&[]).unwrap();

    let first = IndexRow {
        id: one.clone(),
        seq: 1,
        bytes: 10,
        snapshot: None,
        summary: Bytes::from_static(b"\x00\xff"),
    };
    let largest = IndexRow {
        id: two.clone(),
        seq: u64::MAX,
        bytes: u64::MAX,
        snapshot: Some(u64::MAX),
        summary: Bytes::new(),
    };
    index.put(&[first.clone(), largest.clone()]).unwrap();
    assert_eq!(index.get(&one).unwrap().as_ref(), Some(&first));
    assert_eq!(index.get(&two).unwrap().as_ref(), Some(&largest));

    let later = IndexRow { seq: 2, bytes: 20, snapshot: Some(2), ..first };
    index.put(slice::from_ref(&later)).unwrap();
    let mut all = index.all().unwrap();
    all.sort_by(|a, b| a.id.cmp(&b.id));
    assert_eq!(all, [later, largest.clone()], "a row replaces the one before it");

    index.remove(&one).unwrap();
    index.remove(&one).unwrap();
    assert_eq!(index.all().unwrap(), [largest]);
}

/// Returns every record from `from` on, read in pages of `max_bytes`. Panics if a record is
/// damaged.
pub fn read_all(log: &dyn Log, from: u64, max_bytes: usize) -> Vec<LogRecord> {
    let mut records: Vec<LogRecord> = Vec::new();
    loop {
        let next = records.last().map_or(from, |last| last.seq + 1);
        let page = log.read(next, max_bytes).unwrap();
        assert_eq!(page.damage, [], "damage in a whole log");
        if page.records.is_empty() {
            return records;
        }
        records.extend(page.records);
    }
}

/// Syncs the log and waits for the result.
pub fn sync_and_wait(log: &dyn Log) -> Result<u64, StoreError> {
    let (send, done) = mpsc::sync_channel(1);
    log.sync(Box::new(move |result| send.send(result).unwrap()));
    done.recv().unwrap()
}

fn log_id(bucket: &str, name: &str) -> LogId {
    LogId::new(bucket, name).unwrap()
}

fn to_bodies<const N: usize>(texts: [&str; N]) -> Vec<Bytes> {
    texts.iter().map(|text| Bytes::copy_from_slice(text.as_bytes())).collect()
}

fn to_record(seq: u64, epoch: u64, text: &str) -> LogRecord {
    LogRecord { seq, epoch, body: Bytes::copy_from_slice(text.as_bytes()) }
}

fn logs_are_made_once_and_opened_as_one(engine: &dyn Engine) {
    let id = log_id("bucket", "sess_1");
    assert!(matches!(engine.open(&id), Err(StoreError::NotFound(missing)) if missing == id));
    let log = engine.create(&id).unwrap();
    assert_eq!((log.head().seq, log.head().epoch, log.mended().torn_bytes), (0, 0, 0));
    assert_eq!(log.read(1, 1 << 20).unwrap().records, []);
    assert!(matches!(engine.create(&id), Err(StoreError::Exists(there)) if there == id));

    let other = engine.open(&id).unwrap();
    log.append(1, 0, &to_bodies(["a"])).unwrap();
    assert_eq!(other.head(), log.head(), "two opens give one log");
    drop((log, other));
    assert!(
        matches!(engine.create(&id), Err(StoreError::Exists(_))),
        "also when nobody has it open"
    );
    let log = engine.open(&id).unwrap();
    assert_eq!(read_all(&*log, 1, 1 << 20), [to_record(1, 1, "a")]);
}

fn appends_are_numbered(engine: &dyn Engine) {
    let log = engine.create(&log_id("bucket", "sess")).unwrap();
    let first = log.append(3, 0, &to_bodies(["a", "b"])).unwrap();
    assert_eq!((first.seq, first.epoch), (2, 3));
    let second = log.append(3, 2, &to_bodies(["c"])).unwrap();
    let third = log.append(7, 3, &to_bodies(["d"])).unwrap();
    assert_eq!((third.seq, third.epoch), (4, 7));
    assert!(first.bytes < second.bytes && second.bytes < third.bytes);
    assert_eq!(log.append(7, 4, &[]).unwrap(), third, "nothing appended, nothing changed");
    assert_eq!(log.head(), third);
    let all =
        [to_record(1, 3, "a"), to_record(2, 3, "b"), to_record(3, 3, "c"), to_record(4, 7, "d")];
    assert_eq!(read_all(&*log, 0, 1 << 20), all, "0 reads as 1");
    assert_eq!(read_all(&*log, 3, 1 << 20), all[2..]);
    assert_eq!(read_all(&*log, 5, 1 << 20), []);
    assert_eq!(read_all(&*log, u64::MAX, 1 << 20), []);
}

fn refused_appends_leave_nothing(engine: &dyn Engine) {
    let log = engine.create(&log_id("bucket", "sess")).unwrap();
    let head = log.append(5, 0, &to_bodies(["a"])).unwrap();
    for expected in [0, 2, u64::MAX] {
        let refusal = log.append(5, expected, &to_bodies(["x"]));
        assert!(
            matches!(refusal, Err(AppendError::Conflict { expected: e, actual: 1 }) if e == expected)
        );
    }
    for expected in [0, 1] {
        let refusal = log.append(4, expected, &to_bodies(["x"]));
        assert!(
            matches!(refusal, Err(AppendError::StaleEpoch { ours: 4, current: 5 })),
            "stale beats conflict"
        );
    }
    let refusal = log.append(5, 1, &to_bodies(["fits", "two\nlines"]));
    assert!(matches!(
        refusal,
        Err(AppendError::Store(StoreError::Io { source, .. })) if source.kind() == io::ErrorKind::InvalidInput
    ));
    assert_eq!(log.head(), head);
    assert_eq!(read_all(&*log, 1, 1 << 20), [to_record(1, 5, "a")]);
    log.append(5, 1, &to_bodies(["b"])).unwrap();
}

fn bodies_come_back_byte_for_byte(engine: &dyn Engine) {
    let id = log_id("bucket", "sess");
    let log = engine.create(&id).unwrap();
    let every_byte: Vec<u8> = (0..=255).filter(|&byte| byte != b'\n').collect();
    let bodies: Vec<Bytes> = [
        Vec::new(),
        b"}".to_vec(),
        b"{\"seq\":9,\"epoch\":9,\"event\":1}".to_vec(),
        b"00000000 {}".to_vec(),
        b"\r".to_vec(),
        every_byte,
        vec![b'x'; 3 << 20],
        b"{\"number\":1.0e+2}".to_vec(),
    ]
    .map(Bytes::from)
    .into();
    log.append(1, 0, &bodies).unwrap();
    let expected: Vec<LogRecord> = (1..)
        .zip(&bodies)
        .map(|(seq, body)| LogRecord { seq, epoch: 1, body: body.clone() })
        .collect();
    for max_bytes in [0, 100, 1 << 16, usize::MAX] {
        assert!(read_all(&*log, 1, max_bytes) == expected);
    }
    drop(log);
    assert!(read_all(&*engine.open(&id).unwrap(), 1, 1 << 20) == expected);
}

fn pages_are_bounded_and_leave_out_nothing(engine: &dyn Engine) {
    let log = engine.create(&log_id("bucket", "sess")).unwrap();
    let body = |seq: u64| Bytes::from(vec![b'a' + (seq % 26) as u8; (seq * 37 % 1500) as usize]);
    for batch in 0..30 {
        let bodies: Vec<Bytes> = (batch * 50 + 1..=batch * 50 + 50).map(body).collect();
        log.append(1, batch * 50, &bodies).unwrap();
    }
    for from in (1..=1500).step_by(7) {
        for max_bytes in [0, 1000, 20_000] {
            let page = log.read(from, max_bytes).unwrap();
            assert!(!page.records.is_empty(), "a page has at least one record");
            let size: usize = page.records.iter().map(|record| record.body.len()).sum();
            assert!(
                page.records.len() == 1 || size <= max_bytes,
                "{size} bytes in a page of {max_bytes}"
            );
            for (seq, found) in (from..).zip(&page.records) {
                assert!((found.seq, &found.body) == (seq, &body(seq)));
            }
        }
    }
    assert_eq!(read_all(&*log, 1, 10_000).len(), 1500);
}

fn syncs_tell_how_far(engine: &dyn Engine) {
    let log = engine.create(&log_id("bucket", "sess")).unwrap();
    assert_eq!(sync_and_wait(&*log).unwrap(), 0);
    let (send, done) = mpsc::sync_channel(100);
    for seq in 1..=100 {
        log.append(1, seq - 1, &to_bodies(["x"])).unwrap();
        let send = send.clone();
        log.sync(Box::new(move |result| send.send((seq, result.unwrap())).unwrap()));
    }
    drop(send);
    let answers: Vec<(u64, u64)> = done.iter().collect();
    assert_eq!(
        answers.iter().map(|(asked, _)| *asked).collect::<BTreeSet<_>>(),
        (1..=100).collect()
    );
    assert!(
        answers.iter().all(|(asked, safe)| safe >= asked),
        "a sync covers what was appended before it"
    );
    assert_eq!(sync_and_wait(&*log).unwrap(), 100);
}

fn readers_see_only_what_is_appended(engine: &dyn Engine) {
    const LAST_SEQ: u64 = 3000;
    let log = engine.create(&log_id("bucket", "sess")).unwrap();
    let body = |seq: u64| {
        Bytes::from(format!("{{\"n\":{seq},\"pad\":\"{}\"}}", "p".repeat((seq % 200) as usize)))
    };
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut next = 1;
                while next <= LAST_SEQ {
                    let head = log.head();
                    let page = log.read(next, 8 << 10).unwrap();
                    assert_eq!(page.damage, []);
                    assert!(
                        !page.records.is_empty() || head.seq < next,
                        "what the head tells of can be read"
                    );
                    for record in page.records {
                        assert_eq!((record.seq, record.body), (next, body(next)));
                        next += 1;
                    }
                }
            });
        }
        let mut head = Head::default();
        while head.seq < LAST_SEQ {
            let batch: Vec<Bytes> =
                (head.seq + 1..=(head.seq + 1 + head.seq % 3).min(LAST_SEQ)).map(body).collect();
            head = log.append(1, head.seq, &batch).unwrap();
        }
    });
}

fn lists_show_what_is_there(engine: &dyn Engine) {
    assert_eq!(engine.list().unwrap(), []);
    let mut expected = Vec::new();
    for (bucket, name) in [("a", "one"), ("a", "two"), ("b", "one")] {
        let id = log_id(bucket, name);
        let log = engine.create(&id).unwrap();
        let head = log.append(1, 0, &to_bodies([name])).unwrap();
        expected.push(LogStat { id, bytes: head.bytes });
    }
    let sorted = || {
        let mut list = engine.list().unwrap();
        list.sort_by(|a, b| a.id.cmp(&b.id));
        list
    };
    assert_eq!(sorted(), expected);
    expected[1].bytes = engine
        .open(&expected[1].id)
        .unwrap()
        .append(1, 1, &to_bodies(["more"]))
        .unwrap()
        .bytes;
    assert_eq!(sorted(), expected, "a log that has grown can be told by its size");
}

fn removed_logs_are_gone(engine: &dyn Engine) {
    let gone = log_id("bucket", "gone");
    let stays = log_id("bucket", "stays");
    let log = engine.create(&gone).unwrap();
    engine.create(&stays).unwrap();
    log.append(1, 0, &to_bodies(["a"])).unwrap();
    engine.remove(&gone).unwrap();
    engine.remove(&gone).unwrap();
    engine.remove(&log_id("never", "there")).unwrap();
    assert_eq!(engine.list().unwrap().into_iter().map(|stat| stat.id).collect::<Vec<_>>(), [stays]);
    assert!(matches!(engine.open(&gone), Err(StoreError::NotFound(_))));
    let refusal = log.append(1, 1, &to_bodies(["b"]));
    assert!(
        matches!(refusal, Err(AppendError::Store(StoreError::NotFound(_)))),
        "an old handle writes nowhere"
    );
    assert!(matches!(log.read(1, 1000), Err(StoreError::NotFound(_))));
    assert!(matches!(sync_and_wait(&*log), Err(StoreError::NotFound(_))));

    let again = engine.create(&gone).unwrap();
    assert_eq!(again.head().seq, 0, "the same name begins anew");
    again.append(1, 0, &to_bodies(["c"])).unwrap();
    assert_eq!(read_all(&*again, 1, 1000), [to_record(1, 1, "c")]);
}

fn logs_keep_apart(engine: &dyn Engine) {
    let logs: Vec<_> = (0..8)
        .map(|nth| engine.create(&log_id("bucket", &format!("sess_{nth}"))).unwrap())
        .collect();
    thread::scope(|scope| {
        for (nth, log) in logs.iter().enumerate() {
            scope.spawn(move || {
                for seq in 0..200 {
                    log.append(1, seq, &[Bytes::from(format!("{nth}"))]).unwrap();
                    if seq % 50 == 0 {
                        assert!(sync_and_wait(&**log).unwrap() > seq);
                    }
                }
            });
        }
    });
    for (nth, log) in logs.iter().enumerate() {
        let records = read_all(&**log, 1, 1 << 20);
        assert_eq!(records.len(), 200);
        assert!(records.iter().all(|record| record.body == nth.to_string()));
    }
}
