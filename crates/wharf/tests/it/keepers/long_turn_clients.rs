//! The clients of a long turn: each reconnects when the host is back and checks that it gets every
//! chunk once and in order.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};

use anyhow::{Context, Result, bail, ensure};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_tungstenite::tungstenite::Message;
use wharf_testkit::WAIT_LIMIT;
use wharf_testkit::agent_pipe::AgentPipe;
use wharf_testkit::client::{Credentials, RawSocket, connect};
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;

use crate::cwd;
use crate::raw_client;

/// The requests of the agent that the editor behind the bridge answers.
const EXTENSION_METHOD: &str = "_wharf_test/extension";

/// The chunks that a client has got: counted, checked for their order, and hashed to compare
/// clients.
#[derive(Debug, Default)]
pub(super) struct ChunkSequence {
    pub(super) count: u64,
    hasher: DefaultHasher,
}

impl ChunkSequence {
    fn push(&mut self, index: u64, content: &str) -> Result<()> {
        ensure!(index == self.count, "chunk {index} came where {} was due", self.count);
        self.count += 1;
        self.hasher.write(content.as_bytes());
        Ok(())
    }

    /// Takes a frame, if it is a numbered chunk. Event ids do not count for the comparison.
    fn push_frame(&mut self, frame: &str) -> Result<()> {
        let Some(index) = raw_client::index(frame) else { return Ok(()) };
        let update = frame.split_once(r#""update":"#).map_or(frame, |(_, update)| update);
        self.push(index, update)
    }

    pub(super) fn digest(&self) -> (u64, u64) {
        (self.count, self.hasher.finish())
    }
}

/// Reads the editor's side of the bridge until the prompt is answered. Returns the answer and the
/// chunks.
pub(super) fn follow_bridge(mut editor: AgentPipe, prompt: u64) -> Result<(Value, ChunkSequence)> {
    let mut chunks = ChunkSequence::default();
    loop {
        let line = editor.next_line().context("the bridge")?.context("the bridge has ended")?;
        editor.received.clear();
        let line = String::from_utf8(line)?;
        chunks.push_frame(&line).context("the bridge")?;
        if line.contains(EXTENSION_METHOD) {
            let request: Value = serde_json::from_str(&line)?;
            editor.send_result(&request["id"], json!({}))?;
        } else if raw_client::is_response(&line) {
            let answer: Value = serde_json::from_str(&line)?;
            if answer["id"] == prompt {
                return Ok((answer, chunks));
            }
        }
    }
}

/// A WebSocket client that loads the session once, and later attaches after the last event that it
/// has seen.
#[derive(Debug)]
pub(super) struct ReconnectingClient {
    session: String,
    last_event: Option<String>,
    /// The event after which this connection goes on.
    attached_after: Option<String>,
    pub(super) chunks: ChunkSequence,
    socket: Option<RawSocket>,
    /// Permissions that were asked and are not answered yet.
    pub(super) held_asks: Vec<Value>,
    next_id: u64,
    is_initialized: bool,
}

impl ReconnectingClient {
    pub(super) fn new(session: &str) -> Self {
        let session = session.to_owned();
        let chunks = ChunkSequence::default();
        Self {
            session,
            last_event: None,
            attached_after: None,
            chunks,
            socket: None,
            held_asks: Vec::new(),
            next_id: 1,
            is_initialized: false,
        }
    }

    pub(super) fn session(&self) -> &str {
        &self.session
    }

    pub(super) async fn reconnect(&mut self, host: &TestHost) -> Result<()> {
        let (socket, _) =
            connect(&host.ws_url(), &Credentials::Bearer(host.token().to_owned())).await?;
        self.socket = Some(socket);
        self.held_asks.clear();
        self.attached_after.clone_from(&self.last_event);
        let meta = json!({ "wharf": { "eventIds": true } });
        self.send(
            "initialize",
            json!({ "protocolVersion": 1, "clientCapabilities": {}, "_meta": meta }),
        )
        .await?;
        // Frames carry event ids only after this answer.
        self.is_initialized = false;
        while !self.is_initialized {
            ensure!(self.read_one().await?, "the connection ended before the answer to initialize");
        }
        match self.last_event.clone() {
            None => {
                let load =
                    json!({ "sessionId": self.session, "cwd": cwd(host)?, "mcpServers": [] });
                self.send("session/load", load).await
            }
            Some(event) => {
                let attach = json!({ "sessionId": self.session, "historyPolicy": "after_event", "afterEventId": event });
                self.send("session/attach", attach).await
            }
        }
    }

    pub(super) async fn send(&mut self, method: &str, params: Value) -> Result<()> {
        self.next_id += 1;
        let frame =
            json!({ "jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params });
        self.send_text(frame.to_string()).await
    }

    async fn send_text(&mut self, text: String) -> Result<()> {
        Ok(self.socket.as_mut().context("not connected")?.send(Message::text(text)).await?)
    }

    /// Answers the permissions that were held back.
    pub(super) async fn answer_asks(&mut self) -> Result<()> {
        for id in std::mem::take(&mut self.held_asks) {
            let result = json!({ "outcome": { "outcome": "selected", "optionId": "allow_once" } });
            self.send_text(json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string())
                .await?;
        }
        Ok(())
    }

    /// Reads until there are this many chunks. Permissions are answered unless they are held.
    pub(super) async fn read_until(&mut self, count: u64, holds_asks: bool) -> Result<()> {
        while self.chunks.count < count {
            ensure!(self.read_one().await?, "the connection ended at chunk {}", self.chunks.count);
            if !holds_asks {
                self.answer_asks().await?;
            }
        }
        Ok(())
    }

    /// Reads until a permission is open that is not answered.
    pub(super) async fn wait_for_ask(&mut self) -> Result<()> {
        while self.held_asks.is_empty() {
            ensure!(self.read_one().await?, "the connection ended before a permission was asked");
        }
        Ok(())
    }

    /// Reads what the host has sent before its end.
    pub(super) async fn read_rest(&mut self) -> Result<()> {
        while self.read_one().await? {}
        Ok(())
    }

    /// Takes one frame. Returns false at the end of the connection.
    pub(super) async fn read_one(&mut self) -> Result<bool> {
        let socket = self.socket.as_mut().context("not connected")?;
        let frame = match tokio::time::timeout(WAIT_LIMIT, socket.next())
            .await
            .context("the WebSocket is silent")?
        {
            Some(Ok(Message::Text(text))) => text,
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => return Ok(true),
            Some(Ok(Message::Binary(_))) => bail!("a binary frame"),
            Some(Ok(Message::Close(_)) | Err(_)) | None => return Ok(false),
        };
        let (attached, last) = (self.attached_after.clone(), self.last_event.clone());
        let taken = self.take_frame(&frame);
        taken.with_context(|| {
            format!("the WebSocket, attached after {attached:?}, last event {last:?}: {frame:.300}")
        })?;
        Ok(true)
    }

    fn take_frame(&mut self, frame: &str) -> Result<()> {
        self.chunks.push_frame(frame)?;
        let has_id = frame.contains(r#""eventId":""#);
        ensure!(has_id || raw_client::index(frame).is_none(), "a chunk without an event id");
        if let Some((_, rest)) = frame.split_once(r#""eventId":""#) {
            let (event, _) = rest.split_once('"').context("an event id without an end")?;
            self.last_event = Some(event.to_owned());
        }
        self.is_initialized |=
            raw_client::is_response(frame) && frame.contains(r#""protocolVersion""#);
        if frame.contains(r#""session/request_permission""#) {
            let ask: Value = serde_json::from_str(frame)?;
            self.held_asks.push(ask["id"].clone());
        }
        ensure!(
            !frame.contains(r#""historyPolicy":"full""#),
            "the host does not know the last event: {frame}"
        );
        Ok(())
    }
}

/// Follows the rows of a session over reconnects until the turn has ended. Returns the chunks in
/// their texts.
pub(super) async fn follow_rows(
    session: String,
    mut hosts: watch::Receiver<RestClient>,
) -> Result<ChunkSequence> {
    let mut rows = RowTexts::default();
    loop {
        let http = hosts.borrow_and_update().clone();
        let path = format!("/sessions/{session}/rows/stream");
        if let Ok(mut events) = http.open_stream(&path, rows.position.as_deref()).await {
            while let Ok(Some(event)) = events.next().await {
                rows.apply(&event.name, &event.data)
                    .with_context(|| format!("the rows, {}", event.name))?;
                if event.id.is_some() {
                    rows.commit(event.id);
                    if rows.has_ended {
                        return rows.into_chunks();
                    }
                }
            }
        }
        // The host that was followed is gone. A batch that was cut off comes again.
        rows.roll_back();
        hosts.changed().await.context("the rows: no further host")?;
    }
}

/// The texts of the agent's messages, as a reader of the rows has them.
#[derive(Debug, Default)]
struct RowTexts {
    messages: BTreeMap<(u64, u64), String>,
    /// Changes since the last complete batch, which a lost connection takes back.
    undo: Vec<((u64, u64), Option<usize>)>,
    position: Option<String>,
    has_ended: bool,
}

impl RowTexts {
    fn apply(&mut self, name: &str, data: &Value) -> Result<()> {
        match name {
            "page" => {
                ensure!(self.position.is_none(), "the stream began anew");
                for row in data["rows"].as_array().context("no rows")? {
                    self.put_row(row)?;
                }
            }
            "row" => self.put_row(data)?,
            "append" => {
                let place = row_place(data["id"].as_str().context("no id")?);
                let text = self
                    .messages
                    .get_mut(&place)
                    .context("an append to a row that is not there")?;
                self.undo.push((place, Some(text.len())));
                text.push_str(data["text"].as_str().context("no text")?);
            }
            "reset" => bail!("the stream was reset"),
            _ => {}
        }
        Ok(())
    }

    fn put_row(&mut self, row: &Value) -> Result<()> {
        self.has_ended |= row["kind"] == "turn_end";
        if row["kind"] == "message" {
            let place = row_place(row["id"].as_str().context("no id")?);
            let parts = row["parts"].as_array().context("no parts")?;
            let text: String = parts.iter().filter_map(|part| part["text"].as_str()).collect();
            let known = self.messages.entry(place).or_default();
            ensure!(
                text.starts_with(known.as_str()),
                "a row has lost text: {} to {} bytes",
                known.len(),
                text.len()
            );
            self.undo.push((place, Some(known.len())));
            *known = text;
        }
        Ok(())
    }

    fn commit(&mut self, position: Option<String>) {
        self.position = position;
        self.undo.clear();
    }

    fn roll_back(&mut self) {
        for (place, length) in std::mem::take(&mut self.undo).into_iter().rev() {
            if let (Some(text), Some(length)) = (self.messages.get_mut(&place), length) {
                text.truncate(length);
            }
        }
    }

    fn into_chunks(self) -> Result<ChunkSequence> {
        let mut chunks = ChunkSequence::default();
        let text: String = self.messages.into_values().collect();
        for line in text.lines() {
            let index = line
                .split(' ')
                .next()
                .and_then(|number| number.parse().ok())
                .context("not a chunk")?;
            chunks.push(index, line).context("the rows")?;
        }
        Ok(chunks)
    }
}

/// Returns the place of a row in the transcript.
fn row_place(id: &str) -> (u64, u64) {
    let (_, rest) = id.split_once('-').unwrap_or_default();
    let (seq, number) = rest.split_once('.').unwrap_or((rest, "1"));
    (seq.parse().unwrap_or_default(), number.parse().unwrap_or_default())
}
