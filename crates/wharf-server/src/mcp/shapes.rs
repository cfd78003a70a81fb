//! What tools take and give besides what REST has too, and how schemas are written for MCP.

use std::sync::Arc;

use rmcp::model::JsonObject;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::use_cases::{ActionWord, Content, ContentShape, OpenAsk, Session, StatusWord, TurnKind};
use wharf_host::TurnWord;
use wharf_host::core::Status;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PromptInput {
    /// The session's id.
    pub(super) session_id: String,
    /// A text, or ACP content blocks.
    #[schemars(with = "ContentShape")]
    pub(super) prompt: Content,
    /// While a turn runs: wait in the queue instead of being refused.
    #[serde(default)]
    pub(super) queue: Option<bool>,
    /// While a turn runs: end it, then run this prompt.
    #[serde(default)]
    pub(super) interrupt: Option<bool>,
    /// A repeated call with the same key gives the prompt of the first.
    #[serde(default)]
    pub(super) idempotency_key: Option<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ListInput {
    /// Only sessions that are starting or running.
    pub(super) only_alive: Option<bool>,
    /// The slug of a workspace.
    pub(super) workspace_slug: Option<String>,
    /// The slug of an adapter.
    pub(super) adapter: Option<String>,
    /// The whole label.
    pub(super) label: Option<String>,
    /// Sessions in a page: 1 to 1000, else 100.
    pub(super) limit: Option<usize>,
    /// `nextCursor` of the page before.
    pub(super) cursor: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct OutputInput {
    /// The session's id.
    pub(super) session_id: String,
    /// The newest so many lines: 1 to 10000, else 200.
    #[serde(default)]
    pub(super) last_n: Option<usize>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct KillInput {
    /// The session's id.
    pub(super) session_id: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct WaitInput {
    /// The session's id.
    pub(super) session_id: String,
    /// How long at most: 0 to 3600, else 300. The outcome is `timeout` then, and the turn goes on.
    #[serde(default)]
    pub(super) timeout_seconds: Option<f64>,
    /// So many of the newest lines come with the answer: 1 to 10000, else 200.
    #[serde(default)]
    pub(super) last_n: Option<usize>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct AnswerInput {
    /// The session's id.
    pub(super) session_id: String,
    /// Which question; needed if several are open.
    #[serde(default)]
    pub(super) ask_id: Option<u64>,
    /// For a permission: the `optionId` of the choice.
    #[serde(default)]
    pub(super) option_id: Option<String>,
    /// True: no answer.
    #[serde(default)]
    pub(super) cancel: Option<bool>,
    /// For a form.
    #[serde(default)]
    pub(super) action: Option<ActionWord>,
    /// For a form that is accepted: what was filled in.
    #[serde(default)]
    pub(super) content: Option<JsonObject>,
}

/// The prompt is in the log. Its output comes with `get_agent_session_output` or `wait_agent_session`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PromptOutput {
    pub(super) ok: bool,
    pub(super) session_id: String,
    pub(super) prompt_id: String,
    /// Its place in the queue, 0 being next; absent once its turn has begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) position: Option<usize>,
    /// The idempotency key was known: this is the prompt of an earlier call.
    pub(super) duplicate: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct LinesOutput {
    pub(super) session_id: String,
    /// The oldest first.
    pub(super) lines: Vec<String>,
    /// Older lines were left out: all together are too long for a tool's answer, or they are too far back.
    pub(super) truncated: bool,
    #[schemars(with = "StatusWord")]
    pub(super) status: Status,
    #[schemars(with = "TurnKind")]
    pub(super) turn: TurnWord,
    /// What the agent waits for: see `answer_agent_session`.
    pub(super) asks: Vec<OpenAsk>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct KillOutput {
    pub(super) ok: bool,
    pub(super) session_id: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct AnswerOutput {
    pub(super) ok: bool,
    pub(super) session_id: String,
    pub(super) ask_id: u64,
}

/// Why the wait is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum WaitOutcome {
    /// No turn runs and no prompt waits.
    TurnEnded,
    /// The agent asks something: see `asks`.
    AwaitingInput,
    SessionEnded,
    /// The turn goes on.
    Timeout,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct WaitOutput {
    pub(super) session_id: String,
    pub(super) outcome: WaitOutcome,
    /// Why the turn ended, if it did so during the wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stop_reason: Option<String>,
    /// The newest lines of output, the oldest first.
    pub(super) lines: Vec<String>,
    /// Older lines were left out: all together are too long for a tool's answer, or they are too far back.
    pub(super) truncated: bool,
    /// What the agent waits for: see `answer_agent_session`.
    pub(super) asks: Vec<OpenAsk>,
    pub(super) session: Session,
}

/// Some clients take no answer beyond a mebibyte, in which lines stand twice and escaped; no model wants as much.
const MOST_TEXT: usize = 200 * 1024;

/// The newest of the lines that an answer has room for, and whether some had to go.
pub(super) fn fitting(mut lines: Vec<String>) -> (Vec<String>, bool) {
    let mut room = MOST_TEXT;
    let fit = lines.iter().rev().take_while(|line| {
        let fits = line.len() < room;
        room = room.saturating_sub(line.len() + 1);
        fits
    });
    let over = lines.len() - fit.count();
    lines.drain(..over);
    (lines, over > 0)
}

/// A schema that clients of all kinds read: no references, no formats of Rust's, and nothing nullable, since what there
/// is not is left out.
pub(super) fn schema<T: JsonSchema>() -> Arc<JsonObject> {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    plain(&mut schema);
    let Value::Object(mut object) = schema else { return Arc::default() };
    object.remove("title");
    object.remove("description");
    object.remove("$schema");
    Arc::new(object)
}

/// The schema of a tool's arguments: there are no others than these.
pub(super) fn input_schema<T: JsonSchema>() -> Arc<JsonObject> {
    let mut schema = JsonObject::clone(&schema::<T>());
    schema.insert("additionalProperties".to_owned(), Value::Bool(false));
    Arc::new(schema)
}

fn plain(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            plain_members(members);
            members.values_mut().for_each(plain);
        }
        Value::Array(items) => items.iter_mut().for_each(plain),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn plain_members(members: &mut JsonObject) {
    // `uint64` and its like, which no validator knows.
    if members.get("format").and_then(Value::as_str).is_some_and(|format| format.starts_with(['u', 'i'])) {
        members.remove("format");
    }
    if members.get("default") == Some(&Value::Null) {
        members.remove("default");
    }
    // "Anything" has two spellings, of which some clients know one.
    if members.get("items") == Some(&Value::Bool(true)) {
        members.insert("items".to_owned(), Value::Object(JsonObject::new()));
    }
    if let Some(Value::Array(words)) = members.get_mut("enum") {
        words.retain(|word| !word.is_null());
    }
    if let Some(Value::Array(types)) = members.get_mut("type") {
        types.retain(|word| word != "null");
        if types.len() == 1
            && let Some(one) = types.pop()
        {
            members.insert("type".to_owned(), one);
        }
    }
    if let Some(Value::Array(choices)) = members.get_mut("anyOf") {
        choices.retain(|choice| choice["type"] != "null");
        if choices.len() == 1
            && let Some(Value::Object(only)) = choices.pop()
        {
            members.remove("anyOf");
            members.extend(only);
        }
    }
    if let Some(Value::Object(properties)) = members.get_mut("properties") {
        for property in properties.values_mut().filter(|property| **property == Value::Bool(true)) {
            *property = Value::Object(JsonObject::new());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_holds_the_newest_lines_that_fit() {
        let line = |n: usize| format!("{n:0>1023}");
        let (kept, truncated) = fitting((0..1_000).map(line).collect());
        assert_eq!((kept.len(), truncated), (200, true));
        assert_eq!(kept.last(), Some(&line(999)));
        assert_eq!(fitting(vec!["short".to_owned(), String::new()]), (vec!["short".to_owned(), String::new()], false));
        assert_eq!(fitting(vec!["x".repeat(MOST_TEXT)]), (vec![], true));
    }

    #[test]
    fn schemas_have_neither_references_nor_nulls_nor_formats() {
        for tool in super::super::table::TOOLS.iter() {
            let text = serde_json::to_string(tool).unwrap();
            for odd in ["$ref", "null", "uint", "[`", "\"items\":true"] {
                assert!(!text.contains(odd), "{odd} in {text}");
            }
        }
    }
}
