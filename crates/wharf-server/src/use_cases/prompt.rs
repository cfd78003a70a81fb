//! Prompts of callers that speak no ACP: Wharf writes the `session/prompt` (rule 7.2).

use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use wharf_host::core::{Overlap, Raw, Submission};
use wharf_host::{SessionHandle, new_prompt_id};
use wharf_json::Json;

use super::faults::{from_call, from_create, invalid};
use super::{Caller, open};
use crate::App;
use crate::problem::Problem;

/// Longer than any id that a program makes.
pub(crate) const KEY: usize = 256;

/// What is said to the agent: a text, or ACP content blocks, which are passed on as they came.
#[derive(Clone, Debug)]
pub(crate) struct Content(pub(super) String);

/// A text, or ACP content blocks.
#[derive(ToSchema, JsonSchema)]
#[schema(as = Content)]
#[schemars(rename = "Content", untagged)]
#[serde(untagged)]
#[expect(dead_code, reason = "a schema")]
pub(crate) enum ContentShape {
    Text(String),
    Blocks(Vec<ContentBlock>),
}

/// An ACP content block, such as `{"type":"text","text":"hello"}`.
#[derive(ToSchema, JsonSchema)]
#[expect(dead_code, reason = "a schema")]
pub(crate) struct ContentBlock {
    #[serde(rename = "type")]
    kind: String,
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::read(raw.get()).map_err(serde::de::Error::custom)
    }
}

#[derive(Deserialize)]
struct Block {
    #[expect(dead_code, reason = "checked to be there")]
    #[serde(rename = "type")]
    kind: String,
}

impl Content {
    /// The JSON text of a list of content blocks, in one line.
    fn read(json: &str) -> Result<Self, String> {
        if json.starts_with('"') {
            let text = Json::parse(json.as_bytes()).map_err(|error| error.to_string())?.text();
            if text.is_some_and(|text| text.trim().is_empty()) {
                return Err("is empty".to_owned());
            }
            return Ok(Self(format!(r#"[{{"type":"text","text":{json}}}]"#)));
        }
        let blocks: Vec<Block> = wharf_json::read_bytes(json.as_bytes())
            .map_err(|_| "is neither a text nor a list of content blocks like {\"type\":\"text\",\"text\":\"…\"}")?;
        if blocks.is_empty() {
            return Err("is empty".to_owned());
        }
        // Line breaks can only be between values; inside of texts JSON escapes them.
        Ok(Self(json.replace(['\n', '\r'], " ")))
    }

    /// The request as the agent is to get it; the ids are replaced on the way.
    pub(super) fn request(&self, session: &str) -> Option<Raw> {
        let session = serde_json::Value::from(session);
        let blocks = &self.0;
        Raw::new(format!(
            r#"{{"jsonrpc":"2.0","id":0,"method":"session/prompt","params":{{"sessionId":{session},"prompt":{blocks}}}}}"#
        ))
    }
}

/// One prompt.
#[derive(Debug, Deserialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PromptArgs {
    #[schema(value_type = ContentShape)]
    #[schemars(with = "ContentShape")]
    pub(crate) prompt: Content,
    /// While a turn runs: wait in the queue instead of being refused.
    pub(crate) queue: Option<bool>,
    /// While a turn runs: end it, then run this prompt.
    pub(crate) interrupt: Option<bool>,
}

/// The prompt is in the log.
#[derive(Debug, Serialize, ToSchema, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Prompted {
    pub(crate) ok: bool,
    /// The session.
    pub(crate) id: String,
    pub(crate) prompt_id: String,
    /// Its place in the queue, 0 being next; absent once its turn has begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) position: Option<usize>,
    /// The idempotency key was known: this is the prompt of an earlier request.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    #[schemars(default)]
    pub(crate) duplicate: bool,
}

/// Gives the agent a prompt; a session that has ended and can come back does so.
pub(crate) async fn prompt(
    app: &App,
    who: &Caller,
    id: &str,
    args: PromptArgs,
    key: Option<&str>,
) -> Result<Prompted, Problem> {
    who.may_work_in(app, id)?;
    let overlap = match (args.queue.unwrap_or(false), args.interrupt.unwrap_or(false)) {
        (true, true) => return Err(invalid("queue and interrupt exclude each other: send one of them")),
        (true, false) => Overlap::Queue,
        (false, true) => Overlap::Interrupt,
        (false, false) => Overlap::Refuse,
    };
    let key = key.map(checked_key).transpose()?;
    let handle = open(app, who, id).await?;
    if let Some(agent) = who.identity.agent() {
        // Of those that it led to there may be so many; one that comes back is one more.
        app.host.wake_child(agent, &handle).await.map_err(|error| from_create(&error))?;
    }
    submit(app, who, &handle, &args.prompt, overlap, key).await
}

pub(super) fn checked_key(key: &str) -> Result<&str, Problem> {
    let usable = !key.is_empty() && key.len() <= KEY;
    usable.then_some(key).ok_or_else(|| {
        let detail = format!("Idempotency-Key: must have 1 to {KEY} characters");
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_idempotency_key", detail)
    })
}

/// Hands a prompt to the session.
pub(super) async fn submit(
    app: &App,
    who: &Caller,
    handle: &SessionHandle,
    content: &Content,
    overlap: Overlap,
    key: Option<&str>,
) -> Result<Prompted, Problem> {
    let id = handle.id();
    let frame = content.request(id.as_str()).ok_or_else(|| invalid("prompt: is not one line of UTF-8"))?;
    let (prompt, key) = (new_prompt_id(), key.map(Into::into));
    let submission = Submission { prompt, sender: who.sender(), frame, key, overlap, to_agent: false };
    let receipt = handle.prompt(submission).await.map_err(|error| from_call(app, id, &error))?;
    Ok(Prompted {
        ok: true,
        id: id.to_string(),
        prompt_id: receipt.prompt.to_string(),
        position: receipt.position,
        duplicate: receipt.duplicate,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_becomes_one_block_and_blocks_stay_as_they_are() {
        let read = |json: &str| Content::read(json).map(|content| content.0);
        assert_eq!(read(r#""a\nb""#).unwrap(), r#"[{"type":"text","text":"a\nb"}]"#);
        assert_eq!(
            read("[{\"type\":\"text\",\n\"n\":1.10}]").unwrap(),
            r#"[{"type":"text", "n":1.10}]"#,
            "numbers keep their spelling, a frame is one line"
        );
        for wrong in ["7", "null", "{}", "[]", r#""  ""#, "[7]", r#"[{"text":"x"}]"#] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
