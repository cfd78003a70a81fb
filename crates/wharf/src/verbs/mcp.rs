//! `wharf mcp`: MCP on stdin and stdout, as an MCP client starts it. The host speaks MCP; this program copies the bytes.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, bail};
use clap::Args;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::client::version;
use crate::connect::{ConnectError, open_socket};
use crate::global::GlobalOptions;

/// Asks for a connection on which each line is an MCP message.
const UPGRADE_REQUEST: &str =
    "GET /mcp/stdio HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: mcp-lines\r\n\r\n";
/// More bytes than any answer to the request has.
const MAX_HEAD_BYTES: usize = 16 * 1024;

#[derive(Debug, Args)]
pub(crate) struct McpVerb {}

pub(crate) fn run(global: &GlobalOptions, _: McpVerb) -> anyhow::Result<()> {
    let mut reach = global.locate_host("wharf mcp")?;
    let socket = reach.socket().to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting the runtime")?;
    let host = runtime.block_on(reach.connect_first(async || upgrade_connection(open_socket(&socket).await?).await))?;
    copy_stdio(host)
}

/// Asks the host for the upgrade and returns the upgraded connection.
async fn upgrade_connection(mut stream: tokio::net::UnixStream) -> Result<UnixStream, ConnectError> {
    // A host that ends during the request counts as absent.
    let lost = |_| ConnectError::NoHost;
    stream.write_all(UPGRADE_REQUEST.as_bytes()).await.map_err(lost)?;
    let mut head = Vec::new();
    // Read byte by byte: everything after the head belongs to the client.
    while !head.ends_with(b"\r\n\r\n") && head.len() < MAX_HEAD_BYTES {
        head.push(stream.read_u8().await.map_err(lost)?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    check_upgrade(&head).map_err(ConnectError::Refused)?;
    let plain = stream.into_std().and_then(|stream| stream.set_nonblocking(false).map(|()| stream));
    plain.context("taking over the connection").map_err(ConnectError::Refused)
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

/// Copies both ways until the client closes stdin, or the host ends.
fn copy_stdio(host: UnixStream) -> anyhow::Result<()> {
    let mut to_host = host.try_clone().context("sharing the connection")?;
    let finished = Arc::new(AtomicBool::new(false));
    let by_client = Arc::clone(&finished);
    // A thread, since making stdin non-blocking would affect other processes that share it. It ends with the process.
    std::thread::spawn(move || {
        // If the bytes cannot be passed on, the host has ended.
        let passed = copy_bytes(&mut std::io::stdin().lock(), &mut to_host);
        by_client.store(passed.is_ok(), Ordering::Release);
        let _ = to_host.shutdown(Shutdown::Write);
    });
    let mut from_host = host;
    copy_bytes(&mut from_host, &mut std::io::stdout().lock()).context("passing on what the host says")?;
    if finished.load(Ordering::Acquire) {
        return Ok(());
    }
    bail!("the host has ended; start the client again, and a new one is started");
}

/// Copies bytes as they arrive, each read at once.
fn copy_bytes(from: &mut impl Read, to: &mut impl Write) -> std::io::Result<()> {
    let mut block = vec![0; 64 * 1024];
    loop {
        match from.read(&mut block) {
            Ok(0) => return Ok(()),
            Ok(read) => to.write_all(&block[..read]).and_then(|()| to.flush())?,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check_upgrade;

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
