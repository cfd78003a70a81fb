//! The agent's plan in one line.

use ratatui_core::layout::Rect;

use super::Canvas;
use crate::model::TuiState;

pub(super) fn draw_plan(state: &TuiState, area: Rect, canvas: &mut Canvas) {
    let Some(plan) = state.open.as_ref().and_then(|open| open.pinned_plan()) else { return };
    let current = plan.entries.iter().find(|entry| entry.status == "in_progress");
    let current = current.map(|entry| format!(" · ▸ {}", entry.text)).unwrap_or_default();
    canvas.write_rule(area, &format!("Plan {}/{}{current}", plan.done, plan.total), canvas.theme.faint);
}
