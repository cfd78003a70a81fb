//! Accepts connections: HTTP/1.1, HTTP/2 and WebSocket, on one port (with or without TLS) and on
//! the local socket.

mod address;
mod connection_permit;
mod open_files;
mod tls;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tower::ServiceExt;
use wharf_api::ErrorCode;
use wharf_config::Limits;
use wharf_host::{CountLimit, Host};

use crate::auth::SocketPeer;
use crate::fault::Fault;
pub use address::{AddressOutlook, BindError, check_settings, check_start};
pub(crate) use address::{BoundAddress, bind};
pub(crate) use connection_permit::{ConnectionPermit, LocalEndpoint};
pub(crate) use open_files::raise_open_file_limit;
use tls::Tls;
pub use tls::TlsError;

/// How long a client may stay without an identity, if `limits.silence` is off.
const DEFAULT_SILENCE_TIMEOUT: Duration = Duration::from_secs(30);
/// How much longer an answer may take that is under way to such a client.
const LAST_ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// One event stream per session and some requests besides; hyper's default of 200 would end a busy
/// client.
const MAX_HTTP2_STREAMS: u32 = 2_000;

/// A peer that leaves a ping unanswered for as long again is gone (rule 3.13).
const HTTP2_PING_INTERVAL: Duration = Duration::from_secs(20);

/// How many clients at a time get the answer that there are too many connections; the host closes
/// further connections without an answer.
const MAX_REJECTIONS: usize = 64;
/// How long such a client has to send a request and read the answer.
const REJECTION_TIMEOUT: Duration = Duration::from_secs(5);
/// The delay after a failed accept: without descriptors, waiting lets other connections close
/// theirs.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
/// How often a failed accept is logged.
const ACCEPT_WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// Connections that wait to be accepted; with the system's default of 128, many clients at once
/// would be refused.
pub(crate) const LISTEN_BACKLOG: u32 = 4_096;

/// The router and the limits that all connections share.
#[derive(Debug)]
struct HttpServer {
    router: Router,
    /// The prefix of `public_url`, which a proxy may leave in the paths: empty, or like `/wharf`.
    prefix: String,
    server: Builder<TokioExecutor>,
    rejections: CountLimit,
    max_connections: usize,
    silence_timeout: Duration,
}

/// The listeners.
#[derive(Debug)]
pub(crate) struct Listeners {
    pub(crate) tcp: TcpListener,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) unix: UnixListener,
}

/// The bytes of a connection. The type is the same for TCP, TLS and the local socket, so that the
/// HTTP server is compiled once and not for each of them.
type BoxedStream = Box<dyn ByteStream>;

trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for S {}

/// An accepted connection, before its TLS handshake.
struct Accepted {
    stream: BoxedStream,
    peer: SocketPeer,
    endpoint: LocalEndpoint,
    tls: Option<Arc<Tls>>,
}

/// A source of connections.
trait Listener: Send + Sync + 'static {
    fn next(&self) -> impl Future<Output = io::Result<Accepted>> + Send;
}

impl Listener for (TcpListener, Option<Arc<Tls>>) {
    async fn next(&self) -> io::Result<Accepted> {
        let (listener, tls) = self;
        let (stream, from) = listener.accept().await?;
        let _ = stream.set_nodelay(true);
        let address = stream.local_addr().ok().map(|address| address.ip().to_canonical());
        let door = LocalEndpoint { tls: tls.is_some(), address };
        let peer = SocketPeer::Network(from.ip().to_canonical());
        Ok(Accepted {
            stream: Box::new(stream),
            peer,
            endpoint: door,
            tls: tls.clone(),
        })
    }
}

impl Listener for (UnixListener, Host) {
    async fn next(&self) -> io::Result<Accepted> {
        let (listener, host) = self;
        let (stream, _) = listener.accept().await?;
        let peer = SocketPeer::from_stream(&stream, host);
        Ok(Accepted {
            stream: Box::new(stream),
            peer,
            endpoint: LocalEndpoint::default(),
            tls: None,
        })
    }
}

/// Accepts connections until it is aborted. The socket has a limit of its own: our own user gets
/// in, however many connections come over the network.
pub(crate) async fn serve(
    doors: Listeners,
    host: Host,
    router: Router,
    mut stopping: watch::Receiver<bool>,
) {
    let limits = host.config().limits.clone();
    let turned_away = CountLimit::new(MAX_REJECTIONS);
    let silence = limits.silence.to_std().unwrap_or(DEFAULT_SILENCE_TIMEOUT);
    let server = build_http_server(&limits, silence);
    let prefix = host
        .config()
        .public_url
        .as_ref()
        .map(|url| url.prefix.clone())
        .unwrap_or_default();
    let hall = Arc::new(HttpServer {
        router,
        prefix,
        server,
        rejections: turned_away,
        max_connections: limits.connections,
        silence_timeout: silence,
    });
    let Listeners { tcp, tls, unix } = doors;
    tokio::select! {
        () = accept_connections(Arc::clone(&hall), (tcp, tls)) => {}
        () = accept_connections(hall, (unix, host)) => {}
        _ = stopping.wait_for(|stopping| *stopping) => {}
    }
}

/// Removes the prefix that a proxy left in the path.
fn strip_prefix(request: &mut Request, prefix: &str) {
    if prefix.is_empty() {
        return;
    }
    let uri = request.uri().clone();
    let Some(rest) = uri
        .path()
        .strip_prefix(prefix)
        .filter(|rest| rest.is_empty() || rest.starts_with('/'))
    else {
        return;
    };
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let path = if rest.is_empty() { "/" } else { rest };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = format!("{path}{query}").parse().ok();
    if let Ok(stripped) = axum::http::Uri::from_parts(parts) {
        *request.uri_mut() = stripped;
    }
}

fn build_http_server(limits: &Limits, silence: Duration) -> Builder<TokioExecutor> {
    let head = limits.headers.0;
    let mut server = Builder::new(TokioExecutor::new());
    server
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(silence)
        .max_buf_size(head);
    let mut http2 = server.http2();
    http2.timer(TokioTimer::new()).max_concurrent_streams(MAX_HTTP2_STREAMS);
    http2.max_header_list_size(u32::try_from(head).unwrap_or(u32::MAX));
    http2
        .keep_alive_interval(HTTP2_PING_INTERVAL)
        .keep_alive_timeout(HTTP2_PING_INTERVAL);
    server
}

/// Serves the connections of one listener, each in a task of its own.
async fn accept_connections(hall: Arc<HttpServer>, listener: impl Listener) {
    let connections = CountLimit::new(hall.max_connections);
    let mut said_at: Option<Instant> = None;
    loop {
        match listener.next().await {
            Ok(arrival) => {
                let hall = Arc::clone(&hall);
                let is_half_used =
                    connections.max() - connections.in_use() < hall.max_connections / 2;
                let permit = connections.try_acquire();
                // Processes of agents run as our own user. They may take only half of its
                // connections.
                if let Some(permit) = permit.filter(|_| !is_half_used || !arrival.peer.is_agent()) {
                    tokio::spawn(async move {
                        hall.serve_accepted(arrival, ConnectionPermit::new(permit)).await
                    });
                } else if let Some(permit) = hall.rejections.try_acquire() {
                    tokio::spawn(async move {
                        let _ = tokio::time::timeout(REJECTION_TIMEOUT, hall.reject(arrival)).await;
                        drop(permit);
                    });
                }
            }
            Err(error) => {
                if said_at.is_none_or(|said_at| said_at.elapsed() >= ACCEPT_WARNING_INTERVAL) {
                    tracing::warn!(%error, "cannot accept a connection");
                    said_at = Some(Instant::now());
                }
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
}

impl HttpServer {
    async fn serve_accepted(&self, arrival: Accepted, place: ConnectionPermit) {
        let Accepted { stream, peer, endpoint: door, tls } = arrival;
        match tls {
            None => self.serve_connection(stream, peer, door, place).await,
            Some(tls) => {
                if let Some(stream) = self.accept_tls(&tls, stream).await {
                    self.serve_connection(stream, peer, door, place).await;
                }
            }
        }
    }

    async fn reject(&self, arrival: Accepted) {
        match arrival.tls {
            None => self.answer_limit_reached(arrival.stream).await,
            Some(tls) => {
                if let Some(stream) = self.accept_tls(&tls, arrival.stream).await {
                    self.answer_limit_reached(stream).await;
                }
            }
        }
    }

    /// Returns the encrypted stream, or `None` if the handshake fails or takes too long.
    async fn accept_tls(&self, tls: &Tls, stream: BoxedStream) -> Option<BoxedStream> {
        match tokio::time::timeout(self.silence_timeout, tls.acceptor().accept(stream)).await {
            Ok(Ok(stream)) => Some(Box::new(stream)),
            Ok(Err(error)) => {
                tracing::debug!(%error, "a TLS handshake failed");
                None
            }
            Err(_) => None,
        }
    }

    async fn serve_connection(
        &self,
        stream: BoxedStream,
        peer: SocketPeer,
        door: LocalEndpoint,
        place: ConnectionPermit,
    ) {
        let router = self.router.clone();
        let seat = place.clone();
        let prefix = self.prefix.clone();
        let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
            let mut request: Request = request.map(axum::body::Body::new);
            strip_prefix(&mut request, &prefix);
            request.extensions_mut().insert(peer.clone());
            request.extensions_mut().insert(door);
            request.extensions_mut().insert(seat.clone());
            router.clone().oneshot(request)
        });
        let connection = self.server.serve_connection_with_upgrades(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = place.identified() => connection.await,
            () = tokio::time::sleep(self.silence_timeout) => {
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    ended = connection.as_mut() => ended,
                    () = place.identified() => connection.await,
                    () = tokio::time::sleep(LAST_ANSWER_TIMEOUT) => Ok(()),
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended");
        }
    }

    /// Answers one request with 503: there are too many connections.
    async fn answer_limit_reached(&self, stream: BoxedStream) {
        let limit = self.max_connections;
        let service = hyper::service::service_fn(move |_: hyper::Request<Incoming>| async move {
            let detail = format!(
                "{limit} connections are open already (limits.connections); try again later"
            );
            let refusal = Fault::new(ErrorCode::TOO_MANY_CONNECTIONS, detail)
                .with_status(StatusCode::SERVICE_UNAVAILABLE);
            let mut response = refusal.with_retry_after(1).into_response();
            response.headers_mut().insert(
                hyper::header::CONNECTION,
                hyper::header::HeaderValue::from_static("close"),
            );
            Ok::<_, std::convert::Infallible>(response)
        });
        let _ = self.server.serve_connection(TokioIo::new(stream), service).await;
    }
}
