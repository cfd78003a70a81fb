//! A client over Streamable HTTP: plain HTTP/1.1 with one socket per request, so that tests see the
//! bytes themselves.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use wharf_testkit::WAIT_LIMIT;
use wharf_testkit::host::TestHost;

/// A client with its connection id, if it has one.
#[derive(Clone, Debug)]
pub(crate) struct AcpHttpClient {
    authority: String,
    token: String,
    pub(crate) connection: Option<String>,
}

/// A complete response.
#[derive(Debug)]
pub(crate) struct AcpHttpAnswer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl AcpHttpAnswer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }
}

/// One server-sent event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AcpStreamEvent {
    pub(crate) id: String,
    /// The data as received.
    pub(crate) raw: String,
    pub(crate) data: Value,
}

impl AcpStreamEvent {
    /// Returns the number at the start of a chunk of the scripted agent's `stream`.
    pub(crate) fn index(&self) -> Option<u64> {
        self.text()?.split(' ').next()?.parse().ok()
    }

    pub(crate) fn text(&self) -> Option<&str> {
        let update = &self.data["params"]["update"];
        update["content"]["text"]
            .as_str()
            .filter(|_| update["sessionUpdate"] == "agent_message_chunk")
    }
}

impl AcpHttpClient {
    pub(crate) fn new(host: &TestHost, token: &str) -> Self {
        let authority = host.url().trim_start_matches("http://").to_owned();
        Self { authority, token: token.to_owned(), connection: None }
    }

    /// Connects a client and sends `initialize_message`.
    pub(crate) async fn open(host: &TestHost) -> Result<Self> {
        let mut http = Self::new(host, host.token());
        let answer = http.post(&initialize_message()).await?;
        ensure!(answer.status == 200, "{answer:?}");
        http.connection = answer.header("acp-connection-id").map(str::to_owned);
        Ok(http)
    }

    /// Creates a session and opens both streams.
    pub(crate) async fn session(
        &self,
        host: &TestHost,
    ) -> Result<(AcpEventStream, AcpEventStream, String)> {
        let mut own = self.open_stream(None, None).await?;
        let params = json!({ "cwd": crate::cwd(host)?, "mcpServers": [] });
        self.send(1, "session/new", params).await?;
        let opened = own.answer(1).await?;
        let session = opened["result"]["sessionId"]
            .as_str()
            .with_context(|| opened.to_string())?
            .to_owned();
        let events = self.open_stream(Some(&session), None).await?;
        Ok((own, events, session))
    }

    pub(crate) async fn post(&self, message: &Value) -> Result<AcpHttpAnswer> {
        self.post_text(&message.to_string()).await
    }

    /// Sends a message exactly as written.
    pub(crate) async fn post_text(&self, text: &str) -> Result<AcpHttpAnswer> {
        self.send_http("POST", &[("content-type", "application/json")], text).await
    }

    /// Sends a request, which must be accepted.
    pub(crate) async fn send(&self, id: u64, method: &str, params: Value) -> Result<()> {
        self.deliver_message(
            &json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }),
        )
        .await
    }

    /// Sends a message that must be accepted with 202 and an empty body.
    pub(crate) async fn deliver_message(&self, message: &Value) -> Result<()> {
        let answer = self.post(message).await?;
        ensure!(answer.status == 202 && answer.body.is_empty(), "{answer:?}");
        Ok(())
    }

    pub(crate) async fn send_prompt(&self, id: u64, session: &str, text: &str) -> Result<()> {
        let prompt = json!([{ "type": "text", "text": text }]);
        self.send(id, "session/prompt", json!({ "sessionId": session, "prompt": prompt }))
            .await
    }

    pub(crate) async fn load_session(&self, id: u64, session: &str, host: &TestHost) -> Result<()> {
        let params = json!({ "sessionId": session, "cwd": crate::cwd(host)?, "mcpServers": [] });
        self.send(id, "session/load", params).await
    }

    /// Sends any request, with the token and the connection id.
    pub(crate) async fn send_http(
        &self,
        method: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Result<AcpHttpAnswer> {
        let (mut stream, status, headers) = self.exchange_head(method, headers, body).await?;
        let mut body = Vec::new();
        tokio::time::timeout(WAIT_LIMIT, stream.read_to_end(&mut body))
            .await
            .context("the response does not end")??;
        Ok(AcpHttpAnswer { status, headers, body: String::from_utf8(body)? })
    }

    /// Opens the stream of the connection or of a session, after the given event.
    pub(crate) async fn open_stream(
        &self,
        session: Option<&str>,
        last: Option<&str>,
    ) -> Result<AcpEventStream> {
        let mut headers = vec![("accept", "text/event-stream")];
        headers.extend(session.map(|session| ("acp-session-id", session)));
        headers.extend(last.map(|last| ("last-event-id", last)));
        let (stream, status, headers) = self.exchange_head("GET", &headers, "").await?;
        ensure!(status == 200, "the stream was refused with {status}");
        ensure!(
            headers.contains(&("content-type".to_owned(), "text/event-stream".to_owned())),
            "{headers:?}"
        );
        Ok(AcpEventStream {
            stream,
            text: String::new(),
            ready: VecDeque::new(),
            last: last.map(str::to_owned),
            patience: WAIT_LIMIT,
        })
    }

    async fn exchange_head(
        &self,
        method: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Result<(BufReader<TcpStream>, u16, Vec<(String, String)>)> {
        let mut stream = TcpStream::connect(&self.authority).await?;
        let mut head =
            format!("{method} /acp HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n", self.authority);
        head.push_str(&format!(
            "authorization: Bearer {}\r\ncookie: seen=1; other=2\r\n",
            self.token
        ));
        if let Some(connection) = &self.connection {
            head.push_str(&format!("acp-connection-id: {connection}\r\n"));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            head.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        stream.write_all(format!("{head}\r\n{body}").as_bytes()).await?;
        let mut stream = BufReader::new(stream);
        let status = split_line(&mut stream, WAIT_LIMIT).await?;
        let status = status
            .split(' ')
            .nth(1)
            .and_then(|code| code.parse().ok())
            .context(status.clone())?;
        let mut headers = Vec::new();
        loop {
            let line = split_line(&mut stream, WAIT_LIMIT).await?;
            let Some((name, value)) = line.split_once(": ") else {
                return Ok((stream, status, headers));
            };
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
    }
}

async fn split_line(stream: &mut BufReader<TcpStream>, limit: Duration) -> Result<String> {
    let mut line = String::new();
    tokio::time::timeout(limit, stream.read_line(&mut line))
        .await
        .context("nothing came")??;
    Ok(line.trim_end().to_owned())
}

pub(crate) fn initialize_message() -> Value {
    let info = json!({ "name": "raw-http", "version": "1" });
    let params = json!({ "protocolVersion": 1, "clientCapabilities": {}, "clientInfo": info });
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params })
}

/// An open event stream. Dropping it closes its socket.
#[derive(Debug)]
pub(crate) struct AcpEventStream {
    stream: BufReader<TcpStream>,
    text: String,
    ready: VecDeque<AcpStreamEvent>,
    /// The id of the last event that was returned.
    pub(crate) last: Option<String>,
    /// The longest allowed silence.
    pub(crate) patience: Duration,
}

impl AcpEventStream {
    /// Returns the next event; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Result<Option<AcpStreamEvent>> {
        while self.ready.is_empty() {
            let size =
                usize::from_str_radix(&split_line(&mut self.stream, self.patience).await?, 16)
                    .unwrap_or(0);
            if size == 0 {
                return Ok(None);
            }
            let mut chunk = vec![0; size + 2];
            tokio::time::timeout(WAIT_LIMIT, self.stream.read_exact(&mut chunk))
                .await
                .context("a chunk was cut")??;
            self.text.push_str(std::str::from_utf8(&chunk[..size])?);
            while let Some((event, rest)) = self.text.split_once("\n\n") {
                self.ready.extend(parse_event(event)?);
                self.text = rest.to_owned();
            }
        }
        let event = self.ready.pop_front();
        self.last = event.as_ref().map(|event| event.id.clone());
        Ok(event)
    }

    /// Returns true if every event received so far was returned.
    pub(crate) fn is_caught_up(&self) -> bool {
        self.ready.is_empty() && self.text.is_empty() && self.stream.buffer().is_empty()
    }

    /// Reads until an event matches.
    pub(crate) async fn expect(
        &mut self,
        what: &str,
        fits: impl Fn(&AcpStreamEvent) -> bool,
    ) -> Result<AcpStreamEvent> {
        loop {
            let event =
                self.next().await?.with_context(|| format!("the stream ended before {what}"))?;
            if fits(&event) {
                return Ok(event);
            }
        }
    }

    /// Reads until the answer to this request.
    pub(crate) async fn answer(&mut self, id: u64) -> Result<Value> {
        let answers =
            |event: &AcpStreamEvent| event.data.get("method").is_none() && event.data["id"] == id;
        Ok(self.expect(&format!("the answer to {id}"), answers).await?.data)
    }

    /// Returns every event up to the answer to this request, which comes last.
    pub(crate) async fn until_answer(&mut self, id: u64) -> Result<Vec<AcpStreamEvent>> {
        let mut events = Vec::new();
        loop {
            let event = self
                .next()
                .await?
                .with_context(|| format!("the stream ended before the answer to {id}"))?;
            let is_it = event.data.get("method").is_none() && event.data["id"] == id;
            events.push(event);
            if is_it {
                return Ok(events);
            }
        }
    }

    pub(crate) async fn text(&mut self, text: &str) -> Result<AcpStreamEvent> {
        self.expect(text, |event| event.text() == Some(text)).await
    }
}

/// Parses an event with an id and one line of data. Returns `None` for a comment.
fn parse_event(event: &str) -> Result<Option<AcpStreamEvent>> {
    if event.starts_with(':') {
        return Ok(None);
    }
    let (id, data) = event.split_once('\n').with_context(|| event.to_owned())?;
    let id = id.strip_prefix("id: ").with_context(|| format!("no id in {event}"))?;
    let data = data.strip_prefix("data: ").with_context(|| format!("no data in {event}"))?;
    let value = wharf_json::Json::parse(data.as_bytes())?.to_value();
    Ok(Some(AcpStreamEvent { id: id.to_owned(), raw: data.to_owned(), data: value }))
}
