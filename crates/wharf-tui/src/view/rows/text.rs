//! Messages and thoughts of the agent.

use ratatui_core::text::Line;
use wharf_api::RowText;

use super::{RowLayoutOptions, parts_text};
use crate::text::{to_printable, truncate_to_columns, wrap_plain};

pub(super) fn message_lines(message: &RowText, look: &RowLayoutOptions<'_>) -> Vec<Line<'static>> {
    wrap_plain(parts_text(&message.parts).trim_end(), look.theme.plain, look.columns())
}

/// A thought is folded to its first line.
pub(super) fn thought_lines(thought: &RowText, look: &RowLayoutOptions<'_>) -> Vec<Line<'static>> {
    let text = parts_text(&thought.parts);
    if !look.is_toggled {
        let first = to_printable(text.trim().lines().next().unwrap_or_default());
        let head = truncate_to_columns(&format!("▸ thought · {first}"), look.columns());
        return vec![Line::styled(head, look.theme.faint)];
    }
    let mut lines = vec![Line::styled("▾ thought", look.theme.faint)];
    for line in text.trim().lines() {
        lines.extend(wrap_plain(&format!("  {line}"), look.theme.faint, look.columns()));
    }
    lines
}
