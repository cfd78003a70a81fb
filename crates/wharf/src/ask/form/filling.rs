//! A form that a person fills in on a terminal, field by field.

use serde_json::{Map, Value};
use wharf_render::text::to_printable;

use super::Form;
use super::field::FormField;
use crate::ask::AskQuestion;

/// The word that declines the form at any field.
const DECLINE_WORD: &str = "cancel";

/// A form of which some fields have a value.
#[derive(Clone, Debug)]
pub(crate) struct FormFilling {
    form: Form,
    content: Map<String, Value>,
    /// The number of fields before the present field.
    place: usize,
}

/// The state of a form after a typed line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FormStep {
    /// This has to be asked next: the next field, or the same one again.
    Ask(AskQuestion),
    /// Every field has been asked for: the content of the answer.
    Filled(Value),
    Declined,
}

impl FormFilling {
    pub(crate) fn new(form: Form) -> Self {
        Self { form, content: Map::new(), place: 0 }
    }

    /// Returns the instruction that is shown before the first field.
    pub(crate) fn instruction() -> String {
        format!(
            "  A form: Enter takes the value in brackets, {DECLINE_WORD} (or Ctrl-D) declines it."
        )
    }

    /// Returns the question for the present field.
    pub(crate) fn question(&self) -> AskQuestion {
        let Some(field) = self.form.fields.get(self.place) else { return AskQuestion::default() };
        let heading = field.heading().unwrap_or_else(|| to_printable(&field.name));
        let mut lines = vec![format!("  {}/{} {heading}", self.place + 1, self.form.fields.len())];
        lines.extend(field.choice_lines());
        AskQuestion { lines, prompt: format!("  {}: ", field.label()) }
    }

    /// Takes a typed line as the value of the present field.
    pub(crate) fn take_line(&mut self, line: &str) -> FormStep {
        let line = line.trim();
        if line.eq_ignore_ascii_case(DECLINE_WORD) {
            return FormStep::Declined;
        }
        if let Some(field) = self.form.fields.get(self.place) {
            match read_line(field, line) {
                Ok(value) => self.content.extend(value.map(|value| (field.name.clone(), value))),
                Err(why) => {
                    let prompt = format!("  {why}; {}: ", field.label());
                    return FormStep::Ask(AskQuestion { lines: Vec::new(), prompt });
                }
            }
            self.place += 1;
        }
        if self.place < self.form.fields.len() {
            FormStep::Ask(self.question())
        } else {
            FormStep::Filled(Value::Object(std::mem::take(&mut self.content)))
        }
    }
}

/// Returns the value that a typed line means: an empty line means the default, or no value for an
/// optional field.
fn read_line(field: &FormField, line: &str) -> Result<Option<Value>, String> {
    match &field.default {
        Some(default) if line.is_empty() => Ok(Some(default.clone())),
        None if line.is_empty() && !field.is_required => Ok(None),
        None if line.is_empty() => Err("a value is needed".to_owned()),
        Some(_) | None => field.read_value(line).map(Some),
    }
}
