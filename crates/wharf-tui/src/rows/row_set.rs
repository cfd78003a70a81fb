//! The rows that a reader has, and how the events of a stream change them (rule 13.5).

use std::collections::BTreeMap;

use super::row_size::estimate_bytes;
use wharf_api::{
    RowAppend, RowBody, RowPage, RowPart, RowStreamEvent, RowTextPart, StateChange, TranscriptRow,
    TranscriptState,
};

/// The bytes of the rows that are held.
const MAX_HELD_BYTES: usize = 8 << 20;
/// So many rows are held however large they are: they may be on the screen.
const MIN_HELD_ROWS: usize = 200;
/// The rows of asks and plans that are held though the rows around them were dropped.
const MAX_PINNED_ROWS: usize = 64;

/// A row's place in the transcript: the seq of the event that created it, and its number among the
/// rows of that event.
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
    /// The reader's copy of this row is out of date: the reader has to read the row again.
    Stale(String),
    /// The newest page came after rows that the reader has; the rows before this cursor may be new
    /// as well.
    Gap { before: String, rows: Vec<TranscriptRow> },
    /// The session beside its rows has changed.
    State,
    /// The session was deleted.
    Gone,
}

/// Says where the client can read the rows before the oldest held row.
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
    /// Rows after this place were dropped: they have to be loaded again.
    ceiling: Option<RowPlace>,
    /// The next page of the stream joins the rows to the newest ones again.
    is_rejoining: bool,
    /// Asks and plans after the ceiling: the reader shows them wherever it is.
    pinned: BTreeMap<RowPlace, TranscriptRow>,
    /// The newest row after the ceiling that belongs to a turn, and that turn.
    turn_above: Option<(RowPlace, String)>,
    /// About how many bytes each row takes, and all of them.
    sizes: BTreeMap<RowPlace, usize>,
    bytes: usize,
    max_rows: usize,
    /// Rises with every row that comes, changes otherwise than by an append, or goes.
    revision: u64,
}

impl RowSet {
    pub fn new(max_rows: usize) -> Self {
        Self {
            rows: BTreeMap::new(),
            state: None,
            floor: None,
            older: OlderRows::None,
            ceiling: None,
            is_rejoining: false,
            pinned: BTreeMap::new(),
            turn_above: None,
            sizes: BTreeMap::new(),
            bytes: 0,
            max_rows,
            revision: 0,
        }
    }

    pub fn state(&self) -> Option<&TranscriptState> {
        self.state.as_ref()
    }

    pub fn get(&self, place: RowPlace) -> Option<&TranscriptRow> {
        self.rows.get(&place)
    }

    /// Returns a row, also an ask or a plan that is newer than all rows that are held.
    pub fn get_pinned(&self, place: RowPlace) -> Option<&TranscriptRow> {
        self.rows.get(&place).or_else(|| self.pinned.get(&place))
    }

    /// Returns the turn of the newest row that belongs to one, also if that row was dropped.
    pub fn newest_turn(&self) -> Option<&str> {
        let above = self.turn_above.as_ref().map(|(_, turn)| turn.as_str());
        above.or_else(|| self.rows.values().rev().find_map(|row| row.turn.as_deref()))
    }

    /// Yields the rows with their places, the oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (RowPlace, &TranscriptRow)> + '_ {
        self.rows.iter().map(|(place, row)| (*place, row))
    }

    /// Yields the rows from this place on.
    pub fn iter_from(
        &self,
        place: RowPlace,
    ) -> impl Iterator<Item = (RowPlace, &TranscriptRow)> + '_ {
        self.rows.range(place..).map(|(place, row)| (*place, row))
    }

    /// Yields the rows before this place, the newest first.
    pub fn iter_before(
        &self,
        place: RowPlace,
    ) -> impl Iterator<Item = (RowPlace, &TranscriptRow)> + '_ {
        self.rows.range(..place).rev().map(|(place, row)| (*place, row))
    }

    /// Returns a number that rises with every row that comes, changes otherwise than by an append,
    /// or goes.
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

    /// Returns true if newer rows than those that are held were dropped.
    pub const fn has_newer(&self) -> bool {
        self.ceiling.is_some()
    }

    /// Returns true if more rows can be held before some are dropped.
    pub fn has_room(&self) -> bool {
        self.rows.len() < self.max_rows && self.bytes < MAX_HELD_BYTES
    }

    /// Adds the page around the newest row that is held, after newer ones were dropped. Returns
    /// true if there are no rows after the page.
    pub fn load_newer(&mut self, page: RowPage) -> bool {
        let last = page.rows.last().map(|row| RowPlace::of_id(&row.id));
        self.ceiling = self.ceiling.map(|ceiling| last.map_or(ceiling, |last| last.max(ceiling)));
        for row in page.rows {
            self.put(row);
        }
        page.after.is_none()
    }

    /// Has the next page of the stream join the rows to the newest ones again. Returns false if no
    /// newer rows were dropped, or if that page is awaited already.
    pub const fn rejoin(&mut self) -> bool {
        let is_needed = self.has_newer() && !self.is_rejoining;
        self.is_rejoining |= is_needed;
        is_needed
    }

    /// Applies one event.
    pub fn apply(&mut self, event: RowStreamEvent) -> RowEffect {
        match event {
            RowStreamEvent::Page(page) => self.apply_page(*page),
            RowStreamEvent::Row(row) => RowEffect::of_changed(self.load(vec![*row])),
            RowStreamEvent::Append(append) | RowStreamEvent::Tail(append) => self.append(&append),
            RowStreamEvent::State(change) => self.apply_state(change),
            RowStreamEvent::Gone => RowEffect::Gone,
            // A page follows a reset. Rows that are known stay known, so that none is shown twice.
            RowStreamEvent::Reset(_) | RowStreamEvent::Beat(_) | RowStreamEvent::Other => {
                RowEffect::None
            }
        }
    }

    /// Adds rows that were read apart from the stream, and returns the places of those that are new
    /// or newer. Rows older than the oldest one are left out.
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
        self.sizes.clear();
        self.bytes = 0;
        self.forget_ceiling();
        self.revision += 1;
        let first = rows.first().map(|row| RowPlace::of_id(&row.id));
        self.floor = first.filter(|_| before.is_some()).map(RowPlace::just_before);
        self.older = before.map_or(OlderRows::None, OlderRows::Before);
        self.load(rows);
    }

    /// Returns true if the reader has this row, or has dropped it.
    pub fn knows(&self, id: &str) -> bool {
        let place = RowPlace::of_id(id);
        let is_dropped =
            self.floor.is_some_and(|floor| place <= floor) || self.is_above_ceiling(place);
        self.rows.contains_key(&place) || is_dropped
    }

    fn is_above_ceiling(&self, place: RowPlace) -> bool {
        self.ceiling.is_some_and(|ceiling| place > ceiling)
    }

    fn forget_ceiling(&mut self) {
        self.ceiling = None;
        self.is_rejoining = false;
        self.pinned.clear();
        self.turn_above = None;
    }

    fn apply_page(&mut self, page: RowPage) -> RowEffect {
        self.state = page.state.or(self.state.take());
        if self.has_newer() && !self.is_rejoining {
            return RowEffect::of_changed(self.load(page.rows));
        }
        self.forget_ceiling();
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
        if self.is_above_ceiling(place) {
            self.pin(place, row);
            return None;
        }
        let size = estimate_bytes(&row);
        let earlier = self.sizes.insert(place, size).unwrap_or_default();
        self.bytes = self.bytes.saturating_sub(earlier) + size;
        self.rows.insert(place, row);
        self.revision += 1;
        Some(place)
    }

    /// Keeps a row after the ceiling if it is an ask or a plan; of others only the newest turn.
    fn pin(&mut self, place: RowPlace, row: TranscriptRow) {
        if let Some(turn) = &row.turn
            && self.turn_above.as_ref().is_none_or(|(newest, _)| place >= *newest)
        {
            self.turn_above = Some((place, turn.clone()));
        }
        let is_older = self.pinned.get(&place).is_some_and(|known| known.rev >= row.rev);
        if is_older || !matches!(row.body, RowBody::Ask(_) | RowBody::Plan(_)) {
            return;
        }
        self.pinned.insert(place, row);
        if self.pinned.len() > MAX_PINNED_ROWS {
            self.pinned.pop_first();
        }
    }

    fn is_too_large(&self) -> bool {
        let is_heavy = self.bytes > MAX_HELD_BYTES && self.rows.len() > MIN_HELD_ROWS;
        is_heavy || self.rows.len() > self.max_rows
    }

    /// Drops the oldest rows if there are more than `max_rows`, or if they are too large. The
    /// reader calls it when it does not need them any more.
    pub fn drop_oldest(&mut self) {
        while self.is_too_large() {
            self.drop_first();
        }
    }

    /// Drops rows of the end that is farther from this place, if there are too many or if they are
    /// too large.
    pub fn drop_far_from(&mut self, place: RowPlace) {
        if !self.is_too_large() {
            return;
        }
        let mut before = self.rows.range(..place).count();
        while self.is_too_large() {
            if before > self.rows.len() - before {
                before -= 1;
                self.drop_first();
            } else {
                self.drop_last();
            }
        }
    }

    fn drop_first(&mut self) {
        self.revision += 1;
        let Some((place, _)) = self.rows.pop_first() else { return };
        self.forget_size(place);
        self.floor = Some(place);
        self.older = self
            .rows
            .values()
            .next()
            .map_or(OlderRows::None, |row| OlderRows::Around(row.id.clone()));
    }

    fn drop_last(&mut self) {
        self.revision += 1;
        let Some((place, row)) = self.rows.pop_last() else { return };
        self.forget_size(place);
        self.ceiling = Some(
            self.rows
                .last_key_value()
                .map_or_else(|| place.just_before(), |(last, _)| *last),
        );
        self.pin(place, row);
    }

    fn forget_size(&mut self, place: RowPlace) {
        self.bytes = self.bytes.saturating_sub(self.sizes.remove(&place).unwrap_or_default());
    }

    fn append(&mut self, append: &RowAppend) -> RowEffect {
        let place = RowPlace::of_id(&append.id);
        let Some(row) = self.rows.get_mut(&place) else {
            return if self.knows(&append.id) {
                RowEffect::None
            } else {
                RowEffect::Stale(append.id.clone())
            };
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
        self.bytes += append.text.len();
        *self.sizes.entry(place).or_default() += append.text.len();
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

/// Returns the text of this part that grows, if the row has parts and it is a text: the end of a
/// text that is cut.
pub fn text_part(row: &mut TranscriptRow, part: usize) -> Option<&mut String> {
    let parts = match &mut row.body {
        RowBody::Message(text) | RowBody::Thought(text) => &mut text.parts,
        RowBody::Prompt(prompt) => &mut prompt.parts,
        RowBody::Tool(tool) => &mut tool.parts,
        RowBody::Plan(_)
        | RowBody::Ask(_)
        | RowBody::Notice(_)
        | RowBody::TurnEnd(_)
        | RowBody::Unknown => {
            return None;
        }
    };
    match parts.get_mut(part)? {
        RowPart::Text(RowTextPart { cut: Some(cut), .. }) => Some(cut.tail.get_or_insert_default()),
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
        places
            .into_iter()
            .map(|place| text_part(&mut set.get(place).unwrap().clone(), 0).unwrap().clone())
            .collect()
    }

    #[test]
    fn repeated_events_change_nothing_and_appends_join() {
        let mut set = RowSet::new(500);
        assert_eq!(texts(&mut set, "page", page(None, &[message("1-2", 2, "a")])), ["a"]);
        assert_eq!(texts(&mut set, "append", append("1-2", 2, 3, "b")), ["ab"]);
        assert_eq!(
            apply(&mut set, "append", append("1-2", 2, 3, "b")),
            RowEffect::None,
            "a repetition"
        );
        assert_eq!(apply(&mut set, "row", message("1-2", 2, "a")), RowEffect::None, "an older one");
        assert_eq!(
            apply(&mut set, "append", append("1-2", 4, 5, "d")),
            RowEffect::Stale("1-2".to_owned())
        );
        assert_eq!(texts(&mut set, "row", message("1-2", 5, "abcd")), ["abcd"]);
        assert_eq!(
            apply(&mut set, "append", append("1-7", 7, 8, "x")),
            RowEffect::Stale("1-7".to_owned())
        );
    }

    #[test]
    fn text_that_is_appended_to_a_cut_part_goes_to_its_end() {
        let mut set = RowSet::new(500);
        let mut row = message("1-2", 2, "the beginning");
        row["parts"][0]["cut"] = json!({ "bytes": 99, "tail": "the en" });
        apply(&mut set, "page", page(None, &[row]));
        assert_eq!(texts(&mut set, "tail", append("1-2", 2, 3, "d")), ["the end"]);
        let (_, row) = set.iter().next().unwrap();
        assert_eq!(serde_json::to_value(row).unwrap()["parts"][0]["text"], "the beginning");
    }

    #[test]
    fn a_page_after_a_reset_brings_only_new_rows_and_tells_of_a_gap() {
        let mut set = RowSet::new(500);
        let one = message("1-2", 2, "a");
        let two = message("1-10", 10, "b");
        apply(&mut set, "page", page(Some("f3.1-2"), std::slice::from_ref(&one)));
        assert_eq!(apply(&mut set, "reset", json!({ "why": "too_far_behind" })), RowEffect::None);
        assert_eq!(texts(&mut set, "page", page(None, &[one, two.clone()])), ["b"]);
        assert_eq!(
            apply(&mut set, "row", message("1-1", 99, "old")),
            RowEffect::None,
            "a row before the first page"
        );
        let three = message("1-30", 30, "c");
        let RowEffect::Gap { before, rows } =
            apply(&mut set, "page", page(Some("f3.1-30"), &[three]))
        else {
            panic!("no gap")
        };
        assert_eq!(
            (before.as_str(), rows.len(), set.knows("1-10"), set.knows("1-20")),
            ("f3.1-30", 1, true, false)
        );
    }

    #[test]
    fn dropped_rows_can_be_loaded_again_around_the_oldest_one() {
        let mut set = RowSet::new(2);
        apply(
            &mut set,
            "page",
            page(None, &[message("1-2", 2, "a"), message("1-3", 3, "b"), message("1-4", 4, "c")]),
        );
        set.drop_oldest();
        assert_eq!((set.len(), set.older()), (2, &OlderRows::Around("1-3".to_owned())));
        let older: RowPage =
            serde_json::from_value(page(None, &[message("1-2", 2, "a"), message("1-3", 3, "b")]))
                .unwrap();
        set.load_older(older);
        assert_eq!((set.len(), set.older()), (3, &OlderRows::None));
        apply(&mut set, "row", message("1-9", 9, "d"));
        set.drop_oldest();
        assert_eq!((set.len(), set.knows("1-2")), (2, true));
    }

    #[test]
    fn rows_are_dropped_at_the_end_that_is_farther_away() {
        let mut set = RowSet::new(4);
        let rows: Vec<Value> = (2..8).map(|seq| message(&format!("1-{seq}"), seq, "a")).collect();
        apply(&mut set, "page", page(None, &rows));
        set.drop_far_from(RowPlace::of_id("1-3"));
        assert_eq!((set.len(), set.has_newer(), set.older()), (4, true, &OlderRows::None));
        assert_eq!(
            apply(&mut set, "row", message("1-9", 9, "b")),
            RowEffect::None,
            "a row after a gap is left out"
        );
        assert_eq!(
            apply(&mut set, "append", append("1-7", 7, 10, "b")),
            RowEffect::None,
            "a row that was dropped"
        );
        assert_eq!(
            apply(&mut set, "page", page(Some("f3.1-30"), &[message("1-30", 30, "c")])),
            RowEffect::None
        );

        let mut newer: RowPage = serde_json::from_value(page(
            Some("f3.1-4"),
            &[message("1-5", 5, "a"), message("1-6", 6, "a")],
        ))
        .unwrap();
        newer.after = Some("f3.1-6".to_owned());
        assert!(!set.load_newer(newer));
        assert_eq!((set.len(), set.has_newer()), (5, true));
        set.drop_far_from(RowPlace::of_id("1-6"));
        assert_eq!((set.len(), set.older()), (4, &OlderRows::Around("1-3".to_owned())));

        set.rejoin();
        let rows: Vec<Value> = (6..10).map(|seq| message(&format!("1-{seq}"), seq, "a")).collect();
        let RowEffect::Changed(places) = apply(&mut set, "page", page(Some("f3.1-6"), &rows))
        else {
            panic!("nothing changed")
        };
        assert_eq!((places.len(), set.has_newer()), (3, false));
    }

    #[test]
    fn large_rows_are_dropped_and_appends_count() {
        let mut set = RowSet::new(5_000);
        let text = "x".repeat(100_000);
        let rows: Vec<Value> =
            (2..302).map(|seq| message(&format!("1-{seq}"), seq, &text)).collect();
        apply(&mut set, "page", page(None, &rows));
        set.drop_oldest();
        assert_eq!(set.len(), MIN_HELD_ROWS, "rows that may be on the screen stay");
        let mut set = RowSet::new(5_000);
        let rows: Vec<Value> =
            (2..1_002).map(|seq| message(&format!("1-{seq}"), seq, "")).collect();
        apply(&mut set, "page", page(None, &rows));
        set.drop_oldest();
        assert_eq!(set.len(), 1_000);
        apply(
            &mut set,
            "append",
            append("1-1001", 1_001, 1_002, &"x".repeat(MAX_HELD_BYTES - 500_000)),
        );
        set.drop_oldest();
        assert!(set.len() < 600, "{} rows", set.len());
    }

    #[test]
    fn asks_and_plans_after_a_gap_stay_known() {
        let mut set = RowSet::new(2);
        let rows: Vec<Value> = (2..6).map(|seq| message(&format!("1-{seq}"), seq, "a")).collect();
        apply(&mut set, "page", page(None, &rows));
        set.drop_far_from(RowPlace::of_id("1-2"));
        let plan = json!({ "id": "1-9", "rev": 9, "at": "", "changedAt": "", "turn": null, "parent": null, "open": true,
            "summary": "", "kind": "plan", "done": 0, "total": 0, "entries": [] });
        apply(&mut set, "row", plan);
        let place = RowPlace::of_id("1-9");
        assert!(set.get(place).is_none() && set.get_pinned(place).is_some());
        let mut next = message("1-10", 10, "b");
        next["turn"] = json!("prm_2");
        apply(&mut set, "row", next);
        assert_eq!((set.get(RowPlace::of_id("1-10")), set.newest_turn()), (None, Some("prm_2")));
    }

    #[test]
    fn state_keeps_the_members_that_did_not_change() {
        let mut set = RowSet::new(2);
        assert_eq!(
            apply(&mut set, "state", json!({ "asks": ["1-2"] })),
            RowEffect::None,
            "no page has come"
        );
    }
}
