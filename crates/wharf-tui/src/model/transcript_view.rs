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
}
