//! The bridge's connection to the host: a WebSocket over the host's Unix socket.

use std::path::PathBuf;

use anyhow::Context;
use tokio::net::UnixStream;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use crate::connect::{self, ConnectError, HostLocator};

/// An open connection to the host.
#[derive(Debug)]
pub(super) struct HostLink {
    pub(super) socket: WebSocketStream<UnixStream>,
    /// The host's process id.
    pub(super) host: Option<u32>,
    /// The names of variables that the host asks for, to pass them to the agent.
    pub(super) wanted: Vec<String>,
}

/// Connects to the host, and starts it if it does not run.
#[derive(Debug)]
pub(crate) struct HostConnector {
    locator: HostLocator,
    address: SocketAddress,
}

#[derive(Debug)]
struct SocketAddress {
    socket: PathBuf,
    url: String,
}

impl HostConnector {
    /// Creates a connector for this agent of the host; `None` is the default agent.
    pub(crate) fn new(locator: HostLocator, agent: Option<&str>) -> Self {
        let query = agent.map(|agent| format!("?agent={}", connect::percent_encode(agent))).unwrap_or_default();
        let address = SocketAddress { socket: locator.socket().to_owned(), url: format!("ws://localhost/acp{query}") };
        Self { locator, address }
    }

    /// Connects for the first time. A host that does not run is started at once.
    pub(super) async fn connect_first(&mut self) -> anyhow::Result<HostLink> {
        self.locator.connect_first(async || self.address.connect().await).await
    }

    /// Connects again after a connection was lost.
    pub(super) async fn reconnect(&mut self) -> anyhow::Result<HostLink> {
        self.locator.reconnect(async || self.address.connect().await).await
    }
}

impl SocketAddress {
    async fn connect(&self) -> Result<HostLink, ConnectError> {
        let stream = connect::open_socket(&self.socket).await?;
        let host = connect::peer_pid(&stream);
        let request = self.url.as_str().into_client_request().context("naming the agent");
        let request = request.map_err(ConnectError::Refused)?;
        // The client has to take frames of any size that the host sends.
        let config = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
        match client_async_with_config(request, stream, Some(config)).await {
            Ok((socket, response)) => {
                let wanted = response.headers().get("wharf-environment").and_then(|names| names.to_str().ok());
                let wanted = wanted.map(|names| names.split(',').map(ToOwned::to_owned).collect()).unwrap_or_default();
                Ok(HostLink { socket, host, wanted })
            }
            Err(Error::Http(response)) if response.status().is_client_error() => {
                let text = String::from_utf8_lossy(response.body().as_deref().unwrap_or_default()).into_owned();
                let (status, text) = (response.status(), text.trim().to_owned());
                Err(ConnectError::Refused(anyhow::anyhow!("the host refuses the connection: {status} {text}")))
            }
            // The host went away during the handshake, or has too many connections. Another attempt follows.
            Err(_) => Err(ConnectError::NoHost),
        }
    }
}
