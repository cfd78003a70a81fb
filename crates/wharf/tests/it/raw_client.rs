//! A client that reads only on request and keeps nothing: for floods, and for sockets that are not
//! TCP.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use wharf_testkit::WAIT_LIMIT;
use wharf_testkit::client::{Credentials, RawSocket, connect};
use wharf_testkit::host::TestHost;

/// One connection.
#[derive(Debug)]
pub(crate) struct RawClient(RawSocket);

impl RawClient {
    /// Connects and sends `initialize`.
    pub(crate) async fn open(host: &TestHost) -> Result<Self> {
        Self::initialized(host, json!({})).await
    }

    /// Connects and asks for event ids in frames.
    pub(crate) async fn with_event_ids(host: &TestHost) -> Result<Self> {
        Self::initialized(host, json!({ "wharf": { "eventIds": true } })).await
    }

    async fn initialized(host: &TestHost, meta: Value) -> Result<Self> {
        let (socket, _) =
            connect(&host.ws_url(), &Credentials::Bearer(host.token().to_owned())).await?;
        let mut wire = Self(socket);
        let params = json!({ "protocolVersion": 1, "clientCapabilities": {}, "_meta": meta });
        wire.send(0, "initialize", params).await?;
        wire.answer(0).await?;
        Ok(wire)
    }

    pub(crate) async fn send(&mut self, id: u64, method: &str, params: Value) -> Result<()> {
        let frame = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        Ok(self.0.send(Message::text(frame.to_string())).await?)
    }

    pub(crate) async fn new_session(&mut self, cwd: &str) -> Result<String> {
        self.send(1, "session/new", json!({ "cwd": cwd, "mcpServers": [] })).await?;
        let opened = self.answer(1).await?;
        opened["result"]["sessionId"]
            .as_str()
            .map(str::to_owned)
            .with_context(|| opened.to_string())
    }

    pub(crate) async fn send_prompt(&mut self, id: u64, session: &str, text: &str) -> Result<()> {
        let prompt = json!([{ "type": "text", "text": text }]);
        self.send(id, "session/prompt", json!({ "sessionId": session, "prompt": prompt }))
            .await
    }

    pub(crate) async fn load_session(&mut self, id: u64, session: &str, cwd: &str) -> Result<()> {
        self.send(id, "session/load", json!({ "sessionId": session, "cwd": cwd, "mcpServers": [] }))
            .await
    }

    /// Returns the next frame; `None` when the connection has ended, with a close frame or without.
    pub(crate) async fn next(&mut self) -> Result<Option<String>> {
        self.next_within(WAIT_LIMIT).await
    }

    pub(crate) async fn next_within(&mut self, limit: Duration) -> Result<Option<String>> {
        loop {
            match tokio::time::timeout(limit, self.0.next()).await.context("nothing came")? {
                Some(Ok(Message::Text(text))) => return Ok(Some(text.as_str().to_owned())),
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Ok(Message::Binary(_))) => bail!("a binary frame"),
                Some(Ok(Message::Close(_)) | Err(_)) | None => return Ok(None),
            }
        }
    }

    /// Reads until this request is answered.
    pub(crate) async fn answer(&mut self, id: u64) -> Result<Value> {
        while let Some(frame) = self.next().await? {
            if is_response(&frame) {
                let response: Value = serde_json::from_str(&frame)?;
                if response["id"] == id {
                    return Ok(response);
                }
            }
        }
        bail!("the connection ended before the answer to {id}")
    }
}

/// Returns true if the frame is a response, without parsing all of it.
pub(crate) fn is_response(frame: &str) -> bool {
    !frame.contains("\"method\":\"")
}

/// Returns the number at the start of a chunk of the scripted agent's `stream` or `burst`.
pub(crate) fn index(frame: &str) -> Option<u64> {
    let (_, text) = frame
        .split_once("agent_message_chunk")
        .and_then(|_| frame.split_once("\"text\":\""))?;
    let digits = text.find(|character: char| !character.is_ascii_digit())?;
    text[..digits].parse().ok()
}
