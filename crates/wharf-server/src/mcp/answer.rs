//! The answer of a tool, and its form as structured content.

use rmcp::model::{CallToolResult, ContentBlock, JsonObject};
use serde::Serialize;
use serde_json::Value;
use wharf_api::ErrorCode;

use crate::fault::Fault;

/// The answer of a tool before it has the form of the protocol.
#[derive(Debug)]
pub(super) struct ToolAnswer {
    structured: Value,
    /// The text for a model; without it the structured content as JSON.
    text: Option<String>,
}

/// The answer of a tool, or its fault.
pub(super) type ToolOutcome = Result<ToolAnswer, Fault>;

impl ToolAnswer {
    pub(super) fn new<T: Serialize>(output: &T) -> ToolOutcome {
        let structured = serde_json::to_value(output).map_err(|error| {
            tracing::error!(%error, "a tool's output cannot be written");
            Fault::new(ErrorCode::INTERNAL, "the answer cannot be written")
        })?;
        Ok(Self { structured, text: None })
    }

    pub(super) fn with_text(mut self, text: String) -> Self {
        self.text = Some(text);
        self
    }

    /// Returns the answer in the form that the tool's output schema describes.
    pub(super) fn into_result(mut self, output_schema: &JsonObject) -> CallToolResult {
        let mut schemas = Vec::new();
        collect_schemas(Some(output_schema), &mut schemas);
        remove_null_members(&mut self.structured, &schemas);
        let text = self.text;
        let mut result = CallToolResult::structured(self.structured);
        if let Some(text) = text {
            result.content = vec![ContentBlock::text(text)];
        }
        result
    }
}

/// Removes the null members that the schemas name, since the schemas of tools have no nullable
/// members. JSON of an agent has no named members in its schema and stays as it is.
fn remove_null_members(value: &mut Value, schemas: &[&JsonObject]) {
    match value {
        Value::Object(members) => {
            members.retain(|name, member| {
                !member.is_null() || allows_null(&list_member_schemas(schemas, name))
            });
            for (name, member) in members.iter_mut() {
                remove_null_members(member, &list_member_schemas(schemas, name));
            }
        }
        Value::Array(items) => {
            let schemas = list_item_schemas(schemas);
            for item in items {
                remove_null_members(item, &schemas);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns true if no schema restricts the type of the value.
fn allows_null(schemas: &[&JsonObject]) -> bool {
    let restricts = |schema: &&JsonObject| {
        ["type", "enum", "const"].iter().any(|word| schema.contains_key(*word))
    };
    !schemas.iter().any(restricts)
}

/// Returns the schemas of a member: those under its name, else those of all members without a name.
fn list_member_schemas<'a>(schemas: &[&'a JsonObject], name: &str) -> Vec<&'a JsonObject> {
    let mut found = Vec::new();
    for schema in schemas {
        let named = schema.get("properties").and_then(|properties| properties.get(name));
        let member = named.or_else(|| schema.get("additionalProperties"));
        collect_schemas(member.and_then(Value::as_object), &mut found);
    }
    found
}

fn list_item_schemas<'a>(schemas: &[&'a JsonObject]) -> Vec<&'a JsonObject> {
    let mut found = Vec::new();
    for schema in schemas {
        collect_schemas(schema.get("items").and_then(Value::as_object), &mut found);
    }
    found
}

/// Collects a schema and the schemas that it combines. A value may have the members of each.
fn collect_schemas<'a>(schema: Option<&'a JsonObject>, found: &mut Vec<&'a JsonObject>) {
    let Some(schema) = schema else { return };
    found.push(schema);
    for word in ["allOf", "anyOf", "oneOf"] {
        let combined = schema.get(word).and_then(Value::as_array).into_iter().flatten();
        combined.for_each(|one| collect_schemas(one.as_object(), found));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn prune(schema: &Value, mut value: Value) -> Value {
        let mut schemas = Vec::new();
        collect_schemas(schema.as_object(), &mut schemas);
        remove_null_members(&mut value, &schemas);
        value
    }

    #[test]
    fn null_members_that_a_schema_names_are_left_out() {
        let text = json!({ "type": "string" });
        let inner =
            json!({ "type": "object", "properties": { "why": text, "cost": { "anyOf": [text] } } });
        let schema = json!({ "allOf": [{ "properties": { "one": inner } }], "properties": { "many": { "items": inner } } });
        let whole = json!({ "one": { "why": null, "cost": null }, "many": [{ "why": "so" }, { "why": null }] });
        assert_eq!(prune(&schema, whole), json!({ "one": {}, "many": [{ "why": "so" }, {}] }));
    }

    #[test]
    fn null_in_json_of_an_agent_stays() {
        let schema = json!({ "properties": { "params": {}, "row": { "type": "object", "additionalProperties": true } } });
        let whole = json!({ "params": { "rawInput": null }, "row": { "why": null, "deep": [{ "text": null }] } });
        assert_eq!(prune(&schema, whole.clone()), whole);
        assert_eq!(prune(&schema, json!({ "params": null })), json!({ "params": null }));
    }
}
