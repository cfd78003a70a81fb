//! The upgrade to a WebSocket. The socket is made here and not by axum, whose sockets copy each
//! message whole and do not say how much of an unfinished one they hold.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::ws::WebSocketUpgrade;
use axum::http::{Extensions, HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use wharf_host::ByteBudget;

use crate::auth::SUBPROTOCOL;
use crate::unfinished_message::{MeteredStream, UnfinishedMessage};

/// Each socket has one for as long as it lives. Clients say little at a time; thousands of them are
/// what counts.
const READ_BUFFER_BYTES: usize = 4 << 10;

/// A socket to a client.
pub(super) type ClientSocket = WebSocketStream<MeteredStream<TokioIo<hyper::upgrade::Upgraded>>>;

/// A checked request for a WebSocket.
pub(super) struct Handshake {
    upgrade: OnUpgrade,
    /// `None` over HTTP/2, which has no key.
    key: Option<HeaderValue>,
    protocol: Option<HeaderValue>,
    max_message_bytes: usize,
    buffers: Arc<ByteBudget>,
}

impl Handshake {
    /// `checked` is axum's check of the request. Returns `None` if the connection cannot be
    /// upgraded.
    pub(super) fn new(
        checked: WebSocketUpgrade,
        extensions: &Extensions,
        headers: &HeaderMap,
        max_message_bytes: usize,
        buffers: Arc<ByteBudget>,
    ) -> Option<Self> {
        let upgrade = extensions.get::<OnUpgrade>()?.clone();
        let protocol = checked.protocols([SUBPROTOCOL]).selected_protocol().cloned();
        let key = headers.get(header::SEC_WEBSOCKET_KEY).cloned();
        Some(Self { upgrade, key, protocol, max_message_bytes, buffers })
    }

    /// Answers the request, and serves the socket when it is there.
    pub(super) fn accept<F>(
        self,
        serve: impl FnOnce(ClientSocket, Arc<UnfinishedMessage>) -> F + Send + 'static,
    ) -> Response
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Self { upgrade, key, protocol, max_message_bytes, buffers } = self;
        tokio::spawn(async move {
            let Ok(upgraded) = upgrade.await else { return };
            let unfinished = UnfinishedMessage::new(&buffers);
            let stream = MeteredStream::new(TokioIo::new(upgraded), Arc::clone(&unfinished));
            let config = WebSocketConfig::default()
                .max_message_size(Some(max_message_bytes))
                .max_frame_size(Some(max_message_bytes))
                .read_buffer_size(READ_BUFFER_BYTES);
            let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
            serve(socket, unfinished).await;
        });
        let mut response = match key {
            Some(key) => {
                let switched = [
                    (header::CONNECTION, HeaderValue::from_static("upgrade")),
                    (header::UPGRADE, HeaderValue::from_static("websocket")),
                ];
                let mut response = (StatusCode::SWITCHING_PROTOCOLS, switched).into_response();
                let accept = HeaderValue::from_str(&derive_accept_key(key.as_bytes()));
                response
                    .headers_mut()
                    .extend(accept.map(|accept| (header::SEC_WEBSOCKET_ACCEPT, accept)));
                response
            }
            None => Response::new(Body::empty()),
        };
        response
            .headers_mut()
            .extend(protocol.map(|protocol| (header::SEC_WEBSOCKET_PROTOCOL, protocol)));
        response
    }
}
