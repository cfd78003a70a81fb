//! Random logs: search finds the same rows live, after a restart and after the database was lost,
//! and these are the rows that have the words.

use std::collections::HashSet;
use std::sync::Arc;

use tempfile::TempDir;
use wharf_api::{FOLD_NUMBER, TranscriptRow};
use wharf_core::SessionId;
use wharf_store::{LogId, SqliteTranscripts, TranscriptStore};
use wharf_testkit::random::TestRandom;
use wharf_transcript::search::{SearchPhrase, SearchQuery, index_words};

use super::super::tests::{fold_afresh, fold_entries, new_state, random_log};
use super::{TranscriptSearch, find_rows, index_some_rows};
use crate::session::cursor::Entry;

const QUERIES: &[&str] = &[
    "parser",
    "pars",
    "grosse wombat",
    "\"some words\"",
    "\"words some\"",
    "src/row_store.rs",
    "row sto",
    "析器",
    "🎉",
    "prompt 3",
    "prompt wombat parser",
    "missing",
];

/// Returns true if a row has all phrases, without any index.
fn has_phrases(row: &TranscriptRow, query: &SearchQuery) -> bool {
    let words = index_words(row);
    let words: Vec<&str> = words.split(' ').collect();
    let fits = |window: &[&str], phrase: &SearchPhrase| {
        let (last, first) = (phrase.words.last(), &phrase.words[..phrase.words.len() - 1]);
        let Some((found, before)) = window.split_last() else { return false };
        let ends = last.is_some_and(|last| {
            if phrase.is_prefix { found.starts_with(last) } else { found == last }
        });
        ends && before == first
    };
    query
        .phrases()
        .iter()
        .all(|phrase| words.windows(phrase.words.len()).any(|window| fits(window, phrase)))
}

/// Returns the ids of the rows that have the words, the newest first.
fn expected_ids(rows: &[TranscriptRow], query: &SearchQuery) -> Vec<String> {
    rows.iter()
        .rev()
        .filter(|row| has_phrases(row, query))
        .map(|row| row.id.clone())
        .collect()
}

/// Returns the ids of all hits, read in pages.
fn found_ids(store: &dyn TranscriptStore, query: &SearchQuery, limit: usize) -> Vec<String> {
    let sessions = HashSet::from([SessionId::new("s")]);
    let only: Vec<_> = store.progress().unwrap().into_iter().map(|known| known.id).collect();
    let mut search =
        TranscriptSearch { query: query.clone(), kinds: Vec::new(), before: None, limit };
    let mut ids = Vec::new();
    loop {
        let (hits, next) = find_rows(store, FOLD_NUMBER, &search, &sessions, &only).unwrap();
        for hit in hits {
            assert!(
                hit.snippet.iter().any(|part| part.is_match),
                "{:?} shows no match of {query:?}",
                hit.snippet
            );
            ids.push(hit.row.id);
        }
        match next {
            Some(_) => search.before = next,
            None => return ids,
        }
    }
}

/// Writes the words of all rows that wait for it.
fn index_all_rows(store: &SqliteTranscripts) {
    for known in store.progress().unwrap() {
        while index_some_rows(store, &known.id).unwrap() {}
    }
    assert!(store.progress().unwrap().iter().all(|known| known.is_indexed));
}

fn compare(
    store: &Arc<SqliteTranscripts>,
    entries: &[Entry],
    dice: &mut TestRandom,
    when: &str,
) -> usize {
    let (rows, mut hits) = (fold_afresh(entries), 0);
    index_all_rows(store);
    for text in QUERIES {
        let query = SearchQuery::parse(text).unwrap();
        let limit = 3 + usize::try_from(dice.next_below(50)).unwrap();
        let found = found_ids(&**store, &query, limit);
        assert_eq!(
            found,
            expected_ids(&rows, &query),
            "{text:?} {when}, after {} events",
            entries.len()
        );
        hits += found.len();
    }
    hits
}

#[test]
fn hits_in_random_logs_are_the_same_live_restarted_and_rebuilt() {
    let mut dice = TestRandom::from_environment().unwrap();
    let mut hits = 0;
    for _ in 0..3 {
        let entries = random_log(&mut dice, 300);
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("transcript.db");
        let store = SqliteTranscripts::open(&path).unwrap();
        let (mut state, mut at) = (new_state(&store), 0);
        while at < entries.len() {
            let next = (at + 1 + usize::try_from(dice.next_below(60)).unwrap()).min(entries.len());
            fold_entries(&mut state, &entries[at..next]);
            at = next;
            match dice.next_below(4) {
                // Comparing takes longer than all else.
                0 if at < 100 => {
                    state.write().unwrap();
                    compare(&store, &entries[..at], &mut dice, "live");
                }
                1 if at >= 100 => {
                    state.write().unwrap();
                    // A crash may come before any words of these rows are written, or after some.
                    if dice.next_below(2) == 0 {
                        index_some_rows(&*store, &LogId::new("default", "s").unwrap()).unwrap();
                    }
                }
                // A crash: what was not written is folded again from the checkpoint.
                2 => {
                    state = new_state(&store);
                    let position = state.load().unwrap().map_or(0, |position| position.seq.0);
                    fold_entries(&mut state, &entries[usize::try_from(position).unwrap()..at]);
                }
                _ => {}
            }
        }
        state.write().unwrap();
        compare(&store, &entries, &mut dice, "live");
        drop((state, store));
        let store = SqliteTranscripts::open(&path).unwrap();
        hits += compare(&store, &entries, &mut dice, "restarted");
        drop(store);
        std::fs::remove_file(&path).unwrap();
        let store = SqliteTranscripts::open(&path).unwrap();
        let mut state = new_state(&store);
        fold_entries(&mut state, &entries);
        state.write().unwrap();
        compare(&store, &entries, &mut dice, "rebuilt");
    }
    assert!(hits > 100, "only {hits} hits show nothing");
}
