//! Writes the events of the markdown parser as lines.

use pulldown_cmark::{Options, Parser};
use ratatui_core::style::{Modifier, Style};
use ratatui_core::text::{Line, Span};
use wharf_render::style::Theme;
use wharf_render::text::{
    display_width, to_printable, to_printable_lines, wrap_exactly, wrap_spans,
};

use super::super::RowLayoutOptions;
use super::table::{TableText, table_lines};

/// The columns before code.
pub(super) const CODE_INDENT: &str = "  ";
/// The room that is left for text, however deep it is nested.
const MIN_TEXT_COLUMNS: usize = 8;

/// Writes one segment. Code of a fence that is still open has no style, so that it does not change
/// under the reader's eyes.
pub(super) fn write_segment(
    text: &str,
    is_fence_open: bool,
    look: &RowLayoutOptions<'_>,
) -> Vec<Line<'static>> {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let parser = Parser::new_ext(text, options);
    let mut definitions: Vec<_> = parser
        .reference_definitions()
        .iter()
        .map(|(_, link)| link.span.clone())
        .collect();
    definitions.sort_by_key(|span| span.start);
    let mut writer = SegmentWriter::new(look.theme, look.columns());
    for event in parser {
        writer.write_event(event);
    }
    writer.end_text();
    // A parser takes definitions of link targets out of the text; the reader wants to see them.
    for span in definitions {
        writer.push_text(look.theme.faint, text.get(span).unwrap_or_default().trim());
        writer.end_text();
    }
    if is_fence_open {
        writer.unstyle_last_code();
    }
    writer.lines
}

/// Text before the lines of a list item or a quote.
#[derive(Debug)]
pub(super) struct LinePrefix {
    /// Before the first line; taken when that is written.
    pub(super) first: Option<String>,
    pub(super) rest: String,
    pub(super) style: Style,
}

/// A link whose text is being written.
#[derive(Debug)]
struct OpenLink {
    target: String,
    /// The text so far, to tell whether the target says the same.
    text: String,
}

#[derive(Debug)]
pub(super) struct SegmentWriter {
    pub(super) theme: Theme,
    columns: usize,
    lines: Vec<Line<'static>>,
    pub(super) prefixes: Vec<LinePrefix>,
    /// The numbers of the next items of the open lists; `None` for a list with bullets.
    pub(super) lists: Vec<Option<u64>>,
    pub(super) styles: Vec<Style>,
    /// The pieces of the paragraph that is being written. Line breaks are in the text.
    pub(super) pieces: Vec<(Style, String)>,
    links: Vec<OpenLink>,
    pub(super) code: Option<String>,
    /// The lines of the last block of code.
    code_lines: std::ops::Range<usize>,
    pub(super) table: Option<TableText>,
    /// The next block is divided by an empty line.
    pub(super) needs_gap: bool,
}

impl SegmentWriter {
    fn new(theme: Theme, columns: usize) -> Self {
        Self {
            theme,
            columns,
            lines: Vec::new(),
            prefixes: Vec::new(),
            lists: Vec::new(),
            styles: vec![theme.plain],
            pieces: Vec::new(),
            links: Vec::new(),
            code: None,
            code_lines: 0..0,
            table: None,
            needs_gap: false,
        }
    }

    pub(super) fn start_item(&mut self) {
        self.end_text();
        if self.needs_gap {
            self.push_gap();
        }
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                let mark = format!("{number}. ");
                *number += 1;
                mark
            }
            Some(None) | None => "• ".to_owned(),
        };
        let rest = " ".repeat(display_width(&mark));
        self.prefixes
            .push(LinePrefix { first: Some(mark), rest, style: self.theme.plain });
    }

    pub(super) fn start_link(&mut self, target: &str) {
        self.styles.push(self.style().add_modifier(Modifier::UNDERLINED));
        self.links.push(OpenLink { target: to_printable(target), text: String::new() });
    }

    /// Writes the target after the text, unless the text says it already.
    pub(super) fn end_link(&mut self) {
        self.styles.pop();
        let Some(OpenLink { target, text }) = self.links.pop() else { return };
        let is_said =
            target.is_empty() || target == text || target.strip_prefix("mailto:") == Some(&text);
        if !is_said {
            self.push_text(self.theme.faint, &format!(" ({target})"));
        }
    }

    pub(super) fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or(self.theme.plain)
    }

    pub(super) fn push_modifier(&mut self, modifier: Modifier) {
        self.styles.push(self.style().add_modifier(modifier));
    }

    /// Adds text to the paragraph. A parser turns `&#27;` into a control character, so that it is
    /// made printable here.
    pub(super) fn push_text(&mut self, style: Style, text: &str) {
        let text = to_printable_lines(text);
        for link in &mut self.links {
            link.text.push_str(&text);
        }
        self.pieces.push((style, text));
    }

    /// Ends the text before a block, and divides the two.
    pub(super) fn start_block(&mut self) {
        self.end_text();
        if self.needs_gap {
            self.push_gap();
        }
    }

    pub(super) fn end_block(&mut self) {
        self.end_text();
        self.needs_gap = true;
    }

    fn push_gap(&mut self) {
        self.needs_gap = false;
        self.push_line(Line::default());
    }

    /// Writes the text so far as lines.
    pub(super) fn end_text(&mut self) {
        let pieces = std::mem::take(&mut self.pieces);
        if pieces.iter().all(|(_, text)| text.trim().is_empty()) {
            return;
        }
        let columns = self.text_columns();
        for line in split_lines(&pieces) {
            for wrapped in wrap_spans(&line, columns) {
                self.push_line(wrapped);
            }
        }
    }

    pub(super) fn end_code(&mut self) {
        let code = to_printable_lines(&self.code.take().unwrap_or_default());
        let columns = self.text_columns().saturating_sub(CODE_INDENT.len()).max(1);
        let start = self.lines.len();
        for line in code.trim_end_matches('\n').split('\n') {
            for part in wrap_exactly(line, columns) {
                self.push_line(Line::styled(format!("{CODE_INDENT}{part}"), self.theme.code));
            }
        }
        self.code_lines = start..self.lines.len();
        self.needs_gap = true;
    }

    fn unstyle_last_code(&mut self) {
        for line in self.lines.get_mut(self.code_lines.clone()).unwrap_or_default() {
            if let Some(span) = line.spans.last_mut() {
                span.style = self.theme.plain;
            }
        }
    }

    pub(super) fn end_table(&mut self) {
        let Some(table) = self.table.take() else { return };
        for line in table_lines(&table, self.text_columns(), self.theme) {
            self.push_line(line);
        }
        self.needs_gap = true;
    }

    /// Returns how many prefixes, from the outermost on, leave room for text, and their columns.
    fn fit_prefixes(&self) -> (usize, usize) {
        let room = self.columns.saturating_sub(MIN_TEXT_COLUMNS);
        let mut taken = 0;
        for (number, prefix) in self.prefixes.iter().enumerate() {
            let columns = display_width(&prefix.rest);
            if taken + columns > room {
                return (number, taken);
            }
            taken += columns;
        }
        (self.prefixes.len(), taken)
    }

    /// Returns the columns that the prefixes leave for text.
    pub(super) fn text_columns(&self) -> usize {
        self.columns.saturating_sub(self.fit_prefixes().1).max(1)
    }

    /// Adds a line with the prefixes of the lists and quotes around it, as many as fit.
    pub(super) fn push_line(&mut self, line: Line<'static>) {
        let style = line.style;
        let is_empty = line.spans.iter().all(|span| span.content.trim().is_empty());
        let (shown, _) = self.fit_prefixes();
        let mut spans = Vec::with_capacity(line.spans.len() + shown);
        for prefix in self.prefixes.iter_mut().take(shown) {
            let text = prefix.first.take().unwrap_or_else(|| prefix.rest.clone());
            spans.push(Span::styled(text, prefix.style));
        }
        if is_empty && spans.iter().all(|span| span.content.trim().is_empty()) {
            spans.clear();
        }
        spans.extend(line.spans.into_iter().map(|span| span.patch_style(style)));
        self.lines.push(Line::from(spans));
    }
}

/// Divides pieces at their line breaks.
fn split_lines(pieces: &[(Style, String)]) -> Vec<Vec<(Style, &str)>> {
    let mut lines = vec![Vec::new()];
    for (style, text) in pieces {
        for (number, part) in text.split('\n').enumerate() {
            if number > 0 {
                lines.push(Vec::new());
            }
            if let Some(line) = lines.last_mut()
                && !part.is_empty()
            {
                line.push((*style, part));
            }
        }
    }
    if lines.last().is_some_and(Vec::is_empty) {
        lines.pop();
    }
    lines
}
