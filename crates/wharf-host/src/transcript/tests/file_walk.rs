//! Random logs over a database file: rows and exports are the same live, after a crash, without the
//! file, and for a reader that has loaded only a part of the rows.

use std::collections::BTreeMap;
use std::path::Path;

use tempfile::TempDir;
use wharf_api::TranscriptRow;
use wharf_core::Seq;
use wharf_store::SqliteTranscripts;
use wharf_testkit::random::TestRandom;
use wharf_transcript::{ExportFormat, ExportHead};

use super::{
    Entry, LiveState, fold_afresh, fold_entries, grow_row, new_state, random_log, read_pages,
};
use crate::transcript::changes::RowUpdate;
use crate::transcript::pages::{PageAnchor, PageRequest, RowSlice};
use crate::transcript::row_cache::created_at_seq;

/// The rows of one page, few so that most rows are not loaded.
const PAGE_ROWS: usize = 5;

/// Returns the exports in all formats.
fn export_all(rows: &[TranscriptRow]) -> String {
    let head = ExportHead { session: "sess_1".to_owned(), ..ExportHead::default() };
    let mut text = String::new();
    for format in [ExportFormat::Markdown, ExportFormat::Json, ExportFormat::Html] {
        text.push_str(&format.begin(&head));
        rows.iter()
            .enumerate()
            .for_each(|(index, row)| text.push_str(&format.row(row, index == 0)));
        text.push_str(format.end());
    }
    text
}

fn read_page(state: &LiveState, anchor: PageAnchor, limit: usize) -> RowSlice {
    state.page(&PageRequest { anchor, limit, kinds: Vec::new() }).unwrap().unwrap()
}

fn row_key(id: &str) -> (u64, String) {
    (created_at_seq(id), id.to_owned())
}

/// A reader that began with the newest page. Older pages arrive some time after it asked for them.
struct PartialReader {
    rows: BTreeMap<(u64, String), TranscriptRow>,
    /// The newest revisions of rows that are not loaded.
    unseen: BTreeMap<String, u64>,
    before: Option<String>,
    on_the_way: Option<RowSlice>,
    position: Seq,
}

impl PartialReader {
    fn begin(state: &LiveState) -> Self {
        let page = read_page(state, PageAnchor::End, PAGE_ROWS);
        let position = page.as_of.map_or(Seq::ZERO, |position| position.seq);
        let rows = page.rows.into_iter().map(|row| (row_key(&row.id), row)).collect();
        Self {
            rows,
            unseen: BTreeMap::new(),
            before: page.before,
            on_the_way: None,
            position,
        }
    }

    fn follow(&mut self, state: &LiveState) {
        let changes = state.changes_after(self.position).unwrap();
        let Some(updates) = changes.updates else { return *self = Self::begin(state) };
        updates.into_iter().for_each(|update| self.apply(update));
        self.position = changes.as_of.map_or(Seq::ZERO, |position| position.seq);
    }

    fn apply(&mut self, update: RowUpdate) {
        let (id, rev) = match &update {
            RowUpdate::Whole(row) => (row.id.clone(), row.rev),
            RowUpdate::Grown(grown) | RowUpdate::TailGrown(grown) => (grown.id.clone(), grown.rev),
        };
        let key = row_key(&id);
        let is_older_than_all = self.rows.first_key_value().is_some_and(|(first, _)| key < *first);
        if is_older_than_all {
            self.unseen.insert(id, rev);
            return;
        }
        match update {
            RowUpdate::Whole(row) => {
                self.rows.insert(key, *row);
            }
            RowUpdate::Grown(grown) | RowUpdate::TailGrown(grown) => {
                grow_row(self.rows.get_mut(&key).expect("a row that grows is known"), grown);
            }
        }
    }

    fn ask_for_older(&mut self, state: &LiveState) {
        if let Some(before) = self.before.clone().filter(|_| self.on_the_way.is_none()) {
            self.on_the_way = Some(read_page(state, PageAnchor::Before(before), PAGE_ROWS));
        }
    }

    /// Takes the page that was on its way. Its rows that have changed meanwhile are read again.
    fn take_older(&mut self, state: &LiveState) {
        let Some(page) = self.on_the_way.take() else { return };
        self.before = page.before;
        for row in page.rows {
            let is_stale = self.unseen.remove(&row.id).is_some_and(|rev| rev > row.rev);
            let row = if is_stale { read_row(state, &row.id) } else { row };
            self.rows.insert(row_key(&row.id), row);
        }
    }

    /// Loads all rows that are missing.
    fn load_all(&mut self, state: &LiveState) -> Vec<TranscriptRow> {
        self.take_older(state);
        while self.before.is_some() {
            self.ask_for_older(state);
            self.take_older(state);
        }
        self.rows.values().cloned().collect()
    }
}

fn read_row(state: &LiveState, id: &str) -> TranscriptRow {
    let page = read_page(state, PageAnchor::Around(id.to_owned()), 1);
    page.rows.into_iter().find(|row| row.id == id).unwrap()
}

/// Opens the database again, as the next host does, and folds the rest of the log.
fn reopen(path: &Path, entries: &[Entry]) -> LiveState {
    let store = SqliteTranscripts::open(path).unwrap();
    let mut state = new_state(&store);
    let position = state.load().unwrap().map_or(0, |position| position.seq.0);
    fold_entries(&mut state, &entries[usize::try_from(position).unwrap()..]);
    state
}

fn walk(dice: &mut TestRandom, entries: &[Entry]) {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("transcript.db");
    let mut state = reopen(&path, &entries[..10]);
    let mut reader = PartialReader::begin(&state);
    let mut at = 10;
    while at < entries.len() {
        let next = (at + 1 + usize::try_from(dice.next_below(60)).unwrap()).min(entries.len());
        fold_entries(&mut state, &entries[at..next]);
        at = next;
        match dice.next_below(8) {
            0 => state.write().unwrap(),
            1 => {
                drop(state);
                state = reopen(&path, &entries[..at]);
            }
            2 => {
                drop(state);
                for end in ["", "-wal", "-shm"] {
                    let _ = std::fs::remove_file(dir.path().join(format!("transcript.db{end}")));
                }
                state = reopen(&path, &entries[..at]);
            }
            3 => reader.ask_for_older(&state),
            4 => reader.take_older(&state),
            _ => {}
        }
        reader.follow(&state);
    }
    let rows = fold_afresh(entries);
    let exports = export_all(&rows);
    assert_eq!(reader.load_all(&state), rows);
    for (found, how) in [
        (reader.load_all(&state), "by following"),
        (read_pages(&state, 7), "by pages"),
        (
            {
                drop(state);
                read_pages(&reopen(&path, entries), 60)
            },
            "after reopening",
        ),
    ] {
        assert_eq!(export_all(&found), exports, "{how}");
    }
    std::fs::remove_file(&path).unwrap();
    let state = reopen(&path, entries);
    assert_eq!(
        export_all(&read_pages(&state, 200)),
        exports,
        "after the derived data were deleted"
    );
}

#[test]
fn exports_of_random_logs_are_the_same_live_reopened_rebuilt_and_followed() {
    let mut dice = TestRandom::from_environment().unwrap();
    for _ in 0..6 {
        let entries = random_log(&mut dice, 300);
        walk(&mut dice, &entries);
    }
}
