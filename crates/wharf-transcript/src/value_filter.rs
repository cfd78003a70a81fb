//! JSON values of agents as rows show them: every text in them without control characters and
//! secrets.

use serde_json::Value;
use wharf_json::{Json, MAX_VALUE_DEPTH};

use crate::text_rules::TextRules;

/// Stands for a part that is nested too deeply.
const DEEP_PART_TEXT: &str = "…";

impl TextRules {
    /// Returns the value with each of its names and texts as it can be shown. They are filtered
    /// after their escapes are resolved: in the source of JSON the letter of an escape may stand
    /// before a secret and hide it.
    pub(crate) fn filter_value(&self, json: Json<'_>) -> Value {
        let mut value = json.to_value();
        self.filter_at(&mut value, 0);
        value
    }

    fn filter_at(&self, value: &mut Value, depth: usize) {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
            // A value that is nested more deeply is kept as JSON source, in which the filter cannot
            // find secrets, so it is left out.
            Value::String(text)
                if depth >= MAX_VALUE_DEPTH
                    && self.secrets.are_hidden()
                    && text.starts_with(['[', '{']) =>
            {
                DEEP_PART_TEXT.clone_into(text);
            }
            Value::String(text) => *text = self.filter_text(text),
            Value::Array(items) => self.filter_items(items, depth + 1),
            Value::Object(members) => {
                for (name, mut member) in std::mem::take(members) {
                    self.filter_at(&mut member, depth + 1);
                    members.insert(self.filter_text(&name), member);
                }
            }
        }
    }

    /// Filters the items of a list. Its texts may be the lines of one text, over which a private
    /// key spans.
    fn filter_items(&self, items: &mut [Value], depth: usize) {
        let mut filter = self.new_filter();
        for item in items {
            if depth >= MAX_VALUE_DEPTH || !item.is_string() {
                self.filter_at(item, depth);
                continue;
            }
            let Value::String(text) = item else { continue };
            let mut line = String::with_capacity(text.len());
            filter.push(text, &mut line);
            filter.push("\n", &mut line);
            filter.flush(&mut line);
            line.pop();
            *text = line;
        }
    }
}
