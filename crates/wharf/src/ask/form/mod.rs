//! Forms of agents (`elicitation/create`): their fields, the values that a person gives, and the
//! questions for a terminal.

mod field;
mod filling;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};
use wharf_render::text::{quote, to_printable};

use field::FormField;
pub(crate) use filling::{FormFilling, FormStep};

/// The fields that a form asks for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Form {
    /// The required ones first, in the order in which the agent requires them; then the others by
    /// name.
    fields: Vec<FormField>,
}

impl Form {
    /// Reads the JSON schema of a form. Returns `None` if it has no properties.
    pub(crate) fn read(schema: &Value) -> Option<Self> {
        let properties = schema["properties"].as_object()?;
        let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
        let required: Vec<&str> = required.iter().filter_map(Value::as_str).collect();
        let mut fields = Vec::with_capacity(properties.len());
        for name in &required {
            let is_known = fields.iter().any(|field: &FormField| field.name == *name);
            fields.extend(
                properties
                    .get(*name)
                    .filter(|_| !is_known)
                    .map(|known| FormField::read(name, known, true)),
            );
        }
        let optional = properties.iter().filter(|(name, _)| !required.contains(&name.as_str()));
        fields.extend(optional.map(|(name, known)| FormField::read(name, known, false)));
        (!fields.is_empty()).then_some(Self { fields })
    }

    /// Returns the content for values such as `db=sqlite`. A field that is not named gets its
    /// default.
    pub(crate) fn fill_from_pairs(&self, pairs: &[String]) -> Result<Value, String> {
        let mut content = Map::new();
        for pair in pairs {
            let Some((name, text)) = pair.split_once('=') else {
                return Err(format!(
                    "{pair} is no value of a form; write NAME=VALUE",
                    pair = quote(pair)
                ));
            };
            let Some(field) = self.fields.iter().find(|field| field.name == name) else {
                return Err(format!(
                    "the form has no field {name}; it has: {}",
                    self.join_names(|_| true),
                    name = quote(name)
                ));
            };
            let value = field.read_value(text).map_err(|why| format!("{name}: {why}"))?;
            if content.insert(name.to_owned(), value).is_some() {
                return Err(format!("{name} is given twice"));
            }
        }
        for field in &self.fields {
            if let (false, Some(default)) = (content.contains_key(&field.name), &field.default) {
                content.insert(field.name.clone(), default.clone());
            }
        }
        let is_missing =
            |field: &FormField| field.is_required && !content.contains_key(&field.name);
        if self.fields.iter().any(is_missing) {
            return Err(format!(
                "the form also needs: {}; write NAME=VALUE",
                self.join_names(is_missing)
            ));
        }
        Ok(Value::Object(content))
    }

    fn join_names(&self, is_named: impl Fn(&FormField) -> bool) -> String {
        let named = self.fields.iter().filter(|field| is_named(field));
        named.map(|field| to_printable(&field.name)).collect::<Vec<_>>().join(", ")
    }

    /// Returns the fields as lines, for a person who is not asked for each.
    pub(crate) fn to_lines(&self) -> Vec<String> {
        let field_lines = |field: &FormField| {
            let mut lines = vec![format!("  {}", field.label())];
            lines.extend(field.heading().map(|heading| format!("      {heading}")));
            lines.extend(field.choice_lines());
            lines
        };
        self.fields.iter().flat_map(field_lines).collect()
    }

    /// Returns the values as `wharf answer` takes them: `db=VALUE count=VALUE`.
    pub(crate) fn describe_pairs(&self) -> String {
        let pair = |field: &FormField| format!("{}=VALUE", to_printable(&field.name));
        self.fields.iter().map(pair).collect::<Vec<_>>().join(" ")
    }
}
