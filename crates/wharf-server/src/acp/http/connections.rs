//! Holds the connections of HTTP clients. They do not depend on a socket: a connection lasts until
//! it is deleted or its client has not used it for some time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tracing::Instrument;

use super::faults::Fault;
use super::streams::{StreamWire, Streams};
use crate::App;
use crate::acp::connection::{Connection, ConnectionOptions, stopped};
use crate::acp::inbound::Methods;
use crate::acp::methods::AcpMethods;
use crate::acp::outbound::write;
use crate::auth::Identity;
use crate::client_span::client_span;
use crate::limits::TokenPermit;
use crate::revocation::wait_for_end;
use wharf_host::{Transport, random_text};

/// How long a client may neither read a stream nor send a message before it counts as gone.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// How often idle connections are looked for.
const CHECK_INTERVAL: Duration = Duration::from_secs(15);
/// Letters of a connection's id: 150 bits, nothing to guess.
const CONNECTION_ID_CHARS: usize = 30;

/// All connections of HTTP clients, by id.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    open: Mutex<HashMap<Arc<str>, Open>>,
}

/// A connection, with the permit that counts it for its token.
#[derive(Debug)]
struct Open {
    http: Arc<HttpConnection>,
    _permit: TokenPermit,
}

/// The connection of an HTTP client.
#[derive(Debug)]
pub(super) struct HttpConnection {
    pub(super) id: Arc<str>,
    pub(super) methods: Arc<AcpMethods>,
    pub(super) streams: Arc<Streams>,
    deleted: Notify,
}

/// Returns an id that cannot be guessed.
pub(in crate::acp) fn new_connection_id() -> Arc<str> {
    format!("conn_{}", random_text(CONNECTION_ID_CHARS)).into()
}

impl HttpConnection {
    pub(super) fn connection(&self) -> &Arc<Connection> {
        self.methods.connection()
    }
}

impl Connections {
    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a connection of this client.
    pub(super) fn start(
        app: &App,
        identity: Identity,
        agent: Arc<str>,
    ) -> Result<Arc<HttpConnection>, Fault> {
        let permit = app.limits.open_http_connection(&identity)?;
        let options =
            ConnectionOptions { transport: Transport::Http, ..ConnectionOptions::default() };
        let (connection, outlet) = Connection::new(app.clone(), identity, agent, options);
        let streams =
            Streams::new(app.host.buffers(), Arc::clone(connection.outbox.close_signal()));
        let http = Arc::new(HttpConnection {
            id: new_connection_id(),
            methods: Arc::new(AcpMethods::new(connection)),
            streams: Arc::clone(&streams),
            deleted: Notify::new(),
        });
        let open = Open { http: Arc::clone(&http), _permit: permit };
        app.http.lock().insert(Arc::clone(&http.id), open);
        let span = client_span(http.connection().client.id());
        let writer = tokio::spawn(write(StreamWire(streams), outlet).instrument(span));
        tokio::spawn(attend(app.clone(), Arc::clone(&http), writer));
        Ok(http)
    }

    /// Returns the connection of that id, if the same token made it.
    pub(super) fn get(&self, id: &str, identity: &Identity) -> Option<Arc<HttpConnection>> {
        let found = self.lock().get(id).map(|open| Arc::clone(&open.http));
        found.filter(|http| http.connection().client.identity().token == identity.token)
    }

    /// Ends a connection and returns when its client is detached. Its sessions live on.
    pub(super) async fn end(&self, http: &HttpConnection) {
        let known = self.lock().remove(&http.id).map(|open| open.http);
        http.deleted.notify_one();
        if let Some(known) = known {
            known.streams.end();
            // In a task of its own: a client that does not wait for the answer to its DELETE leaves
            // all the same.
            let _ = tokio::spawn(async move { known.methods.leave().await }).await;
        }
    }
}

/// Waits for the end of a connection and ends it.
async fn attend(app: App, http: Arc<HttpConnection>, mut writer: JoinHandle<()>) {
    let mut stopping = app.stopping.clone();
    let mut look = tokio::time::interval(CHECK_INTERVAL);
    let mut over = Box::pin(wait_for_end(&app, http.connection().client.identity()));
    loop {
        tokio::select! {
            _ = &mut writer => break,
            _ = http.connection().outbox.close_signal().raised() => break,
            () = http.deleted.notified() => break,
            () = stopped(&mut stopping) => break,
            _ = &mut over => break,
            _ = look.tick() => {
                if http.streams.is_idle(IDLE_TIMEOUT) {
                    break;
                }
            }
        }
    }
    drop(over);
    app.http.end(&http).await;
    writer.abort();
}
