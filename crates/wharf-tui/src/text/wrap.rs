//! Breaks text into lines of a given width: between words where possible, between grapheme clusters where not.

use ratatui_core::style::Style;
use ratatui_core::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// The columns between two tab stops.
const TAB_COLUMNS: usize = 4;

/// Replaces tabs by blanks up to the next tab stop.
pub(crate) fn expand_tabs(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut column = 0;
    for cluster in line.graphemes(true) {
        if cluster == "\t" {
            let blanks = TAB_COLUMNS - column % TAB_COLUMNS;
            out.extend(std::iter::repeat_n(' ', blanks));
            column += blanks;
        } else {
            out.push_str(cluster);
            column += cluster.width();
        }
    }
    out
}

/// Breaks a text of one style into lines. An empty text is one empty line.
pub(crate) fn wrap_plain(text: &str, style: Style, width: usize) -> Vec<Line<'static>> {
    text.split('\n').flat_map(|line| wrap_spans(&[(style, line)], width)).collect()
}

/// Breaks one line of pieces with styles into lines that are at most `width` columns wide. Blanks at a break are dropped.
pub(crate) fn wrap_spans(pieces: &[(Style, &str)], width: usize) -> Vec<Line<'static>> {
    let mut wrapper = LineWrapper { width: width.max(1), ..LineWrapper::default() };
    for (style, text) in pieces {
        for word in expand_tabs(text).split_word_bounds() {
            wrapper.push_word(*style, word);
        }
    }
    wrapper.finish()
}

#[derive(Debug, Default)]
struct LineWrapper {
    width: usize,
    lines: Vec<Line<'static>>,
    spans: Vec<(Style, String)>,
    used: usize,
}

impl LineWrapper {
    fn push_word(&mut self, style: Style, word: &str) {
        let columns = word.width();
        let is_blank = word.chars().all(char::is_whitespace);
        if self.used + columns <= self.width {
            self.append(style, word, columns);
        } else if is_blank {
            self.end_line();
        } else if columns <= self.width {
            self.end_line();
            self.append(style, word, columns);
        } else {
            self.push_long_word(style, word);
        }
    }

    /// Breaks a word that is wider than a line.
    fn push_long_word(&mut self, style: Style, word: &str) {
        for cluster in word.graphemes(true) {
            let columns = cluster.width();
            if self.used + columns > self.width && self.used > 0 {
                self.end_line();
            }
            self.append(style, cluster, columns);
        }
    }

    fn append(&mut self, style: Style, text: &str, columns: usize) {
        // A blank that would open a broken line is dropped; the indentation of the first line stays.
        let opens_broken_line = self.used == 0 && !self.lines.is_empty();
        if opens_broken_line && text.chars().all(char::is_whitespace) {
            return;
        }
        match self.spans.last_mut() {
            Some((last, held)) if *last == style => held.push_str(text),
            Some(_) | None => self.spans.push((style, text.to_owned())),
        }
        self.used += columns;
    }

    fn end_line(&mut self) {
        let spans = std::mem::take(&mut self.spans).into_iter().map(|(style, text)| Span::styled(text, style));
        self.lines.push(Line::from(spans.collect::<Vec<_>>()));
        self.used = 0;
    }

    fn finish(mut self) -> Vec<Line<'static>> {
        if !self.spans.is_empty() || self.lines.is_empty() {
            self.end_line();
        }
        self.lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrap(text: &str, width: usize) -> Vec<String> {
        wrap_plain(text, Style::new(), width).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn lines_break_between_words_and_long_words_anywhere() {
        assert_eq!(wrap("one two three", 8), ["one two ", "three"]);
        assert_eq!(wrap("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(wrap("a\n\nb", 4), ["a", "", "b"]);
        assert_eq!(wrap("", 4), [""]);
        assert_eq!(wrap("  in", 10), ["  in"], "indentation stays");
    }

    #[test]
    fn wide_characters_count_two_columns() {
        assert_eq!(wrap("日本語の文", 4), ["日本", "語の", "文"]);
        assert_eq!(wrap("👩‍👩‍👧 ok", 3), ["👩‍👩‍👧 ", "ok"]);
    }

    #[test]
    fn tabs_lead_to_the_next_stop() {
        assert_eq!(expand_tabs("a\tb"), "a   b");
        assert_eq!(expand_tabs("\t"), "    ");
    }
}
