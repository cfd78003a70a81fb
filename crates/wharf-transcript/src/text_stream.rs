//! A text that comes piece by piece, as chunks of JSON strings: it becomes shown text however it is
//! cut.

use serde::{Deserialize, Serialize};
use wharf_json::{CutPair, TextChunk};

use crate::text_filter::TextFilter;
use crate::text_rules::TextRules;

/// The state between two pieces of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TextStream {
    filter: TextFilter,
    pair: CutPair,
}

impl TextStream {
    pub(crate) fn new(texts: &TextRules) -> Self {
        Self { filter: texts.new_filter(), pair: CutPair::default() }
    }

    /// Takes the next chunk and appends the text that can be shown to `out`.
    pub(crate) fn push(&mut self, chunk: &TextChunk<'_>, out: &mut String) {
        let was_cut = self.pair.is_open();
        match self.pair.join(chunk) {
            Some((joined, rest)) => {
                self.filter.push(joined.encode_utf8(&mut [0; 4]), out);
                self.filter.push(without_half(rest, self.pair), out);
            }
            None if chunk.text.is_empty() => {}
            None => {
                if was_cut {
                    self.filter.push("\u{fffd}", out);
                }
                self.filter.push(without_half(&chunk.text, self.pair), out);
            }
        }
    }

    /// Takes text that has no halves of characters.
    pub(crate) fn push_text(&mut self, text: &str, out: &mut String) {
        self.filter.push(text, out);
    }

    /// Appends the text that is held back to `out`, though more may come.
    pub(crate) fn flush(&mut self, out: &mut String) {
        if std::mem::take(&mut self.pair).is_open() {
            self.filter.push("\u{fffd}", out);
        }
        self.filter.flush(out);
    }

    /// Ends the text and appends the rest of it to `out`.
    pub(crate) fn finish(&mut self, out: &mut String) {
        self.flush(out);
        self.filter.finish(out);
    }

    /// Returns true if the next piece may be the rest of a secret, of an escape sequence or of a
    /// character.
    pub(crate) const fn is_undecided(&self) -> bool {
        self.filter.is_undecided() || self.pair.is_open()
    }
}

/// Returns the text without the replacement of half a character at its end, which waits for the
/// other half.
fn without_half(text: &str, pair: CutPair) -> &str {
    if pair.is_open() { text.strip_suffix('\u{fffd}').unwrap_or(text) } else { text }
}
