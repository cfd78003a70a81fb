//! A view of one JSON value.

use std::borrow::Cow;
use std::fmt;

use serde_json::value::RawValue;

use crate::open_value::OpenValue;
use crate::text::{TextChunk, reads_as, unescape};
use crate::walk::{Entries, Entry, skip_value};
use crate::{ReadError, number};

/// Points to one JSON value within some text. It is cheap to copy, and parses a part of the value
/// only when the caller asks for that part.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Json<'a> {
    /// The text without surrounding whitespace.
    text: &'a str,
}

/// The type of a JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Null,
    Bool,
    Number,
    Text,
    List,
    Object,
}

impl<'a> Json<'a> {
    /// Checks that `text` is one JSON value, of any depth and with any numbers and escapes.
    pub fn parse(text: &'a [u8]) -> Result<Self, ReadError> {
        let text = std::str::from_utf8(text).map_err(|_| ReadError::NotUtf8)?;
        // Skips over the value without recursion and without looking into its numbers and strings.
        let raw: &RawValue = crate::read_own(text.as_bytes())
            .map_err(|error| ReadError::NotJson(error.to_string()))?;
        Ok(Self { text: raw.get() })
    }

    /// Takes text that was found to be one JSON value before. On other text the results of all
    /// calls are meaningless, but safe.
    pub fn checked_before(text: &'a str) -> Self {
        Self { text: text.trim_ascii() }
    }

    /// Takes a value that `serde_json` has checked.
    pub fn of_raw(raw: &'a RawValue) -> Self {
        Self { text: raw.get() }
    }

    /// Takes text that is known to be one JSON value without whitespace around it.
    pub(crate) const fn known(text: &'a str) -> Self {
        Self { text }
    }

    /// Returns the value's own text.
    pub const fn raw(self) -> &'a str {
        self.text
    }

    pub fn kind(self) -> Kind {
        match self.text.as_bytes().first() {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::List,
            Some(b'"') => Kind::Text,
            Some(b't' | b'f') => Kind::Bool,
            Some(b'n') | None => Kind::Null,
            Some(_) => Kind::Number,
        }
    }

    pub fn is_object(self) -> bool {
        self.kind() == Kind::Object
    }

    /// Returns the position of the value in `whole`, from which it was read.
    pub fn span_in(self, whole: &[u8]) -> Option<std::ops::Range<usize>> {
        let start = (self.text.as_ptr() as usize).checked_sub(whole.as_ptr() as usize)?;
        let end = start.checked_add(self.text.len())?;
        (end <= whole.len()).then_some(start..end)
    }

    /// Returns the member of an object. A null member counts as absent.
    pub fn member(self, name: &str) -> Result<Option<Self>, ReadError> {
        self.several_members([name]).map(|[value]| value)
    }

    /// Returns several members of an object in one walk, each like [`Json::member`].
    pub fn several_members<const N: usize>(
        self,
        names: [&str; N],
    ) -> Result<[Option<Self>; N], ReadError> {
        if !self.is_object() {
            return Err(ReadError::WrongKind { name: String::new(), expected: "an object" });
        }
        let mut found = [None; N];
        for entry in Entries::new(self.text) {
            let key = between_quotes(&self.text[entry.key]);
            let Some(index) = names.iter().position(|name| reads_as(key, name)) else { continue };
            if found[index].replace(Self::known(&self.text[entry.value])).is_some() {
                return Err(ReadError::Twice(names[index].to_owned()));
            }
        }
        Ok(found.map(|value| value.filter(|value| value.kind() != Kind::Null)))
    }

    /// Returns the last member of this name, null or not. For readers that leave it to others to
    /// refuse duplicates.
    pub fn last_member(self, name: &str) -> Option<Self> {
        self.members().filter(|(key, _)| key == name).last().map(|(_, value)| value)
    }

    /// Returns true if an object has a member of this name, even if it is null or occurs twice.
    pub fn has_key(self, name: &str) -> bool {
        let text = self.text;
        self.entries(Kind::Object)
            .any(|entry| reads_as(between_quotes(&text[entry.key]), name))
    }

    /// Follows members from object to object. Returns `None` where one is absent or null.
    pub fn at(self, path: &[&str]) -> Result<Option<Self>, ReadError> {
        let mut value = self;
        for (index, name) in path.iter().enumerate() {
            if !value.is_object() {
                let name =
                    index.checked_sub(1).map(|before| path[before]).unwrap_or_default().to_owned();
                return Err(ReadError::WrongKind { name, expected: "an object" });
            }
            match value.member(name)? {
                Some(next) => value = next,
                None => return Ok(None),
            }
        }
        Ok(Some(value))
    }

    /// Follows the first members of these names from object to object. It walks no further than
    /// needed, so it is only for values that were checked for duplicates before. Returns `None` if
    /// a member is absent or null, or if a value on the way is not an object.
    pub fn first_at(self, path: &[&str]) -> Option<Self> {
        self.open_at(path).map(OpenValue::close)
    }

    /// Follows members like [`Json::first_at`], without looking for the end of the value.
    pub fn open_at(self, path: &[&str]) -> Option<OpenValue<'a>> {
        let mut start = 0;
        for name in path {
            if self.text.as_bytes().get(start) != Some(&b'{') {
                return None;
            }
            let mut entries = Entries::within(self.text, start);
            start = loop {
                let (key, value) = entries.enter()?;
                if reads_as(between_quotes(&self.text[key]), name) {
                    break value;
                }
                entries.leave(skip_value(self.text.as_bytes(), value).max(value + 1));
            };
        }
        let text = self.text.get(start..)?;
        (Self::known(text).kind() != Kind::Null).then_some(OpenValue { text })
    }

    /// Follows members like [`Json::at`], but treats a member of a value that is not an object as
    /// absent. This is for members that other programs may use in their own way.
    pub fn seek(self, path: &[&str]) -> Result<Option<Self>, ReadError> {
        match self.at(path) {
            Err(ReadError::WrongKind { .. }) => Ok(None),
            found => found,
        }
    }

    /// Returns the string at the end of the path. Anything else there is an error.
    pub fn text_at(self, path: &[&str]) -> Result<Option<Cow<'a, str>>, ReadError> {
        self.typed_at(path, "a string", Self::text)
    }

    /// Returns the flag at the end of the path. Anything else there is an error.
    pub fn bool_at(self, path: &[&str]) -> Result<Option<bool>, ReadError> {
        self.typed_at(path, "true or false", Self::bool)
    }

    fn typed_at<T>(
        self,
        path: &[&str],
        expected: &'static str,
        take: fn(Self) -> Option<T>,
    ) -> Result<Option<T>, ReadError> {
        let wrong = || ReadError::WrongKind {
            name: path.last().copied().unwrap_or_default().to_owned(),
            expected,
        };
        self.at(path)?.map(|value| take(value).ok_or_else(wrong)).transpose()
    }

    /// Returns the members of an object in their order, null ones included; nothing for other
    /// values.
    pub fn members(self) -> impl Iterator<Item = (Cow<'a, str>, Self)> {
        let text = self.text;
        self.entries(Kind::Object).map(move |entry| {
            (unescape(between_quotes(&text[entry.key])), Self::known(&text[entry.value]))
        })
    }

    /// Returns the items of a list; nothing for other values.
    pub fn items(self) -> impl Iterator<Item = Self> {
        let text = self.text;
        self.entries(Kind::List).map(move |entry| Self::known(&text[entry.value]))
    }

    fn entries(self, kind: Kind) -> impl Iterator<Item = Entry> + use<'a> {
        (self.kind() == kind).then(|| Entries::new(self.text)).into_iter().flatten()
    }

    /// Returns the content of a string; a lone surrogate in it reads as U+FFFD.
    pub fn text(self) -> Option<Cow<'a, str>> {
        (self.kind() == Kind::Text).then(|| unescape(between_quotes(self.text)))
    }

    /// Returns a string, or a number as text: a whole number by its value, another one in its
    /// spelling. For ids that some programs number.
    pub fn text_or_number(self) -> Option<Cow<'a, str>> {
        match self.kind() {
            Kind::Text => self.text(),
            Kind::Number => Some(
                self.integer()
                    .map_or(Cow::Borrowed(self.text), |number| number.to_string().into()),
            ),
            Kind::Null | Kind::Bool | Kind::List | Kind::Object => None,
        }
    }

    /// Returns a string that may be a piece of a longer one.
    pub fn text_chunk(self) -> Option<TextChunk<'a>> {
        (self.kind() == Kind::Text).then(|| TextChunk::new(between_quotes(self.text)))
    }

    pub fn bool(self) -> Option<bool> {
        (self.kind() == Kind::Bool).then_some(self.text == "true")
    }

    /// Returns the integer value of a number in any spelling.
    pub fn integer(self) -> Option<i128> {
        (self.kind() == Kind::Number).then(|| number::integer(self.text)).flatten()
    }

    /// Returns the number if it is within the range of `f64`.
    pub fn float(self) -> Option<f64> {
        (self.kind() == Kind::Number)
            .then(|| self.text.parse().ok())
            .flatten()
            .filter(|float: &f64| float.is_finite())
    }
}

impl fmt::Debug for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text)
    }
}

impl fmt::Display for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text)
    }
}

/// Returns the text between the quotes.
pub(crate) fn between_quotes(quoted: &str) -> &str {
    quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
