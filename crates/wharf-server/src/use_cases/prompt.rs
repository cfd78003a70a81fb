//! Prompts. For callers that speak no ACP, Wharf writes the `session/prompt` (rule 7.2).

use std::sync::Arc;

use serde::Deserialize;
use wharf_api::{Content, ErrorCode, PromptArgs, Prompted};
use wharf_host::core::{Overlap, PromptId, PromptReceipt, Raw, Submission};
use wharf_host::{SessionHandle, new_prompt_id};
use wharf_json::Json;

use super::attention::note_act;
use super::faults::{fault_from_create_error, fault_from_failed_call, invalid_params};
use super::uploads::expand_uploads;
use super::{Caller, open_session};
use crate::App;
use crate::fault::Fault;

/// The most bytes of an idempotency key, more than any program needs.
const MAX_KEY_BYTES: usize = 256;
/// The header with the idempotency key.
pub(super) const IDEMPOTENCY_KEY_HEADER: &str = "Idempotency-Key";

/// The JSON text of a list of content blocks, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PromptBlocks(String);

#[derive(Deserialize)]
struct Block {
    #[expect(dead_code, reason = "checked to be there")]
    #[serde(rename = "type")]
    kind: String,
}

impl PromptBlocks {
    /// Reads a prompt's content: a text becomes one block, blocks stay as they are.
    pub(super) fn from_content(content: &Content) -> Result<Self, Fault> {
        Self::parse(content.json()).map_err(|why| invalid_params(format!("prompt: {why}")))
    }

    fn parse(json: &str) -> Result<Self, String> {
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

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the blocks with others behind them, each given as JSON.
    pub(super) fn followed_by<'a>(mut self, blocks: impl Iterator<Item = &'a str>) -> Self {
        let end = self.0.trim_end().len() - 1;
        self.0.truncate(end);
        blocks.for_each(|block| {
            self.0.push(',');
            self.0.push_str(block);
        });
        self.0.push(']');
        self
    }

    /// Returns the blocks with the content of the uploads that they name.
    pub(super) async fn with_uploads(
        self,
        app: &App,
        handle: &SessionHandle,
    ) -> Result<Self, Fault> {
        Ok(expand_uploads(app, handle, &self.0).await?.map_or(self, Self))
    }

    /// Returns the request as the agent is to get it; the ids are replaced on the way.
    pub(super) fn to_request(&self, session: &str) -> Result<Raw, Fault> {
        let frame = Raw::new(wharf_acp::prompt_request(session, &self.0));
        frame.ok_or_else(|| invalid_params("prompt: is not one line of UTF-8"))
    }
}

/// Sends a prompt to the session. A session that has ended is resumed if its agent can return.
pub(crate) async fn send_prompt(
    app: &App,
    caller: &Caller,
    id: &str,
    args: PromptArgs,
    key: Option<&str>,
) -> Result<Prompted, Fault> {
    caller.may_work_in(app, id)?;
    let overlap = match (args.queue.unwrap_or(false), args.interrupt.unwrap_or(false)) {
        (true, true) => {
            return Err(invalid_params("queue and interrupt exclude each other: send one of them"));
        }
        (true, false) => Overlap::Queue,
        (false, true) => Overlap::Interrupt,
        (false, false) => Overlap::Refuse,
    };
    let key = key.map(|key| check_idempotency_key(IDEMPOTENCY_KEY_HEADER, key)).transpose()?;
    let blocks = PromptBlocks::from_content(&args.prompt)?;
    let handle = open_session(app, caller, id).await?;
    if let Some(agent) = caller.identity.agent_session() {
        // A child session that is resumed counts against the agent's quota of running children.
        app.host
            .wake_child(agent, &handle)
            .await
            .map_err(|error| fault_from_create_error(&error))?;
    }
    let blocks = blocks.with_uploads(app, &handle).await?;
    submit_blocks(app, caller, &handle, &blocks, overlap, key).await
}

/// Returns the key if its length is valid. `place` names the header or member that held it, for the
/// fault.
pub(crate) fn check_idempotency_key<'a>(place: &str, key: &'a str) -> Result<&'a str, Fault> {
    let usable = !key.is_empty() && key.len() <= MAX_KEY_BYTES;
    usable.then_some(key).ok_or_else(|| {
        let detail = format!("{place}: must have 1 to {MAX_KEY_BYTES} characters");
        Fault::new(ErrorCode::INVALID_IDEMPOTENCY_KEY, detail)
    })
}

/// A prompt as the agent is to get it.
#[derive(Clone, Debug)]
pub(crate) struct NewPrompt {
    pub(crate) id: PromptId,
    /// The `session/prompt`; the ids in it are replaced on the way.
    pub(crate) frame: Raw,
    /// An idempotency key that was checked.
    pub(crate) key: Option<Arc<str>>,
    pub(crate) overlap: Overlap,
    /// Goes to the agent at once, which has a queue of its own.
    pub(crate) to_agent: bool,
}

/// Hands a prompt to the session, in the caller's name.
pub(crate) async fn submit_prompt(
    app: &App,
    caller: &Caller,
    handle: &SessionHandle,
    new: NewPrompt,
) -> Result<PromptReceipt, Fault> {
    caller.may_work_in(app, handle.id().as_str())?;
    let NewPrompt { id: prompt, frame, key, overlap, to_agent } = new;
    let submission = Submission {
        prompt,
        sender: caller.sender(),
        frame,
        key,
        overlap,
        to_agent,
    };
    let before = handle.head();
    let receipt = handle
        .prompt(submission)
        .await
        .map_err(|error| fault_from_failed_call(app, handle.id(), &error))?;
    note_act(app, caller, handle, before);
    Ok(receipt)
}

/// Hands the prompt of a caller that speaks no ACP to the session.
pub(super) async fn submit_blocks(
    app: &App,
    caller: &Caller,
    handle: &SessionHandle,
    blocks: &PromptBlocks,
    overlap: Overlap,
    key: Option<&str>,
) -> Result<Prompted, Fault> {
    let frame = blocks.to_request(handle.id().as_str())?;
    let id = new_prompt_id();
    let key = key.map(Into::into);
    let receipt =
        submit_prompt(app, caller, handle, NewPrompt { id, frame, key, overlap, to_agent: false })
            .await?;
    Ok(Prompted {
        ok: true,
        id: handle.id().to_string(),
        prompt_id: receipt.prompt.to_string(),
        position: receipt.position,
        duplicate: receipt.duplicate,
        turn: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_becomes_one_block_and_blocks_stay_as_they_are() {
        let read = |json: &str| PromptBlocks::parse(json).map(|blocks| blocks.0);
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
