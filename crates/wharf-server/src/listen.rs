//! Accepting connections: HTTP/1.1, HTTP/2 by prior knowledge and WebSocket on one port and on the local socket.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tower::ServiceExt;
use wharf_host::Host;

use crate::auth::Peer;

/// A client that connects and says nothing holds a place for this long.
const HEADER_TIMEOUT: Duration = Duration::from_secs(15);
/// One event stream per session and some requests besides; hyper's default of 200 would end a busy client.
const HTTP2_STREAMS: u32 = 2_000;

/// A peer that leaves a ping unanswered for as long again is gone (rule 3.13).
const HTTP2_PING: Duration = Duration::from_secs(20);

/// A connection's place under the limit. One that becomes a WebSocket keeps it: it outlives its HTTP exchange.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    _permit: Arc<OwnedSemaphorePermit>,
}

/// Accepts until it is aborted. At the limit a new connection waits in the backlog.
pub(crate) async fn serve(
    tcp: TcpListener,
    unix: UnixListener,
    router: Router,
    (host, mut stopping): (Host, watch::Receiver<bool>),
    places: Arc<Semaphore>,
) {
    loop {
        let Ok(permit) = Arc::clone(&places).acquire_owned().await else { return };
        let place = Place { _permit: Arc::new(permit) };
        let accepted = tokio::select! {
            accepted = tcp.accept() => accepted.map(|(stream, _)| {
                let _ = stream.set_nodelay(true);
                tokio::spawn(talk(stream, Peer::Network, place, router.clone()));
            }),
            accepted = unix.accept() => accepted.map(|(stream, _)| {
                let peer = Peer::of(&stream, &host);
                tokio::spawn(talk(stream, peer, place, router.clone()));
            }),
            _ = stopping.wait_for(|stopping| *stopping) => return,
        };
        if let Err(error) = accepted {
            // Usually: too many open files. Waiting lets others close theirs; spinning would not.
            tracing::warn!(%error, "cannot accept a connection");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

async fn talk(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, peer: Peer, place: Place, router: Router) {
    let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
        let mut request: Request = request.map(axum::body::Body::new);
        request.extensions_mut().insert(peer.clone());
        request.extensions_mut().insert(place.clone());
        router.clone().oneshot(request)
    });
    let mut server = Builder::new(TokioExecutor::new());
    server.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    let mut http2 = server.http2();
    http2.timer(TokioTimer::new()).max_concurrent_streams(HTTP2_STREAMS);
    http2.keep_alive_interval(HTTP2_PING).keep_alive_timeout(HTTP2_PING);
    if let Err(error) = server.serve_connection_with_upgrades(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "a connection ended");
    }
}
