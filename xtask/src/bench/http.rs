//! Plain HTTP requests to a measured host.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::host::Host;

/// Returns the JSON at a path.
pub(super) fn get_json(host: &Host, path: &str) -> Result<Value> {
    let body = fetch_text(host, path)?;
    serde_json::from_str(&body).with_context(|| format!("reading {body:?}"))
}

pub(crate) fn fetch_text(host: &Host, path: &str) -> Result<String> {
    read_answer(open_request(host, "GET", path, None)?, path)
}

/// Sends a JSON body and returns the answer.
pub(super) fn send_json(host: &Host, method: &str, path: &str, body: &Value) -> Result<Value> {
    let answer = read_answer(open_request(host, method, path, Some(body))?, path)?;
    serde_json::from_str(&answer).with_context(|| format!("reading {answer:?}"))
}

/// Sends a request on a connection of its own and returns the connection, from which the answer can
/// be read.
pub(super) fn open_request(
    host: &Host,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(&host.authority).context("connecting to the host")?;
    let (authority, token) = (&host.authority, &host.token);
    let body = body.map(Value::to_string).unwrap_or_default();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {authority}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes())?;
    Ok(stream)
}

fn read_answer(mut stream: TcpStream, path: &str) -> Result<String> {
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no body")?;
    ensure!(head.starts_with("HTTP/1.1 2"), "{path}: {head} {body}");
    Ok(body.to_owned())
}
