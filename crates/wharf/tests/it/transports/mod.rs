//! Every transport behind one client type: a test that is written once runs over all of them.

mod bridge;
mod http;
mod scenario;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::client::{TestClient, connect_unix};
use wharf_testkit::host::TestHost;

use crate::program;

/// A transport between client and host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    WebSocket,
    Http,
    Socket,
    Bridge,
}

impl Transport {
    pub(crate) const ALL: [Self; 4] = [Self::WebSocket, Self::Http, Self::Socket, Self::Bridge];

    /// Connects a client and sends `initialize` with this `_meta`.
    pub(crate) async fn client(self, host: &TestHost, meta: Value) -> Result<TestClient> {
        self.client_with_token(host, host.token(), meta).await
    }

    /// Connects and says nothing yet, not even `initialize`.
    pub(crate) async fn connect(self, host: &TestHost, token: &str) -> Result<TestClient> {
        Ok(match self {
            Self::WebSocket => TestClient::connect(&host.ws_url(), token).await?,
            Self::Http => http::connect_http(host, token),
            Self::Socket => TestClient::from_socket(connect_unix(&host.socket_path()).await?),
            Self::Bridge => bridge::connect_bridge(host)?,
        })
    }

    /// Connects with this token, where the transport needs one, and says `initialize`.
    pub(crate) async fn client_with_token(
        self,
        host: &TestHost,
        token: &str,
        meta: Value,
    ) -> Result<TestClient> {
        let client = self.connect(host, token).await?;
        let info = json!({ "name": "wharf-testkit", "version": "1" });
        let params = json!({ "protocolVersion": 1, "clientCapabilities": {}, "clientInfo": info, "_meta": meta });
        client.call_method("initialize", params).await?;
        Ok(client)
    }
}

/// Creates an observer's token.
pub(crate) fn create_observer_token(host: &TestHost) -> Result<String> {
    let arguments = ["token", "create", "--role", "observer", "--json", "--state-dir"];
    let made = program::wharf_command(&arguments).arg(host.state_dir()).output()?;
    let made: Value = serde_json::from_slice(&made.stdout)?;
    Ok(made["token"].as_str().context("no token")?.to_owned())
}
