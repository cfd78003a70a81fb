//! The index of words: finds rows of all transcripts, the newest first, and forgets what is
//! deleted.

use std::fs;

use tempfile::TempDir;
use wharf_store::{
    FoundRows, IndexStep, LogId, RowWords, SqliteTranscripts, StoredRow, TranscriptChanges,
    TranscriptStore, WordPhrase, WordSearch,
};

use crate::id;
use crate::transcript::{changes, row};

/// A row with a number, a time, a kind and words.
type RowFacts<'a> = (u64, u64, &'a str, &'a str);

fn written(rows: &[RowFacts<'_>]) -> TranscriptChanges {
    changes(rows.iter().map(|(number, at, kind, _)| row(*number, *at, kind)).collect())
}

/// Writes the words of at most so many rows.
fn index(store: &SqliteTranscripts, id: &LogId, rows: &[RowFacts<'_>], max_rows: usize) -> bool {
    let read_words = |stored: &StoredRow| {
        let (_, at_millis, _, words) =
            rows.iter().find(|(number, ..)| *number == stored.number).unwrap();
        RowWords { at_millis: *at_millis, words: (*words).to_owned() }
    };
    store
        .index_some_rows(
            id,
            &IndexStep { read_words: &read_words, max_rows, max_bytes: usize::MAX },
        )
        .unwrap()
}

/// Writes rows and their words.
fn write(store: &SqliteTranscripts, id: &LogId, rows: &[RowFacts<'_>]) {
    store
        .write(id, &TranscriptChanges { generation: store.generation(), ..written(rows) })
        .unwrap();
    assert!(!index(store, id, rows, usize::MAX));
}

/// Returns phrases: words of one phrase are joined by `+`, and a `*` says that the last word may go
/// on.
fn phrases(query: &str) -> Vec<WordPhrase> {
    let read = |text: &str| WordPhrase {
        words: text.trim_end_matches('*').split('+').map(str::to_owned).collect(),
        is_prefix: text.ends_with('*'),
    };
    query.split(' ').map(read).collect()
}

fn select_all(_: &LogId) -> bool {
    true
}

fn query(phrases: &[WordPhrase]) -> WordSearch<'_> {
    WordSearch {
        phrases,
        kinds: &[],
        fold: 1,
        only: None,
        is_selected: &select_all,
        before: None,
        max_rows: 100,
        max_looked_at: 1_000,
    }
}

/// Returns the sessions and numbers of the rows.
fn shown(found: &FoundRows) -> Vec<(String, u64)> {
    found
        .rows
        .iter()
        .map(|found| (found.id.name().to_owned(), found.row.number))
        .collect()
}

fn search(store: &SqliteTranscripts, text: &str) -> Vec<(String, u64)> {
    shown(&store.search(&query(&phrases(text))).unwrap())
}

fn other() -> LogId {
    LogId::new("default", "other").unwrap()
}

/// Returns a store in memory with two transcripts whose rows were created in turns.
fn two_transcripts() -> std::sync::Arc<SqliteTranscripts> {
    let store = SqliteTranscripts::in_memory().unwrap();
    let rows = [
        (1, 10, "prompt", "fix the parser"),
        (2, 30, "message", "the parser is fixed"),
        (3, 30, "tool", ""),
    ];
    write(&store, &id(), &rows);
    write(
        &store,
        &other(),
        &[(1, 20, "prompt", "parser the"), (2, 40, "tool", "run parsers ¶ the test")],
    );
    store
}

#[test]
fn rows_are_found_by_words_phrases_and_beginnings_with_the_newest_first() {
    let store = two_transcripts();
    let (here, there) = (id().name().to_owned(), "other".to_owned());
    let here = |number| (here.clone(), number);
    let there = |number| (there.clone(), number);
    assert_eq!(search(&store, "parser"), [here(2), there(1), here(1)]);
    assert_eq!(search(&store, "parser*"), [there(2), here(2), there(1), here(1)]);
    assert_eq!(search(&store, "the+parser"), [here(2), here(1)]);
    assert_eq!(search(&store, "the parser fixed"), [here(2)]);
    assert_eq!(search(&store, "parsers+the"), [], "no phrase spans two texts");
    assert_eq!(search(&store, "nothing"), []);
    for odd in [
        "\"",
        "AND",
        "quokka+\"*",
        "parser\"+OR+\"",
        "\0",
        "s1",
        "kprompt",
        "key",
        "NEAR(the",
        ")",
        "{tags}",
    ] {
        assert_eq!(search(&store, odd), [], "{odd:?} is a word like others");
    }
}

#[test]
fn selections_of_sessions_kinds_and_folds_hold() {
    let store = two_transcripts();
    let parser = phrases("parser");
    let kinds = ["prompt".to_owned(), "plan".to_owned()];
    let of_kinds = WordSearch { kinds: &kinds, ..query(&parser) };
    assert_eq!(
        shown(&store.search(&of_kinds).unwrap()),
        [("other".to_owned(), 1), (id().name().to_owned(), 1)]
    );
    let only = [other()];
    let of_session = WordSearch { only: Some(&only), ..query(&parser) };
    assert_eq!(shown(&store.search(&of_session).unwrap()), [("other".to_owned(), 1)]);
    let unknown = [LogId::new("default", "unknown").unwrap()];
    assert_eq!(
        shown(&store.search(&WordSearch { only: Some(&unknown), ..query(&parser) }).unwrap()),
        []
    );
    let is_other = |known: &LogId| *known == other();
    let visible = WordSearch { is_selected: &is_other, ..query(&parser) };
    assert_eq!(shown(&store.search(&visible).unwrap()), [("other".to_owned(), 1)]);
    let of_fold = WordSearch { fold: 2, ..query(&parser) };
    assert_eq!(shown(&store.search(&of_fold).unwrap()), [], "rows of other rules are not shown");
}

#[test]
fn pages_join_without_gaps_and_a_search_looks_at_a_bounded_number_of_rows() {
    let store = SqliteTranscripts::in_memory().unwrap();
    // Many rows of one millisecond, and a clock that jumps back.
    let rows: Vec<(u64, u64, &str, &str)> =
        (1..=50).map(|n| (n, 100 - n / 10, "message", "word")).collect();
    write(&store, &id(), &rows);
    let word = phrases("word");
    let all = shown(&store.search(&query(&word)).unwrap());
    assert_eq!(all.len(), 50);
    assert_eq!(
        all[..2],
        [(id().name().to_owned(), 9), (id().name().to_owned(), 8)],
        "later rows of one time come first"
    );
    for (max_rows, max_looked_at) in [(7, 1_000), (1_000, 7), (1, 1)] {
        let (mut joined, mut before) = (Vec::new(), None);
        loop {
            let page = store
                .search(&WordSearch { max_rows, max_looked_at, before, ..query(&word) })
                .unwrap();
            assert!(page.rows.len() <= max_rows.min(max_looked_at));
            joined.extend(shown(&page));
            match page.next {
                Some(next) => before = Some(next),
                None => break,
            }
        }
        assert_eq!(joined, all, "pages of {max_rows}");
    }
    let nobody = |_: &LogId| false;
    let page = store
        .search(&WordSearch { max_looked_at: 7, is_selected: &nobody, ..query(&word) })
        .unwrap();
    assert!(
        page.rows.is_empty() && page.next.is_some(),
        "a page may be empty although there is more to look at"
    );
}

#[test]
fn changed_row_is_found_by_its_new_words_alone_and_keeps_its_place() {
    let store = two_transcripts();
    write(&store, &id(), &[(1, 10, "prompt", "mend the lexer")]);
    assert_eq!(search(&store, "fix"), []);
    assert_eq!(search(&store, "lexer"), [(id().name().to_owned(), 1)]);
    let oldest = search(&store, "the").pop();
    assert_eq!(oldest, Some((id().name().to_owned(), 1)), "its place is that of its creation");
    write(&store, &id(), &[(1, 10, "prompt", "")]);
    assert_eq!(search(&store, "lexer"), [], "a row without words is not found");
    write(&store, &id(), &[(1, 10, "prompt", "lexer again")]);
    assert_eq!(search(&store, "lexer"), [(id().name().to_owned(), 1)]);
}

#[test]
fn words_outlast_a_restart_and_leave_the_file_with_their_transcript() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("transcript.db");
    let store = SqliteTranscripts::open(&path).unwrap();
    let doomed: Vec<String> = (0..500).map(|n| format!("numbat{n} wombat{n} the parser")).collect();
    let rows: Vec<(u64, u64, &str, &str)> = doomed
        .iter()
        .enumerate()
        .map(|(n, words)| (n as u64 + 1, n as u64, "message", words.as_str()))
        .collect();
    write(&store, &id(), &rows);
    write(&store, &other(), &[(1, 3, "message", "the quokka")]);
    drop(store);
    let store = SqliteTranscripts::open(&path).unwrap();
    assert_eq!(search(&store, "numbat7"), [(id().name().to_owned(), 8)]);
    assert_eq!(search(&store, "the").len(), 100);
    store.remove(&id()).unwrap();
    assert_eq!(search(&store, "numbat7"), []);
    assert_eq!(search(&store, "the"), [("other".to_owned(), 1)]);
    let bytes = fs::read(&path).unwrap();
    for word in [&b"numbat"[..], b"wombat", b"parser"] {
        assert!(
            !bytes.windows(word.len()).any(|window| window == word),
            "{word:?} is left in the file"
        );
    }
}

#[test]
fn database_of_the_version_without_words_is_made_anew() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("transcript.db");
    drop(SqliteTranscripts::open(&path).unwrap());
    let database = rusqlite::Connection::open(&path).unwrap();
    database.execute_batch("DROP TABLE search; PRAGMA user_version = 1").unwrap();
    drop(database);
    let store = SqliteTranscripts::open(&path).unwrap();
    write(&store, &id(), &[(1, 10, "prompt", "wombat")]);
    assert_eq!(search(&store, "wombat").len(), 1);
}

#[test]
fn recreated_database_is_empty_and_works() {
    let dir = TempDir::new().unwrap();
    let store = SqliteTranscripts::open(&dir.path().join("transcript.db")).unwrap();
    let rows = [(1, 10, "prompt", "wombat")];
    write(&store, &id(), &rows);
    store.recreate().unwrap();
    assert_eq!((search(&store, "wombat"), store.progress().unwrap()), (Vec::new(), Vec::new()));
    write(&store, &id(), &rows);
    assert_eq!(search(&store, "wombat").len(), 1);
}

/// Returns true if the index has the words of all rows.
fn is_indexed(store: &SqliteTranscripts) -> bool {
    store.progress().unwrap().iter().all(|known| known.is_indexed)
}

#[test]
fn words_follow_their_rows_step_by_step_and_after_a_restart() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("transcript.db");
    let rows =
        [(1, 10, "prompt", "wombat one"), (2, 20, "tool", ""), (3, 30, "message", "wombat three")];
    let store = SqliteTranscripts::open(&path).unwrap();
    store.write(&id(), &written(&rows)).unwrap();
    assert_eq!((search(&store, "wombat"), is_indexed(&store)), (Vec::new(), false));
    assert!(index(&store, &id(), &rows, 2), "a third row waits");
    assert_eq!((search(&store, "wombat").len(), is_indexed(&store)), (1, false));
    drop(store);
    let store = SqliteTranscripts::open(&path).unwrap();
    assert!(!is_indexed(&store), "a restart forgets no row");
    index(&store, &id(), &rows, 2);
    assert_eq!((search(&store, "wombat").len(), is_indexed(&store)), (2, true));
    let changed = [(1, 10, "prompt", "quokka")];
    store.write(&id(), &written(&changed)).unwrap();
    assert_eq!(
        (search(&store, "quokka").len(), is_indexed(&store)),
        (0, false),
        "its words are of an older revision"
    );
    index(&store, &id(), &changed, 2);
    assert_eq!(
        (search(&store, "quokka").len(), search(&store, "one").len(), is_indexed(&store)),
        (1, 0, true)
    );
}

#[test]
fn step_over_large_rows_ends_after_its_bytes() {
    let store = SqliteTranscripts::in_memory().unwrap();
    let rows: Vec<RowFacts<'_>> = (1..=9).map(|n| (n, n, "message", "wombat")).collect();
    store.write(&id(), &written(&rows)).unwrap();
    let read_words = |_: &StoredRow| RowWords { at_millis: 1, words: "wombat".to_owned() };
    let bytes = row(1, 1, "message").json.len();
    let step = IndexStep { read_words: &read_words, max_rows: 100, max_bytes: 3 * bytes };
    assert!(store.index_some_rows(&id(), &step).unwrap());
    assert_eq!(search(&store, "wombat").len(), 4, "the row that goes beyond is the last");
}

#[test]
fn words_of_a_deleted_transcript_are_not_written_any_more() {
    let store = SqliteTranscripts::in_memory().unwrap();
    let rows = [(1, 10, "prompt", "wombat")];
    store.write(&id(), &written(&rows)).unwrap();
    store.remove(&id()).unwrap();
    assert!(!index(&store, &id(), &rows, 10));
    write(&store, &other(), &[(1, 10, "prompt", "quokka")]);
    assert_eq!((search(&store, "wombat"), search(&store, "quokka").len()), (Vec::new(), 1));
}
