//! Clients that use the host while it is killed. Each one remembers the records that it received
//! and resumes when the host is back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use tokio::sync::Notify;
use wharf_testkit::client::{ReceivedFrame, TestClient};
use wharf_testkit::host::TestHost;
use wharf_testkit::http::{RestAnswer, RestClient, TestEventStream};
use wharf_testkit::random::TestRandom;

use crate::cwd;

/// Prompts of one client in one round.
const PROMPTS_PER_ROUND: u64 = 5;

/// Counts the events that all clients together have seen in this round.
#[derive(Debug, Default)]
pub(super) struct SeenEvents {
    count: AtomicU64,
    more: Notify,
}

impl SeenEvents {
    fn count_one(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.more.notify_waiters();
    }

    /// Marks that no more events will follow.
    pub(super) fn mark_finished(&self) {
        self.count.store(u64::MAX / 2, Ordering::SeqCst);
        self.more.notify_waiters();
    }

    /// Returns when this many events have been seen.
    pub(super) async fn wait_for_count(&self, wanted: u64) {
        loop {
            let more = self.more.notified();
            if self.count.load(Ordering::SeqCst) >= wanted {
                return;
            }
            more.await;
        }
    }
}

/// Sends prompts over REST. A prompt that was not acknowledged is sent again under the same key.
#[derive(Debug)]
pub(super) struct PromptSender {
    pub(super) session: String,
    pub(super) acknowledged: Vec<String>,
    unsure: Option<String>,
    sent: u64,
}

impl PromptSender {
    pub(super) fn new(session: String) -> Self {
        Self { session, acknowledged: Vec::new(), unsure: None, sent: 0 }
    }

    /// Sends prompts until the host is gone or the round's prompts are sent.
    pub(super) async fn run_round(
        &mut self,
        http: &RestClient,
        seen: &SeenEvents,
        mut dice: TestRandom,
    ) -> Result<()> {
        for _ in 0..PROMPTS_PER_ROUND {
            let text = self.unsure.take().unwrap_or_else(|| {
                self.sent += 1;
                format!("stream {} 20; echo {}-{}", dice.next_below(30), self.session, self.sent)
            });
            let path = format!("/sessions/{}/prompt", self.session);
            let answer = http
                .post_with(
                    &path,
                    ("idempotency-key", &text),
                    &json!({ "prompt": text, "queue": true }),
                )
                .await;
            match complete_answer(answer) {
                None => {
                    self.unsure = Some(text);
                    return Ok(());
                }
                // A full queue refuses a prompt and records nothing. Short rounds add prompts
                // faster than the agent takes them.
                Some(answer) if answer.status == 429 && answer.body.contains("queue_full") => {
                    self.unsure = Some(text);
                    return Ok(());
                }
                Some(answer) => {
                    ensure!(answer.status == 200, "{} {}", answer.status, answer.body);
                    self.acknowledged.push(text);
                    seen.count_one();
                }
            }
        }
        Ok(())
    }
}

/// Returns an answer that was received completely. An incomplete answer is not an acknowledgement.
fn complete_answer(answer: Result<RestAnswer>) -> Option<RestAnswer> {
    let answer = answer.ok()?;
    let length: usize = answer.header("content-length").and_then(|length| length.parse().ok())?;
    (answer.body.len() == length).then_some(answer)
}

/// Reads a session's event stream and always resumes after the last event.
#[derive(Debug)]
pub(super) struct StreamReader {
    pub(super) session: String,
    /// The id and the whole event.
    pub(super) events: Vec<(String, String)>,
}

impl StreamReader {
    pub(super) fn new(session: String) -> Self {
        Self { session, events: Vec::new() }
    }

    pub(super) async fn run_round(&mut self, http: &RestClient, seen: &SeenEvents) -> Result<()> {
        // Another client has woken the session: the stream of an ended session would end.
        seen.wait_for_count(1).await;
        let last = self.events.last().map(|(id, _)| id.clone());
        let path = format!("/sessions/{}/stream", self.session);
        // A refused or interrupted request means that the host is gone.
        let Ok(mut stream) = http.open_stream(&path, last.as_deref()).await else { return Ok(()) };
        while let Some(event) = next_text(&mut stream).await {
            self.events.push(event);
            seen.count_one();
        }
        Ok(())
    }
}

pub(super) async fn next_text(stream: &mut TestEventStream) -> Option<(String, String)> {
    let event = stream.next().await.ok()??;
    Some((event.id?, format!("{} {}", event.name, event.data)))
}

/// Uses a session over a WebSocket: prompts, answers permissions, sometimes drops its connection.
#[derive(Debug)]
pub(super) struct WebSocketEditor {
    pub(super) session: String,
    /// The id and the frame as received.
    pub(super) frames: Vec<(String, String)>,
    /// The prompts whose end it received.
    pub(super) ended: Vec<String>,
    sent: u64,
}

impl WebSocketEditor {
    pub(super) fn new(session: String) -> Self {
        Self { session, frames: Vec::new(), ended: Vec::new(), sent: 0 }
    }

    pub(super) async fn run_round(
        &mut self,
        host: &TestHost,
        seen: &Arc<SeenEvents>,
        mut dice: TestRandom,
    ) -> Result<()> {
        for _ in 0..2 {
            let Ok(client) = TestClient::connect(&host.ws_url(), host.token()).await else {
                return Ok(());
            };
            let count = Arc::clone(seen);
            let allow = json!({ "outcome": { "outcome": "selected", "optionId": "allow_once" } });
            client.respond_with(move |frame| {
                count.count_one();
                (frame.method() == "session/request_permission").then(|| Ok(allow.clone()))
            });
            let worked = self.run_on_connection(&client, host, seen, &mut dice).await;
            client.close().await;
            client.wait_closed().await;
            self.keep_frames(&client);
            if !worked? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Works on one connection. Returns false if the connection was lost.
    async fn run_on_connection(
        &mut self,
        client: &TestClient,
        host: &TestHost,
        seen: &SeenEvents,
        dice: &mut TestRandom,
    ) -> Result<bool> {
        let mut join = json!({ "sessionId": self.session, "cwd": cwd(host)?, "mcpServers": [], "historyPolicy": "none" });
        if let Some((last, _)) = self.frames.last() {
            join["historyPolicy"] = "after_event".into();
            join["afterEventId"] = last.as_str().into();
        }
        match client.start_request("session/attach", join).await.wait_answer_or_lost().await {
            None => return Ok(false),
            Some(Ok(_)) => {}
            // The session's agent was killed while it came back.
            Some(Err(error)) if error.data["reason"] == "start_failed" => return Ok(false),
            Some(Err(error)) => return Err(error).context("attaching"),
        }
        for _ in 0..PROMPTS_PER_ROUND {
            self.sent += 1;
            let text = format!(
                "echo a; ask; stream {} 20; echo {}-{}",
                dice.next_below(30),
                self.session,
                self.sent
            );
            let call = client.start_prompt(&self.session, &text).await;
            match call.wait_answer_or_lost().await {
                None => return Ok(false),
                // A turn may end with its agent, since agents are killed too.
                Some(_) => self.ended.push(text),
            }
            seen.count_one();
        }
        Ok(true)
    }

    fn keep_frames(&mut self, client: &TestClient) {
        self.frames.extend(logged_updates(client, &self.session));
    }
}

/// Returns the updates that come from the log, with their ids. Announcements of clients that come
/// and go are no events.
pub(super) fn logged_updates(client: &TestClient, session: &str) -> Vec<(String, String)> {
    let frames = client.received_frames().into_iter().filter(|frame| frame.update().is_some());
    let frames = frames.filter(|frame| frame.params()["sessionId"] == session);
    frames.filter_map(|frame| Some((event_id(&frame)?, frame.raw))).collect()
}

fn event_id(frame: &ReceivedFrame) -> Option<String> {
    frame.params()["_meta"]["wharf"]["eventId"].as_str().map(str::to_owned)
}

/// Starts sessions. Each one has a key and is repeated until it is acknowledged.
#[derive(Debug, Default)]
pub(super) struct SessionStarter {
    /// The labels of the acknowledged sessions.
    pub(super) started: Vec<String>,
    unsure: Option<String>,
}

impl SessionStarter {
    pub(super) async fn run_round(
        &mut self,
        host: &TestHost,
        http: &RestClient,
        seen: &SeenEvents,
        wants_another: bool,
    ) -> Result<()> {
        let next = || wants_another.then(|| format!("started-{}", self.started.len()));
        let Some(label) = self.unsure.take().or_else(next) else { return Ok(()) };
        let body = json!({ "adapter": "scripted", "cwd": cwd(host)?, "label": label });
        let answer = http.post_with("/sessions/agent", ("idempotency-key", &label), &body).await;
        let Some(answer) = complete_answer(answer) else {
            self.unsure = Some(label);
            return Ok(());
        };
        let id = match answer.status {
            200 | 201 => "id",
            // The session's agent was killed while it started.
            502 => "sessionId",
            _ => bail!("{} {}", answer.status, answer.body),
        };
        seen.count_one();
        self.started.push(label);
        let id = answer.json()[id].as_str().context("no id")?.to_owned();
        let _ = http.post_empty(&format!("/sessions/{id}/kill")).await;
        Ok(())
    }
}
