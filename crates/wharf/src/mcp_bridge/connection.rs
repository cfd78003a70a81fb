//! The connection of `wharf mcp` to the host: lines on an upgraded connection over the host's
//! socket, or over TLS.

use std::io;

use anyhow::bail;
use bytes::Bytes;
use tokio::io::{
    AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, BufWriter, ReadHalf, WriteHalf,
};

use crate::client::version;
use crate::connect::{ConnectError, HostAddress, HostStream};
use crate::stdio_pump::{
    DisconnectCause, FrameReceiver, FrameSender, HostConnection, HostEndpoint,
};

/// More bytes than any answer to the request has.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// The bytes that are read from the host, or written to it, at once: as many as a pipe holds.
const BUFFER_BYTES: usize = 64 * 1024;

/// The MCP endpoint of the host.
#[derive(Debug)]
pub(crate) struct McpEndpoint {
    address: HostAddress,
}

/// Reads the host's lines.
#[derive(Debug)]
pub(crate) struct HostLineReceiver {
    source: BufReader<ReadHalf<HostStream>>,
    /// The part of the next line that has arrived.
    line: Vec<u8>,
}

impl McpEndpoint {
    pub(crate) const fn new(address: HostAddress) -> Self {
        Self { address }
    }
}

impl HostEndpoint for McpEndpoint {
    type HostFacts = ();
    type Receiver = HostLineReceiver;
    type Sender = BufWriter<WriteHalf<HostStream>>;

    async fn connect(&self) -> Result<HostConnection<Self>, ConnectError> {
        let (read, write) = tokio::io::split(open_connection(&self.address).await?);
        let receiver = HostLineReceiver {
            source: BufReader::with_capacity(BUFFER_BYTES, read),
            line: Vec::new(),
        };
        Ok(HostConnection {
            facts: (),
            receiver,
            sender: BufWriter::with_capacity(BUFFER_BYTES, write),
        })
    }
}

impl FrameReceiver for HostLineReceiver {
    async fn receive_frame(&mut self) -> Result<Bytes, DisconnectCause> {
        loop {
            let read = self.source.read_until(b'\n', &mut self.line).await;
            // The beginning of a line that the end of the connection cut off is dropped, since its
            // request is still open.
            if !read.is_ok_and(|read| read > 0) || self.line.last() != Some(&b'\n') {
                return Err(DisconnectCause::ConnectionLost);
            }
            let mut line = std::mem::take(&mut self.line);
            line.truncate(line.trim_ascii_end().len());
            if !line.is_empty() {
                return Ok(line.into());
            }
        }
    }
}

impl FrameSender for BufWriter<WriteHalf<HostStream>> {
    async fn feed_frame(&mut self, frame: Bytes) -> io::Result<()> {
        self.write_all(&frame).await?;
        self.write_u8(b'\n').await
    }

    async fn flush_frames(&mut self) -> io::Result<()> {
        self.flush().await
    }

    async fn close(&mut self) -> io::Result<()> {
        self.shutdown().await
    }
}

/// Asks for a connection on which each line is an MCP message.
fn upgrade_request(address: &HostAddress) -> String {
    let path = address.full_path("/mcp/stdio");
    let authority = address.authority();
    let token = address
        .authorization()
        .map(|token| format!("Authorization: {token}\r\n"))
        .unwrap_or_default();
    format!(
        "GET {path} HTTP/1.1\r\nHost: {authority}\r\n{token}Connection: Upgrade\r\nUpgrade: mcp-lines\r\n\r\n"
    )
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
        return Err(ConnectError::Refused(anyhow::anyhow!(
            "{}",
            host.describe_unauthorized("401")
        )));
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
        let answer = head.to_owned();
        let address = HostAddress::Socket(path.clone());
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
        let stopping =
            connect_to(directory.path(), "HTTP/1.1 503 Service Unavailable\r\n\r\n").await;
        assert!(matches!(stopping, Err(ConnectError::NoHost)), "{stopping:?}");
        let other = connect_to(directory.path(), "HTTP/1.1 404 Not Found\r\n\r\n").await;
        assert!(matches!(other, Err(ConnectError::Refused(_))), "{other:?}");
    }

    #[test]
    fn only_a_host_of_this_version_that_agrees_will_do() {
        let version = env!("CARGO_PKG_VERSION");
        check_upgrade(&format!(
            "HTTP/1.1 101 Switching Protocols\r\nWharf-Version: {version}\r\n\r\n"
        ))
        .unwrap();
        let refused =
            check_upgrade(&format!("HTTP/1.1 404 Not Found\r\nwharf-version: {version}\r\n\r\n"))
                .unwrap_err();
        assert!(refused.to_string().contains("404"), "{refused}");
        check_upgrade("HTTP/1.1 101 Switching Protocols\r\nwharf-version: 99.0.0\r\n\r\n")
            .unwrap_err();
        check_upgrade("").unwrap_err();
    }
}
