//! The connection of `wharf mcp` to the host: lines on an upgraded connection over the host's socket, or over TLS.

use anyhow::bail;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::client::version;
use crate::connect::{ConnectError, HostAddress, HostLocator, HostStream};

/// More bytes than any answer to the request has.
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// Connects to the host, and starts it if it does not run.
#[derive(Debug)]
pub(crate) struct McpConnector {
    locator: HostLocator,
}

impl McpConnector {
    pub(crate) const fn new(locator: HostLocator) -> Self {
        Self { locator }
    }

    /// Connects for the first time. A host that does not run is started at once.
    pub(super) async fn connect_first(&mut self) -> anyhow::Result<HostStream> {
        let address = self.locator.address().clone();
        self.locator.connect_first(async || open_connection(&address).await).await
    }

    /// Connects again after a connection was lost.
    pub(super) async fn reconnect(&mut self) -> anyhow::Result<HostStream> {
        let address = self.locator.address().clone();
        self.locator.reconnect(async || open_connection(&address).await).await
    }
}

/// Asks for a connection on which each line is an MCP message.
fn upgrade_request(address: &HostAddress) -> String {
    let (path, authority) = (address.full_path("/mcp/stdio"), address.authority());
    let token = address.authorization().map(|token| format!("Authorization: {token}\r\n")).unwrap_or_default();
    format!("GET {path} HTTP/1.1\r\nHost: {authority}\r\n{token}Connection: Upgrade\r\nUpgrade: mcp-lines\r\n\r\n")
}

/// Connects, asks the host for the upgrade and returns the upgraded connection.
async fn open_connection(address: &HostAddress) -> Result<HostStream, ConnectError> {
    let mut stream = address.open_stream().await?;
    // A host that ends during the request counts as absent.
    let lost = |_| ConnectError::NoHost;
    stream.write_all(upgrade_request(address).as_bytes()).await.map_err(lost)?;
    stream.flush().await.map_err(lost)?;
    let mut head = Vec::new();
    // Read byte by byte: everything after the head belongs to the client.
    while !head.ends_with(b"\r\n\r\n") && head.len() < MAX_HEAD_BYTES {
        head.push(stream.read_u8().await.map_err(lost)?);
    }
    let head = String::from_utf8_lossy(&head);
    if let Some(host) = address.remote().filter(|_| head.split(' ').nth(1) == Some("401")) {
        return Err(ConnectError::Refused(anyhow::anyhow!("{}", host.describe_unauthorized("401"))));
    }
    if is_server_error(&head) {
        // The host is stopping or has too many connections. Another attempt follows.
        return Err(ConnectError::NoHost);
    }
    check_upgrade(&head).map_err(ConnectError::Refused)?;
    Ok(stream)
}

/// Returns true if the status of the answer is 500 or above.
fn is_server_error(head: &str) -> bool {
    head.split(' ').nth(1).is_some_and(|status| status.starts_with('5'))
}

fn check_upgrade(head: &str) -> anyhow::Result<()> {
    let status = head.lines().next().unwrap_or_default();
    let headers = head.lines().filter_map(|line| line.split_once(':'));
    let host = headers.into_iter().find(|(name, _)| name.eq_ignore_ascii_case("wharf-version"));
    version::check_version(host.map(|(_, version)| version.trim()))?;
    match status.split(' ').nth(1) {
        Some("101") => Ok(()),
        _ => bail!("the host does not speak MCP here: it answered {status:?}"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tokio::net::UnixListener;

    use super::*;

    /// Connects to a host that answers the request with this head.
    async fn connect_to(directory: &Path, head: &str) -> Result<HostStream, ConnectError> {
        let path = directory.join("wharf.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let (answer, address) = (head.to_owned(), HostAddress::Socket(path.clone()));
        let answering = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
            stream
        });
        let connected = open_connection(&address).await;
        answering.await.unwrap();
        std::fs::remove_file(path).unwrap();
        connected
    }

    #[tokio::test]
    async fn host_that_is_stopping_is_tried_again() {
        let directory = tempfile::tempdir().unwrap();
        let stopping = connect_to(directory.path(), "HTTP/1.1 503 Service Unavailable\r\n\r\n").await;
        assert!(matches!(stopping, Err(ConnectError::NoHost)), "{stopping:?}");
        let other = connect_to(directory.path(), "HTTP/1.1 404 Not Found\r\n\r\n").await;
        assert!(matches!(other, Err(ConnectError::Refused(_))), "{other:?}");
    }

    #[test]
    fn only_a_host_of_this_version_that_agrees_will_do() {
        let version = env!("CARGO_PKG_VERSION");
        check_upgrade(&format!("HTTP/1.1 101 Switching Protocols\r\nWharf-Version: {version}\r\n\r\n")).unwrap();
        let refused =
            check_upgrade(&format!("HTTP/1.1 404 Not Found\r\nwharf-version: {version}\r\n\r\n")).unwrap_err();
        assert!(refused.to_string().contains("404"), "{refused}");
        check_upgrade("HTTP/1.1 101 Switching Protocols\r\nwharf-version: 99.0.0\r\n\r\n").unwrap_err();
        check_upgrade("").unwrap_err();
    }
}
