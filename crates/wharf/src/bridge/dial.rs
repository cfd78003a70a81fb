//! The bridge's connection to the host: a WebSocket over its socket.

use std::path::PathBuf;

use anyhow::Context;
use tokio::net::UnixStream;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use crate::connect::{self, ConnectError, HostLocator};

/// A connection to the host, and the host's process.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) socket: WebSocketStream<UnixStream>,
    pub(super) host: Option<u32>,
    /// The variables that the agent is to have of ours.
    pub(super) wanted: Vec<String>,
}

/// How to get to the host.
#[derive(Debug)]
pub(crate) struct Dial {
    reach: HostLocator,
    address: Address,
}

#[derive(Debug)]
struct Address {
    socket: PathBuf,
    url: String,
}

impl Dial {
    /// To this agent of the host.
    pub(crate) fn new(reach: HostLocator, agent: Option<&str>) -> Self {
        let query = agent.map(|agent| format!("?agent={}", connect::percent_encode(agent))).unwrap_or_default();
        let address = Address { socket: reach.socket().to_owned(), url: format!("ws://localhost/acp{query}") };
        Self { reach, address }
    }

    /// The first connection: a host that is not there is started at once.
    pub(super) async fn first(&mut self) -> anyhow::Result<Link> {
        self.reach.connect_first(async || self.address.connect().await).await
    }

    /// A connection after one that was lost.
    pub(super) async fn again(&mut self) -> anyhow::Result<Link> {
        self.reach.reconnect(async || self.address.connect().await).await
    }
}

impl Address {
    async fn connect(&self) -> Result<Link, ConnectError> {
        let stream = connect::open_socket(&self.socket).await?;
        let host = connect::peer_pid(&stream);
        let request = self.url.as_str().into_client_request().context("naming the agent");
        let request = request.map_err(ConnectError::Refused)?;
        // What the host sends is for the client to bear, whatever its size.
        let config = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
        match client_async_with_config(request, stream, Some(config)).await {
            Ok((socket, response)) => {
                let wanted = response.headers().get("wharf-environment").and_then(|names| names.to_str().ok());
                let wanted = wanted.map(|names| names.split(',').map(ToOwned::to_owned).collect()).unwrap_or_default();
                Ok(Link { socket, host, wanted })
            }
            Err(Error::Http(response)) if response.status().is_client_error() => {
                let text = String::from_utf8_lossy(response.body().as_deref().unwrap_or_default()).into_owned();
                let (status, text) = (response.status(), text.trim().to_owned());
                Err(ConnectError::Refused(anyhow::anyhow!("the host refuses the connection: {status} {text}")))
            }
            // It went away while it was spoken to, or is full: another try will tell.
            Err(_) => Err(ConnectError::NoHost),
        }
    }
}
