//! Requests of an agent to its own host: the host's answers to a process that it has started.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// The longest time that a socket may take to answer lines.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// A WebSocket upgrade as in the standard.
const UPGRADE_REQUEST: &str = "GET /acp HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// Requests `/acp` and returns the status line or the error.
pub(super) fn request_upgrade(socket: &Path) -> String {
    try_upgrade(socket).unwrap_or_else(|error| format!("{}: {error}", socket.display()))
}

fn try_upgrade(socket: &Path) -> io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.write_all(UPGRADE_REQUEST.as_bytes())?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

/// Sends one HTTP request and returns the status and the body, with a blank between them.
pub(super) fn send_request(arguments: &[String]) -> io::Result<String> {
    let [place, method, path, rest @ ..] = arguments else {
        return Err(io::Error::other("--call WHERE METHOD PATH"));
    };
    let token = rest.first().map_or("", String::as_str);
    let body = rest.get(1).map_or("", String::as_str);
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
    head.push_str(
        "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n",
    );
    if !token.is_empty() {
        head.push_str(&format!("Authorization: Bearer {token}\r\n"));
    }
    let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
    let answer = match place.strip_prefix("http://") {
        Some(address) => exchange_text(TcpStream::connect(address)?, &request)?,
        None => exchange_text(UnixStream::connect(place)?, &request)?,
    };
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).unwrap_or_default();
    Ok(format!("{status} {body}"))
}

/// Sends lines to a unix socket and returns how many bytes were answered before its end, or the
/// error.
pub(super) fn send_lines(arguments: &[String]) -> io::Result<String> {
    let [socket, lines @ ..] = arguments else {
        return Err(io::Error::other("--say SOCKET LINE…"));
    };
    let mut stream = UnixStream::connect(socket)?;
    for line in lines {
        stream.write_all(format!("{line}\n").as_bytes())?;
    }
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let mut answer = Vec::new();
    let end = match stream.read_to_end(&mut answer) {
        Ok(_) => "closed".to_owned(),
        Err(error) => error.kind().to_string(),
    };
    Ok(format!("{} bytes, {end}", answer.len()))
}

fn exchange_text(mut stream: impl Read + Write, request: &str) -> io::Result<String> {
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
