//! The rules by which an agent's text becomes text of a row: without control characters, and
//! without secrets unless they are asked for.

use serde::{Deserialize, Serialize};

use crate::limits::MAX_SUMMARY_CHARS;
use crate::plain_text::{join_lines, strip_control_characters};
use crate::redact::Redactor;
use crate::text_filter::TextFilter;

/// The most bytes that are filtered for the end of a text. A private key is much shorter.
const MAX_FILTERED_BYTES: usize = 512 * 1024;

/// Whether rows show text that looks like a secret (rule 10.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Secrets {
    #[default]
    Hidden,
    Shown,
}

impl Secrets {
    pub(crate) fn are_hidden(&self) -> bool {
        *self == Self::Hidden
    }
}

/// The rules for the texts of one session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TextRules {
    /// The session's directory. Paths in it are shown relative to it.
    pub(crate) cwd: String,
    #[serde(default, skip_serializing_if = "Secrets::are_hidden")]
    pub(crate) secrets: Secrets,
}

impl TextRules {
    pub(crate) fn new(secrets: Secrets) -> Self {
        Self { cwd: String::new(), secrets }
    }

    /// Returns a filter for a text that comes piece by piece.
    pub(crate) fn new_filter(&self) -> TextFilter {
        TextFilter::new(self.secrets)
    }

    /// Returns a whole text as it can be shown.
    pub(crate) fn filter_text(&self, text: &str) -> String {
        let mut filter = self.new_filter();
        let mut out = String::with_capacity(text.len());
        filter.push(text, &mut out);
        filter.finish(&mut out);
        out
    }

    /// Returns the beginning of a text as it can be shown, at most `longest` bytes.
    pub(crate) fn filter_start(&self, text: &str, longest: usize) -> String {
        let mut shown = self.filter_read(text, longest);
        shown.truncate(shown.floor_char_boundary(longest));
        shown
    }

    /// Returns the end of a text as it can be shown, at most `longest` bytes. A private key that
    /// begins above them is hidden.
    pub(crate) fn filter_end(&self, text: &str, longest: usize) -> String {
        let start =
            text.ceil_char_boundary(text.len().saturating_sub(MAX_FILTERED_BYTES.max(longest)));
        let mut shown = self.filter_text(&text[start..]);
        shown.drain(..shown.ceil_char_boundary(shown.len().saturating_sub(longest)));
        shown
    }

    /// Returns the last lines of a text that still grows, at most `longest` bytes. A secret that
    /// may have begun at its end is held back.
    fn filter_unfinished_end(&self, text: &str, longest: usize) -> String {
        let start =
            text.ceil_char_boundary(text.len().saturating_sub(MAX_FILTERED_BYTES.max(longest)));
        let mut filter = self.new_filter();
        let mut shown = String::with_capacity(text.len() - start);
        filter.push(&text[start..], &mut shown);
        let over = shown.len().saturating_sub(longest);
        if over > 0 {
            let cut = shown.ceil_char_boundary(over);
            let line = shown[cut..].find('\n').map_or(cut, |end| cut + end + 1);
            shown.drain(..line);
        }
        shown
    }

    /// Returns lines without their secrets and control characters, one for each.
    pub(crate) fn filter_lines<'a>(&self, lines: impl Iterator<Item = &'a str>) -> Vec<String> {
        let mut redactor = Redactor::default();
        let lines = lines.map(|line| strip_control_characters(line.trim_end_matches(['\n', '\r'])));
        lines
            .map(|line| if self.secrets.are_hidden() { redactor.redact_line(line) } else { line })
            .collect()
    }

    /// Returns the text as one line of at most `longest` bytes.
    pub(crate) fn clean_line(&self, text: &str, longest: usize) -> String {
        join_lines(&self.filter_read(text, longest), longest)
    }

    /// Filters as much of a text as `longest` bytes of it need. The rest need not be looked at, but
    /// a secret at the cut has to be seen whole: text that may be the beginning of one is left out
    /// with the rest.
    fn filter_read(&self, text: &str, longest: usize) -> String {
        let end = text.floor_char_boundary(longest.saturating_mul(4).max(4096));
        let mut filter = self.new_filter();
        let mut out = String::with_capacity(end);
        filter.push(&text[..end], &mut out);
        if end == text.len() {
            filter.finish(&mut out);
        }
        out
    }

    /// Returns the text as a summary: one line of at most 200 characters.
    pub(crate) fn summarise(&self, text: &str) -> String {
        let line = self.clean_line(text, MAX_SUMMARY_CHARS * 4);
        match line.char_indices().nth(MAX_SUMMARY_CHARS) {
            None => line,
            Some(_) => line.chars().take(MAX_SUMMARY_CHARS - 1).chain(['…']).collect(),
        }
    }
}

/// Returns a text as one line of at most 200 characters, without secrets and control characters.
pub fn show_in_one_line(text: &str) -> String {
    TextRules::default().summarise(text)
}

/// Returns the last lines of a text that still grows, at most `longest` bytes, without control
/// characters.
pub fn show_unfinished_end(text: &str, longest: usize, secrets: Secrets) -> String {
    TextRules::new(secrets).filter_unfinished_end(text, longest)
}

/// Returns a word of a protocol, such as an id or a state, as a line that is never a secret.
pub(crate) fn clean_word(word: &str) -> String {
    TextRules::default().clean_line(word, crate::limits::MAX_WORD_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_one_redacted_line_of_bounded_length() {
        assert_eq!(show_in_one_line(" git\tpush\n\u{1b}[1m  now "), "git push now");
        assert_eq!(show_in_one_line(&"ä".repeat(500)).chars().count(), MAX_SUMMARY_CHARS);
        let secret = format!("TOKEN=ghp_{} git push", "x1Y2".repeat(9));
        assert_eq!(show_in_one_line(&secret), "TOKEN=ghp_[redacted] git push");
    }

    #[test]
    fn end_of_a_growing_text_has_whole_lines_and_no_part_of_a_secret() {
        let show = |text: &str| show_unfinished_end(text, 20, Secrets::Hidden);
        assert_eq!(show("one\n\u{1b}[32mtwo\u{1b}[0m"), "one\ntwo");
        assert_eq!(show("the first line\nthe second line"), "the second line");
        assert_eq!(show("key ghp_0123456789"), "key ghp_");
        assert_eq!(show(&format!("key ghp_{}", "x1Y2".repeat(9))), "key ghp_[redacted]");
        let key = format!("-----BEGIN PRIVATE KEY-----\n{}", "MIIEow\n".repeat(9));
        assert_eq!(show(&key), "[redacted]\n");
        assert_eq!(show_unfinished_end("key ghp_0123", 20, Secrets::Shown), "key ghp_0123");
    }
}
