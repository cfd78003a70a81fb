//! A connection that is bound to a session: amux's requests and the ACP methods to which the
//! binding matters.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use serde_json::json;
use wharf_acp::Envelope;
use wharf_api::ErrorCode;
use wharf_config::ReplayTurns;
use wharf_host::core::{Overlap, Peer, Role, Seq, SessionId};
use wharf_host::{SessionHandle, Transport, new_client_id};
use wharf_json::{Json, rpc};

use super::METHOD_PREFIX;
use super::binding::Binding;
use super::frames::session_busy;
use super::history::find_before_last;
use super::query::{Query, Refused};
use super::requests;
use super::rooms::Seat;
use crate::App;
use crate::acp::answers;
use crate::acp::attachments::AttachedSession;
use crate::acp::connection::{Connection, ConnectionOptions, SessionExtension};
use crate::acp::errors::{RpcError, attach_unknown, from_create, unreadable_answer};
use crate::acp::inbound::{ClientRequest, Methods, Outcome};
use crate::acp::message_order::MessageTurn;
use crate::acp::methods::{
    AcpMethod, AcpMethods, Arrival, attach_to, begin_session, controlled_session, create_session,
    enter_quietly, enter_session, placed_answer, send_prompt, turn_seen,
};
use crate::acp::outbound::Join;
use crate::acp::outbox::Outlet;
use crate::acp::view::TurnSeen;
use crate::auth::Identity;
use crate::fault::Fault;
use crate::use_cases;

/// The WebSocket close code of amux for a peer id that is taken.
const PEER_IN_USE: u16 = 4409;
/// WebSocket close codes.
const NORMAL_CLOSURE: u16 = 1000;
const AGENT_FAILED: u16 = 1011;
/// The error code of amux for a prompt that would have to wait.
const BUSY_CODE: i32 = -32001;
/// A request for an ask has the ask's number as its id. The connection's own request ids come after
/// all of these.
const LAST_ASK_NUMBER: u64 = 1 << 40;

/// The methods of a connection that is bound to a session.
#[derive(Debug)]
pub(in crate::acp) struct AmuxMethods {
    acp: AcpMethods,
    binding: Arc<Binding>,
    /// The peer's seat, until the client is gone.
    seat: Mutex<Option<Seat>>,
}

/// Gives a peer its seat, which is its own for as long as it is held, and makes its connection.
pub(in crate::acp) async fn connect(
    app: App,
    identity: Identity,
    agent: Arc<str>,
    query: Query,
) -> Result<(Arc<AmuxMethods>, Outlet), Refused> {
    let Query { name, peer_id, peer_name, role, replay } = query;
    // A peer without an id of its own is a stranger to all others.
    let id = peer_id.unwrap_or_else(|| new_client_id().as_str().into());
    let sitter = (identity.scope.clone(), Arc::clone(&id));
    let seat = app.rooms.sit(&name, sitter.clone()).await.ok_or_else(|| Refused {
        code: PEER_IN_USE,
        reason: "this peer_id is connected to this session already".to_owned(),
    })?;
    let room = Arc::clone(&seat.room);
    let sight = app.visible_to(&identity);
    let binding = Arc::new(Binding { room, sitter, replay, sight });
    let options = ConnectionOptions {
        // Other role words are labels (rule 4.8).
        observes: role.as_deref() == Some("observer"),
        peer: Some(Peer { id, role }),
        peer_name,
        // An amux client serves neither files nor terminals (rule 12.13).
        without_tools: true,
        request_ids_after: LAST_ASK_NUMBER,
        close_on_failed_start: Some((AGENT_FAILED, "the agent could not be started")),
        extension: Some(Arc::clone(&binding) as Arc<dyn SessionExtension>),
        transport: Transport::Amux,
    };
    let (connection, outlet) = Connection::new(app, identity, agent, options);
    seat.listen(connection.outbox.weak_sender());
    let acp = AcpMethods::new(connection);
    let seat = Mutex::new(Some(seat));
    Ok((Arc::new(AmuxMethods { acp, binding, seat }), outlet))
}

impl Methods for AmuxMethods {
    fn connection(&self) -> &Arc<Connection> {
        self.acp.connection()
    }

    fn ordered_in(&self, envelope: &Envelope<'_>) -> Option<SessionId> {
        match self.binding.is_meant(envelope) {
            true => Some(SessionId::new(Arc::clone(self.binding.name()))),
            false => self.acp.ordered_in(envelope),
        }
    }

    fn may_wait(&self, envelope: &Envelope<'_>) -> bool {
        match envelope.method.starts_with(METHOD_PREFIX) {
            // The first may have to start the session.
            true => self.connection().attachments.is_empty(),
            false => self.acp.may_wait(envelope),
        }
    }

    async fn handle(&self, request: ClientRequest<'_>, turn: Option<MessageTurn>) -> Outcome {
        match AcpMethod::find(&request.envelope.method) {
            Some(AcpMethod::Initialize) => {
                Ok(self.acp.handle(request, turn).await?.map(|answer| spell_attach(&answer)))
            }
            Some(AcpMethod::New) => self.new_session(request).await,
            Some(AcpMethod::Attach) if self.binding.is_meant_by_name(request.envelope) => {
                let handle = self.bound_session().await?;
                attach_to(self.connection(), handle, request, turn).await
            }
            Some(AcpMethod::Detach) if self.binding.is_meant(request.envelope) => {
                Ok(self.detach(request).await)
            }
            Some(AcpMethod::Prompt) => {
                let _turn = turn;
                self.prompt(request).await
            }
            None if request.envelope.method.starts_with(METHOD_PREFIX) => {
                let _turn = turn;
                requests::handle(self, request).await
            }
            _ => self.acp.handle(request, turn).await,
        }
    }

    async fn notify(&self, frame: &Bytes, envelope: &Envelope<'_>) {
        if !envelope.method.starts_with(METHOD_PREFIX) {
            return self.acp.notify(frame, envelope).await;
        }
        let request = ClientRequest { frame, envelope, id: &Bytes::from_static(b"null") };
        let _ = requests::handle(self, request).await;
    }

    async fn leave(&self) {
        self.acp.leave().await;
        self.seat.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl AmuxMethods {
    /// `session/new`: the session of that name, made now if there is none (rules 9.1, 9.4).
    async fn new_session(&self, request: ClientRequest<'_>) -> Outcome {
        let connection = self.connection();
        let binding = &self.binding;
        let starting = binding.room.starting.lock().await;
        let Some(known) = binding.find_session() else {
            connection.client.caller().may_change()?;
            let outcome =
                begin_session(connection, request, Some(Arc::clone(binding.name()))).await;
            drop(starting);
            return outcome;
        };
        drop(starting);
        // The agent that waits was started for a session of this connection's own.
        connection.agent.discard().await;
        let before = connection.attachments.get(&SessionId::new(known.id.as_str()));
        let handle =
            use_cases::open_session(&connection.app, &connection.client.caller(), &known.id)
                .await?;
        let Arrival { handle, joined, showing } =
            enter_session(connection, handle, true, None).await?;
        let answer = answers::joined(&joined, &handle.descriptor(), request.id)
            .map_err(unreadable_answer)?;
        if before.is_some() {
            // It has the session already: only the answer is wanted.
            return Ok(Some(placed_answer(connection, &handle, joined.head, answer).await));
        }
        let from = self.replay_from(&handle, joined.head).await;
        let turn = if from < joined.head { TurnSeen::None } else { turn_seen(joined.turn) };
        let view = connection.view_of(&handle, &joined, turn);
        let answer = placed_answer(connection, &handle, from, answer).await;
        let answer = Some((Seq::ZERO, answer.into()));
        let asks = (joined.head, joined.open_asks);
        let cursor = handle.cursor(from);
        let hold = connection.app.host.config().ready_timeout.to_std();
        connection
            .subscribe_in_turn(Join { cursor, view, answer, asks, hold, only_news: false }, showing)
            .await;
        if from > Seq::ZERO {
            for frame in answers::latest(&joined.latest) {
                connection.outbox.send_after(handle.id(), frame, joined.head).await;
            }
        }
        Ok(None)
    }

    /// Returns the event after which a newcomer's view begins.
    async fn replay_from(&self, handle: &SessionHandle, head: Seq) -> Seq {
        let connection = self.connection();
        match connection.app.host.config().amux.replay_turns {
            _ if !self.binding.replay => head,
            ReplayTurns::Unbounded => Seq::ZERO,
            ReplayTurns::Last(0) => head,
            ReplayTurns::Last(turns) => {
                let _scan = connection.histories.begin_log_scan().await;
                let finding = find_before_last(handle.cursor(Seq::ZERO), head, turns);
                connection.attachments.while_connected(finding).await.unwrap_or(head)
            }
        }
    }

    /// `session/detach` from the bound session: it is answered, and the connection is closed (rule
    /// 4.7).
    async fn detach(&self, request: ClientRequest<'_>) -> Option<Bytes> {
        let known = self.binding.find_session();
        let session =
            known.map_or_else(|| self.binding.name().to_string(), |known| known.id.clone());
        let answer = request.respond(&json!({ "sessionId": session, "status": "detached" }));
        self.connection().outbox.answer(None, answer).await;
        self.connection().outbox.close(NORMAL_CLOSURE, "detached").await;
        None
    }

    /// Handles `session/prompt`. A plain prompt to the bound session does not wait (rule 9.3): if
    /// another prompt runs or waits already, the host refuses it and sends `session_busy` to all
    /// peers, which names the client of that prompt.
    async fn prompt(&self, request: ClientRequest<'_>) -> Outcome {
        let connection = self.connection();
        let handle = controlled_session(connection, request.envelope).await?;
        let overlap =
            if self.binding.extends(handle.id()) { Overlap::Refuse } else { Overlap::Queue };
        match send_prompt(connection, request, &handle, overlap).await {
            Ok(()) => Ok(None),
            Err(error) if error.tells(ErrorCode::TURN_IN_PROGRESS) => {
                let frame =
                    session_busy(self.binding.name(), find_holder(&handle).await.as_deref());
                self.binding.tell_others(handle.id(), &frame);
                connection.outbox.answer(Some(handle.id().clone()), frame).await;
                Err(RpcError::new(BUSY_CODE, "session busy"))
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the bound session, attached. Another session's id is refused: amux's requests are
    /// about the bound one.
    pub(super) async fn attached_session(
        &self,
        envelope: &Envelope<'_>,
    ) -> Result<AttachedSession, RpcError> {
        if let Some(named) = envelope.session.as_ref().filter(|_| !self.binding.is_meant(envelope))
        {
            return Err(attach_unknown(&named.value));
        }
        let connection = self.connection();
        let handle = self.bound_session().await?;
        if let Some(attached) = connection.attachments.get(handle.id()) {
            return Ok(attached);
        }
        let (join, attached) = enter_quietly(connection, handle, None).await?;
        connection.subscribe(join).await;
        Ok(attached)
    }

    /// Finds the session, or makes it: in the active workspace, else in the host's own directory,
    /// since the client has named none.
    async fn bound_session(&self) -> Result<SessionHandle, RpcError> {
        let connection = self.connection();
        let binding = &self.binding;
        let _starting = binding.room.starting.lock().await;
        if let Some(known) = binding.find_session() {
            return Ok(use_cases::open_session(
                &connection.app,
                &connection.client.caller(),
                &known.id,
            )
            .await?);
        }
        if connection.client.role() == Role::Observer {
            return Err(attach_unknown(binding.name()));
        }
        let place = connection.app.host.workspaces().resolve_in_scope(
            &connection.client.identity().directory_scope(),
            None,
            None,
        );
        let place = place.map_err(|error| from_create(&error.into()))?;
        let params = json!({ "cwd": place.cwd.to_string_lossy(), "mcpServers": [] });
        let frame = rpc::request(rpc::PLACEHOLDER_ID, "session/new", params);
        let created = create_session(connection, &frame, Some(Arc::clone(binding.name()))).await?;
        created.map(|created| created.handle).map_err(|why| Fault::from(why).into())
    }
}

/// Returns the answer to `initialize` with the capability to attach as amux spells it (rule 3.3).
fn spell_attach(answer: &Bytes) -> Bytes {
    let path = ["result", "agentCapabilities", "sessionCapabilities", "attach"];
    let spelled = Json::parse(answer).and_then(|answer| wharf_json::set(answer, &path, "true"));
    spelled.map_or_else(|_| answer.clone(), Into::into)
}

/// Returns the client whose prompt runs, or waits to.
async fn find_holder(handle: &SessionHandle) -> Option<String> {
    let running = handle.turns().await.ok()?;
    if let Some(turn) = running.first() {
        return Some(turn.sender.shown_id().to_owned());
    }
    let waiting = handle.queue().await.ok()?;
    waiting.first().map(|queued| queued.sender.shown_id().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attach_capability_is_spelled_as_amux_does() {
        let answer = r#"{"id":7,"result":{"agentCapabilities":{"sessionCapabilities":{"own":[1.0],"attach":{}},"n":-0}}}"#;
        assert_eq!(spell_attach(&Bytes::from(answer)), answer.replace("{}}", "true}").as_bytes());
    }
}
