//! Reads the OpenAPI document: checks values against its schemas, and makes values from them.

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value, json};

use wharf_testkit::random::TestRandom;

/// The OpenAPI document of a running host.
#[derive(Debug)]
pub(crate) struct OpenApiDocument(pub(crate) Value);

/// One operation of the document.
#[derive(Debug)]
pub(crate) struct Operation<'a> {
    pub(crate) method: String,
    pub(crate) path: &'a str,
    pub(crate) about: &'a Value,
}

impl OpenApiDocument {
    pub(crate) fn list_operations(&self) -> Vec<Operation<'_>> {
        let paths = self.0["paths"].as_object().into_iter().flatten();
        let operations = paths.flat_map(|(path, item)| {
            let item = item.as_object().into_iter().flatten();
            item.map(move |(method, about)| Operation {
                method: method.to_uppercase(),
                path,
                about,
            })
        });
        operations.collect()
    }

    fn resolve_schema<'a>(&'a self, schema: &'a Value) -> &'a Value {
        match schema["$ref"].as_str().and_then(|name| name.strip_prefix('#')) {
            Some(place) => self.0.pointer(place).unwrap_or(&Value::Null),
            None => schema,
        }
    }

    /// Checks that the value matches the schema.
    pub(crate) fn check(&self, value: &Value, schema: &Value) -> Result<()> {
        let schema = self.resolve_schema(schema);
        ensure!(!schema.is_null(), "a schema is missing");
        for part in schema["allOf"].as_array().into_iter().flatten() {
            self.check(value, part)?;
        }
        for word in ["oneOf", "anyOf"] {
            if let Some(choices) = schema[word].as_array() {
                let fits = choices.iter().any(|choice| self.check(value, choice).is_ok());
                ensure!(fits, "{value} is none of {}", schema[word]);
            }
        }
        if let Some(words) = schema["enum"].as_array() {
            ensure!(words.contains(value), "{value} is not one of {words:?}");
        }
        let kinds = schema_kinds(schema);
        ensure!(
            kinds.is_empty() || kinds.iter().any(|kind| has_kind(value, kind)),
            "{value} is not {kinds:?}"
        );
        for (index, item) in value.as_array().into_iter().flatten().enumerate() {
            if schema.get("items").is_some() {
                self.check(item, &schema["items"]).with_context(|| format!("[{index}]"))?;
            }
        }
        if let Some(members) = value.as_object() {
            for name in
                schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str)
            {
                ensure!(members.contains_key(name), "{name} is missing in {value}");
            }
            for (name, member) in members {
                if let Some(schema) = schema["properties"].get(name) {
                    self.check(member, schema).with_context(|| name.clone())?;
                }
            }
        }
        Ok(())
    }

    /// Makes a value that matches the schema, except for rules that a schema cannot express.
    pub(crate) fn make_value(
        &self,
        schema: &Value,
        dice: &mut TestRandom,
        words: &[String],
    ) -> Value {
        let schema = self.resolve_schema(schema);
        let choices = ["oneOf", "anyOf", "enum"].iter().find_map(|word| schema[word].as_array());
        if let Some(choices) = choices {
            let choice = pick_one(choices, dice);
            return if schema.get("enum").is_some() {
                choice.clone()
            } else {
                self.make_value(choice, dice, words)
            };
        }
        let kinds = schema_kinds(schema);
        match if kinds.is_empty() { "string" } else { pick_one(&kinds, dice) } {
            "object" => {
                let mut members = Map::new();
                for (name, member) in schema["properties"].as_object().into_iter().flatten() {
                    let required = schema["required"]
                        .as_array()
                        .is_some_and(|names| names.contains(&json!(name)));
                    if required || dice.next_number().is_multiple_of(3) {
                        members.insert(name.clone(), self.make_value(member, dice, words));
                    }
                }
                Value::Object(members)
            }
            "array" => (0..dice.next_number() % 3)
                .map(|_| self.make_value(&schema["items"], dice, words))
                .collect(),
            "integer" => pick_one(
                &[json!(0), json!(1), json!(3), json!(100), json!(100_000), json!(-1)],
                dice,
            )
            .clone(),
            "boolean" => json!(dice.next_number().is_multiple_of(2)),
            "null" => Value::Null,
            _ => json!(pick_one(words, dice)),
        }
    }

    /// Puts an error into the value.
    pub(crate) fn spoil(value: &mut Value, dice: &mut TestRandom) {
        let junk = [
            json!(null),
            json!(7),
            json!(-1.5),
            json!("x"),
            json!([]),
            json!({ "a": [1] }),
            json!(true),
        ];
        match value
            .as_object_mut()
            .filter(|members| !members.is_empty() && !dice.next_number().is_multiple_of(4))
        {
            Some(members) => {
                let names: Vec<String> = members.keys().cloned().collect();
                let name = pick_one(&names, dice);
                if dice.next_number().is_multiple_of(3) {
                    members.remove(name);
                } else {
                    members.insert(name.clone(), pick_one(&junk, dice).clone());
                }
            }
            None => *value = pick_one(&junk, dice).clone(),
        }
    }
}

pub(crate) fn pick_one<'a, T>(choices: &'a [T], dice: &mut TestRandom) -> &'a T {
    &choices[usize::try_from(dice.next_number() % choices.len() as u64).unwrap_or_default()]
}

fn schema_kinds(schema: &Value) -> Vec<&str> {
    match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
    }
}

fn has_kind(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        _ => false,
    }
}

impl Operation<'_> {
    /// Checks that the document describes this answer.
    pub(crate) fn check(
        &self,
        document: &OpenApiDocument,
        answer: &wharf_testkit::http::RestAnswer,
    ) -> Result<()> {
        let Some(response) = self.about["responses"].get(answer.status.to_string()) else {
            bail!("{} is not documented: {}", answer.status, answer.body);
        };
        let is_defect = answer.status == 500 && answer.json()["code"] != "registry_damaged";
        ensure!(!is_defect, "{}", answer.body);
        let Some(content) = response["content"].as_object() else {
            ensure!(answer.body.is_empty(), "an undocumented body: {}", answer.body);
            return Ok(());
        };
        let kind = answer
            .header("content-type")
            .and_then(|kind| kind.split(';').next())
            .unwrap_or_default();
        let Some(media) = content.get(kind) else {
            bail!("{kind} is not documented for {}", answer.status)
        };
        if kind.ends_with("json") {
            let body = serde_json::from_str(&answer.body)
                .with_context(|| format!("not JSON: {}", answer.body))?;
            document.check(&body, &media["schema"])?;
            if answer.status >= 400 {
                let code = body["code"].as_str().unwrap_or_default();
                let told = response["description"].as_str().unwrap_or_default();
                ensure!(
                    told.contains(&format!("`{code}`")),
                    "{code} is not documented for {}",
                    answer.status
                );
            }
        }
        Ok(())
    }
}
