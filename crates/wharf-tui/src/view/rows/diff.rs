//! Diffs as lines with their numbers.

use ratatui_core::text::Line;
use wharf_api::FileDiff;

use crate::text::{expand_tabs, to_printable, to_printable_line, truncate_to_columns};
use crate::view::Theme;

/// Returns the diffs: per file its path, then the changed lines.
pub(in crate::view) fn diff_lines(diffs: &[FileDiff], width: u16, theme: Theme) -> Vec<Line<'static>> {
    let columns = usize::from(width);
    let mut lines = Vec::new();
    for diff in diffs {
        let head = format!("  {} +{} −{}", to_printable(&diff.path), diff.added, diff.removed);
        lines.push(Line::styled(truncate_to_columns(&head, columns), theme.strong));
        for (place, hunk) in diff.hunks.iter().enumerate() {
            if place > 0 {
                lines.push(Line::styled("  ⋯", theme.faint));
            }
            for line in &hunk.lines {
                let style = match line.chars().next() {
                    Some('+') => theme.good,
                    Some('-') => theme.bad,
                    Some(_) | None => theme.plain,
                };
                let text = format!("  {}", expand_tabs(&to_printable_line(line)));
                lines.push(Line::styled(truncate_to_columns(&text, columns), style));
            }
        }
    }
    lines
}
