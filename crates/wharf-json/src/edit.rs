//! Changes one member of an object and no other byte.

use std::borrow::Cow;
use std::ops::Range;

use crate::json::between_quotes;
use crate::text::reads_as;
use crate::walk::{Entries, Entry};
use crate::{Json, Kind, ReadError};

/// Returns the text of `json` with the member at the end of the path set to `value`, which is JSON
/// text. Creates objects on the path that are absent or null. A new member comes last.
pub fn set(json: Json<'_>, path: &[&str], value: &str) -> Result<String, ReadError> {
    let text = json.raw();
    let mut here = json;
    let mut offset = 0;
    for (index, name) in path.iter().enumerate() {
        let rest = &path[index + 1..];
        let Some(entry) = find(here, name)? else {
            return Ok(insert(
                text,
                offset..offset + here.raw().len(),
                name,
                &wrapped(rest, value),
            ));
        };
        let span = offset + entry.value.start..offset + entry.value.end;
        let found = Json::known(&text[span.clone()]);
        if rest.is_empty() || found.kind() == Kind::Null {
            return Ok(replaced(text, span, &wrapped(rest, value)));
        }
        here = found;
        offset = span.start;
    }
    Ok(value.to_owned())
}

/// Returns the text of `json` without the member at the end of the path; unchanged if there is
/// none.
pub fn remove<'a>(json: Json<'a>, path: &[&str]) -> Result<Cow<'a, str>, ReadError> {
    let text = json.raw();
    let Some((entry, object)) = locate(json, path)? else { return Ok(Cow::Borrowed(text)) };
    let bytes = text.as_bytes();
    // The comma before the member is removed with it, or the one after it if it is the first.
    let before = text[object.start + 1..entry.key.start].trim_ascii_end();
    let from = object.start + 1 + before.len();
    let after = crate::walk::skip_space(bytes, entry.value.end);
    let span = if before.ends_with(',') {
        from - 1..entry.value.end
    } else if bytes.get(after) == Some(&b',') {
        entry.key.start..crate::walk::skip_space(bytes, after + 1)
    } else {
        entry.key.start..entry.value.end
    };
    Ok(Cow::Owned(replaced(text, span, "")))
}

/// Returns the text of `json` with another key for the member at the end of the path; unchanged if
/// there is none.
pub fn rename<'a>(json: Json<'a>, path: &[&str], name: &str) -> Result<Cow<'a, str>, ReadError> {
    let text = json.raw();
    let Some((entry, _)) = locate(json, path)? else { return Ok(Cow::Borrowed(text)) };
    Ok(Cow::Owned(replaced(text, entry.key, &quoted(name))))
}

/// Returns the text of `json` with one member `name` in the object at the end of the path, which is
/// an object whose member `inner` is the value that was there: the value of a single member, a list
/// of the values of several. Unchanged if there is none.
pub fn wrap<'a>(
    json: Json<'a>,
    path: &[&str],
    name: &str,
    inner: &str,
) -> Result<Cow<'a, str>, ReadError> {
    let Some(object) = json.at(path)?.filter(|object| object.is_object()) else {
        return Ok(Cow::Borrowed(json.raw()));
    };
    let Some(span) = object.span_in(json.raw().as_bytes()) else {
        return Ok(Cow::Borrowed(json.raw()));
    };
    let mut text = object.raw().to_owned();
    let entries = Entries::new(object.raw())
        .filter(|entry| reads_as(between_quotes(&text[entry.key.clone()]), name));
    let entries: Vec<Entry> = entries.collect();
    let values: Vec<&str> =
        entries.iter().map(|entry| &object.raw()[entry.value.clone()]).collect();
    let value =
        if let [value] = values[..] { value.to_owned() } else { format!("[{}]", values.join(",")) };
    let Some((first, others)) = entries.split_first() else { return Ok(Cow::Borrowed(json.raw())) };
    for other in others.iter().rev() {
        // A member stands before it, so a comma does.
        let comma = text[..other.key.start].rfind(',').unwrap_or(other.key.start);
        text = replaced(&text, comma..other.value.end, "");
    }
    let member = format!("{}:{}", quoted(name), wrapped(&[inner], &value));
    let text = replaced(&text, first.key.start..first.value.end, &member);
    Ok(Cow::Owned(replaced(json.raw(), span, &text)))
}

/// Returns the position of the member at the end of the path in the whole text, and the object that
/// holds it.
fn locate(json: Json<'_>, path: &[&str]) -> Result<Option<(Entry, Range<usize>)>, ReadError> {
    let text = json.raw();
    let mut object = 0..text.len();
    let Some((last, way)) = path.split_last() else { return Ok(None) };
    for name in way {
        let Some(entry) = find(Json::known(&text[object.clone()]), name)? else { return Ok(None) };
        object = object.start + entry.value.start..object.start + entry.value.end;
        if Json::known(&text[object.clone()]).kind() == Kind::Null {
            return Ok(None);
        }
    }
    let found = find(Json::known(&text[object.clone()]), last)?;
    Ok(found.map(|entry| {
        let shift = |span: Range<usize>| object.start + span.start..object.start + span.end;
        (Entry { key: shift(entry.key), value: shift(entry.value) }, object.clone())
    }))
}

fn find(object: Json<'_>, name: &str) -> Result<Option<Entry>, ReadError> {
    if !object.is_object() {
        return Err(ReadError::WrongKind {
            name: format!("the object of {name}"),
            expected: "an object",
        });
    }
    let text = object.raw();
    let mut found = None;
    for entry in Entries::new(text) {
        if reads_as(between_quotes(&text[entry.key.clone()]), name)
            && found.replace(entry).is_some()
        {
            return Err(ReadError::Twice(name.to_owned()));
        }
    }
    Ok(found)
}

/// Inserts a member at the end of the object.
fn insert(text: &str, object: Range<usize>, name: &str, value: &str) -> String {
    let inside = &text[object.start + 1..object.end - 1];
    let comma = if inside.trim_ascii().is_empty() { "" } else { "," };
    let end = object.end - 1;
    replaced(text, end..end, &format!("{comma}{}:{value}", quoted(name)))
}

/// Returns the value inside the objects that the path names.
fn wrapped(path: &[&str], value: &str) -> String {
    path.iter()
        .rev()
        .fold(value.to_owned(), |inside, name| format!("{{{}:{inside}}}", quoted(name)))
}

fn quoted(name: &str) -> String {
    serde_json::Value::from(name).to_string()
}

fn replaced(text: &str, span: Range<usize>, with: &str) -> String {
    [&text[..span.start], with, &text[span.end..]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json<'_> {
        Json::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_member_is_set_and_no_other_byte_changes() {
        for (text, path, expected) in [
            (r#"{ "a" : 1e400 , "b":2 }"#, &["b"][..], r#"{ "a" : 1e400 , "b":NEW }"#),
            (r#"{ "a" : 1e400 , "\u0062":2 }"#, &["b"], r#"{ "a" : 1e400 , "\u0062":NEW }"#),
            (r#"{ "a" : -0 }"#, &["b"], r#"{ "a" : -0 ,"b":NEW}"#),
            ("{ }", &["b"], r#"{ "b":NEW}"#),
            (r#"{"a":{"x":"\ud83d"},"c":1}"#, &["a", "b"], r#"{"a":{"x":"\ud83d","b":NEW},"c":1}"#),
            (r#"{"a":null}"#, &["a", "b"], r#"{"a":{"b":NEW}}"#),
            (r#"{"c":1}"#, &["a", "b", "\""], r#"{"c":1,"a":{"b":{"\"":NEW}}}"#),
            (r#"{"a":{"b":{"x":1}}}"#, &["a", "b"], r#"{"a":{"b":NEW}}"#),
        ] {
            assert_eq!(set(json(text), path, "NEW").unwrap(), expected);
        }
    }

    #[test]
    fn a_member_is_removed_with_one_comma() {
        for (text, path, expected) in [
            (r#"{"a":1,"b":2,"c":3}"#, &["a"][..], r#"{"b":2,"c":3}"#),
            (r#"{"a":1,"b":2,"c":3}"#, &["b"], r#"{"a":1,"c":3}"#),
            (r#"{"a":1 , "b":2 , "c":3 }"#, &["c"], r#"{"a":1 , "b":2  }"#),
            (r#"{ "a":1 }"#, &["a"], "{  }"),
            (r#"{"x":{"a":[1,{}]},"a":2}"#, &["x", "a"], r#"{"x":{},"a":2}"#),
            (r#"{"x":null}"#, &["x", "a"], r#"{"x":null}"#),
            (r#"{"x":1}"#, &["y", "a"], r#"{"x":1}"#),
        ] {
            assert_eq!(remove(json(text), path).unwrap(), expected, "{text}");
            assert!(Json::parse(remove(json(text), path).unwrap().as_bytes()).is_ok());
        }
    }

    #[test]
    fn a_member_gets_another_name() {
        let text = r#"{"_meta":{ "wharf" : {"eventId":"1-1"},"x":1e400}}"#;
        let expected = r#"{"_meta":{ "wharf.agent" : {"eventId":"1-1"},"x":1e400}}"#;
        assert_eq!(rename(json(text), &["_meta", "wharf"], "wharf.agent").unwrap(), expected);
        assert_eq!(rename(json(text), &["_meta", "other"], "y").unwrap(), text);
    }

    #[test]
    fn members_of_one_name_become_one_object() {
        for (text, expected) in [
            (r#"{"p":{ "m" : 1.50 ,"a":1}}"#, r#"{"p":{ "m":{"i":1.50} ,"a":1}}"#),
            (
                r#"{"p":{"m":{"x":1},"a":",","m" : null }}"#,
                r#"{"p":{"m":{"i":[{"x":1},null]},"a":"," }}"#,
            ),
            (
                r#"{"p":{"\u006d":"v" , "m":2,"m":3,"b":1}}"#,
                r#"{"p":{"m":{"i":["v",2,3]} ,"b":1}}"#,
            ),
            (r#"{"p":{"a":1},"m":1}"#, r#"{"p":{"a":1},"m":1}"#),
            (r#"{"p":[1]}"#, r#"{"p":[1]}"#),
            ("{}", "{}"),
        ] {
            let wrapped = wrap(json(text), &["p"], "m", "i").unwrap();
            assert_eq!(wrapped, expected, "{text}");
            assert!(Json::parse(wrapped.as_bytes()).is_ok(), "{wrapped}");
        }
    }

    #[test]
    fn ambiguous_members_are_not_changed() {
        let text = r#"{"a":1,"\u0061":2}"#;
        for refused in
            [set(json(text), &["a"], "3"), remove(json(text), &["a"]).map(Cow::into_owned)]
        {
            assert_eq!(refused, Err(ReadError::Twice("a".to_owned())));
        }
        assert!(matches!(
            set(json(r#"{"a":[]}"#), &["a", "b"], "1"),
            Err(ReadError::WrongKind { .. })
        ));
    }
}
