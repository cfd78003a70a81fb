//! The database of transcripts is derived: it keeps what it is given, and is made anew when it is damaged.

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use wharf_store::{
    LogId, RowFileChanges, RowRange, SqliteTranscripts, StoreError, StoredBlob, StoredFileChange, StoredRow,
    TextChange, TextSlice, TranscriptChanges, TranscriptCheckpoint, TranscriptProgress, TranscriptStore,
};

use crate::id;

pub(crate) fn row(number: u64, rev: u64, kind: &str) -> StoredRow {
    let json = format!("{{\"number\":{number}}}").into_bytes();
    StoredRow { number, seq: number * 10, rev, kind: kind.to_owned(), turn: Some("prm_1".to_owned()), json }
}

pub(crate) fn changes(rows: Vec<StoredRow>) -> TranscriptChanges {
    let checkpoint =
        TranscriptCheckpoint { fold: 1, epoch: 3, seq: 99, rows: rows.len() as u64, state: b"{}".to_vec() };
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
    RowRange { first: 1, last: u64::MAX, kind, newest_first: false, max_rows: 100, max_bytes: usize::MAX }
}

fn text(part: &str, replaces: bool, text: &str) -> TextChange {
    TextChange { number: 1, part: part.to_owned(), replaces, text: text.to_owned() }
}

#[test]
fn rows_are_found_by_number_kind_and_revision() {
    let store = SqliteTranscripts::in_memory().unwrap();
    let rows: Vec<StoredRow> = (1..=5).map(|n| row(n, 100 - n, if n % 2 == 0 { "tool" } else { "message" })).collect();
    store.write(&id(), &changes(rows.clone())).unwrap();
    assert_eq!(store.rows(&id(), &all(None)).unwrap(), rows);
    let newest = RowRange { last: 4, newest_first: true, max_rows: 2, ..all(None) };
    assert_eq!(store.rows(&id(), &newest).unwrap(), [rows[3].clone(), rows[2].clone()]);
    assert_eq!(store.rows(&id(), &all(Some("tool"))).unwrap(), [rows[1].clone(), rows[3].clone()]);
    let short = RowRange { max_bytes: 12, ..all(None) };
    assert_eq!(store.rows(&id(), &short).unwrap(), rows[..2], "the row that goes beyond is the last");
    assert_eq!(store.changed_after(&id(), 97, 10).unwrap(), [1, 2]);
    assert_eq!(store.changed_after(&id(), 0, 2).unwrap().len(), 2);
}

#[test]
fn changed_row_replaces_the_older_one() {
    let store = SqliteTranscripts::in_memory().unwrap();
    store.write(&id(), &changes(vec![row(1, 10, "tool")])).unwrap();
    store.write(&id(), &changes(vec![row(1, 20, "tool"), row(2, 20, "tool")])).unwrap();
    assert_eq!(store.rows(&id(), &all(None)).unwrap(), [row(1, 20, "tool"), row(2, 20, "tool")]);
    assert_eq!(store.changed_after(&id(), 10, 10).unwrap(), [1, 2]);
    assert_eq!(store.progress().unwrap(), [TranscriptProgress { id: id(), fold: 1, seq: 99, is_indexed: false }]);
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
    let first = RowFileChanges { number: 1, changes: vec![change(1, "a", "prm_1"), change(1, "b", "prm_1")] };
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
    assert_eq!(store.text(&id(), 1, "0", 2, 3).unwrap(), Some(TextSlice { text: "éa".to_owned(), ..within }));
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
    written.blobs = vec![StoredBlob { name: "b3_1".to_owned(), mime: "image/png".to_owned(), bytes: vec![1, 2] }];
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
    let garbage = |path: &Path| fs::write(path, "this is no database, and it is long enough to tell").unwrap();
    let version =
        |path: &Path| rusqlite::Connection::open(path).unwrap().execute_batch("PRAGMA user_version = 77").unwrap();
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
    assert!(matches!(store.write(&id(), &first), Err(StoreError::Recreated)), "rows from before are missing");
    first.generation = store.generation();
    store.write(&id(), &first).unwrap();
    assert_eq!(store.rows(&id(), &range).unwrap(), [row(1, 10, "tool")]);
}

/// Returns a database file with rows, a long text and a blob, and what it holds.
fn filled_database(dir: &Path) -> (Vec<u8>, Vec<StoredRow>, String) {
    let path = dir.join("transcript.db");
    let store = SqliteTranscripts::open(&path).unwrap();
    let rows: Vec<StoredRow> = (1..=60).map(|n| row(n, n, if n % 3 == 0 { "tool" } else { "message" })).collect();
    let mut all = changes(rows.clone());
    let long = "wörds ".repeat(30_000);
    all.texts.push(text("0", true, &long));
    all.blobs.push(StoredBlob { name: "b".to_owned(), mime: "image/png".to_owned(), bytes: vec![7; 9_000] });
    store.write(&id(), &all).unwrap();
    drop(store);
    (fs::read(&path).unwrap(), rows, long)
}

/// Reads everything. Returns `None` if the database was found to be damaged, and was made anew.
fn read_everything(path: &Path, long: &str) -> Option<Vec<StoredRow>> {
    let store = SqliteTranscripts::open(path).unwrap();
    let read = || -> Result<Vec<StoredRow>, StoreError> {
        store.checkpoint(&id())?;
        store.check_indexes(&id())?;
        let rows = store.rows(&id(), &all(None))?;
        let newest = RowRange { newest_first: true, max_rows: 7, ..all(None) };
        assert_eq!(store.rows(&id(), &newest)?.len(), rows.len().min(7));
        assert_eq!(store.rows(&id(), &all(Some("tool")))?.len(), rows.len() / 3);
        let mut whole = String::new();
        while let Some(slice) = store.text(&id(), 1, "0", whole.len() as u64, 100_000)?
            && !slice.text.is_empty()
        {
            whole.push_str(&slice.text);
        }
        assert!(long.starts_with(&whole), "a text that was not written");
        assert!(store.blob(&id(), "b")?.is_none_or(|blob| blob.bytes == [7; 9_000]), "a blob that was not written");
        Ok(rows)
    };
    let rows = read();
    if store.generation() > 0 {
        assert_eq!(store.rows(&id(), &all(None)).unwrap(), [], "the second read never fails");
        return None;
    }
    Some(rows.unwrap()).filter(|rows| !rows.is_empty())
}

#[test]
fn damaged_database_gives_all_rows_or_is_made_anew() {
    let dir = TempDir::new().unwrap();
    let (good, rows, long) = filled_database(dir.path());
    let path = dir.path().join("transcript.db");
    let try_damage = |spoil: &dyn Fn(&mut Vec<u8>), what: &str| {
        let mut bytes = good.clone();
        spoil(&mut bytes);
        for suffix in ["-wal", "-shm"] {
            let _ = fs::remove_file(dir.path().join(format!("transcript.db{suffix}")));
        }
        fs::write(&path, &bytes).unwrap();
        let found = read_everything(&path, &long);
        if let Some(found) = &found {
            assert_eq!(*found, rows, "{what}");
        }
        found.is_none()
    };
    let mut found = 0;
    for at in (0..good.len()).step_by(499) {
        found += usize::from(try_damage(&|bytes| bytes[at] ^= 4, &format!("a bit of byte {at}")));
    }
    for page in (0..good.len()).step_by(4096) {
        // The header of a page holds the number of its rows.
        let cells = try_damage(&|bytes| bytes[page + 4] = bytes[page + 4].saturating_sub(1), &format!("page {page}"));
        let zeros = try_damage(&|bytes| bytes[page..page + 4096].fill(0), &format!("zeros from {page}"));
        let cut = try_damage(&|bytes| bytes.truncate(page), &format!("cut at {page}"));
        found += usize::from(cells) + usize::from(zeros) + usize::from(cut);
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
