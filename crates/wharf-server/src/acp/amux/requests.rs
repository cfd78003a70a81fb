//! The requests of amux: steer, queue, unqueue and cancel (rule 9.2).

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use wharf_host::core::{Overlap, PromptId, PromptReceipt, Raw, Refusal, Role, Submission};
use wharf_host::{CallError, SessionHandle, new_prompt_id};
use wharf_json::Json;

use super::METHOD_PREFIX;
use super::connection::AmuxMethods;
use super::frames::{QUEUE_ITEM, turn_id};
use crate::acp::connection::Connection;
use crate::acp::errors::{RpcError, from_call, observer};
use crate::acp::inbound::{ClientRequest, Methods, Outcome};

/// Error codes of amux.
const NOTHING_TO_STEER: i32 = -32002;
const QUEUE_FULL: i32 = -32003;
const UNKNOWN_ITEM: i32 = -32004;

/// The longest reason for a cancel. It is kept in the log and told to every peer.
const MAX_REASON_CHARS: usize = 1_024;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Params<'a> {
    #[serde(borrow)]
    text: Option<Json<'a>>,
    #[serde(borrow)]
    prompt: Option<Json<'a>>,
    queue_item_id: Option<String>,
    reason: Option<String>,
}

impl<'a> Params<'a> {
    fn of(frame: &'a [u8]) -> Result<Self, RpcError> {
        let params = Json::parse(frame).and_then(|frame| frame.member("params"));
        let read = params.and_then(|params| params.map_or_else(|| Ok(Self::default()), wharf_json::read));
        read.map_err(|error| {
            RpcError::params(format!("`text`, `queueItemId` and `reason` are strings, `prompt` is a list: {error}"))
        })
    }

    /// The reason for a cancel, cut off where it is too long: a cancel is not refused for its words.
    fn short_reason(&self) -> Option<Arc<str>> {
        let reason: String = self.reason.as_deref()?.chars().take(MAX_REASON_CHARS).collect();
        (!reason.is_empty()).then(|| reason.into())
    }

    /// Returns the JSON text of the content blocks, with every value spelled as the client spelled it.
    fn content(&self) -> Result<String, RpcError> {
        match (self.text, self.prompt) {
            (Some(text), _) if text.text().is_some_and(|text| !text.is_empty()) => {
                Ok(format!(r#"[{{"type":"text","text":{text}}}]"#))
            }
            (None, Some(prompt)) if prompt.items().next().is_some() => Ok(prompt.raw().to_owned()),
            _ => Err(RpcError::params("`text` is missing or empty; a list of content blocks in `prompt` will do too")),
        }
    }
}

/// Handles an `amux/*` request, or a notification, whose answer is dropped.
pub(super) async fn handle(methods: &AmuxMethods, request: ClientRequest<'_>) -> Outcome {
    let method = request.envelope.method.as_ref();
    let known = ["steer_active_turn", "queue_prompt", "unqueue_prompt", "cancel_active_turn"];
    let asked = method.strip_prefix(METHOD_PREFIX).filter(|word| known.contains(word));
    let asked = asked.ok_or_else(|| RpcError::unknown_method(method))?;
    let connection = methods.connection();
    connection.client.caller().may_change()?;
    let params = Params::of(request.frame)?;
    let attached = methods.attached_session(request.envelope).await?;
    if attached.role == Role::Observer {
        return Err(observer(attached.handle.id().as_str()));
    }
    let answer = match asked {
        "steer_active_turn" => steer_turn(connection, &attached.handle, params).await?,
        "queue_prompt" => queue_prompt(connection, &attached.handle, params).await?,
        "unqueue_prompt" => unqueue_prompt(connection, &attached.handle, params).await?,
        _ => cancel_turn(connection, &attached.handle, params).await?,
    };
    Ok(Some(request.respond(&answer)))
}

/// Ends the running turn and puts this one in its place; with none running it is a prompt like any other.
async fn steer_turn(connection: &Connection, handle: &SessionHandle, params: Params<'_>) -> Result<Value, RpcError> {
    let turns = handle.turns().await.map_err(|error| from_call(&error, handle.id().as_str()))?;
    if turns.iter().any(|turn| turn.cancel) {
        return Err(RpcError::new(NOTHING_TO_STEER, "the active turn is being ended already; wait for its end"));
    }
    let (mode, overlap) = if turns.is_empty() { ("prompt", Overlap::Queue) } else { ("hard", Overlap::Interrupt) };
    let receipt = submit_prompt(connection, handle, params.content()?, new_prompt_id(), overlap).await?;
    Ok(json!({ "mode": mode, "status": "submitted", "amuxTurnId": turn_id(&receipt.prompt) }))
}

async fn queue_prompt(connection: &Connection, handle: &SessionHandle, params: Params<'_>) -> Result<Value, RpcError> {
    let prompt = PromptId::new(new_prompt_id().as_str().replacen("prm_", QUEUE_ITEM, 1));
    let receipt = submit_prompt(connection, handle, params.content()?, prompt, Overlap::Queue).await?;
    let status = if receipt.position.is_some() { "queued" } else { "submitted" };
    Ok(json!({ "queueItemId": receipt.prompt.as_str(), "status": status }))
}

async fn unqueue_prompt(
    connection: &Connection,
    handle: &SessionHandle,
    params: Params<'_>,
) -> Result<Value, RpcError> {
    let item = params.queue_item_id.ok_or_else(|| RpcError::params("`queueItemId` is missing"))?;
    let removed = handle.remove_prompt(PromptId::new(item.as_str()), connection.sender_in(handle.id())).await;
    match removed {
        Ok(()) => Ok(json!({ "queueItemId": item, "status": "removed" })),
        Err(CallError::Refused(Refusal::UnknownPrompt(_) | Refusal::AlreadyStarted(_))) => {
            Err(RpcError::new(UNKNOWN_ITEM, format!("no queue item {item:?} is waiting")))
        }
        Err(error) => Err(from_call(&error, handle.id().as_str())),
    }
}

/// Any peer may end the running turn; what waits stays.
async fn cancel_turn(connection: &Connection, handle: &SessionHandle, params: Params<'_>) -> Result<Value, RpcError> {
    let reason = params.short_reason();
    let fail = |error| from_call(&error, handle.id().as_str());
    let turns = handle.turns().await.map_err(fail)?;
    let Some(last) = turns.last() else {
        return Err(RpcError::new(NOTHING_TO_STEER, "no turn is active"));
    };
    for turn in &turns {
        let by = connection.sender_in(handle.id());
        match handle.cancel_prompt_because(turn.prompt.clone(), by, reason.clone()).await {
            // It has ended by itself meanwhile.
            Ok(()) | Err(CallError::Refused(Refusal::UnknownPrompt(_))) => {}
            Err(error) => return Err(fail(error)),
        }
    }
    Ok(json!({ "status": "cancelling", "amuxTurnId": turn_id(&last.prompt) }))
}

async fn submit_prompt(
    connection: &Connection,
    handle: &SessionHandle,
    content: String,
    prompt: PromptId,
    overlap: Overlap,
) -> Result<PromptReceipt, RpcError> {
    let session = Value::from(handle.id().as_str());
    let params = format!(r#"{{"sessionId":{session},"prompt":{content}}}"#);
    let frame = format!(r#"{{"jsonrpc":"2.0","id":0,"method":"session/prompt","params":{params}}}"#);
    let frame = Raw::new(frame).ok_or_else(|| RpcError::params("not one line of UTF-8"))?;
    let (sender, key, to_agent) = (connection.sender_in(handle.id()), None, false);
    let submitted = handle.prompt(Submission { prompt, sender, frame, key, overlap, to_agent }).await;
    submitted.map_err(|error| match error {
        CallError::Refused(Refusal::QueueFull { limit }) => {
            RpcError::new(QUEUE_FULL, format!("queue full: {limit} prompts are waiting (limits.queue)"))
        }
        error @ (CallError::Refused(_)
        | CallError::StorageFull
        | CallError::Storage(_)
        | CallError::NotWritten { .. }
        | CallError::LogFull { .. }
        | CallError::TooMany { .. }
        | CallError::Left
        | CallError::Gone) => from_call(&error, handle.id().as_str()),
    })
}
