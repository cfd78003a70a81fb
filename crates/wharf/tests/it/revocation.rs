//! A revoked or expired token closes everything that it has open, of every kind, within a second.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use wharf_testkit::client::{Credentials, TestClient, connect};
use wharf_testkit::host::TestHost;
use wharf_testkit::http::{RestClient, TestEventStream};
use wharf_testkit::pauses::PauseWatch;
use wharf_testkit::{WAIT_LIMIT, polling};

use crate::identity::CallingAgent;
use crate::rest::{output_lines, send_prompt, wait_for_session, wait_until_idle};
use crate::scopes::{register_workspace, start_session};
use crate::tokens::{create_token, expect_stdout, refused_status, run_token};
use crate::{add_scripted_agent, http_client, mcp_client, scripted_host};

/// The time that the documentation promises.
const REVOKED_WITHIN: Duration = Duration::from_secs(1);

/// An open connection or stream: its kind, and a future that returns how it ended.
type OpenConnection = (&'static str, BoxFuture<'static, Result<String>>);

async fn open_web_socket(host: &TestHost, token: &str, session: &str) -> Result<OpenConnection> {
    let client = TestClient::connect(&host.ws_url(), token).await?;
    client.initialize().await?;
    client
        .call_method(
            "session/resume",
            json!({ "sessionId": session, "cwd": "/", "mcpServers": [] }),
        )
        .await?;
    Ok(("a WebSocket", async move { Ok(client.wait_closed().await) }.boxed()))
}

async fn open_unix_socket(host: &TestHost, token: &str) -> Result<OpenConnection> {
    let mut request = "ws://localhost/acp".into_client_request()?;
    request
        .headers_mut()
        .insert("authorization", format!("Bearer {token}").parse()?);
    let stream = tokio::net::UnixStream::connect(host.socket_path()).await?;
    let client = TestClient::from_socket(tokio_tungstenite::client_async(request, stream).await?.0);
    client.initialize().await?;
    Ok(("a token over the unix socket", async move { Ok(client.wait_closed().await) }.boxed()))
}

async fn open_event_stream(
    kind: &'static str,
    http: &RestClient,
    path: &str,
) -> Result<OpenConnection> {
    let mut events: TestEventStream = http.open_stream(path, None).await?;
    events.next().await?;
    Ok((kind, async move { events.read_rest().await.map(|_| "ended".to_owned()) }.boxed()))
}

async fn open_acp_http(host: &TestHost, token: &str) -> Result<OpenConnection> {
    let mut http = http_client::AcpHttpClient::new(host, token);
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": 1, "clientCapabilities": {} } });
    let answer = http.post(&hello).await?;
    http.connection =
        Some(answer.header("acp-connection-id").context("no connection id")?.to_owned());
    let mut own = http.open_stream(None, None).await?;
    let ended = async move {
        while own.next().await?.is_some() {}
        Ok("ended".to_owned())
    };
    Ok(("a stream of ACP over HTTP", ended.boxed()))
}

fn open_mcp_wait(http: RestClient, session: &str) -> OpenConnection {
    let arguments = json!({ "sessionId": session, "timeoutSeconds": 600 });
    let params = json!({ "name": "wait_agent_session", "arguments": arguments });
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    (
        "a wait of MCP",
        async move { mcp_client::post_message(&http, &message).await.map(|answer| answer.body) }
            .boxed(),
    )
}

async fn open_mcp_stdio(host: &TestHost, token: &str) -> Result<OpenConnection> {
    let authority = host.url().trim_start_matches("http://");
    let mut stream = BufReader::new(TcpStream::connect(authority).await?);
    let head = format!(
        "GET /mcp/stdio HTTP/1.1\r\nhost: {authority}\r\nauthorization: Bearer {token}\r\nconnection: upgrade\r\nupgrade: mcp-lines\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello });
    stream.write_all(format!("{hello}\n").as_bytes()).await?;
    let mut line = String::new();
    while !line.contains("serverInfo") {
        line.clear();
        ensure!(stream.read_line(&mut line).await? > 0, "the connection ended too soon");
    }
    let ended = async move {
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await?;
        Ok("ended".to_owned())
    };
    Ok(("lines of MCP", ended.boxed()))
}

fn open_slow_start(http: RestClient, cwd: String) -> OpenConnection {
    let body = json!({ "adapter": "sleeper", "cwd": cwd });
    let ended = async move { Ok(http.post("/sessions/agent", &body).await?.status.to_string()) };
    ("a request that takes long", ended.boxed())
}

#[tokio::test]
async fn revoked_token_closes_its_connections_and_accepted_prompts_run() -> Result<()> {
    let host = add_scripted_agent(scripted_host(&[])?, "sleeper", &["--hang-on", "initialize"])?
        .start_host()?;
    let cwd = register_workspace(&host, "here").await?;
    let admin = RestClient::new(&host);
    let (id, text) = create_token(&host, &["--role", "controller"])?;
    let http = RestClient::with_token(&host, &text);
    let session = start_session(&admin, &json!({ "workspaceSlug": "here" })).await?;
    let session = session["id"].as_str().context("no id")?.to_owned();
    send_prompt(&http, &session, "hang").await?;
    http.post(
        &format!("/sessions/{session}/prompt"),
        &json!({ "prompt": "echo kept", "queue": true }),
    )
    .await?
    .expect(200)?;
    let others = TestClient::connect(&host.ws_url(), host.token()).await?;
    others.initialize().await?;

    let open: Vec<OpenConnection> = vec![
        open_web_socket(&host, &text, &session).await?,
        open_unix_socket(&host, &text).await?,
        open_event_stream("the stream of all sessions", &http, "/sessions/stream").await?,
        open_event_stream("a session's stream", &http, &format!("/sessions/{session}/stream"))
            .await?,
        open_acp_http(&host, &text).await?,
        open_mcp_stdio(&host, &text).await?,
        open_mcp_wait(http.clone(), &session),
        open_slow_start(http.clone(), cwd.display().to_string()),
    ];
    let running = open.into_iter().map(|(kind, ended)| {
        tokio::spawn(async move {
            (kind, tokio::time::timeout(WAIT_LIMIT, ended).await, Instant::now())
        })
    });
    let running: Vec<_> = running.collect();
    wait_for_session(&admin, &session, "an attached client", |session| session["clients"] != 0)
        .await?;
    // The slow start has reached the point where it hangs.
    let starting = |sessions: &Value| {
        sessions["sessions"]
            .as_array()
            .is_some_and(|all| all.iter().any(|one| one["status"] == "starting"))
    };
    let mut states = admin.open_stream("/sessions/stream", None).await?;
    states
        .expect("the start", |event| event.data["status"] == "starting" || starting(&event.data))
        .await?;

    let revoking = Instant::now();
    expect_stdout(run_token(&host, &["revoke", &id])?)?;
    let revoked = Instant::now();
    let pauses = PauseWatch::start();
    for ended in join_all(running).await {
        let (kind, how, at) = ended?;
        let how = how
            .with_context(|| format!("{kind} did not end"))?
            .with_context(|| kind.to_owned())?;
        let took = at.saturating_duration_since(revoked);
        ensure!(at > revoking, "{kind} ended before: {how}");
        ensure!(took < pauses.allow(REVOKED_WITHIN), "{kind} took {took:?}");
        match kind {
            "a WebSocket" | "a token over the unix socket" => {
                assert_eq!(how, "closed 1008 the token was revoked", "{kind}")
            }
            "a request that takes long" => assert_eq!(how, "401"),
            _ => {}
        }
    }
    assert_eq!(refused_status(&host, &Credentials::Bearer(text)).await?, Some(401));
    others.call_method("session/list", json!({})).await?;
    let left = wait_for_session(&admin, &session, "nobody left", |session| session["clients"] == 0)
        .await?;
    assert_eq!(
        (&left["queued"], &left["turn"]),
        (&json!(1), &json!("running")),
        "what was accepted stays"
    );
    admin.post_empty(&format!("/sessions/{session}/interrupt")).await?.expect(200)?;
    wait_until_idle(&admin, &session).await?;
    assert!(output_lines(&admin, &session).await?.contains(&"kept".to_owned()));
    Ok(())
}

#[tokio::test]
async fn connections_of_an_agent_token_end_with_the_agent() -> Result<()> {
    let host = scripted_host(&["--resume"])?.start_host()?;
    let admin = RestClient::new(&host);
    let agent = CallingAgent::new(&host).await?;
    let text = agent.token(&host).await?;
    let (http, session) = (RestClient::with_token(&host, &text), agent.session.as_str());
    let socket = TestClient::connect(&host.ws_url(), &text).await?;
    socket.initialize().await?;
    let attach = json!({ "sessionId": session, "historyPolicy": "none" });
    socket.call_method("session/attach", attach).await?;
    let streams = vec![
        open_event_stream("the stream of all sessions", &http, "/sessions/stream").await?,
        open_acp_http(&host, &text).await?,
        open_mcp_stdio(&host, &text).await?,
    ];
    let streams = streams.into_iter().map(|(kind, ended)| async move {
        tokio::time::timeout(WAIT_LIMIT, ended)
            .await
            .with_context(|| format!("{kind} did not end"))?
    });
    admin.post_empty(&format!("/sessions/{session}/kill")).await?.expect(200)?;
    let closed = tokio::time::timeout(WAIT_LIMIT, socket.wait_closed())
        .await
        .context("the WebSocket did not end")?;
    assert_eq!(closed, "closed 1008 the agent that this token was given to has ended");
    for ended in join_all(streams).await {
        ended?;
    }
    // The next agent of the session has another token.
    admin.post_empty(&format!("/sessions/{session}/resume")).await?.expect(200)?;
    assert_eq!(http.get("/sessions").await?.status, 401);
    Ok(())
}

#[tokio::test]
async fn revocation_disconnects_a_client_that_does_not_read() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (owner, session) = crate::open_session(&host).await?;
    let (id, text) = create_token(&host, &["--role", "observer"])?;
    let (mut deaf, _) = connect(&host.ws_url(), &Credentials::Bearer(text)).await?;
    let attach = json!({ "jsonrpc": "2.0", "id": 1, "method": "session/attach", "params": { "sessionId": session } });
    futures_util::SinkExt::send(&mut deaf, attach.to_string().into()).await?;
    wait_for_session(&RestClient::new(&host), &session, "two clients", |session| {
        session["clients"] == 2
    })
    .await?;
    // This is far more than the socket and the buffers before it hold.
    owner.send_prompt(&session, "burst 20000 1000").await?;
    expect_stdout(run_token(&host, &["revoke", &id])?)?;
    let revoked = Instant::now();
    let pauses = PauseWatch::start();
    wait_for_session(&RestClient::new(&host), &session, "one client", |session| {
        session["clients"] == 1
    })
    .await?;
    ensure!(
        revoked.elapsed() < REVOKED_WITHIN + pauses.allow(REVOKED_WITHIN),
        "it took {:?}",
        revoked.elapsed()
    );
    Ok(())
}

#[tokio::test]
async fn an_expired_token_ends_its_connections_too() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let begun = Instant::now();
    let (_, text) = create_token(&host, &["--role", "controller", "--ttl", "8s"])?;
    let client = TestClient::connect(&host.ws_url(), &text).await?;
    assert_eq!(client.wait_closed().await, "closed 1008 the token has expired");
    let took = begun.elapsed();
    ensure!(took >= Duration::from_secs(7), "too early: {took:?}");
    let answer = RestClient::with_token(&host, &text).get("/sessions").await?;
    assert_eq!(answer.status, 401);
    assert!(answer.body.contains("expired"), "{}", answer.body);
    Ok(())
}

#[tokio::test]
async fn unreadable_token_file_closes_no_connection() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (_, text) = create_token(&host, &["--role", "controller"])?;
    let client = TestClient::connect(&host.ws_url(), &text).await?;
    client.initialize().await?;
    let file = host.state_dir().join("tokens.json");
    std::fs::write(&file, "{")?;
    let said = polling::poll_until(WAIT_LIMIT, || {
        Ok(host.read_stderr().contains("until this is mended").then_some(()))
    })
    .await?;
    ensure!(said.is_some(), "the host does not look at the file by itself");
    client.call_method("session/list", json!({})).await?;
    std::fs::write(&file, r#"{"version":1,"tokens":[]}"#)?;
    assert_eq!(client.wait_closed().await, "closed 1008 the token was revoked");
    Ok(())
}
