//! The SQLite index is derived: it may be lost, and then reports it.

use std::cell::RefCell;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use bytes::Bytes;
use tempfile::TempDir;
use wharf_store::{Index, IndexRow, SqliteIndex, StoreError, conformance};

use crate::id;

fn row() -> IndexRow {
    IndexRow {
        id: id(),
        seq: 3,
        bytes: 400,
        snapshot: Some(2),
        summary: Bytes::from_static(b"{}"),
    }
}

#[test]
fn the_sqlite_index_keeps_the_contract() {
    let dirs = RefCell::new(Vec::new());
    conformance::check_index(&|| {
        let dir = TempDir::new().unwrap();
        let index = SqliteIndex::open(&dir.path().join("index.sqlite")).unwrap();
        dirs.borrow_mut().push(dir);
        index
    });
}

#[test]
fn an_index_is_there_after_a_restart() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("index.sqlite");
    let index = SqliteIndex::open(&path).unwrap();
    assert!(!index.was_recreated());
    index.put(&[row()]).unwrap();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    drop(index);
    let index = SqliteIndex::open(&path).unwrap();
    assert!(!index.was_recreated());
    assert_eq!(index.all().unwrap(), [row()]);
}

#[test]
fn an_index_that_cannot_be_used_is_begun_anew() {
    let foreign = |sql: &'static str| {
        move |path: &std::path::Path| {
            rusqlite::Connection::open(path).unwrap().execute_batch(sql).unwrap()
        }
    };
    let garbage = |path: &std::path::Path| {
        fs::write(path, "this is no database, and it is long enough to tell").unwrap()
    };
    let bad_page = |path: &std::path::Path| {
        let mut bytes = fs::read(path).unwrap();
        bytes[4096..].fill(0x5a);
        fs::write(path, bytes).unwrap();
    };
    let spoil: [&dyn Fn(&std::path::Path); 6] = [
        &garbage,
        &bad_page,
        &foreign("PRAGMA user_version = 77"),
        &foreign("DROP TABLE log"),
        &foreign("DROP TABLE log; CREATE TABLE log (other)"),
        &foreign("PRAGMA user_version = 0"),
    ];
    for spoil in spoil {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("index.sqlite");
        SqliteIndex::open(&path).unwrap().put(&[row()]).unwrap();
        spoil(&path);
        let index = SqliteIndex::open(&path).unwrap();
        assert!(index.was_recreated());
        assert_eq!(index.all().unwrap(), []);
        index.put(&[row()]).unwrap();
        drop(index);
        assert!(!SqliteIndex::open(&path).unwrap().was_recreated());
    }
}

#[test]
fn a_deleted_index_is_empty() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("index.sqlite");
    SqliteIndex::open(&path).unwrap().put(&[row()]).unwrap();
    fs::remove_file(&path).unwrap();
    assert_eq!(SqliteIndex::open(&path).unwrap().all().unwrap(), []);
}

#[test]
fn a_path_that_cannot_be_opened_is_an_error_that_names_it() {
    let dir = TempDir::new().unwrap();
    let error = SqliteIndex::open(dir.path()).unwrap_err();
    assert!(matches!(error, StoreError::Io { .. }));
    assert!(error.to_string().contains(dir.path().to_str().unwrap()));
}
