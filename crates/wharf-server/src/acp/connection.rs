//! One WebSocket connection: an inbound half that calls, an outbound half that shows.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::ws::{CloseFrame, Message, WebSocket};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::{mpsc, watch};
use wharf_host::core::{ClientId, Role, Sender, SessionId};
use wharf_host::{Lane, SessionHandle, Spare, frame, new_client_id};

use super::errors::RpcError;
use super::ledger::Ledger;
use super::outbound::{Out, write};
use super::shown::ShownUpTo;
use crate::App;

/// Answers and joins on their way out. The inbound half waits when the client does not take them.
const OUT: usize = 64;
/// Presence and the like; a connection that lets this many pile up is not reading.
const LANE: usize = 256;
/// WebSocket close codes.
const TOO_BIG: u16 = 1009;
const GOING_AWAY: u16 = 1001;

/// The inbound half's state. Shared by the requests that take long and run beside the others.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) app: App,
    pub(super) agent: Arc<str>,
    pub(super) client: ClientId,
    pub(super) introduced: OnceLock<ClientInfo>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) out: mpsc::Sender<Out>,
    pub(super) lane: Lane,
    pub(super) shown: Arc<ShownUpTo>,
    attached: Mutex<HashMap<SessionId, SessionHandle>>,
    spare: Mutex<Option<Spare>>,
}

/// What `initialize` told of the client.
#[derive(Clone, Debug, Default)]
pub(super) struct ClientInfo {
    pub(super) name: Option<Arc<str>>,
    pub(super) version: Option<Arc<str>>,
}

/// Done when the host stops.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

impl Connection {
    /// Serves a connection to its end.
    pub(super) async fn run(app: App, agent: Arc<str>, socket: WebSocket) {
        let (out, outs) = mpsc::channel(OUT);
        let (lane, lanes) = mpsc::channel(LANE);
        let (sink, mut stream) = socket.split();
        let heard = Arc::new(Mutex::new(Instant::now()));
        let shown: Arc<ShownUpTo> = Arc::default();
        let mut writer = tokio::spawn(write(sink, outs, lanes, Arc::clone(&heard), Arc::clone(&shown)));
        let mut stopping = app.stopping.clone();
        let connection = Arc::new(Self {
            app,
            agent,
            client: new_client_id(),
            introduced: OnceLock::new(),
            ledger: Arc::default(),
            out,
            lane,
            shown,
            attached: Mutex::default(),
            spare: Mutex::default(),
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
        Sender { client: self.client.clone(), name: info.name, version: info.version, token: None, parent: None }
    }

    #[expect(clippy::unused_self, reason = "role tokens decide this once they exist")]
    pub(super) fn role(&self) -> Role {
        Role::Controller
    }

    pub(super) fn attached(&self, session: &SessionId) -> Option<SessionHandle> {
        self.sessions().get(session).cloned()
    }

    pub(super) fn handles(&self) -> Vec<SessionHandle> {
        self.sessions().values().cloned().collect()
    }

    pub(super) fn note_attached(&self, handle: SessionHandle) {
        self.sessions().insert(handle.id().clone(), handle);
    }

    pub(super) fn keep_spare(&self, spare: Option<Spare>) {
        if let Some(spare) = spare {
            *self.spare.lock().unwrap_or_else(PoisonError::into_inner) = Some(spare);
        }
    }

    pub(super) fn take_spare(&self) -> Option<Spare> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    async fn leave_all(&self) {
        self.take_spare();
        let handles: Vec<SessionHandle> = self.sessions().drain().map(|(_, handle)| handle).collect();
        for handle in handles {
            let _ = handle.detach(self.sender()).await;
        }
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, SessionHandle>> {
        self.attached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
