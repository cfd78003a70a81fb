//! One WebSocket connection: an inbound half that calls, an outbound half that shows.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::ws::{CloseFrame, Message, WebSocket};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::{Notify, mpsc, watch};
use wharf_host::core::{ClientId, Role, Sender, SessionId};
use wharf_host::{Attendance, Lane, SessionHandle, Spare, frame, new_client_id};

use super::client::ClientInfo;
use super::errors::RpcError;
use super::ledger::Ledger;
use super::outbound::{Out, write};
use super::shown::ShownUpTo;
use super::view::Wishes;
use crate::App;
use crate::auth::Identity;

/// Answers and joins on their way out. The inbound half waits when the client does not take them.
const OUT: usize = 64;
/// Presence and the like; a connection that lets this many pile up is not reading.
const LANE: usize = 256;
/// WebSocket close codes.
const TOO_BIG: u16 = 1009;
const GOING_AWAY: u16 = 1001;
const OVERLOADED: u16 = 1013;

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
    overflowed: Arc<Notify>,
    attached: Mutex<HashMap<SessionId, Attached>>,
    /// The agent that serves requests without a session. Held while it is asked.
    pub(super) spare: tokio::sync::Mutex<Option<Spare>>,
    /// Logins that succeeded, for this connection's later agents.
    logins: Mutex<Vec<Bytes>>,
}

/// A session that this connection is attached to.
#[derive(Clone, Debug)]
pub(super) struct Attached {
    pub(super) handle: SessionHandle,
    pub(super) role: Role,
}

/// Done when the host stops.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

impl Connection {
    /// Serves a connection to its end.
    pub(super) async fn run(app: App, identity: Identity, agent: Arc<str>, socket: WebSocket) {
        let (out, outs) = mpsc::channel(OUT);
        let (lane, lanes) = mpsc::channel(LANE);
        let (sink, mut stream) = socket.split();
        let heard = Arc::new(Mutex::new(Instant::now()));
        let shown: Arc<ShownUpTo> = Arc::default();
        let mut writer = tokio::spawn(write(sink, outs, lanes, Arc::clone(&heard), Arc::clone(&shown)));
        let mut stopping = app.stopping.clone();
        let overflowed: Arc<Notify> = Arc::default();
        let connection = Arc::new(Self {
            app,
            identity,
            overflowed: Arc::clone(&overflowed),
            logins: Mutex::default(),
            agent,
            client: new_client_id(),
            introduced: OnceLock::new(),
            ledger: Arc::default(),
            out,
            lane,
            shown,
            attached: Mutex::default(),
            spare: tokio::sync::Mutex::default(),
        });
        loop {
            tokio::select! {
                message = stream.next() => {
                    *heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
                    match message {
                        Some(Ok(Message::Text(text))) => connection.receive(Bytes::from(text)).await,
                        Some(Ok(Message::Close(_))) | None => break,
                        // Binary frames are not ACP's; pings are answered below us.
                        Some(Ok(Message::Binary(_) | Message::Ping(_) | Message::Pong(_))) => {}
                        Some(Err(error)) => {
                            connection.close_on(&error).await;
                            break;
                        }
                    }
                }
                _ = &mut writer => break,
                () = overflowed.notified() => {
                    connection.close(OVERLOADED, "the client does not read what it is sent").await;
                    break;
                }
                () = stopped(&mut stopping) => {
                    connection.close(GOING_AWAY, "the host is stopping").await;
                    break;
                }
            }
        }
        connection.leave_all().await;
        drop(connection);
        // The writer ends when the last `out` is gone; what the client still takes in a moment, it gets.
        if tokio::time::timeout(Duration::from_secs(1), &mut writer).await.is_err() {
            writer.abort();
        }
    }

    /// One frame of the client.
    async fn receive(self: &Arc<Self>, frame: Bytes) {
        let frame = frame::one_line(frame);
        match frame::scan(&frame) {
            Ok(envelope) => self.dispatch(&frame, &envelope).await,
            Err(frame::ScanError::Batch) => {
                self.send(
                    RpcError::invalid_request("batches are not taken: send one message at a time").frame(b"null"),
                )
                .await;
            }
            Err(frame::ScanError::NotMessage(why)) => {
                self.send(RpcError::invalid_request(why).frame(b"null")).await;
            }
            Err(error @ (frame::ScanError::NotUtf8 | frame::ScanError::NotJson(_))) => {
                self.send(RpcError::parse(error.to_string()).frame(b"null")).await;
            }
        }
    }

    pub(super) async fn send(&self, frame: Bytes) {
        let _ = self.out.send(Out::Frame(frame)).await;
    }

    async fn close(&self, code: u16, reason: &'static str) {
        let _ = self.out.send(Out::Close(CloseFrame { code, reason: reason.into() })).await;
    }

    async fn close_on(&self, error: &axum::Error) {
        // The WebSocket library tells a message over the limit only in words.
        if error.to_string().contains("too long") || error.to_string().contains("too big") {
            self.close(TOO_BIG, "the message is over the limit (limits.frame)").await;
        }
    }

    /// Who this connection is, as recorded with what it does.
    pub(super) fn sender(&self) -> Sender {
        let info = self.introduced.get().cloned().unwrap_or_default();
        let token = self.identity.token.clone();
        Sender { client: self.client.clone(), name: info.name, version: info.version, token, parent: None }
    }

    /// The most that the token allows.
    pub(super) fn role(&self) -> Role {
        self.identity.role()
    }

    pub(super) fn info(&self) -> ClientInfo {
        self.introduced.get().cloned().unwrap_or_default()
    }

    pub(super) fn wishes(&self) -> Wishes {
        let info = self.info();
        Wishes { role: self.role(), multi: info.multi_client_updates, event_ids: info.event_ids }
    }

    /// How the agent's session is attended; `serves` if this client takes over files and terminals.
    pub(super) fn attendance(&self, serves: bool) -> Attendance {
        let serves = serves && self.role() == Role::Controller;
        let overflowed = Arc::clone(&self.overflowed);
        Attendance { lane: self.lane.clone(), overflowed, serves, abilities: self.info().abilities() }
    }

    pub(super) fn attached(&self, session: &SessionId) -> Option<Attached> {
        self.sessions().get(session).cloned()
    }

    pub(super) fn note_attached(&self, handle: SessionHandle, role: Role) {
        self.sessions().insert(handle.id().clone(), Attached { handle, role });
    }

    /// Takes a session off the list; `None` if it was not on it.
    pub(super) fn note_left(&self, session: &SessionId) -> Option<SessionHandle> {
        self.sessions().remove(session).map(|attached| attached.handle)
    }

    pub(super) fn logins(&self) -> MutexGuard<'_, Vec<Bytes>> {
        self.logins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn leave_all(&self) {
        self.spare.lock().await.take();
        let handles: Vec<SessionHandle> = self.sessions().drain().map(|(_, attached)| attached.handle).collect();
        for handle in handles {
            let _ = handle.detach(self.sender()).await;
        }
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, Attached>> {
        self.attached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
