//! Finding text in the open session: first in the rows that are held, then by the host's search.

use wharf_api::{SearchPage, TranscriptRow};

use crate::api_call::search_session;
use crate::input::StreamId;
use crate::layout::RowFold;
use crate::model::{
    CallPurpose, FindQuery, OpenSession, PaneFocus, ReadingPurpose, RowSearch, RowsLink,
    ScrollAnchor, TranscriptFind, TuiState,
};
use crate::rows::{OlderRows, RowPlace, row_text};
use crate::view::row_context;

/// The pages of hits that are looked through.
const MAX_HIT_PAGES: u32 = 10;

impl TuiState {
    /// Returns true while the text to find is being typed.
    pub(super) fn is_find_typed(&self) -> bool {
        let find = self.open.as_ref().and_then(|open| open.view.find.as_ref());
        self.focus == PaneFocus::Transcript && find.is_some_and(|find| find.is_typed)
    }

    /// Opens the field of the text to find. The palette does so from everywhere.
    pub(super) fn start_find(&mut self) {
        let Some(open) = &mut self.open else {
            self.tell("no session is open");
            return;
        };
        open.view.find = Some(TranscriptFind { is_typed: true, ..TranscriptFind::default() });
        self.focus = PaneFocus::Transcript;
    }

    /// Returns true if a text is looked for.
    pub(super) fn is_finding(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.view.find.is_some())
    }

    pub(super) fn close_find(&mut self) {
        if let Some(open) = &mut self.open {
            open.view.seek = None;
            open.view.find = None;
        }
        self.leave_sought_rows();
    }

    /// Looks for the typed text, from the selected row towards older ones.
    pub(super) fn submit_find(&mut self) {
        let Some(open) = &mut self.open else { return };
        let Some(find) = &mut open.view.find else { return };
        find.is_typed = false;
        if find.query.text().trim().is_empty() {
            open.view.find = None;
            return;
        }
        self.find_older(true);
    }

    /// Selects the next older row with the text. The selected row counts if `includes_selected`.
    pub(super) fn find_older(&mut self, includes_selected: bool) {
        let Some((open, query)) = self.find_query() else { return };
        let selected = open
            .view
            .selected
            .or_else(|| open.rows.iter().next_back().map(|(place, _)| place));
        let Some(selected) = selected else { return };
        let selected =
            if includes_selected { last_of_folded_run(self, open, selected) } else { selected };
        let has_text = |(_, row): &(RowPlace, &TranscriptRow)| query.matches(row);
        let here = open
            .rows
            .get(selected)
            .filter(|row| includes_selected && query.matches(row))
            .map(|_| selected);
        let found =
            here.or_else(|| open.rows.iter_before(selected).find(has_text).map(|(place, _)| place));
        match found {
            Some(place) => self.go_to_row(place),
            None if *open.rows.older() == OlderRows::None => {
                self.tell(format!("no older row has “{}”", query.text))
            }
            None => self.search_older_rows(None, 0),
        }
    }

    pub(super) fn find_newer(&mut self) {
        let Some((open, query)) = self.find_query() else { return };
        let Some(selected) = open.view.selected else { return };
        let is_hit =
            |(place, row): &(RowPlace, &TranscriptRow)| *place > selected && query.matches(row);
        let found = open.rows.iter_from(selected).find(is_hit).map(|(place, _)| place);
        match found {
            Some(place) => self.go_to_row(place),
            None if open.rows.has_newer() => {
                self.tell(format!(
                    "no newer row that is loaded has “{}” · G loads the newest",
                    query.text
                ));
            }
            None => self.tell(format!("no newer row has “{}”", query.text)),
        }
    }

    fn find_query(&self) -> Option<(&OpenSession, FindQuery)> {
        let open = self.open.as_ref()?;
        Some((open, open.view.find.as_ref()?.to_query()?))
    }

    /// Asks the host for rows that are not held.
    fn search_older_rows(&mut self, cursor: Option<&str>, page: u32) {
        let Some((open, query)) = self.find_query() else { return };
        let call = search_session(&open.id, &query.text, cursor);
        let search = RowSearch { stream: open.stream, query: query.text, page };
        if self.require_host() {
            self.call(call, CallPurpose::Reading(ReadingPurpose::FindRows(search)));
            self.tell("looking in older rows…");
        }
    }

    /// Takes a page of hits, and goes to the newest hit that is older than all held rows.
    pub(super) fn take_hits(&mut self, search: &RowSearch, hits: &SearchPage) {
        let Some((open, query)) = self.find_query() else { return };
        let is_wanted = open.stream == search.stream && query.text == search.query;
        let oldest = open.rows.iter().next().map(|(place, _)| place);
        let Some(oldest) = oldest.filter(|_| is_wanted) else { return };
        let mut places = hits.hits.iter().map(|hit| RowPlace::of_id(&hit.row));
        match (places.find(|place| *place < oldest), hits.next_cursor.as_deref()) {
            (Some(place), _) => {
                if let Some(open) = &mut self.open {
                    open.view.seek = Some(place);
                }
                self.seek_row();
            }
            (None, Some(cursor)) if search.page < MAX_HIT_PAGES => {
                self.search_older_rows(Some(cursor), search.page + 1);
            }
            (None, _) => self.tell(format!("no older row has “{}”", query.text)),
        }
    }

    /// Goes to the row that is sought, or loads older rows until it is there.
    pub(super) fn seek_row(&mut self) {
        let Some(open) = &mut self.open else { return };
        let Some(place) = open.view.seek else { return };
        if matches!(open.link, RowsLink::Opening { .. }) {
            return;
        }
        let is_past = open.rows.iter().next().is_some_and(|(first, _)| first <= place);
        if open.rows.get(place).is_some() {
            open.view.seek = None;
            self.go_to_row(place);
        } else if is_past || *open.rows.older() == OlderRows::None {
            open.view.seek = None;
            self.leave_sought_rows();
            self.tell("the row that was found is gone");
        } else {
            self.load_older_rows();
            self.tell("looking for the row…");
        }
    }

    /// Stops looking: the host did not answer.
    pub(super) fn stop_seeking(&mut self, stream: StreamId) {
        if let Some(open) = self.open.as_mut().filter(|open| open.stream == stream) {
            open.view.seek = None;
        }
        self.leave_sought_rows();
    }

    /// Goes back to the newest rows if the person was there, and the search has dropped them.
    fn leave_sought_rows(&mut self) {
        if self.open.as_ref().is_some_and(|open| open.view.anchor == ScrollAnchor::End) {
            self.rejoin_stream();
        }
    }
}

/// Returns the last row of the folded run that this row stands for, or the row itself.
fn last_of_folded_run(state: &TuiState, open: &OpenSession, place: RowPlace) -> RowPlace {
    let below = open
        .rows
        .iter_from(place)
        .map(|(place, _)| place)
        .filter(|below| *below > place);
    let hidden = below.take_while(|place| row_context(state, open, *place).fold == RowFold::Hidden);
    hidden.last().unwrap_or(place)
}

impl TranscriptFind {
    pub(crate) fn to_query(&self) -> Option<FindQuery> {
        let text = self.query.text().trim();
        (!text.is_empty()).then(|| FindQuery { text: text.to_owned(), folded: text.to_lowercase() })
    }
}

impl FindQuery {
    fn matches(&self, row: &TranscriptRow) -> bool {
        row_text(row).to_lowercase().contains(&self.folded)
    }
}
