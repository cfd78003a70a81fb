//! A client over Streamable HTTP that behaves as official ones do: a POST for each message, a
//! stream for the connection, and one for each session that it names or is given.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use serde_json::Value;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use wharf_testkit::client::{FrameSink, TestClient};
use wharf_testkit::host::TestHost;

use crate::http_client::{AcpEventStream, AcpHttpClient, AcpStreamEvent};

/// The number of unread frames at which the streams stop reading.
const MAX_UNREAD_FRAMES: usize = 64;

/// A stream is closed after this many events at the earliest and resumed after its last id, which
/// must not be noticeable.
const CUT_AFTER_EVENTS: u64 = 11;
/// The longest allowed silence of a stream, which sends keep-alives.
const MAX_STREAM_SILENCE: Duration = Duration::from_secs(60);

/// Connects with the first message, which must be `initialize`.
pub(super) fn connect_http(host: &TestHost, token: &str) -> TestClient {
    let (arrived, incoming) = channel(MAX_UNREAD_FRAMES);
    let http = AcpHttpClient::new(host, token);
    let line = HttpConnection {
        http,
        open: Arc::default(),
        replays: Arc::default(),
        switching: Arc::default(),
        arrived,
    };
    let posts = PostedMessages { line };
    let next = |mut incoming: Receiver<_>| async move {
        incoming.recv().await.map(|item| (item, incoming))
    };
    TestClient::from_transport(Box::new(posts), stream::unfold(incoming, next).boxed())
}

/// The requests for a replay of a session that have not been answered, by their ids.
///
/// A stream is not interrupted while its session is replayed. Only a limited number of bytes is
/// kept for a reader that comes back, and the host sends on while the client closes: a replay may
/// go past that limit, and the stream would be refused.
#[derive(Debug, Default)]
struct ReplayRequests {
    unanswered: HashMap<String, String>,
    /// The sessions whose replay comes after the answer, so that its end cannot be seen.
    endless: HashSet<String>,
}

impl ReplayRequests {
    /// Notes the message if it asks for a replay.
    fn note_request(&mut self, message: &Value) {
        let Some(session) = message["params"]["sessionId"].as_str() else { return };
        match message["method"].as_str() {
            Some("session/attach") => drop(self.endless.insert(session.to_owned())),
            Some("session/load" | "session/resume") => {
                self.unanswered.insert(message["id"].to_string(), session.to_owned());
            }
            _ => {}
        }
    }

    fn note_answer(&mut self, message: &Value) {
        if message.get("method").is_none() {
            self.unanswered.remove(&message["id"].to_string());
        }
    }

    fn is_replaying(&self, session: &str) -> bool {
        self.endless.contains(session)
            || self.unanswered.values().any(|replayed| replayed == session)
    }
}

/// The connection as both sides see it.
#[derive(Clone)]
struct HttpConnection {
    http: AcpHttpClient,
    /// The sessions that have a stream.
    open: Arc<Mutex<HashSet<String>>>,
    replays: Arc<Mutex<ReplayRequests>>,
    /// Held while a stream is opened again, and while a request for a replay is sent: such a
    /// request between the look at `replays` and the new stream would fill what the host keeps.
    switching: Arc<tokio::sync::Mutex<()>>,
    arrived: Sender<Result<String, String>>,
}

impl HttpConnection {
    /// Opens the session's stream if it is not open.
    fn follow_session<'a>(&'a self, session: &'a str) -> BoxFuture<'a, Result<()>> {
        async move {
            let is_new = self
                .open
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(session.to_owned());
            if is_new {
                let events = self.http.open_stream(Some(session), None).await?;
                tokio::spawn(self.clone().read_events(events, Some(session.to_owned())));
            }
            Ok(())
        }
        .boxed()
    }

    /// Forwards the events of a stream. The end of the connection's own stream is the end of the
    /// connection.
    async fn read_events(self, mut events: AcpEventStream, session: Option<String>) {
        let mut count = 0_u64;
        let why = loop {
            events.patience = MAX_STREAM_SILENCE;
            let event = match events.next().await {
                Ok(Some(event)) => event,
                Ok(None) => break "ended".to_owned(),
                Err(error) => break format!("lost: {error:#}"),
            };
            if let Err(error) = self.hand_on(event).await {
                break format!("lost: {error:#}");
            }
            count += 1;
            if count < CUT_AFTER_EVENTS || !events.is_caught_up() {
                continue;
            }
            let switching = self.switching.lock().await;
            if !self.is_replaying(session.as_deref()) {
                count = 0;
                events =
                    match self.http.open_stream(session.as_deref(), events.last.as_deref()).await {
                        Ok(again) => again,
                        Err(error) => break format!("lost after {:?}: {error:#}", events.last),
                    };
            }
            drop(switching);
        };
        // The loss of a session's stream while the connection lives is a failure; its end goes with
        // the connection's.
        if session.is_none() || why.starts_with("lost") {
            let _ = self.arrived.send(Err(why)).await;
        }
    }

    fn is_replaying(&self, session: Option<&str>) -> bool {
        session.is_some_and(|session| self.lock_replays().is_replaying(session))
    }

    fn lock_replays(&self) -> MutexGuard<'_, ReplayRequests> {
        self.replays.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn hand_on(&self, event: AcpStreamEvent) -> Result<()> {
        self.lock_replays().note_answer(&event.data);
        if let Some(session) = event.data["result"]["sessionId"].as_str() {
            self.follow_session(session).await?;
        }
        Ok(self.arrived.send(Ok(event.raw)).await?)
    }
}

struct PostedMessages {
    line: HttpConnection,
}

impl PostedMessages {
    async fn connect(&mut self, text: &str) -> Result<()> {
        let answer = self.line.http.post_text(text).await?;
        ensure!(answer.status == 200, "{answer:?}");
        self.line.http.connection =
            Some(answer.header("acp-connection-id").context("no connection id")?.to_owned());
        let own = self.line.http.open_stream(None, None).await?;
        tokio::spawn(self.line.clone().read_events(own, None));
        Ok(self.line.arrived.send(Ok(answer.body)).await?)
    }
}

impl FrameSink for PostedMessages {
    fn send(&mut self, text: String) -> BoxFuture<'_, Result<()>> {
        async move {
            if self.line.http.connection.is_none() {
                return self.connect(&text).await;
            }
            let message = wharf_json::Json::parse(text.as_bytes())
                .map_or(Value::Null, wharf_json::Json::to_value);
            if let Some(session) =
                message["params"]["sessionId"].as_str().filter(|id| id.starts_with("sess_"))
            {
                self.line.follow_session(session).await?;
            }
            let switching = self.line.switching.lock().await;
            self.line.lock_replays().note_request(&message);
            let answer = self.line.http.post_text(&text).await?;
            drop(switching);
            // A message that cannot be read is refused in the body.
            if answer.status == 400 && answer.json()["jsonrpc"] == "2.0" {
                return Ok(self.line.arrived.send(Ok(answer.body)).await?);
            }
            ensure!(answer.status == 202, "{answer:?}");
            Ok(())
        }
        .boxed()
    }

    fn close(&mut self) -> BoxFuture<'_, Result<()>> {
        async move {
            let answer = self.line.http.send_http("DELETE", &[], "").await?;
            ensure!(answer.status == 202, "{answer:?}");
            Ok(())
        }
        .boxed()
    }
}

/// Prompts whose texts together are far more than the host keeps for a reader that comes back.
const LONG_PROMPTS: usize = 160;
const PROMPT_BYTES: usize = 8_000;

#[tokio::test]
async fn replay_that_is_longer_than_the_kept_messages_is_not_interrupted() -> Result<()> {
    let host = crate::scripted_host(&[])?.start_host()?;
    let (writer, session) = crate::open_session(&host).await?;
    let filling = "x".repeat(PROMPT_BYTES);
    for number in 0..LONG_PROMPTS {
        writer.send_prompt(&session, &format!("echo {number}; think {filling}")).await?;
    }
    let wish = serde_json::json!({ "wharf": { "multiClientUpdates": true } });
    let reader = super::Transport::Http.client(&host, wish).await?;
    reader.load_session(&session, &crate::cwd(&host)?).await?;
    let numbers: Vec<String> = (0..LONG_PROMPTS).map(|number| number.to_string()).collect();
    assert_eq!(reader.chunk_texts(), numbers);
    Ok(())
}
