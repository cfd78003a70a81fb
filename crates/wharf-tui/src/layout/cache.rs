//! Keeps laid-out rows. A row is laid out again if its revision, the width or its folding has changed; of a text that grew,
//! only the end is laid out.

use std::collections::HashMap;
use std::rc::Rc;

use wharf_api::TranscriptRow;

use super::RowLayout;
use crate::rows::RowPlace;
use crate::view::{RowLayoutOptions, lay_out_row};

/// The rows that are kept: several screens in both directions.
const MAX_CACHED_ROWS: usize = 1_000;

#[derive(Debug, Default)]
pub(crate) struct LayoutCache {
    rows: HashMap<RowPlace, (LayoutKey, Rc<RowLayout>)>,
}

/// Everything that a layout depends on besides the theme, which does not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LayoutKey {
    rev: u64,
    width: u16,
    is_toggled: bool,
    /// The length of the live output, which is not part of the row.
    live_bytes: u64,
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
        let key = LayoutKey { rev: row.rev, width: look.width, is_toggled: look.is_toggled, live_bytes };
        if let Some((held, layout)) = self.rows.get(&place)
            && *held == key
        {
            return Rc::clone(layout);
        }
        let earlier = self.rows.remove(&place).filter(|(held, _)| LayoutKey { rev: row.rev, ..*held } == key);
        // The lines of a picture that is still being drawn are not taken.
        let earlier = earlier.and_then(|(_, layout)| Rc::into_inner(layout));
        if self.rows.len() >= MAX_CACHED_ROWS {
            self.rows.clear();
        }
        let layout = Rc::new(lay_out_row(row, look, earlier));
        self.rows.insert(place, (key, Rc::clone(&layout)));
        layout
    }

    /// Forgets everything: another session is open.
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
    }
}
