//! The form of an agent's question: its fields, read from the agent's JSON schema, and the values
//! that the person gives.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::composer::TextBuffer;

/// A form that is being filled in.
#[derive(Debug)]
pub(crate) struct AskFormInput {
    pub(crate) session: String,
    pub(crate) ask: u64,
    pub(crate) opened_at: Duration,
    pub(crate) title: String,
    pub(crate) fields: Vec<AskFormField>,
    pub(crate) focused: usize,
    pub(crate) error: Option<String>,
}

#[derive(Debug)]
pub(crate) struct AskFormField {
    /// The member of the answer.
    name: String,
    pub(crate) label: String,
    pub(crate) description: Option<String>,
    pub(crate) is_required: bool,
    kind: AskFieldKind,
    /// The typed text; unused for choices.
    pub(crate) text: TextBuffer,
    /// The index of the chosen value; `None` for no value.
    chosen: Option<usize>,
}

#[derive(Debug)]
enum AskFieldKind {
    Text,
    Number,
    /// One of these values, each with its name.
    Choice(Vec<(Value, String)>),
    /// Lists and other values, typed as JSON.
    Json,
}

impl AskFormInput {
    /// Makes the form for a schema. A schema without properties has one field for the whole answer.
    pub(crate) fn new(
        (session, ask): (String, u64),
        title: String,
        schema: Option<&Value>,
        opened_at: Duration,
    ) -> Self {
        let required = schema
            .and_then(|schema| schema["required"].as_array())
            .cloned()
            .unwrap_or_default();
        let properties = schema.and_then(|schema| schema["properties"].as_object());
        let fields = properties.into_iter().flatten().map(|(name, schema)| {
            let is_required = required.iter().any(|required| required.as_str() == Some(name));
            AskFormField::new(name, schema, is_required)
        });
        Self {
            session,
            ask,
            opened_at,
            title,
            fields: fields.collect(),
            focused: 0,
            error: None,
        }
    }

    pub(crate) fn focused_text(&mut self) -> Option<&mut TextBuffer> {
        let field = self.fields.get_mut(self.focused)?;
        (!field.is_choice()).then_some(&mut field.text)
    }

    pub(crate) fn move_focus(&mut self, by: usize) {
        self.focused = (self.focused + by) % self.fields.len().max(1);
    }

    /// Returns the answer's content. Fails with a sentence about the first field whose value is
    /// missing or wrong.
    pub(crate) fn to_content(&self) -> Result<Value, String> {
        let mut content = Map::new();
        for field in &self.fields {
            if let Some(value) = field.to_value()? {
                content.insert(field.name.clone(), value);
            }
        }
        Ok(Value::Object(content))
    }
}

impl AskFormField {
    fn new(name: &str, schema: &Value, is_required: bool) -> Self {
        let kind = read_kind(schema);
        let default = &schema["default"];
        let chosen = match &kind {
            AskFieldKind::Choice(values) => values.iter().position(|(value, _)| value == default),
            AskFieldKind::Text | AskFieldKind::Number | AskFieldKind::Json => None,
        };
        let text = match default {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                default.to_string()
            }
        };
        Self {
            name: name.to_owned(),
            label: schema["title"].as_str().unwrap_or(name).to_owned(),
            description: schema["description"].as_str().map(str::to_owned),
            is_required,
            kind,
            text: TextBuffer::with_text(&text),
            chosen,
        }
    }

    pub(crate) const fn is_choice(&self) -> bool {
        matches!(self.kind, AskFieldKind::Choice(_))
    }

    /// Returns the chosen value of a choice in words.
    pub(crate) fn chosen_name(&self) -> Option<&str> {
        let AskFieldKind::Choice(values) = &self.kind else { return None };
        values.get(self.chosen?).map(|(_, name)| name.as_str())
    }

    /// Takes the next or the previous value of a choice; a field that may stay empty has "no value"
    /// between the ends.
    pub(crate) fn change_value(&mut self, is_next: bool) {
        let AskFieldKind::Choice(values) = &self.kind else { return };
        let last = values.len().saturating_sub(1);
        self.chosen = match (self.chosen, is_next) {
            (None, true) => Some(0),
            (None, false) => Some(last),
            (Some(at), true) if at < last => Some(at + 1),
            (Some(at), false) if at > 0 => Some(at - 1),
            (Some(_), _) if !self.is_required => None,
            (Some(_), true) => Some(0),
            (Some(_), false) => Some(last),
        };
    }

    fn to_value(&self) -> Result<Option<Value>, String> {
        let text = self.text.text().trim();
        let missing =
            || if self.is_required { Err(format!("{} is missing", self.label)) } else { Ok(None) };
        match &self.kind {
            AskFieldKind::Choice(values) => match self.chosen.and_then(|at| values.get(at)) {
                Some((value, _)) => Ok(Some(value.clone())),
                None => missing(),
            },
            _ if text.is_empty() => missing(),
            AskFieldKind::Text => Ok(Some(Value::from(self.text.text()))),
            AskFieldKind::Number => match wharf_json::read_own::<Value>(text.as_bytes()) {
                Ok(value) if value.is_number() => Ok(Some(value)),
                Ok(_) | Err(_) => Err(format!("{} is not a number", self.label)),
            },
            AskFieldKind::Json => wharf_json::read_own(text.as_bytes())
                .map(Some)
                .map_err(|_| format!("{} is not JSON, such as [\"one\", \"two\"]", self.label)),
        }
    }
}

fn read_kind(schema: &Value) -> AskFieldKind {
    let name_of = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if let Some(values) = schema["enum"].as_array() {
        let names = schema["enumNames"].as_array();
        let named = values.iter().enumerate().map(|(at, value)| {
            let name = names.and_then(|names| names.get(at)?.as_str()).map(str::to_owned);
            (value.clone(), name.unwrap_or_else(|| name_of(value)))
        });
        return AskFieldKind::Choice(named.collect());
    }
    if let Some(values) = schema["oneOf"].as_array() {
        let named = values.iter().map(|value| {
            let constant = value["const"].clone();
            let name = value["title"].as_str().map_or_else(|| name_of(&constant), str::to_owned);
            (constant, name)
        });
        return AskFieldKind::Choice(named.collect());
    }
    match schema["type"].as_str() {
        Some("boolean") => AskFieldKind::Choice(vec![
            (Value::from(true), "yes".to_owned()),
            (Value::from(false), "no".to_owned()),
        ]),
        Some("number" | "integer") => AskFieldKind::Number,
        Some("string") | None => AskFieldKind::Text,
        Some(_) => AskFieldKind::Json,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn form() -> AskFormInput {
        let schema = json!({ "required": ["branch"], "properties": {
            "branch": { "type": "string", "title": "Branch" },
            "count": { "type": "integer", "default": 3 },
            "force": { "type": "boolean" },
            "tags": { "type": "array" } } });
        AskFormInput::new(
            ("sess".to_owned(), 1),
            "Release".to_owned(),
            Some(&schema),
            Duration::ZERO,
        )
    }

    #[test]
    fn form_has_the_fields_of_the_schema_and_their_defaults() {
        let mut form = form();
        assert_eq!(form.to_content(), Err("Branch is missing".to_owned()));
        form.focused_text().unwrap().insert("main");
        assert_eq!(form.to_content(), Ok(json!({ "branch": "main", "count": 3 })));
        form.fields[2].change_value(true);
        assert_eq!(form.fields[2].chosen_name(), Some("yes"));
        form.fields[3].text.insert("[\"a\"]");
        assert_eq!(
            form.to_content(),
            Ok(json!({ "branch": "main", "count": 3, "force": true, "tags": ["a"] }))
        );
    }

    #[test]
    fn wrong_number_is_told_by_the_name_of_its_field() {
        let mut form = form();
        form.focused_text().unwrap().insert("main");
        form.fields[1].text.insert("x");
        assert_eq!(form.to_content(), Err("count is not a number".to_owned()));
    }
}
