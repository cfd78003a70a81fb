//! The memory that a row takes, near enough for a limit.

use serde_json::Value;
use wharf_api::{FileDiff, RowBody, RowPart, TranscriptRow};

/// The bytes of a row beside its texts.
const ROW_OVERHEAD_BYTES: usize = 1_024;
/// The bytes of a JSON value beside its texts.
const VALUE_OVERHEAD_BYTES: usize = 48;

/// Returns about how many bytes a row takes.
pub(super) fn estimate_bytes(row: &TranscriptRow) -> usize {
    let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let body = match &row.body {
        RowBody::Message(text) | RowBody::Thought(text) => part_bytes(&text.parts),
        RowBody::Prompt(prompt) => part_bytes(&prompt.parts),
        RowBody::Tool(tool) => {
            let output = tool.output.as_ref().map_or(0, |output| output.text.len());
            let input = tool.input.as_ref().map_or(0, value_bytes);
            part_bytes(&tool.parts)
                + diff_bytes(&tool.diffs)
                + output
                + input
                + text(&tool.command)
                + text(&tool.error)
        }
        RowBody::Ask(ask) => {
            let schema =
                ask.form.as_ref().and_then(|form| form.schema.as_ref()).map_or(0, value_bytes);
            diff_bytes(&ask.subject.diffs)
                + schema
                + text(&ask.subject.command)
                + text(&ask.subject.text)
        }
        RowBody::Plan(plan) => plan.entries.iter().map(|entry| entry.text.len()).sum(),
        RowBody::Notice(_) | RowBody::TurnEnd(_) | RowBody::Unknown => 0,
    };
    ROW_OVERHEAD_BYTES + row.summary.len() + body
}

fn part_bytes(parts: &[RowPart]) -> usize {
    let bytes = |part: &RowPart| match part {
        RowPart::Text(text) => {
            text.text.len()
                + text.cut.as_ref().and_then(|cut| cut.tail.as_ref()).map_or(0, String::len)
        }
        RowPart::Blob(_) | RowPart::File(_) | RowPart::Unknown => VALUE_OVERHEAD_BYTES,
    };
    parts.iter().map(bytes).sum()
}

fn diff_bytes(diffs: &[FileDiff]) -> usize {
    let lines = diffs.iter().flat_map(|diff| &diff.hunks).flat_map(|hunk| &hunk.lines);
    lines.map(|line| line.len() + VALUE_OVERHEAD_BYTES).sum()
}

fn value_bytes(value: &Value) -> usize {
    let inner = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(value_bytes).sum(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| name.len() + value_bytes(value)).sum()
        }
    };
    VALUE_OVERHEAD_BYTES + inner
}
