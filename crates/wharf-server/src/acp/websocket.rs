//! ACP over a WebSocket: one connection, one socket, from the upgrade to the close.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket};
use bytes::Bytes;
use futures_util::stream::SplitSink;
use futures_util::{SinkExt, StreamExt, future};
use wharf_host::core::SessionId;

use super::amux::{Bound, Refused, Seat};
use super::connection::{Connection, OVERLOADED, stopped};
use super::outbound::{Out, write};
use super::wire::{Closed, Gate, Origin, TICK, Wire};
use crate::App;
use crate::auth::Identity;
use crate::ending::ended;

/// WebSocket close codes.
const TOO_BIG: u16 = 1009;
const GOING_AWAY: u16 = 1001;
const POLICY: u16 = 1008;
/// How long a client whose token has ended may take to hear of it.
const FAREWELL: Duration = Duration::from_millis(300);

/// Serves a connection to its end.
pub(super) async fn run(
    app: App,
    identity: Identity,
    agent: Arc<str>,
    bound: Option<(Bound, Seat)>,
    socket: WebSocket,
) {
    let (bound, seat) = bound.unzip();
    let mut stopping = app.stopping.clone();
    let (sink, mut stream) = socket.split();
    let heard = Arc::new(Mutex::new(Instant::now()));
    let (connection, outlet) = Connection::new(app, identity, agent, bound);
    let (app, identity) = (connection.app.clone(), connection.identity.clone());
    let mut writer = tokio::spawn({
        let (writing, app) = (write(Socket { sink, heard: Arc::clone(&heard) }, outlet), app.clone());
        let identity = identity.clone();
        async move {
            // The loop below says farewell to one who reads; one who does not is cut off, whatever waits for it.
            let over = async {
                ended(&app, &identity).await;
                tokio::time::sleep(FAREWELL).await;
            };
            tokio::select! {
                () = writing => {}
                () = over => {}
            }
        }
    });
    let mut over = Box::pin(async { ended(&app, &identity).await });
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
                        // The WebSocket library tells a message over the limit only in words.
                        if error.to_string().contains("too long") || error.to_string().contains("too big") {
                            close(&connection, TOO_BIG, "the message is over the limit (limits.frame)").await;
                        }
                        break;
                    }
                }
            }
            _ = &mut writer => break,
            () = connection.overflowed.notified() => {
                close(&connection, OVERLOADED, "the client does not read what it is sent").await;
                break;
            }
            ending = &mut over => {
                let _ = connection.out.try_send(Out::Close { code: POLICY, reason: ending.reason() });
                // Before the sessions are left, which may take a while.
                let _ = tokio::time::timeout(FAREWELL, &mut writer).await;
                break;
            }
            () = stopped(&mut stopping) => {
                close(&connection, GOING_AWAY, "the host is stopping").await;
                break;
            }
        }
    }
    connection.leave_all().await;
    drop(seat);
    drop(connection);
    // The writer ends when the last `out` is gone; what the client still takes in a moment, it gets.
    if !writer.is_finished() && tokio::time::timeout(Duration::from_secs(1), &mut writer).await.is_err() {
        writer.abort();
    }
}

/// Closes a socket that was opened only to say why not.
pub(super) async fn refuse(mut socket: WebSocket, refused: Refused) {
    let Refused { code, reason } = refused;
    let _ = socket.send(Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await;
}

async fn close(connection: &Connection, code: u16, reason: &'static str) {
    let _ = connection.out.send(Out::Close { code, reason }).await;
}

/// The socket's outbound half.
#[derive(Debug)]
struct Socket {
    sink: SplitSink<WebSocket, Message>,
    /// When something last came from the client.
    heard: Arc<Mutex<Instant>>,
}

impl Wire for Socket {
    fn gate(&self, _: &SessionId) -> Gate {
        Gate::Line
    }

    fn changed(&self) -> impl Future<Output = ()> + Send {
        future::pending()
    }

    async fn feed(&mut self, _: Origin<'_>, frame: Bytes) -> Result<(), Closed> {
        let text = Utf8Bytes::try_from(frame).map_err(|_| Closed)?;
        self.sink.feed(Message::Text(text)).await.map_err(|_| Closed)
    }

    async fn flush(&mut self) -> Result<(), Closed> {
        self.sink.flush().await.map_err(|_| Closed)
    }

    async fn tick(&mut self) -> Result<(), Closed> {
        let silent = self.heard.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
        if silent > 2 * TICK {
            return Err(Closed);
        }
        self.sink.feed(Message::Ping(Bytes::new())).await.map_err(|_| Closed)
    }

    async fn close(&mut self, code: u16, reason: &'static str) {
        let _ = self.sink.send(Message::Close(Some(CloseFrame { code, reason: reason.into() }))).await;
    }
}
