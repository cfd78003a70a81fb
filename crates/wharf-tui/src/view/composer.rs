//! The composer: a line that divides it, the typed text, the cursor, and the completion above it.

use ratatui_core::layout::Rect;

use super::Canvas;
use super::areas::COMPOSER_MARK_COLUMNS;
use crate::composer::{TextBuffer, lay_out_editor};
use crate::model::{Completion, OpenSession, PaneFocus, TuiState, UploadState};
use crate::session_words::is_killed_by_person;

/// The lines of a completion; the selected item stays in view.
const MAX_COMPLETION_LINES: u16 = 8;

pub(super) fn draw_composer(state: &TuiState, area: Rect, canvas: &mut Canvas) {
    let Some(open) = &state.open else { return };
    let is_focused = state.focus == PaneFocus::Composer && state.overlays.is_empty();
    if area.height > 1 {
        let rule = Rect { height: 1, ..area };
        canvas.write_rule(rule, "", canvas.theme.faint);
        canvas.write_right(rule, &describe_attachments(open), canvas.theme.faint);
    }
    let top = area.y + u16::from(area.height > 1);
    let text = Rect { y: top, height: area.bottom().saturating_sub(top), ..area };
    let mark_style = if is_focused { canvas.theme.strong } else { canvas.theme.faint };
    canvas.write(text.x, text.y, 1, "❯", mark_style);
    let text = Rect {
        x: text.x + COMPOSER_MARK_COLUMNS,
        width: text.width.saturating_sub(COMPOSER_MARK_COLUMNS),
        ..text
    };
    draw_text_field(&open.composer, text, is_focused, canvas);
    if open.composer.is_empty() {
        let hint = describe_empty(state, open, is_focused);
        canvas.write(text.x, text.y, text.width, &hint, canvas.theme.faint);
    }
    if let Some(completion) = open.composing.completion.as_ref().filter(|_| is_focused) {
        draw_completion(completion, area, canvas);
    }
}

/// Returns the words in an empty composer.
fn describe_empty(state: &TuiState, open: &OpenSession, is_focused: bool) -> String {
    let info = state.open_info();
    if info.is_some_and(is_killed_by_person) {
        return "killed · Ctrl-X R resumes the session".to_owned();
    }
    if !is_focused {
        return "i or Tab to type".to_owned();
    }
    let has_commands = open
        .rows
        .state()
        .and_then(|state| state.settings.as_deref())
        .is_some_and(|all| !all.commands.is_empty());
    let commands = if has_commands { " · / commands" } else { "" };
    let waiting = open.rows.state().is_some_and(|state| !state.queue.is_empty());
    let waiting = if waiting { " · ↑ edits the waiting prompt" } else { "" };
    format!("a prompt{commands} · @ files{waiting}")
}

/// Returns the files that are on their way to the host.
fn describe_attachments(open: &OpenSession) -> String {
    let attached = open.composing.chips.attached(open.composer.text());
    let sending = attached
        .iter()
        .filter(|upload| matches!(upload.state, UploadState::Sending(_)))
        .count();
    match (attached.len(), sending) {
        (0, _) => String::new(),
        (count, 0) => format!(" {count} attached "),
        (count, sending) => format!(" {count} attached, {sending} on the way "),
    }
}

/// Draws the completion over the lines above the composer.
fn draw_completion(completion: &Completion, composer: Rect, canvas: &mut Canvas) {
    let count = u16::try_from(completion.items.len())
        .unwrap_or(u16::MAX)
        .min(MAX_COMPLETION_LINES)
        .min(composer.y);
    let area = Rect { y: composer.y - count, height: count, ..composer };
    canvas.clear(area);
    let skipped = (completion.selected + 1).saturating_sub(usize::from(count));
    for ((number, item), y) in
        completion.items.iter().enumerate().skip(skipped).zip(area.top()..area.bottom())
    {
        let line = Rect { y, height: 1, ..area };
        let used = canvas.write(
            area.x + 2,
            y,
            area.width.saturating_sub(2),
            &item.text,
            canvas.theme.plain,
        );
        let rest = area.width.saturating_sub(used + 5);
        canvas.write(area.x + used + 4, y, rest, &item.detail, canvas.theme.faint);
        if number == completion.selected {
            canvas.restyle(line, canvas.theme.selected);
        }
    }
}

/// Draws a typed text; the line of the cursor stays in view.
pub(super) fn draw_text_field(
    buffer: &TextBuffer,
    area: Rect,
    is_focused: bool,
    canvas: &mut Canvas,
) {
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
