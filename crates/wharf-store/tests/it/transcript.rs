//! The database of transcripts is derived: it keeps what it is given, and is made anew when it is
//! damaged.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

use tempfile::TempDir;
use wharf_store::{
    LogId, RowFileChanges, RowRange, SqliteTranscripts, StoreError, StoredBlob, StoredFileChange,
    StoredRow, TextChange, TextSlice, TranscriptChanges, TranscriptCheckpoint, TranscriptProgress,
    TranscriptStore,
};

use crate::id;

pub(crate) fn row(number: u64, rev: u64, kind: &str) -> StoredRow {
    let json = format!("{{\"number\":{number}}}").into_bytes();
    StoredRow {
        number,
        seq: number * 10,
        rev,
        kind: kind.to_owned(),
        turn: Some("prm_1".to_owned()),
        json,
    }
}

pub(crate) fn changes(rows: Vec<StoredRow>) -> TranscriptChanges {
    let checkpoint = TranscriptCheckpoint {
        fold: 1,
        epoch: 3,
        seq: 99,
        rows: rows.len() as u64,
        state: b"{}".to_vec(),
    };
    TranscriptChanges {
        generation: 0,
        checkpoint,
        rows,
        file_changes: Vec::new(),
        keys: Vec::new(),
        texts: Vec::new(),
        blobs: Vec::new(),
    }
}

fn all(kind: Option<&str>) -> RowRange<'_> {
    RowRange {
        first: 1,
        last: u64::MAX,
        kind,
        newest_first: false,
        max_rows: 100,
        max_bytes: usize::MAX,
    }
}

fn text(part: &str, replaces: bool, text: &str) -> TextChange {
    TextChange {
        number: 1,
        part: part.to_owned(),
        replaces,
        text: text.to_owned(),
    }
}

#[test]
fn rows_are_found_by_number_kind_and_revision() {
    let store = SqliteTranscripts::in_memory().unwrap();
    let rows: Vec<StoredRow> = (1..=5)
        .map(|n| row(n, 100 - n, if n % 2 == 0 { "tool" } else { "message" }))
        .collect();
    store.write(&id(), &changes(rows.clone())).unwrap();
    assert_eq!(store.rows(&id(), &all(None)).unwrap(), rows);
    let newest = RowRange { last: 4, newest_first: true, max_rows: 2, ..all(None) };
    assert_eq!(store.rows(&id(), &newest).unwrap(), [rows[3].clone(), rows[2].clone()]);
    assert_eq!(store.rows(&id(), &all(Some("tool"))).unwrap(), [rows[1].clone(), rows[3].clone()]);
    let short = RowRange { max_bytes: 12, ..all(None) };
    assert_eq!(
        store.rows(&id(), &short).unwrap(),
        rows[..2],
        "the row that goes beyond is the last"
    );
    assert_eq!(store.changed_after(&id(), 97, 10).unwrap(), [1, 2]);
    assert_eq!(store.changed_after(&id(), 0, 2).unwrap().len(), 2);
}

#[test]
fn changed_row_replaces_the_older_one() {
    let store = SqliteTranscripts::in_memory().unwrap();
    store.write(&id(), &changes(vec![row(1, 10, "tool")])).unwrap();
    store
        .write(&id(), &changes(vec![row(1, 20, "tool"), row(2, 20, "tool")]))
        .unwrap();
    assert_eq!(store.rows(&id(), &all(None)).unwrap(), [row(1, 20, "tool"), row(2, 20, "tool")]);
    assert_eq!(store.changed_after(&id(), 10, 10).unwrap(), [1, 2]);
    assert_eq!(
        store.progress().unwrap(),
        [TranscriptProgress { id: id(), fold: 1, seq: 99, is_indexed: false }]
    );
}

#[test]
fn file_changes_of_a_row_are_replaced_and_listed_newest_first() {
    let change = |number: u64, path: &str, turn: &str| StoredFileChange {
        number,
        path: path.to_owned(),
        row: format!("1-{number}"),
        turn: Some(turn.to_owned()),
        kind: "changed".to_owned(),
        added: 3,
        removed: 1,
        exact: number != 2,
        at: "2026-01-01T00:00:00.000Z".to_owned(),
    };
    let list = |store: &SqliteTranscripts, turn: Option<&str>| {
        let mut found = Vec::new();
        store.visit_file_changes(&id(), turn, &mut |change| found.push(change)).unwrap();
        found
    };
    let store = SqliteTranscripts::in_memory().unwrap();
    let mut written = changes(vec![row(1, 10, "tool"), row(2, 11, "tool")]);
    let first = RowFileChanges {
        number: 1,
        changes: vec![change(1, "a", "prm_1"), change(1, "b", "prm_1")],
    };
    let second = RowFileChanges { number: 2, changes: vec![change(2, "a", "prm_2")] };
    written.file_changes = vec![first, second];
    store.write(&id(), &written).unwrap();
    let (a, b) = (change(1, "a", "prm_1"), change(1, "b", "prm_1"));
    assert_eq!(list(&store, None), [change(2, "a", "prm_2"), a.clone(), b.clone()]);
    assert_eq!(list(&store, Some("prm_1")), [a, b.clone()]);
    written.file_changes = vec![RowFileChanges { number: 1, changes: vec![b.clone()] }];
    store.write(&id(), &written).unwrap();
    assert_eq!(list(&store, Some("prm_1")), [b]);
    store.remove(&id()).unwrap();
    assert_eq!(list(&store, None), []);
}

#[test]
fn texts_are_read_in_pieces_at_the_edges_of_characters() {
    let store = SqliteTranscripts::in_memory().unwrap();
    let long = "aé".repeat(60_000);
    let mut written = changes(vec![row(1, 10, "tool")]);
    written.texts = vec![text("0", true, "old"), text("0", true, &long), text("output", true, "")];
    store.write(&id(), &written).unwrap();
    written.texts = vec![text("0", false, "end")];
    store.write(&id(), &written).unwrap();
    let whole = format!("{long}end");
    let (mut read, mut offset) = (String::new(), 0);
    loop {
        let slice = store.text(&id(), 1, "0", offset, 10_000).unwrap().unwrap();
        assert_eq!((slice.offset, slice.total), (offset, whole.len() as u64));
        if slice.text.is_empty() {
            break;
        }
        offset += slice.text.len() as u64;
        read.push_str(&slice.text);
    }
    assert_eq!(read, whole);
    let within = TextSlice { text: "é".to_owned(), offset: 1, total: whole.len() as u64 };
    assert_eq!(
        store.text(&id(), 1, "0", 2, 3).unwrap(),
        Some(TextSlice { text: "éa".to_owned(), ..within })
    );
    let empty = TextSlice { text: String::new(), offset: 0, total: 0 };
    assert_eq!(store.text(&id(), 1, "output", 7, 10).unwrap(), Some(empty));
    assert_eq!(store.text(&id(), 1, "other", 0, 10).unwrap(), None);
}

#[test]
fn removed_transcript_leaves_nothing_and_others_stay() {
    let store = SqliteTranscripts::in_memory().unwrap();
    let other = LogId::new("default", "other").unwrap();
    let mut written = changes(vec![row(1, 10, "tool")]);
    written.keys = vec![("tool:1:a".to_owned(), 1)];
    written.texts = vec![text("0", true, "text")];
    written.blobs = vec![StoredBlob {
        name: "b3_1".to_owned(),
        mime: "image/png".to_owned(),
        bytes: vec![1, 2],
    }];
    store.write(&id(), &written).unwrap();
    store.write(&other, &written).unwrap();
    store.remove(&id()).unwrap();
    assert_eq!(store.checkpoint(&id()).unwrap(), None);
    assert!(store.rows(&id(), &all(None)).unwrap().is_empty());
    assert_eq!(store.find_key(&id(), "tool:1:a").unwrap(), None);
    assert_eq!(store.blob(&id(), "b3_1").unwrap(), None);
    assert_eq!(store.text(&id(), 1, "0", 0, 10).unwrap(), None);
    assert_eq!(store.checkpoint(&other).unwrap(), Some(written.checkpoint.clone()));
    assert_eq!(store.find_key(&other, "tool:1:a").unwrap(), Some(1));
    assert_eq!(store.blob(&other, "b3_1").unwrap(), Some(written.blobs[0].clone()));
}

#[test]
fn database_is_there_after_a_restart_and_made_anew_if_it_cannot_be_used() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("transcript.db");
    let store = SqliteTranscripts::open(&path).unwrap();
    store.write(&id(), &changes(vec![row(1, 10, "tool")])).unwrap();
    drop(store);
    let store = SqliteTranscripts::open(&path).unwrap();
    assert_eq!(store.rows(&id(), &all(None)).unwrap(), [row(1, 10, "tool")]);
    drop(store);
    let garbage = |path: &Path| {
        fs::write(path, "this is no database, and it is long enough to tell").unwrap()
    };
    let version = |path: &Path| {
        rusqlite::Connection::open(path)
            .unwrap()
            .execute_batch("PRAGMA user_version = 77")
            .unwrap()
    };
    for spoil in [&garbage as &dyn Fn(&Path), &version] {
        spoil(&path);
        let store = SqliteTranscripts::open(&path).unwrap();
        assert_eq!(store.checkpoint(&id()).unwrap(), None);
        store.write(&id(), &changes(vec![row(1, 10, "tool")])).unwrap();
        assert_eq!(store.rows(&id(), &all(None)).unwrap(), [row(1, 10, "tool")]);
    }
}

#[test]
fn damage_that_is_met_while_reading_makes_the_database_anew() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("transcript.db");
    let store = SqliteTranscripts::open(&path).unwrap();
    let rows: Vec<StoredRow> = (1..=2_000).map(|n| row(n, n, "tool")).collect();
    store.write(&id(), &changes(rows)).unwrap();
    drop(store);
    let mut bytes = fs::read(&path).unwrap();
    bytes[24 * 4096..].fill(0x5a);
    fs::write(&path, bytes).unwrap();
    let store = SqliteTranscripts::open(&path).unwrap();
    let range = RowRange { max_rows: 5_000, ..all(None) };
    store.rows(&id(), &range).unwrap_err();
    assert_eq!(store.checkpoint(&id()).unwrap(), None);
    let mut first = changes(vec![row(1, 10, "tool")]);
    assert!(
        matches!(store.write(&id(), &first), Err(StoreError::Recreated)),
        "rows from before are missing"
    );
    first.generation = store.generation();
    store.write(&id(), &first).unwrap();
    assert_eq!(store.rows(&id(), &range).unwrap(), [row(1, 10, "tool")]);
}

/// The contents of the database that is damaged.
struct FilledDatabase {
    file: Vec<u8>,
    rows: Vec<StoredRow>,
    long_text: String,
    keys: Vec<(String, u64)>,
    /// The newest first.
    file_changes: Vec<StoredFileChange>,
}

/// Creates a database with two transcripts, of which the second one differs in every row.
fn fill_database(dir: &Path) -> FilledDatabase {
    let path = dir.join("transcript.db");
    let store = SqliteTranscripts::open(&path).unwrap();
    let rows: Vec<StoredRow> = (1..=60)
        .map(|n| row(n, n, if n % 3 == 0 { "tool" } else { "message" }))
        .collect();
    let keys: Vec<(String, u64)> = (1..=60).map(|n| (format!("tool:1:call-{n}"), n)).collect();
    let change = |number: u64| StoredFileChange {
        number,
        path: format!("/w/{number}"),
        row: format!("1-{number}"),
        turn: Some("prm_1".to_owned()),
        kind: "changed".to_owned(),
        added: number,
        removed: 1,
        exact: true,
        at: "2026-01-01T00:00:00.000Z".to_owned(),
    };
    let file_changes: Vec<StoredFileChange> = (1..=20).rev().map(|n| change(3 * n)).collect();
    let long_text = "wörds ".repeat(30_000);
    let mut all = changes(rows.clone());
    all.keys = keys.clone();
    all.file_changes = file_changes
        .iter()
        .map(|change| RowFileChanges { number: change.number, changes: vec![change.clone()] })
        .collect();
    all.texts.push(text("0", true, &long_text));
    all.blobs.push(StoredBlob {
        name: "b".to_owned(),
        mime: "image/png".to_owned(),
        bytes: vec![7; 9_000],
    });
    store.write(&id(), &all).unwrap();
    let other = LogId::new("default", "other").unwrap();
    let mut changes = changes((1..=60).map(|n| row(n, n, "notice")).collect());
    changes.keys = keys.iter().map(|(key, number)| (key.clone(), 61 - number)).collect();
    store.write(&other, &changes).unwrap();
    drop(store);
    FilledDatabase {
        file: fs::read(&path).unwrap(),
        rows,
        long_text,
        keys,
        file_changes,
    }
}

/// Reads the first transcript and checks that all answers are whole. Returns false if the database
/// was found to be damaged and was made anew, or does not know the transcript.
fn is_database_whole(path: &Path, filled: &FilledDatabase) -> bool {
    let store = SqliteTranscripts::open(path).unwrap();
    let outcome = check_answers(&store, filled);
    if store.generation() > 0 {
        assert_eq!(store.rows(&id(), &all(None)).unwrap(), [], "the second read never fails");
        return false;
    }
    outcome.unwrap()
}

fn check_answers(store: &SqliteTranscripts, filled: &FilledDatabase) -> Result<bool, StoreError> {
    if store.checkpoint(&id())?.is_none() {
        return Ok(false);
    }
    check_rows(store, &filled.rows)?;
    for (key, number) in &filled.keys {
        assert_eq!(store.find_key(&id(), key)?, Some(*number), "the number of {key}");
    }
    assert_eq!(store.find_key(&id(), "turn:unknown")?, None);
    for turn in [None, Some("prm_1")] {
        let mut found = Vec::new();
        store.visit_file_changes(&id(), turn, &mut |change| found.push(change))?;
        assert_eq!(found, filled.file_changes, "changes of files, turn {turn:?}");
    }
    let mut whole = String::new();
    while let Some(slice) = store.text(&id(), 1, "0", whole.len() as u64, 100_000)?
        && !slice.text.is_empty()
    {
        whole.push_str(&slice.text);
    }
    assert!(filled.long_text.starts_with(&whole), "a text that was not written");
    assert!(
        store.blob(&id(), "b")?.is_none_or(|blob| blob.bytes == [7; 9_000]),
        "a blob that was not written"
    );
    Ok(true)
}

/// Checks pages of all rows and of one kind, and the rows that have changed.
fn check_rows(store: &SqliteTranscripts, rows: &[StoredRow]) -> Result<(), StoreError> {
    for kind in [None, Some("tool"), Some("message")] {
        let of_kind = |row: &&StoredRow| kind.is_none_or(|kind| row.kind == kind);
        let expected: Vec<StoredRow> = rows.iter().filter(of_kind).cloned().collect();
        assert_eq!(store.rows(&id(), &all(kind))?, expected, "rows of {kind:?}");
        let newest = RowRange { newest_first: true, max_rows: 7, ..all(kind) };
        let expected: Vec<StoredRow> = rows.iter().rev().filter(of_kind).take(7).cloned().collect();
        assert_eq!(store.rows(&id(), &newest)?, expected, "the newest rows of {kind:?}");
        let middle = RowRange { first: 11, last: 40, ..all(kind) };
        let expected: Vec<StoredRow> = rows[10..40].iter().filter(of_kind).cloned().collect();
        assert_eq!(store.rows(&id(), &middle)?, expected, "rows of {kind:?} in the middle");
    }
    assert_eq!(store.changed_after(&id(), 30, 100)?, (31..=60).collect::<Vec<u64>>());
    Ok(())
}

/// Returns the names of the tables and indexes with the number of their first page. Small ones have
/// no other page.
fn list_root_pages(path: &Path) -> Vec<(String, usize)> {
    let connection = rusqlite::Connection::open(path).unwrap();
    let mut select = connection
        .prepare("SELECT name, rootpage FROM sqlite_schema WHERE rootpage > 0")
        .unwrap();
    let pages = select
        .query_map([], |row| Ok((row.get(0)?, row.get::<_, u32>(1)? as usize)))
        .unwrap();
    pages.map(Result::unwrap).collect()
}

#[test]
fn damaged_database_gives_all_rows_or_is_made_anew() {
    let dir = TempDir::new().unwrap();
    let filled = fill_database(dir.path());
    let path = dir.path().join("transcript.db");
    let is_damage_found = |spoil: &dyn Fn(&mut Vec<u8>), what: &str| {
        let mut bytes = filled.file.clone();
        spoil(&mut bytes);
        for suffix in ["-wal", "-shm"] {
            let _ = fs::remove_file(dir.path().join(format!("transcript.db{suffix}")));
        }
        fs::write(&path, &bytes).unwrap();
        let checked = catch_unwind(AssertUnwindSafe(|| is_database_whole(&path, &filled)));
        !checked.unwrap_or_else(|failure| {
            eprintln!("damage: {what}");
            resume_unwind(failure)
        })
    };
    let mut found = 0;
    for at in (0..filled.file.len()).step_by(997) {
        found +=
            usize::from(is_damage_found(&|bytes| bytes[at] ^= 4, &format!("a bit of byte {at}")));
    }
    for page in (0..filled.file.len()).step_by(4096) {
        let number = page / 4096 + 1;
        // The header of a page holds the number of its rows.
        let fewer_rows = |bytes: &mut Vec<u8>| bytes[page + 4] = bytes[page + 4].saturating_sub(1);
        found += usize::from(is_damage_found(&fewer_rows, &format!("a row less on page {number}")));
        let zeros = |bytes: &mut Vec<u8>| bytes[page..page + 4096].fill(0);
        found += usize::from(is_damage_found(&zeros, &format!("zeros on page {number}")));
        let cut = |bytes: &mut Vec<u8>| bytes.truncate(page);
        found += usize::from(is_damage_found(&cut, &format!("cut off before page {number}")));
    }
    for (name, page) in list_root_pages(&path) {
        let end = page * 4096;
        for at in (end - 4096..end).step_by(31).filter(|at| filled.file[*at] != 0) {
            found += usize::from(is_damage_found(
                &|bytes| bytes[at] ^= 1,
                &format!("a bit of {name}, byte {at}"),
            ));
        }
    }
    assert!(found > 100, "only {found} damages were found");
}

#[test]
fn write_ahead_log_of_a_deleted_session_is_emptied() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("transcript.db");
    let store = SqliteTranscripts::open(&path).unwrap();
    let mut written = changes(vec![row(1, 10, "message")]);
    written.texts.push(text("0", false, &"x".repeat(1 << 20)));
    for _ in 0..5 {
        store.write(&id(), &written).unwrap();
    }
    store.remove(&id()).unwrap();
    assert_eq!(fs::metadata(dir.path().join("transcript.db-wal")).unwrap().len(), 0);
}
