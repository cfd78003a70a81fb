//! Rows as lines of a given width, laid out once and kept, and the part of them that fits the
//! screen.

mod arrangement;
mod cache;
mod window;

pub(crate) use arrangement::{
    FailureDetail, RowArrangement, RowContext, RowFold, arrange_rows, has_tool_failed,
};
pub(crate) use cache::{DocumentKey, LayoutCache};
pub(crate) use window::{VisibleRow, find_visible, scroll_anchor};

use ratatui_core::text::Line;

/// A row as lines.
#[derive(Debug, Default)]
pub(crate) struct RowLayout {
    pub(crate) lines: Vec<Line<'static>>,
    /// Of a text that may grow: the part of it that is not laid out again then.
    pub(crate) settled: Option<SettledText>,
    /// A line at whose end the time since then is shown, in milliseconds since 1970.
    pub(crate) clock: Option<(usize, u64)>,
}

/// The beginning of a text whose lines stay as they are when the text grows.
#[derive(Debug, Default)]
pub(crate) struct SettledText {
    pub(crate) text: String,
    /// The lines of that text.
    pub(crate) lines: usize,
}

#[cfg(test)]
mod tests;
