//! A JSON value whose end was not looked for, so that its members are found in one walk over the
//! text.

use crate::json::between_quotes;
use crate::text::reads_as;
use crate::walk::{Entries, skip_value};
use crate::{Json, Kind, ReadError};

/// A value within some text that goes on after it.
#[derive(Clone, Copy, Debug)]
pub struct OpenValue<'a> {
    /// The text from the value's first byte on.
    pub(crate) text: &'a str,
}

/// Members of an object, and members of one of them.
#[derive(Clone, Debug)]
pub struct NestedMembers<'a, const N: usize, const M: usize> {
    pub members: [Option<Json<'a>>; N],
    /// The member whose own members were asked for. `None` if it is absent or null.
    pub nested: Option<Json<'a>>,
    /// The members of `nested`. All are absent if `nested` is not an object. Holds an error if one
    /// of them occurs twice.
    pub inner: Result<[Option<Json<'a>>; M], ReadError>,
}

impl<'a> OpenValue<'a> {
    /// Finds the end of the value.
    pub fn close(self) -> Json<'a> {
        Json::known(&self.text[..skip_value(self.text.as_bytes(), 0)])
    }

    /// Returns several members of an object, and of one further member its own members, like
    /// [`Json::several_members`].
    pub fn nested_members<const N: usize, const M: usize>(
        self,
        names: [&str; N],
        nested: &str,
        inner_names: [&str; M],
    ) -> Result<NestedMembers<'a, N, M>, ReadError> {
        if !self.text.starts_with('{') {
            return Err(ReadError::WrongKind { name: String::new(), expected: "an object" });
        }
        let mut found = FoundMembers::new(names);
        let mut found_nested = FoundMembers::new([nested]);
        let mut inner = FoundMembers::new(inner_names);
        let mut inner_twice = None;
        let mut entries = Entries::within(self.text, 0);
        while let Some((key, start)) = entries.enter() {
            let key = between_quotes(&self.text[key]);
            let is_nested = reads_as(key, nested);
            let end = match is_nested && self.text.as_bytes().get(start) == Some(&b'{') {
                true => {
                    let mut entries = Entries::within(self.text, start);
                    for entry in entries.by_ref() {
                        let twice = inner.note(
                            between_quotes(&self.text[entry.key]),
                            Json::known(&self.text[entry.value]),
                        );
                        inner_twice = inner_twice.or(twice);
                    }
                    entries.end()
                }
                false => skip_value(self.text.as_bytes(), start),
            };
            // In text that is not JSON, this skips a stray byte.
            entries.leave(end.max(start + 1).min(self.text.len()));
            let value = Json::known(&self.text[start..end]);
            let twice =
                if is_nested { found_nested.note(key, value) } else { found.note(key, value) };
            if let Some(name) = twice {
                return Err(ReadError::Twice(name.to_owned()));
            }
        }
        let [nested] = found_nested.present();
        let inner = match inner_twice {
            Some(name) => Err(ReadError::Twice(name.to_owned())),
            None => Ok(inner.present()),
        };
        Ok(NestedMembers { members: found.present(), nested, inner })
    }
}

/// The members of these names that were found so far.
struct FoundMembers<'n, 'a, const N: usize> {
    names: [&'n str; N],
    found: [Option<Json<'a>>; N],
}

impl<'n, 'a, const N: usize> FoundMembers<'n, 'a, N> {
    const fn new(names: [&'n str; N]) -> Self {
        Self { names, found: [None; N] }
    }

    /// Notes a member. Returns its name if it occurs for the second time.
    fn note(&mut self, key: &str, value: Json<'a>) -> Option<&'n str> {
        let index = self.names.iter().position(|name| reads_as(key, name))?;
        self.found[index].replace(value).map(|_| self.names[index])
    }

    /// Returns the members that are not null.
    fn present(self) -> [Option<Json<'a>>; N] {
        self.found.map(|value| value.filter(|value| value.kind() != Kind::Null))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<NestedMembers<'_, 1, 2>, ReadError> {
        let frame = Json::checked_before(text);
        frame
            .open_at(&["u"])
            .unwrap()
            .nested_members(["id"], "content", ["type", "text"])
    }

    #[test]
    fn one_walk_finds_what_several_walks_find() {
        for text in [
            r#"{"a":[{}],"u":{"id":"x","content":{"type":"text","text":"a\"}b"},"more":{"id":1}},"u":2}"#,
            r#"{"u" : { "content" : { "text" : "a" , "type" : null } , "\u0069d" : 5 } }"#,
            r#"{"u":{"content":[{"text":1}],"id":null}}"#,
            r#"{"u":{"content":{},"id":{}}}"#,
            r#"{"u":{"content":null}}"#,
            r#"{"u":{}}"#,
            r#"{"u":{"id":1,"id":2}}"#,
            r#"{"u":{"content":{"text":"a"},"content":{"text":"a"}}}"#,
            r#"{"u":{"content":{"text":"a","text":"b"},"id":7}}"#,
            r#"{"u":[1]}"#,
        ] {
            let update = Json::checked_before(text).first_at(&["u"]).unwrap();
            let expected = update.several_members(["id", "content"]).map(|[id, content]| {
                let inner = match content.filter(|content| content.is_object()) {
                    Some(content) => {
                        content.several_members(["type", "text"]).map_err(|error| error.to_string())
                    }
                    None => Ok([None; 2]),
                };
                (id, content, inner)
            });
            let found = read(text).map(|found| {
                let [id] = found.members;
                (id, found.nested, found.inner.map_err(|error| error.to_string()))
            });
            let show = |error: ReadError| error.to_string();
            assert_eq!(found.map_err(show), expected.map_err(show), "{text}");
        }
    }

    #[test]
    fn text_that_is_no_json_is_walked_to_its_end() {
        for text in [
            r#"{"u":{"content":{"#,
            r#"{"u":{"content":{"text":"#,
            r#"{"u":{"content":{"text":"a"#,
            r#"{"u":{]"#,
            r#"{"u":{"content":{]]"#,
        ] {
            assert!(read(text).is_ok(), "{text}");
        }
    }
}
