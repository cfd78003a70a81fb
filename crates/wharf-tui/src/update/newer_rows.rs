//! Limits the number of held rows, and loads newer rows that were dropped.

use wharf_api::RowPage;

use crate::api_call::read_newer_rows;
use crate::effect::TuiEffect;
use crate::input::StreamId;
use crate::model::{CallPurpose, OpenSession, ScrollAnchor, TuiState};
use crate::view::{transcript_area, visible_rows};

/// A newer page is loaded when so few rows are below the last visible one.
const LOAD_NEWER_BELOW_ROWS: usize = 20;

impl OpenSession {
    /// Drops rows that are far from those in view, if too many are held. A row that is sought
    /// stands among the older ones.
    pub(super) fn limit_held_rows(&mut self) {
        match (self.view.seek, self.view.anchor) {
            (Some(place), _) | (None, ScrollAnchor::At { place, .. }) => {
                self.rows.drop_far_from(place)
            }
            (None, ScrollAnchor::End) => self.rows.drop_oldest(),
        }
    }
}

impl TuiState {
    /// Requests newer rows when the last held rows come into view and newer rows were dropped.
    pub(super) fn load_newer_if_near(&mut self) {
        let Some(area) = transcript_area(self) else { return };
        let Some(open) = self
            .open
            .as_ref()
            .filter(|open| open.rows.has_newer() && !open.is_loading_newer)
        else {
            return;
        };
        let Some(last) = visible_rows(self, open, area).last().map(|row| row.place) else { return };
        let below = open.rows.iter_from(last).take(LOAD_NEWER_BELOW_ROWS).count();
        let Some((_, newest)) =
            open.rows.iter().next_back().filter(|_| below < LOAD_NEWER_BELOW_ROWS)
        else {
            return;
        };
        let call = read_newer_rows(&open.id, &newest.id);
        let stream = open.stream;
        if self.connection.is_connected() {
            self.call(call, CallPurpose::NewerRows { stream });
            if let Some(open) = &mut self.open {
                open.is_loading_newer = true;
            }
        }
    }

    /// Takes a page of newer rows. The rows in view stay where they are.
    pub(super) fn take_newer_rows(&mut self, stream: StreamId, page: RowPage) {
        let top = self
            .open
            .as_ref()
            .and_then(|open| visible_rows(self, open, transcript_area(self)?).first().copied());
        let Some(open) = self.open.as_mut().filter(|open| open.stream == stream) else { return };
        open.is_loading_newer = false;
        if !open.rows.has_newer() {
            return;
        }
        if let Some(top) = top.filter(|_| open.view.anchor == ScrollAnchor::End) {
            open.view.anchor = ScrollAnchor::At { place: top.place, line: top.first_line };
        }
        let is_newest = open.rows.load_newer(page);
        open.limit_held_rows();
        if is_newest {
            self.rejoin_stream();
        }
    }

    /// Opens the stream of rows again if newer rows were dropped: the first page of the stream has
    /// the newest rows, so that the client misses no row.
    pub(super) fn rejoin_stream(&mut self) {
        let Some(open) = self.open.as_mut() else { return };
        if !open.rows.rejoin() {
            return;
        }
        let stream = open.stream;
        let session = open.id.clone();
        self.emit(TuiEffect::OpenRows { stream, session });
    }
}
