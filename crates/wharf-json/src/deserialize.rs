//! Reads into types that derive `Deserialize`, with the tolerance of this crate.

use std::borrow::Cow;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};

use crate::json::between_quotes;
use crate::text::unescape;
use crate::walk::{Entries, skip_value};
use crate::{Json, Kind, MAX_VALUE_DEPTH, ReadError};

/// The name by which a [`Json`] asks the reader for its own text.
const JSON: &str = "$wharf_json::Json";

/// Reads the members that `T` names. A null member counts as absent and a duplicate is an error;
/// other members are skipped, whatever they hold.
pub fn read<'a, T: Deserialize<'a>>(json: Json<'a>) -> Result<T, ReadError> {
    let mut at = 0;
    T::deserialize(Reader::new(json.raw(), &mut at))
}

/// Checks that the bytes are JSON and reads the members that `T` names.
pub fn read_bytes<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, ReadError> {
    read(Json::parse(text)?)
}

/// Reads one value and moves on behind it.
pub(crate) struct Reader<'a, 'p> {
    text: &'a str,
    at: &'p mut usize,
    depth: usize,
}

impl<'a, 'p> Reader<'a, 'p> {
    /// Creates a reader. `text` must be JSON.
    pub(crate) const fn new(text: &'a str, at: &'p mut usize) -> Self {
        Self { text, at, depth: 0 }
    }

    /// Takes the whole value.
    fn take(&mut self) -> Json<'a> {
        let end = skip_value(self.text.as_bytes(), *self.at);
        let json = Json::known(&self.text[*self.at..end]);
        *self.at = end;
        json
    }

    fn kind(&self) -> Kind {
        Json::known(&self.text[*self.at..]).kind()
    }

    /// Visits an object or a list and moves on behind it.
    fn visit_entries<V: Visitor<'a>>(
        self,
        visitor: V,
        skip_nulls: bool,
    ) -> Result<V::Value, ReadError> {
        let is_object = self.kind() == Kind::Object;
        let mut entries = ReadEntries {
            entries: Entries::within(self.text, *self.at),
            text: self.text,
            depth: self.depth + 1,
            value: 0,
            skip_nulls,
        };
        let value = if is_object {
            visitor.visit_map(&mut entries)
        } else {
            visitor.visit_seq(&mut entries)
        }?;
        // Skips the entries that the visitor did not read.
        while entries.entries.next().is_some() {}
        *self.at = entries.entries.end();
        Ok(value)
    }
}

impl<'a> Deserializer<'a> for Reader<'a, '_> {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'a>>(mut self, visitor: V) -> Result<V::Value, ReadError> {
        match self.kind() {
            Kind::Object | Kind::List if self.depth < MAX_VALUE_DEPTH => {
                self.visit_entries(visitor, false)
            }
            Kind::Object | Kind::List => visitor.visit_borrowed_str(self.take().raw()),
            Kind::Null => {
                self.take();
                visitor.visit_unit()
            }
            Kind::Bool => visitor.visit_bool(self.take().raw() == "true"),
            Kind::Text => match unescape(between_quotes(self.take().raw())) {
                Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
                Cow::Owned(text) => visitor.visit_string(text),
            },
            Kind::Number => visit_number(self.take(), visitor),
        }
    }

    fn deserialize_option<V: Visitor<'a>>(mut self, visitor: V) -> Result<V::Value, ReadError> {
        if self.kind() == Kind::Null {
            self.take();
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'a>>(
        mut self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        if name == JSON {
            return visitor.visit_borrowed_str(self.take().raw());
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'a>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match self.kind() {
            Kind::Object => self.visit_entries(visitor, true),
            // A list does not stand for the members of a struct in their order.
            Kind::Null | Kind::Bool | Kind::Number | Kind::Text | Kind::List => {
                Err(ReadError::WrongKind { name: String::new(), expected: "an object" })
            }
        }
    }

    /// Reads a variant that is named by a string; variants with content do not occur in frames.
    fn deserialize_enum<V: Visitor<'a>>(
        mut self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        let json = self.take();
        let text = json
            .text()
            .ok_or(ReadError::WrongKind { name: String::new(), expected: "a string" })?;
        visitor.visit_enum(de::value::CowStrDeserializer::new(text))
    }

    fn deserialize_ignored_any<V: Visitor<'a>>(
        mut self,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        self.take();
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        <V: Visitor<'a>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier
    }
}

fn visit_number<'a, V: Visitor<'a>>(number: Json<'a>, visitor: V) -> Result<V::Value, ReadError> {
    let text = number.raw();
    if let Ok(integer) = text.parse::<u64>() {
        return visitor.visit_u64(integer);
    }
    // -0 is a float, as it is for `serde_json`: an integer would lose its sign.
    if let Some(integer) = text.parse::<i64>().ok().filter(|integer| *integer != 0) {
        return visitor.visit_i64(integer);
    }
    match number.float() {
        Some(float) => visitor.visit_f64(float),
        None => visitor.visit_borrowed_str(text),
    }
}

struct ReadEntries<'a> {
    entries: Entries<'a>,
    text: &'a str,
    depth: usize,
    /// The position of the value of the last key.
    value: usize,
    skip_nulls: bool,
}

impl<'a> ReadEntries<'a> {
    fn read_value<S: DeserializeSeed<'a>>(&mut self, seed: S) -> Result<S::Value, ReadError> {
        let mut at = self.value;
        let value = seed.deserialize(Reader { text: self.text, at: &mut at, depth: self.depth })?;
        self.entries.leave(at);
        Ok(value)
    }
}

impl<'a> MapAccess<'a> for &mut ReadEntries<'a> {
    type Error = ReadError;

    fn next_key_seed<K: DeserializeSeed<'a>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ReadError> {
        loop {
            let Some((key, value)) = self.entries.enter() else { return Ok(None) };
            self.value = value;
            if self.skip_nulls && self.text[value..].starts_with("null") {
                self.entries.leave(value + "null".len());
                continue;
            }
            let key = unescape(between_quotes(&self.text[key]));
            return seed.deserialize(de::value::CowStrDeserializer::new(key)).map(Some);
        }
    }

    fn next_value_seed<S: DeserializeSeed<'a>>(&mut self, seed: S) -> Result<S::Value, ReadError> {
        self.read_value(seed)
    }
}

impl<'a> SeqAccess<'a> for &mut ReadEntries<'a> {
    type Error = ReadError;

    fn next_element_seed<S: DeserializeSeed<'a>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, ReadError> {
        let Some((_, value)) = self.entries.enter() else { return Ok(None) };
        self.value = value;
        self.read_value(seed).map(Some)
    }
}

/// Only [`read`] provides a view of the text; other deserializers fail.
impl<'de: 'a, 'a> Deserialize<'de> for Json<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Whole;

        impl<'de> Visitor<'de> for Whole {
            type Value = Json<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("JSON text, read by wharf_json::read")
            }

            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Json<'de>, E> {
                Ok(Json::known(text))
            }
        }

        deserializer.deserialize_newtype_struct(JSON, Whole)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::Value;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "camelCase")]
    struct Sample<'a> {
        #[serde(borrow)]
        name: Cow<'a, str>,
        #[serde(borrow)]
        any: Option<Json<'a>>,
        #[serde(default)]
        list: Vec<u8>,
        #[serde(default)]
        max_bytes: Option<u64>,
    }

    fn sample(text: &str) -> Result<Sample<'_>, ReadError> {
        read_bytes(text.as_bytes())
    }

    #[test]
    fn named_members_are_read_beside_odd_members() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let text = format!(
            r#"{{ "x":1e400,"\ud83d":{deep},"n\u0061me":"a\ud83d","x":2, "any" : {{"y":1e400,"z":{deep}}} ,"list":[ 1,2 ],"maxBytes":null}}"#
        );
        let any = format!(r#"{{"y":1e400,"z":{deep}}}"#);
        let any = Some(Json::parse(any.as_bytes()).unwrap());
        let expected = Sample {
            name: "a\u{fffd}".into(),
            any,
            list: vec![1, 2],
            max_bytes: None,
        };
        assert_eq!(sample(&text).unwrap(), expected);
    }

    #[test]
    fn a_null_member_is_absent_for_every_type() {
        let expected = Sample {
            name: "n".into(),
            any: None,
            list: Vec::new(),
            max_bytes: None,
        };
        assert_eq!(sample(r#"{"name":"n","any":null,"list":null}"#).unwrap(), expected);
        assert_eq!(sample(r#"{"name":null}"#), Err(ReadError::Missing("name".to_owned())));
    }

    #[test]
    fn a_named_member_that_stands_twice_is_an_error() {
        assert_eq!(
            sample(r#"{"name":"a","\u006eame":"b"}"#),
            Err(ReadError::Twice("name".to_owned()))
        );
    }

    #[test]
    fn a_named_member_of_another_type_is_an_error() {
        for text in [
            r#"{"name":1}"#,
            r#"{"name":"n","list":[300]}"#,
            r#"{"name":"n","maxBytes":1e400}"#,
            r#"["n"]"#,
        ] {
            assert!(sample(text).is_err(), "{text}");
        }
    }

    #[test]
    fn values_maps_and_tuples_are_read_and_the_rest_of_a_list_is_skipped() {
        let map: BTreeMap<String, Option<(u8, u8)>> =
            read_bytes(br#"{"a":[1,2,{"x":[]}],"b":null}"#).unwrap();
        assert_eq!(map, BTreeMap::from([("a".to_owned(), Some((1, 2))), ("b".to_owned(), None)]));
        let value: Value = read_bytes(br#"[1e400,{"a":null},-0,-5,1.5]"#).unwrap();
        assert_eq!(value, serde_json::json!(["1e400", { "a": null }, -0.0, -5, 1.5]));
    }

    #[test]
    fn variants_are_read_by_name() {
        #[derive(Debug, Deserialize, PartialEq)]
        #[serde(rename_all = "snake_case")]
        enum Word {
            OneThing,
        }
        assert_eq!(read_bytes::<Vec<Word>>(br#"["one_thing"]"#), Ok(vec![Word::OneThing]));
        assert!(read_bytes::<Word>(b"\"other\"").is_err() && read_bytes::<Word>(b"{}").is_err());
    }
}
