//! The rows that fit the screen.

use std::rc::Rc;

use ratatui_core::layout::Rect;
use wharf_api::{LiveOutput, RowBody, TranscriptRow};

use super::rows::RowLayoutOptions;
use super::{Canvas, divide_screen};
use crate::layout::{RowContext, RowLayout, VisibleRow, find_visible};
use crate::model::{OpenSession, PaneFocus, RowsLink, ScrollAnchor, TuiState};
use crate::rows::RowPlace;
use crate::text::format_duration;

/// "Opening" is not shown for a session that opens at once.
const OPENING_SHOWN_AFTER: std::time::Duration = std::time::Duration::from_millis(150);
/// The columns left of the rows: the bar of the selected one.
pub(super) const MARGIN_COLUMNS: u16 = 1;

pub(super) fn draw_transcript(state: &TuiState, area: Rect, canvas: &mut Canvas) {
    let Some(open) = &state.open else { return };
    if open.rows.is_empty() {
        draw_without_rows(state, open, area, canvas);
        return;
    }
    let visible = visible_rows(state, open, area);
    let shown: usize = visible.iter().map(|row| row.lines).sum();
    // A short transcript stands at the bottom, next to the composer.
    let mut y = area.bottom().saturating_sub(u16::try_from(shown).unwrap_or(area.height));
    let is_focused = state.focus == PaneFocus::Transcript && state.overlays.is_empty();
    for part in visible {
        let Some(row) = open.rows.get(part.place) else { continue };
        let layout = lay_out_visible(state, open, part.place, row, area.width);
        let is_selected = is_focused && open.view.selected == Some(part.place);
        for (number, line) in layout.lines.iter().enumerate().skip(part.first_line).take(part.lines) {
            if is_selected {
                canvas.write(area.x, y, 1, "▌", canvas.theme.strong);
            }
            canvas.write_line(area.x + MARGIN_COLUMNS, y, area.width.saturating_sub(MARGIN_COLUMNS), line);
            if let Some((_, since)) = layout.clock.filter(|(clock_line, _)| *clock_line == number) {
                let elapsed = format_duration(state.now.unix_millis.saturating_sub(since));
                let line = Rect { y, height: 1, width: area.width.saturating_sub(1), ..area };
                canvas.write_right(line, &elapsed, canvas.theme.faint);
            }
            y += 1;
        }
    }
    if open.view.anchor != ScrollAnchor::End && area.height > 1 {
        let line = Rect { y: area.bottom() - 1, height: 1, ..area };
        canvas.write_right(line, " ↓ newer below ", canvas.theme.selected);
    }
}

fn draw_without_rows(state: &TuiState, open: &OpenSession, area: Rect, canvas: &mut Canvas) {
    let text = match &open.link {
        RowsLink::Opening { since } if state.now.elapsed < *since + OPENING_SHOWN_AFTER => return,
        RowsLink::Opening { .. } => "opening…".to_owned(),
        RowsLink::Gone => "this session was deleted".to_owned(),
        RowsLink::Live | RowsLink::Lost => {
            let info = state.open_info();
            let agent = info.map(|info| info.adapter_slug.as_str()).unwrap_or_default();
            let directory = info.map(|info| info.cwd.as_str()).unwrap_or_default();
            format!("{agent} in {directory}: nothing was said yet")
        }
    };
    let width = area.width.saturating_sub(2);
    canvas.write(area.x + 1, area.bottom().saturating_sub(1), width, &text, canvas.theme.faint);
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
    lay_out_visible(state, open, place, row, width).lines.len()
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
        utc_offset_minutes: state.options.utc_offset_minutes,
    };
    state.layouts.borrow_mut().lay_out(place, row, &look)
}

/// Returns the output of the row's command while it runs.
fn find_live_output<'a>(open: &'a OpenSession, row: &TranscriptRow) -> Option<&'a LiveOutput> {
    let RowBody::Tool(tool) = &row.body else { return None };
    let live = &open.rows.state()?.live;
    live.iter().find(|live| row.open && live.tool_call_id == tool.tool_call_id)
}
