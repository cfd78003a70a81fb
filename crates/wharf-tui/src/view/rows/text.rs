//! Messages and thoughts of the agent.

use ratatui_core::style::Style;
use ratatui_core::text::{Line, Span};
use wharf_api::{RowPart, RowText, TranscriptRow};
use wharf_render::text::{
    format_duration, parse_millis, to_printable, to_printable_lines, truncate_to_columns,
    wrap_plain,
};

use super::markdown::lay_out_markdown;
use super::{RowLayoutOptions, name_part, parts_text, text_tail};
use crate::layout::RowLayout;

/// Lays out a message as markdown; images and files are named. Of an open message that grew, only
/// the end is laid out.
pub(super) fn lay_out_message(
    message: &RowText,
    is_open: bool,
    look: &RowLayoutOptions<'_>,
    earlier: Option<RowLayout>,
) -> RowLayout {
    if let [RowPart::Text(part)] = message.parts.as_slice()
        && part.cut.is_none()
    {
        let layout = lay_out_markdown(&part.text, look, earlier);
        let settled = layout.settled.filter(|_| is_open);
        return RowLayout { settled, ..layout };
    }
    let mut lines: Vec<Line<'static>> = Vec::new();
    for part in &message.parts {
        if let RowPart::Text(text) = part {
            lines.extend(lay_out_markdown(&text.text, look, None).lines);
        }
        if let Some(name) = name_part(part) {
            lines.extend(wrap_plain(&name, look.theme.faint, look.columns()));
        }
        if let Some(tail) = text_tail(part) {
            lines.extend(wrap_plain(&to_printable_lines(tail), Style::default(), look.columns()));
        }
    }
    RowLayout { lines, ..RowLayout::default() }
}

/// A thought is folded to how long it took and its first line.
pub(super) fn thought_lines(
    thought: &RowText,
    row: &TranscriptRow,
    look: &RowLayoutOptions<'_>,
) -> Vec<Line<'static>> {
    let text = parts_text(&thought.parts);
    let mark = if look.is_toggled { "▾" } else { "▸" };
    let mut head = format!("{mark} {}", if row.open { "thinking" } else { "thought" });
    let took = parse_millis(&row.changed_at)
        .zip(parse_millis(&row.at))
        .map(|(end, start)| end.saturating_sub(start));
    if let Some(took) = took.filter(|took| !row.open && *took >= 1_000) {
        head.push_str(&format!(" · {}", format_duration(took)));
    }
    if !look.is_toggled {
        let first = to_printable(text.trim().lines().next().unwrap_or_default());
        let head = truncate_to_columns(&format!("{head} · {first}"), look.columns());
        return vec![Line::styled(head, look.theme.faint)];
    }
    let mut lines = vec![Line::styled(head, look.theme.faint)];
    for line in wrap_plain(text.trim(), look.theme.faint, look.columns().saturating_sub(2)) {
        lines.push(Line::from([vec![Span::raw("  ")], line.spans].concat()));
    }
    lines
}
