//! Writes the types of the contract as Markdown: the members of each, with their types and
//! descriptions.

use std::collections::BTreeMap;

use serde_json::Value;
use utoipa::ToSchema;

/// A type of the contract with the types that it refers to.
pub(super) struct NamedSchema {
    name: String,
    all: Vec<(String, Value)>,
}

/// Returns the schema of a type.
pub(super) fn schema_of<T: ToSchema>() -> NamedSchema {
    let mut beneath = Vec::new();
    T::schemas(&mut beneath);
    beneath.push((T::name().into_owned(), T::schema()));
    let to_value = |schema| serde_json::to_value(schema).unwrap();
    let all = beneath.into_iter().map(|(name, schema)| (name, to_value(schema))).collect();
    NamedSchema { name: T::name().into_owned(), all }
}

/// The types that the page has mentioned so far.
#[derive(Debug, Default)]
pub(super) struct SchemaPage(BTreeMap<String, Value>);

impl SchemaPage {
    /// Adds a type, and returns a link to it.
    pub(super) fn add_type(&mut self, schema: NamedSchema) -> String {
        self.0.extend(schema.all);
        link_to(&schema.name)
    }

    /// Returns a section for each type.
    pub(super) fn write_types(&self) -> String {
        self.0
            .iter()
            .map(|(name, schema)| format!("\n### {name}\n\n{}", write_type(schema)))
            .collect()
    }
}

fn link_to(name: &str) -> String {
    format!("[{name}](#{})", name.to_lowercase())
}

fn write_type(schema: &Value) -> String {
    let mut text = String::new();
    if let Some(about) = describe(schema) {
        text.push_str(&format!("{about}\n\n"));
    }
    let members = write_members(schema);
    if members.is_empty() {
        text.push_str(&format!("{}\n", type_text(schema)));
    }
    text + &members
}

/// Returns one line for each member. The parts of a union follow each other.
fn write_members(schema: &Value) -> String {
    let required: Vec<&str> = list(schema, "required").filter_map(Value::as_str).collect();
    let mut text = String::new();
    for (name, member) in schema["properties"].as_object().into_iter().flatten() {
        let mark = if required.contains(&name.as_str()) { "" } else { "?" };
        let about = describe(member).map(|about| format!(": {about}")).unwrap_or_default();
        text.push_str(&format!("- `{name}`{mark} {}{about}\n", type_text(member)));
    }
    for part in ["allOf", "oneOf", "anyOf"].iter().flat_map(|word| list(schema, word)) {
        let members = write_members(part);
        let referred = part["$ref"]
            .as_str()
            .map(|_| format!("- and the members of {}\n", type_text(part)));
        text.push_str(&referred.unwrap_or(members));
    }
    text
}

fn list<'a>(schema: &'a Value, word: &str) -> impl Iterator<Item = &'a Value> {
    schema[word].as_array().into_iter().flatten()
}

/// Returns the description on one line.
fn describe(schema: &Value) -> Option<String> {
    let about = schema["description"].as_str()?;
    Some(about.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Returns the type in a few words.
fn type_text(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        return link_to(name);
    }
    if schema["enum"].is_array() {
        let words: Vec<String> = list(schema, "enum").map(|word| format!("`{word}`")).collect();
        return words.join(", ");
    }
    for union in ["oneOf", "anyOf", "allOf"] {
        if schema[union].is_array() {
            return list(schema, union).map(type_text).collect::<Vec<_>>().join(" or ");
        }
    }
    match &schema["type"] {
        Value::String(word) if word == "array" => {
            format!("list of {}", type_text(&schema["items"]))
        }
        Value::String(word) if word == "object" && schema["additionalProperties"].is_object() => {
            format!("object of {}", type_text(&schema["additionalProperties"]))
        }
        Value::String(word) => word.clone(),
        Value::Array(words) => {
            words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or ")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => "any JSON".to_owned(),
    }
}
