//! Markdown of agents as lines: headings, lists with hanging indents, quotes, tables, links with
//! their targets, and code.

mod segments;
mod table;
mod tags;
mod writer;

use ratatui_core::text::Line;
use wharf_render::text::to_printable_lines;

use super::RowLayoutOptions;
use crate::layout::{RowLayout, SettledText};

/// Lays out a text. If `earlier` is the layout of its beginning at the same width, only the rest is
/// laid out.
pub(crate) fn lay_out_markdown(
    text: &str,
    look: &RowLayoutOptions<'_>,
    earlier: Option<RowLayout>,
) -> RowLayout {
    let (mut lines, mut settled) = match earlier {
        Some(RowLayout { lines, settled: Some(settled), .. })
            if text.starts_with(&settled.text) =>
        {
            (lines, settled)
        }
        Some(_) | None => (Vec::new(), SettledText::default()),
    };
    lines.truncate(settled.lines);
    let mut rest = &text[settled.text.len()..];
    while let Some(segment) = segments::first_segment(rest) {
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        let printable = to_printable_lines(segment.text);
        lines.extend(writer::write_segment(&printable, segment.is_fence_open, look));
        if !segment.is_last {
            settled.text.push_str(&rest[..segment.bytes]);
            settled.lines = lines.len();
        }
        rest = &rest[segment.bytes..];
    }
    RowLayout { lines, settled: Some(settled), ..RowLayout::default() }
}

#[cfg(test)]
mod tests;
