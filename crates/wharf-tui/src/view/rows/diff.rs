//! Diffs as lines with their numbers.

use ratatui_core::style::Style;
use ratatui_core::text::{Line, Span};
use wharf_api::{DiffHunk, FileDiff};
use wharf_render::style::Theme;
use wharf_render::text::{
    expand_tabs, to_printable, to_printable_line, truncate_to_columns, wrap_exactly,
};

/// A narrower screen has no line numbers.
const MIN_COLUMNS_FOR_NUMBERS: usize = 70;
const MIN_NUMBER_COLUMNS: usize = 4;
/// Stands before the rest of a line that is broken.
const CONTINUATION: &str = "↳";

/// Returns the diffs: per file its path, then the changed lines. Long lines are cut.
pub(in crate::view) fn diff_lines(
    diffs: &[FileDiff],
    width: u16,
    theme: Theme,
) -> Vec<Line<'static>> {
    let columns = usize::from(width);
    let mut lines = Vec::new();
    for diff in diffs {
        let head = format!("  {} +{} −{}", to_printable(&diff.path), diff.added, diff.removed);
        lines.push(Line::styled(truncate_to_columns(&head, columns), theme.strong));
        for mut line in file_diff_lines(diff, columns.saturating_sub(2), false, theme) {
            line.spans.insert(0, Span::raw("  "));
            lines.push(line);
        }
    }
    lines
}

/// Returns the changed lines of one file with their numbers, where these are known and there is
/// room.
pub(in crate::view) fn file_diff_lines(
    diff: &FileDiff,
    columns: usize,
    is_wrapped: bool,
    theme: Theme,
) -> Vec<Line<'static>> {
    let has_numbers = diff.numbered && columns >= MIN_COLUMNS_FOR_NUMBERS;
    let last = diff
        .hunks
        .iter()
        .flat_map(|hunk| [hunk.old, hunk.new])
        .flatten()
        .map(|[first, count]| first + count);
    let digits = last.max().unwrap_or_default().to_string().len().max(MIN_NUMBER_COLUMNS);
    let mut writer = DiffWriter {
        columns,
        is_wrapped,
        theme,
        digits: has_numbers.then_some(digits),
        lines: Vec::new(),
    };
    let mut before: Option<&DiffHunk> = None;
    for hunk in &diff.hunks {
        writer.write_gap(before, hunk);
        writer.write_hunk(hunk);
        before = Some(hunk);
    }
    if let Some(cut) = &diff.cut {
        let missing = cut.missing_lines.map(|lines| format!("{lines} ")).unwrap_or_default();
        writer
            .lines
            .push(Line::styled(format!("… {missing}lines are not shown"), theme.faint));
    }
    writer.lines
}

#[derive(Debug)]
struct DiffWriter {
    columns: usize,
    is_wrapped: bool,
    theme: Theme,
    /// The number of digits of a line number; `None` if numbers do not fit or are unknown.
    digits: Option<usize>,
    lines: Vec<Line<'static>>,
}

impl DiffWriter {
    /// Tells how many lines are between two hunks.
    fn write_gap(&mut self, before: Option<&DiffHunk>, after: &DiffHunk) {
        let Some(before) = before else { return };
        let unchanged = match (before.old, after.old) {
            (Some([first, count]), Some([next, _])) => next.saturating_sub(first + count),
            (_, _) => 0,
        };
        let text = if unchanged > 0 {
            format!("⋯ {unchanged} lines unchanged")
        } else {
            "⋯".to_owned()
        };
        let line = vec![
            Span::styled(self.gutter(None, None), self.theme.faint),
            Span::styled(text, self.theme.faint),
        ];
        self.lines.push(Line::from(line));
    }

    fn write_hunk(&mut self, hunk: &DiffHunk) {
        let mut old = hunk.old.map(|[first, _]| first);
        let mut new = hunk.new.map(|[first, _]| first);
        for line in &hunk.lines {
            let (has_old, has_new, style) = match line.chars().next() {
                Some('+') => (false, true, self.theme.good),
                Some('-') => (true, false, self.theme.bad),
                Some(_) | None => (true, true, self.theme.plain),
            };
            let gutter = self.gutter(old.filter(|_| has_old), new.filter(|_| has_new));
            old = old.map(|number| number + u64::from(has_old));
            new = new.map(|number| number + u64::from(has_new));
            self.write_line(&gutter, line, style);
        }
    }

    /// Writes a line behind its sign, cut or broken.
    fn write_line(&mut self, gutter: &str, line: &str, style: Style) {
        let (sign, text) = line.split_at_checked(1).unwrap_or((" ", line));
        let text = expand_tabs(&to_printable_line(text));
        let room = self.columns.saturating_sub(gutter.chars().count() + 1).max(1);
        let parts = if self.is_wrapped {
            wrap_exactly(&text, room)
        } else {
            vec![truncate_to_columns(&text, room)]
        };
        for (number, part) in parts.iter().enumerate() {
            let (gutter, sign) = if number == 0 {
                (gutter.to_owned(), to_printable(sign))
            } else {
                (self.gutter(None, None), CONTINUATION.to_owned())
            };
            let spans = vec![
                Span::styled(gutter, self.theme.faint),
                Span::styled(format!("{sign}{part}"), style),
            ];
            self.lines.push(Line::from(spans));
        }
    }

    fn gutter(&self, old: Option<u64>, new: Option<u64>) -> String {
        let Some(digits) = self.digits else { return String::new() };
        let number =
            |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
        format!("{:>digits$} {:>digits$} │", number(old), number(new))
    }
}
