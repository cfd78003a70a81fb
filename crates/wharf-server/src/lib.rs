//! The surfaces: how clients reach a host over the network and the local socket.
//!
//! It is *not* where sessions live: a surface translates wire messages into calls on
//! `wharf_host::Host` and events into wire messages, and owns no session state.
//!
//! Invariant: no request gets past `guard` without a checked authority, origin and identity.
#![cfg_attr(
    test,
    expect(clippy::disallowed_methods, reason = "tests read what they wrote themselves")
)]

mod acp;
mod auth;
mod body_limit;
mod client_span;
mod client_tls;
mod fault;
mod guard;
mod large_response;
mod limits;
mod listen;
mod mcp;
mod metrics;
mod notify;
mod output_lines;
mod page;
mod push;
mod request_values;
mod rest;
mod revocation;
mod server_info;
mod small_file;
mod unfinished_message;
mod use_cases;
mod visible_sessions;

use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use tokio::sync::watch;
use wharf_config::Auth;
use wharf_host::Host;

pub use acp::{AcpMethod, MethodTrait};
pub use auth::{
    Access, Identity, NewToken, Scope, TokenEntry, TokenError, TokenRefused, TokenTerms, Tokens,
    TokensFile, TokensFileError, UnknownAccess,
};
pub use client_tls::tls_client_config;
use limits::ServerLimits;
pub use listen::{AddressOutlook, BindError, TlsError, check_settings, check_start};
use listen::{BoundAddress, Listeners};

/// The state that all surfaces share.
#[derive(Clone, Debug)]
pub(crate) struct App {
    pub(crate) host: Host,
    pub(crate) tokens: Arc<Tokens>,
    /// True once the host is stopping: no new work.
    pub(crate) stopping: watch::Receiver<bool>,
    /// Has a receiver for each reader of the list of sessions that does not know yet that the host
    /// stops, and for each reader of rows whose stream has not ended.
    pub(crate) stream_readers: Arc<watch::Sender<()>>,
    pub(crate) limits: ServerLimits,
    /// Connections that no socket holds.
    pub(crate) http: Arc<acp::Connections>,
    /// The names that amux clients are connected to.
    pub(crate) rooms: Arc<acp::Rooms>,
    pub(crate) server_info: Arc<server_info::ServerInfo>,
    pub(crate) refusals: Arc<metrics::RefusalCounts>,
    /// Wrong tokens and codes.
    pub(crate) failed_logins: Arc<auth::FailedLogins>,
    /// Login codes that have not been used yet.
    pub(crate) login_codes: Arc<auth::LoginCodes>,
    pub(crate) body_reader: Arc<body_limit::BodyReader>,
    pub(crate) large_responses: Arc<large_response::LargeResponses>,
    pub(crate) histories: Arc<acp::HistoryLimit>,
    /// The devices that get push messages.
    pub(crate) push: Arc<push::PushDevices>,
}

/// A bound server.
#[derive(Debug)]
pub struct Server {
    listeners: Listeners,
    socket: PathBuf,
    /// Tells the socket from another of the same name.
    socket_id: Option<(u64, u64)>,
    taken: Option<SocketAddr>,
    app: App,
    stop: watch::Sender<bool>,
}

impl Server {
    /// Binds the address of the settings and the socket. No connection is answered before
    /// [`Server::run`].
    pub fn bind(host: Host, tokens: Tokens, socket: &Path) -> Result<Self, BindError> {
        let config = host.config();
        let BoundAddress { tcp, tls, address: bound, taken } = listen::bind(config)?;
        let unix = auth::bind_private_socket(socket)
            .map_err(|source| BindError::Socket { path: socket.to_owned(), source })?;
        // Taken before the host announces itself: the state directory may be replaced from then on.
        let socket_id = file_identity(socket);
        if config.auth == Auth::None {
            tracing::warn!(address = %bound, "auth = \"none\": every process on this machine can use every session without a token");
        }
        if !bound.ip().is_loopback() && tls.is_none() {
            tracing::warn!(address = %bound, "--insecure-no-tls: tokens and sessions go over the network for everyone on the way to read");
        }
        let (stop, stopping) = watch::channel(false);
        let limits = &config.limits;
        let server_limits = ServerLimits::new(limits);
        let tokens = Arc::new(tokens);
        let http = Arc::default();
        let rooms = Arc::default();
        let refusals = Arc::default();
        let running = server_info::ServerInfo::new(client_url(bound, tls.is_some(), &config.hosts));
        host.announce(&running.url);
        let intake = Arc::new(body_limit::BodyReader::new(limits, host.buffers()));
        let unread = Arc::new(large_response::LargeResponses::new(host.buffers()));
        let failures = Arc::new(auth::FailedLogins::new(limits.failed_logins));
        let codes = Arc::default();
        listen::raise_open_file_limit(limits);
        let reach = notify::Reach::Public { with_loopback: bound.ip().is_loopback() };
        let push = Arc::new(push::PushDevices::load(&config.state_dir, reach));
        let app = App {
            host,
            tokens,
            stopping,
            stream_readers: Arc::default(),
            limits: server_limits,
            http,
            rooms,
            server_info: running,
            refusals,
            failed_logins: failures,
            login_codes: codes,
            body_reader: intake,
            large_responses: unread,
            histories: Arc::default(),
            push,
        };
        Ok(Self {
            listeners: Listeners { tcp, tls, unix },
            socket: socket.to_owned(),
            socket_id,
            taken,
            app,
            stop,
        })
    }

    /// Returns the address that another program had, if the server took another one for it and
    /// keeps that.
    pub fn taken_address(&self) -> Option<SocketAddr> {
        self.taken
    }

    /// Returns the URL at which clients reach the server.
    pub fn url(&self) -> &str {
        &self.app.server_info.url
    }

    /// Makes a code that signs a browser in as the user who runs this host. Returns the address of
    /// the page with the code.
    pub fn create_sign_in_address(&self) -> Option<String> {
        let terms = TokenTerms {
            label: Some("web page".to_owned()),
            ttl: Some(rest::DEFAULT_LOGIN_LIFETIME),
            renews: true,
            ..TokenTerms::new(Access::Admin)
        };
        let code = self
            .app
            .login_codes
            .create(Identity::LOCAL, terms, auth::MAX_LOGIN_CODE_LIFETIME)
            .ok()?;
        Some(format!("{}/#c={code}", self.url()))
    }

    /// Returns the address that the server listens on.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listeners.tcp.local_addr()
    }

    /// Serves until `stopped` completes or a client asks the host to stop. Then takes no new work,
    /// ends the agents or leaves them to their keepers, and syncs the logs.
    pub async fn run(self, stopped: impl Future<Output = StopKind>) {
        let Self { listeners: doors, socket, socket_id, taken: _, app, stop } = self;
        let router = build_router(app.clone());
        let stopping = app.stopping.clone();
        let notifying = tokio::spawn(notify::deliver_notifications(app.clone()));
        let serving = tokio::spawn(listen::serve(doors, app.host.clone(), router, stopping));
        let kind = tokio::select! {
            kind = stopped => kind,
            kind = app.server_info.stop_requested() => kind,
            () = revocation::watch_tokens(Arc::clone(&app.tokens), app.host.clone()) => StopKind::EndAgents,
        };
        stop.send_replace(true);
        // Agents that end with the host are not news.
        notifying.abort();
        match kind {
            StopKind::EndAgents => app.host.shut_down().await,
            StopKind::LeaveAgents => app.host.leave().await,
        }
        // Readers of the list must hear of the stop: they would take the host for dead and start it
        // again. Readers of rows must get the last ones.
        let _ = tokio::time::timeout(STOP_NOTICE_TIMEOUT, app.stream_readers.closed()).await;
        serving.abort();
        if socket_id.is_some() && socket_id == file_identity(&socket) {
            let _ = std::fs::remove_file(socket);
        }
    }
}

/// How long the host waits at its end for readers of streams that do not read.
const STOP_NOTICE_TIMEOUT: Duration = Duration::from_secs(1);

/// The fate of the agents when the host stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopKind {
    EndAgents,
    /// The agents go on with their keepers; the next host takes them over.
    LeaveAgents,
}

/// Returns device and inode of a file, which tell it from another file of the same name: after the
/// state directory was replaced, the socket there is another host's.
fn file_identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

/// Returns the URL for clients. An unspecified address (`0.0.0.0`) is replaced by the first of
/// `hosts`, or by loopback.
fn client_url(bound: SocketAddr, tls: bool, hosts: &[String]) -> String {
    let scheme = if tls { "https" } else { "http" };
    match hosts.first() {
        _ if !bound.ip().is_unspecified() => format!("{scheme}://{bound}"),
        Some(name) => format!("{scheme}://{name}:{}", bound.port()),
        None if bound.is_ipv4() => format!("{scheme}://127.0.0.1:{}", bound.port()),
        None => format!("{scheme}://[::1]:{}", bound.port()),
    }
}

fn build_router(app: App) -> Router {
    let rest::RestRouters { guarded, open } = rest::build_routers();
    Router::new()
        .route("/acp", get(acp::get).connect(acp::get).post(acp::post).delete(acp::delete))
        .route("/acp/sessions", get(acp::list_sessions))
        .merge(mcp::routes(&app))
        .route("/mcp/stdio", get(mcp::upgrade_to_lines))
        .merge(guarded)
        .fallback(rest::unknown_route)
        .layer(axum::middleware::from_fn_with_state(app.clone(), guard::require_identity))
        .merge(open)
        .merge(page::routes())
        .layer(axum::middleware::from_fn_with_state(app.clone(), guard::check_authority))
        .layer(axum::middleware::from_fn_with_state(app.clone(), metrics::count_refusals))
        .layer(axum::middleware::map_response(server_info::add_version_header))
        .with_state(app)
}
