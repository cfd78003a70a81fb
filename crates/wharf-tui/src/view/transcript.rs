//! The rows that fit the screen.

use std::rc::Rc;

use ratatui_core::layout::Rect;
use ratatui_core::text::Line;
use wharf_api::{LiveOutput, RowBody, TranscriptRow};
use wharf_render::text::{display_width, format_duration, to_printable};

use super::empty_transcript::draw_empty_transcript;
use super::rows::RowLayoutOptions;
use super::{Canvas, divide_screen};
use crate::layout::{RowContext, RowFold, RowLayout, VisibleRow, find_visible};
use crate::model::{FindQuery, OpenSession, PaneFocus, ScrollAnchor, TranscriptFind, TuiState};
use crate::rows::RowPlace;

/// The columns left of the rows: the bar of the selected one.
pub(super) const MARGIN_COLUMNS: u16 = 1;

pub(super) fn draw_transcript(state: &TuiState, area: Rect, canvas: &mut Canvas) {
    let Some(open) = &state.open else { return };
    if open.rows.is_empty() {
        draw_empty_transcript(state, open, area, canvas);
        return;
    }
    let visible = visible_rows(state, open, area);
    let shown: usize = visible.iter().map(|row| row.lines).sum();
    // A short transcript stands at the bottom, next to the composer.
    let mut y = area.bottom().saturating_sub(u16::try_from(shown).unwrap_or(area.height));
    let query = open.view.find.as_ref().and_then(TranscriptFind::to_query);
    let is_focused = state.focus == PaneFocus::Transcript && state.overlays.is_empty();
    let selected = open.view.selected.filter(|_| is_focused);
    let selected = selected.and_then(|selected| find_shown_row(state, open, selected));
    for part in visible {
        let Some(row) = open.rows.get(part.place) else { continue };
        let layout = lay_out_visible(state, open, part.place, row, area.width);
        let is_selected = selected == Some(part.place);
        for (number, line) in layout.lines.iter().enumerate().skip(part.first_line).take(part.lines)
        {
            let is_gap = number + 1 == layout.lines.len() && line.spans.is_empty();
            if is_selected && !is_gap {
                canvas.write(area.x, y, 1, "▌", canvas.theme.strong);
            }
            canvas.write_line(
                area.x + MARGIN_COLUMNS,
                y,
                area.width.saturating_sub(MARGIN_COLUMNS),
                line,
            );
            if let Some(query) = &query {
                mark_matches(query, line, area.x + MARGIN_COLUMNS, y, canvas);
            }
            if let Some((_, since)) = layout.clock.filter(|(clock_line, _)| *clock_line == number) {
                draw_clock(state, since, Rect { y, height: 1, ..area }, canvas);
            }
            y += 1;
        }
    }
    if area.height > 1 {
        draw_below_marks(state, open, Rect { y: area.bottom() - 1, height: 1, ..area }, canvas);
    }
}

/// Draws the time since a tool call began at the end of its line.
fn draw_clock(state: &TuiState, since_millis: u64, line: Rect, canvas: &mut Canvas) {
    let elapsed = format_duration(state.now.unix_millis.saturating_sub(since_millis));
    let line = Rect { width: line.width.saturating_sub(1), ..line };
    canvas.write_right(line, &elapsed, canvas.theme.faint);
}

/// Draws over the last line: the text that is looked for, and that there are newer rows.
fn draw_below_marks(state: &TuiState, open: &OpenSession, line: Rect, canvas: &mut Canvas) {
    let has_newer = open.rows.has_newer();
    if open.view.anchor != ScrollAnchor::End || has_newer {
        let text = match (count_new_rows(state, open), has_newer) {
            (0, false) => " ↓ newer below ".to_owned(),
            (0, true) => " ↓ newer below · G ".to_owned(),
            (count, false) => format!(" ↓ {count} new · G "),
            // Rows that were dropped are not counted.
            (count, true) => format!(" ↓ more than {count} new · G "),
        };
        canvas.write_right(line, &text, canvas.theme.selected);
    }
    if let Some(find) = open.view.find.as_ref().filter(|find| find.is_typed) {
        canvas.clear(line);
        let typed = canvas.write(
            line.x + 1,
            line.y,
            line.width.saturating_sub(2),
            "/",
            canvas.theme.strong,
        );
        let room = line.width.saturating_sub(typed + 2);
        let start = line.x + 1 + typed;
        canvas.write(start, line.y, room, find.query.text(), canvas.theme.plain);
        let before = find.query.text().get(..find.query.cursor()).unwrap_or_default();
        let column = u16::try_from(display_width(&to_printable(before))).unwrap_or(room).min(room);
        canvas.place_cursor(start + column, line.y);
    }
}

/// Counts the rows that came since the person stopped following the end.
fn count_new_rows(state: &TuiState, open: &OpenSession) -> usize {
    let Some(left_at) = open.view.left_end_at else { return 0 };
    let arrangement = state.layouts.borrow_mut().arrange(&open.rows, &open.view);
    let is_new =
        |place: RowPlace| place > left_at && arrangement.context(place).fold != RowFold::Hidden;
    open.rows.iter_from(left_at).filter(|(place, _)| is_new(*place)).count()
}

/// Marks the text that is looked for in a line.
fn mark_matches(query: &FindQuery, line: &Line<'_>, x: u16, y: u16, canvas: &mut Canvas) {
    let text = line.to_string().to_lowercase();
    for (at, found) in text.match_indices(&query.folded) {
        let columns = |text: &str| u16::try_from(display_width(text)).unwrap_or(u16::MAX);
        let left = x.saturating_add(columns(text.get(..at).unwrap_or_default()));
        canvas
            .restyle(Rect { x: left, y, width: columns(found), height: 1 }, canvas.theme.selected);
    }
}

/// Returns the rows in view.
pub(crate) fn visible_rows(state: &TuiState, open: &OpenSession, area: Rect) -> Vec<VisibleRow> {
    let count = |place, row: &TranscriptRow| count_row_lines(state, open, place, row, area.width);
    find_visible(&open.rows, open.view.anchor, usize::from(area.height), count)
}

/// Returns the lines of a row in a transcript of this width.
pub(crate) fn count_row_lines(
    state: &TuiState,
    open: &OpenSession,
    place: RowPlace,
    row: &TranscriptRow,
    width: u16,
) -> usize {
    if row_context(state, open, place).fold == RowFold::Hidden {
        return 0;
    }
    lay_out_visible(state, open, place, row, width).lines.len()
}

/// Returns the row itself, or the row before that stands for it if it is hidden.
pub(crate) fn find_shown_row(
    state: &TuiState,
    open: &OpenSession,
    place: RowPlace,
) -> Option<RowPlace> {
    let arrangement = state.layouts.borrow_mut().arrange(&open.rows, &open.view);
    let is_shown = |place: RowPlace| arrangement.context(place).fold != RowFold::Hidden;
    let mut above = open.rows.iter_before(place).map(|(place, _)| place);
    if is_shown(place) { Some(place) } else { above.find(|place| is_shown(*place)) }
}

/// Returns the way in which a row stands among others.
pub(crate) fn row_context(state: &TuiState, open: &OpenSession, place: RowPlace) -> RowContext {
    state.layouts.borrow_mut().arrange(&open.rows, &open.view).context(place)
}

/// Returns the area of the transcript, if it is on the screen.
pub(crate) fn transcript_area(state: &TuiState) -> Option<Rect> {
    divide_screen(state).session.map(|session| session.transcript)
}

fn lay_out_visible(
    state: &TuiState,
    open: &OpenSession,
    place: RowPlace,
    row: &TranscriptRow,
    width: u16,
) -> Rc<RowLayout> {
    let look = RowLayoutOptions {
        width: width.saturating_sub(MARGIN_COLUMNS + 1),
        theme: state.theme,
        is_toggled: open.view.toggled.contains(&place),
        context: &row_context(state, open, place),
        live: find_live_output(open, row),
        time_zone: state.options.time_zone,
        agent: open
            .rows
            .state()
            .map_or("the agent", |state| state.session.adapter_slug.as_str()),
        host_name: state.list.host_name.as_deref(),
        can_send: !state.options.is_readonly,
    };
    state.layouts.borrow_mut().lay_out(place, row, &look)
}

/// Returns the output of the row's command while it runs.
fn find_live_output<'a>(open: &'a OpenSession, row: &TranscriptRow) -> Option<&'a LiveOutput> {
    let RowBody::Tool(tool) = &row.body else { return None };
    let live = &open.rows.state()?.live;
    live.iter().find(|live| row.open && live.tool_call_id == tool.tool_call_id)
}
