//! Converts to a `serde_json` value, for views that are derived from frames.

use serde_json::{Map, Number, Value};

use crate::json::between_quotes;
use crate::text::unescape;
use crate::walk::{Entries, skip_value};
use crate::{Json, Kind};

/// The deepest nesting of a [`Value`] made here. Receivers that parse with recursion allow 127 or
/// more, and a view puts a value a few levels deeper.
pub const MAX_VALUE_DEPTH: usize = 100;

impl Json<'_> {
    /// Converts to a `Value`, always. A number beyond `f64` becomes a string with its spelling, a
    /// value nested deeper than [`MAX_VALUE_DEPTH`] a string with its JSON text, a lone surrogate
    /// U+FFFD. The last of duplicate members wins: members that a caller relies on are read by
    /// [`Json::member`].
    ///
    /// `Value::deserialize` is not used, because it treats some keys as markers of its own.
    pub fn to_value(self) -> Value {
        convert(self.raw(), &mut 0, 0)
    }
}

/// Converts the value that begins at `at` and moves on behind it.
fn convert(text: &str, at: &mut usize, depth: usize) -> Value {
    let kind = Json::known(&text[*at..]).kind();
    if matches!(kind, Kind::Object | Kind::List) && depth < MAX_VALUE_DEPTH {
        return convert_entries(text, at, kind, depth + 1);
    }
    let end = skip_value(text.as_bytes(), *at);
    let json = Json::known(&text[*at..end]);
    *at = end;
    match kind {
        Kind::Null => Value::Null,
        Kind::Bool => Value::Bool(json.raw() == "true"),
        Kind::Text => Value::String(unescape(between_quotes(json.raw())).into_owned()),
        Kind::Number => convert_number(json),
        Kind::Object | Kind::List => Value::String(json.raw().to_owned()),
    }
}

fn convert_entries(text: &str, at: &mut usize, kind: Kind, depth: usize) -> Value {
    let mut entries = Entries::within(text, *at);
    let mut members = Map::new();
    let mut items = Vec::new();
    while let Some((key, mut value_at)) = entries.enter() {
        let value = convert(text, &mut value_at, depth);
        entries.leave(value_at);
        if kind == Kind::Object {
            members.insert(unescape(between_quotes(&text[key])).into_owned(), value);
        } else {
            items.push(value);
        }
    }
    *at = entries.end();
    if kind == Kind::Object { Value::Object(members) } else { Value::Array(items) }
}

fn convert_number(number: Json<'_>) -> Value {
    let text = number.raw();
    if let Ok(integer) = text.parse::<u64>() {
        return integer.into();
    }
    // -0 is a float, as it is for `serde_json`: an integer would lose its sign.
    if let Some(integer) = text.parse::<i64>().ok().filter(|integer| *integer != 0) {
        return integer.into();
    }
    let float = number.float().and_then(Number::from_f64);
    float.map_or_else(|| Value::String(text.to_owned()), Value::Number)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn value(text: &str) -> Value {
        Json::parse(text.as_bytes()).unwrap().to_value()
    }

    #[test]
    fn ordinary_values_are_converted_as_they_are() {
        let text = r#"{"a":[1,-2,2.5,true,null,"é\n"],"b":{}}"#;
        assert_eq!(value(text), json!({ "a": [1, -2, 2.5, true, null, "é\n"], "b": {} }));
    }

    #[test]
    fn odd_values_are_converted_beside_the_ordinary_ones() {
        let text = r#"{"big":[1e400,-1E+999,1],"\ud83d":"\ud83d","int":123456789012345678901234567890,"n":null}"#;
        let expected = json!({
            "big": ["1e400", "-1E+999", 1], "\u{fffd}": "\u{fffd}", "int": 1.2345678901234568e29, "n": null,
        });
        assert_eq!(value(text), expected);
    }

    #[test]
    fn nesting_beyond_the_limit_becomes_text() {
        for levels in [MAX_VALUE_DEPTH, MAX_VALUE_DEPTH + 1, 120, 127, 128, 200, 100_000] {
            let text = format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
            let mut inside = value(&text);
            for _ in 0..levels.min(MAX_VALUE_DEPTH) {
                inside = inside[0].take();
            }
            let rest = levels.saturating_sub(MAX_VALUE_DEPTH);
            let expected = format!("{}1{}", "[".repeat(rest), "]".repeat(rest));
            assert_eq!(
                inside,
                if rest == 0 { json!(1) } else { json!(expected) },
                "{levels} levels"
            );
        }
    }

    #[test]
    fn numbers_and_plain_text_are_what_serde_json_makes_of_them() {
        for text in [
            "0",
            "-0",
            "-0.0",
            "1E+2",
            "0.1",
            "18446744073709551615",
            "-9223372036854775808",
            "1e-400",
            "5e-324",
        ] {
            assert_eq!(value(text), serde_json::from_str::<Value>(text).unwrap(), "{text}");
        }
    }

    #[test]
    fn keys_that_serde_json_uses_for_itself_are_ordinary_keys() {
        let expected = json!({ "$serde_json::private::RawValue": "[1]" });
        assert_eq!(value(r#"{"$serde_json::private::RawValue":"[1]"}"#), expected);
        assert_eq!(value(r#"{"\u0024serde_json::private::RawValue":"[1]"}"#), expected);
    }

    #[test]
    fn the_last_of_doubled_members_is_taken() {
        assert_eq!(value(r#"{"a":1,"a":2}"#), json!({ "a": 2 }));
        assert_eq!(value(r#"{"a":1,"a":1e400}"#), json!({ "a": "1e400" }));
    }
}
