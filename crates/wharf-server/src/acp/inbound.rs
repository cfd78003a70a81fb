//! Wire → call: where each message of a client goes.

use std::sync::Arc;

use bytes::Bytes;
use wharf_host::core::{Attachment, Refusal, Role, Seq, SessionId, Status, TurnState};
use wharf_host::frame::{self, Envelope, FrameKind};
use wharf_host::{BytePermit, CallError, Forward, PassedOn, SessionHandle, Taken};
use wharf_json::{Json, Salvaged};

use super::connection::{Attached, Connection};
use super::errors::{RpcError, from_call, from_start, observer};
use super::ledger::{Forwarded, Wanted, What};
use super::order::Turn;
use super::outbound::{Join, Out};
use super::prompts::{CancelParams, Request};
use super::under_way::{LONGEST_ID, too_long};
use super::view::{TurnSeen, View};
use crate::use_cases;

/// Those of which an operator is told by name.
const METHODS: [&str; 13] = [
    "initialize",
    "authenticate",
    "logout",
    "session/new",
    "session/load",
    "session/resume",
    "session/list",
    "session/status",
    "session/close",
    "session/delete",
    "session/attach",
    "session/detach",
    "session/prompt",
];

/// Requests whose success changes what is in force.
const SETTING_METHODS: [&str; 3] = ["session/set_mode", "session/set_model", "session/set_config_option"];

/// What a request comes to at once: an answer, or nothing because it comes later.
pub(super) type Outcome = Result<Option<Bytes>, RpcError>;

impl Connection {
    pub(super) async fn dispatch(self: &Arc<Self>, frame: &Bytes, envelope: &Envelope<'_>, permit: Option<BytePermit>) {
        // First of all: this is the message's place among those about its session.
        let turn = self.take_turn(frame, envelope);
        // Any message that names a session says that the client has it (rule 6.1).
        if let Some(session) = &envelope.session
            && let session = SessionId::new(session.value.as_ref())
            && self.attached(&session).is_some()
        {
            let _ = self.out.send(Out::Ready(session)).await;
        }
        match envelope.kind {
            FrameKind::Request => self.request(frame, envelope, permit, turn).await,
            FrameKind::Notification => self.notification_in_turn(frame, envelope, permit, turn).await,
            FrameKind::Result | FrameKind::Error => self.response(frame, envelope).await,
        }
    }

    /// Takes the message's place in the line of its session; `None` if it never waits.
    fn take_turn(&self, frame: &Bytes, envelope: &Envelope<'_>) -> Option<Turn> {
        let session = match (envelope.kind, envelope.method.as_ref()) {
            (FrameKind::Result | FrameKind::Error, _) => None,
            (FrameKind::Request, "initialize" | "authenticate" | "logout" | "session/new" | "session/list") => None,
            (FrameKind::Request, "session/status") | (FrameKind::Notification, "session/ready") => None,
            // It must not come before the request that it is about.
            (FrameKind::Notification, "$/cancel_request") => self.order.find(cancelled_request(frame)?.as_bytes()),
            (FrameKind::Request | FrameKind::Notification, _) => match &self.bound {
                Some(bound) if self.is_bound_to(envelope) => Some(SessionId::new(Arc::clone(bound.name()))),
                Some(_) | None => envelope.session.as_ref().map(|session| SessionId::new(session.value.as_ref())),
            },
        }?;
        let request = (envelope.kind == FrameKind::Request).then(|| request_id(frame, envelope));
        Some(self.order.enter(&session, request))
    }

    async fn request(
        self: &Arc<Self>,
        frame: &Bytes,
        envelope: &Envelope<'_>,
        permit: Option<BytePermit>,
        mut turn: Option<Turn>,
    ) {
        let id = request_id(frame, envelope);
        if let Some(error) = too_long(envelope) {
            let id = if id.len() > LONGEST_ID { Bytes::from_static(b"null") } else { id };
            return self.refuse(&id, envelope, error).await;
        }
        let session = envelope.session.as_ref().map(|session| SessionId::new(session.value.as_ref()));
        if let Some(Err(error)) = turn.as_ref().map(Turn::check_room) {
            drop(turn);
            return self.refuse(&id, envelope, error).await;
        }
        let is_next = turn.as_mut().is_none_or(Turn::has_come);
        if !is_next || self.waits(&envelope.method, session.as_ref()) {
            // Who does not read its answers is not read either: it has the refusal to take first.
            let place = match self.under_way.take(frame.len()) {
                Ok(place) => place,
                Err(error) => return self.refuse(&id, envelope, error).await,
            };
            // Beside the others, which must not wait for an agent's start.
            let (connection, frame) = (Arc::clone(self), frame.clone());
            tokio::spawn(async move {
                let _held = (place, permit);
                if let Some(turn) = &mut turn {
                    turn.is_beside = true;
                    turn.come().await;
                }
                if let Ok(envelope) = frame::scan(&frame) {
                    let outcome = connection.handle(&frame, &envelope, &id, turn).await;
                    connection.note_refused(&envelope, &outcome);
                    connection.answer(session, &id, outcome).await;
                }
            });
        } else {
            let outcome = self.handle(frame, envelope, &id, turn).await;
            self.note_refused(envelope, &outcome);
            self.answer(session, &id, outcome).await;
        }
    }

    async fn refuse(&self, id: &Bytes, envelope: &Envelope<'_>, error: RpcError) {
        let outcome = Err(error);
        self.note_refused(envelope, &outcome);
        self.answer(None, id, outcome).await;
    }

    /// Handles a request. Its turn is over when it was accepted, at the latest when it is done.
    async fn handle(
        self: &Arc<Self>,
        frame: &Bytes,
        envelope: &Envelope<'_>,
        id: &Bytes,
        turn: Option<Turn>,
    ) -> Outcome {
        match envelope.method.as_ref() {
            "session/load" => return self.load_session(frame, envelope, id, turn).await,
            "session/resume" => return self.resume_session(frame, envelope, id, turn).await,
            "session/attach" => return self.attach_session(frame, envelope, id, turn).await,
            _ => {}
        }
        if envelope.session.is_some() && is_for_agent(&envelope.method) {
            return self.forward(frame, envelope, id, turn).await;
        }
        let _turn = turn;
        match envelope.method.as_ref() {
            "initialize" => self.initialize(frame, id).await,
            "authenticate" => self.authenticate(frame, id).await,
            "logout" => self.logout(frame, id).await,
            "session/new" => self.new_session(frame, id).await,
            "session/list" => self.list_sessions(frame, id),
            "session/status" => self.session_status(envelope, id),
            "session/close" => self.close_session(frame, envelope, id).await,
            "session/delete" => self.delete_session(frame, envelope, id).await,
            "session/detach" => self.detach_session(envelope, id).await,
            "session/prompt" => self.prompt(frame, envelope, id).await,
            "_wharf/queue/list" => self.queue_list(envelope, id).await,
            "_wharf/queue/remove" => self.queue_remove(frame, envelope, id).await,
            "_wharf/queue/update" => self.queue_update(frame, envelope, id).await,
            "_wharf/queue/move" => self.queue_move(frame, envelope, id).await,
            method if method.starts_with("amux/") => self.amux_request(frame, envelope, id).await,
            method if method.starts_with("_wharf/") => Err(RpcError::unknown_method(method)),
            _ => self.ask_agent(frame, id).await,
        }
    }

    /// Handles a notification in its turn, beside the messages that follow if it has to wait.
    async fn notification_in_turn(
        self: &Arc<Self>,
        frame: &Bytes,
        envelope: &Envelope<'_>,
        permit: Option<BytePermit>,
        mut turn: Option<Turn>,
    ) {
        if turn.as_mut().is_none_or(Turn::has_come) {
            return self.notification(frame, envelope).await;
        }
        let Some(mut turn) = turn else { return };
        let has_room = turn.check_room().is_ok();
        let Some(place) = self.under_way.take(frame.len()).ok().filter(|_| has_room) else {
            // No more is read until there is room: a cancel must not be lost.
            turn.come().await;
            return self.notification(frame, envelope).await;
        };
        let (connection, frame) = (Arc::clone(self), frame.clone());
        tokio::spawn(async move {
            let _held = (place, permit);
            turn.come().await;
            if let Ok(envelope) = frame::scan(&frame) {
                connection.notification(&frame, &envelope).await;
            }
        });
    }

    async fn notification(&self, frame: &Bytes, envelope: &Envelope<'_>) {
        match envelope.method.as_ref() {
            "session/cancel" => self.cancel(frame, envelope).await,
            "$/cancel_request" => self.cancel_request(frame).await,
            "session/ready" => {}
            // Requests without an id: nobody is told of their end, and what they change would be in no log.
            method if METHODS.contains(&method) || SETTING_METHODS.contains(&method) => {}
            method if method.starts_with("_wharf/") => {}
            method if method.starts_with("amux/") => {
                let _ = self.amux_request(frame, envelope, &Bytes::from_static(b"null")).await;
            }
            _ => {
                if let Ok(attached) = self.controlled(envelope).await {
                    let (client, frame) = (self.client.clone(), frame.clone());
                    let forward = Forward { client, frame, request: None };
                    let _ = attached.forward(forward).await;
                }
            }
        }
    }

    /// A client's answer to one of our requests.
    async fn response(&self, frame: &Bytes, envelope: &Envelope<'_>) {
        let id = Json::parse(&request_id(frame, envelope)).ok().and_then(Json::id_number);
        let Some((request, asked)) = id.and_then(|id| Some((id, self.ledger.answered(id)?))) else {
            // Settled already or never asked: dropped, never answered (rule 3.15).
            return;
        };
        let Some(Attached { handle, .. }) = self.attached(&asked.session) else { return };
        if asked.wanted == Wanted::Terminal {
            self.ledger.note_terminal(&asked.session, frame);
        }
        let outcome = match asked.what {
            What::Relay(relay) => handle.answer_relay(self.client.clone(), relay, frame.clone()).await,
            What::Ask(ask) => self.answer_ask(&handle, ask, asked.wanted, frame).await,
        };
        if let Err(error) = outcome {
            tracing::debug!(client = %self.client, %error, "an answer was not taken");
            self.ledger.reopen(request, asked);
        }
    }

    /// A message that cannot be read. What it names is not left waiting: an answer that was awaited counts as a failed one.
    /// Returns the id with which to refuse it: its own, if it is a request.
    pub(super) async fn settle_malformed(&self, found: &Salvaged, why: &str) -> Bytes {
        match found.ids.as_slice() {
            [id] if found.has_method && id.len() <= LONGEST_ID => return Bytes::copy_from_slice(id.as_bytes()),
            _ if found.has_method => return Bytes::from_static(b"null"),
            _ => {}
        }
        for (request, asked) in found.id_numbers().filter_map(|id| Some((id, self.ledger.answered(id)?))) {
            let Some(Attached { handle, .. }) = self.attached(&asked.session) else { continue };
            let why = format!("the client's answer could not be read: {why}");
            let outcome = match asked.what {
                What::Relay(relay) => {
                    let error = RpcError::new(-32603, why).frame(request.to_string().as_bytes());
                    handle.answer_relay(self.client.clone(), relay, error).await
                }
                What::Ask(ask) => self.decline_invalid(&handle, ask, asked.wanted, &why).await,
            };
            if let Err(error) = outcome {
                tracing::debug!(client = %self.client, %error, "an answer was not taken");
            }
        }
        Bytes::from_static(b"null")
    }

    /// Passes a request on to the session's agent; the answer comes by the lane.
    async fn forward(
        self: &Arc<Self>,
        frame: &Bytes,
        envelope: &Envelope<'_>,
        id: &Bytes,
        turn: Option<Turn>,
    ) -> Outcome {
        let handle = self.controlled(envelope).await?;
        let session = handle.id().clone();
        if !handle.descriptor().status.is_alive() {
            match handle.wake_for(self.client.clone()).await {
                // Someone else was faster.
                Ok(()) | Err(CallError::Refused(Refusal::AlreadyRunning)) => {}
                Err(error) => return Err(from_call(&error, session.as_str())),
            }
        }
        let taken = self.hand_over(&handle, frame, id).await?;
        let is_beside = turn.is_some_and(|turn| turn.is_beside);
        match taken {
            Taken::Later(passed_on) if !is_beside => {
                let (connection, id) = (Arc::clone(self), id.clone());
                tokio::spawn(async move {
                    let outcome = connection.wait_for_start(passed_on, &id, &session).await;
                    connection.answer(Some(session), &id, outcome).await;
                });
                Ok(None)
            }
            Taken::Now | Taken::Later(_) | Taken::Refused => self.settle_taken(taken, id, &session).await,
        }
    }

    /// Hands a request to the agent of an attached session.
    pub(super) async fn pass_on(&self, handle: &SessionHandle, frame: &Bytes, id: &Bytes) -> Outcome {
        let taken = self.hand_over(handle, frame, id).await?;
        self.settle_taken(taken, id, handle.id()).await
    }

    async fn settle_taken(&self, taken: Taken, id: &Bytes, session: &SessionId) -> Outcome {
        match taken {
            Taken::Now => Ok(None),
            Taken::Refused => {
                self.ledger.settle_forward(id);
                Err(RpcError::too_many_requests())
            }
            Taken::Later(passed_on) => self.wait_for_start(passed_on, id, session).await,
        }
    }

    async fn hand_over(&self, handle: &SessionHandle, frame: &Bytes, id: &Bytes) -> Result<Taken, RpcError> {
        let session = handle.id().clone();
        let method = frame::scan(frame).map(|envelope| envelope.method.into_owned()).unwrap_or_default();
        let tells_options = method == "session/set_config_option";
        let login = (method == "authenticate").then(|| frame.clone());
        self.ledger.forward(id.clone(), Forwarded { session: session.clone(), tells_options, login });
        let forward = Forward { client: self.client.clone(), frame: frame.clone(), request: Some(id.clone()) };
        handle.forward(forward).await.map_err(|error| {
            self.ledger.settle_forward(id);
            from_call(&error, session.as_str())
        })
    }

    /// Waits until a request was passed on to an agent that starts. If it does not start, that is the answer.
    async fn wait_for_start(&self, passed_on: PassedOn, id: &Bytes, session: &SessionId) -> Outcome {
        let error = match passed_on.await {
            Ok(Ok(())) => return Ok(None),
            Ok(Err(failure)) => from_start(&failure),
            Err(_) => from_call(&CallError::Gone, session.as_str()),
        };
        self.ledger.settle_forward(id);
        Err(error)
    }

    /// The session that a message names, attached if it was not; for those who may change it.
    pub(super) async fn controlled(&self, envelope: &Envelope<'_>) -> Result<SessionHandle, RpcError> {
        let attached = self.session(envelope).await?;
        match attached.role {
            Role::Controller => Ok(attached.handle),
            Role::Observer => Err(observer(attached.handle.id().as_str())),
        }
    }

    /// The session that a message names, attached as by `session/resume` if it was not (rule 3.5).
    pub(super) async fn session(&self, envelope: &Envelope<'_>) -> Result<Attached, RpcError> {
        let id = named(envelope)?;
        if let Some(attached) = self.attached(&id) {
            return Ok(attached);
        }
        let handle = self.open(envelope).await?;
        let (mut join, attached) = self.enter_quietly(handle, None).await?;
        self.bind(&mut join).await;
        self.show(Out::Implied(Box::new(join)), &id).await;
        Ok(attached)
    }

    /// Attaches without a word. What came after `after` is shown as it would have been live; without it, what is new.
    pub(super) async fn enter_quietly(
        &self,
        handle: SessionHandle,
        after: Option<Seq>,
    ) -> Result<(Join, Attached), RpcError> {
        let id = handle.id().clone();
        let joined = self.come_to(&handle, self.attachment(&id, false), self.attendance(false)).await;
        let joined = joined.map_err(|error| from_call(&error, id.as_str()))?;
        let idle = joined.turn == TurnState::Idle || after.is_some();
        let turn = if idle { TurnSeen::None } else { TurnSeen::Other };
        let view = View::new(id, self.wishes(), Arc::clone(&self.ledger), joined.head, turn)
            .with_queue(&joined.queued, joined.head);
        let (cursor, asks) = (handle.cursor(after.unwrap_or(joined.head)), (joined.head, joined.open_asks));
        let only_news = after.is_none();
        let join = Join { cursor, view, answer: None, asks, hold: None, only_news };
        let sender = self.sender_in(handle.id());
        Ok((join, Attached { handle, role: self.role(), sender }))
    }

    pub(super) async fn join(&self, mut join: Join) {
        self.bind(&mut join).await;
        let session = join.view.session().clone();
        self.show(Out::Join(Box::new(join)), &session).await;
    }

    /// Has a session shown, and no longer if the client has left it meanwhile.
    async fn show(&self, join: Out, session: &SessionId) {
        let _ = self.out.send(join).await;
        if self.attached(session).is_none() {
            let _ = self.out.send(Out::Leave(session.clone())).await;
        }
    }

    pub(super) async fn open(&self, envelope: &Envelope<'_>) -> Result<SessionHandle, RpcError> {
        let id = named(envelope)?;
        Ok(use_cases::open_session(&self.app, &self.caller(), id.as_str()).await?)
    }

    pub(super) fn attachment(&self, session: &SessionId, wake: bool) -> Attachment {
        let (role, elicits) = (self.role(), self.info().abilities().forms);
        Attachment { sender: self.sender_in(session), role, elicits, wake, needs_agent: false }
    }

    /// May the request have to wait for an agent's start or its answer? What is only passed on to an agent that runs
    /// does not, and keeps its order with the prompts.
    fn waits(&self, method: &str, session: Option<&SessionId>) -> bool {
        match method {
            "session/prompt" | "session/list" | "session/status" | "session/detach" => false,
            "initialize" | "authenticate" | "logout" | "session/new" | "session/load" | "session/resume"
            | "session/close" | "session/delete" | "session/attach" => true,
            method if method.starts_with("_wharf/") => false,
            // The first may have to start the session.
            method if method.starts_with("amux/") => self.attached_nothing(),
            _ => {
                let attached = session.and_then(|session| self.attached(session));
                attached.is_none_or(|attached| attached.handle.descriptor().status != Status::Running)
            }
        }
    }

    /// Counts what is refused. A method that is not ours may be called anything, so its name is not told.
    fn note_refused(&self, envelope: &Envelope<'_>, outcome: &Outcome) {
        let Err(error) = outcome else { return };
        self.app.refusals.add(error.code().to_string());
        let method = METHODS.iter().find(|known| **known == envelope.method).unwrap_or(&"other");
        tracing::debug!(client = %self.client, token = self.identity.token.as_deref(), method, code = error.code(),
            "a request was refused");
    }

    async fn answer(&self, session: Option<SessionId>, id: &Bytes, outcome: Outcome) {
        let (frame, failed) = match outcome {
            Ok(Some(frame)) => (frame, false),
            Ok(None) => return,
            Err(error) => (error.frame(id), error.is_failed_start()),
        };
        let _ = self.out.send(Out::Answer { session, frame: self.counted(frame) }).await;
        if failed && self.bound.is_some() {
            self.close_failed().await;
        }
    }
}

/// Is the method the agent's to answer or to refuse (rule 3.10)?
fn is_for_agent(method: &str) -> bool {
    !METHODS.contains(&method) && !method.starts_with("amux/") && !method.starts_with("_wharf/")
}

/// The id of the request that a `$/cancel_request` takes back, as JSON text.
fn cancelled_request(frame: &Bytes) -> Option<&str> {
    frame::peek::<Request<CancelParams<'_>>>(frame).ok().map(|request| request.params.request_id.raw())
}

/// A copy: what is kept of a request must not keep the whole of it.
fn request_id(frame: &Bytes, envelope: &Envelope<'_>) -> Bytes {
    envelope.id.clone().map_or_else(|| Bytes::from_static(b"null"), |span| Bytes::copy_from_slice(&frame[span]))
}

pub(super) fn named(envelope: &Envelope<'_>) -> Result<SessionId, RpcError> {
    match &envelope.session {
        Some(session) => Ok(SessionId::new(session.value.as_ref())),
        None => Err(RpcError::params(format!("{} needs `sessionId`", envelope.method))),
    }
}

/// `{"jsonrpc":"2.0","id":…,"result":…}`.
pub(super) fn result(id: &[u8], result: &serde_json::Value) -> Bytes {
    let id = String::from_utf8_lossy(id);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#).into()
}
