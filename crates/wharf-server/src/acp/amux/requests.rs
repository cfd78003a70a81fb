//! The requests of amux: steer, queue, unqueue and cancel (rule 9.2).

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use wharf_api::ErrorCode;
use wharf_host::core::{Overlap, PromptId, PromptReceipt, Raw};
use wharf_host::{SessionHandle, new_prompt_id};
use wharf_json::Json;

use super::METHOD_PREFIX;
use super::connection::AmuxMethods;
use super::frames::{QUEUE_ITEM, turn_id};
use crate::acp::connection::Connection;
use crate::acp::errors::{RpcError, from_call};
use crate::acp::inbound::{ClientRequest, Methods, Outcome};
use crate::use_cases::{self, NewPrompt, submit_prompt};

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
        let read =
            params.and_then(|params| params.map_or_else(|| Ok(Self::default()), wharf_json::read));
        read.map_err(|error| {
            RpcError::params(format!(
                "`text`, `queueItemId` and `reason` are strings, `prompt` is a list: {error}"
            ))
        })
    }

    /// The reason for a cancel, cut off where it is too long: a cancel is not refused for its
    /// words.
    fn short_reason(&self) -> Option<Arc<str>> {
        let reason: String = self.reason.as_deref()?.chars().take(MAX_REASON_CHARS).collect();
        (!reason.is_empty()).then(|| reason.into())
    }

    /// Returns the JSON text of the content blocks, with every value spelled as the client spelled
    /// it.
    fn content(&self) -> Result<String, RpcError> {
        match (self.text, self.prompt) {
            (Some(text), _) if text.text().is_some_and(|text| !text.is_empty()) => {
                Ok(format!(r#"[{{"type":"text","text":{text}}}]"#))
            }
            (None, Some(prompt)) if prompt.items().next().is_some() => Ok(prompt.raw().to_owned()),
            _ => Err(RpcError::params(
                "`text` is missing or empty; a list of content blocks in `prompt` will do too",
            )),
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
    let session = attached.handle.id();
    connection.caller_in(session).may_work_in(&connection.app, session.as_str())?;
    let answer = match asked {
        "steer_active_turn" => steer_turn(connection, &attached.handle, params).await?,
        "queue_prompt" => queue_prompt(connection, &attached.handle, params).await?,
        "unqueue_prompt" => unqueue_prompt(connection, &attached.handle, params).await?,
        _ => cancel_turn(connection, &attached.handle, params).await?,
    };
    Ok(Some(request.respond(&answer)))
}

/// Ends the running turn and puts this one in its place; with none running it is a prompt like any
/// other.
async fn steer_turn(
    connection: &Connection,
    handle: &SessionHandle,
    params: Params<'_>,
) -> Result<Value, RpcError> {
    let turns = handle.turns().await.map_err(|error| from_call(&error, handle.id().as_str()))?;
    if turns.iter().any(|turn| turn.cancel) {
        return Err(RpcError::new(
            NOTHING_TO_STEER,
            "the active turn is being ended already; wait for its end",
        ));
    }
    let (mode, overlap) =
        if turns.is_empty() { ("prompt", Overlap::Queue) } else { ("hard", Overlap::Interrupt) };
    let receipt =
        submit_content(connection, handle, params.content()?, new_prompt_id(), overlap).await?;
    Ok(json!({ "mode": mode, "status": "submitted", "amuxTurnId": turn_id(&receipt.prompt) }))
}

async fn queue_prompt(
    connection: &Connection,
    handle: &SessionHandle,
    params: Params<'_>,
) -> Result<Value, RpcError> {
    let prompt = PromptId::new(new_prompt_id().as_str().replacen("prm_", QUEUE_ITEM, 1));
    let receipt =
        submit_content(connection, handle, params.content()?, prompt, Overlap::Queue).await?;
    let status = if receipt.position.is_some() { "queued" } else { "submitted" };
    Ok(json!({ "queueItemId": receipt.prompt.as_str(), "status": status }))
}

async fn unqueue_prompt(
    connection: &Connection,
    handle: &SessionHandle,
    params: Params<'_>,
) -> Result<Value, RpcError> {
    let item = params
        .queue_item_id
        .ok_or_else(|| RpcError::params("`queueItemId` is missing"))?;
    let session = handle.id().as_str();
    let caller = connection.caller_in(handle.id());
    match use_cases::remove_queued(&connection.app, &caller, session, &item).await {
        Ok(_) => Ok(json!({ "queueItemId": item, "status": "removed" })),
        Err(fault)
            if [ErrorCode::UNKNOWN_PROMPT, ErrorCode::ALREADY_STARTED].contains(&fault.code()) =>
        {
            Err(RpcError::new(UNKNOWN_ITEM, format!("no queue item {item:?} is waiting")))
        }
        Err(fault) => Err(fault.into()),
    }
}

/// Ends the running turn, which any peer may; prompts that wait stay.
async fn cancel_turn(
    connection: &Connection,
    handle: &SessionHandle,
    params: Params<'_>,
) -> Result<Value, RpcError> {
    let reason = params.short_reason();
    let turns = handle.turns().await.map_err(|error| from_call(&error, handle.id().as_str()))?;
    let Some(last) = turns.last() else {
        return Err(RpcError::new(NOTHING_TO_STEER, "no turn is active"));
    };
    let caller = connection.caller_in(handle.id());
    for turn in &turns {
        let prompt = turn.prompt.clone();
        let reason = reason.clone();
        match use_cases::cancel_prompt(&connection.app, &caller, handle, prompt, reason).await {
            Ok(()) => {}
            // It has ended by itself meanwhile.
            Err(fault) if fault.code() == ErrorCode::UNKNOWN_PROMPT => {}
            Err(fault) => return Err(fault.into()),
        }
    }
    Ok(json!({ "status": "cancelling", "amuxTurnId": turn_id(&last.prompt) }))
}

async fn submit_content(
    connection: &Connection,
    handle: &SessionHandle,
    content: String,
    prompt: PromptId,
    overlap: Overlap,
) -> Result<PromptReceipt, RpcError> {
    let frame = wharf_acp::prompt_request(handle.id().as_str(), content);
    let frame = Raw::new(frame).ok_or_else(|| RpcError::params("not one line of UTF-8"))?;
    let new = NewPrompt { id: prompt, frame, key: None, overlap, to_agent: false };
    let submitted =
        submit_prompt(&connection.app, &connection.caller_in(handle.id()), handle, new).await;
    submitted.map_err(|fault| match fault.code() {
        ErrorCode::QUEUE_FULL => {
            RpcError::new(QUEUE_FULL, format!("queue full: {}", fault.detail()))
        }
        _ => fault.into(),
    })
}
