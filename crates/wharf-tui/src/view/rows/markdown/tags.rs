//! Applies the parser's events to the lines.

use pulldown_cmark::{CodeBlockKind, Event, Tag, TagEnd};
use ratatui_core::style::Modifier;
use ratatui_core::text::Line;
use wharf_render::text::{to_printable, truncate_to_columns};

use super::table::TableText;
use super::writer::{CODE_INDENT, LinePrefix, SegmentWriter};

impl SegmentWriter {
    pub(super) fn write_event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start_tag(tag),
            Event::End(tag) => self.end_tag(tag),
            Event::Text(text) => match &mut self.code {
                Some(code) => code.push_str(&text),
                None => self.push_text(self.style(), &text),
            },
            Event::Code(code) => {
                self.push_text(self.style().patch(self.theme.code), &format!("`{code}`"))
            }
            Event::InlineMath(text)
            | Event::DisplayMath(text)
            | Event::Html(text)
            | Event::InlineHtml(text) => {
                self.push_text(self.style(), &text);
            }
            Event::FootnoteReference(name) => {
                self.push_text(self.theme.faint, &format!("[{name}]"))
            }
            Event::SoftBreak | Event::HardBreak => self.push_text(self.style(), "\n"),
            Event::Rule => {
                self.start_block();
                let columns = self.text_columns();
                self.push_line(Line::styled("─".repeat(columns), self.theme.faint));
                self.needs_gap = true;
            }
            Event::TaskListMarker(is_done) => {
                self.push_text(self.style(), if is_done { "☑ " } else { "☐ " })
            }
        }
    }

    fn start_tag(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph
            | Tag::HtmlBlock
            | Tag::FootnoteDefinition(_)
            | Tag::MetadataBlock(_) => self.start_block(),
            Tag::DefinitionList | Tag::DefinitionListTitle | Tag::DefinitionListDefinition => {
                self.start_block()
            }
            Tag::Heading { level, .. } => {
                self.start_block();
                let underlined =
                    if level as usize == 1 { Modifier::UNDERLINED } else { Modifier::empty() };
                self.styles.push(self.theme.strong.add_modifier(underlined));
            }
            Tag::BlockQuote(_) => {
                self.start_block();
                let bar = "▏ ".to_owned();
                self.prefixes
                    .push(LinePrefix { first: None, rest: bar, style: self.theme.faint });
            }
            Tag::CodeBlock(kind) => {
                self.start_block();
                self.start_code(&kind);
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
            Tag::Emphasis
            | Tag::Strong
            | Tag::Strikethrough
            | Tag::Superscript
            | Tag::Subscript => {
                self.push_modifier(span_modifier(&tag));
            }
            Tag::Link { dest_url, .. } => self.start_link(&dest_url),
            Tag::Image { dest_url, .. } => {
                self.push_text(self.theme.faint, "image: ");
                self.start_link(&dest_url);
            }
        }
    }

    fn end_tag(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph
            | TagEnd::HtmlBlock
            | TagEnd::FootnoteDefinition
            | TagEnd::MetadataBlock(_) => {
                self.end_block();
            }
            TagEnd::DefinitionList
            | TagEnd::DefinitionListTitle
            | TagEnd::DefinitionListDefinition => self.end_block(),
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
            TagEnd::Emphasis
            | TagEnd::Strong
            | TagEnd::Strikethrough
            | TagEnd::Superscript
            | TagEnd::Subscript => {
                self.styles.pop();
            }
            TagEnd::Link | TagEnd::Image => self.end_link(),
        }
    }

    /// Begins a block of code with the name of its language.
    fn start_code(&mut self, kind: &CodeBlockKind<'_>) {
        self.code = Some(String::new());
        if let CodeBlockKind::Fenced(info) = kind
            && !info.trim().is_empty()
        {
            let name = format!("{CODE_INDENT}{}", to_printable(info.trim()));
            let name = truncate_to_columns(&name, self.text_columns());
            self.push_line(Line::styled(name, self.theme.faint));
        }
    }
}

/// Returns the style of a span that is marked.
const fn span_modifier(tag: &Tag<'_>) -> Modifier {
    if matches!(tag, Tag::Emphasis) {
        Modifier::ITALIC
    } else if matches!(tag, Tag::Strong) {
        Modifier::BOLD
    } else if matches!(tag, Tag::Strikethrough) {
        Modifier::CROSSED_OUT
    } else {
        Modifier::empty()
    }
}
