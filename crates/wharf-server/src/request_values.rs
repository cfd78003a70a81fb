//! Reads the values that a request holds (a JSON body, a tool's arguments, a query) and explains in
//! plain words which of them cannot be used.

use axum::extract::Query;
use axum::http::Uri;
use serde::de::{DeserializeOwned, IgnoredAny};

/// The reason why values cannot be read, in words for the caller.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum UnfitValues {
    NotJson(String),
    /// A member is missing, or has a value that it cannot have.
    Member(String),
}

/// Reads a JSON object. serde would also take a list for one, whose values are the members in their
/// order.
pub(crate) fn read_object<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, UnfitValues> {
    // Malformed JSON is found first: a member of the wrong type may come before a missing bracket.
    wharf_json::read_own::<IgnoredAny>(bytes)
        .map_err(|error| UnfitValues::NotJson(explain_syntax(bytes, &error)))?;
    if let Some(kind) = kind_besides_object(bytes) {
        return Err(UnfitValues::Member(format!("the body must be an object, not {kind}")));
    }
    match axum::Json::from_bytes(bytes) {
        Ok(axum::Json(value)) => Ok(value),
        Err(rejection) => {
            let text = rejection.body_text();
            // The reason names the member; the framework's preface is dropped.
            let reason = text.split_once(": ").map_or(text.as_str(), |(_, reason)| reason);
            Err(UnfitValues::Member(explain_mismatch(reason)))
        }
    }
}

/// Reads a query string.
pub(crate) fn read_query<T: DeserializeOwned>(uri: &Uri) -> Result<T, String> {
    match Query::try_from_uri(uri) {
        Ok(Query(values)) => Ok(values),
        Err(rejection) => {
            let text = rejection.body_text();
            Err(explain_mismatch(text.trim_start_matches("Failed to deserialize query string: ")))
        }
    }
}

fn explain_syntax(bytes: &[u8], error: &serde_json::Error) -> String {
    if bytes.trim_ascii().is_empty() {
        return "not JSON: the body is empty".to_owned();
    }
    if error.is_eof() {
        return "not JSON: the text ends too early".to_owned();
    }
    format!("not JSON: the mistake is in line {}, column {}", error.line(), error.column())
}

/// Returns the kind of a JSON value that is not an object.
fn kind_besides_object(json: &[u8]) -> Option<&'static str> {
    match json.trim_ascii_start().first()? {
        b'{' => None,
        b'[' => Some("a list"),
        b'"' => Some("a text"),
        b't' | b'f' => Some("true or false"),
        b'n' => Some("null"),
        _ => Some("a number"),
    }
}

/// Returns an error of serde in plain words, with the path to the member in front.
fn explain_mismatch(error: &str) -> String {
    let error = error.rsplit_once(" at line ").map_or(error, |(reason, _)| reason);
    for (mark, explain) in REASONS {
        if let Some((path, reason)) = error.split_once(mark) {
            let path = path.trim_end_matches(": ").trim_end_matches('.');
            return explain(path, reason);
        }
    }
    error.to_owned()
}

type Explain = fn(&str, &str) -> String;

/// The beginnings of serde's reasons, and how each is explained: from the path before it and the
/// words after it.
const REASONS: [(&str, Explain); 9] = [
    ("missing field `", |path, rest| format!("{}: is missing", join_path(path, rest))),
    ("duplicate field `", |path, rest| format!("{}: is there twice", join_path(path, rest))),
    ("unknown variant `", |path, rest| format!("{path}: must be one of {}", list_words(rest))),
    ("invalid type: ", |path, rest| explain_kinds(path, rest, plain_kind)),
    ("invalid value: ", |path, rest| explain_kinds(path, rest, plain_value)),
    ("provided string was not `true` or `false`", |path, _| {
        format!("{path}: must be true or false")
    }),
    ("invalid digit found in string", |path, _| {
        format!("{path}: must be a whole number, zero or more")
    }),
    ("cannot parse integer from empty string", |path, _| {
        format!("{path}: must be a whole number, zero or more")
    }),
    ("number too large to fit in target type", |path, _| {
        format!("{path}: the number is too large")
    }),
];

/// Returns the path to a member whose name ends with a backtick.
fn join_path(path: &str, name: &str) -> String {
    let name = name.trim_end_matches('`');
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Returns the known words, which serde lists after the unknown word.
fn list_words(reason: &str) -> String {
    let known = reason.rsplit_once("expected ").map_or(reason, |(_, known)| known);
    known.trim_start_matches("one of ").replace('`', "")
}

/// Explains `GIVEN, expected WANTED`.
fn explain_kinds(path: &str, reason: &str, plain_given: fn(&str) -> &str) -> String {
    let (given, wanted) = reason.rsplit_once(", expected ").unwrap_or((reason, "another value"));
    let given = plain_given(given);
    format!(
        "{}must be {}, not {given}",
        if path.is_empty() { String::new() } else { format!("{path}: ") },
        plain_wanted(wanted)
    )
}

fn plain_wanted(wanted: &str) -> &str {
    match wanted {
        "a string" | "a borrowed string" | "a character" => "a text",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "an object",
        "usize" | "u8" | "u16" | "u32" | "u64" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        wanted if wanted.starts_with("struct ") => "an object",
        wanted => wanted,
    }
}

/// Returns the kind of a value that has the wrong type.
fn plain_kind(given: &str) -> &str {
    match given.split_once([' ', '`']).map_or(given, |(kind, _)| kind) {
        "integer" | "floating" => "a number",
        "string" => "a text",
        "boolean" => "true or false",
        "sequence" => "a list",
        "map" => "an object",
        kind => kind,
    }
}

/// Returns a value that has the right type and is not possible.
fn plain_value(given: &str) -> &str {
    given.split_once('`').map_or(given, |(_, value)| value.trim_end_matches('`'))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Eq, Deserialize)]
    struct Inner {
        name: String,
    }

    #[derive(Debug, PartialEq, Eq, Deserialize)]
    struct Body {
        count: Option<u32>,
        inner: Option<Inner>,
        map: Option<BTreeMap<String, bool>>,
    }

    #[test]
    fn reasons_name_the_member_in_plain_words() {
        let member = |text: &str| match read_object::<Body>(text.as_bytes()) {
            Err(UnfitValues::Member(reason)) => reason,
            other => panic!("{text}: {other:?}"),
        };
        for (json, expected) in [
            (r#"{"count":"x"}"#, "count: must be a whole number, not a text"),
            (r#"{"count":-3}"#, "count: must be a whole number, not -3"),
            (r#"{"count":1.5}"#, "count: must be a whole number, not a number"),
            (r#"{"count":true}"#, "count: must be a whole number, not true or false"),
            (r#"{"count":1,"count":2}"#, "count: is there twice"),
            (r#"{"inner":{}}"#, "inner.name: is missing"),
            (r#"{"inner":7}"#, "inner: must be an object, not a number"),
            (r#"{"map":{"a: b":[]}}"#, "map.a: b: must be true or false, not a list"),
            ("[null,null,null]", "the body must be an object, not a list"),
            ("  7", "the body must be an object, not a number"),
        ] {
            assert_eq!(member(json), expected, "{json}");
        }
        let none = Body { count: None, inner: None, map: None };
        assert_eq!(read_object::<Body>(b" {} "), Ok(none));
    }

    #[test]
    fn a_text_that_is_not_json_is_told_with_the_place_of_the_mistake() {
        for (text, expected) in [
            (" ", "not JSON: the body is empty"),
            ("{", "not JSON: the text ends too early"),
            ("{\n  a}", "not JSON: the mistake is in line 2, column 3"),
        ] {
            assert_eq!(
                read_object::<Body>(text.as_bytes()),
                Err(UnfitValues::NotJson(expected.to_owned())),
                "{text}"
            );
        }
    }
}
