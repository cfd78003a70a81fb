//! Schemas of tools, and the bound of long answers.

use std::sync::Arc;

use rmcp::model::JsonObject;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

/// The most text of an answer. Some clients refuse more than a mebibyte, which holds the lines
/// twice and escaped; models want far less.
const MAX_TEXT_BYTES: usize = 200 * 1024;

/// Keeps the newest lines that fit into an answer. Also returns whether lines were dropped.
pub(super) fn keep_newest_lines(mut lines: Vec<String>) -> (Vec<String>, bool) {
    let mut room = MAX_TEXT_BYTES;
    let fit = lines.iter().rev().take_while(|line| {
        let fits = line.len() < room;
        room = room.saturating_sub(line.len() + 1);
        fits
    });
    let over = lines.len() - fit.count();
    lines.drain(..over);
    (lines, over > 0)
}

/// Returns a schema that all clients can read: without references, without formats of Rust, and
/// without nullable members, since absent values are left out.
pub(super) fn output_schema<T: JsonSchema>() -> Arc<JsonObject> {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    simplify_schema(&mut schema);
    let Value::Object(mut object) = schema else { return Arc::default() };
    object.remove("title");
    object.remove("description");
    object.remove("$schema");
    Arc::new(object)
}

/// Returns the schema of a tool's arguments, which allows no other arguments.
pub(super) fn input_schema<T: JsonSchema>() -> Arc<JsonObject> {
    let mut schema = JsonObject::clone(&output_schema::<T>());
    schema.insert("additionalProperties".to_owned(), Value::Bool(false));
    Arc::new(schema)
}

fn simplify_schema(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            simplify_members(members);
            members.values_mut().for_each(simplify_schema);
        }
        Value::Array(items) => items.iter_mut().for_each(simplify_schema),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn simplify_members(members: &mut JsonObject) {
    // Formats like `uint64` are unknown to validators.
    if members
        .get("format")
        .and_then(Value::as_str)
        .is_some_and(|format| format.starts_with(['u', 'i']))
    {
        members.remove("format");
    }
    if members.get("default") == Some(&Value::Null) {
        members.remove("default");
    }
    // `true` and `{}` both mean "anything", but some clients know only the second.
    if members.get("items") == Some(&Value::Bool(true)) {
        members.insert("items".to_owned(), Value::Object(JsonObject::new()));
    }
    if let Some(Value::Array(words)) = members.get_mut("enum") {
        words.retain(|word| !word.is_null());
    }
    if let Some(Value::Array(types)) = members.get_mut("type") {
        types.retain(|word| word != "null");
        if types.len() == 1
            && let Some(one) = types.pop()
        {
            members.insert("type".to_owned(), one);
        }
    }
    if let Some(Value::Array(choices)) = members.get_mut("anyOf") {
        choices.retain(|choice| choice["type"] != "null");
        if choices.len() == 1
            && let Some(Value::Object(only)) = choices.pop()
        {
            members.remove("anyOf");
            members.extend(only);
        }
    }
    if let Some(Value::Object(properties)) = members.get_mut("properties") {
        for property in properties.values_mut().filter(|property| **property == Value::Bool(true)) {
            *property = Value::Object(JsonObject::new());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_holds_the_newest_lines_that_fit() {
        let line = |n: usize| format!("{n:0>1023}");
        let (kept, truncated) = keep_newest_lines((0..1_000).map(line).collect());
        assert_eq!((kept.len(), truncated), (200, true));
        assert_eq!(kept.last(), Some(&line(999)));
        assert_eq!(
            keep_newest_lines(vec!["short".to_owned(), String::new()]),
            (vec!["short".to_owned(), String::new()], false)
        );
        assert_eq!(keep_newest_lines(vec!["x".repeat(MAX_TEXT_BYTES)]), (vec![], true));
    }

    #[test]
    fn schemas_have_neither_references_nor_nulls_nor_formats() {
        for tool in super::super::tools::TOOLS.iter() {
            let text = serde_json::to_string(tool).unwrap();
            for odd in ["$ref", "null", "uint", "[`", "\"items\":true"] {
                assert!(!text.contains(odd), "{odd} in {text}");
            }
        }
    }
}
