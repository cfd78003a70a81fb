//! Prompts and their end: `session/prompt`, `session/cancel` and `$/cancel_request`.

use bytes::Bytes;
use serde::Deserialize;
use wharf_acp::Envelope;
use wharf_config::QueueBy;
use wharf_host::core::{Overlap, PromptId, PromptReceipt, Raw};
use wharf_host::{SessionHandle, new_prompt_id};
use wharf_json::Json;

use super::controlled_session;
use crate::acp::attachments::AttachedSession;
use crate::acp::connection::Connection;
use crate::acp::errors::RpcError;
use crate::acp::inbound::{ClientRequest, Outcome};
use crate::acp::updates;
use crate::acp::view::response;
use crate::use_cases::{self, NewPrompt, check_idempotency_key, submit_prompt};

#[derive(Deserialize)]
pub(super) struct RequestParams<P> {
    pub(super) params: P,
}

#[derive(Deserialize)]
struct PromptParams {
    #[expect(dead_code, reason = "checked to be a list")]
    prompt: Vec<serde::de::IgnoredAny>,
    #[serde(rename = "_meta")]
    meta: Option<PromptMeta>,
}

#[derive(Deserialize)]
struct PromptMeta {
    wharf: Option<WharfMeta>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WharfMeta {
    idempotency_key: Option<String>,
    delivery: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CancelParams<'a> {
    #[serde(borrow)]
    request_id: Json<'a>,
}

/// Sends a prompt, which waits in the queue while a turn runs.
pub(super) async fn prompt(connection: &Connection, request: ClientRequest<'_>) -> Outcome {
    let handle = controlled_session(connection, request.envelope).await?;
    send_prompt(connection, request, &handle, Overlap::Queue).await?;
    Ok(None)
}

/// Sends a prompt. Its end is the answer to the request, so there is none yet.
pub(in crate::acp) async fn send_prompt(
    connection: &Connection,
    request: ClientRequest<'_>,
    handle: &SessionHandle,
    overlap: Overlap,
) -> Result<(), RpcError> {
    let frame =
        Raw::new(request.frame.clone()).ok_or_else(|| RpcError::params("not one line of UTF-8"))?;
    let meta = wharf_acp::peek::<RequestParams<PromptParams>>(request.frame)
        .map_err(|error| {
            RpcError::params(format!(
                "session/prompt needs `prompt`, a list of content blocks: {error}"
            ))
        })?
        .params
        .meta
        .and_then(|meta| meta.wharf)
        .unwrap_or_default();
    let key = meta
        .idempotency_key
        .as_deref()
        .map(|key| check_idempotency_key("_meta.wharf.idempotencyKey", key))
        .transpose()?;
    let agents = connection.app.host.config().agents.get(&handle.descriptor().adapter_slug);
    let by_agent = agents.is_some_and(|agent| agent.queue == QueueBy::Agent);
    let to_agent = by_agent || meta.delivery.as_deref() == Some("agent");
    let new = NewPrompt {
        id: new_prompt_id(),
        frame,
        key: key.map(Into::into),
        overlap,
        to_agent,
    };
    // Noted before it is submitted, so that its end finds it.
    connection.requests.owe(new.id.clone(), handle.id().clone(), request.id.clone());
    let caller = connection.caller_in(handle.id());
    let submitted = submit_prompt(&connection.app, &caller, handle, new.clone()).await;
    if !matches!(submitted, Ok(PromptReceipt { duplicate: false, .. })) {
        connection.requests.settle(&new.id);
    }
    let receipt = submitted?;
    if receipt.duplicate {
        repeat_prompt(connection, handle, new, receipt, request.id).await;
    }
    Ok(())
}

/// Answers the same prompt again: its end answers this request too, be it past or still to come
/// (rule 7.5).
async fn repeat_prompt(
    connection: &Connection,
    handle: &SessionHandle,
    again: NewPrompt,
    receipt: PromptReceipt,
    id: &Bytes,
) {
    let session = handle.id();
    let requests = &connection.requests;
    if let Some(end) = receipt.end {
        // Its updates come first, also to a client that is still catching up with them.
        let answer = response(&end, None, id, session.as_str());
        return connection.outbox.send_after(session, answer, handle.head()).await;
    }
    requests.owe(receipt.prompt.clone(), session.clone(), id.clone());
    // It may have ended just before that was noted; asking once more tells. Whichever settles it
    // answers: this, or the view that comes to its end.
    let now = submit_prompt(&connection.app, &connection.caller_in(session), handle, again).await;
    let now = match now {
        Ok(PromptReceipt { end: None, .. }) => return,
        Ok(PromptReceipt { end: Some(end), .. }) => Ok(end),
        Err(fault) => Err(RpcError::from(fault)),
    };
    for request in requests.settle(&receipt.prompt) {
        let answer = match &now {
            Ok(end) => response(end, None, &request, session.as_str()),
            Err(error) => error.frame(&request),
        };
        connection.outbox.send_after(session, answer, handle.head()).await;
    }
}

/// Ends the client's own prompts or the turn that it sees; with `_meta.wharf` one prompt, or the
/// queue too.
pub(super) async fn cancel(connection: &Connection, frame: &Bytes, envelope: &Envelope<'_>) {
    let Ok(handle) = controlled_session(connection, envelope).await else { return };
    let app = &connection.app;
    let caller = connection.caller_in(handle.id());
    let wish =
        |name| Json::parse(frame).and_then(|frame| frame.seek(&["params", "_meta", "wharf", name]));
    let (prompt, queue) = match (wish("promptId"), wish("queue")) {
        (Ok(prompt), Ok(queue)) => (prompt.and_then(Json::text), queue.and_then(Json::text)),
        (Err(error), _) | (_, Err(error)) => {
            // The host cannot know which turn the client means, and a notification has no answer
            // that could say so.
            tracing::warn!(client = %connection.client.id(), %error, "a session/cancel cannot be read");
            return;
        }
    };
    if let Some(prompt) = prompt {
        let _ =
            use_cases::cancel_prompt(app, &caller, &handle, PromptId::new(prompt.as_ref()), None)
                .await;
        return;
    }
    let scope = connection.attachments.cancel_scope(&handle, queue.as_deref() == Some("clear"));
    let crossed = use_cases::cancel_turn(app, &caller, &handle, scope).await;
    if matches!(crossed, Ok(true)) {
        let message = "Nothing was cancelled: your own turn had just ended. Cancel again to end the running turn.";
        let understood = connection.client.info().understood();
        let notice = updates::notice(handle.id(), understood, message, "cancel_crossed");
        connection.outbox.send_after(handle.id(), notice, handle.head()).await;
    }
}

/// `$/cancel_request`: a waiting prompt leaves the queue, a running one is cancelled, a request
/// that was passed on is taken back (rules 3.4, 7.3).
pub(super) async fn cancel_request(connection: &Connection, frame: &Bytes) {
    let request = match wharf_acp::peek::<RequestParams<CancelParams<'_>>>(frame) {
        Ok(request) => request.params.request_id.raw().as_bytes(),
        Err(error) => {
            tracing::warn!(client = %connection.client.id(), %error, "a $/cancel_request cannot be read");
            return;
        }
    };
    let requests = &connection.requests;
    let attachments = &connection.attachments;
    if let Some((session, prompt)) = requests.prompt_of(request) {
        let Some(AttachedSession { handle, .. }) = attachments.get(&session) else { return };
        let caller = connection.caller_in(&session);
        let _ = use_cases::cancel_prompt(&connection.app, &caller, &handle, prompt, None).await;
    } else if let Some(attached) =
        requests.forwarded(request).and_then(|session| attachments.get(&session))
    {
        let request = Bytes::copy_from_slice(request);
        let _ = attached.handle.cancel_forward(connection.client.id().clone(), request).await;
    }
}

/// Returns the id of the request that a `$/cancel_request` takes back, as JSON text.
pub(in crate::acp) fn cancelled_request(frame: &Bytes) -> Option<&str> {
    wharf_acp::peek::<RequestParams<CancelParams<'_>>>(frame)
        .ok()
        .map(|request| request.params.request_id.raw())
}
