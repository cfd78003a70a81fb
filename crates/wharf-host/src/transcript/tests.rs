//! Random logs: rows are the same live, after a restart, and by applying changes to an earlier
//! state.

mod acp_v2_fixture;
mod cold_directory;
mod ended_session;
mod file_walk;
mod lost_events;
mod reading;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use wharf_api::{ChangedFile, ChangedFileStatus, RowAppend, RowBody, RowPart, TranscriptRow};
use wharf_core::{
    AgentEvent, ClientId, Epoch, Event, Millis, PromptEnd, PromptEvent, PromptId, Raw, Sender, Seq,
    UpdateKind,
};
use wharf_store::{LogId, SqliteTranscripts, TranscriptStore};
use wharf_testkit::random::TestRandom;
use wharf_transcript::{FileChangeKind, Fold, MemoryRows, Secrets, list_file_changes};

use super::changes::RowUpdate;
use super::live::LiveState;
use super::pages::{PageAnchor, PageRequest};
use crate::session::cursor::{Batch, Entry};

/// Makes a log event by event.
struct LogMaker {
    dice: TestRandom,
    entries: Vec<Entry>,
    prompts: u64,
    /// The numbers of the prompts whose turns run.
    running: Vec<u64>,
}

impl LogMaker {
    fn new(dice: TestRandom) -> Self {
        Self { dice, entries: Vec::new(), prompts: 0, running: Vec::new() }
    }

    fn push(&mut self, event: Event) {
        let seq = Seq(self.entries.len() as u64 + 1);
        self.entries.push(Entry {
            seq,
            epoch: Epoch(1 + seq.0 / 500),
            at: Millis(1_000 + seq.0),
            event,
        });
    }

    fn update(&mut self, update: Value) {
        let kind = UpdateKind::from_tag(update["sessionUpdate"].as_str().unwrap_or_default());
        let frame = json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": "s", "update": update } });
        let frame = Raw::new(frame.to_string()).unwrap();
        self.push(Event::Agent(AgentEvent::Updated {
            update: kind,
            frame,
            title: None,
            tool: None,
        }));
    }

    fn begin_turn(&mut self) {
        self.prompts += 1;
        let prompt = PromptId::new(format!("prm_{}", self.prompts));
        let client = ClientId::new("c");
        let sender = Sender {
            client,
            chosen: None,
            name: None,
            version: None,
            token: None,
            parent: None,
            peer: None,
        };
        let frame = json!({ "jsonrpc": "2.0", "id": 1, "method": "session/prompt",
            "params": { "sessionId": "s", "prompt": [{ "type": "text", "text": format!("prompt {}", self.prompts) }] } });
        let frame = Raw::new(frame.to_string()).unwrap();
        let content = Seq(self.entries.len() as u64 + 1);
        let (key, first) = (None, false);
        self.push(Event::Prompt(PromptEvent::Accepted {
            prompt: prompt.clone(),
            sender,
            frame,
            key,
            first,
        }));
        self.push(Event::Prompt(PromptEvent::TurnStarted { prompt, content }));
        self.running.push(self.prompts);
    }

    /// Ends any of the running turns.
    fn end_turn(&mut self) {
        let place = usize::try_from(self.dice.next_below(self.running.len() as u64)).unwrap();
        let prompt = PromptId::new(format!("prm_{}", self.running.remove(place)));
        let frame =
            Raw::new(r#"{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}"#).unwrap();
        let end = PromptEnd::Answered { stop_reason: "end_turn".into(), frame };
        self.push(Event::Prompt(PromptEvent::Ended { prompt, end, failure: None }));
    }

    fn random_step(&mut self) {
        // A turn may begin while another one runs: some agents queue prompts by themselves.
        let begins = if self.running.is_empty() {
            self.dice.next_below(3) > 0
        } else {
            self.dice.next_below(40) == 0
        };
        if begins && self.running.len() < 3 {
            return self.begin_turn();
        }
        // Few ids, so that updates reach rows of earlier turns.
        let tool = format!("call-{}", self.dice.next_below(40));
        let word =
            self.dice
                .pick_one(&["parser", "Größe", "wombat", "src/row_store.rs", "解析器", "🎉"]);
        let words = format!("some words é😀 {word} ")
            .repeat(1 + usize::try_from(self.dice.next_below(6)).unwrap());
        match self.dice.next_below(12) {
            0..4 => self.update(json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": words } })),
            4 => self.update(json!({ "sessionUpdate": "agent_thought_chunk", "content": { "type": "text", "text": words } })),
            5 | 6 => self.update(json!({ "sessionUpdate": "tool_call", "toolCallId": tool, "title": words, "status": "in_progress" })),
            7 if self.dice.next_below(2) == 0 => {
                let (path, old) = (format!("/w/file-{}", self.dice.next_below(9)), self.dice.next_below(3) > 0);
                let status = ["completed", "failed", "in_progress"][usize::try_from(self.dice.next_below(3)).unwrap()];
                self.update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": tool, "status": status,
                    "content": [{ "type": "diff", "path": path, "oldText": old.then_some("a\nb\n"), "newText": words }] }));
            }
            7 | 8 => {
                let text = words.repeat(1 + usize::try_from(self.dice.next_below(200)).unwrap());
                self.update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": tool, "status": "completed",
                    "content": [{ "type": "content", "content": { "type": "text", "text": text } }] }));
            }
            9 => self.update(json!({ "sessionUpdate": "plan", "entries": [{ "content": words, "priority": "high", "status": "pending" }] })),
            10 => {
                let text = words.repeat(usize::try_from(self.dice.next_below(300)).unwrap());
                self.update(json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } }));
            }
            _ if !self.running.is_empty() => self.end_turn(),
            _ => self.update(json!({ "sessionUpdate": "usage_update", "used": 1, "size": 2 })),
        }
    }
}

pub(super) fn random_log(dice: &mut TestRandom, count: usize) -> Vec<Entry> {
    let mut maker = LogMaker::new(TestRandom::from_seed(dice.next_number()));
    while maker.entries.len() < count {
        maker.random_step();
    }
    maker.entries
}

/// Returns the rows of a log prefix, folded at once in memory.
pub(super) fn fold_afresh(entries: &[Entry]) -> Vec<TranscriptRow> {
    let (mut fold, mut rows, mut changes) = (Fold::default(), MemoryRows::default(), Vec::new());
    for entry in entries {
        fold.apply(entry.id(), entry.at, &entry.event, &mut rows, &mut changes);
    }
    rows.rows().to_vec()
}

/// Reads all rows in pages of this many.
fn read_pages(state: &LiveState, limit: usize) -> Vec<TranscriptRow> {
    let (mut rows, mut anchor) = (Vec::new(), PageAnchor::End);
    loop {
        let page = state.page(&PageRequest { anchor, limit, kinds: Vec::new() }).unwrap().unwrap();
        assert!(page.rows.len() <= 200);
        let mut older = page.rows;
        older.append(&mut rows);
        rows = older;
        match page.before {
            Some(id) => anchor = PageAnchor::Before(id),
            None => return rows,
        }
    }
}

/// A reader that applies changes as a client does.
#[derive(Clone, Default)]
struct Reader {
    rows: BTreeMap<(u64, String), TranscriptRow>,
    position: Seq,
}

impl Reader {
    fn put(&mut self, row: TranscriptRow) {
        let seq = super::row_cache::created_at_seq(&row.id);
        self.rows.insert((seq, row.id.clone()), row);
    }

    fn follow(&mut self, state: &LiveState) {
        let changes = state.changes_after(self.position).unwrap();
        match changes.updates {
            None => {
                self.rows.clear();
                read_pages(state, 200).into_iter().for_each(|row| self.put(row));
            }
            Some(updates) => updates.into_iter().for_each(|update| self.apply(update)),
        }
        self.position = changes.as_of.map_or(Seq::ZERO, |position| position.seq);
    }

    fn apply(&mut self, update: RowUpdate) {
        match update {
            RowUpdate::Whole(row) => self.put(*row),
            RowUpdate::Grown(grown) | RowUpdate::TailGrown(grown) => {
                let key = (super::row_cache::created_at_seq(&grown.id), grown.id.clone());
                grow_row(self.rows.get_mut(&key).expect("a row that grows is known"), grown);
            }
        }
    }

    fn rows(&self) -> Vec<TranscriptRow> {
        self.rows.values().cloned().collect()
    }
}

/// Appends text to a row as a reader does.
pub(super) fn grow_row(row: &mut TranscriptRow, grown: RowAppend) {
    assert_eq!(row.rev, grown.from, "the reader has the revision that the text follows");
    let (RowBody::Message(text) | RowBody::Thought(text)) = &mut row.body else {
        panic!("{row:?} grows")
    };
    let RowPart::Text(part) = &mut text.parts[grown.part] else { panic!("not a text") };
    let end = match &mut part.cut {
        Some(cut) => cut.tail.get_or_insert_default(),
        None => &mut part.text,
    };
    end.push_str(&grown.text);
    (row.rev, row.changed_at) = (grown.rev, grown.changed_at);
}

pub(super) fn new_state(store: &Arc<SqliteTranscripts>) -> LiveState {
    let store = Arc::clone(store) as Arc<dyn TranscriptStore>;
    LiveState::new(store, LogId::new("default", "s").unwrap(), Secrets::Hidden)
}

pub(super) fn fold_entries(state: &mut LiveState, entries: &[Entry]) {
    let to = entries.last().map_or(state.read_to, |entry| entry.seq);
    state.fold_batches(&[Batch::new(entries.to_vec())], to).unwrap();
}

/// Folds a log in random pieces, with writes and restarts in between, and compares at each stop.
fn walk(dice: &mut TestRandom, entries: &[Entry]) {
    let store = SqliteTranscripts::in_memory().unwrap();
    let mut state = new_state(&store);
    let mut readers = vec![Reader::default()];
    let mut at = 0;
    while at < entries.len() {
        let next = (at + 1 + usize::try_from(dice.next_below(60)).unwrap()).min(entries.len());
        fold_entries(&mut state, &entries[at..next]);
        at = next;
        match dice.next_below(6) {
            0 => state.write().unwrap(),
            // A crash: what was not written is folded again from the checkpoint.
            1 => {
                state = new_state(&store);
                let position = state.load().unwrap().map_or(0, |position| position.seq.0);
                let from = usize::try_from(position).unwrap();
                fold_entries(&mut state, &entries[from..at]);
            }
            2 => readers.push(readers[0].clone()),
            _ => {}
        }
        let reader = usize::try_from(dice.next_below(readers.len() as u64)).unwrap();
        readers[reader].follow(&state);
        let rows = fold_afresh(&entries[..at]);
        let files = state.changed_files(None, 100).unwrap().unwrap().files;
        assert_eq!(sort_by_path(files), count_changed_files(&rows), "after event {at}");
        assert_eq!(readers[reader].rows(), rows, "after event {at}");
    }
    let all = fold_afresh(entries);
    for limit in [1, 7, 60, 200] {
        assert_eq!(read_pages(&state, limit), all, "pages of {limit}");
    }
    for mut reader in readers {
        reader.follow(&state);
        assert_eq!(reader.rows(), all);
    }
}

fn sort_by_path(mut files: Vec<ChangedFile>) -> Vec<ChangedFile> {
    files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    files
}

/// Counts the changes of files from the oldest row to the newest, without any index.
fn count_changed_files(rows: &[TranscriptRow]) -> Vec<ChangedFile> {
    let mut files: BTreeMap<String, (ChangedFile, bool)> = BTreeMap::new();
    for row in rows {
        for change in list_file_changes(row) {
            let is_new = change.kind == FileChangeKind::Created;
            let status =
                if is_new { ChangedFileStatus::Created } else { ChangedFileStatus::Changed };
            let (path, at) = (change.path.clone(), change.at.clone());
            let (file, has_text) = files.entry(change.path).or_insert_with(|| {
                let (rows, turns) = (Vec::new(), Vec::new());
                let (added, removed, exact, row_count, turn_count) = (0, 0, true, 0, 0);
                let file = ChangedFile {
                    path,
                    status,
                    added,
                    removed,
                    exact,
                    rows,
                    row_count,
                    turns,
                    turn_count,
                    changed_at: at,
                };
                (file, false)
            });
            (file.added, file.removed) = (file.added + change.added, file.removed + change.removed);
            file.exact &= change.exact && !(is_new && *has_text);
            *has_text = true;
            file.changed_at = file.changed_at.clone().max(change.at);
            file.rows.insert(0, row.id.clone());
            file.row_count += 1;
            if let Some(turn) = row.turn.clone().filter(|turn| file.turns.first() != Some(turn)) {
                file.turns.insert(0, turn);
                file.turn_count += 1;
            }
        }
    }
    let mut files: Vec<ChangedFile> = files.into_values().map(|(file, _)| file).collect();
    for file in &mut files {
        file.rows.truncate(20);
        file.turns.truncate(20);
    }
    files
}

#[test]
fn rows_of_random_logs_are_the_same_live_restarted_and_followed() {
    let mut dice = TestRandom::from_environment().unwrap();
    for _ in 0..8 {
        let entries = random_log(&mut dice, 400);
        walk(&mut dice, &entries);
    }
}

#[test]
fn turn_of_100_000_events_is_read_in_pages_without_reading_it_whole() {
    let mut maker = LogMaker::new(TestRandom::from_seed(1));
    maker.begin_turn();
    for n in 0..50_000 {
        maker.update(json!({ "sessionUpdate": "tool_call", "toolCallId": format!("c{n}"), "title": "look", "status": "completed" }));
        maker.update(json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "found" } }));
    }
    let store = SqliteTranscripts::in_memory().unwrap();
    let mut state = new_state(&store);
    for entries in maker.entries.chunks(1_000) {
        fold_entries(&mut state, entries);
    }
    state.write().unwrap();
    let request = PageRequest { anchor: PageAnchor::End, limit: 60, kinds: Vec::new() };
    let page = state.page(&request).unwrap().unwrap();
    assert_eq!((page.rows.len(), page.is_mid_turn), (60, true));
    assert_eq!(page.turn_head.map(|head| head.summary).as_deref(), Some("prompt 1"));
    let older = PageRequest {
        anchor: PageAnchor::Before(page.before.unwrap()),
        ..request.clone()
    };
    let older = state.page(&older).unwrap().unwrap();
    assert_eq!(older.after.as_ref(), Some(&older.rows.last().unwrap().id));
    let around = PageRequest { anchor: PageAnchor::Around("51-25000".to_owned()), ..request };
    let around = state.page(&around).unwrap().unwrap();
    assert!(around.rows.iter().any(|row| row.id == "51-25000"), "{:?}", around.rows.first());
    // A reader at the beginning has to load a page: too much has changed.
    assert!(state.changes_after(Seq(3)).unwrap().updates.is_none());
    assert!(
        state
            .changes_after(Seq(99_990))
            .unwrap()
            .updates
            .is_some_and(|updates| updates.len() < 20)
    );
}

#[test]
fn changed_files_of_100_000_events_are_bounded_and_the_last_changed_come_first() {
    let mut maker = LogMaker::new(TestRandom::from_seed(1));
    maker.begin_turn();
    for n in 0..100_000 {
        let diff = json!({ "type": "diff", "path": format!("/w/{}", n % 3_000), "oldText": "a\n", "newText": "b\nc\n" });
        maker.update(
            json!({ "sessionUpdate": "tool_call", "toolCallId": format!("c{n}"), "title": "edit", "status": "completed",
            "content": [diff] }),
        );
    }
    let store = SqliteTranscripts::in_memory().unwrap();
    let mut state = new_state(&store);
    for entries in maker.entries.chunks(1_000) {
        fold_entries(&mut state, entries);
    }
    let found = state.changed_files(Some("prm_1"), 10).unwrap().unwrap();
    assert_eq!(
        (found.files.len(), found.total, found.added, found.removed),
        (10, 3_000, 200_000, 100_000)
    );
    assert!(!found.is_partial);
    let newest = &found.files[0];
    assert_eq!((newest.path.as_str(), newest.rows.len(), newest.row_count), ("/w/999", 20, 34));
    assert_eq!((newest.turns.as_slice(), newest.turn_count), (&["prm_1".to_owned()][..], 1));
    assert!(state.changed_files(Some("prm_2"), 10).unwrap().is_none());
}

#[test]
fn page_begins_with_a_short_turn_and_not_with_a_long_one() {
    let mut maker = LogMaker::new(TestRandom::from_seed(1));
    let turn = |maker: &mut LogMaker, tools: usize| {
        maker.begin_turn();
        for n in 0..tools {
            maker.update(json!({ "sessionUpdate": "tool_call", "toolCallId": format!("{n}"), "title": "look", "status": "completed" }));
        }
        maker.end_turn();
    };
    turn(&mut maker, 30);
    turn(&mut maker, 6);
    let store = SqliteTranscripts::in_memory().unwrap();
    let mut state = new_state(&store);
    fold_entries(&mut state, &maker.entries);
    let page = |anchor, limit| {
        state.page(&PageRequest { anchor, limit, kinds: Vec::new() }).unwrap().unwrap()
    };
    // The last turn has a prompt, six tool calls and an end.
    assert_eq!(
        (page(PageAnchor::End, 4).rows.len(), page(PageAnchor::End, 4).is_mid_turn),
        (8, false)
    );
    assert_eq!(
        (page(PageAnchor::End, 3).rows.len(), page(PageAnchor::End, 3).is_mid_turn),
        (3, true)
    );
    let newest = page(PageAnchor::End, 4);
    let older = page(PageAnchor::Before(newest.before.unwrap()), 4);
    assert_eq!((older.rows.len(), older.is_mid_turn, older.turn_head.is_some()), (4, true, true));
    assert_eq!(
        page(PageAnchor::End, 20).rows.len(),
        40,
        "12 rows of the first turn lead to its beginning"
    );
}
