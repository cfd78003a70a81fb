//! Diffs and long texts as a bounded number of lines.

use wharf_api::{FileChange, FileDiff};
use wharf_render::style::{Screen, TextStyle};
use wharf_render::text::to_printable_line;

/// Returns the diffs as lines with `+` and `-`, at most `limit` of them; the rest is counted.
pub(super) fn diff_lines(diffs: &[FileDiff], screen: Screen, limit: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for diff in diffs {
        lines.push(screen.paint(TextStyle::Strong, &format!("  {}", describe_diff(diff))));
        for (place, hunk) in diff.hunks.iter().enumerate() {
            if place > 0 {
                lines.push(screen.paint(TextStyle::Faint, "  ⋯"));
            }
            lines.extend(hunk.lines.iter().map(|line| paint_diff_line(line, screen)));
        }
        if diff.cut.is_some() {
            lines.push(
                screen.paint(TextStyle::Faint, "  … more lines, which the transcript leaves out"),
            );
        }
    }
    bound_lines(lines, limit, screen)
}

/// Returns the path, the change and the numbers of lines of a diff.
fn describe_diff(diff: &FileDiff) -> String {
    let path = to_printable_line(&diff.path);
    let what = match &diff.change {
        FileChange::Create => " (new)",
        FileChange::Delete => " (deleted)",
        FileChange::Modify | FileChange::Other(_) => "",
    };
    format!("{path}{what} +{} −{}", diff.added, diff.removed)
}

fn paint_diff_line(line: &str, screen: Screen) -> String {
    let style = match line.chars().next() {
        Some('+') => TextStyle::Good,
        Some('-') => TextStyle::Bad,
        Some(_) | None => TextStyle::Plain,
    };
    screen.paint(style, &format!("  {}", to_printable_line(line)))
}

/// Keeps the first `limit` lines, and says how many are left out.
pub(super) fn bound_lines(mut lines: Vec<String>, limit: usize, screen: Screen) -> Vec<String> {
    let more = lines.len().saturating_sub(limit);
    if more > 0 {
        lines.truncate(limit);
        lines.push(screen.paint(TextStyle::Faint, &format!("  … {more} more lines")));
    }
    lines
}

/// Returns the last `limit` lines of a text, each behind a bar.
pub(super) fn last_lines(text: &str, limit: usize, screen: Screen) -> Vec<String> {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let skipped = lines.len().saturating_sub(limit);
    let more = (skipped > 0)
        .then(|| screen.paint(TextStyle::Faint, &format!("  … {skipped} lines above")));
    let shown = lines.iter().skip(skipped);
    more.into_iter()
        .chain(shown.map(|line| format!("  | {}", to_printable_line(line))))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn diff_has_its_path_its_lines_and_an_end() {
        let diff: FileDiff = serde_json::from_value(json!({
            "path": "a.txt", "change": "create", "added": 2, "removed": 1, "numbered": false,
            "hunks": [{ "old": null, "new": null, "lines": ["-old\u{1b}[2J", "+new", "+more", " same"] }],
        }))
        .unwrap();
        let diffs = [diff];
        let all = ["  a.txt (new) +2 −1", "  -old", "  +new", "  +more", "   same"];
        assert_eq!(diff_lines(&diffs, Screen::TERMINAL, 10), all);
        assert_eq!(diff_lines(&diffs, Screen::TERMINAL, 2), [all[0], all[1], "  … 3 more lines"]);
        let colour = Screen { colour: true, ..Screen::TERMINAL };
        assert_eq!(diff_lines(&diffs, colour, 10)[1], "\x1b[31m  -old\x1b[0m");
    }

    #[test]
    fn last_lines_of_a_long_output_are_kept() {
        assert_eq!(
            last_lines("a\nb\nc\n\n", 2, Screen::PIPE),
            ["  … 1 lines above", "  | b", "  | c"]
        );
        assert_eq!(last_lines("a\n", 2, Screen::PIPE), ["  | a"]);
    }
}
