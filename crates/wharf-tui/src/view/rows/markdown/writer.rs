//! Writes the events of the markdown parser as lines.

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use ratatui_core::style::{Modifier, Style};
use ratatui_core::text::{Line, Span};

use super::super::RowLayoutOptions;
use super::table::{TableText, table_lines};
use crate::text::{display_width, to_printable, to_printable_lines, wrap_exactly, wrap_spans};
use crate::view::Theme;

/// The columns before code.
const CODE_INDENT: &str = "  ";
/// The least room for text, however deep it is nested.
const MIN_TEXT_COLUMNS: usize = 8;

/// Writes one segment. Code of a fence that is still open has no style, so that it does not change under the reader's eyes.
pub(super) fn write_segment(text: &str, is_fence_open: bool, look: &RowLayoutOptions<'_>) -> Vec<Line<'static>> {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let parser = Parser::new_ext(text, options);
    let mut definitions: Vec<_> = parser.reference_definitions().iter().map(|(_, link)| link.span.clone()).collect();
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
struct LinePrefix {
    /// Before the first line; taken when that is written.
    first: Option<String>,
    rest: String,
    style: Style,
}

/// A link whose text is being written.
#[derive(Debug)]
struct OpenLink {
    target: String,
    /// The text so far, to tell whether the target says the same.
    text: String,
}

#[derive(Debug)]
struct SegmentWriter {
    theme: Theme,
    columns: usize,
    lines: Vec<Line<'static>>,
    prefixes: Vec<LinePrefix>,
    /// The numbers of the next items of the open lists; `None` for a list with bullets.
    lists: Vec<Option<u64>>,
    styles: Vec<Style>,
    /// The pieces of the paragraph that is being written. Line breaks are in the text.
    pieces: Vec<(Style, String)>,
    links: Vec<OpenLink>,
    code: Option<String>,
    /// The lines of the last block of code.
    code_lines: std::ops::Range<usize>,
    table: Option<TableText>,
    /// The next block is divided by an empty line.
    needs_gap: bool,
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

    fn write_event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start_tag(tag),
            Event::End(tag) => self.end_tag(tag),
            Event::Text(text) => match &mut self.code {
                Some(code) => code.push_str(&text),
                None => self.push_text(self.style(), &text),
            },
            Event::Code(code) => self.push_text(self.style().patch(self.theme.code), &format!("`{code}`")),
            Event::InlineMath(text) | Event::DisplayMath(text) | Event::Html(text) | Event::InlineHtml(text) => {
                self.push_text(self.style(), &text);
            }
            Event::FootnoteReference(name) => self.push_text(self.theme.faint, &format!("[{name}]")),
            Event::SoftBreak | Event::HardBreak => self.push_text(self.style(), "\n"),
            Event::Rule => {
                self.start_block();
                let columns = self.text_columns();
                self.push_line(Line::styled("─".repeat(columns), self.theme.faint));
                self.needs_gap = true;
            }
            Event::TaskListMarker(is_done) => self.push_text(self.style(), if is_done { "☑ " } else { "☐ " }),
        }
    }

    fn start_tag(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock | Tag::FootnoteDefinition(_) | Tag::MetadataBlock(_) => self.start_block(),
            Tag::DefinitionList | Tag::DefinitionListTitle | Tag::DefinitionListDefinition => self.start_block(),
            Tag::Heading { level, .. } => {
                self.start_block();
                let underlined = if level as usize == 1 { Modifier::UNDERLINED } else { Modifier::empty() };
                self.styles.push(self.theme.strong.add_modifier(underlined));
            }
            Tag::BlockQuote(_) => {
                self.start_block();
                let bar = "▏ ".to_owned();
                self.prefixes.push(LinePrefix { first: None, rest: bar, style: self.theme.faint });
            }
            Tag::CodeBlock(kind) => {
                self.start_block();
                self.code = Some(String::new());
                if let CodeBlockKind::Fenced(info) = kind
                    && !info.trim().is_empty()
                {
                    let name = format!("{CODE_INDENT}{}", to_printable(info.trim()));
                    self.push_line(Line::styled(name, self.theme.faint));
                }
            }
            Tag::List(first) => {
                self.end_text();
                if self.lists.is_empty() {
                    self.start_block();
                }
                self.lists.push(first);
            }
            Tag::Item => self.start_item(),
            Tag::Table(_) => {
                self.start_block();
                self.table = Some(TableText::default());
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.rows.push(Vec::new());
                }
            }
            Tag::TableCell => {}
            Tag::Emphasis => self.push_modifier(Modifier::ITALIC),
            Tag::Strong => self.push_modifier(Modifier::BOLD),
            Tag::Strikethrough => self.push_modifier(Modifier::CROSSED_OUT),
            Tag::Superscript | Tag::Subscript => self.push_modifier(Modifier::empty()),
            Tag::Link { dest_url, .. } => self.start_link(&dest_url),
            Tag::Image { dest_url, .. } => {
                self.push_text(self.theme.faint, "image: ");
                self.start_link(&dest_url);
            }
        }
    }

    fn end_tag(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock | TagEnd::FootnoteDefinition | TagEnd::MetadataBlock(_) => {
                self.end_block();
            }
            TagEnd::DefinitionList | TagEnd::DefinitionListTitle | TagEnd::DefinitionListDefinition => self.end_block(),
            TagEnd::Heading(_) => {
                self.end_block();
                self.styles.pop();
            }
            TagEnd::BlockQuote(_) => {
                self.end_block();
                self.prefixes.pop();
            }
            TagEnd::CodeBlock => self.end_code(),
            TagEnd::List(_) => {
                self.lists.pop();
                self.needs_gap = self.needs_gap || self.lists.is_empty();
            }
            TagEnd::Item => {
                self.end_text();
                if self.prefixes.last().is_some_and(|prefix| prefix.first.is_some()) {
                    self.push_line(Line::default());
                }
                self.prefixes.pop();
            }
            TagEnd::Table => self.end_table(),
            TagEnd::TableHead | TagEnd::TableRow => {}
            TagEnd::TableCell => {
                let pieces = std::mem::take(&mut self.pieces);
                if let Some(row) = self.table.as_mut().and_then(|table| table.rows.last_mut()) {
                    row.push(pieces);
                }
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough | TagEnd::Superscript | TagEnd::Subscript => {
                self.styles.pop();
            }
            TagEnd::Link | TagEnd::Image => self.end_link(),
        }
    }

    fn start_item(&mut self) {
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
        self.prefixes.push(LinePrefix { first: Some(mark), rest, style: self.theme.plain });
    }

    fn start_link(&mut self, target: &str) {
        self.styles.push(self.style().add_modifier(Modifier::UNDERLINED));
        self.links.push(OpenLink { target: to_printable(target), text: String::new() });
    }

    /// Writes the target after the text, unless the text says it already.
    fn end_link(&mut self) {
        self.styles.pop();
        let Some(OpenLink { target, text }) = self.links.pop() else { return };
        let is_said = target.is_empty() || target == text || target.strip_prefix("mailto:") == Some(&text);
        if !is_said {
            self.push_text(self.theme.faint, &format!(" ({target})"));
        }
    }

    fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or(self.theme.plain)
    }

    fn push_modifier(&mut self, modifier: Modifier) {
        self.styles.push(self.style().add_modifier(modifier));
    }

    /// Adds text to the paragraph. A parser turns `&#27;` into a control character, so that it is made printable here.
    fn push_text(&mut self, style: Style, text: &str) {
        let text = to_printable_lines(text);
        for link in &mut self.links {
            link.text.push_str(&text);
        }
        self.pieces.push((style, text));
    }

    /// Ends the text before a block, and divides the two.
    fn start_block(&mut self) {
        self.end_text();
        if self.needs_gap {
            self.push_gap();
        }
    }

    fn end_block(&mut self) {
        self.end_text();
        self.needs_gap = true;
    }

    fn push_gap(&mut self) {
        self.needs_gap = false;
        self.push_line(Line::default());
    }

    /// Writes the text so far as lines.
    fn end_text(&mut self) {
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

    fn end_code(&mut self) {
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

    fn end_table(&mut self) {
        let Some(table) = self.table.take() else { return };
        for line in table_lines(&table, self.text_columns(), self.theme) {
            self.push_line(line);
        }
        self.needs_gap = true;
    }

    /// Returns the columns that the prefixes leave for text.
    fn text_columns(&self) -> usize {
        let taken: usize = self.prefixes.iter().map(|prefix| display_width(&prefix.rest)).sum();
        self.columns.saturating_sub(taken).max(MIN_TEXT_COLUMNS)
    }

    /// Adds a line with the prefixes of the lists and quotes around it.
    fn push_line(&mut self, line: Line<'static>) {
        let style = line.style;
        let is_empty = line.spans.iter().all(|span| span.content.trim().is_empty());
        let mut spans = Vec::with_capacity(line.spans.len() + self.prefixes.len());
        for prefix in &mut self.prefixes {
            // An empty line divides blocks: it is not the first line of an item, unless the item has no other.
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
