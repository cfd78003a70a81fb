//! The rows that a reader has, and how the events of a stream change them (rule 13.5).

use std::collections::BTreeMap;

use wharf_api::{RowAppend, RowBody, RowPage, RowPart, RowStreamEvent, StateChange, TranscriptRow, TranscriptState};

/// A row's place in the transcript: the seq of the event that created it, and its number among the rows of that event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowPlace(u64, u64);

impl RowPlace {
    pub fn of_id(id: &str) -> Self {
        let (_, rest) = id.split_once('-').unwrap_or_default();
        let (seq, number) = rest.split_once('.').unwrap_or((rest, "1"));
        Self(seq.parse().unwrap_or_default(), number.parse().unwrap_or_default())
    }

    /// Returns the place of the last row that the event with this id can have made.
    pub fn after_event(id: &str) -> Self {
        Self(Self::of_id(id).0, u64::MAX)
    }

    const fn just_before(self) -> Self {
        Self(self.0, self.1.saturating_sub(1))
    }
}

/// The effect of an event on the rows.
#[derive(Clone, Debug, PartialEq)]
pub enum RowEffect {
    /// Nothing for the reader to show.
    None,
    /// The rows at these places are new or have changed, the oldest first.
    Changed(Vec<RowPlace>),
    /// The reader's copy of this row is out of date: it has to be read anew.
    Stale(String),
    /// The newest page came after rows that the reader has; the rows before this cursor may be new as well.
    Gap { before: String, rows: Vec<TranscriptRow> },
    /// The session beside its rows has changed.
    State,
    /// The session was deleted.
    Gone,
}

/// Where the rows before the oldest one that is held can be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OlderRows {
    /// There are no older rows.
    #[default]
    None,
    /// A cursor of the host.
    Before(String),
    /// Older rows were dropped: the page around this row has them.
    Around(String),
}

/// The rows of one session in their order.
#[derive(Debug)]
pub struct RowSet {
    rows: BTreeMap<RowPlace, TranscriptRow>,
    state: Option<TranscriptState>,
    /// Rows up to this place were dropped or never loaded.
    floor: Option<RowPlace>,
    older: OlderRows,
    max_rows: usize,
    /// Rises with every row that comes, changes otherwise than by an append, or goes.
    revision: u64,
}

impl RowSet {
    pub fn new(max_rows: usize) -> Self {
        Self { rows: BTreeMap::new(), state: None, floor: None, older: OlderRows::None, max_rows, revision: 0 }
    }

    pub fn state(&self) -> Option<&TranscriptState> {
        self.state.as_ref()
    }

    pub fn get(&self, place: RowPlace) -> Option<&TranscriptRow> {
        self.rows.get(&place)
    }

    /// Yields the rows with their places, the oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (RowPlace, &TranscriptRow)> + '_ {
        self.rows.iter().map(|(place, row)| (*place, row))
    }

    /// Yields the rows from this place on.
    pub fn iter_from(&self, place: RowPlace) -> impl Iterator<Item = (RowPlace, &TranscriptRow)> + '_ {
        self.rows.range(place..).map(|(place, row)| (*place, row))
    }

    /// Yields the rows before this place, the newest first.
    pub fn iter_before(&self, place: RowPlace) -> impl Iterator<Item = (RowPlace, &TranscriptRow)> + '_ {
        self.rows.range(..place).rev().map(|(place, row)| (*place, row))
    }

    /// Returns a number that rises with every row that comes, changes otherwise than by an append, or goes.
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Tells where the rows before the oldest one can be read.
    pub fn older(&self) -> &OlderRows {
        &self.older
    }

    /// Applies one event.
    pub fn apply(&mut self, event: RowStreamEvent) -> RowEffect {
        match event {
            RowStreamEvent::Page(page) => self.apply_page(*page),
            RowStreamEvent::Row(row) => RowEffect::of_changed(self.load(vec![*row])),
            RowStreamEvent::Append(append) => self.append(&append),
            RowStreamEvent::State(change) => self.apply_state(change),
            RowStreamEvent::Gone => RowEffect::Gone,
            // A page follows a reset. Rows that are known stay known, so that none is shown twice.
            RowStreamEvent::Reset(_) | RowStreamEvent::Beat(_) | RowStreamEvent::Other => RowEffect::None,
        }
    }

    /// Adds rows that were read apart from the stream, and returns the places of those that are new or newer. Rows older than
    /// the oldest one are left out.
    pub fn load(&mut self, rows: Vec<TranscriptRow>) -> Vec<RowPlace> {
        rows.into_iter().filter_map(|row| self.put(row)).collect()
    }

    /// Adds the page before the oldest row.
    pub fn load_older(&mut self, page: RowPage) {
        let first = page.rows.first().map(|row| RowPlace::of_id(&row.id));
        self.floor = match (&page.before, first) {
            (Some(_), Some(first)) => Some(first.just_before()),
            (Some(_), None) => self.floor,
            (None, _) => None,
        };
        self.older = page.before.map_or(OlderRows::None, OlderRows::Before);
        for row in page.rows {
            self.put(row);
        }
    }

    /// Forgets all rows and begins with these, which are the newest.
    pub fn restart(&mut self, rows: Vec<TranscriptRow>, before: Option<String>) {
        self.rows.clear();
        self.revision += 1;
        let first = rows.first().map(|row| RowPlace::of_id(&row.id));
        self.floor = first.filter(|_| before.is_some()).map(RowPlace::just_before);
        self.older = before.map_or(OlderRows::None, OlderRows::Before);
        self.load(rows);
    }

    /// Returns true if the reader has this row, or has dropped it.
    pub fn knows(&self, id: &str) -> bool {
        let place = RowPlace::of_id(id);
        self.rows.contains_key(&place) || self.floor.is_some_and(|floor| place <= floor)
    }

    fn apply_page(&mut self, page: RowPage) -> RowEffect {
        self.state = page.state.or(self.state.take());
        let newest = self.rows.last_key_value().map(|(place, _)| *place);
        let first = page.rows.first().map(|row| RowPlace::of_id(&row.id));
        if newest.is_none() && self.floor.is_none() {
            self.restart(page.rows, page.before);
            return RowEffect::of_changed(self.rows.keys().copied().collect());
        }
        match page.before.filter(|_| newest < first) {
            Some(before) => RowEffect::Gap { before, rows: page.rows },
            None => RowEffect::of_changed(self.load(page.rows)),
        }
    }

    /// Puts a row in its place if it is newer than the one there. Returns the place then.
    fn put(&mut self, row: TranscriptRow) -> Option<RowPlace> {
        let place = RowPlace::of_id(&row.id);
        let is_known = self.rows.get(&place).is_some_and(|known| known.rev >= row.rev);
        if is_known || self.floor.is_some_and(|floor| place <= floor) {
            return None;
        }
        self.rows.insert(place, row);
        self.revision += 1;
        Some(place)
    }

    /// Drops the oldest rows if there are more than `max_rows`. The reader calls it when it does not need them any more.
    pub fn drop_oldest(&mut self) {
        while self.rows.len() > self.max_rows {
            self.revision += 1;
            self.floor = self.rows.pop_first().map(|(place, _)| place);
            self.older = self.rows.values().next().map_or(OlderRows::None, |row| OlderRows::Around(row.id.clone()));
        }
    }

    fn append(&mut self, append: &RowAppend) -> RowEffect {
        let place = RowPlace::of_id(&append.id);
        let Some(row) = self.rows.get_mut(&place) else {
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
        RowEffect::Changed(vec![place])
    }

    fn apply_state(&mut self, change: StateChange) -> RowEffect {
        let Some(state) = &mut self.state else { return RowEffect::None };
        let StateChange { session, asks, plan, queue, settings, clients, live } = change;
        if let Some(session) = session {
            state.session = *session;
        }
        state.asks = asks.unwrap_or_else(|| std::mem::take(&mut state.asks));
        state.plan = plan.unwrap_or_else(|| state.plan.take());
        state.queue = queue.unwrap_or_else(|| std::mem::take(&mut state.queue));
        state.settings = settings.or_else(|| state.settings.take());
        state.clients = clients.unwrap_or_else(|| std::mem::take(&mut state.clients));
        state.live = live.unwrap_or_else(|| std::mem::take(&mut state.live));
        RowEffect::State
    }
}

impl RowEffect {
    fn of_changed(places: Vec<RowPlace>) -> Self {
        if places.is_empty() { Self::None } else { Self::Changed(places) }
    }
}

/// Returns the text of this part, if the row has parts and it is a text.
pub fn text_part(row: &mut TranscriptRow, part: usize) -> Option<&mut String> {
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
    fn texts(set: &mut RowSet, name: &str, data: Value) -> Vec<String> {
        let RowEffect::Changed(places) = apply(set, name, data) else { return Vec::new() };
        places.into_iter().map(|place| text_part(&mut set.get(place).unwrap().clone(), 0).unwrap().clone()).collect()
    }

    #[test]
    fn repeated_events_change_nothing_and_appends_join() {
        let mut set = RowSet::new(500);
        assert_eq!(texts(&mut set, "page", page(None, &[message("1-2", 2, "a")])), ["a"]);
        assert_eq!(texts(&mut set, "append", append("1-2", 2, 3, "b")), ["ab"]);
        assert_eq!(apply(&mut set, "append", append("1-2", 2, 3, "b")), RowEffect::None, "a repetition");
        assert_eq!(apply(&mut set, "row", message("1-2", 2, "a")), RowEffect::None, "an older one");
        assert_eq!(apply(&mut set, "append", append("1-2", 4, 5, "d")), RowEffect::Stale("1-2".to_owned()));
        assert_eq!(texts(&mut set, "row", message("1-2", 5, "abcd")), ["abcd"]);
        assert_eq!(apply(&mut set, "append", append("1-7", 7, 8, "x")), RowEffect::Stale("1-7".to_owned()));
    }

    #[test]
    fn a_page_after_a_reset_brings_only_new_rows_and_tells_of_a_gap() {
        let mut set = RowSet::new(500);
        let (one, two) = (message("1-2", 2, "a"), message("1-10", 10, "b"));
        apply(&mut set, "page", page(Some("f3.1-2"), std::slice::from_ref(&one)));
        assert_eq!(apply(&mut set, "reset", json!({ "why": "too_far_behind" })), RowEffect::None);
        assert_eq!(texts(&mut set, "page", page(None, &[one, two.clone()])), ["b"]);
        assert_eq!(apply(&mut set, "row", message("1-1", 99, "old")), RowEffect::None, "a row before the first page");
        let three = message("1-30", 30, "c");
        let RowEffect::Gap { before, rows } = apply(&mut set, "page", page(Some("f3.1-30"), &[three])) else {
            panic!("no gap")
        };
        assert_eq!((before.as_str(), rows.len(), set.knows("1-10"), set.knows("1-20")), ("f3.1-30", 1, true, false));
    }

    #[test]
    fn dropped_rows_can_be_loaded_again_around_the_oldest_one() {
        let mut set = RowSet::new(2);
        apply(&mut set, "page", page(None, &[message("1-2", 2, "a"), message("1-3", 3, "b"), message("1-4", 4, "c")]));
        set.drop_oldest();
        assert_eq!((set.len(), set.older()), (2, &OlderRows::Around("1-3".to_owned())));
        let older: RowPage =
            serde_json::from_value(page(None, &[message("1-2", 2, "a"), message("1-3", 3, "b")])).unwrap();
        set.load_older(older);
        assert_eq!((set.len(), set.older()), (3, &OlderRows::None));
        apply(&mut set, "row", message("1-9", 9, "d"));
        set.drop_oldest();
        assert_eq!((set.len(), set.knows("1-2")), (2, true));
    }

    #[test]
    fn state_keeps_the_members_that_did_not_change() {
        let mut set = RowSet::new(2);
        assert_eq!(apply(&mut set, "state", json!({ "asks": ["1-2"] })), RowEffect::None, "no page has come");
    }
}
