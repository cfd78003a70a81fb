//! Wire → call: what a client may ask, and what the session makes of it.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use wharf_host::core::{Attachment, CancelScope, Overlap, Raw, Seq, SessionId, Submission, TurnState};
use wharf_host::frame::{self, Envelope, FrameKind};
use wharf_host::{NewSessionRequest, SessionHandle, new_prompt_id};

use super::answers;
use super::connection::{ClientInfo, Connection};
use super::errors::{RpcError, from_call, from_create, from_open, from_start};
use super::outbound::{Join, Out};
use super::view::{TurnSeen, View};

/// What a request comes to at once: an answer, or nothing because it comes later.
type Outcome = Result<Option<Bytes>, RpcError>;

impl Connection {
    pub(super) async fn dispatch(self: &Arc<Self>, frame: &Bytes, envelope: &Envelope<'_>) {
        match envelope.kind {
            FrameKind::Request => self.request(frame, envelope).await,
            FrameKind::Notification => self.notification(frame, envelope).await,
            FrameKind::Result | FrameKind::Error => self.response(frame, envelope).await,
        }
    }

    async fn request(self: &Arc<Self>, frame: &Bytes, envelope: &Envelope<'_>) {
        let id = request_id(frame, envelope);
        match envelope.method.as_ref() {
            // These wait for an agent or a disk: beside the others, which must not wait for them.
            "initialize" | "session/new" | "session/load" => {
                let (connection, frame, method) = (Arc::clone(self), frame.clone(), envelope.method.to_string());
                tokio::spawn(async move {
                    let outcome = match method.as_str() {
                        "initialize" => connection.initialize(&frame, &id).await,
                        "session/new" => connection.new_session(&frame, &id).await,
                        _ => connection.load_session(&frame, &id).await,
                    };
                    connection.answer(&id, outcome).await;
                });
            }
            "session/prompt" => {
                let outcome = self.prompt(frame, envelope, &id).await;
                self.answer(&id, outcome).await;
            }
            method => self.send(RpcError::unknown_method(method).frame(&id)).await,
        }
    }

    async fn notification(&self, frame: &Bytes, envelope: &Envelope<'_>) {
        match envelope.method.as_ref() {
            "session/cancel" => {
                if let Ok(handle) = self.session(envelope).await {
                    let scope = CancelScope { seen: self.seen(&handle), clear_queue: false };
                    let _ = handle.cancel(self.sender(), scope).await;
                }
            }
            "$/cancel_request" => self.cancel_request(frame).await,
            _ => {}
        }
    }

    /// A client's answer to one of our requests.
    async fn response(&self, frame: &Bytes, envelope: &Envelope<'_>) {
        let request: Option<u64> =
            std::str::from_utf8(&request_id(frame, envelope)).ok().and_then(|id| id.parse().ok());
        let Some((request, shown)) = request.and_then(|id| Some((id, self.ledger.answered(id)?))) else {
            // Settled already or never asked: dropped, never answered (rule 3.15).
            return;
        };
        let (Some(handle), Some(raw)) = (self.attached(&shown.session), Raw::new(frame.clone())) else { return };
        let outcome = match selected(frame) {
            Some(option) => handle.answer(shown.ask, self.sender(), Some(option.into()), raw).await,
            None => handle.decline(shown.ask, self.sender(), raw).await,
        };
        if let Err(error) = outcome {
            tracing::debug!(client = %self.client, %error, "an answer was not taken");
            self.ledger.reopen(request, shown);
        }
    }

    async fn initialize(&self, frame: &Bytes, id: &Bytes) -> Outcome {
        let info = frame::peek::<Request<InitializeParams>>(frame).map(|request| request.params).unwrap_or_default();
        let info = info
            .client_info
            .map(|info| ClientInfo { name: info.name.map(Into::into), version: info.version.map(Into::into) });
        let _ = self.introduced.set(info.unwrap_or_default());
        let (introduction, spare) =
            self.app.host.introduce(&self.agent).await.map_err(|failure| from_start(&failure))?;
        self.keep_spare(spare);
        Ok(Some(answers::initialize(&introduction.frame, id)))
    }

    async fn new_session(&self, frame: &Bytes, id: &Bytes) -> Outcome {
        let request: Request<NewParams> =
            frame::peek(frame).ok_or_else(|| RpcError::params("session/new needs `cwd`, an absolute path"))?;
        let raw = Raw::new(frame.clone()).ok_or_else(|| RpcError::params("not one line of UTF-8"))?;
        let created = self.app.host.create(NewSessionRequest {
            adapter: self.agent.to_string(),
            cwd: PathBuf::from(request.params.cwd),
            label: None,
            sender: Some(self.sender()),
            frame: raw,
            spare: self.take_spare(),
        });
        let created = match created.await {
            Ok(created) => created,
            Err(error) => return refused_start(&error, id),
        };
        let handle = created.handle;
        self.note_attached(handle.clone());
        let joined = handle.attach(self.attachment(), self.lane.clone()).await;
        let joined = joined.map_err(|error| from_call(&error, handle.id().as_str()))?;
        let answer = answers::new_session(&created.answer, handle.id().as_str(), id);
        // History ends where the agent came up: nothing was asked before that, and everything after it is news.
        let view = View::new(handle.id().clone(), self.role(), Arc::clone(&self.ledger), created.seq, TurnSeen::None);
        drop(joined);
        let join = Join { cursor: handle.cursor(created.seq), view, at: created.seq, answer, asks: Vec::new() };
        let _ = self.out.send(Out::Join(Box::new(join))).await;
        Ok(None)
    }

    /// Replays the log as updates, then answers, then goes on live. The agent is not disturbed (rule 3.5).
    async fn load_session(&self, frame: &Bytes, id: &Bytes) -> Outcome {
        let envelope = frame::scan(frame).map_err(|error| RpcError::params(error.to_string()))?;
        let handle = self.open(&envelope).await?;
        let joined = handle.attach(self.attachment(), self.lane.clone()).await;
        let joined = joined.map_err(|error| from_call(&error, handle.id().as_str()))?;
        self.note_attached(handle.clone());
        let answer = answers::loaded(joined.answer.as_ref(), &joined.latest, id);
        let view = View::new(handle.id().clone(), self.role(), Arc::clone(&self.ledger), joined.head, TurnSeen::None);
        let join = Join { cursor: handle.cursor(Seq::ZERO), view, at: joined.head, answer, asks: joined.open_asks };
        let _ = self.out.send(Out::Join(Box::new(join))).await;
        Ok(None)
    }

    async fn prompt(&self, frame: &Bytes, envelope: &Envelope<'_>, id: &Bytes) -> Outcome {
        let handle = self.session(envelope).await?;
        let raw = Raw::new(frame.clone()).ok_or_else(|| RpcError::params("not one line of UTF-8"))?;
        let meta = frame::peek::<Request<PromptParams>>(frame)
            .ok_or_else(|| RpcError::params("session/prompt needs `prompt`, a list of content blocks"))?
            .params
            .meta
            .and_then(|meta| meta.wharf)
            .unwrap_or_default();
        let prompt = new_prompt_id();
        self.ledger.owe(prompt.clone(), id.clone());
        let submission = Submission {
            prompt: prompt.clone(),
            sender: self.sender(),
            frame: raw,
            key: meta.idempotency_key.map(Into::into),
            overlap: Overlap::Queue,
            to_agent: meta.delivery.as_deref() == Some("agent"),
        };
        match handle.prompt(submission).await {
            Ok(receipt) if !receipt.duplicate => Ok(None),
            Ok(receipt) => {
                // The same prompt again: its end answers this request too, if it is still to come.
                self.ledger.settle(&prompt);
                self.ledger.owe(receipt.prompt, id.clone());
                Ok(None)
            }
            Err(error) => {
                self.ledger.settle(&prompt);
                Err(from_call(&error, handle.id().as_str()))
            }
        }
    }

    /// `$/cancel_request` of a prompt: out of the queue if it waits there, else as `session/cancel` (rule 7.3).
    async fn cancel_request(&self, frame: &Bytes) {
        let Some(request) = frame::peek::<Request<CancelParams<'_>>>(frame) else { return };
        let Some(prompt) = self.ledger.prompt_of(request.params.request_id.get().as_bytes()) else { return };
        let handles = self.handles();
        for handle in handles {
            if handle.remove_prompt(prompt.clone(), self.sender()).await.is_ok() {
                return;
            }
        }
    }

    /// The session that a message names, attached if it was not.
    async fn session(&self, envelope: &Envelope<'_>) -> Result<SessionHandle, RpcError> {
        let id = named(envelope)?;
        if let Some(handle) = self.attached(&id) {
            return Ok(handle);
        }
        let handle = self.open(envelope).await?;
        let joined = handle.attach(self.attachment(), self.lane.clone()).await;
        let joined = joined.map_err(|error| from_call(&error, handle.id().as_str()))?;
        self.note_attached(handle.clone());
        let turn = if joined.turn == TurnState::Idle { TurnSeen::None } else { TurnSeen::Other };
        let view = View::new(id, self.role(), Arc::clone(&self.ledger), joined.head, turn);
        let cursor = handle.cursor(joined.head);
        let join = Join { cursor, view, at: joined.head, answer: Bytes::new(), asks: joined.open_asks };
        let _ = self.out.send(Out::Join(Box::new(join))).await;
        Ok(handle)
    }

    async fn open(&self, envelope: &Envelope<'_>) -> Result<SessionHandle, RpcError> {
        let id = named(envelope)?;
        self.app.host.open(&id).await.map_err(|error| from_open(&error))
    }

    fn attachment(&self) -> Attachment {
        Attachment { sender: self.sender(), role: self.role(), elicits: false, wake: false }
    }

    /// How far this client has been shown the log. Everything published is on its way to it in order.
    fn seen(&self, handle: &SessionHandle) -> Seq {
        self.shown.get(handle.id()).unwrap_or_else(|| handle.head())
    }

    async fn answer(&self, id: &Bytes, outcome: Outcome) {
        match outcome {
            Ok(Some(frame)) => self.send(frame).await,
            Ok(None) => {}
            Err(error) => self.send(error.frame(id)).await,
        }
    }
}

/// The agent's own error goes to the client as it came: it may be asking for a login.
fn refused_start(error: &wharf_host::CreateError, id: &Bytes) -> Outcome {
    if let wharf_host::CreateError::Start { failure, .. } = error
        && let Some(answer) = &failure.answer
        && let Ok(envelope) = frame::scan(answer)
    {
        return Ok(Some(frame::with_id(answer, &envelope, id)));
    }
    Err(from_create(error))
}

fn request_id(frame: &Bytes, envelope: &Envelope<'_>) -> Bytes {
    envelope.id.clone().map_or_else(|| Bytes::from_static(b"null"), |span| frame.slice(span))
}

fn named(envelope: &Envelope<'_>) -> Result<SessionId, RpcError> {
    match &envelope.session {
        Some(session) => Ok(SessionId::new(session.value.as_ref())),
        None => Err(RpcError::params(format!("{} needs `sessionId`", envelope.method))),
    }
}

/// The option of `{"result":{"outcome":{"outcome":"selected","optionId":…}}}`.
fn selected(frame: &[u8]) -> Option<String> {
    let answer: serde_json::Value = serde_json::from_slice(frame).ok()?;
    let outcome = &answer["result"]["outcome"];
    (outcome["outcome"] == "selected").then(|| outcome["optionId"].as_str().map(ToOwned::to_owned))?
}

#[derive(Deserialize)]
struct Request<P> {
    params: P,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct InitializeParams {
    client_info: Option<Info>,
}

#[derive(Deserialize)]
struct Info {
    name: Option<String>,
    version: Option<String>,
}

#[derive(Deserialize)]
struct NewParams {
    cwd: String,
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
    request_id: &'a serde_json::value::RawValue,
}
