//! The prompts that the host has not taken yet, below the transcript.

use ratatui_core::layout::Rect;
use ratatui_core::text::{Line, Span};
use wharf_render::text::{to_printable_lines, wrap_plain};

use super::Canvas;
use super::transcript::MARGIN_COLUMNS;
use crate::model::{HostPresence, OutgoingPrompt, TuiState};

/// The most lines of one prompt.
const MAX_TEXT_LINES: usize = 3;

/// Returns the lines that the prompts take, if there are any; the transcript keeps one.
pub(super) fn count_outgoing_lines(state: &TuiState, area: Rect) -> Option<u16> {
    let lines = outgoing_lines(state, area.width).len();
    (lines > 0).then(|| u16::try_from(lines).unwrap_or(u16::MAX).min(area.height.saturating_sub(1)))
}

pub(super) fn draw_outgoing(state: &TuiState, area: Rect, canvas: &mut Canvas) {
    for (line, y) in outgoing_lines(state, area.width).iter().zip(area.top()..area.bottom()) {
        canvas.write_line(
            area.x + MARGIN_COLUMNS,
            y,
            area.width.saturating_sub(MARGIN_COLUMNS),
            line,
        );
    }
}

fn outgoing_lines(state: &TuiState, width: u16) -> Vec<Line<'static>> {
    let Some(open) = &state.open else { return Vec::new() };
    let is_away = !matches!(state.connection, HostPresence::Connected);
    let mut lines = Vec::new();
    let mut outgoing = state.outbox.of_session(&open.id).peekable();
    while let Some(prompt) = outgoing.next() {
        let can_take_back = outgoing.peek().is_none() && (is_away || prompt.is_held_up());
        lines.extend(prompt_lines(state, prompt, can_take_back, width));
    }
    lines
}

/// Lays a prompt out as the transcript will show it, with a line that says where it is.
fn prompt_lines(
    state: &TuiState,
    outgoing: &OutgoingPrompt,
    can_take_back: bool,
    width: u16,
) -> Vec<Line<'static>> {
    let theme = state.theme;
    let head = if can_take_back { "sending… · ↑ takes it back" } else { "sending…" };
    let columns = usize::from(width.saturating_sub(MARGIN_COLUMNS + 3));
    // Of a long text only the beginning is laid out.
    let text: String = outgoing
        .prompt
        .text
        .trim_end()
        .chars()
        .take(MAX_TEXT_LINES * columns.max(1) + 1)
        .collect();
    let text = to_printable_lines(&text);
    let mut wrapped = wrap_plain(&text, theme.strong, columns);
    if wrapped.len() > MAX_TEXT_LINES {
        wrapped.truncate(MAX_TEXT_LINES);
        wrapped.push(Line::styled("…", theme.faint));
    }
    let bar = |line: Line<'static>| {
        let style = line.style;
        let spans = line.spans.into_iter().map(|span| span.patch_style(style));
        Line::from(
            std::iter::once(Span::styled("▌ ", theme.faint))
                .chain(spans)
                .collect::<Vec<_>>(),
        )
    };
    std::iter::once(Line::styled(head, theme.faint))
        .chain(wrapped)
        .map(bar)
        .collect()
}
