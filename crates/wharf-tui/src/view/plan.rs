//! The agent's plan: one line with the current entry, or all entries.

use ratatui_core::layout::Rect;

use super::Canvas;
use super::rows::plan_mark;
use crate::model::{OpenSession, TuiState};

/// The entries of an opened plan that are shown.
const MAX_PLAN_ENTRIES: usize = 8;

/// Returns the lines of the pinned plan; `None` if there is none, or all of it is done.
pub(super) fn count_plan_lines(open: &OpenSession) -> Option<u16> {
    let plan = open.pinned_plan().filter(|plan| plan.done < plan.total)?;
    let entries = if open.view.is_plan_open { plan.entries.len().min(MAX_PLAN_ENTRIES) } else { 0 };
    u16::try_from(entries + 1).ok()
}

pub(super) fn draw_plan(state: &TuiState, area: Rect, canvas: &mut Canvas) {
    let Some(open) = &state.open else { return };
    let Some(plan) = open.pinned_plan() else { return };
    let current = plan.entries.iter().position(|entry| entry.status == "in_progress");
    let name = current.and_then(|at| plan.entries.get(at)).filter(|_| !open.view.is_plan_open);
    let name = name.map(|entry| format!(" · ▸ {}", entry.text)).unwrap_or_default();
    canvas.write_rule(
        area,
        &format!("Plan {}/{}{name}", plan.done, plan.total),
        canvas.theme.faint,
    );
    // Of a long plan, the entries around the current one.
    let shown = usize::from(area.height.saturating_sub(1));
    let last_start = plan.entries.len().saturating_sub(shown);
    let start = current.unwrap_or(plan.done).saturating_sub(1).min(last_start);
    for (entry, y) in plan.entries.iter().skip(start).zip(area.top() + 1..area.bottom()) {
        let style =
            if entry.status == "in_progress" { canvas.theme.strong } else { canvas.theme.plain };
        let text = format!("{} {}", plan_mark(&entry.status), entry.text);
        canvas.write(area.x + 1, y, area.width.saturating_sub(2), &text, style);
    }
}
