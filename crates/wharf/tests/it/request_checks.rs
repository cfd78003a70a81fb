//! Checks of requests before they are served: `Host`, `Origin`, tokens and frame limits; and errors
//! that a connection survives.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::WAIT_LIMIT;
use wharf_testkit::client::{Credentials, TestClient, connect};
use wharf_testkit::host::TestHost;

use crate::{add_section, open_session, prompt_for_text, scripted_host};

const UPGRADE_HEADERS: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// Writes a request and reads the head of the response.
fn exchange_text(mut stream: impl Read + Write, path: &str, headers: &str) -> Result<String> {
    stream.write_all(format!("GET {path} HTTP/1.1\r\n{headers}\r\n").as_bytes())?;
    let mut head = Vec::new();
    let mut byte = [0_u8];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte)? == 1 {
        head.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

fn response_status(head: &str) -> &str {
    head.split(' ').nth(1).unwrap_or_default()
}

fn host_authority(host: &TestHost) -> String {
    host.url().trim_start_matches("http://").to_owned()
}

fn over_tcp(host: &TestHost, path: &str, headers: &str) -> Result<String> {
    let stream = TcpStream::connect(host_authority(host))?;
    stream.set_read_timeout(Some(WAIT_LIMIT))?;
    exchange_text(stream, path, headers)
}

fn over_socket(socket: &Path, path: &str, headers: &str) -> Result<String> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(WAIT_LIMIT))?;
    exchange_text(stream, path, headers)
}

#[test]
fn request_with_two_hosts_or_origins_is_refused() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let own = format!("Host: {}\r\n", host_authority(&host));
    let origin = format!("Origin: http://{}\r\n", host_authority(&host));
    for doubled in [
        format!("{own}Host: evil.example\r\n"),
        format!("Host: evil.example\r\n{own}"),
        format!("{own}{own}"),
        format!("{own}{origin}Origin: http://evil.example\r\n"),
    ] {
        let head = over_tcp(&host, "/healthz", &doubled)?;
        assert_eq!(response_status(&head), "400", "{doubled}");
    }
    assert_eq!(response_status(&over_tcp(&host, "/healthz", &format!("{own}{origin}"))?), "200");
    Ok(())
}

#[test]
fn tcp_needs_the_token_in_a_header() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let own = format!("Host: {}\r\n", host_authority(&host));
    let token = host.token();
    for (path, headers, expected) in [
        ("/healthz", own.clone(), "200"),
        ("/acp", format!("{own}{UPGRADE_HEADERS}"), "401"),
        ("/acp", own.clone(), "401"),
        (
            "/acp",
            format!("{own}{UPGRADE_HEADERS}Authorization: Bearer {}\r\n", "x".repeat(52)),
            "401",
        ),
        ("/acp", format!("{own}{UPGRADE_HEADERS}Authorization: Basic {token}\r\n"), "401"),
        ("/acp", format!("{own}{UPGRADE_HEADERS}Authorization: Bearer\r\n"), "401"),
        ("/acp", format!("{own}{UPGRADE_HEADERS}Authorization: Bearer {token}x\r\n"), "401"),
        (
            "/acp",
            format!("{own}{UPGRADE_HEADERS}Sec-WebSocket-Protocol: wharf.token.{token}\r\n"),
            "401",
        ),
        ("/acp", format!("{own}{UPGRADE_HEADERS}Authorization: Bearer {token}\r\n"), "101"),
        ("/no/such", own.clone(), "401"),
        ("/no/such", format!("{own}Authorization: Bearer {token}\r\n"), "404"),
    ] {
        let head = over_tcp(&host, path, &headers)?;
        assert_eq!(response_status(&head), expected, "{path} {headers}\n{head}");
    }
    for query in ["token", "access_token", "authorization"] {
        let head =
            over_tcp(&host, &format!("/acp?{query}={token}"), &format!("{own}{UPGRADE_HEADERS}"))?;
        assert_eq!(response_status(&head), "401", "a token in a query string: {head}");
    }
    Ok(())
}

#[test]
fn foreign_host_and_foreign_origin_are_refused() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let own = host_authority(&host);
    let (_, port) = own.split_once(':').context("no port")?;
    let allowed = format!("{UPGRADE_HEADERS}Authorization: Bearer {}\r\n", host.token());
    for (name, origin, expected) in [
        (own.as_str(), None, "101"),
        (&format!("localhost:{port}"), None, "101"),
        ("evil.example", None, "403"),
        (&format!("evil.example:{port}"), None, "403"),
        (&format!("127.0.0.1.evil.example:{port}"), None, "403"),
        (own.as_str(), Some("https://evil.example".to_owned()), "403"),
        (own.as_str(), Some("null".to_owned()), "403"),
        (own.as_str(), Some("http://127.0.0.1:1".to_owned()), "403"),
        (own.as_str(), Some(format!("http://{own}")), "101"),
    ] {
        let page = origin.map(|origin| format!("Origin: {origin}\r\n")).unwrap_or_default();
        let head = over_tcp(&host, "/acp", &format!("Host: {name}\r\n{page}{allowed}"))?;
        assert_eq!(response_status(&head), expected, "{name} {page}\n{head}");
    }
    let head = over_tcp(&host, "/healthz", "Host: evil.example\r\n")?;
    assert_eq!(response_status(&head), "403", "everywhere: {head}");
    let head = over_tcp(&host, "/acp", &allowed)?;
    assert_eq!(response_status(&head), "400", "no authority at all: {head}");
    Ok(())
}

#[tokio::test]
async fn browser_sends_the_token_as_a_subprotocol_and_gets_the_other_one() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (socket, response) =
        connect(&host.ws_url(), &Credentials::Subprotocol(host.token().to_owned())).await?;
    let selected = response.headers().get("sec-websocket-protocol").context("none selected")?;
    assert_eq!(selected, "acp.v1");
    TestClient::from_socket(socket).initialize().await?;
    let refused = connect(&host.ws_url(), &Credentials::Subprotocol("wrong".to_owned())).await;
    assert!(format!("{:?}", refused.err().context("let in")?).contains("401"));
    Ok(())
}

#[test]
fn the_unix_socket_needs_no_token() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let head = over_socket(&host.socket_path(), "/healthz", "Host: localhost\r\n")?;
    assert_eq!(response_status(&head), "200", "{head}");
    let head =
        over_socket(&host.socket_path(), "/acp", &format!("Host: localhost\r\n{UPGRADE_HEADERS}"))?;
    assert_eq!(response_status(&head), "101", "{head}");
    // A header without a usable token counts as a wrong token, not as a missing one.
    for lost in ["Bearer", "Bearer ", "Token x", "Basic abc"] {
        let headers = format!("Host: localhost\r\n{UPGRADE_HEADERS}Authorization: {lost}\r\n");
        let head = over_socket(&host.socket_path(), "/acp", &headers)?;
        assert_eq!(response_status(&head), "401", "{lost:?}: {head}");
    }
    let head = over_socket(
        &host.socket_path(),
        "/acp",
        &format!("Host: evil.example\r\n{UPGRADE_HEADERS}"),
    )?;
    assert_eq!(response_status(&head), "403", "{head}");
    Ok(())
}

#[tokio::test]
async fn an_agent_without_a_session_is_refused_on_the_socket() -> Result<()> {
    // The agent calls the host before it answers `initialize`. The answer is on its stderr, which
    // the error of the failed start carries.
    let options = scripted_host(&[])?;
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("wharf.sock");
    let flags = ["--socket", socket.to_str().context("not UTF-8")?, "--exit-on-start", "5"];
    let host = crate::add_scripted_agent(options, "early", &flags)?.start_host()?;
    std::os::unix::fs::symlink(host.socket_path(), &socket)?;
    let client = crate::connect_client_of(&host, "early").await?;
    let error = crate::expect_error(client.initialize().await)?;
    assert!(error.message.contains("HTTP/1.1 403"), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_message_over_the_limit_closes_the_connection_and_no_other() -> Result<()> {
    let host = add_section(scripted_host(&[])?, "[limits]\nframe = \"64KiB\"").start_host()?;
    let (client, session) = open_session(&host).await?;
    let other = crate::join_session(&host, &session).await?;
    let _lost = client.start_prompt(&session, &format!("echo {}", "a".repeat(70_000))).await;
    let why = client.wait_closed().await;
    assert!(why.starts_with("closed 1009") && why.contains("limits.frame"), "{why}");
    assert_eq!(prompt_for_text(&other, &session, "echo unharmed").await?, "unharmed");
    Ok(())
}

#[tokio::test]
async fn malformed_messages_get_an_error_and_the_connection_stays_open() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    crate::catch_up(&client).await;
    for (frame, code) in [
        ("{ not json", -32700),
        ("", -32700),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\"} trailing", -32700),
        ("[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\"}]", -32600),
        ("[]", -32600),
        ("{}", -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":5}", -32600),
        ("7", -32600),
        ("\"text\"", -32600),
        ("null", -32600),
    ] {
        client.send_raw(frame).await;
        let answer = client.expect("an answer", |frame| frame.method().is_empty()).await;
        assert_eq!(answer.body["error"]["code"], code, "{frame:?}: {}", answer.raw);
        // A refusal carries the request's id whenever it can be read (rule 12.10).
        let id = if frame.contains("initialize") { json!(1) } else { Value::Null };
        assert_eq!(answer.body["id"], id, "{frame:?}: {}", answer.raw);
    }
    for (method, code) in [("no/such", -32601), ("_wharf/none", -32601), ("amux/none", -32601)] {
        let error = crate::expect_error(client.call_method(method, json!({})).await)?;
        assert_eq!(error.code, code, "{method}: {error}");
        assert!(error.message.contains(method), "{error}");
    }
    for (method, params) in [
        ("session/new", json!({})),
        ("session/new", json!({ "cwd": "relative", "mcpServers": [] })),
        ("session/new", json!({ "cwd": "/no/such/directory", "mcpServers": [] })),
        ("session/prompt", json!({})),
        ("session/prompt", json!({ "sessionId": session, "prompt": "text" })),
        ("session/prompt", json!({ "sessionId": 7, "prompt": [] })),
        ("session/load", json!({ "cwd": "/", "mcpServers": [] })),
    ] {
        let error = crate::expect_error(client.call_method(method, params.clone()).await)?;
        assert_eq!(error.code, -32602, "{method} {params}: {error}");
    }
    assert_eq!(prompt_for_text(&client, &session, "echo unharmed").await?, "unharmed");
    Ok(())
}

#[tokio::test]
async fn unexpected_responses_and_unknown_notifications_are_ignored() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let before = client.received_frames().len();
    for id in ["1", "999", "\"x\"", "null", "-1", "18446744073709551616"] {
        client
            .send_raw(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#))
            .await;
        client
            .send_raw(&format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":1,"message":"x"}}}}"#
            ))
            .await;
    }
    for method in ["no/such", "$/cancel_request", "session/cancel", "session/prompt"] {
        client.send_notification(method, json!({ "requestId": 5 })).await;
    }
    client.send_prompt(&session, "echo next").await?;
    let after: Vec<String> =
        client.received_frames().drain(before..).map(|frame| frame.raw).collect();
    assert_eq!(after.len(), 2, "{after:#?}");
    Ok(())
}

#[tokio::test]
async fn unknown_agent_error_lists_the_known_agents() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let client = crate::connect_client_of(&host, "scriptd").await?;
    let error = crate::expect_error(client.initialize().await)?;
    assert!(
        error.message.contains("\"scriptd\"")
            && error.message.contains("did you mean \"scripted\""),
        "{error}"
    );
    Ok(())
}
