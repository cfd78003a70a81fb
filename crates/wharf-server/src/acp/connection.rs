//! One connection: what is known of a client, and what is done with each of its frames. How frames come and go is
//! not its business: a WebSocket and an HTTP client's streams use it alike.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc, watch};
use wharf_host::core::{Attachment, ClientId, Joined, Role, Sender, SessionId};
use wharf_host::{
    Attendance, ByteBudget, BytePermit, CallError, CloseSignal, Lane, LaneMessage, PrestartedAgent, Serves,
    SessionHandle, frame, new_client_id,
};

use super::amux::Bound;
use super::client::ClientInfo;
use super::errors::RpcError;
use super::ledger::Ledger;
use super::order::Order;
use super::out_frame::OutFrame;
use super::outbound::Out;
use super::shown::ShownUpTo;
use super::under_way::UnderWay;
use super::view::Wishes;
use crate::App;
use crate::auth::Identity;
use crate::use_cases::Caller;
use crate::visible_sessions::VisibleSessions;

/// Answers and joins on their way out. The inbound half waits when the client does not take them.
const OUT: usize = 64;
/// Presence and the like; a connection that lets this many pile up is not reading.
const LANE: usize = 256;
/// The close code of a connection that was given more than it reads.
pub(super) const OVERLOADED: u16 = 1013;

/// The inbound half's state. Shared by the requests that take long and run beside the others.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) app: App,
    pub(super) identity: Identity,
    pub(super) agent: Arc<str>,
    pub(super) client: ClientId,
    pub(super) introduced: OnceLock<ClientInfo>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) out: mpsc::Sender<Out>,
    pub(super) lane: Lane,
    pub(super) shown: Arc<ShownUpTo>,
    /// Raised when the connection has to close.
    pub(super) close: Arc<CloseSignal>,
    /// The session that an amux client means when it names none.
    pub(super) bound: Option<Bound>,
    attached: Mutex<HashMap<SessionId, Attached>>,
    /// Held while the client comes to a session or leaves one, so that the list and the session agree.
    pub(super) moving: tokio::sync::Mutex<()>,
    /// True once the client is gone: what attaches late is detached again, and no history is built any more.
    ended: watch::Sender<bool>,
    /// Held while a history is built for this client, and until it has gone out.
    pub(super) history_turn: Arc<Semaphore>,
    /// The agent that serves requests without a session. Held while it is asked.
    pub(super) spare: tokio::sync::Mutex<Option<PrestartedAgent>>,
    /// Where the client last wanted a session.
    pub(super) last_cwd: Mutex<Option<PathBuf>>,
    pub(super) under_way: UnderWay,
    /// The messages that wait to be accepted, by session.
    pub(super) order: Arc<Order>,
    /// The sessions that are about to be shown: in the order in which the client came to them.
    pub(super) joins: Arc<Order>,
}

/// Where a connection's messages come out, for the task that writes them.
#[derive(Debug)]
pub(super) struct Outlet {
    pub(super) outs: mpsc::Receiver<Out>,
    pub(super) lane: mpsc::Receiver<LaneMessage>,
    pub(super) shown: Arc<ShownUpTo>,
    pub(super) client: ClientId,
    pub(super) buffers: Arc<ByteBudget>,
}

/// A session that this connection is attached to.
#[derive(Clone, Debug)]
pub(super) struct Attached {
    pub(super) handle: SessionHandle,
    pub(super) role: Role,
    /// The client as it attached: `session/attach` may say more about it than `initialize` did.
    pub(super) sender: Sender,
}

/// Done when the host stops.
pub(super) async fn stopped(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

impl Connection {
    pub(super) fn new(app: App, identity: Identity, agent: Arc<str>, bound: Option<Bound>) -> (Arc<Self>, Outlet) {
        let ledger = if bound.is_some() { Ledger::beyond_asks() } else { Ledger::default() };
        let (out, outs) = mpsc::channel(OUT);
        let (lane, lanes) = mpsc::channel(LANE);
        let (shown, client): (Arc<ShownUpTo>, _) = (Arc::default(), new_client_id());
        let buffers = Arc::clone(app.host.buffers());
        let outlet = Outlet { outs, lane: lanes, shown: Arc::clone(&shown), client: client.clone(), buffers };
        let under_way = UnderWay::new(app.host.config().limits.frame.0);
        let connection = Self {
            app,
            identity,
            agent,
            client,
            introduced: OnceLock::new(),
            ledger: Arc::new(ledger),
            out,
            lane,
            shown,
            close: Arc::default(),
            bound,
            attached: Mutex::default(),
            moving: tokio::sync::Mutex::default(),
            ended: watch::Sender::new(false),
            history_turn: Arc::new(Semaphore::new(1)),
            spare: tokio::sync::Mutex::default(),
            last_cwd: Mutex::default(),
            under_way,
            order: Arc::default(),
            joins: Arc::default(),
        };
        (Arc::new(connection), outlet)
    }

    /// The sessions that this connection's identity covers.
    pub(super) fn sight(&self) -> VisibleSessions {
        self.app.visible_to(&self.identity)
    }

    /// Done when the client is gone.
    pub(super) async fn gone(&self) {
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }

    /// An answer, counted if it is large.
    pub(super) fn counted(&self, frame: Bytes) -> OutFrame {
        let large = frame.len() > ByteBudget::UNCOUNTED_BYTES;
        let permit = large.then(|| Arc::new(self.app.host.buffers().charge_out(frame.len())));
        OutFrame::from(frame).counted_by(permit)
    }

    /// One frame of the client, and what counts it if it is large.
    pub(super) async fn receive(self: &Arc<Self>, frame: Bytes, permit: Option<BytePermit>) {
        let frame = frame::one_line(without_bom(frame));
        let error = match frame::scan(&frame) {
            Ok(envelope) if envelope.has_null_members => {
                return match frame::without_null_members(&frame, envelope.kind) {
                    Ok(plain) => Box::pin(self.receive(plain, permit)).await,
                    Err(error) => self.send(RpcError::invalid_request(error.to_string()).frame(b"null")).await,
                };
            }
            Ok(envelope) => return self.dispatch(&frame, &envelope, permit).await,
            Err(error) => error,
        };
        let id = self.settle_malformed(&wharf_json::salvage(&frame), &error.to_string()).await;
        let error = match error {
            frame::ScanError::Batch => RpcError::invalid_request("batches are not taken: send one message at a time"),
            frame::ScanError::NotMessage(why) => RpcError::invalid_request(why),
            error @ (frame::ScanError::NotUtf8 | frame::ScanError::NotJson(_)) => RpcError::parse(error.to_string()),
        };
        self.send(error.frame(&id)).await;
    }

    /// A message that belongs to no session.
    async fn send(&self, frame: Bytes) {
        let _ = self.out.send(Out::Answer { session: None, frame: frame.into() }).await;
    }

    /// Who this connection is, as recorded with what it does.
    pub(super) fn sender(&self) -> Sender {
        let info = self.introduced.get().cloned().unwrap_or_default();
        let token = self.identity.token.clone();
        let (peer, peer_name) = self.bound.as_ref().map(|bound| (bound.peer.clone(), bound.peer_name.clone())).unzip();
        let (name, parent) = (peer_name.flatten().or(info.name), self.identity.agent().cloned());
        let (client, chosen) = (self.client.clone(), info.chosen);
        Sender { client, chosen, name, version: info.version, token, parent, peer }
    }

    /// The client as others know it in this session.
    pub(super) fn sender_in(&self, session: &SessionId) -> Sender {
        self.attached(session).map_or_else(|| self.sender(), |attached| attached.sender)
    }

    /// The most that the token allows, and no more than an amux client asked for.
    pub(super) fn role(&self) -> Role {
        if self.bound.as_ref().is_some_and(Bound::observes) { Role::Observer } else { self.identity.role() }
    }

    /// The client as the use cases know it.
    pub(super) fn caller(&self) -> Caller {
        Caller::for_connection(self.identity.clone(), self.role(), self.sender())
    }

    /// The same in a session that it may be attached to under another name.
    pub(super) fn caller_in(&self, session: &SessionId) -> Caller {
        Caller::for_connection(self.identity.clone(), self.role(), self.sender_in(session))
    }

    /// The part of the client's environment that its agents get.
    pub(super) fn env(&self) -> BTreeMap<String, String> {
        self.caller().allowed_env(BTreeMap::clone(&self.info().env))
    }

    /// Returns the client's statement about itself. An amux client serves neither files nor terminals (rule 12.13).
    pub(super) fn info(&self) -> ClientInfo {
        let info = self.introduced.get().cloned().unwrap_or_default();
        if self.bound.is_some() { info.without_tools() } else { info }
    }

    pub(super) fn wishes(&self) -> Wishes {
        let info = self.info();
        let (multi, forms) = (info.multi_client_updates, info.abilities().forms);
        Wishes { role: self.role(), multi, event_ids: info.event_ids, forms, understood: info.understood() }
    }

    /// How the agent's session is attended; `serves` if this client takes over files and terminals.
    pub(super) fn attendance(&self, serves: bool) -> Attendance {
        let serves = if serves && self.role() == Role::Controller { Serves::Yes } else { Serves::No };
        let close = Arc::clone(&self.close);
        Attendance { lane: self.lane.clone(), close, serves, abilities: self.info().abilities() }
    }

    pub(super) fn attached(&self, session: &SessionId) -> Option<Attached> {
        self.sessions().get(session).cloned()
    }

    pub(super) fn all_attached(&self) -> Vec<Attached> {
        self.sessions().values().cloned().collect()
    }

    /// Has it joined no session yet?
    pub(super) fn attached_nothing(&self) -> bool {
        self.sessions().is_empty()
    }

    /// Attaches to a session, or attaches anew.
    pub(super) async fn come_to(
        &self,
        handle: &SessionHandle,
        attachment: Attachment,
        attendance: Attendance,
    ) -> Result<Joined, CallError> {
        let _moving = self.moving.lock().await;
        let (role, sender) = (attachment.role, attachment.sender.clone());
        let joined = handle.attach(attachment, attendance).await?;
        self.shown.arrive(handle.id(), joined.head, Instant::now());
        self.note_attached(Attached { handle: handle.clone(), role, sender });
        Ok(joined)
    }

    fn note_attached(&self, attached: Attached) {
        let Attached { handle, sender, .. } = attached.clone();
        self.sessions().insert(handle.id().clone(), attached);
        // Set before the list was emptied, so that a late one is found here or there.
        if *self.ended.borrow() && self.note_left(handle.id()).is_some() {
            tokio::spawn(async move {
                let _ = handle.detach(sender).await;
            });
        }
    }

    /// Takes a session off the list; `None` if it was not on it.
    pub(super) fn note_left(&self, session: &SessionId) -> Option<SessionHandle> {
        self.sessions().remove(session).map(|attached| attached.handle)
    }

    /// The client is gone: its sessions live on without it.
    pub(super) async fn leave_all(&self) {
        self.ended.send_replace(true);
        let handles: Vec<SessionHandle> = self.sessions().drain().map(|(_, attached)| attached.handle).collect();
        for handle in handles {
            let _ = handle.detach(self.sender()).await;
        }
        // Last: it may be in the middle of a start.
        self.spare.lock().await.take();
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, Attached>> {
        self.attached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The frame without the byte order mark that some programs begin with.
pub(in crate::acp) fn without_bom(frame: Bytes) -> Bytes {
    let bom = frame.len() - wharf_json::strip_bom(&frame).len();
    frame.slice(bom..)
}
