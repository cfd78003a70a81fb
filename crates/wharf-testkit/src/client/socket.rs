//! Opens a WebSocket to the host, with each form of credentials.

use std::path::Path;

use anyhow::{Context, Result};
use tokio::net::{TcpStream, UnixStream};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Response;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, client_async_with_config, connect_async_with_config,
};

/// The bare socket, for benchmarks and for clients that stop reading.
pub type RawSocket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// The credentials of a connection.
#[derive(Debug, Clone)]
pub enum Credentials {
    /// `Authorization: Bearer TOKEN`.
    Bearer(String),
    /// The subprotocols `acp.v1` and `wharf.token.TOKEN`, as browsers have to send them.
    Subprotocol(String),
    None,
    /// Exactly these headers, such as a foreign `Origin`.
    Headers(Vec<(&'static str, String)>),
}

impl Credentials {
    fn http_headers(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Bearer(token) => vec![("authorization", format!("Bearer {token}"))],
            Self::Subprotocol(token) => {
                vec![("sec-websocket-protocol", format!("acp.v1, wharf.token.{token}"))]
            }
            Self::None => Vec::new(),
            Self::Headers(headers) => headers.clone(),
        }
    }
}

/// Connects and returns also the response of the handshake. A refusal is an error that names the
/// HTTP status.
pub async fn connect(url: &str, credentials: &Credentials) -> Result<(RawSocket, Response)> {
    let mut request = url
        .into_client_request()
        .with_context(|| format!("reading the address {url}"))?;
    for (name, value) in credentials.http_headers() {
        request.headers_mut().insert(name, HeaderValue::from_str(&value)?);
    }
    connect_async_with_config(request, Some(unlimited_config()), true)
        .await
        .with_context(|| format!("connecting to {url}"))
}

/// Connects to the host's unix socket, which needs no token.
pub async fn connect_unix(path: &Path) -> Result<WebSocketStream<UnixStream>> {
    let what = || format!("connecting to {}", path.display());
    let stream = UnixStream::connect(path).await.with_context(what)?;
    let request = "ws://localhost/acp".into_client_request()?;
    Ok(client_async_with_config(request, stream, Some(unlimited_config()))
        .await
        .with_context(what)?
        .0)
}

/// Removes the limits of the client, since the host's limits are under test.
fn unlimited_config() -> WebSocketConfig {
    WebSocketConfig::default().max_message_size(None).max_frame_size(None)
}
