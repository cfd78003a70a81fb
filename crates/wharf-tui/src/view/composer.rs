//! The composer: a line that divides it, the typed text, and the cursor.

use ratatui_core::layout::Rect;

use super::Canvas;
use super::areas::COMPOSER_MARK_COLUMNS;
use crate::composer::{TextBuffer, lay_out_editor};
use crate::model::{PaneFocus, TuiState};

pub(super) fn draw_composer(state: &TuiState, area: Rect, canvas: &mut Canvas) {
    let Some(open) = &state.open else { return };
    let is_focused = state.focus == PaneFocus::Composer && state.overlays.is_empty();
    if area.height > 1 {
        canvas.write_rule(Rect { height: 1, ..area }, "", canvas.theme.faint);
    }
    let top = area.y + u16::from(area.height > 1);
    let text = Rect { y: top, height: area.bottom().saturating_sub(top), ..area };
    let mark_style = if is_focused { canvas.theme.strong } else { canvas.theme.faint };
    canvas.write(text.x, text.y, 1, "❯", mark_style);
    let text =
        Rect { x: text.x + COMPOSER_MARK_COLUMNS, width: text.width.saturating_sub(COMPOSER_MARK_COLUMNS), ..text };
    draw_text_field(&open.composer, text, is_focused, canvas);
    if open.composer.is_empty() && !is_focused {
        canvas.write(text.x, text.y, text.width, "i or Tab to type", canvas.theme.faint);
    }
}

/// Draws a typed text; the line of the cursor stays in view.
pub(super) fn draw_text_field(buffer: &TextBuffer, area: Rect, is_focused: bool, canvas: &mut Canvas) {
    let laid = lay_out_editor(buffer.text(), buffer.cursor(), usize::from(area.width));
    let (line, column) = laid.cursor;
    let skipped = (line + 1).saturating_sub(usize::from(area.height));
    let style = if is_focused { canvas.theme.plain } else { canvas.theme.faint };
    for (text, y) in laid.lines.iter().skip(skipped).zip(area.top()..area.bottom()) {
        canvas.write(area.x, y, area.width, text, style);
    }
    if is_focused && area.height > 0 {
        let below = u16::try_from(line - skipped).unwrap_or(area.height);
        canvas.place_cursor(area.x + u16::try_from(column).unwrap_or(area.width), area.y + below);
    }
}
