//! An ACP client that keeps every received frame and waits for frames, never for time. It uses a
//! WebSocket or any other transport of a test ([`TestClient::from_transport`]).
//!
//! Every wait has a limit ([`WAIT_LIMIT`]). At the limit, or when the connection is lost, it panics
//! with the end of the transcript. Clones share one connection.

mod acp;
mod frame;
mod socket;
mod transport;

pub use frame::{CallFailure, ReceivedFrame};
pub use socket::{Credentials, RawSocket, connect, connect_unix};
pub use transport::{FrameSink, FrameStream};

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Result;
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, oneshot};
use tokio_tungstenite::WebSocketStream;
use wharf_demo::turn::lock_mutex;

use crate::WAIT_LIMIT;

/// Answers requests of the agent automatically: returns the result or the error object, or `None`
/// to leave the request open.
type Responder = Box<dyn Fn(&ReceivedFrame) -> Option<Result<Value, Value>> + Send>;

/// One connection.
#[derive(Clone)]
pub struct TestClient(Arc<ClientInner>);

struct ClientInner {
    sink: tokio::sync::Mutex<Box<dyn FrameSink>>,
    seen: Mutex<ReceivedFrames>,
    arrived: Notify,
    next_id: AtomicI64,
    wait_limit: Mutex<Duration>,
    responder: Mutex<Option<Responder>>,
}

#[derive(Default)]
struct ReceivedFrames {
    frames: Vec<ReceivedFrame>,
    /// The position from which `expect` searches.
    cursor: usize,
    /// The reason why the connection ended, if it did.
    closed: Option<String>,
    calls: HashMap<String, oneshot::Sender<Result<Value, CallFailure>>>,
}

impl std::fmt::Debug for TestClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("frames", &lock_mutex(&self.0.seen).frames.len())
            .finish_non_exhaustive()
    }
}

/// A sent request whose answer is pending.
#[derive(Debug)]
pub struct PendingCall {
    client: TestClient,
    /// The request's id, for `$/cancel_request`.
    pub id: Value,
    method: String,
    answer: oneshot::Receiver<Result<Value, CallFailure>>,
}

impl PendingCall {
    /// Waits for the answer; panics if the connection is lost first.
    pub async fn wait_answer(self) -> Result<Value, CallFailure> {
        let Self { client, id, method, answer } = self;
        match tokio::time::timeout(client.wait_limit(), answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => client.panic_with_transcript(&format!(
                "the connection was lost before the answer to {method} ({id})"
            )),
            Err(_) => client.panic_with_transcript(&format!("no answer to {method} ({id})")),
        }
    }

    /// Waits for the answer; `None` if the connection is lost first.
    pub async fn wait_answer_or_lost(self) -> Option<Result<Value, CallFailure>> {
        let Self { client, id, method, answer } = self;
        match tokio::time::timeout(client.wait_limit(), answer).await {
            Ok(answer) => answer.ok(),
            Err(_) => client.panic_with_transcript(&format!(
                "no answer to {method} ({id}), and no end of the connection"
            )),
        }
    }
}

impl TestClient {
    /// Connects with `Authorization: Bearer`.
    pub async fn connect(url: &str, token: &str) -> Result<Self> {
        Self::connect_with(url, &Credentials::Bearer(token.to_owned())).await
    }

    pub async fn connect_with(url: &str, credentials: &Credentials) -> Result<Self> {
        Ok(Self::from_socket(socket::connect(url, credentials).await?.0))
    }

    /// Creates a client on a connected socket.
    pub fn from_socket<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        socket: WebSocketStream<S>,
    ) -> Self {
        let (sink, stream) = transport::split_socket(socket);
        Self::from_transport(sink, stream)
    }

    /// Creates a client on any transport.
    pub fn from_transport(sink: Box<dyn FrameSink>, stream: FrameStream) -> Self {
        let inner = ClientInner {
            sink: tokio::sync::Mutex::new(sink),
            seen: Mutex::default(),
            arrived: Notify::new(),
            next_id: AtomicI64::new(1),
            wait_limit: Mutex::new(WAIT_LIMIT),
            responder: Mutex::default(),
        };
        let client = Self(Arc::new(inner));
        tokio::spawn(client.clone().read_stream(stream));
        client
    }

    async fn read_stream(self, mut stream: FrameStream) {
        let why = loop {
            match stream.next().await {
                Some(Ok(text)) => self.receive_frame(ReceivedFrame::parse(&text)).await,
                Some(Err(why)) => break why,
                None => break "ended".to_owned(),
            }
        };
        let mut seen = lock_mutex(&self.0.seen);
        seen.closed = Some(why);
        seen.calls.clear();
        drop(seen);
        self.0.arrived.notify_waiters();
    }

    async fn receive_frame(&self, frame: ReceivedFrame) {
        let reply = lock_mutex(&self.0.responder)
            .as_ref()
            .filter(|_| frame.is_request())
            .and_then(|answer| answer(&frame));
        let id = frame.body["id"].clone();
        {
            let mut seen = lock_mutex(&self.0.seen);
            if let Some(answer) = frame.response_result()
                && let Some(call) = seen.calls.remove(&id.to_string())
            {
                let _ = call.send(answer);
            }
            seen.frames.push(frame);
        }
        self.0.arrived.notify_waiters();
        match reply {
            Some(Ok(result)) => self.send_result(&id, result).await,
            Some(Err(error)) => self.send_error(&id, error).await,
            None => {}
        }
    }

    /// Sets the limit of every wait of this connection.
    pub fn set_wait_limit(&self, limit: Duration) {
        *lock_mutex(&self.0.wait_limit) = limit;
    }

    fn wait_limit(&self) -> Duration {
        *lock_mutex(&self.0.wait_limit)
    }

    /// Sends text unchanged, for exact bytes and for malformed input. A lost connection is noticed
    /// by the reader.
    pub async fn send_raw(&self, text: &str) {
        let _ = self.0.sink.lock().await.send(text.to_owned()).await;
    }

    pub async fn send_notification(&self, method: &str, params: Value) {
        self.send_raw(&json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string())
            .await;
    }

    pub async fn send_result(&self, id: &Value, result: Value) {
        self.send_raw(&json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string())
            .await;
    }

    pub async fn send_error(&self, id: &Value, error: Value) {
        self.send_raw(&json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string())
            .await;
    }

    /// Sends a request and waits for its answer.
    pub async fn call_method(&self, method: &str, params: Value) -> Result<Value, CallFailure> {
        self.start_request(method, params).await.wait_answer().await
    }

    /// Sends a request with the next id, without waiting.
    pub async fn start_request(&self, method: &str, params: Value) -> PendingCall {
        let id = json!(self.0.next_id.fetch_add(1, Ordering::Relaxed));
        self.start_request_with_id(id, method, params).await
    }

    /// Sends a request with a given id, without waiting.
    pub async fn start_request_with_id(
        &self,
        id: Value,
        method: &str,
        params: Value,
    ) -> PendingCall {
        let answer = self.register_call(&id);
        let frame = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send_raw(&frame.to_string()).await;
        PendingCall { client: self.clone(), id, method: method.to_owned(), answer }
    }

    fn register_call(&self, id: &Value) -> oneshot::Receiver<Result<Value, CallFailure>> {
        let (sender, answer) = oneshot::channel();
        let mut seen = lock_mutex(&self.0.seen);
        if seen.closed.is_none() {
            seen.calls.insert(id.to_string(), sender);
        }
        answer
    }

    /// Answers every later request of the agent for which the function has an answer.
    pub fn respond_with(
        &self,
        answer: impl Fn(&ReceivedFrame) -> Option<Result<Value, Value>> + Send + 'static,
    ) {
        *lock_mutex(&self.0.responder) = Some(Box::new(answer));
    }

    /// Answers every later permission with this option.
    pub fn choose_option(&self, option: &str) {
        let result = json!({ "outcome": { "outcome": "selected", "optionId": option } });
        self.respond_with(move |ask| {
            (ask.method() == "session/request_permission").then(|| Ok(result.clone()))
        });
    }

    /// Returns the next frame after the cursor.
    pub async fn next_frame(&self) -> ReceivedFrame {
        self.expect("any frame", |_| true).await
    }

    /// Waits for a matching frame after the last one found; skipped frames stay in the transcript.
    pub async fn expect(&self, what: &str, fits: impl Fn(&ReceivedFrame) -> bool) -> ReceivedFrame {
        match tokio::time::timeout(self.wait_limit(), self.find_frame(&fits)).await {
            Ok(Some(frame)) => frame,
            Ok(None) => self.panic_with_transcript(&format!("the connection ended before {what}")),
            Err(_) => self.panic_with_transcript(&format!("no {what}")),
        }
    }

    /// Searches from the cursor until a frame matches; `None` if the connection ends first.
    async fn find_frame(&self, fits: &impl Fn(&ReceivedFrame) -> bool) -> Option<ReceivedFrame> {
        let mut from = lock_mutex(&self.0.seen).cursor;
        loop {
            // The notification is registered before the search, so that a frame that arrives in
            // between is not missed.
            let arrived = self.0.arrived.notified();
            {
                let mut seen = lock_mutex(&self.0.seen);
                if let Some(place) =
                    seen.frames.get(from..).and_then(|rest| rest.iter().position(fits))
                {
                    seen.cursor = from + place + 1;
                    return Some(seen.frames[from + place].clone());
                }
                from = seen.frames.len();
                if seen.closed.is_some() {
                    return None;
                }
            }
            arrived.await;
        }
    }

    /// Waits for a `session/update` whose update matches.
    pub async fn expect_update(&self, what: &str, fits: impl Fn(&Value) -> bool) -> ReceivedFrame {
        self.expect(what, |frame| frame.update().is_some_and(&fits)).await
    }

    /// Waits for a message chunk with exactly this text.
    pub async fn expect_text(&self, text: &str) -> ReceivedFrame {
        self.expect(&format!("chunk {text:?}"), |frame| frame.chunk_text() == Some(text))
            .await
    }

    /// Waits for a request of the agent.
    pub async fn expect_request(&self, method: &str) -> ReceivedFrame {
        self.expect(&format!("request {method}"), |frame| {
            frame.is_request() && frame.method() == method
        })
        .await
    }

    /// Waits for a notification other than an update.
    pub async fn expect_notification(&self, method: &str) -> ReceivedFrame {
        self.expect(&format!("notification {method}"), |frame| {
            !frame.is_request() && frame.method() == method
        })
        .await
    }

    /// Waits until the connection has ended and returns the reason: `closed CODE REASON`, `lost: …`
    /// or `ended`.
    pub async fn wait_closed(&self) -> String {
        let _ = tokio::time::timeout(self.wait_limit(), self.find_frame(&|_| false)).await;
        let why = lock_mutex(&self.0.seen).closed.clone();
        why.unwrap_or_else(|| self.panic_with_transcript("the connection did not end"))
    }

    /// Closes the connection from this side.
    pub async fn close(&self) {
        let _ = self.0.sink.lock().await.close().await;
    }

    /// Returns every frame received so far.
    pub fn received_frames(&self) -> Vec<ReceivedFrame> {
        lock_mutex(&self.0.seen).frames.clone()
    }

    /// Returns the texts of all message chunks received so far, in order.
    pub fn chunk_texts(&self) -> Vec<String> {
        lock_mutex(&self.0.seen)
            .frames
            .iter()
            .filter_map(|frame| frame.chunk_text().map(str::to_owned))
            .collect()
    }

    fn panic_with_transcript(&self, why: &str) -> ! {
        let seen = lock_mutex(&self.0.seen);
        let last = seen.frames.iter().rev().take(25).rev();
        let lines: Vec<String> = last.map(|frame| frame.raw.chars().take(400).collect()).collect();
        let closed = seen.closed.as_deref().unwrap_or("open");
        let text = format!(
            "{why}\nconnection: {closed}; {} frames, the last:\n{}",
            seen.frames.len(),
            lines.join("\n")
        );
        drop(seen);
        panic!("{text}")
    }
}
