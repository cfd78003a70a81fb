//! One field of a form: its schema, and the values that it takes.

use serde_json::{Number, Value};
use wharf_render::text::{quote, to_printable};

/// The most choices that are listed; any of the others can be typed too.
const MAX_LISTED_CHOICES: usize = 30;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct FormField {
    pub(super) name: String,
    title: Option<String>,
    description: Option<String>,
    kind: FieldKind,
    pub(super) is_required: bool,
    /// A default that the field itself would not take is left out.
    pub(super) default: Option<Value>,
}

#[derive(Clone, Debug, PartialEq)]
enum FieldKind {
    Text {
        min_length: u64,
        max_length: Option<u64>,
    },
    /// One of these values.
    Choice(Vec<FieldChoice>),
    YesNo,
    Number {
        is_whole: bool,
        min: Option<f64>,
        max: Option<f64>,
    },
    /// A value of a kind that has no question of its own, such as a list: it is typed as JSON.
    Json,
}

#[derive(Clone, Debug, PartialEq)]
struct FieldChoice {
    value: Value,
    title: Option<String>,
}

impl FormField {
    /// Reads the schema of one property.
    pub(super) fn read(name: &str, schema: &Value, is_required: bool) -> Self {
        let text = |member: &str| {
            schema[member]
                .as_str()
                .filter(|text| !text.trim().is_empty())
                .map(ToOwned::to_owned)
        };
        let kind = read_kind(schema);
        let default = schema.get("default").filter(|value| kind.takes(value)).cloned();
        let title = text("title");
        let description = text("description");
        Self {
            name: name.to_owned(),
            title,
            description,
            kind,
            is_required,
            default,
        }
    }

    /// Returns the value that a text means, or why it means none.
    pub(super) fn read_value(&self, text: &str) -> Result<Value, String> {
        match &self.kind {
            FieldKind::Text { min_length, max_length } => read_text(text, *min_length, *max_length),
            FieldKind::Choice(choices) => read_choice(text, choices),
            FieldKind::YesNo => match text.trim().to_lowercase().as_str() {
                "y" | "yes" | "true" => Ok(true.into()),
                "n" | "no" | "false" => Ok(false.into()),
                _ => Err(format!("{text} is neither yes nor no", text = quote(text))),
            },
            FieldKind::Number { is_whole, min, max } => {
                read_number(text.trim(), *is_whole, *min, *max)
            }
            FieldKind::Json => wharf_json::read_own(text.as_bytes())
                .map_err(|error| format!("{text} is no JSON: {error}", text = quote(text))),
        }
    }

    /// Returns title and description, if the agent gave any.
    pub(super) fn heading(&self) -> Option<String> {
        let words: Vec<&str> = [&self.title, &self.description]
            .into_iter()
            .flatten()
            .map(String::as_str)
            .collect();
        (!words.is_empty()).then(|| to_printable(&words.join(": ")))
    }

    /// Returns the choices with their numbers.
    pub(super) fn choice_lines(&self) -> Vec<String> {
        let FieldKind::Choice(choices) = &self.kind else { return Vec::new() };
        let listed = choices.iter().take(MAX_LISTED_CHOICES).enumerate();
        let mut lines: Vec<String> = listed
            .map(|(place, choice)| format!("      {}) {}", place + 1, choice.describe()))
            .collect();
        if choices.len() > MAX_LISTED_CHOICES {
            lines.push(format!("      … {} more", choices.len() - MAX_LISTED_CHOICES));
        }
        lines
    }

    /// Returns the name with the kind of value that is wanted and, in brackets, the default.
    pub(super) fn label(&self) -> String {
        let hint = match &self.kind {
            FieldKind::Text { .. } => "text".to_owned(),
            FieldKind::Choice(_) => "a number or a name of these".to_owned(),
            FieldKind::YesNo => "yes or no".to_owned(),
            FieldKind::Number { is_whole, min, max } => {
                format!(
                    "a {}number{}",
                    if *is_whole { "whole " } else { "" },
                    describe_range(*min, *max)
                )
            }
            FieldKind::Json => "JSON".to_owned(),
        };
        let optional = if self.is_required || self.default.is_some() { "" } else { ", optional" };
        let default = self
            .default
            .as_ref()
            .map(|value| format!(" [{}]", show_value(value)))
            .unwrap_or_default();
        format!("{} ({hint}{optional}){default}", to_printable(&self.name))
    }
}

impl FieldKind {
    fn takes(&self, value: &Value) -> bool {
        match self {
            Self::Text { .. } => value.is_string(),
            Self::Choice(choices) => choices.iter().any(|choice| choice.value == *value),
            Self::YesNo => value.is_boolean(),
            Self::Number { is_whole, .. } => value.is_number() && (!is_whole || !value.is_f64()),
            Self::Json => !value.is_null(),
        }
    }
}

impl FieldChoice {
    fn describe(&self) -> String {
        let value = show_value(&self.value);
        match self.title.as_deref().map(to_printable).filter(|title| *title != value) {
            Some(title) => format!("{value} ({title})"),
            None => value,
        }
    }
}

fn read_kind(schema: &Value) -> FieldKind {
    let choices = read_choices(schema);
    if !choices.is_empty() {
        return FieldKind::Choice(choices);
    }
    let kind = &schema["type"];
    // An optional value may be allowed to be null.
    let among_several =
        || kind.as_array()?.iter().filter_map(Value::as_str).find(|word| *word != "null");
    let word = kind.as_str().or_else(among_several);
    let min = schema["minimum"].as_f64();
    let max = schema["maximum"].as_f64();
    match word {
        Some("string") => FieldKind::Text {
            min_length: schema["minLength"].as_u64().unwrap_or_default(),
            max_length: schema["maxLength"].as_u64(),
        },
        Some("boolean") => FieldKind::YesNo,
        Some("number") => FieldKind::Number { is_whole: false, min, max },
        Some("integer") => FieldKind::Number { is_whole: true, min, max },
        Some(_) | None => FieldKind::Json,
    }
}

/// Returns the choices of `enum`, with titles of `enumNames`, or those of `oneOf` and `anyOf` with
/// a `const` each.
fn read_choices(schema: &Value) -> Vec<FieldChoice> {
    let list = |member: &str| schema[member].as_array().map(Vec::as_slice).unwrap_or_default();
    let title = |title: &Value| title.as_str().map(ToOwned::to_owned);
    let values = list("enum");
    let names = list("enumNames");
    if !values.is_empty() {
        let names = names.iter().map(title).chain(std::iter::repeat(None));
        return values
            .iter()
            .cloned()
            .zip(names)
            .map(|(value, title)| FieldChoice { value, title })
            .collect();
    }
    let alternatives = if list("oneOf").is_empty() { list("anyOf") } else { list("oneOf") };
    let choice = |one: &Value| {
        Some(FieldChoice {
            value: one.get("const")?.clone(),
            title: title(&one["title"]),
        })
    };
    // Alternatives without a constant are no choice between values.
    alternatives.iter().map(choice).collect::<Option<Vec<_>>>().unwrap_or_default()
}

fn read_text(text: &str, min_length: u64, max_length: Option<u64>) -> Result<Value, String> {
    let length = text.chars().count() as u64;
    match max_length {
        _ if length < min_length => {
            Err(format!("it has {length} characters, and at least {min_length} are needed"))
        }
        Some(max) if length > max => {
            Err(format!("it has {length} characters, and at most {max} are allowed"))
        }
        Some(_) | None => Ok(text.into()),
    }
}

/// Finds a choice by its value, its title or its number.
fn read_choice(text: &str, choices: &[FieldChoice]) -> Result<Value, String> {
    let text = text.trim();
    let low = text.to_lowercase();
    let is_titled = |choice: &&FieldChoice| {
        choice.title.as_ref().is_some_and(|title| title.to_lowercase() == low)
    };
    let exact = choices.iter().find(|choice| plain_text(&choice.value) == text);
    let named = exact
        .or_else(|| choices.iter().find(|choice| plain_text(&choice.value).to_lowercase() == low));
    let found = named.or_else(|| choices.iter().find(is_titled));
    let numbered = || choices.get(text.parse::<usize>().ok()?.checked_sub(1)?);
    let offered =
        || choices.iter().take(MAX_LISTED_CHOICES).map(|choice| show_value(&choice.value));
    found.or_else(numbered).map(|choice| choice.value.clone()).ok_or_else(|| {
        let offered = offered().collect::<Vec<_>>().join(", ");
        format!("{text} is none of: {offered}", text = quote(text))
    })
}

fn read_number(
    text: &str,
    is_whole: bool,
    min: Option<f64>,
    max: Option<f64>,
) -> Result<Value, String> {
    let whole = text
        .parse::<i64>()
        .map(Number::from)
        .or_else(|_| text.parse::<u64>().map(Number::from))
        .ok();
    let broken = || text.parse::<f64>().ok().and_then(Number::from_f64).filter(|_| !is_whole);
    let Some(number) = whole.or_else(broken) else {
        return Err(format!(
            "{text} is no {}number",
            if is_whole { "whole " } else { "" },
            text = quote(text)
        ));
    };
    let value = number.as_f64().unwrap_or_default();
    if min.is_some_and(|min| value < min) || max.is_some_and(|max| value > max) {
        return Err(format!("{number} is not{}", describe_range(min, max)));
    }
    Ok(number.into())
}

fn describe_range(min: Option<f64>, max: Option<f64>) -> String {
    match (min, max) {
        (Some(min), Some(max)) => format!(" from {min} to {max}"),
        (Some(min), None) => format!(" of at least {min}"),
        (None, Some(max)) => format!(" of at most {max}"),
        (None, None) => String::new(),
    }
}

/// Returns the value as a person types it.
fn plain_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}

/// Returns the value for a terminal.
fn show_value(value: &Value) -> String {
    match value {
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            to_printable(&plain_text(value))
        }
    }
}
