//! The bridge's connection to the host: a WebSocket over the host's Unix socket, or over TLS.

use std::collections::BTreeMap;
use std::io;

use anyhow::Context;
use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::{HeaderValue, StatusCode, header};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use crate::connect::{self, ConnectError, HostAddress, HostStream};
use crate::stdio_pump::{
    DisconnectCause, FrameReceiver, FrameSender, HostConnection, HostEndpoint,
};

type Socket = WebSocketStream<HostStream>;

/// The ACP endpoint of the host, for one agent.
#[derive(Debug)]
pub(crate) struct AcpEndpoint {
    address: HostAddress,
    url: String,
}

/// The facts that the bridge needs about a connection's host.
#[derive(Debug, Default)]
pub(crate) struct AcpHostFacts {
    /// The host's process id.
    pub(super) pid: Option<u32>,
    /// The variables of this process that the host passes to the agent.
    pub(super) environment: BTreeMap<String, String>,
}

impl AcpEndpoint {
    /// Returns the endpoint for this agent; `None` is the host's default agent.
    pub(crate) fn new(address: HostAddress, agent: Option<&str>) -> Self {
        let query = agent
            .map(|agent| format!("?agent={}", connect::percent_encode(agent)))
            .unwrap_or_default();
        Self { url: address.websocket_url(&format!("/acp{query}")), address }
    }
}

impl HostEndpoint for AcpEndpoint {
    type HostFacts = AcpHostFacts;
    type Receiver = SplitStream<Socket>;
    type Sender = SplitSink<Socket, Message>;

    async fn connect(&self) -> Result<HostConnection<Self>, ConnectError> {
        let stream = self.address.open_stream().await?;
        let pid = stream.peer_pid();
        let request = self.url.as_str().into_client_request().context("naming the agent");
        let mut request = request.map_err(ConnectError::Refused)?;
        if let Some(authorization) = self.address.authorization() {
            let value = HeaderValue::try_from(authorization).context("writing the token");
            request
                .headers_mut()
                .insert(header::AUTHORIZATION, value.map_err(ConnectError::Refused)?);
        }
        // The client has to take frames of any size that the host sends.
        let config = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
        match client_async_with_config(request, stream, Some(config)).await {
            Ok((socket, response)) => {
                let wanted = response
                    .headers()
                    .get("wharf-environment")
                    .and_then(|names| names.to_str().ok());
                let wanted =
                    wanted.map(|names| names.split(',').map(ToOwned::to_owned).collect::<Vec<_>>());
                // On another machine neither the path nor keys of this one are anyone's business.
                let environment = match self.address.remote() {
                    Some(_) => BTreeMap::new(),
                    None => connect::forwarded_environment(&wanted.unwrap_or_default()),
                };
                let (sender, receiver) = socket.split();
                Ok(HostConnection { facts: AcpHostFacts { pid, environment }, receiver, sender })
            }
            Err(Error::Http(response)) if response.status().is_client_error() => {
                let text = String::from_utf8_lossy(response.body().as_deref().unwrap_or_default())
                    .into_owned();
                let status = response.status();
                let text = text.trim().to_owned();
                if let Some(remote) =
                    self.address.remote().filter(|_| status == StatusCode::UNAUTHORIZED)
                {
                    return Err(ConnectError::Refused(anyhow::anyhow!(
                        "{}",
                        remote.describe_unauthorized("401")
                    )));
                }
                Err(ConnectError::Refused(anyhow::anyhow!(
                    "the host refuses the connection: {status} {text}"
                )))
            }
            // The host went away during the handshake, or has too many connections. Another attempt
            // follows.
            Err(_) => Err(ConnectError::NoHost),
        }
    }
}

impl FrameReceiver for SplitStream<Socket> {
    async fn receive_frame(&mut self) -> Result<Bytes, DisconnectCause> {
        loop {
            match self.next().await {
                Some(Ok(Message::Text(text))) => return Ok(text.into()),
                Some(Ok(
                    Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_),
                )) => {}
                Some(Ok(Message::Close(Some(goodbye)))) if goodbye.code == CloseCode::Size => {
                    return Err(DisconnectCause::MessageTooLarge);
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => {
                    return Err(DisconnectCause::ConnectionLost);
                }
            }
        }
    }
}

impl FrameSender for SplitSink<Socket, Message> {
    async fn feed_frame(&mut self, frame: Bytes) -> io::Result<()> {
        // The bridge has refused lines that are not UTF-8.
        let Ok(text) = Utf8Bytes::try_from(frame) else { return Ok(()) };
        self.feed(Message::Text(text)).await.map_err(io::Error::other)
    }

    async fn flush_frames(&mut self) -> io::Result<()> {
        self.flush().await.map_err(io::Error::other)
    }

    async fn close(&mut self) -> io::Result<()> {
        SinkExt::close(self).await.map_err(io::Error::other)
    }
}
