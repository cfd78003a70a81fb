//! Keeps laid-out rows. A row is laid out again if its revision, the width or its folding has
//! changed; of a text that grew, only the end is laid out.

use std::collections::HashMap;
use std::rc::Rc;

use ratatui_core::text::Line;
use wharf_api::TranscriptRow;

use super::{RowArrangement, RowContext, RowLayout, arrange_rows};
use crate::model::TranscriptView;
use crate::rows::{RowPlace, RowSet};
use crate::session_words::has_failed;
use crate::view::{RowLayoutOptions, lay_out_row};

/// The rows that are kept: several screens in both directions.
const MAX_CACHED_ROWS: usize = 1_000;

#[derive(Debug, Default)]
pub(crate) struct LayoutCache {
    rows: HashMap<RowPlace, (LayoutKey, Rc<RowLayout>)>,
    arrangement: Option<(ArrangementKey, Rc<RowArrangement>)>,
    /// The rows that were laid out so far.
    #[cfg(test)]
    laid_out: u64,
    /// The page of the reader that is on the screen.
    document: Option<(DocumentKey, Rc<Vec<Line<'static>>>)>,
}

/// Everything that the lines of a reader's page depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DocumentKey {
    pub(crate) document: u64,
    pub(crate) page: usize,
    pub(crate) width: u16,
    pub(crate) is_unwrapped: bool,
    pub(crate) text_bytes: usize,
    pub(crate) selected: usize,
}

/// Everything that a layout depends on besides the theme, which does not change.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LayoutKey {
    rev: u64,
    width: u16,
    is_toggled: bool,
    context: RowContext,
    /// The length of the live output, which is not part of the row.
    live_bytes: u64,
}

/// Names everything that an arrangement depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ArrangementKey {
    rows: u64,
    folds: u64,
    /// A card tells why the session's agent failed.
    has_card: bool,
}

impl LayoutCache {
    /// Returns the lines of a row.
    pub(crate) fn lay_out(
        &mut self,
        place: RowPlace,
        row: &TranscriptRow,
        look: &RowLayoutOptions<'_>,
    ) -> Rc<RowLayout> {
        let live_bytes = look.live.map_or(0, |live| live.bytes);
        let context = look.context.clone();
        let key = LayoutKey {
            rev: row.rev,
            width: look.width,
            is_toggled: look.is_toggled,
            context,
            live_bytes,
        };
        if let Some((held, layout)) = self.rows.get(&place)
            && *held == key
        {
            return Rc::clone(layout);
        }
        // A layout of an older revision that looks the same is the beginning of the new one, if the
        // row is a text that grew.
        let earlier = self
            .rows
            .remove(&place)
            .filter(|(held, _)| LayoutKey { rev: row.rev, ..held.clone() } == key);
        // The lines of a picture that is still being drawn are not taken.
        let earlier = earlier.and_then(|(_, layout)| Rc::into_inner(layout));
        if self.rows.len() >= MAX_CACHED_ROWS {
            self.rows.clear();
        }
        let layout = Rc::new(lay_out_row(row, look, earlier));
        #[cfg(test)]
        {
            self.laid_out += 1;
        }
        self.rows.insert(place, (key, Rc::clone(&layout)));
        layout
    }

    /// Returns the way in which the rows stand among one another.
    pub(crate) fn arrange(&mut self, rows: &RowSet, view: &TranscriptView) -> Rc<RowArrangement> {
        let has_card = rows.state().is_some_and(|state| has_failed(&state.session));
        let key = ArrangementKey { rows: rows.revision(), folds: view.fold_revision, has_card };
        if let Some((held, arrangement)) = &self.arrangement
            && *held == key
        {
            return Rc::clone(arrangement);
        }
        let arrangement = Rc::new(arrange_rows(rows, view, has_card));
        self.arrangement = Some((key, Rc::clone(&arrangement)));
        arrangement
    }

    /// Returns the lines of a reader's page, made by `make_lines` if they are not held.
    pub(crate) fn lay_out_document(
        &mut self,
        key: DocumentKey,
        make_lines: impl FnOnce() -> Vec<Line<'static>>,
    ) -> Rc<Vec<Line<'static>>> {
        if let Some((held, lines)) = &self.document
            && *held == key
        {
            return Rc::clone(lines);
        }
        let lines = Rc::new(make_lines());
        self.document = Some((key, Rc::clone(&lines)));
        lines
    }

    /// Returns how many rows were laid out so far.
    #[cfg(test)]
    pub(super) const fn count_laid_out(&self) -> u64 {
        self.laid_out
    }

    /// Forgets everything: another session is open.
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.arrangement = None;
    }
}
