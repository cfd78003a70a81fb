//! Rows as lines of a given width, laid out once and kept, and the part of them that fits the screen.

mod cache;
mod window;

pub(crate) use cache::LayoutCache;
pub(crate) use window::{VisibleRow, find_visible, scroll_anchor};

use ratatui_core::text::Line;

/// A row as lines.
#[derive(Debug, Default)]
pub(crate) struct RowLayout {
    pub(crate) lines: Vec<Line<'static>>,
}
