//! The output of a terminal: the last bytes of it, and as text that never begins or ends inside a
//! character.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use wharf_transcript::Secrets;

#[derive(Debug)]
pub(super) struct TerminalBuffer {
    limit: usize,
    kept: VecDeque<u8>,
    truncated: bool,
    /// All bytes that came, those that are not kept included.
    total: u64,
}

impl TerminalBuffer {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, kept: VecDeque::new(), truncated: false, total: 0 }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        self.kept.extend(bytes);
        let over = self.kept.len().saturating_sub(self.limit);
        self.kept.drain(..over);
        self.truncated |= over > 0;
    }

    /// Returns how many bytes have come.
    pub(super) const fn total(&self) -> u64 {
        self.total
    }

    /// Returns the text, and whether its beginning is missing. While more may come, an incomplete
    /// character at the end is left out until the rest of it arrives.
    pub(super) fn text(&self, ended: bool) -> (String, bool) {
        let bytes: Vec<u8> = self.kept.iter().copied().collect();
        let mut text = decode_part(&bytes, self.truncated, ended);
        // Replacement characters are longer than the invalid bytes that they stand for.
        let over = text.len().saturating_sub(self.limit);
        let cut = (over..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or_default();
        text.drain(..cut);
        (text, self.truncated || cut > 0)
    }

    /// Returns the text of the last `max_bytes` bytes, to which more may come.
    fn end(&self, max_bytes: usize) -> String {
        let start = self.kept.len().saturating_sub(max_bytes);
        let bytes: Vec<u8> = self.kept.range(start..).copied().collect();
        decode_part(&bytes, self.truncated || start > 0, false)
    }
}

/// Returns the text of bytes. A character whose beginning is cut off is left out, and so is an
/// incomplete one at the end of output that has not ended.
fn decode_part(bytes: &[u8], is_cut: bool, ended: bool) -> String {
    let mut part = bytes;
    if is_cut {
        let inside = part.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
        part = &part[inside..];
    }
    if !ended {
        part = &part[..part.len() - count_unfinished_bytes(part)];
    }
    String::from_utf8_lossy(part).into_owned()
}

/// The end of a terminal's output as it was last shown, for all readers of the terminal.
#[derive(Debug, Default)]
pub(super) struct ShownEnd(Mutex<Option<CachedEnd>>);

#[derive(Debug)]
struct CachedEnd {
    /// How many bytes had come.
    total: u64,
    secrets: Secrets,
    text: Arc<str>,
}

impl ShownEnd {
    /// Returns the end of the output as `show` makes it of the last `max_bytes` bytes. It is made
    /// once, until more comes.
    pub(super) fn show(
        &self,
        output: &Mutex<TerminalBuffer>,
        max_bytes: usize,
        secrets: Secrets,
        show: impl FnOnce(&str) -> String,
    ) -> Arc<str> {
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Released before the end is shown: the command writes meanwhile.
        let (total, end) = {
            let output = output.lock().unwrap_or_else(PoisonError::into_inner);
            let total = output.total();
            if let Some(known) =
                cached.as_ref().filter(|known| known.total == total && known.secrets == secrets)
            {
                return Arc::clone(&known.text);
            }
            (total, output.end(max_bytes))
        };
        let text: Arc<str> = show(&end).into();
        *cached = Some(CachedEnd { total, secrets, text: Arc::clone(&text) });
        text
    }
}

/// Returns the number of bytes at the end that begin an incomplete character.
fn count_unfinished_bytes(bytes: &[u8]) -> usize {
    let width = |lead: u8| match lead {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    };
    (1..=bytes.len().min(3))
        .find(|back| width(bytes[bytes.len() - back]) > *back)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(limit: usize, pushes: &[&[u8]], ended: bool) -> (String, bool) {
        let mut output = TerminalBuffer::new(limit);
        pushes.iter().for_each(|bytes| output.push(bytes));
        output.text(ended)
    }

    #[test]
    fn the_beginning_goes_first_and_at_a_character() {
        assert_eq!(text(10, &["aaäöü".as_bytes()], true), ("aaäöü".to_owned(), false));
        assert_eq!(text(5, &["aaäöü".as_bytes()], true), ("öü".to_owned(), true));
        assert_eq!(text(5, &["x".as_bytes(), "😀😀".as_bytes()], true), ("😀".to_owned(), true));
        assert_eq!(text(0, &[b"x"], true), (String::new(), true));
        assert_eq!(text(0, &[], true), (String::new(), false));
    }

    #[test]
    fn half_a_character_waits_for_the_other_half_unless_it_never_comes() {
        assert_eq!(text(9, &[b"a\xe2\x82"], false), ("a".to_owned(), false));
        assert_eq!(text(9, &[b"a\xe2\x82", b"\xac"], false), ("a€".to_owned(), false));
        assert_eq!(text(9, &[b"a\xe2\x82"], true), ("a\u{fffd}".to_owned(), false));
    }

    #[test]
    fn end_is_read_once_for_all_readers_until_more_comes() {
        let mut buffer = TerminalBuffer::new(1 << 20);
        let shown = ShownEnd::default();
        buffer.push("ä".repeat(10_000).as_bytes());
        let output = Mutex::new(buffer);
        let read = |secrets: Secrets| {
            let mut given = None;
            let text = shown.show(&output, 101, secrets, |end| {
                given = Some(end.len());
                end.to_owned()
            });
            (given, text)
        };
        let (given, text) = read(Secrets::Hidden);
        assert_eq!(
            (given, &*text),
            (Some(100), "ä".repeat(50).as_str()),
            "only whole characters of the end"
        );
        assert_eq!(read(Secrets::Hidden), (None, text), "nothing has come since");
        assert_eq!(read(Secrets::Shown).0, Some(100), "for another kind of reader");
        output.lock().unwrap().push("b€".as_bytes());
        assert_eq!(read(Secrets::Shown).1.chars().last(), Some('€'));
        output.lock().unwrap().push(b"\xe2\x82");
        assert_eq!(read(Secrets::Shown).1.chars().last(), Some('€'), "half a character waits");
    }

    #[test]
    fn invalid_text_does_not_outgrow_the_limit() {
        let (text, truncated) = text(8, &[&[0xff; 8]], true);
        assert_eq!((text.as_str(), truncated), ("\u{fffd}\u{fffd}", true));
    }
}
