//! A connection's tie to the session of a name: who it is there, and how the session is found or made.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;
use wharf_host::core::{Peer, Role, Seq, SessionId};
use wharf_host::frame::Envelope;
use wharf_host::{ReplayTurns, SessionHandle, new_client_id};

use super::frames::{self, Frames};
use super::history;
use super::query::Query;
use super::rooms::{Room, Seat};
use crate::App;
use crate::acp::answers;
use crate::acp::connection::{Attached, Connection};
use crate::acp::errors::{RpcError, attach_unknown, from_create, unreadable_answer};
use crate::acp::inbound::Outcome;
use crate::acp::outbound::Join;
use crate::acp::sessions::Arrival;
use crate::acp::view::{TurnSeen, View};
use crate::auth::{Identity, Scope};
use crate::use_cases;

/// WebSocket close codes of amux.
const BAD_QUERY: u16 = 4400;
const PEER_IN_USE: u16 = 4409;

/// The session that a connection means when it names none.
#[derive(Debug)]
pub(in crate::acp) struct Bound {
    room: Arc<Room>,
    pub(in crate::acp) peer: Peer,
    pub(in crate::acp) peer_name: Option<Arc<str>>,
    replay: bool,
}

/// Why a connection is closed before it says anything.
#[derive(Debug)]
pub(in crate::acp) struct Refused {
    pub(in crate::acp) code: u16,
    pub(in crate::acp) reason: String,
}

/// Reads the URL's query. `None`: an ordinary connection.
pub(in crate::acp) fn read_query(pairs: &[(String, String)]) -> Result<Option<Query>, Refused> {
    Query::parse(pairs).map_err(|reason| Refused { code: BAD_QUERY, reason })
}

/// An agent looks at its session as any client does: without a name and a seat.
pub(in crate::acp) fn not_for_agents() -> Refused {
    Refused { code: BAD_QUERY, reason: "agents have no seat here; connect without session, room and mux".to_owned() }
}

/// Gives a peer its seat, which is its own for as long as it is held.
pub(in crate::acp) async fn admit(app: &App, identity: &Identity, query: Query) -> Result<(Bound, Seat), Refused> {
    let Query { name, peer_id, peer_name, role, replay } = query;
    // One without an id of its own is a stranger to all others.
    let id = peer_id.unwrap_or_else(|| new_client_id().as_str().into());
    let seat = app.rooms.sit(&name, (identity.scope.clone(), Arc::clone(&id))).await.ok_or_else(|| Refused {
        code: PEER_IN_USE,
        reason: "this peer_id is connected to this session already".to_owned(),
    })?;
    Ok((Bound { room: Arc::clone(&seat.room), peer: Peer { id, role }, peer_name, replay }, seat))
}

impl Bound {
    pub(in crate::acp) fn name(&self) -> &Arc<str> {
        &self.room.name
    }

    /// Tells the other peers of the room something about its session.
    pub(super) fn tell_others(&self, scope: &Scope, session: &SessionId, frame: &Bytes) {
        self.room.tell_others(&(scope.clone(), Arc::clone(&self.peer.id)), session, frame);
    }

    /// Other role words are labels (rule 4.8).
    pub(in crate::acp) fn observes(&self) -> bool {
        self.peer.role.as_deref() == Some("observer")
    }
}

impl Connection {
    /// Is this the session that the connection is bound to?
    pub(in crate::acp) fn binds(&self, session: &SessionId) -> bool {
        let Some(bound) = &self.bound else { return false };
        let known = self.sight().descriptor(session);
        known.is_some_and(|known| known.name.as_deref() == Some(&**bound.name()))
    }

    /// Lets a session that is about to be shown speak amux too, if it is the bound one.
    pub(in crate::acp) async fn bind(&self, join: &mut Join) {
        let session = join.view.session().clone();
        let Some(bound) = self.bound.as_ref().filter(|_| self.binds(&session)) else { return };
        let Some(Attached { handle, .. }) = self.attached(&session) else { return };
        let turns = handle.turns().await.unwrap_or_default();
        join.view.speak_amux(Frames::new(Arc::clone(bound.name()), &turns));
        let context = frames::session_context(bound.name(), &handle.descriptor().cwd);
        self.lane_frame(&handle, context, Seq::ZERO).await;
    }

    /// `session/new` on a bound connection: the session of that name, made now if there is none (rules 9.1, 9.4).
    pub(in crate::acp) async fn bound_new(&self, bound: &Bound, frame: &Bytes, id: &Bytes) -> Outcome {
        let one = bound.room.starting.lock().await;
        let Some(known) = self.sight().find_by_name(bound.name()) else {
            self.caller().may_change()?;
            let outcome = self.begin_session(frame, id, Some(Arc::clone(bound.name()))).await;
            drop(one);
            return outcome;
        };
        drop(one);
        // It was started for a session of this connection's own.
        self.spare.lock().await.take();
        let session = SessionId::new(known.id.as_str());
        let before = self.attached(&session);
        let handle = use_cases::open_session(&self.app, &self.caller(), session.as_str()).await?;
        let Arrival { handle, joined, showing } = self.enter_session(handle, true, None).await?;
        let answer = answers::joined(&joined, &handle.descriptor(), id).map_err(unreadable_answer)?;
        if before.is_some() {
            // It has the session already: only the answer is wanted.
            return Ok(Some(self.placed(&handle, joined.head, answer).await));
        }
        let from = self.replay_from(bound, &handle, joined.head).await;
        let turn = if from < joined.head { TurnSeen::None } else { crate::acp::attach::turn_seen(joined.turn) };
        let view = View::new(session, self.wishes(), Arc::clone(&self.ledger), joined.head, turn);
        let view = view.with_queue(&joined.queued, joined.head);
        let answer = self.placed(&handle, from, answer).await;
        let (answer, asks) = (Some((Seq::ZERO, answer.into())), (joined.head, joined.open_asks));
        let cursor = handle.cursor(from);
        self.join_in_turn(Join { cursor, view, answer, asks, hold: self.hold(), only_news: false }, showing).await;
        if from > Seq::ZERO {
            for frame in answers::latest(&joined.latest) {
                self.lane_frame(&handle, frame, joined.head).await;
            }
        }
        Ok(None)
    }

    /// After which event a newcomer's view begins.
    async fn replay_from(&self, bound: &Bound, handle: &SessionHandle, head: Seq) -> Seq {
        match self.app.host.config().amux.replay_turns {
            _ if !bound.replay => head,
            ReplayTurns::Unbounded => Seq::ZERO,
            ReplayTurns::Last(0) => head,
            ReplayTurns::Last(turns) => {
                let _scan = self.begin_log_scan().await;
                let found = self.while_connected(history::before_last(handle.cursor(Seq::ZERO), head, turns)).await;
                found.unwrap_or(head)
            }
        }
    }

    /// The bound session, if that is what the message means: it names none, or names it as amux does. `None`: it means
    /// another one, or the connection is bound to none.
    pub(in crate::acp) async fn meant(&self, envelope: &Envelope<'_>) -> Result<Option<SessionHandle>, RpcError> {
        let Some(bound) = &self.bound else { return Ok(None) };
        match &envelope.session {
            Some(named) if *named.value != **bound.name() => Ok(None),
            Some(_) | None => self.bound_handle(bound).await.map(Some),
        }
    }

    /// Does a message that need not name its session mean the bound one?
    pub(in crate::acp) fn is_bound_to(&self, envelope: &Envelope<'_>) -> bool {
        let Some(bound) = &self.bound else { return false };
        envelope
            .session
            .as_ref()
            .is_none_or(|named| *named.value == **bound.name() || self.binds(&SessionId::new(named.value.as_ref())))
    }

    /// The same, attached. Another session's id is refused: these methods are about the bound one.
    pub(super) async fn meant_attached(&self, bound: &Bound, envelope: &Envelope<'_>) -> Result<Attached, RpcError> {
        if let Some(named) = envelope.session.as_ref().filter(|_| !self.is_bound_to(envelope)) {
            return Err(attach_unknown(&named.value));
        }
        let handle = self.bound_handle(bound).await?;
        if let Some(attached) = self.attached(handle.id()) {
            return Ok(attached);
        }
        let (join, attached) = self.enter_quietly(handle, None).await?;
        self.join(join).await;
        Ok(attached)
    }

    /// Finds the session, or makes it: in the active workspace, else in the host's own directory, since nobody has named
    /// one.
    async fn bound_handle(&self, bound: &Bound) -> Result<SessionHandle, RpcError> {
        let _one = bound.room.starting.lock().await;
        if let Some(known) = self.sight().find_by_name(bound.name()) {
            let session = SessionId::new(known.id.as_str());
            return Ok(use_cases::open_session(&self.app, &self.caller(), session.as_str()).await?);
        }
        if self.role() == Role::Observer {
            return Err(attach_unknown(bound.name()));
        }
        let place = self.app.host.workspaces().place(&self.identity.ground(), None, None);
        let place = place.map_err(|error| from_create(&error.into()))?;
        let params = json!({ "cwd": place.cwd.to_string_lossy(), "mcpServers": [] });
        let frame = json!({ "jsonrpc": "2.0", "id": 0, "method": "session/new", "params": params });
        let created = self.create_session(&frame.to_string().into(), Some(Arc::clone(bound.name()))).await?;
        created.map(|created| created.handle).map_err(|error| from_create(&error))
    }
}
