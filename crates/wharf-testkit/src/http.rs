//! A REST client: plain HTTP/1.1 with one socket per request, so that tests see the bytes
//! themselves.

use std::collections::VecDeque;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::WAIT_LIMIT;
use crate::host::TestHost;

const JSON_HEADER: (&str, &str) = ("content-type", "application/json");

/// A caller with a token.
#[derive(Clone, Debug)]
pub struct RestClient {
    authority: String,
    token: String,
}

/// A complete response.
#[derive(Clone, Debug)]
pub struct RestAnswer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

/// One server-sent event.
#[derive(Clone, Debug, PartialEq)]
pub struct TestEvent {
    pub name: String,
    pub id: Option<String>,
    pub data: Value,
}

impl RestAnswer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        wharf_json::Json::parse(self.body.as_bytes())
            .map(wharf_json::Json::to_value)
            .unwrap_or_default()
    }

    /// Reads the body up to the end of the response.
    async fn read_body(mut self, mut stream: BufReader<TcpStream>) -> Result<Self> {
        let read = stream.read_to_string(&mut self.body);
        tokio::time::timeout(WAIT_LIMIT, read)
            .await
            .context("the response does not end")??;
        if self.header("transfer-encoding") == Some("chunked") {
            self.body = join_chunks(&self.body).context("the chunks of the body are malformed")?;
        }
        Ok(self)
    }

    /// Returns the status, and the code of a problem.
    pub fn status_and_code(&self) -> (u16, String) {
        (self.status, self.json()["code"].as_str().unwrap_or_default().to_owned())
    }

    /// Returns the body of an answer that must have this status.
    pub fn expect(self, status: u16) -> Result<Value> {
        ensure!(self.status == status, "{} instead of {status}: {}", self.status, self.body);
        Ok(self.json())
    }
}

/// Returns the body that was sent in chunks.
fn join_chunks(mut rest: &str) -> Option<String> {
    let mut body = String::new();
    loop {
        let (size, after) = rest.split_once("\r\n")?;
        let size = usize::from_str_radix(size, 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        body.push_str(after.get(..size)?);
        rest = after.get(size..)?.strip_prefix("\r\n")?;
    }
}

impl RestClient {
    /// Creates a caller with the host's own token.
    pub fn new(host: &TestHost) -> Self {
        Self::with_token(host, host.token())
    }

    /// Creates a caller with this token; an empty one is not sent.
    pub fn with_token(host: &TestHost, token: &str) -> Self {
        let authority = host.url().trim_start_matches("http://").to_owned();
        Self { authority, token: token.to_owned() }
    }

    pub fn token(&self) -> &str {
        &self.token
    }

    pub async fn get(&self, path: &str) -> Result<RestAnswer> {
        self.send("GET", path, &[], "").await
    }

    pub async fn delete(&self, path: &str) -> Result<RestAnswer> {
        self.send("DELETE", path, &[], "").await
    }

    /// Sends a POST without a body.
    pub async fn post_empty(&self, path: &str) -> Result<RestAnswer> {
        self.send("POST", path, &[], "").await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Result<RestAnswer> {
        self.send("POST", path, &[JSON_HEADER], &body.to_string()).await
    }

    /// Sends a POST with one more header.
    pub async fn post_with(
        &self,
        path: &str,
        header: (&str, &str),
        body: &Value,
    ) -> Result<RestAnswer> {
        self.send("POST", path, &[JSON_HEADER, header], &body.to_string()).await
    }

    /// Like `send`, but reads only the head of an event stream, which may never end.
    pub async fn send_until_stream(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Result<RestAnswer> {
        let (stream, status, headers) = self.exchange_head(method, path, headers, body).await?;
        if headers.contains(&("content-type".to_owned(), "text/event-stream".to_owned())) {
            return Ok(RestAnswer { status, headers, body: String::new() });
        }
        RestAnswer { status, headers, body: String::new() }.read_body(stream).await
    }

    /// Sends any request, with the token.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Result<RestAnswer> {
        let (stream, status, headers) = self.exchange_head(method, path, headers, body).await?;
        RestAnswer { status, headers, body: String::new() }.read_body(stream).await
    }

    /// Like `send`, but reads an event stream to its end.
    pub async fn send_to_end(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Result<RestAnswer> {
        let (mut stream, status, headers) = self.exchange_head(method, path, headers, body).await?;
        let mut bytes = Vec::new();
        tokio::time::timeout(WAIT_LIMIT, stream.read_to_end(&mut bytes))
            .await
            .context("the response does not end")??;
        Ok(RestAnswer { status, headers, body: String::from_utf8(bytes)? })
    }

    /// Opens an event stream after the given event.
    pub async fn open_stream(&self, path: &str, last: Option<&str>) -> Result<TestEventStream> {
        let headers: Vec<_> = last.map(|last| ("last-event-id", last)).into_iter().collect();
        let (stream, status, headers) = self.exchange_head("GET", path, &headers, "").await?;
        ensure!(status == 200, "the stream was refused with {status}");
        ensure!(
            headers.contains(&("content-type".to_owned(), "text/event-stream".to_owned())),
            "{headers:?}"
        );
        Ok(TestEventStream { stream, text: String::new(), ready: VecDeque::new() })
    }

    async fn exchange_head(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Result<(BufReader<TcpStream>, u16, Vec<(String, String)>)> {
        let mut stream = TcpStream::connect(&self.authority).await?;
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n",
            self.authority
        );
        if !self.token.is_empty() {
            head.push_str(&format!("authorization: Bearer {}\r\n", self.token));
        }
        head.push_str("user-agent: wharf-testkit\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            head.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        // A body that is refused for its size is not read to its end.
        let _ = stream.write_all(format!("{head}\r\n{body}").as_bytes()).await;
        let mut stream = BufReader::new(stream);
        let first = read_line(&mut stream).await?;
        let status = first
            .split(' ')
            .nth(1)
            .and_then(|code| code.parse().ok())
            .context(first.clone())?;
        let mut headers = Vec::new();
        loop {
            let line = read_line(&mut stream).await?;
            let Some((name, value)) = line.split_once(": ") else {
                return Ok((stream, status, headers));
            };
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
    }
}

async fn read_line(stream: &mut BufReader<TcpStream>) -> Result<String> {
    let mut line = String::new();
    tokio::time::timeout(WAIT_LIMIT, stream.read_line(&mut line))
        .await
        .context("nothing came")??;
    Ok(line.trim_end().to_owned())
}

/// An open event stream. Dropping it closes its socket.
#[derive(Debug)]
pub struct TestEventStream {
    stream: BufReader<TcpStream>,
    text: String,
    ready: VecDeque<TestEvent>,
}

impl TestEventStream {
    /// Returns the next event; `None` at the end of the stream.
    pub async fn next(&mut self) -> Result<Option<TestEvent>> {
        while self.ready.is_empty() {
            let size = usize::from_str_radix(&read_line(&mut self.stream).await?, 16).unwrap_or(0);
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
        Ok(self.ready.pop_front())
    }

    /// Reads until an event matches.
    pub async fn expect(
        &mut self,
        what: &str,
        fits: impl Fn(&TestEvent) -> bool,
    ) -> Result<TestEvent> {
        loop {
            let event =
                self.next().await?.with_context(|| format!("the stream ended before {what}"))?;
            if fits(&event) {
                return Ok(event);
            }
        }
    }

    /// Reads until this line.
    pub async fn expect_line(&mut self, text: &str) -> Result<TestEvent> {
        self.expect(text, |event| event.name == "line" && event.data["line"] == text)
            .await
    }

    /// Returns all events up to the end of the stream.
    pub async fn read_rest(&mut self) -> Result<Vec<TestEvent>> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await? {
            events.push(event);
        }
        Ok(events)
    }
}

/// Parses an event. Returns `None` for a comment.
fn parse_event(event: &str) -> Result<Option<TestEvent>> {
    if event.starts_with(':') {
        return Ok(None);
    }
    let field =
        |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
    let data = field("data: ").with_context(|| format!("no data in {event}"))?;
    let name = field("event: ").with_context(|| format!("no name in {event}"))?;
    Ok(Some(TestEvent { name, id: field("id: "), data: serde_json::from_str(&data)? }))
}
