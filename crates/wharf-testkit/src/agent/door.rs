//! An agent at the host's own door: what the unix socket answers to a process that the host has started.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// A WebSocket upgrade as the standard gives it.
const REQUEST: &str = "GET /acp HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// Asks for `/acp`, and returns the status line or the error.
pub(super) fn knock(socket: &Path) -> String {
    asked(socket).unwrap_or_else(|error| format!("{}: {error}", socket.display()))
}

fn asked(socket: &Path) -> io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.write_all(REQUEST.as_bytes())?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}
