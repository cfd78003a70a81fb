//! The bridge's connection to the host: a WebSocket over the host's Unix socket, or over TLS.

use anyhow::Context;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::{HeaderValue, StatusCode, header};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use crate::connect::{self, ConnectError, HostAddress, HostLocator, HostStream};

/// An open connection to the host.
#[derive(Debug)]
pub(super) struct HostLink {
    pub(super) socket: WebSocketStream<HostStream>,
    /// The host's process id.
    pub(super) host: Option<u32>,
    /// The names of variables that the host asks for, to pass them to the agent. `None`: it gets no variable at all.
    pub(super) wanted: Option<Vec<String>>,
}

/// Connects to the host, and starts it if it does not run.
#[derive(Debug)]
pub(crate) struct HostConnector {
    locator: HostLocator,
    endpoint: AcpEndpoint,
}

#[derive(Debug)]
struct AcpEndpoint {
    address: HostAddress,
    url: String,
}

impl HostConnector {
    /// Creates a connector for this agent of the host; `None` is the default agent.
    pub(crate) fn new(locator: HostLocator, agent: Option<&str>) -> Self {
        let query = agent.map(|agent| format!("?agent={}", connect::percent_encode(agent))).unwrap_or_default();
        let address = locator.address().clone();
        let endpoint = AcpEndpoint { url: address.websocket_url(&format!("/acp{query}")), address };
        Self { locator, endpoint }
    }

    /// Connects for the first time. A host that does not run is started at once.
    pub(super) async fn connect_first(&mut self) -> anyhow::Result<HostLink> {
        self.locator.connect_first(async || self.endpoint.connect().await).await
    }

    /// Connects again after a connection was lost.
    pub(super) async fn reconnect(&mut self) -> anyhow::Result<HostLink> {
        self.locator.reconnect(async || self.endpoint.connect().await).await
    }
}

impl AcpEndpoint {
    async fn connect(&self) -> Result<HostLink, ConnectError> {
        let stream = self.address.open_stream().await?;
        let host = stream.peer_pid();
        let request = self.url.as_str().into_client_request().context("naming the agent");
        let mut request = request.map_err(ConnectError::Refused)?;
        if let Some(authorization) = self.address.authorization() {
            let value = HeaderValue::try_from(authorization).context("writing the token");
            request.headers_mut().insert(header::AUTHORIZATION, value.map_err(ConnectError::Refused)?);
        }
        // The client has to take frames of any size that the host sends.
        let config = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
        match client_async_with_config(request, stream, Some(config)).await {
            Ok((socket, response)) => {
                let wanted = response.headers().get("wharf-environment").and_then(|names| names.to_str().ok());
                let wanted = wanted.map(|names| names.split(',').map(ToOwned::to_owned).collect()).unwrap_or_default();
                // On another machine neither the path nor keys of this one are anyone's business.
                let wanted = if self.address.remote().is_some() { None } else { Some(wanted) };
                Ok(HostLink { socket, host, wanted })
            }
            Err(Error::Http(response)) if response.status().is_client_error() => {
                let text = String::from_utf8_lossy(response.body().as_deref().unwrap_or_default()).into_owned();
                let (status, text) = (response.status(), text.trim().to_owned());
                if let Some(remote) = self.address.remote().filter(|_| status == StatusCode::UNAUTHORIZED) {
                    return Err(ConnectError::Refused(anyhow::anyhow!("{}", remote.describe_unauthorized("401"))));
                }
                Err(ConnectError::Refused(anyhow::anyhow!("the host refuses the connection: {status} {text}")))
            }
            // The host went away during the handshake, or has too many connections. Another attempt follows.
            Err(_) => Err(ConnectError::NoHost),
        }
    }
}
