//! The screen that is drawn on. Every text passes through here: none of it can control the
//! terminal.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::{Position, Rect};
use ratatui_core::style::Style;
use ratatui_core::text::Line;
use wharf_render::style::Theme;
use wharf_render::text::{display_width, to_printable, truncate_to_columns};

use super::ScreenFrame;

/// A screen that is being drawn.
#[derive(Debug)]
pub(crate) struct Canvas {
    buffer: Buffer,
    cursor: Option<Position>,
    pub(crate) theme: Theme,
}

impl Canvas {
    pub(crate) fn new(area: Rect, theme: Theme) -> Self {
        Self { buffer: Buffer::empty(area), cursor: None, theme }
    }

    pub(crate) fn finish(self) -> ScreenFrame {
        ScreenFrame { buffer: self.buffer, cursor: self.cursor }
    }

    /// Shows the cursor in this cell, if the screen has it.
    pub(crate) fn place_cursor(&mut self, x: u16, y: u16) {
        let place = Position::new(x, y);
        self.cursor = Some(place).filter(|place| self.buffer.area().contains(*place));
    }

    pub(crate) const fn hide_cursor(&mut self) {
        self.cursor = None;
    }

    /// Writes one line of text, cut with an ellipsis if it is wider than `width`. Returns the
    /// columns that it took.
    pub(crate) fn write(&mut self, x: u16, y: u16, width: u16, text: &str, style: Style) -> u16 {
        let shown = truncate_to_columns(&to_printable(text), usize::from(width));
        if !self.buffer.area().contains(Position::new(x, y)) {
            return 0;
        }
        let (end, _) = self.buffer.set_stringn(x, y, &shown, usize::from(width), style);
        end.saturating_sub(x)
    }

    /// Writes a text so that it ends at the right edge of the area, if there is room. Returns the
    /// columns that are left of it.
    pub(crate) fn write_right(&mut self, area: Rect, text: &str, style: Style) -> u16 {
        let columns = u16::try_from(display_width(&to_printable(text))).unwrap_or(u16::MAX);
        if columns == 0 || columns > area.width {
            return area.width;
        }
        self.write(area.right() - columns, area.y, columns, text, style);
        area.width - columns
    }

    /// Writes a laid-out line, whose text is printable already.
    pub(crate) fn write_line(&mut self, x: u16, y: u16, width: u16, line: &Line<'_>) {
        if self.buffer.area().contains(Position::new(x, y)) {
            self.buffer.set_line(x, y, line, width);
        }
    }

    /// Draws a horizontal line with a label near its beginning.
    pub(crate) fn write_rule(&mut self, area: Rect, label: &str, style: Style) {
        let width = usize::from(area.width);
        let label = if label.is_empty() { String::new() } else { format!(" {label} ") };
        let label = truncate_to_columns(&to_printable(&label), width.saturating_sub(1));
        let rest = width.saturating_sub(1 + display_width(&label));
        self.write(area.x, area.y, area.width, &format!("─{label}{}", "─".repeat(rest)), style);
    }

    /// Changes the style of all cells of an area.
    pub(crate) fn restyle(&mut self, area: Rect, style: Style) {
        self.buffer.set_style(area.intersection(*self.buffer.area()), style);
    }

    /// Empties an area for what lies over it.
    pub(crate) fn clear(&mut self, area: Rect) {
        let area = area.intersection(*self.buffer.area());
        for y in area.top()..area.bottom() {
            for x in area.left()..area.right() {
                if let Some(cell) = self.buffer.cell_mut((x, y)) {
                    cell.reset();
                }
            }
        }
    }
}
