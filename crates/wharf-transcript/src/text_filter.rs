//! Makes streamed text safe to show, piece by piece: removes escape sequences and control
//! characters, and redacts secrets as the line view does (rule 10.6).
//!
//! Text that could be the beginning of something to remove is held back, so that nothing shown has
//! to be taken back. At most [`MAX_HELD_BYTES`] are held; text that stays undecided for longer is
//! shown. The prefix by which a secret is known (`ghp_`) stays when the secret is removed, so it is
//! shown at once: many words of ordinary text begin like one.

use serde::{Deserialize, Serialize};

use crate::plain_text::{escape_length, forced_escape_length};
use crate::redact::{
    MAX_KEY_LINES, REPLACEMENT_TEXT, SECRET_PATTERNS, SecretVerdict, can_begin_secret,
    count_prefix_bytes, find_key_end, is_word_byte, judge_secret,
};
use crate::text_rules::Secrets;

/// The most text that waits for a verdict.
const MAX_HELD_BYTES: usize = 256;
const KEY_BEGIN: &str = "-----BEGIN ";

/// The filter of one text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TextFilter {
    #[serde(default, skip_serializing_if = "Secrets::are_hidden")]
    secrets: Secrets,
    /// The beginning of an escape sequence whose end has not come.
    escape: String,
    /// Text without control characters that has no verdict.
    held: String,
    /// How many bytes of `held` are shown already.
    #[serde(default)]
    shown: usize,
    /// The pattern of a secret that is being left out.
    secret: Option<usize>,
    /// The lines that a private key block may still have.
    key_lines: usize,
    /// True if the present line of a key block has been replaced.
    key_line_replaced: bool,
    /// The last byte that was judged.
    last: u8,
}

/// The verdict about the text at a position.
enum PositionVerdict {
    Show,
    Wait,
    Skip(usize),
}

impl TextFilter {
    pub(crate) fn new(secrets: Secrets) -> Self {
        Self { secrets, ..Self::default() }
    }

    /// Takes the next piece and appends the text that can be shown to `out`.
    pub(crate) fn push(&mut self, piece: &str, out: &mut String) {
        if self.escape.is_empty() && !has_control(piece) {
            self.push_clean(piece, out);
        } else {
            let mut text = std::mem::take(&mut self.escape);
            text.push_str(piece);
            let clean = self.strip_control(&text, false);
            self.push_clean(&clean, out);
        }
    }

    /// Ends the text and appends the rest of it to `out`.
    pub(crate) fn finish(&mut self, out: &mut String) {
        self.flush(out);
        *self = Self::new(self.secrets);
    }

    /// Appends the text that is held back to `out`, though more may come. A secret or a private key
    /// that has begun stays hidden.
    pub(crate) fn flush(&mut self, out: &mut String) {
        let escape = std::mem::take(&mut self.escape);
        let mut text = std::mem::take(&mut self.held);
        text.push_str(&self.strip_control(&escape, true));
        self.scan_held(&text, true, out);
    }

    /// Returns true if the next piece may be the rest of a secret, of a private key or of an escape
    /// sequence.
    pub(crate) const fn is_undecided(&self) -> bool {
        self.secret.is_some()
            || self.key_lines > 0
            || !self.held.is_empty()
            || !self.escape.is_empty()
    }

    /// Takes text without control characters. They go first: a secret with an escape sequence in it
    /// is a secret.
    fn push_clean(&mut self, piece: &str, out: &mut String) {
        if self.held.is_empty() {
            let done = self.scan(piece, false, out);
            self.hold(&piece[done..], out);
        } else {
            let mut text = std::mem::take(&mut self.held);
            text.push_str(piece);
            let done = self.scan_held(&text, false, out);
            self.hold(&text[done..], out);
        }
    }

    /// Judges text that begins with the held text, and leaves out the part that is shown already.
    /// That part belongs to the first word, so every verdict begins with it.
    fn scan_held(&mut self, text: &str, is_end: bool, out: &mut String) -> usize {
        let begin = out.len();
        let done = self.scan(text, is_end, out);
        if done > 0 {
            out.drain(begin..begin + std::mem::take(&mut self.shown));
        }
        done
    }

    /// Keeps text that has no verdict, and shows the part of it that stays with every verdict.
    fn hold(&mut self, text: &str, out: &mut String) {
        self.held.push_str(text);
        let harmless = if self.key_lines == 0 { count_prefix_bytes(text.as_bytes()) } else { 0 };
        if harmless > self.shown {
            out.push_str(&text[self.shown..harmless]);
            self.shown = harmless;
        }
    }

    /// Returns the text without control characters and escape sequences, and keeps a sequence whose
    /// end has not come.
    fn strip_control(&mut self, text: &str, is_end: bool) -> String {
        let mut clean = String::with_capacity(text.len());
        let mut at = 0;
        let mut copied = 0;
        while let Some(next) =
            text.as_bytes()[at..].iter().position(|byte| may_begin_control(*byte))
        {
            at += next;
            let rest = &text[at..];
            let length = match escape_length(rest) {
                None if !is_end && rest.len() < MAX_HELD_BYTES => {
                    rest.clone_into(&mut self.escape);
                    clean.push_str(&text[copied..at]);
                    return clean;
                }
                length => length.unwrap_or_else(|| forced_escape_length(rest)),
            };
            clean.push_str(&text[copied..at]);
            copied = at + length;
            // A character other than a control character stays.
            at += if length > 0 { length } else { rest.chars().next().map_or(1, char::len_utf8) };
        }
        clean.push_str(&text[copied..]);
        clean
    }

    /// Judges a text and returns how far the verdicts go.
    fn scan(&mut self, text: &str, is_end: bool, out: &mut String) -> usize {
        if self.secrets == Secrets::Shown {
            out.push_str(text);
            return text.len();
        }
        let bytes = text.as_bytes();
        let mut at = 0;
        let mut copied = 0;
        while at < bytes.len() {
            if let Some(pattern) = self.secret {
                let body = bytes[at..]
                    .iter()
                    .take_while(|byte| SECRET_PATTERNS[pattern].takes(**byte))
                    .count();
                at += body;
                copied = at;
                if at < bytes.len() {
                    self.secret = None;
                }
                continue;
            }
            if self.key_lines > 0 {
                match self.scan_key_line(&text[at..], is_end, out) {
                    Some(length) => at += length,
                    None => return self.keep_end_of_key_line(text, at, out),
                }
                copied = at;
                continue;
            }
            let plain = count_plain(&bytes[at..]);
            if plain > 0 {
                at += plain;
                self.last = bytes[at - 1];
                continue;
            }
            let byte = bytes[at];
            let verdict = if can_begin_secret(byte) && is_word_byte(self.last) {
                PositionVerdict::Show
            } else {
                out.push_str(&text[copied..at]);
                copied = at;
                self.judge(&text[at..], is_end, out)
            };
            match verdict {
                PositionVerdict::Show => {
                    self.last = byte;
                    at += 1;
                }
                PositionVerdict::Wait => return at,
                PositionVerdict::Skip(length) => {
                    at += length;
                    copied = at;
                }
            }
        }
        out.push_str(&text[copied..]);
        bytes.len()
    }

    /// Judges text that begins with a byte that is not plain.
    fn judge(&mut self, text: &str, is_end: bool, out: &mut String) -> PositionVerdict {
        let first = text.as_bytes()[0];
        let may_wait = !is_end && text.len() < MAX_HELD_BYTES;
        if can_begin_secret(first) {
            return match judge_secret(text.as_bytes()) {
                SecretVerdict::Secret { pattern, body } => {
                    let begins = SECRET_PATTERNS[pattern].begins;
                    out.push_str(begins);
                    out.push_str(REPLACEMENT_TEXT);
                    let length = begins.len() + body;
                    self.last = text.as_bytes()[length - 1];
                    self.secret = Some(pattern);
                    PositionVerdict::Skip(length)
                }
                SecretVerdict::Undecided if may_wait => PositionVerdict::Wait,
                SecretVerdict::Undecided | SecretVerdict::NoSecret => PositionVerdict::Show,
            };
        }
        self.judge_key_begin(text, may_wait, out)
    }

    /// Judges text that begins with a dash: does a private key begin here?
    fn judge_key_begin(&mut self, text: &str, may_wait: bool, out: &mut String) -> PositionVerdict {
        let Some(title) = text.strip_prefix(KEY_BEGIN) else {
            let may_begin = KEY_BEGIN.starts_with(text) && may_wait;
            return if may_begin { PositionVerdict::Wait } else { PositionVerdict::Show };
        };
        let line = title.split('\n').next().unwrap_or_default();
        match line.find("-----") {
            Some(end) if title[..end].contains("PRIVATE KEY") => {
                out.push_str(REPLACEMENT_TEXT);
                self.key_line_replaced = true;
                self.key_lines = MAX_KEY_LINES + 1;
                PositionVerdict::Skip(KEY_BEGIN.len() + end + "-----".len())
            }
            None if line.len() == title.len() && may_wait => PositionVerdict::Wait,
            Some(_) | None => PositionVerdict::Show,
        }
    }

    /// Leaves out a line of a private key. Returns its length, or `None` if its end has not come.
    fn scan_key_line(&mut self, text: &str, is_end: bool, out: &mut String) -> Option<usize> {
        let line = text.split('\n').next().unwrap_or_default();
        if let Some(end) = find_key_end(line) {
            self.replace_key_line(out);
            (self.key_lines, self.key_line_replaced, self.last) = (0, false, b'-');
            return Some(end);
        }
        if line.len() == text.len() {
            if is_end {
                self.replace_key_line(out);
            }
            return is_end.then_some(text.len());
        }
        self.replace_key_line(out);
        out.push('\n');
        self.key_lines -= 1;
        (self.key_line_replaced, self.last) = (false, b'\n');
        Some(line.len() + 1)
    }

    fn replace_key_line(&mut self, out: &mut String) {
        if !self.key_line_replaced {
            out.push_str(REPLACEMENT_TEXT);
        }
        self.key_line_replaced = true;
    }

    /// Keeps only the end of a long line of a key, in which the end of the key may begin.
    fn keep_end_of_key_line(&mut self, text: &str, at: usize, out: &mut String) -> usize {
        if text.len() - at < MAX_HELD_BYTES {
            return at;
        }
        self.replace_key_line(out);
        text.ceil_char_boundary(text.len() - MAX_HELD_BYTES / 2)
    }
}

/// True for the bytes that need no verdict.
const IS_PLAIN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < table.len() {
        table[byte] = !can_begin_secret(byte as u8) && byte as u8 != b'-';
        byte += 1;
    }
    table
};

/// Returns the number of bytes at the beginning that need no verdict.
fn count_plain(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .position(|byte| !IS_PLAIN[usize::from(*byte)])
        .unwrap_or(bytes.len())
}

/// Returns true if the text may have a control character. Blocks are looked at without a branch for
/// each byte.
fn has_control(text: &str) -> bool {
    text.as_bytes()
        .chunks(64)
        .any(|block| block.iter().fold(false, |found, byte| found | may_begin_control(*byte)))
}

/// Returns true for control characters but the tab and the line break. `0xc2` begins those above
/// U+007F.
const fn may_begin_control(byte: u8) -> bool {
    matches!(byte, 0..=8 | 11..=31 | 127 | 0xc2)
}

#[cfg(test)]
mod tests;
