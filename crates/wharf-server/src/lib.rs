//! The surfaces: how clients reach a host over the network and the local socket.
//!
//! It is *not* where sessions live: a surface translates wire messages into calls on `wharf_host::Host` and events into
//! wire messages, and owns no session state.
//!
//! Invariant: no request gets past `guard` without a checked authority, origin and identity.

mod acp;
mod auth;
mod calls;
mod guard;
mod lines;
mod listen;
mod mcp;
mod problem;
mod rest;
mod running;
mod sight;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use wharf_host::{Auth, Host};

pub use auth::{
    Access, Identity, NewToken, Refused, Scope, TokenEntry, TokenError, Tokens, TokensFile, TokensFileError,
    UnknownAccess,
};
pub use lines::paint;
use problem::Problem;

/// So many look for the newest lines of a log at once.
const LOOKING_BACK: usize = 4;

/// What the surfaces share.
#[derive(Clone, Debug)]
pub(crate) struct App {
    pub(crate) host: Host,
    pub(crate) tokens: Arc<Tokens>,
    /// The adapter of connections that name none.
    pub(crate) agent: Arc<str>,
    /// True once the host is stopping: no new work.
    pub(crate) stopping: watch::Receiver<bool>,
    pub(crate) connections: Arc<Semaphore>,
    /// Places for event streams of the REST surface, and for calls of MCP that wait.
    pub(crate) streams: Arc<Semaphore>,
    /// Places for those who look for the newest lines, which may take a good part of a log.
    pub(crate) looking_back: Arc<Semaphore>,
    /// Connections that no socket holds.
    pub(crate) http: Arc<acp::Connections>,
    /// The names that amux clients are connected to.
    pub(crate) rooms: Arc<acp::Rooms>,
    pub(crate) running: Arc<running::Running>,
}

impl App {
    /// A place under the limit, for a stream or a wait.
    pub(crate) fn stream_place(&self) -> Result<OwnedSemaphorePermit, Problem> {
        Arc::clone(&self.streams).try_acquire_owned().map_err(|_| {
            let detail = "too many event streams and waits are open (limits.connections); close some";
            Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_streams", detail)
        })
    }
}

/// A bound server.
#[derive(Debug)]
pub struct Server {
    tcp: TcpListener,
    unix: UnixListener,
    socket: PathBuf,
    app: App,
    stop: watch::Sender<bool>,
}

#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error("{0:?} is not an address to listen on; write it like 127.0.0.1:7433")]
    Address(String),
    #[error("{0} is not a loopback address, and there is no TLS yet: listen on 127.0.0.1 or [::1]")]
    NotLoopback(SocketAddr),
    #[error(
        "auth = \"none\" would open every session to everyone who reaches {0}: listen on 127.0.0.1 or [::1], or use tokens"
    )]
    OpenToAll(SocketAddr),
    #[error("cannot listen on {address}: {source}; is another host running there?")]
    Tcp { address: SocketAddr, source: std::io::Error },
    #[error("cannot make the socket {path}: {source}", path = path.display())]
    Socket { path: PathBuf, source: std::io::Error },
}

impl Server {
    /// Takes the address and the socket. Nothing is answered before [`Server::run`].
    pub async fn bind(host: Host, tokens: Tokens, listen: &str, socket: &Path) -> Result<Self, BindError> {
        let address: SocketAddr = listen.parse().map_err(|_| BindError::Address(listen.to_owned()))?;
        let open = host.config().auth == Auth::None;
        if open && !address.ip().is_loopback() {
            return Err(BindError::OpenToAll(address));
        }
        if !address.ip().is_loopback() {
            return Err(BindError::NotLoopback(address));
        }
        let tcp = TcpListener::bind(address).await.map_err(|source| BindError::Tcp { address, source })?;
        let unix =
            auth::bind_private(socket).map_err(|source| BindError::Socket { path: socket.to_owned(), source })?;
        if open {
            tracing::warn!(%address, "auth = \"none\": every process on this machine can use every session without a token");
        }
        let (stop, stopping) = watch::channel(false);
        let connections = Arc::new(Semaphore::new(host.config().limits.connections));
        let agent = host.config().default_agent.as_str().into();
        let streams = Arc::new(Semaphore::new(host.config().limits.connections));
        let looking_back = Arc::new(Semaphore::new(LOOKING_BACK));
        let url = tcp.local_addr().map(|address| format!("http://{address}")).unwrap_or_default();
        let (tokens, http, rooms) = (Arc::new(tokens), Arc::default(), Arc::default());
        let running = running::Running::at(url);
        let app = App { host, tokens, agent, stopping, connections, streams, looking_back, http, rooms, running };
        Ok(Self { tcp, unix, socket: socket.to_owned(), app, stop })
    }

    /// Where it listens.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// Serves until `stopped` is done or a client asks for the end; then no new work, agents ended, logs synced.
    pub async fn run(self, stopped: impl Future<Output = ()>) {
        let Self { tcp, unix, socket, app, stop } = self;
        let router = router(app.clone());
        let serving =
            tokio::spawn(listen::serve(tcp, unix, router, app.stopping.clone(), Arc::clone(&app.connections)));
        tokio::select! {
            () = stopped => {}
            () = app.running.stop_asked() => {}
        }
        stop.send_replace(true);
        app.host.shut_down().await;
        serving.abort();
        let _ = std::fs::remove_file(socket);
    }
}

fn router(app: App) -> Router {
    let rest::Routers { guarded, open } = rest::routers();
    Router::new()
        .route("/acp", get(acp::get).connect(acp::get).post(acp::post).delete(acp::delete))
        .route_service("/mcp", mcp::service(&app))
        .route("/mcp/stdio", get(mcp::stdio))
        .merge(guarded)
        .fallback(rest::unknown_route)
        .layer(axum::middleware::from_fn_with_state(app.clone(), guard::require_identity))
        .merge(open)
        .layer(axum::middleware::from_fn(guard::check_authority))
        .layer(axum::middleware::map_response(running::sign))
        .with_state(app)
}
