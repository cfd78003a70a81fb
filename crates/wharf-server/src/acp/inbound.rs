//! One message of a client on its way to its method: its order with other messages, its limits, and
//! its answer.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use wharf_acp::{Envelope, FrameKind, ScanError};
use wharf_host::BytePermit;
use wharf_host::core::SessionId;
use wharf_json::rpc;

use super::connection::Connection;
use super::errors::RpcError;
use super::message_order::MessageTurn;
use super::methods::{AcpMethod, MethodTrait, cancelled_request, settle_malformed, take_response};
use super::outbound::Out;
use super::under_way::{MAX_ID_BYTES, too_long};
use crate::client_span::spawn_in_span;

/// The immediate result of a request: an answer, or `None` because the answer comes later.
pub(super) type Outcome = Result<Option<Bytes>, RpcError>;

/// A request of a client.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClientRequest<'a> {
    pub(super) frame: &'a Bytes,
    pub(super) envelope: &'a Envelope<'a>,
    /// The request's id as JSON text.
    pub(super) id: &'a Bytes,
}

impl ClientRequest<'_> {
    /// Returns the session that the request names, which it has to.
    pub(super) fn session(&self) -> Result<SessionId, RpcError> {
        named_session(self.envelope)
    }

    /// Returns the response with this result.
    pub(super) fn respond(&self, result: &serde_json::Value) -> Bytes {
        rpc::response(self.id, result)
    }
}

/// The methods that the messages of a connection call. A module that speaks another protocol around
/// ACP wraps a connection with methods of its own and passes the rest on.
pub(super) trait Methods: fmt::Debug + Send + Sync + 'static {
    fn connection(&self) -> &Arc<Connection>;

    /// Returns the session among whose messages this one keeps its order.
    fn ordered_in(&self, envelope: &Envelope<'_>) -> Option<SessionId>;

    /// Returns true if the request may have to wait for an agent's start or its answer, so that
    /// others are not to wait for it. A request that is only passed on to a running agent does not
    /// wait, and keeps its order with the prompts.
    fn may_wait(&self, envelope: &Envelope<'_>) -> bool;

    /// Handles a request. Its turn is over when it was accepted, at the latest when it is done.
    fn handle(
        &self,
        request: ClientRequest<'_>,
        turn: Option<MessageTurn>,
    ) -> impl Future<Output = Outcome> + Send;

    fn notify(&self, frame: &Bytes, envelope: &Envelope<'_>) -> impl Future<Output = ()> + Send;

    /// The client is gone: its sessions live on without it.
    fn leave(&self) -> impl Future<Output = ()> + Send {
        self.connection().leave_all()
    }
}

/// Takes one frame of the client, and the permit that counts it if it is large.
pub(super) async fn receive<M: Methods>(
    methods: &Arc<M>,
    frame: Bytes,
    permit: Option<BytePermit>,
) {
    let read = without_bom(frame);
    let frame = match wharf_acp::read_line(read.clone()) {
        Ok(frame) => frame,
        Err(error) => return refuse_malformed(methods.connection(), &read, error).await,
    };
    match wharf_acp::scan(&frame) {
        Ok(envelope) if envelope.has_null_members => {
            match wharf_acp::without_null_members(&frame, envelope.kind) {
                Ok(plain) => take_scanned(methods, &plain, wharf_acp::scan(&plain), permit).await,
                Err(error) => {
                    let error = ScanError::NotMessage(error.to_string().into());
                    refuse_malformed(methods.connection(), &frame, error).await;
                }
            }
        }
        scanned => take_scanned(methods, &frame, scanned, permit).await,
    }
}

async fn take_scanned<M: Methods>(
    methods: &Arc<M>,
    frame: &Bytes,
    scanned: Result<Envelope<'_>, ScanError>,
    permit: Option<BytePermit>,
) {
    match scanned {
        Ok(envelope) => dispatch(methods, frame, &envelope, permit).await,
        Err(error) => refuse_malformed(methods.connection(), frame, error).await,
    }
}

/// Refuses a frame that is not a message. An answer that it holds counts as failed.
async fn refuse_malformed(connection: &Connection, frame: &[u8], error: ScanError) {
    let id = settle_malformed(connection, &rpc::salvage(frame), &error.to_string()).await;
    let error = match error {
        ScanError::Batch => {
            RpcError::invalid_request("batches are not taken: send one message at a time")
        }
        ScanError::NotMessage(why) => RpcError::invalid_request(why),
        error @ (ScanError::NotUtf8 | ScanError::NotJson(_)) => RpcError::parse(error.to_string()),
    };
    connection.outbox.answer(None, error.frame(&id)).await;
}

async fn dispatch<M: Methods>(
    methods: &Arc<M>,
    frame: &Bytes,
    envelope: &Envelope<'_>,
    permit: Option<BytePermit>,
) {
    // First of all: this is the message's place among those about its session.
    let turn = take_turn(&**methods, frame, envelope);
    let connection = methods.connection();
    // Any message that names a session says that the client has it (rule 6.1).
    if let Some(session) = &envelope.session
        && let session = SessionId::new(session.value.as_ref())
        && connection.attachments.get(&session).is_some()
    {
        connection.outbox.send(Out::Ready(session)).await;
    }
    match envelope.kind {
        FrameKind::Request => take_request(methods, frame, envelope, permit, turn).await,
        FrameKind::Notification => take_notification(methods, frame, envelope, permit, turn).await,
        FrameKind::Result | FrameKind::Error => take_response(connection, frame, envelope).await,
    }
}

/// Takes the message's place in the line of its session; `None` if it never waits.
fn take_turn(
    methods: &impl Methods,
    frame: &Bytes,
    envelope: &Envelope<'_>,
) -> Option<MessageTurn> {
    let order = &methods.connection().order;
    let session = match (envelope.kind, envelope.method.as_ref()) {
        (FrameKind::Result | FrameKind::Error, _) => None,
        (FrameKind::Request, name)
            if AcpMethod::find(name).is_some_and(|method| !method.has(MethodTrait::Ordered)) =>
        {
            None
        }
        (FrameKind::Notification, "session/ready") => None,
        // It must not come before the request that it is about.
        (FrameKind::Notification, "$/cancel_request") => {
            order.find(cancelled_request(frame)?.as_bytes())
        }
        (FrameKind::Request | FrameKind::Notification, _) => methods.ordered_in(envelope),
    }?;
    let request = (envelope.kind == FrameKind::Request).then(|| request_id(frame, envelope));
    Some(order.enter(&session, request))
}

async fn take_request<M: Methods>(
    methods: &Arc<M>,
    frame: &Bytes,
    envelope: &Envelope<'_>,
    permit: Option<BytePermit>,
    mut turn: Option<MessageTurn>,
) {
    let connection = methods.connection();
    let id = request_id(frame, envelope);
    if let Some(error) = too_long(envelope) {
        let id = if id.len() > MAX_ID_BYTES { Bytes::from_static(b"null") } else { id };
        return connection.refuse(&id, envelope, error).await;
    }
    if let Some(Err(error)) = turn.as_ref().map(MessageTurn::check_room) {
        drop(turn);
        return connection.refuse(&id, envelope, error).await;
    }
    let is_next = turn.as_mut().is_none_or(MessageTurn::has_come);
    if is_next && !methods.may_wait(envelope) {
        return handle_and_answer(&**methods, ClientRequest { frame, envelope, id: &id }, turn)
            .await;
    }
    // A client that does not read its answers is not read either: it has the refusal to take first.
    let place = match connection.under_way.take(frame.len()) {
        Ok(place) => place,
        Err(error) => return connection.refuse(&id, envelope, error).await,
    };
    // Beside the others, which must not wait for an agent's start.
    let methods = Arc::clone(methods);
    let frame = frame.clone();
    spawn_in_span(async move {
        let _held = (place, permit);
        if let Some(turn) = &mut turn {
            turn.is_beside = true;
            turn.come().await;
        }
        if let Ok(envelope) = wharf_acp::scan(&frame) {
            handle_and_answer(
                &*methods,
                ClientRequest { frame: &frame, envelope: &envelope, id: &id },
                turn,
            )
            .await;
        }
    });
}

async fn handle_and_answer(
    methods: &impl Methods,
    request: ClientRequest<'_>,
    turn: Option<MessageTurn>,
) {
    let outcome = methods.handle(request, turn).await;
    methods.connection().note_refused(request.envelope, &outcome);
    let session = request
        .envelope
        .session
        .as_ref()
        .map(|session| SessionId::new(session.value.as_ref()));
    methods.connection().answer(session, request.id, outcome).await;
}

/// Handles a notification in its turn, beside the messages that follow if it has to wait.
async fn take_notification<M: Methods>(
    methods: &Arc<M>,
    frame: &Bytes,
    envelope: &Envelope<'_>,
    permit: Option<BytePermit>,
    mut turn: Option<MessageTurn>,
) {
    if turn.as_mut().is_none_or(MessageTurn::has_come) {
        return methods.notify(frame, envelope).await;
    }
    let Some(mut turn) = turn else { return };
    let has_room = turn.check_room().is_ok();
    let Some(place) = methods.connection().under_way.take(frame.len()).ok().filter(|_| has_room)
    else {
        // No more is read until there is room: a cancel must not be lost.
        turn.come().await;
        return methods.notify(frame, envelope).await;
    };
    let methods = Arc::clone(methods);
    let frame = frame.clone();
    spawn_in_span(async move {
        let _held = (place, permit);
        turn.come().await;
        if let Ok(envelope) = wharf_acp::scan(&frame) {
            methods.notify(&frame, &envelope).await;
        }
    });
}

/// Returns a copy of the message's id: a record of the request must not keep the whole frame in
/// memory.
pub(super) fn request_id(frame: &Bytes, envelope: &Envelope<'_>) -> Bytes {
    Bytes::copy_from_slice(envelope.id_text(frame))
}

/// Returns the session that a message names, which it has to.
pub(super) fn named_session(envelope: &Envelope<'_>) -> Result<SessionId, RpcError> {
    match &envelope.session {
        Some(session) => Ok(SessionId::new(session.value.as_ref())),
        None => Err(RpcError::params(format!("{} needs `sessionId`", envelope.method))),
    }
}

/// Returns the frame without the byte order mark that some programs begin with.
pub(super) fn without_bom(frame: Bytes) -> Bytes {
    let bom = frame.len() - wharf_json::strip_bom(&frame).len();
    frame.slice(bom..)
}
