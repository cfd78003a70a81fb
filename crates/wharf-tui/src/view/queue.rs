//! The prompts that wait, above the composer.

use ratatui_core::layout::Rect;
use wharf_api::QueueEntry;
use wharf_render::text::{format_age, parse_millis};

use super::Canvas;
use crate::model::TuiState;

pub(super) fn draw_queue(state: &TuiState, area: Rect, canvas: &mut Canvas) {
    let Some(open) = &state.open else { return };
    let Some(beside) = open.rows.state() else { return };
    let edited = open.composing.queue_edit.as_ref().map(|edit| edit.prompt.as_str());
    let is_edited = |entry: &QueueEntry| edited == Some(entry.prompt_id.as_str());
    let mut head = format!("Queue {}", beside.queue.len());
    let shown = beside
        .queue
        .iter()
        .find(|entry| is_edited(entry))
        .or_else(|| beside.queue.first());
    if let Some(entry) = shown.filter(|_| area.height == 1) {
        // The one line also names a prompt.
        head = format!("{head} · {}", entry.shown_text());
    }
    canvas.write_rule(Rect { height: 1, ..area }, &head, canvas.theme.faint);
    let room = usize::from(area.height.saturating_sub(1));
    // The prompt that is being edited stays in view.
    let skipped = beside
        .queue
        .iter()
        .position(is_edited)
        .map_or(0, |place| (place + 1).saturating_sub(room));
    for (entry, y) in beside.queue.iter().skip(skipped).zip(area.y + 1..area.bottom()) {
        let line = Rect { y, height: 1, ..area };
        let left = canvas.write_right(
            line,
            &describe_origin(state, entry, is_edited(entry)),
            canvas.theme.faint,
        );
        let bar = if is_edited(entry) { "▌" } else { " " };
        let text = format!("{bar}{} {}", entry.position + 1, entry.shown_text());
        let style = if is_edited(entry) { canvas.theme.strong } else { canvas.theme.plain };
        canvas.write(area.x, y, left.saturating_sub(1), &text, style);
    }
}

fn describe_origin(state: &TuiState, entry: &QueueEntry, is_edited: bool) -> String {
    if is_edited {
        return "editing below ".to_owned();
    }
    let accepted = entry.accepted_at.as_deref().and_then(parse_millis);
    let age = accepted.map(|at| format_age(at, state.now.unix_millis));
    let parts: Vec<&str> =
        [entry.sender.as_deref(), age.as_deref()].into_iter().flatten().collect();
    format!("{} ", parts.join(" · "))
}
