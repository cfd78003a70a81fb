//! Replaces values that differ from run to run, so that whole transcripts can be compared.

use std::collections::HashMap;

use serde_json::Value;

/// Names ids in the order of appearance; the same id gets the same name throughout.
#[derive(Debug, Default)]
pub struct Normaliser {
    names: HashMap<String, String>,
    counts: HashMap<&'static str, usize>,
}

impl Normaliser {
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the name of an id that the rules do not recognise, such as an agent's own.
    pub fn set_name(&mut self, id: &str, name: &str) {
        self.names.insert(id.to_owned(), format!("<{name}>"));
    }

    /// Normalises every string of the value; object keys stay. Numeric times become 0, recognised
    /// by their keys.
    pub fn normalise_value(&mut self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.normalise_text(text)),
            Value::Array(items) => items.iter().map(|item| self.normalise_value(item)).collect(),
            Value::Object(members) => {
                let member = |(key, item): (&String, &Value)| {
                    let is_time = item.is_number()
                        && (key == "timestamp" || key == "at" || key.ends_with("At"));
                    (key.clone(), if is_time { Value::from(0) } else { self.normalise_value(item) })
                };
                Value::Object(members.iter().map(member).collect())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    /// Replaces the ids of sessions, clients and prompts, UUIDs, event ids, times and named ids
    /// anywhere in the text.
    pub fn normalise_text(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find(is_word) {
            let (between, tail) = rest.split_at(start);
            let end = tail.find(|character| !is_word(character)).unwrap_or(tail.len());
            let (word, after) = tail.split_at(end);
            out.push_str(between);
            out.push_str(&self.normalise_word(word));
            rest = after;
        }
        out + rest
    }

    fn normalise_word(&mut self, word: &str) -> String {
        if let Some(name) = self.names.get(word) {
            return name.clone();
        }
        if is_time(word) {
            return "<time>".to_owned();
        }
        let kind = match word {
            _ if is_id(word, "sess_") => "session",
            _ if is_id(word, "cli_") => "client",
            _ if is_id(word, "prm_") => "prompt",
            _ if is_uuid(word) => "uuid",
            _ if is_event(word) => "event",
            _ => return word.to_owned(),
        };
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        let name = format!("<{kind}-{count}>");
        self.names.insert(word.to_owned(), name.clone());
        name
    }
}

fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '-' | ':' | '.')
}

/// Returns true for an id of Wharf with this prefix.
fn is_id(word: &str, prefix: &str) -> bool {
    word.strip_prefix(prefix)
        .is_some_and(|tail| tail.len() == 26 && tail.bytes().all(|b| b.is_ascii_alphanumeric()))
}

fn is_uuid(word: &str) -> bool {
    let parts: Vec<&str> = word.split('-').collect();
    parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12])
        && parts.iter().all(|part| part.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Returns true for `<epoch>-<seq>`.
fn is_event(word: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    word.split_once('-').is_some_and(|(epoch, seq)| digits(epoch) && digits(seq))
}

/// Returns true for RFC 3339 to the second or finer, in UTC.
fn is_time(word: &str) -> bool {
    let shape = "dddd-dd-ddTdd:dd:dd";
    let fits =
        |(byte, form): (u8, u8)| if form == b'd' { byte.is_ascii_digit() } else { byte == form };
    word.ends_with('Z') && word.len() > shape.len() && word.bytes().zip(shape.bytes()).all(fits)
}
