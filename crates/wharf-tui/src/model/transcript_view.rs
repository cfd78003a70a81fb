//! The part of the transcript that is on the screen, the selected row, and the rows that are opened
//! or folded.

use std::collections::BTreeSet;

use crate::composer::TextBuffer;
use crate::rows::RowPlace;

/// The first line on the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ScrollAnchor {
    /// The newest line is in view, and stays so.
    #[default]
    End,
    /// This line of this row is the first one.
    At { place: RowPlace, line: usize },
}

/// A text that is looked for.
#[derive(Debug, Default)]
pub(crate) struct TranscriptFind {
    pub(crate) query: TextBuffer,
    /// The text is being typed.
    pub(crate) is_typed: bool,
}

/// The text of a search, as it was typed and in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FindQuery {
    pub(crate) text: String,
    pub(crate) folded: String,
}

#[derive(Debug, Default)]
pub(crate) struct TranscriptView {
    pub(crate) anchor: ScrollAnchor,
    pub(crate) selected: Option<RowPlace>,
    /// Rows that are shown otherwise than by default: opened if they are folded, folded if they are
    /// open.
    pub(crate) toggled: BTreeSet<RowPlace>,
    /// Rows whose run of steps is shown step by step.
    pub(crate) opened_runs: BTreeSet<RowPlace>,
    pub(crate) find: Option<TranscriptFind>,
    /// A row that was found and is not loaded yet.
    pub(crate) seek: Option<RowPlace>,
    /// The newest row at the time when the person stopped following the end.
    pub(crate) left_end_at: Option<RowPlace>,
    /// The newest row at the time when the person went elsewhere.
    pub(crate) unread_after: Option<RowPlace>,
    /// All entries of the pinned plan are shown.
    pub(crate) is_plan_open: bool,
    /// Rises with every change of the rows that are folded or marked as new.
    pub(crate) fold_revision: u64,
}

impl TranscriptView {
    /// Opens or folds a row. The first row of a run opens the run, then itself, then folds both.
    pub(crate) fn toggle(&mut self, place: RowPlace, is_run_folded: bool, is_run_head: bool) {
        self.fold_revision += 1;
        if is_run_folded {
            self.opened_runs.insert(place);
        } else if !self.toggled.remove(&place) {
            self.toggled.insert(place);
        } else if is_run_head {
            self.opened_runs.remove(&place);
        }
    }
}
