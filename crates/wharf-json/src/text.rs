//! Reads the text of JSON strings.

use std::borrow::Cow;

/// Replaces half a surrogate pair.
const REPLACEMENT: char = '\u{fffd}';

/// Returns the text between the quotes with its escapes resolved. A lone surrogate becomes U+FFFD.
pub(crate) fn unescape(inner: &str) -> Cow<'_, str> {
    match memchr::memchr(b'\\', inner.as_bytes()) {
        None => Cow::Borrowed(inner),
        Some(first) => Cow::Owned(unescape_from(inner, first)),
    }
}

/// Returns true if the string between the quotes equals `name` after resolving escapes.
pub(crate) fn reads_as(inner: &str, name: &str) -> bool {
    // Escapes only make it longer.
    inner == name || (inner.len() > name.len() && inner.contains('\\') && unescape(inner) == name)
}

fn unescape_from(inner: &str, first: usize) -> String {
    let mut out = String::with_capacity(inner.len());
    let mut rest = inner;
    let mut next = Some(first);
    while let Some(at) = next {
        out.push_str(&rest[..at]);
        rest = resolve(&rest[at + 1..], &mut out);
        next = memchr::memchr(b'\\', rest.as_bytes());
    }
    out.push_str(rest);
    out
}

/// Resolves the escape whose backslash was just passed. Returns the rest.
fn resolve<'a>(rest: &'a str, out: &mut String) -> &'a str {
    let mut after = rest.chars();
    match after.next() {
        Some('n') => out.push('\n'),
        Some('t') => out.push('\t'),
        Some('r') => out.push('\r'),
        Some('b') => out.push('\u{8}'),
        Some('f') => out.push('\u{c}'),
        Some('u') => return resolve_unicode(rest, out),
        Some(other) => out.push(other),
        None => {}
    }
    after.as_str()
}

/// Resolves `\uXXXX`; `rest` begins with the `u`.
fn resolve_unicode<'a>(rest: &'a str, out: &mut String) -> &'a str {
    let Some(unit) = unit(rest) else {
        out.push(REPLACEMENT);
        return &rest[1..];
    };
    let after = &rest[5..];
    if let Some(low) =
        is_high(unit).then(|| after.strip_prefix('\\').and_then(self::unit)).flatten()
        && let Some(joined) = join(unit, low)
    {
        out.push(joined);
        return &after[6..];
    }
    out.push(char::from_u32(unit.into()).unwrap_or(REPLACEMENT));
    after
}

/// Parses `uXXXX`.
fn unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix('u')?.get(..4)?;
    u16::from_str_radix(digits, 16).ok()
}

const fn is_high(unit: u16) -> bool {
    unit & 0xfc00 == 0xd800
}

const fn is_low(unit: u16) -> bool {
    unit & 0xfc00 == 0xdc00
}

fn join(high: u16, low: u16) -> Option<char> {
    (is_high(high) && is_low(low))
        .then(|| char::decode_utf16([high, low]).next()?.ok())
        .flatten()
}

/// A text that may begin or end with half a surrogate pair, because it is a piece of a longer one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextChunk<'a> {
    /// The text by itself, with U+FFFD for each half.
    pub text: Cow<'a, str>,
    /// The second half of a pair at the beginning.
    low: Option<u16>,
    /// The first half of a pair at the end.
    high: Option<u16>,
}

impl<'a> TextChunk<'a> {
    /// Creates a chunk from the text between the quotes.
    pub(crate) fn new(inner: &'a str) -> Self {
        let low = inner.strip_prefix('\\').and_then(unit).filter(|unit| is_low(*unit));
        Self { low, high: ending(inner), text: unescape(inner) }
    }

    /// Copies the text into memory of its own.
    pub fn into_owned(self) -> TextChunk<'static> {
        TextChunk {
            text: Cow::Owned(self.text.into_owned()),
            low: self.low,
            high: self.high,
        }
    }
}

/// Remembers the half of a surrogate pair at the end of the last piece of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CutPair {
    high: Option<u16>,
}

impl CutPair {
    /// Returns true if the last piece ended with half a pair.
    pub const fn is_open(self) -> bool {
        self.high.is_some()
    }

    /// Takes the next piece. If it completes the pair, returns the character, which replaces the
    /// U+FFFD at the end of the text so far, and the rest of the piece after its own U+FFFD.
    pub fn join<'c>(&mut self, chunk: &'c TextChunk<'_>) -> Option<(char, &'c str)> {
        if chunk.text.is_empty() {
            return None;
        }
        let joined = self.high.zip(chunk.low).and_then(|(high, low)| join(high, low));
        self.high = chunk.high;
        Some((joined?, chunk.text.strip_prefix(REPLACEMENT).unwrap_or(&chunk.text)))
    }

    /// Appends the next piece to the text so far.
    pub fn append(&mut self, text: &mut String, chunk: &TextChunk<'_>) {
        match self.join(chunk) {
            Some((joined, rest)) => {
                if text.ends_with(REPLACEMENT) {
                    text.pop();
                }
                text.push(joined);
                text.push_str(rest);
            }
            None => text.push_str(&chunk.text),
        }
    }
}

/// Returns the first half of a surrogate pair with which the text ends.
fn ending(inner: &str) -> Option<u16> {
    let start = inner.len().checked_sub(6)?;
    let high = inner
        .get(start..)?
        .strip_prefix('\\')
        .and_then(unit)
        .filter(|unit| is_high(*unit))?;
    // An even number of backslashes before it means that this one is not escaped itself.
    let before = inner[..start].bytes().rev().take_while(|byte| *byte == b'\\').count();
    (before % 2 == 0).then_some(high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_read_as_they_are_meant() {
        for (inner, expected) in [
            ("plain é", "plain é"),
            (r#"\"\\\/\b\f\n\r\t"#, "\"\\/\u{8}\u{c}\n\r\t"),
            (r"\u0041\u00e9\u0000", "Aé\0"),
            (r"\ud83d\ude00!", "😀!"),
            (r"\uD83D\uDE00", "😀"),
        ] {
            assert_eq!(unescape(inner), expected);
        }
    }

    #[test]
    fn lone_surrogates_read_as_the_replacement_character() {
        for (inner, expected) in [
            (r"a\ud83d", "a\u{fffd}"),
            (r"\ude00b", "\u{fffd}b"),
            (r"\ud83dx", "\u{fffd}x"),
            (r"\ud83d\n", "\u{fffd}\n"),
            (r"\ud83d\u0041", "\u{fffd}A"),
            (r"\ud83d\ud83d\ude00", "\u{fffd}😀"),
            (r"\ude00\ud83d", "\u{fffd}\u{fffd}"),
        ] {
            assert_eq!(unescape(inner), expected, "{inner}");
        }
    }

    fn joined(pieces: &[&str]) -> String {
        let mut text = String::new();
        let mut cut = CutPair::default();
        for piece in pieces {
            cut.append(&mut text, &TextChunk::new(piece));
        }
        text
    }

    #[test]
    fn a_pair_cut_between_two_chunks_is_joined() {
        assert_eq!(joined(&[r"a\ud83d", r"\ude00b"]), "a😀b");
        assert_eq!(joined(&[r"\uD83D", "", r"\uDE00"]), "😀", "an empty chunk changes nothing");
        assert_eq!(joined(&[r"\ud83d", r"\ude00\ud83d", r"\ude00"]), "😀😀");
        assert_eq!(joined(&[r"\ud83d", "x", r"\ude00"]), "\u{fffd}x\u{fffd}");
        assert_eq!(
            joined(&["\u{fffd}", r"\ude00"]),
            "\u{fffd}\u{fffd}",
            "a real U+FFFD is no half"
        );
        assert_eq!(
            joined(&[r"\\ud83d", r"\ude00"]),
            "\\ud83d\u{fffd}",
            "an escaped backslash begins no escape"
        );
        assert_eq!(joined(&[r"\\\ud83d", r"\ude00"]), "\\😀");
    }
}
