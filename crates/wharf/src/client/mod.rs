//! A small HTTP client of the host's own interface, over its socket or TLS. Each call opens its own
//! connection, so that the client need not keep connections alive.

mod answer;
mod connection;
mod download;
mod follow;
mod rows;
mod sse;
pub(crate) mod version;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::handshake;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::connect::{self, ConnectError, HostAddress, HostLocator, HostStream};
use crate::exit::{Exit, Failure};
use crate::output;

pub(crate) use answer::HostAnswer;
pub(crate) use connection::StreamLoss;
pub(crate) use follow::{
    FollowLimits, FollowStep, Patience, SILENCE_LIMIT, StreamFollower, StreamStart,
};
pub(crate) use rows::{TranscriptStream, TranscriptUpdate, complete_texts};
pub(crate) use sse::SseEvent;

/// The most bytes of an answer, enough for a list of very many sessions or the output of a long
/// one.
const MAX_ANSWER_BYTES: usize = 256 << 20;

/// A request to the host.
#[derive(Clone, Debug)]
pub(crate) struct HostCall {
    method: Method,
    path: String,
    /// JSON text, unless a header names another type.
    body: Option<Bytes>,
    headers: Vec<(HeaderName, String)>,
}

impl HostCall {
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self {
            method: Method::GET,
            path: path.into(),
            body: None,
            headers: Vec::new(),
        }
    }

    /// Creates a request with a body that is JSON text already.
    pub(crate) fn with_json(method: Method, path: impl Into<String>, body: Option<String>) -> Self {
        Self { method, body: body.map(Bytes::from), ..Self::get(path) }
    }

    pub(crate) fn post(path: impl Into<String>, body: &impl Serialize) -> Self {
        Self {
            method: Method::POST,
            body: Some(Bytes::from(json_text(body))),
            ..Self::get(path)
        }
    }

    /// Creates a POST request whose body is a file.
    pub(crate) fn post_file(path: impl Into<String>, file: Vec<u8>) -> Self {
        let call = Self {
            method: Method::POST,
            body: Some(Bytes::from(file)),
            ..Self::get(path)
        };
        call.with_header("content-type", "application/octet-stream")
    }

    /// Creates a POST request with an empty object as its body.
    pub(crate) fn post_empty(path: impl Into<String>) -> Self {
        Self {
            method: Method::POST,
            body: Some(Bytes::from_static(b"{}")),
            ..Self::get(path)
        }
    }

    pub(crate) fn patch(path: impl Into<String>, body: &impl Serialize) -> Self {
        Self {
            method: Method::PATCH,
            body: Some(Bytes::from(json_text(body))),
            ..Self::get(path)
        }
    }

    pub(crate) fn put(path: impl Into<String>, body: &impl Serialize) -> Self {
        Self {
            method: Method::PUT,
            body: Some(Bytes::from(json_text(body))),
            ..Self::get(path)
        }
    }

    pub(crate) fn delete(path: impl Into<String>) -> Self {
        Self { method: Method::DELETE, ..Self::get(path) }
    }

    /// Returns the path with its query.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((HeaderName::from_static(name), value.into()));
        self
    }

    /// Adds an idempotency key: the host does not repeat a request with the same key.
    pub(crate) fn with_idempotency_key(self) -> Self {
        self.with_header("idempotency-key", wharf_host::random_text(26))
    }

    fn to_request(&self, address: &HostAddress) -> anyhow::Result<Request<Full<Bytes>>> {
        let request = Request::builder().method(&self.method).uri(address.full_path(&self.path));
        // Other clients see this name as the sender of a prompt.
        let mut request = request.header(HOST, address.authority()).header(USER_AGENT, "wharf");
        if let Some(authorization) = address.authorization() {
            let mut value = HeaderValue::try_from(authorization).context("writing the token")?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let body = match &self.body {
            Some(body) => {
                if !self.headers.iter().any(|(name, _)| *name == CONTENT_TYPE) {
                    request = request.header(CONTENT_TYPE, "application/json");
                }
                body.clone()
            }
            None => Bytes::new(),
        };
        request
            .body(Full::new(body))
            .with_context(|| format!("writing the request for {}", self.path))
    }
}

/// The client of one host.
#[derive(Clone, Debug)]
pub(crate) struct HostClient {
    address: HostAddress,
    verbose: bool,
    /// The pid of the host's process, from the socket.
    pub(crate) pid: Option<u32>,
    pub(crate) version: Option<String>,
}

impl HostClient {
    /// Connects to the located host. Fails if its version is not compatible.
    pub(crate) async fn open(reach: HostLocator, verbose: bool) -> anyhow::Result<Self> {
        let client = Self::open_any(reach, verbose).await?;
        version::check_version(client.version.as_deref())?;
        Ok(client)
    }

    /// Connects to the located host, whatever its version.
    pub(crate) async fn open_any(reach: HostLocator, verbose: bool) -> anyhow::Result<Self> {
        Self::open_once(reach, verbose, false).await
    }

    /// Connects to a host that is being restarted, whatever its version.
    pub(crate) async fn open_again(reach: HostLocator, verbose: bool) -> anyhow::Result<Self> {
        Self::open_once(reach, verbose, true).await
    }

    async fn open_once(mut reach: HostLocator, verbose: bool, again: bool) -> anyhow::Result<Self> {
        let address = reach.address().clone();
        let mut client = Self { address: address.clone(), verbose, pid: None, version: None };
        let connect = async || {
            let stream = address.open_stream().await?;
            let pid = stream.peer_pid();
            client
                .exchange_on(stream, &HostCall::get("/healthz"))
                .await
                .map(|answer| (answer, pid))
        };
        let (answer, pid) = if again {
            reach.reconnect(connect).await?
        } else {
            reach.connect_first(connect).await?
        };
        client.version = answer
            .headers()
            .get("wharf-version")
            .and_then(|v| v.to_str().ok())
            .map(str::to_owned);
        client.pid = pid;
        Ok(client)
    }

    /// Creates a client that has not looked for the host yet.
    #[cfg(test)]
    pub(crate) const fn unconnected(address: HostAddress) -> Self {
        Self { address, verbose: false, pid: None, version: None }
    }

    pub(crate) fn address(&self) -> &HostAddress {
        &self.address
    }

    /// Tells whether the host may be on another machine: paths of this one mean nothing there.
    pub(crate) fn is_remote(&self) -> bool {
        self.address.remote().is_some()
    }

    /// Returns the absolute path of a directory for the host. On another machine it has to be
    /// absolute already.
    pub(crate) fn absolute_path(&self, path: &Path) -> anyhow::Result<String> {
        if self.is_remote() && !path.is_absolute() {
            let words = format!(
                "{} is meant on the machine of the host, {}; write an absolute path of that machine, or name a workspace",
                path.display(),
                self.address
            );
            return Err(Failure::new(Exit::Usage, words).into());
        }
        let path = std::path::absolute(path)
            .with_context(|| format!("finding the directory {}", path.display()))?;
        Ok(path.display().to_string())
    }

    /// Returns the variables of this process that an agent of the host gets: none on another
    /// machine.
    pub(crate) fn forwarded_environment(
        &self,
        wanted: &[String],
    ) -> std::collections::BTreeMap<String, String> {
        if self.is_remote() {
            std::collections::BTreeMap::new()
        } else {
            connect::forwarded_environment(wanted)
        }
    }

    /// Sends a request and reads the whole answer. A refusal of the host is an error.
    pub(crate) async fn send_call(&self, call: &HostCall) -> anyhow::Result<HostAnswer> {
        let response = self.start_call(call).await.map_err(|no| self.host_gone_error(no))?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await;
        let body = body.map_err(|error| anyhow::anyhow!("{error}"));
        let body = body
            .with_context(|| format!("reading the answer to {} {}", call.method, call.path))?
            .to_bytes();
        if parts.status.is_success() {
            Ok(HostAnswer::new(body))
        } else {
            Err(self.refusal(parts.status, &body))
        }
    }

    /// Sends a request and reads the answer as a type of the contract.
    pub(crate) async fn fetch_json<T: DeserializeOwned>(
        &self,
        call: &HostCall,
    ) -> anyhow::Result<T> {
        self.send_call(call).await?.json()
    }

    /// Sends a request and returns as soon as the answer begins.
    async fn start_call(&self, call: &HostCall) -> Result<Response<Incoming>, ConnectError> {
        let stream = self.address.open_stream().await?;
        self.exchange_on(stream, call).await
    }

    async fn exchange_on(
        &self,
        stream: HostStream,
        call: &HostCall,
    ) -> Result<Response<Incoming>, ConnectError> {
        let since = Instant::now();
        let request = call.to_request(&self.address).map_err(ConnectError::Refused)?;
        // A host that ends during the handshake counts as absent.
        let (mut sender, connection) =
            handshake(TokioIo::new(stream)).await.map_err(|_| ConnectError::NoHost)?;
        tokio::spawn(connection);
        let answered = sender.send_request(request).await;
        if self.verbose {
            self.note_call(call, since.elapsed(), answered.as_ref().map(Response::status));
        }
        answered.map_err(|_| ConnectError::NoHost)
    }

    fn note_call(
        &self,
        call: &HostCall,
        took: Duration,
        status: Result<hyper::StatusCode, &hyper::Error>,
    ) {
        let end =
            status.map_or_else(|error| error.to_string(), |status| status.as_u16().to_string());
        let millis = took.as_secs_f64() * 1_000.0;
        let HostCall { method, path, .. } = call;
        output::print_note(&format!(
            "wharf: {method} {path} on {} -> {end} in {millis:.1} ms",
            self.address
        ));
    }

    pub(crate) fn host_gone_error(&self, no: ConnectError) -> anyhow::Error {
        match no {
            ConnectError::Refused(error) => error,
            ConnectError::NoHost => {
                let words = match self.address.remote() {
                    Some(host) => host.describe_absence(),
                    None => {
                        format!("the host on {} is gone; start it with: wharf serve", self.address)
                    }
                };
                Failure::new(Exit::NoHost, words).into()
            }
        }
    }

    /// Returns the host's refusal as an error. One for lack of a good token says which token was
    /// used.
    fn refusal(&self, status: hyper::StatusCode, body: &[u8]) -> anyhow::Error {
        let refusal = answer::read_refusal(status, body);
        match self.address.remote() {
            Some(host) if status == hyper::StatusCode::UNAUTHORIZED => {
                let words = host.describe_unauthorized(&refusal.to_string());
                Failure::refusal(status.as_u16(), wharf_api::ErrorCode::UNAUTHORIZED, words).into()
            }
            Some(_) | None => refusal.into(),
        }
    }
}

/// Returns the JSON of a request's body. Every type of the contract has one.
fn json_text(body: &impl Serialize) -> String {
    serde_json::to_string(body).unwrap_or_default()
}

/// Returns the part of a query for a parameter that may be left out: `&name=value`.
pub(crate) fn query_part(name: &str, value: Option<&str>) -> String {
    value
        .map(|value| format!("&{name}={}", connect::percent_encode(value)))
        .unwrap_or_default()
}

/// A path with these segments, each written so that it stays one.
pub(crate) fn url_path(segments: &[&str]) -> String {
    segments
        .iter()
        .map(|segment| format!("/{}", connect::percent_encode(segment)))
        .collect()
}
