//! Streamable HTTP over HTTP/2 by prior knowledge: one socket carries all streams and requests.

use ::bytes::Bytes;
use anyhow::{Context, Result, ensure};
use h2::RecvStream;
use h2::client::SendRequest;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::http::{HeaderMap, Request, StatusCode};
use wharf_testkit::WAIT_LIMIT;
use wharf_testkit::host::TestHost;

use crate::http_client::initialize_message;
use crate::{cwd, scripted_host};

struct Http2Client<'h> {
    host: &'h TestHost,
    requests: SendRequest<Bytes>,
    connection: Option<String>,
}

impl Http2Client<'_> {
    async fn send_http(
        &mut self,
        method: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> Result<(StatusCode, HeaderMap, RecvStream)> {
        let mut request = Request::builder().method(method).uri(format!("{}/acp", self.host.url()));
        request = request.header("authorization", format!("Bearer {}", self.host.token()));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(connection) = &self.connection {
            request = request.header("acp-connection-id", connection);
        }
        let mut ready = self.requests.clone().ready().await?;
        let (answer, mut sending) = ready.send_request(request.body(())?, body.is_empty())?;
        if !body.is_empty() {
            sending.send_data(body.into(), true)?;
        }
        let (head, body) = tokio::time::timeout(WAIT_LIMIT, answer).await??.into_parts();
        Ok((head.status, head.headers, body))
    }

    async fn post(&mut self, message: &Value) -> Result<(StatusCode, HeaderMap, RecvStream)> {
        self.send_http("POST", &[("content-type", "application/json")], message.to_string())
            .await
    }

    async fn send(&mut self, id: u64, method: &str, params: Value) -> Result<()> {
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let (status, ..) = self.post(&message).await?;
        ensure!(status == 202, "{status}");
        Ok(())
    }
}

/// Reads a stream until the answer to this request; returns everything before it and the answer.
async fn read_until_answer(stream: &mut RecvStream, id: u64) -> Result<(String, Value)> {
    let mut text = String::new();
    let mut looked_at = 0;
    loop {
        let chunk = tokio::time::timeout(WAIT_LIMIT, stream.data())
            .await?
            .context("the stream ended")??;
        stream.flow_control().release_capacity(chunk.len())?;
        text.push_str(std::str::from_utf8(&chunk)?);
        let complete = text[looked_at..]
            .split_inclusive("\n\n")
            .filter(|event| event.ends_with("\n\n"));
        for data in complete.filter_map(|event| event.split_once("data: ")).map(|(_, data)| data) {
            let message: Value = serde_json::from_str(data)?;
            if message["id"] == id && message.get("method").is_none() {
                return Ok((text, message));
            }
        }
        looked_at = text.rfind("\n\n").map_or(0, |end| end + 2);
    }
}

#[tokio::test]
async fn a_client_works_over_http2_by_prior_knowledge() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let socket = TcpStream::connect(host.url().trim_start_matches("http://")).await?;
    let (requests, connection) = h2::client::handshake(socket).await?;
    tokio::spawn(connection);
    let mut client = Http2Client { host: &host, requests, connection: None };
    let (status, headers, _) = client.post(&initialize_message()).await?;
    assert_eq!(status, 200);
    client.connection = Some(headers["acp-connection-id"].to_str()?.to_owned());

    let events = ("accept", "text/event-stream");
    let (status, _, mut own) = client.send_http("GET", &[events], String::new()).await?;
    assert_eq!(status, 200);
    client
        .send(1, "session/new", json!({ "cwd": cwd(&host)?, "mcpServers": [] }))
        .await?;
    let (_, opened) = read_until_answer(&mut own, 1).await?;
    let session = opened["result"]["sessionId"].as_str().context(opened.to_string())?;
    let both = [events, ("acp-session-id", session)];
    let (status, headers, mut stream) = client.send_http("GET", &both, String::new()).await?;
    assert_eq!((status, headers["content-type"].to_str()?), (StatusCode::OK, "text/event-stream"));

    let prompt = json!([{ "type": "text", "text": "stream 2000 300" }]);
    client
        .send(2, "session/prompt", json!({ "sessionId": session, "prompt": prompt }))
        .await?;
    let (text, answer) = read_until_answer(&mut stream, 2).await?;
    assert_eq!(answer["result"]["stopReason"], "end_turn");
    assert_eq!(text.matches("agent_message_chunk").count(), 2000);
    let (status, ..) = client.send_http("DELETE", &[], String::new()).await?;
    assert_eq!(status, 202);
    let rest = tokio::time::timeout(WAIT_LIMIT, stream.data())
        .await
        .context("its streams do not end")?;
    assert!(rest.is_none_or(|rest| rest.is_ok_and(|rest| rest.is_empty())));
    Ok(())
}
