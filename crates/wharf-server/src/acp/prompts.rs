//! Prompts, their queue, their end; and answers to what an agent asks.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use wharf_host::core::{AskId, CancelScope, PromptId, PromptReceipt, Raw, Refusal, Submission};
use wharf_host::frame::{self, Envelope};
use wharf_host::{CallError, QueueBy, SessionHandle, new_prompt_id};
use wharf_json::Json;

use super::ask_answer::{AskAnswer, declined};
use super::connection::Connection;
use super::errors::{RpcError, from_call, unreadable_params};
use super::inbound::{Outcome, result};
use super::ledger::Wanted;
use super::updates::{self, who};
use super::view::response;
use crate::use_cases::check_idempotency_key;

impl Connection {
    pub(super) async fn prompt(&self, frame: &Bytes, envelope: &Envelope<'_>, id: &Bytes) -> Outcome {
        let handle = self.controlled(envelope).await?;
        let raw = Raw::new(frame.clone()).ok_or_else(|| RpcError::params("not one line of UTF-8"))?;
        let meta = frame::peek::<Request<PromptParams>>(frame)
            .map_err(|error| {
                RpcError::params(format!("session/prompt needs `prompt`, a list of content blocks: {error}"))
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
        let prompt = new_prompt_id();
        self.ledger.owe(prompt.clone(), handle.id().clone(), id.clone());
        let agents = self.app.host.config().agents.get(&handle.descriptor().adapter_slug);
        let by_agent = agents.is_some_and(|agent| agent.queue == QueueBy::Agent);
        let submission = Submission {
            prompt: prompt.clone(),
            sender: self.sender_in(handle.id()),
            frame: raw,
            key: key.map(Into::into),
            overlap: self.overlap(handle.id()),
            to_agent: by_agent || meta.delivery.as_deref() == Some("agent"),
        };
        match handle.prompt(submission.clone()).await {
            Ok(receipt) if !receipt.duplicate => Ok(None),
            Ok(receipt) => {
                self.ledger.settle(&prompt);
                self.repeated(&handle, submission, receipt, id).await
            }
            Err(error) => {
                self.ledger.settle(&prompt);
                Err(self.prompt_refused(&handle, &error).await)
            }
        }
    }

    /// The same prompt again: its end answers this request too, be it past or still to come (rule 7.5).
    async fn repeated(&self, handle: &SessionHandle, again: Submission, receipt: PromptReceipt, id: &Bytes) -> Outcome {
        if let Some(end) = receipt.end {
            // Its updates come first, also to a client that is still catching up with them.
            let answer = response(&end, id, handle.id().as_str());
            self.lane_frame(handle, answer, handle.head()).await;
            return Ok(None);
        }
        self.ledger.owe(receipt.prompt.clone(), handle.id().clone(), id.clone());
        // It may have ended just before that was noted; asking once more tells. Who settles it answers: this, or the view
        // that comes to its end.
        let now = handle.prompt(again).await;
        if matches!(now, Ok(PromptReceipt { end: None, .. })) {
            return Ok(None);
        }
        for request in self.ledger.settle(&receipt.prompt) {
            let answer = match &now {
                Ok(PromptReceipt { end: Some(end), .. }) => response(end, &request, handle.id().as_str()),
                Ok(PromptReceipt { end: None, .. }) => continue,
                Err(error) => from_call(error, handle.id().as_str()).frame(&request),
            };
            self.lane_frame(handle, answer, handle.head()).await;
        }
        Ok(None)
    }

    pub(super) async fn cancel(&self, frame: &Bytes, envelope: &Envelope<'_>) {
        let Ok(handle) = self.controlled(envelope).await else { return };
        let (by, head) = (self.sender_in(handle.id()), handle.head());
        let wish = |name| Json::parse(frame).and_then(|frame| frame.seek(&["params", "_meta", "wharf", name]));
        let (prompt, queue) = match (wish("promptId"), wish("queue")) {
            (Ok(prompt), Ok(queue)) => (prompt.and_then(Json::text), queue.and_then(Json::text)),
            (Err(error), _) | (_, Err(error)) => {
                // The turn that it means cannot be told, and a notification has no answer.
                tracing::warn!(client = %self.client, %error, "a session/cancel cannot be read");
                return;
            }
        };
        if let Some(prompt) = prompt {
            let _ = handle.cancel_prompt(PromptId::new(prompt.as_ref()), by).await;
            return;
        }
        let clear_queue = queue.as_deref() == Some("clear");
        let seen = self.shown.seen(handle.id()).unwrap_or(head);
        let settled = self.shown.settled(handle.id(), Instant::now()).unwrap_or(head);
        let done = handle.cancel(by, CancelScope { seen, settled, clear_queue }).await;
        if done.is_ok_and(|done| done.crossed) {
            let message = "Nothing was cancelled: your own turn had just ended. Cancel again to end the running turn.";
            let notice = updates::notice(handle.id(), self.info().understood(), message, "cancel_crossed");
            self.lane_frame(&handle, notice, handle.head()).await;
        }
    }

    /// `$/cancel_request`: a waiting prompt leaves the queue, a running one is cancelled, a request that was passed on
    /// is taken back (rules 3.4, 7.3).
    pub(super) async fn cancel_request(&self, frame: &Bytes) {
        let request = match frame::peek::<Request<CancelParams<'_>>>(frame) {
            Ok(request) => request.params.request_id.raw().as_bytes(),
            Err(error) => {
                tracing::warn!(client = %self.client, %error, "a $/cancel_request cannot be read");
                return;
            }
        };
        if let Some((session, prompt)) = self.ledger.prompt_of(request) {
            let Some(attached) = self.attached(&session) else { return };
            let _ = attached.handle.cancel_prompt(prompt, attached.sender).await;
        } else if let Some(attached) = self.ledger.forwarded(request).and_then(|session| self.attached(&session)) {
            let request = Bytes::copy_from_slice(request);
            let _ = attached.handle.cancel_forward(self.client.clone(), request).await;
        }
    }

    /// An answer to an ask: a choice settles it, a decline counts only when all have said so (rule 3.7). One that is not
    /// valid is a decline, and the agent never sees it (rule 12.3).
    pub(super) async fn answer_ask(
        &self,
        handle: &SessionHandle,
        ask: AskId,
        wanted: Wanted,
        frame: &Bytes,
    ) -> Result<(), CallError> {
        let Some(raw) = Raw::new(frame.clone()) else { return Ok(()) };
        match AskAnswer::read(wanted, frame) {
            AskAnswer::Option(option) => {
                let answered = handle.answer(ask, self.sender_in(handle.id()), Some(option.as_str().into()), raw).await;
                match answered {
                    Err(CallError::Refused(Refusal::InvalidOption { .. })) => {
                        self.decline_invalid(handle, ask, wanted, &format!("option {option:?} was not offered")).await
                    }
                    answered => answered,
                }
            }
            AskAnswer::Form => handle.answer(ask, self.sender_in(handle.id()), None, raw).await,
            AskAnswer::Decline => handle.decline(ask, self.sender_in(handle.id()), raw).await,
            AskAnswer::Invalid(why) => self.decline_invalid(handle, ask, wanted, &why).await,
        }
    }

    /// Counts as this client's decline, with the reason in the log.
    pub(super) async fn decline_invalid(
        &self,
        handle: &SessionHandle,
        ask: AskId,
        wanted: Wanted,
        why: &str,
    ) -> Result<(), CallError> {
        tracing::warn!(client = %self.client, session = %handle.id(), "an answer is not valid and counts as a decline");
        match declined(wanted, why) {
            Some(answer) => handle.decline(ask, self.sender_in(handle.id()), answer).await,
            None => Ok(()),
        }
    }

    pub(super) async fn queue_list(&self, envelope: &Envelope<'_>, id: &Bytes) -> Outcome {
        let handle = self.session(envelope).await?.handle;
        let queue = handle.queue().await.map_err(|error| from_call(&error, handle.id().as_str()))?;
        let prompts: Vec<Value> = queue
            .iter()
            .enumerate()
            .map(|(position, queued)| {
                let frame = frame::to_value(queued.frame.bytes());
                json!({
                    "promptId": queued.prompt.as_str(),
                    "position": position,
                    "prompt": frame["params"]["prompt"],
                    "sentBy": who(&queued.sender),
                    "acceptedAt": wharf_host::timestamp(queued.accepted_at),
                })
            })
            .collect();
        Ok(Some(result(id, &json!({ "prompts": prompts }))))
    }

    pub(super) async fn queue_remove(&self, frame: &Bytes, envelope: &Envelope<'_>, id: &Bytes) -> Outcome {
        let (handle, params) = self.queue_call(frame, envelope).await?;
        let done = handle.remove_prompt(params.prompt_id(), self.sender_in(handle.id())).await;
        done.map_err(|error| from_call(&error, handle.id().as_str()))?;
        Ok(Some(result(id, &json!({}))))
    }

    pub(super) async fn queue_update(&self, frame: &Bytes, envelope: &Envelope<'_>, id: &Bytes) -> Outcome {
        let (handle, params) = self.queue_call(frame, envelope).await?;
        let prompt = params.prompt.ok_or_else(|| RpcError::params("`prompt` is missing: the new content blocks"))?;
        let new = format!(
            r#"{{"jsonrpc":"2.0","id":0,"method":"session/prompt","params":{{"sessionId":"{}","prompt":{prompt}}}}}"#,
            handle.id()
        );
        let new = Raw::new(new).ok_or_else(|| RpcError::params("not one line of UTF-8"))?;
        let done = handle.update_prompt(params.prompt_id(), self.sender_in(handle.id()), new).await;
        done.map_err(|error| from_call(&error, handle.id().as_str()))?;
        Ok(Some(result(id, &json!({}))))
    }

    pub(super) async fn queue_move(&self, frame: &Bytes, envelope: &Envelope<'_>, id: &Bytes) -> Outcome {
        let (handle, params) = self.queue_call(frame, envelope).await?;
        let position = params.position.ok_or_else(|| RpcError::params("`position` is missing: 0 is next"))?;
        let done = handle.move_prompt(params.prompt_id(), self.sender_in(handle.id()), position).await;
        done.map_err(|error| from_call(&error, handle.id().as_str()))?;
        Ok(Some(result(id, &json!({}))))
    }

    async fn queue_call<'f>(
        &self,
        frame: &'f Bytes,
        envelope: &Envelope<'_>,
    ) -> Result<(SessionHandle, QueueParams<'f>), RpcError> {
        let handle = self.controlled(envelope).await?;
        let params = frame::peek::<Request<QueueParams<'_>>>(frame).map_err(unreadable_params)?;
        Ok((handle, params.params))
    }
}

impl QueueParams<'_> {
    fn prompt_id(&self) -> PromptId {
        PromptId::new(Arc::<str>::from(self.prompt_id.as_str()))
    }
}

#[derive(Deserialize)]
pub(super) struct Request<P> {
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
pub(super) struct CancelParams<'a> {
    #[serde(borrow)]
    pub(super) request_id: Json<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct QueueParams<'a> {
    prompt_id: String,
    #[serde(borrow)]
    prompt: Option<Json<'a>>,
    position: Option<usize>,
}
