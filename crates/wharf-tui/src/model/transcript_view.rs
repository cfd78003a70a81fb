//! The part of the transcript that is on the screen, the selected row, and the rows that are opened or folded.

use std::collections::BTreeSet;

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

#[derive(Clone, Debug, Default)]
pub(crate) struct TranscriptView {
    pub(crate) anchor: ScrollAnchor,
    pub(crate) selected: Option<RowPlace>,
    /// Rows that are shown otherwise than by default: opened if they are folded, folded if they are open.
    pub(crate) toggled: BTreeSet<RowPlace>,
    /// Rows whose run of steps is shown step by step.
    pub(crate) opened_runs: BTreeSet<RowPlace>,
    /// All entries of the pinned plan are shown.
    pub(crate) is_plan_open: bool,
    /// Rises with every change of the two sets.
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
