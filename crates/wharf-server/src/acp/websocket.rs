//! ACP over a WebSocket: one connection, one socket, from the upgrade to the close.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream::SplitSink;
use futures_util::{FutureExt, SinkExt, StreamExt, future};
use tokio::sync::Notify;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::frame::{CloseFrame, Frame};
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};
use tracing::Instrument;
use wharf_host::core::SessionId;
use wharf_host::{ByteBudget, ByteHolder, CloseReason, Direction};

use super::connection::stopped;
use super::handshake::ClientSocket;
use super::inbound::{Methods, receive};
use super::out_frame::OutFrame;
use super::outbound::write;
use super::outbox::{OVERLOADED_CLOSE_CODE, Outlet};
use super::wire::{Closed, FrameOrigin, Gate, HEARTBEAT_EVERY, Wire};
use crate::client_span::client_span;
use crate::revocation::wait_for_end;
use crate::unfinished_message::UnfinishedMessage;

/// WebSocket close codes.
const TOO_BIG: u16 = 1009;
const GOING_AWAY: u16 = 1001;
const POLICY_CLOSE_CODE: u16 = 1008;
const INTERNAL_ERROR_CLOSE_CODE: u16 = 1011;
/// How long a client whose token has ended may take to hear of it.
const FAREWELL_TIMEOUT: Duration = Duration::from_millis(300);
/// The size of the fragments in which larger messages go out. The WebSocket library copies each
/// fragment, so this bounds the memory, besides shared bytes, that a client costs while it does not
/// read.
const FRAGMENT_BYTES: usize = 64 << 10;

/// Serves a connection to its end.
pub(super) async fn run<M: Methods>(
    methods: Arc<M>,
    outlet: Outlet,
    socket: ClientSocket,
    unfinished: Arc<UnfinishedMessage>,
) {
    let (sink, mut stream) = socket.split();
    let heard = Arc::new(Mutex::new(Instant::now()));
    let connection = Arc::clone(methods.connection());
    let app = connection.app.clone();
    let identity = connection.client.identity().clone();
    let mut stopping = app.stopping.clone();
    let outbound = Socket::new(sink, Arc::clone(&heard), app.host.buffers());
    let span = client_span(connection.client.id());
    let mut writer = tokio::spawn({
        let writing = write(outbound, outlet);
        let app = app.clone();
        let identity = identity.clone();
        async move {
            // The loop below says farewell to one who reads; one who does not is cut off, whatever
            // waits for it.
            let over = async {
                wait_for_end(&app, &identity).await;
                tokio::time::sleep(FAREWELL_TIMEOUT).await;
            };
            tokio::select! {
                () = writing => {}
                () = over => {}
            }
        }
        .instrument(span.clone())
    });
    let mut over = Box::pin(async { wait_for_end(&app, &identity).await });
    loop {
        tokio::select! {
            message = stream.next() => {
                *heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
                match message {
                    Some(Ok(Message::Text(text))) => {
                        let permit = unfinished.finish();
                        receive(&methods, Bytes::from(text), permit).instrument(span.clone()).await;
                    }
                    Some(Ok(Message::Close(_))) | None => break,
                    // Binary frames are not ACP's.
                    Some(Ok(Message::Binary(_))) => drop(unfinished.finish()),
                    // Pings are answered below us.
                    Some(Ok(Message::Ping(payload) | Message::Pong(payload))) => {
                        unfinished.skip_control(payload.len());
                    }
                    Some(Ok(Message::Frame(_))) => {}
                    Some(Err(error)) => {
                        if let Some((code, reason)) = close_reason(&error) {
                            connection.outbox.close(code, reason).await;
                        }
                        break;
                    }
                }
            }
            _ = &mut writer => break,
            () = unfinished.closed() => {
                connection.outbox.close(OVERLOADED_CLOSE_CODE, NO_ROOM).await;
                break;
            }
            reason = connection.outbox.close_signal().raised() => {
                let (code, words) = close_words(reason);
                connection.outbox.close(code, words).await;
                break;
            }
            ending = &mut over => {
                connection.outbox.try_close(POLICY_CLOSE_CODE, ending.reason());
                // Before the sessions are left, which may take a while.
                let _ = tokio::time::timeout(FAREWELL_TIMEOUT, &mut writer).await;
                break;
            }
            () = stopped(&mut stopping) => {
                connection.outbox.close(GOING_AWAY, "the host is stopping").await;
                break;
            }
        }
    }
    // The rest of an unfinished message is of no use any more.
    drop(unfinished.finish());
    methods.leave().await;
    drop((methods, connection));
    // The writer ends when the last outbox is gone; what the client still takes in a moment, it
    // gets.
    if !writer.is_finished()
        && tokio::time::timeout(Duration::from_secs(1), &mut writer).await.is_err()
    {
        writer.abort();
    }
}

const NO_ROOM: &str =
    "too much is being sent at once by all clients together (limits.bodies); try again";

/// Returns the words for a client whose message could not be read.
fn close_reason(error: &Error) -> Option<(u16, &'static str)> {
    if let Error::Capacity(_) = error {
        return Some((TOO_BIG, "the message is over the limit (limits.frame)"));
    }
    if let Error::Io(error) = error
        && error.kind() == std::io::ErrorKind::OutOfMemory
    {
        return Some((OVERLOADED_CLOSE_CODE, NO_ROOM));
    }
    None
}

/// Returns the words for a client whose connection the host closes.
const fn close_words(reason: CloseReason) -> (u16, &'static str) {
    match reason {
        CloseReason::Unread => (OVERLOADED_CLOSE_CODE, "the client does not read what it is sent"),
        CloseReason::LogFailed => (
            INTERNAL_ERROR_CLOSE_CODE,
            "the log of an attached session cannot be written; load it again",
        ),
    }
}

/// Closes a socket that was opened only to say why not.
pub(super) async fn refuse(mut socket: ClientSocket, code: u16, reason: String) {
    let _ = socket.send(close_message(code, reason.into())).await;
}

fn close_message(code: u16, reason: Utf8Bytes) -> Message {
    Message::Close(Some(CloseFrame { code: CloseCode::from(code), reason }))
}

/// The socket's outbound half.
#[derive(Debug)]
struct Socket {
    sink: SplitSink<ClientSocket, Message>,
    /// When something last came from the client.
    heard: Arc<Mutex<Instant>>,
    /// Says for how long the client has taken nothing.
    holder: Arc<ByteHolder>,
    /// Told when others need the bytes that wait for this client.
    closed: Arc<Notify>,
}

impl Socket {
    fn new(
        sink: SplitSink<ClientSocket, Message>,
        heard: Arc<Mutex<Instant>>,
        buffers: &Arc<ByteBudget>,
    ) -> Self {
        let closed = Arc::new(Notify::new());
        let holder = buffers.add_holder(Direction::Out, "WebSocket", {
            let closed = Arc::clone(&closed);
            move || closed.notify_one()
        });
        Self { sink, heard, holder, closed }
    }

    async fn put(&mut self, message: Message) -> Result<(), Closed> {
        let mut feeding = pin!(self.sink.feed(message));
        if let Some(fed) = feeding.as_mut().now_or_never() {
            return fed.map_err(|_| Closed);
        }
        self.holder.note_stalled();
        let fed = tokio::select! {
            fed = feeding => fed.map_err(|_| Closed),
            () = self.closed.notified() => Err(Closed),
        };
        self.holder.note_progress();
        fed
    }

    async fn put_fragments(&mut self, frame: &OutFrame) -> Result<(), Closed> {
        let mut left = frame.len();
        let mut kind = Data::Text;
        for part in frame.parts() {
            let mut rest = part.clone();
            while !rest.is_empty() {
                let fragment = rest.split_to(FRAGMENT_BYTES.min(rest.len()));
                left -= fragment.len();
                self.put(Message::Frame(Frame::message(fragment, OpCode::Data(kind), left == 0)))
                    .await?;
                kind = Data::Continue;
            }
        }
        Ok(())
    }
}

impl Wire for Socket {
    fn gate(&self, _: &SessionId) -> Gate {
        Gate::Line
    }

    fn changed(&self) -> impl Future<Output = ()> + Send {
        future::pending()
    }

    async fn feed(&mut self, _: FrameOrigin<'_>, frame: OutFrame) -> Result<(), Closed> {
        if frame.len() > FRAGMENT_BYTES {
            return self.put_fragments(&frame).await;
        }
        let text = Utf8Bytes::try_from(frame.into_bytes()).map_err(|_| Closed)?;
        self.put(Message::Text(text)).await
    }

    async fn flush(&mut self) -> Result<(), Closed> {
        self.sink.flush().await.map_err(|_| Closed)
    }

    async fn tick(&mut self) -> Result<(), Closed> {
        let silent = self.heard.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
        if silent > 2 * HEARTBEAT_EVERY {
            return Err(Closed);
        }
        self.sink.feed(Message::Ping(Bytes::new())).await.map_err(|_| Closed)
    }

    async fn close(&mut self, code: u16, reason: &'static str) {
        let _ = self.sink.send(close_message(code, reason.into())).await;
    }
}
