//! The rows that a reader has, and how the events of a stream change them (rule 13.5).

use std::collections::BTreeMap;

use wharf_api::{RowAppend, RowBody, RowPage, RowPart, RowStreamEvent, StateChange, TranscriptRow, TranscriptState};

/// The rows that are kept. Older ones are printed already; a change of one of them is dropped.
const MAX_KEPT_ROWS: usize = 500;

/// A row's place in the transcript: the seq of the event that created it, and its number among the rows of that event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RowPlace(u64, u64);

impl RowPlace {
    pub(crate) fn of_id(id: &str) -> Self {
        let (_, rest) = id.split_once('-').unwrap_or_default();
        let (seq, number) = rest.split_once('.').unwrap_or((rest, "1"));
        Self(seq.parse().unwrap_or_default(), number.parse().unwrap_or_default())
    }
}

/// The effect of an event on the rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RowEffect {
    /// Nothing for the reader to show.
    None,
    /// These rows are new or have changed, the oldest first.
    Changed(Vec<TranscriptRow>),
    /// The reader's copy of this row is out of date: it has to be read anew.
    Stale(String),
    /// The newest page came after rows that the reader has; the rows before this cursor may be new as well.
    Gap { before: String, rows: Vec<TranscriptRow> },
    /// The session beside its rows has changed.
    State,
    /// The session was deleted.
    Gone,
}

#[derive(Debug, Default)]
pub(crate) struct RowSet {
    rows: BTreeMap<RowPlace, TranscriptRow>,
    state: Option<TranscriptState>,
    /// Rows up to this place were dropped or never loaded.
    floor: Option<RowPlace>,
}

impl RowSet {
    pub(crate) fn state(&self) -> Option<&TranscriptState> {
        self.state.as_ref()
    }

    /// Applies one event.
    pub(crate) fn apply(&mut self, event: RowStreamEvent) -> RowEffect {
        match event {
            RowStreamEvent::Page(page) => self.apply_page(*page),
            RowStreamEvent::Row(row) => RowEffect::of_changed(self.put(*row).into_iter().collect()),
            RowStreamEvent::Append(append) => self.append(&append),
            RowStreamEvent::State(change) => self.apply_state(change),
            RowStreamEvent::Gone => RowEffect::Gone,
            // A page follows a reset. Rows that are known stay known, so that none is shown twice.
            RowStreamEvent::Reset(_) | RowStreamEvent::Beat(_) | RowStreamEvent::Other => RowEffect::None,
        }
    }

    /// Adds rows that were read apart from the stream, and returns those that are new or newer.
    pub(crate) fn load(&mut self, rows: Vec<TranscriptRow>) -> Vec<TranscriptRow> {
        rows.into_iter().filter_map(|row| self.put(row)).collect()
    }

    /// Returns true if the reader has this row, or has dropped it.
    pub(crate) fn knows(&self, id: &str) -> bool {
        let place = RowPlace::of_id(id);
        self.rows.contains_key(&place) || self.floor.is_some_and(|floor| place <= floor)
    }

    fn apply_page(&mut self, page: RowPage) -> RowEffect {
        self.state = page.state.or(self.state.take());
        let newest = self.rows.last_key_value().map(|(place, _)| *place);
        let first = page.rows.first().map(|row| RowPlace::of_id(&row.id));
        let is_first_page = newest.is_none() && self.floor.is_none();
        let leaves_gap = newest < first && !is_first_page;
        if is_first_page && page.before.is_some() {
            self.floor = first.map(|RowPlace(seq, number)| RowPlace(seq, number.saturating_sub(1)));
        }
        match page.before.filter(|_| leaves_gap) {
            Some(before) => RowEffect::Gap { before, rows: page.rows },
            None => RowEffect::of_changed(self.load(page.rows)),
        }
    }

    /// Puts a row in its place if it is newer than the one there. Returns the row then.
    fn put(&mut self, row: TranscriptRow) -> Option<TranscriptRow> {
        let place = RowPlace::of_id(&row.id);
        let is_known = self.rows.get(&place).is_some_and(|known| known.rev >= row.rev);
        if is_known || self.floor.is_some_and(|floor| place <= floor) {
            return None;
        }
        self.rows.insert(place, row.clone());
        while self.rows.len() > MAX_KEPT_ROWS {
            self.floor = self.rows.pop_first().map(|(place, _)| place);
        }
        Some(row)
    }

    fn append(&mut self, append: &RowAppend) -> RowEffect {
        let Some(row) = self.rows.get_mut(&RowPlace::of_id(&append.id)) else {
            return if self.knows(&append.id) { RowEffect::None } else { RowEffect::Stale(append.id.clone()) };
        };
        if row.rev >= append.rev {
            return RowEffect::None;
        }
        let is_next = row.rev == append.from;
        let Some(text) = text_part(row, append.part).filter(|_| is_next) else {
            return RowEffect::Stale(append.id.clone());
        };
        text.push_str(&append.text);
        row.rev = append.rev;
        row.changed_at.clone_from(&append.changed_at);
        RowEffect::Changed(vec![row.clone()])
    }

    fn apply_state(&mut self, change: StateChange) -> RowEffect {
        let Some(state) = &mut self.state else { return RowEffect::None };
        if let Some(session) = change.session {
            state.session = *session;
        }
        if let Some(asks) = change.asks {
            state.asks = asks;
        }
        if let Some(plan) = change.plan {
            state.plan = plan;
        }
        if let Some(queue) = change.queue {
            state.queue = queue;
        }
        RowEffect::State
    }
}

impl RowEffect {
    fn of_changed(rows: Vec<TranscriptRow>) -> Self {
        if rows.is_empty() { Self::None } else { Self::Changed(rows) }
    }
}

/// Returns the text of this part, if the row has parts and it is a text.
pub(crate) fn text_part(row: &mut TranscriptRow, part: usize) -> Option<&mut String> {
    let parts = match &mut row.body {
        RowBody::Message(text) | RowBody::Thought(text) => &mut text.parts,
        RowBody::Prompt(prompt) => &mut prompt.parts,
        RowBody::Tool(tool) => &mut tool.parts,
        RowBody::Plan(_) | RowBody::Ask(_) | RowBody::Notice(_) | RowBody::TurnEnd(_) | RowBody::Unknown => {
            return None;
        }
    };
    match parts.get_mut(part)? {
        RowPart::Text(text) => Some(&mut text.text),
        RowPart::Blob(_) | RowPart::File(_) | RowPart::Unknown => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn message(id: &str, rev: u64, text: &str) -> Value {
        json!({ "id": id, "rev": rev, "at": "", "changedAt": "", "turn": null, "parent": null, "open": true,
            "summary": "", "kind": "message", "parts": [{ "type": "text", "text": text }] })
    }

    fn apply(set: &mut RowSet, name: &str, data: Value) -> RowEffect {
        set.apply(RowStreamEvent::read(name, data).unwrap())
    }

    fn page(before: Option<&str>, rows: &[Value]) -> Value {
        json!({ "fold": 3, "session": "sess_1", "asOf": "1-9", "rows": rows, "before": before, "after": null,
            "midTurn": false, "turnHead": null })
    }

    fn append(id: &str, from: u64, rev: u64, text: &str) -> Value {
        json!({ "id": id, "from": from, "rev": rev, "part": 0, "text": text, "changedAt": "" })
    }

    /// Returns the texts of the rows that the event changed.
    fn texts(effect: RowEffect) -> Vec<String> {
        let RowEffect::Changed(rows) = effect else { return Vec::new() };
        rows.into_iter().map(|mut row| text_part(&mut row, 0).unwrap().clone()).collect()
    }

    #[test]
    fn repeated_events_change_nothing_and_appends_join() {
        let mut set = RowSet::default();
        assert_eq!(texts(apply(&mut set, "page", page(None, &[message("1-2", 2, "a")]))), ["a"]);
        assert_eq!(texts(apply(&mut set, "append", append("1-2", 2, 3, "b"))), ["ab"]);
        assert_eq!(apply(&mut set, "append", append("1-2", 2, 3, "b")), RowEffect::None, "a repetition");
        assert_eq!(apply(&mut set, "row", message("1-2", 2, "a")), RowEffect::None, "an older one");
        assert_eq!(apply(&mut set, "append", append("1-2", 4, 5, "d")), RowEffect::Stale("1-2".to_owned()));
        assert_eq!(texts(apply(&mut set, "row", message("1-2", 5, "abcd"))), ["abcd"]);
        assert_eq!(apply(&mut set, "append", append("1-7", 7, 8, "x")), RowEffect::Stale("1-7".to_owned()));
    }

    #[test]
    fn a_page_after_a_reset_brings_only_new_rows_and_tells_of_a_gap() {
        let mut set = RowSet::default();
        let (one, two) = (message("1-2", 2, "a"), message("1-10", 10, "b"));
        apply(&mut set, "page", page(Some("f3.1-2"), std::slice::from_ref(&one)));
        assert_eq!(apply(&mut set, "reset", json!({ "why": "too_far_behind" })), RowEffect::None);
        assert_eq!(texts(apply(&mut set, "page", page(None, &[one, two.clone()]))), ["b"]);
        assert_eq!(apply(&mut set, "row", message("1-1", 99, "old")), RowEffect::None, "a row before the first page");
        let three = message("1-30", 30, "c");
        let RowEffect::Gap { before, rows } = apply(&mut set, "page", page(Some("f3.1-30"), &[three])) else {
            panic!("no gap")
        };
        assert_eq!((before.as_str(), rows.len(), set.knows("1-10"), set.knows("1-20")), ("f3.1-30", 1, true, false));
    }
}
