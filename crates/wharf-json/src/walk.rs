//! Moves through text that is JSON, without recursion. On other text the results are meaningless,
//! but nothing panics or runs for ever.

/// Returns the position of the first byte at or after `at` that is not whitespace.
pub(crate) fn skip_space(text: &[u8], mut at: usize) -> usize {
    while matches!(text.get(at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
        at += 1;
    }
    at
}

/// Strings of so many bytes are looked through byte by byte: most keys and values are shorter, and
/// a search by blocks costs more than it saves there.
const SHORT_STRING_BYTES: usize = 16;

/// Returns the end of the string that begins at `at` with its quote.
pub(crate) fn skip_string(text: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    let short = at.saturating_add(SHORT_STRING_BYTES);
    while at < short {
        match text.get(at) {
            Some(b'"') => return at + 1,
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
            None => return text.len(),
        }
    }
    while let Some(found) = text.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += found;
        if text[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    text.len()
}

/// Returns the end of the value that begins at `at`.
pub(crate) fn skip_value(text: &[u8], at: usize) -> usize {
    match text.get(at) {
        Some(b'"') => skip_string(text, at),
        Some(b'{' | b'[') => skip_container(text, at),
        _ => {
            let ends =
                |byte: &u8| matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r');
            let rest = text.get(at..).unwrap_or_default();
            at + rest.iter().position(ends).unwrap_or(rest.len())
        }
    }
}

fn skip_container(text: &[u8], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => {
                at = skip_string(text, at);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    text.len()
}

/// Iterates over the entries of an object or a list.
#[derive(Clone, Debug)]
pub(crate) struct Entries<'a> {
    text: &'a str,
    at: usize,
    keyed: bool,
}

/// The position of a member or an item.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The key with its quotes. Empty for an item of a list.
    pub(crate) key: std::ops::Range<usize>,
    pub(crate) value: std::ops::Range<usize>,
}

impl<'a> Entries<'a> {
    /// Iterates over `text`, which is the whole object or list.
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 1, keyed: text.starts_with('{') }
    }

    /// Iterates over an object or list that begins in the middle of a text.
    pub(crate) fn within(text: &'a str, start: usize) -> Self {
        Self {
            text,
            at: start + 1,
            keyed: text.as_bytes().get(start) == Some(&b'{'),
        }
    }

    /// Moves to the next key or item. Returns its position and, for a member, its key; the value is
    /// not skipped yet.
    pub(crate) fn enter(&mut self) -> Option<(std::ops::Range<usize>, usize)> {
        let bytes = self.text.as_bytes();
        self.at = skip_space(bytes, self.at);
        if bytes.get(self.at) == Some(&b',') {
            self.at = skip_space(bytes, self.at + 1);
        }
        if matches!(bytes.get(self.at), None | Some(b'}' | b']')) {
            return None;
        }
        if !self.keyed {
            return Some((self.at..self.at, self.at));
        }
        let key = self.at..skip_string(bytes, self.at);
        // Skips the colon.
        let colon = skip_space(bytes, key.end);
        self.at = skip_space(bytes, colon + 1);
        Some((key, self.at))
    }

    /// Records that the value which [`Entries::enter`] found ends here.
    pub(crate) fn leave(&mut self, at: usize) {
        // The position never moves backwards, so that a walk over any text ends.
        self.at = at.max(self.at);
    }

    /// Returns the position after the closing bracket, once there are no more entries.
    pub(crate) fn end(&self) -> usize {
        (self.at + 1).min(self.text.len())
    }
}

impl Iterator for Entries<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        let (key, start) = self.enter()?;
        let end = skip_value(self.text.as_bytes(), start);
        // In text that is not JSON, this skips a stray byte.
        self.leave(end.max(start + 1).min(self.text.len()));
        Some(Entry { key, value: start..end })
    }
}
