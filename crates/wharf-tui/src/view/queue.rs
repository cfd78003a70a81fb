//! The prompts that wait, above the composer.

use ratatui_core::layout::Rect;

use super::Canvas;
use crate::model::TuiState;

pub(super) fn draw_queue(state: &TuiState, area: Rect, canvas: &mut Canvas) {
    let Some(beside) = state.open.as_ref().and_then(|open| open.rows.state()) else { return };
    canvas.write_rule(Rect { height: 1, ..area }, &format!("Queue {}", beside.queue.len()), canvas.theme.faint);
    for (entry, y) in beside.queue.iter().zip(area.y + 1..area.bottom()) {
        let line = Rect { y, height: 1, ..area };
        let left = canvas.write_right(line, entry.sender.as_deref().unwrap_or_default(), canvas.theme.faint);
        let text = format!(" {} {}", entry.position + 1, entry.text);
        canvas.write(area.x, y, left.saturating_sub(1), &text, canvas.theme.plain);
    }
}
