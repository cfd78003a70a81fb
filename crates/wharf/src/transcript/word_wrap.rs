//! Breaks text for a terminal between words, while the text arrives. Printed text is never taken
//! back.

use wharf_render::style::Screen;
use wharf_render::text::char_columns;

/// A word that begins this close to the edge is held back until it is complete. Most words are
/// shorter.
const EDGE_COLUMNS: usize = 20;
/// The beginnings of lines whose breaks have a meaning: code fences and tables.
const FIXED_LINE_HEADS: [&str; 3] = ["```", "~~~", "|"];

/// Puts line breaks before words that do not fit on the line. Escape sequences take no room.
#[derive(Debug)]
pub(super) struct WordWrapper {
    /// `None` if the text does not go to a terminal, and stays as it is.
    width: Option<usize>,
    /// The columns of the current line that are printed.
    column: usize,
    /// The word that is not printed yet, and its columns.
    word: String,
    word_columns: usize,
    /// The first characters of the current line, as many as tell a code fence.
    line_head: String,
    is_in_fence: bool,
    /// True within an escape sequence.
    is_in_sequence: bool,
}

impl WordWrapper {
    pub(super) fn new(screen: Screen) -> Self {
        Self {
            width: screen.terminal.then_some(screen.width),
            column: 0,
            word: String::new(),
            word_columns: 0,
            line_head: String::new(),
            is_in_fence: false,
            is_in_sequence: false,
        }
    }

    /// Adds text and returns the part that can be printed.
    pub(super) fn feed(&mut self, text: &str) -> String {
        let Some(width) = self.width else { return text.to_owned() };
        let mut out = String::new();
        for c in text.chars() {
            self.take_char(c, width, &mut out);
        }
        if self.column + EDGE_COLUMNS < width || self.word_columns > EDGE_COLUMNS {
            self.print_word(width, &mut out);
        }
        out
    }

    /// Returns the held text: nothing follows on this line any more.
    pub(super) fn finish(&mut self) -> String {
        let mut out = String::new();
        self.print_word(self.width.unwrap_or(usize::MAX), &mut out);
        self.begin_line();
        out
    }

    fn take_char(&mut self, c: char, width: usize, out: &mut String) {
        if self.is_in_sequence || c == '\x1b' {
            // A style ends with `m`.
            self.is_in_sequence = c != 'm';
            self.word.push(c);
            return;
        }
        if self.line_head.len() < 3 && !(self.line_head.is_empty() && c == ' ') {
            self.line_head.push(c);
        }
        match c {
            '\n' => {
                self.print_word(width, out);
                out.push('\n');
                self.begin_line();
            }
            ' ' | '\t' => {
                self.print_word(width, out);
                // A blank behind a full line would stand alone on the next one.
                if self.column < width || self.is_fixed_line() {
                    out.push(c);
                    self.column += 1;
                }
            }
            c if char_columns(c) == 2 => {
                // Scripts with wide characters have no blanks between words.
                self.print_word(width, out);
                (self.word_columns, self.word) =
                    (2, self.word.clone() + c.encode_utf8(&mut [0; 4]));
                self.print_word(width, out);
            }
            c => {
                self.word.push(c);
                self.word_columns += char_columns(c);
            }
        }
    }

    fn print_word(&mut self, width: usize, out: &mut String) {
        let fits_next_line = (1..=width).contains(&self.word_columns);
        if !self.is_fixed_line()
            && fits_next_line
            && self.column > 0
            && self.column + self.word_columns > width
        {
            out.push('\n');
            self.column = 0;
        }
        out.push_str(&std::mem::take(&mut self.word));
        self.column += std::mem::take(&mut self.word_columns);
        // The terminal has broken a line that is longer than itself.
        while self.column > width {
            self.column -= width;
        }
    }

    /// Returns true if the line is code or belongs to a table.
    fn is_fixed_line(&self) -> bool {
        self.is_in_fence || FIXED_LINE_HEADS.iter().any(|head| self.line_head.starts_with(head))
    }

    fn begin_line(&mut self) {
        self.is_in_fence ^= matches!(self.line_head.as_str(), "```" | "~~~");
        self.line_head.clear();
        self.column = 0;
    }
}

/// Wraps a text that is complete.
pub(super) fn wrap_words(text: &str, screen: Screen) -> String {
    let mut wrapper = WordWrapper::new(screen);
    wrapper.feed(text) + &wrapper.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NARROW: Screen = Screen { terminal: true, colour: true, width: 30 };

    fn wrap_in_pieces(text: &str, size: usize) -> String {
        let mut wrapper = WordWrapper::new(NARROW);
        let chars: Vec<char> = text.chars().collect();
        let out: String = chars
            .chunks(size)
            .map(|piece| wrapper.feed(&piece.iter().collect::<String>()))
            .collect();
        out + &wrapper.finish()
    }

    #[test]
    fn words_are_kept_whole_however_the_text_is_cut() {
        let text = "The change is below, and nothing happens until you answer.\nA next line";
        let wrapped = "The change is below, and \nnothing happens until you \nanswer.\nA next line";
        for size in 1..=text.len() {
            assert_eq!(wrap_in_pieces(text, size), wrapped, "in pieces of {size}");
        }
    }

    #[test]
    fn blank_behind_a_full_line_is_left_out() {
        let full = "123456789 123456789 1234567890";
        assert_eq!(wrap_words(&format!("{full} next"), NARROW), format!("{full}\nnext"));
    }

    #[test]
    fn styles_take_no_room() {
        let text = "123456789 123456789 123 \x1b[1mbold\x1b[0m end";
        assert_eq!(wrap_words(text, NARROW), "123456789 123456789 123 \x1b[1mbold\x1b[0m \nend");
    }

    #[test]
    fn code_and_tables_stay_as_they_are() {
        let code = format!("```\n{}\n```\n", "word ".repeat(10));
        assert_eq!(wrap_words(&code, NARROW), code);
        let table = format!("| {} |", "word ".repeat(10));
        assert_eq!(wrap_words(&table, NARROW), table);
        let after = wrap_words(&format!("{code}{}", "word ".repeat(10)), NARROW);
        assert_eq!(after.lines().count(), 5, "{after}");
    }

    #[test]
    fn long_words_and_wide_characters_are_printed() {
        let path = "/".repeat(70);
        assert_eq!(wrap_words(&path, NARROW), path);
        assert_eq!(wrap_words(&"日".repeat(16), NARROW), format!("{}\n日", "日".repeat(15)));
        let pipe = Screen { terminal: false, ..NARROW };
        assert_eq!(
            wrap_words("a text that goes to a pipe stays as it is", pipe).lines().count(),
            1
        );
    }
}
