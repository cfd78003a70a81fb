//! Breaks text into lines of a given width: between words where possible, between grapheme clusters
//! where not.

use ratatui_core::style::Style;
use ratatui_core::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// The columns between two tab stops.
const TAB_COLUMNS: usize = 4;

/// Replaces tabs by blanks up to the next tab stop.
pub fn expand_tabs(line: &str) -> String {
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
pub fn wrap_plain(text: &str, style: Style, width: usize) -> Vec<Line<'static>> {
    text.split('\n').flat_map(|line| wrap_spans(&[(style, line)], width)).collect()
}

/// Breaks one line of pieces with styles into lines that are at most `width` columns wide. Blanks
/// at a break are dropped.
pub fn wrap_spans<T: AsRef<str>>(pieces: &[(Style, T)], width: usize) -> Vec<Line<'static>> {
    let mut wrapper = LineWrapper { width: width.max(1), ..LineWrapper::default() };
    for (style, text) in pieces {
        for cluster in expand_tabs(text.as_ref()).graphemes(true) {
            wrapper.push_cluster(*style, cluster);
        }
    }
    wrapper.finish()
}

/// Breaks a line at exactly `width` columns and keeps every blank, for code and output. An empty
/// line is one empty line.
pub fn wrap_exactly(line: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for cluster in expand_tabs(line).graphemes(true) {
        let columns = cluster.width();
        if used > 0 && used + columns > width.max(1) {
            lines.push(String::new());
            used = 0;
        }
        used += columns;
        if let Some(last) = lines.last_mut() {
            last.push_str(cluster);
        }
    }
    lines
}

/// Returns true for punctuation that does not begin a line in scripts without blanks between words.
fn stays_with_word_before(cluster: &str) -> bool {
    matches!(
        cluster,
        "、" | "。"
            | "，"
            | "．"
            | "！"
            | "？"
            | "："
            | "；"
            | "）"
            | "」"
            | "』"
            | "】"
            | "》"
            | "…"
    )
}

#[derive(Debug, Default)]
struct LineWrapper {
    width: usize,
    lines: Vec<Line<'static>>,
    spans: Vec<(Style, String)>,
    used: usize,
    /// The clusters that stay on one line if they can, with their styles.
    word: Vec<(Style, String)>,
    word_columns: usize,
    /// The word is a wide character, beside which the line may be broken.
    is_word_wide: bool,
}

impl LineWrapper {
    fn push_cluster(&mut self, style: Style, cluster: &str) {
        if cluster.chars().all(char::is_whitespace) {
            self.end_word();
            self.push_blank(style, cluster);
            return;
        }
        let columns = cluster.width();
        let is_wide = columns > 1;
        let may_break = (is_wide
            || self.is_word_wide && cluster.chars().any(char::is_alphanumeric))
            && !stays_with_word_before(cluster);
        if may_break {
            self.end_word();
        }
        self.is_word_wide = is_wide;
        self.word_columns += columns;
        push_styled(&mut self.word, style, cluster);
    }

    fn push_blank(&mut self, style: Style, blank: &str) {
        // A blank that would open a broken line is dropped; the indentation of the first line
        // stays.
        let opens_broken_line = self.used == 0 && !self.lines.is_empty();
        if opens_broken_line {
            return;
        }
        let columns = blank.width();
        if self.used + columns > self.width {
            self.end_line();
        } else {
            self.used += columns;
            push_styled(&mut self.spans, style, blank);
        }
    }

    /// Puts the word on this line if it fits, else on the next one. A word that fits no line is
    /// broken.
    fn end_word(&mut self) {
        let columns = std::mem::take(&mut self.word_columns);
        let word = std::mem::take(&mut self.word);
        self.is_word_wide = false;
        let is_long = columns > self.width;
        if !is_long && self.used + columns > self.width {
            self.end_line();
        }
        for (style, text) in word {
            if is_long {
                self.push_broken(style, &text);
            } else {
                push_styled(&mut self.spans, style, &text);
            }
        }
        if !is_long {
            self.used += columns;
        }
    }

    fn push_broken(&mut self, style: Style, text: &str) {
        for cluster in text.graphemes(true) {
            let columns = cluster.width();
            if self.used + columns > self.width && self.used > 0 {
                self.end_line();
            }
            self.used += columns;
            push_styled(&mut self.spans, style, cluster);
        }
    }

    fn end_line(&mut self) {
        let spans = std::mem::take(&mut self.spans)
            .into_iter()
            .map(|(style, text)| Span::styled(text, style));
        self.lines.push(Line::from(spans.collect::<Vec<_>>()));
        self.used = 0;
    }

    fn finish(mut self) -> Vec<Line<'static>> {
        self.end_word();
        if !self.spans.is_empty() || self.lines.is_empty() {
            self.end_line();
        }
        self.lines
    }
}

/// Adds text, to the last piece if that has the same style.
fn push_styled(pieces: &mut Vec<(Style, String)>, style: Style, text: &str) {
    match pieces.last_mut() {
        Some((last, held)) if *last == style => held.push_str(text),
        Some(_) | None => pieces.push((style, text.to_owned())),
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
    fn punctuation_stays_with_its_word_also_across_styles() {
        assert_eq!(wrap("one (two), three", 9), ["one ", "(two), ", "three"]);
        assert_eq!(wrap("日本語。", 6), ["日本", "語。"]);
        let bold = Style::new().add_modifier(ratatui_core::style::Modifier::BOLD);
        let lines =
            wrap_spans(&[(Style::new(), "all "), (bold, "bold"), (Style::new(), ", yes")], 8);
        let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
        assert_eq!(lines, ["all ", "bold, ", "yes"]);
    }

    #[test]
    fn code_keeps_its_blanks_at_a_break() {
        assert_eq!(wrap_exactly("  a  b", 3), ["  a", "  b"]);
        assert_eq!(wrap_exactly("日本", 3), ["日", "本"]);
        assert_eq!(wrap_exactly("", 3), [""]);
    }

    #[test]
    fn tabs_lead_to_the_next_stop() {
        assert_eq!(expand_tabs("a\tb"), "a   b");
        assert_eq!(expand_tabs("\t"), "    ");
    }
}
