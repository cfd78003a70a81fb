//! The ask below the transcript: in three lines, or whole when it has the focus.

use ratatui_core::layout::Rect;
use ratatui_core::text::Line;
use wharf_api::{AskSubject, RowAsk};
use wharf_render::style::Theme;
use wharf_render::text::{shorten_path, to_printable, wrap_plain};

use super::rows::diff_lines;
use super::{Canvas, divide_screen};
use crate::model::{FormAnswer, PaneFocus, ResolvedAsk, TuiState, form_answers, option_key};

/// The lines of an ask that has no focus.
const FOLDED_LINES: u16 = 3;
/// The lines of an ask that was answered elsewhere.
const RESOLVED_LINES: u16 = 2;
/// The lines of the transcript that stay in view above a focused ask on a screen of some height.
const MIN_TRANSCRIPT_LINES: u16 = 3;
/// A pane that is lower belongs to the focused ask alone.
const LOW_PANE_LINES: u16 = 16;

/// Returns the lines that the dock takes of the area above the composer, if an ask is open.
pub(super) fn dock_lines(state: &TuiState, area: Rect) -> Option<u16> {
    let open = state.open.as_ref()?;
    if open.dock.resolved.is_some() {
        return Some(RESOLVED_LINES.min(area.height));
    }
    let asks = open.open_asks();
    let (_, ask) = open.dock.current(&asks)?;
    if state.focus != PaneFocus::Ask {
        return Some(FOLDED_LINES.min(area.height.saturating_sub(1)));
    }
    let subject = subject_lines(state, ask, area.width.saturating_sub(2)).len();
    let lines = u16::try_from(subject).unwrap_or(u16::MAX).saturating_add(option_lines(ask) + 2);
    let kept = if area.height < LOW_PANE_LINES { 0 } else { MIN_TRANSCRIPT_LINES };
    Some(lines.min(area.height.saturating_sub(kept)))
}

/// Returns the number of lines by which the subject of the focused ask can be scrolled.
pub(crate) fn dock_scroll_limit(state: &TuiState) -> usize {
    let area = divide_screen(state).session.and_then(|session| session.dock);
    let (Some(area), Some(open)) = (area, &state.open) else { return 0 };
    let asks = open.open_asks();
    let Some((_, ask)) = open.dock.current(&asks) else { return 0 };
    let room = usize::from(area.height.saturating_sub(1 + option_lines(ask)));
    subject_lines(state, ask, area.width.saturating_sub(2))
        .len()
        .saturating_sub(room)
}

/// Returns the whole subject as text, for a screen of its own.
pub(crate) fn whole_subject(state: &TuiState, ask: &RowAsk) -> Vec<String> {
    let width = divide_screen(state).overlay.width.saturating_sub(4);
    subject_lines(state, ask, width).iter().map(ToString::to_string).collect()
}

/// Returns the lines below the subject: the options, or those of a form.
fn option_lines(ask: &RowAsk) -> u16 {
    let options = if ask.options.is_empty() {
        form_answers(ask).len()
    } else {
        ask.options.len() + usize::from(ask.more_options > 0)
    };
    u16::try_from(options).unwrap_or(u16::MAX)
}

pub(super) fn draw_dock(state: &TuiState, area: Rect, canvas: &mut Canvas) {
    let Some(open) = &state.open else { return };
    if let Some(resolved) = &open.dock.resolved {
        draw_resolved(resolved, area, canvas);
        return;
    }
    let asks = open.open_asks();
    let Some((place, ask)) = open.dock.current(&asks) else { return };
    let is_focused = state.focus == PaneFocus::Ask && state.overlays.is_empty();
    let head = Rect { height: 1, ..area };
    draw_dock_rule(head, is_focused, canvas);
    let left =
        canvas.write_right(head, &format!(" {} of {} ", place + 1, asks.len()), canvas.theme.faint);
    let title = format!(" ? {} ", ask.subject.title);
    canvas.write(area.x + 1, area.y, left.saturating_sub(2), &title, canvas.theme.wants);
    let body = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    if state.focus == PaneFocus::Ask {
        draw_whole(state, ask, body, canvas);
    } else {
        draw_folded(state, ask, body, canvas);
    }
}

/// Draws the line above the card: double if the card has the focus.
fn draw_dock_rule(area: Rect, is_focused: bool, canvas: &mut Canvas) {
    if is_focused {
        canvas.write(
            area.x,
            area.y,
            area.width,
            &"═".repeat(usize::from(area.width)),
            canvas.theme.wants,
        );
    } else {
        canvas.write_rule(area, "", canvas.theme.faint);
    }
}

fn draw_resolved(resolved: &ResolvedAsk, area: Rect, canvas: &mut Canvas) {
    canvas.write_rule(Rect { height: 1, ..area }, &resolved.title, canvas.theme.faint);
    if area.height > 1 {
        let text = format!("✓ {}", resolved.outcome);
        canvas.write(
            area.x + 2,
            area.y + 1,
            area.width.saturating_sub(2),
            &text,
            canvas.theme.plain,
        );
    }
}

fn draw_folded(state: &TuiState, ask: &RowAsk, area: Rect, canvas: &mut Canvas) {
    let width = area.width.saturating_sub(2);
    if let Some(line) = subject_lines(state, ask, width).first() {
        canvas.write_line(area.x + 2, area.y, width, line);
    }
    if area.height > 1 {
        let line = Rect { x: area.x + 2, y: area.y + 1, width, height: 1 };
        let outside = match ask.subject.outside.len() {
            0 => String::new(),
            1 => "⚠ 1 path outside of the session's directory ".to_owned(),
            count => format!("⚠ {count} paths outside of the session's directory "),
        };
        let left = canvas.write_right(line, &outside, canvas.theme.bad);
        let hint =
            if state.options.is_readonly { "observers do not answer" } else { "Ctrl-G to answer" };
        canvas.write(line.x, line.y, left, hint, canvas.theme.faint);
    }
}

/// Draws the subject above and the options below: these are always in view.
fn draw_whole(state: &TuiState, ask: &RowAsk, area: Rect, canvas: &mut Canvas) {
    let Some(open) = &state.open else { return };
    let options = option_lines(ask).min(area.height);
    let subject_area = Rect { height: area.height - options, ..area };
    let width = area.width.saturating_sub(2);
    let lines = subject_lines(state, ask, width);
    let scroll = open
        .dock
        .scroll
        .min(lines.len().saturating_sub(usize::from(subject_area.height)));
    for (line, y) in lines.iter().skip(scroll).zip(subject_area.top()..subject_area.bottom()) {
        canvas.write_line(area.x + 2, y, width, line);
    }
    let below = lines.len().saturating_sub(scroll + usize::from(subject_area.height));
    if below > 0 && subject_area.height > 0 {
        let line = Rect { y: subject_area.bottom() - 1, height: 1, ..area };
        canvas.write_right(
            line,
            &format!(" {below} more lines · PgDn · v whole "),
            canvas.theme.selected,
        );
    }
    let is_waiting = open.dock.answering == Some(ask.ask_id);
    let room = Rect { y: subject_area.bottom(), height: options, ..area };
    draw_options(ask, open.dock.option, is_waiting, room, canvas);
}

fn draw_options(ask: &RowAsk, selected: usize, is_waiting: bool, area: Rect, canvas: &mut Canvas) {
    let mut lines: Vec<(String, &str)> = Vec::new();
    for (place, option) in ask.options.iter().enumerate() {
        let key = option_key(&ask.options, place).unwrap_or(' ');
        lines.push((key.to_string(), &option.name));
    }
    if ask.options.is_empty() {
        let describe = |answer: FormAnswer| match answer {
            FormAnswer::CopyLink => "Copy the link",
            FormAnswer::FillIn => "Fill in the form",
            FormAnswer::AcceptLink => "Done: I have opened the link",
            FormAnswer::Decline => "Decline",
        };
        lines.extend(
            form_answers(ask)
                .into_iter()
                .map(|(key, answer)| (key.to_string(), describe(answer))),
        );
    }
    for ((number, (key, name)), y) in lines.iter().enumerate().zip(area.top()..area.bottom()) {
        let is_chosen = number == selected;
        let style = match (is_chosen, is_waiting) {
            (_, true) => canvas.theme.faint,
            (true, false) => canvas.theme.strong,
            (false, false) => canvas.theme.plain,
        };
        let bar = if is_chosen { "▌" } else { " " };
        let sent = if is_waiting && is_chosen { " · sent…" } else { "" };
        canvas.write(area.x, y, area.width, &format!("{bar}{key}  {name}{sent}"), style);
    }
    if ask.more_options > 0 && area.height > 0 {
        let text = format!("{} more options: wharf asks", ask.more_options);
        canvas.write(
            area.x + 4,
            area.bottom() - 1,
            area.width.saturating_sub(4),
            &text,
            canvas.theme.faint,
        );
    }
}

/// Returns the subject of an ask: command, directory, paths, diffs, other text and the link to
/// open.
fn subject_lines(state: &TuiState, ask: &RowAsk, width: u16) -> Vec<Line<'static>> {
    let subject = &ask.subject;
    let theme = state.theme;
    let columns = usize::from(width);
    let home = state.options.home.as_deref();
    let mut lines = Vec::new();
    for line in subject.command.iter().flat_map(|command| command.lines()) {
        lines.extend(wrap_plain(&to_printable(line), theme.strong, columns));
    }
    if let Some(directory) = &subject.cwd {
        lines.extend(wrap_plain(
            &format!("in {}", shorten_path(directory, home, columns)),
            theme.faint,
            columns,
        ));
    }
    push_paths(state, subject, columns, &mut lines);
    lines.extend(diff_lines(&subject.diffs, width, theme));
    if let Some(text) = subject.text.as_deref().filter(|text| text.trim() != subject.title.trim()) {
        for line in text.trim_end().lines() {
            lines.extend(wrap_plain(&to_printable(line), theme.plain, columns));
        }
    }
    if let Some(link) = ask.form.as_ref().and_then(|form| form.url.as_deref()) {
        lines.extend(wrap_plain(&to_printable(link), theme.strong, columns));
    }
    if !subject.detailed {
        lines.push(Line::styled("The agent sent no details.", theme.faint));
    }
    lines
}

/// Adds the paths outside of the session's directory, which are marked, and those that no diff
/// names.
fn push_paths(
    state: &TuiState,
    subject: &AskSubject,
    columns: usize,
    lines: &mut Vec<Line<'static>>,
) {
    let theme: Theme = state.theme;
    let home = state.options.home.as_deref();
    let directory = state
        .open_info()
        .map(|info| shorten_path(&info.cwd, home, columns))
        .unwrap_or_default();
    for path in &subject.outside {
        let text = format!("⚠ {}   outside of {directory}", to_printable(path));
        lines.extend(wrap_plain(&text, theme.bad, columns));
    }
    let is_named = |path: &&String| {
        !subject.outside.contains(*path) && !subject.diffs.iter().any(|diff| diff.path == **path)
    };
    for path in subject.paths.iter().filter(is_named) {
        lines.extend(wrap_plain(&shorten_path(path, home, columns), theme.plain, columns));
    }
}
