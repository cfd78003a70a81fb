//! Prints rows: as text, as the agent's answer alone, or as JSON.

use std::collections::{BTreeMap, BTreeSet};

use wharf_api::{FOLD_NUMBER, RowBody, TranscriptRow};

use super::history::{ReadRow, RowReadLimit};
use crate::output;
use crate::transcript::{LiveText, RowLook, render_row};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PrintStyle {
    Rows,
    /// Only the agent's messages, as they are.
    Text,
    Json,
}

#[derive(Debug)]
pub(super) struct RowPrinter {
    look: RowLook,
    style: PrintStyle,
    live: LiveText,
    /// The open asks and tool calls that are printed.
    open_rows: BTreeSet<String>,
    /// The message that was printed last.
    last_message: Option<String>,
    /// The revisions of rows that were printed as JSON.
    json_revs: BTreeMap<String, u64>,
}

impl RowPrinter {
    pub(super) fn new(look: RowLook, style: PrintStyle) -> Self {
        let live = LiveText::new(look);
        Self {
            look,
            style,
            live,
            open_rows: BTreeSet::new(),
            last_message: None,
            json_revs: BTreeMap::new(),
        }
    }

    /// Returns how much of a session's end is read for the last `lines` lines, or rows of JSON.
    pub(super) fn read_limit(&self, lines: Option<usize>) -> Option<RowReadLimit> {
        lines.map(|lines| match self.style {
            PrintStyle::Json => RowReadLimit::Rows(lines),
            PrintStyle::Rows | PrintStyle::Text => RowReadLimit::Lines(lines),
        })
    }

    /// Prints the rows of a session that is not followed. With `lines`, prints only so many of the
    /// last lines, or of the last rows as JSON. Ignores a reader that is gone.
    pub(super) fn print_all(
        mut self,
        session: &str,
        rows: Vec<ReadRow>,
        lines: Option<usize>,
    ) -> anyhow::Result<()> {
        if self.style == PrintStyle::Json {
            let skipped = lines.map_or(0, |lines| rows.len().saturating_sub(lines));
            let rows: Vec<&str> = rows.iter().skip(skipped).map(|read| read.json.get()).collect();
            let session = serde_json::to_string(session)?;
            output::print_line(&format!(
                r#"{{"fold":{FOLD_NUMBER},"session":{session},"rows":[{}]}}"#,
                rows.join(",")
            ));
            return Ok(());
        }
        let mut text: String = rows.iter().map(|read| self.text_of(&read.row, true)).collect();
        text.push_str(&self.live.end_line());
        output::print_bytes(last_lines(&text, lines).as_bytes());
        Ok(())
    }

    /// Prints the rows that there are before new ones come. Returns false if the reader is gone.
    pub(super) fn print_history(&mut self, rows: &[TranscriptRow], lines: Option<usize>) -> bool {
        if self.style == PrintStyle::Json {
            let skipped = lines.map_or(0, |lines| rows.len().saturating_sub(lines));
            return rows.iter().skip(skipped).all(|row| self.print_row(row));
        }
        let text: String = rows.iter().map(|row| self.text_of(row, false)).collect();
        print_text(last_lines(&text, lines))
    }

    /// Prints the part of a new or changed row that is not printed yet. Returns false if the reader
    /// is gone.
    pub(super) fn print_row(&mut self, row: &TranscriptRow) -> bool {
        if self.style == PrintStyle::Json {
            // A row that still changes comes when it is complete.
            if row.open || self.json_revs.insert(row.id.clone(), row.rev) >= Some(row.rev) {
                return true;
            }
            return output::try_print_line(&serde_json::to_string(row).unwrap_or_default()).is_ok();
        }
        let text = self.text_of(row, false);
        print_text(&text)
    }

    /// Ends an unfinished line. Returns false if the reader is gone.
    pub(super) fn end_line(&mut self) -> bool {
        print_text(&self.live.end_line())
    }

    /// Returns the text that a row adds. With `is_last_look`, nothing more is expected of open
    /// rows.
    fn text_of(&mut self, row: &TranscriptRow, is_last_look: bool) -> String {
        if self.style == PrintStyle::Text {
            let text = self.live.show(row);
            if text.is_empty() {
                return text;
            }
            let last = self.last_message.replace(row.id.clone());
            let is_next = last.is_some_and(|last| last != row.id);
            let gap = if is_next && !text.starts_with('\n') { "\n" } else { "" };
            return format!("{gap}{text}");
        }
        let is_shown_open = match row.body {
            RowBody::Ask(_) => row.open,
            RowBody::Tool(_) => row.open && is_last_look,
            RowBody::Prompt(_)
            | RowBody::Message(_)
            | RowBody::Thought(_)
            | RowBody::Plan(_)
            | RowBody::Notice(_)
            | RowBody::TurnEnd(_)
            | RowBody::Unknown => false,
        };
        if is_shown_open {
            if !self.open_rows.insert(row.id.clone()) {
                return String::new();
            }
            let lines: String =
                render_row(row, self.look).iter().map(|line| format!("{line}\n")).collect();
            return self.live.end_line() + &lines;
        }
        self.live.show(row)
    }
}

fn print_text(text: &str) -> bool {
    text.is_empty() || output::try_print_bytes(text.as_bytes()).is_ok()
}

/// Returns the last lines of a text; an unfinished line counts.
fn last_lines(text: &str, count: Option<usize>) -> &str {
    let Some(count) = count else { return text };
    let body = text.strip_suffix('\n').unwrap_or(text);
    let begin = body.rmatch_indices('\n').nth(count - 1).map_or(0, |(at, _)| at + 1);
    &text[begin..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_lines_of_a_text_are_counted_from_its_end() {
        let text = "a\nb\nc\n";
        assert_eq!(last_lines(text, None), text);
        assert_eq!((last_lines(text, Some(1)), last_lines(text, Some(2))), ("c\n", "b\nc\n"));
        assert_eq!((last_lines(text, Some(3)), last_lines(text, Some(9))), (text, text));
        assert_eq!((last_lines("a\nhalf", Some(1)), last_lines("", Some(1))), ("half", ""));
    }
}
