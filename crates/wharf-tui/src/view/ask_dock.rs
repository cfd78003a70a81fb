//! The ask below the transcript: in three lines, or whole when it has the focus.

use ratatui_core::layout::Rect;
use ratatui_core::text::Line;
use wharf_api::{AskOption, AskSubject, RowAsk};

use super::rows::diff_lines;
use super::{Canvas, Theme};
use crate::model::{PaneFocus, TuiState, only_option};
use crate::text::{to_printable, wrap_plain};

/// The lines of an ask that has no focus.
const FOLDED_LINES: u16 = 3;
/// The lines of the transcript that stay in view above a focused ask.
const MIN_TRANSCRIPT_LINES: u16 = 3;

/// Returns the lines that the dock takes of the area above the composer, if an ask is open.
pub(super) fn dock_lines(state: &TuiState, area: Rect) -> Option<u16> {
    let open = state.open.as_ref()?;
    let asks = open.open_asks();
    let (_, ask) = open.dock.current(&asks)?;
    if state.focus != PaneFocus::Ask {
        return Some(FOLDED_LINES.min(area.height.saturating_sub(1)));
    }
    let subject = subject_lines(&ask.subject, area.width, state.theme).len();
    let lines = u16::try_from(subject + ask.options.len().max(1) + 3).unwrap_or(u16::MAX);
    Some(lines.min(area.height.saturating_sub(MIN_TRANSCRIPT_LINES).max(FOLDED_LINES)).min(area.height))
}

pub(super) fn draw_dock(state: &TuiState, area: Rect, canvas: &mut Canvas) {
    let Some(open) = &state.open else { return };
    let asks = open.open_asks();
    let Some((place, ask)) = open.dock.current(&asks) else { return };
    let is_focused = state.focus == PaneFocus::Ask && state.overlays.is_empty();
    let count = format!(" {} of {} ", place + 1, asks.len());
    let title = format!("? {}", ask.subject.title);
    let style = if is_focused { canvas.theme.wants } else { canvas.theme.faint };
    canvas.write_rule(Rect { height: 1, ..area }, "", style);
    let count_width = canvas.write_right(Rect { height: 1, ..area }, &count, canvas.theme.faint);
    canvas.write(area.x + 1, area.y, count_width.saturating_sub(2), &format!(" {title} "), canvas.theme.wants);
    let body = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    if state.focus == PaneFocus::Ask {
        draw_whole(state, ask, body, canvas);
    } else {
        draw_folded(state, ask, body, canvas);
    }
}

fn draw_folded(state: &TuiState, ask: &RowAsk, area: Rect, canvas: &mut Canvas) {
    let width = area.width.saturating_sub(2);
    if let Some(line) = subject_lines(&ask.subject, width, state.theme).first() {
        canvas.write_line(area.x + 2, area.y, width, line);
    }
    if area.height > 1 {
        let hint = if state.options.is_readonly { "observers do not answer" } else { "Ctrl-G to answer" };
        canvas.write(area.x + 2, area.y + 1, width, hint, canvas.theme.faint);
    }
}

/// Draws the subject above and the options below: these are always in view.
fn draw_whole(state: &TuiState, ask: &RowAsk, area: Rect, canvas: &mut Canvas) {
    let Some(open) = &state.open else { return };
    let options = u16::try_from(ask.options.len().max(1)).unwrap_or(u16::MAX).min(area.height);
    let subject_area = Rect { height: area.height - options, ..area };
    let lines = subject_lines(&ask.subject, area.width.saturating_sub(2), state.theme);
    for (line, y) in lines.iter().skip(open.dock.scroll).zip(subject_area.top()..subject_area.bottom()) {
        canvas.write_line(area.x + 2, y, area.width.saturating_sub(2), line);
    }
    if ask.options.is_empty() {
        let text = "a form: answer it with wharf answer, or in an editor";
        canvas.write(area.x + 2, subject_area.bottom(), area.width.saturating_sub(2), text, canvas.theme.faint);
    }
    let is_waiting = open.dock.answering == Some(ask.ask_id);
    for ((number, option), y) in ask.options.iter().enumerate().zip(subject_area.bottom()..area.bottom()) {
        let is_chosen = number == open.dock.option;
        let style = match (is_chosen, is_waiting) {
            (_, true) => canvas.theme.faint,
            (true, false) => canvas.theme.strong,
            (false, false) => canvas.theme.plain,
        };
        let bar = if is_chosen { "▌" } else { " " };
        let text = format!("{bar}{}  {}", option_key(&ask.options, number, option), option.name);
        canvas.write(area.x, y, area.width, &text, style);
    }
}

/// Returns the key of an option: a letter if it is the only one of its kind, else its number.
fn option_key(options: &[AskOption], number: usize, option: &AskOption) -> String {
    let letter = match option.kind.as_str() {
        "allow_once" => Some("a"),
        "allow_always" => Some("A"),
        "reject_once" => Some("d"),
        _ => None,
    };
    let letter = letter.filter(|_| only_option(options, &option.kind).is_some());
    letter.map_or_else(|| (number + 1).to_string(), str::to_owned)
}

/// Returns the subject of an ask: command, directory, paths, diffs and other text.
fn subject_lines(subject: &AskSubject, width: u16, theme: Theme) -> Vec<Line<'static>> {
    let columns = usize::from(width);
    let mut lines = Vec::new();
    if let Some(command) = &subject.command {
        for line in command.lines() {
            lines.extend(wrap_plain(&to_printable(line), theme.strong, columns));
        }
    }
    if let Some(directory) = &subject.cwd {
        lines.extend(wrap_plain(&format!("in {}", to_printable(directory)), theme.faint, columns));
    }
    for path in &subject.outside {
        let text = format!("⚠ {}   outside of the session's directory", to_printable(path));
        lines.extend(wrap_plain(&text, theme.bad, columns));
    }
    let is_named =
        |path: &&String| !subject.outside.contains(*path) && !subject.diffs.iter().any(|diff| diff.path == **path);
    for path in subject.paths.iter().filter(is_named) {
        lines.extend(wrap_plain(&to_printable(path), theme.plain, columns));
    }
    lines.extend(diff_lines(&subject.diffs, width, theme));
    if let Some(text) = subject.text.as_deref().filter(|text| text.trim() != subject.title.trim()) {
        for line in text.trim_end().lines() {
            lines.extend(wrap_plain(&to_printable(line), theme.plain, columns));
        }
    }
    if !subject.detailed {
        lines.push(Line::styled("The agent sent no details.", theme.faint));
    }
    lines
}
