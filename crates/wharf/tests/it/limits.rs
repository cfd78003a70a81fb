//! Every limit is reached: the client at the limit gets a clear error, and no other client is
//! affected (rule 10.5).

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use wharf_testkit::client::{Credentials, TestClient, connect, connect_unix};
use wharf_testkit::host::{HostOptions, TestHost};
use wharf_testkit::http::{RestAnswer, RestClient};
use wharf_testkit::{WAIT_LIMIT, polling};

use crate::mcp_client::Mcp;
use crate::rest::{
    caller_with_role, output_lines, send_prompt, spawn_session, wait_for_session, wait_until_idle,
};
use crate::{
    add_section, connect_client, cwd, expect_error, log, open_session, parse_pids, prompt_for_text,
    scripted_host, start_from_shell,
};

fn configure_limits(limits: &str) -> Result<HostOptions> {
    Ok(add_section(scripted_host(&[])?, &format!("[limits]\n{limits}")))
}

fn host_authority(host: &TestHost) -> String {
    host.url().trim_start_matches("http://").to_owned()
}

/// Opens a socket and sends this text.
async fn open_socket_with(host: &TestHost, text: &str) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(host_authority(host)).await?;
    stream.write_all(text.as_bytes()).await?;
    Ok(stream)
}

/// Reads until the other side closes.
async fn read_to_end(mut stream: TcpStream) -> Result<String> {
    let mut rest = Vec::new();
    let read = stream.read_to_end(&mut rest);
    // A reset counts as an end.
    let _ = tokio::time::timeout(WAIT_LIMIT, read)
        .await
        .context("the connection was not ended")?;
    Ok(String::from_utf8_lossy(&rest).into_owned())
}

/// Repeats the request until the answer has this status.
async fn repeat_until_status(
    status: u16,
    mut ask: impl AsyncFnMut() -> Result<RestAnswer>,
) -> Result<RestAnswer> {
    let give_up_at = Instant::now() + WAIT_LIMIT;
    loop {
        let answer = ask().await?;
        if answer.status == status || Instant::now() > give_up_at {
            ensure!(answer.status == status, "{answer:?}");
            return Ok(answer);
        }
    }
}

/// Returns the status and body of a refused upgrade.
async fn refused_upgrade(host: &TestHost, token: &str) -> Result<String> {
    let refused = connect(&host.ws_url(), &Credentials::Bearer(token.to_owned())).await;
    Ok(format!("{:?}", refused.err().context("let in")?))
}

#[tokio::test]
async fn connection_over_the_limit_gets_an_error_and_the_socket_still_accepts() -> Result<()> {
    let host = configure_limits("connections = 2")?.start_host()?;
    let (first, second) = (connect_client(&host).await?, connect_client(&host).await?);
    let http = RestClient::new(&host);
    let answer = http.get("/sessions").await?;
    assert_eq!(answer.status_and_code(), (503, "too_many_connections".to_owned()));
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    assert!(
        answer.json()["detail"]
            .as_str()
            .is_some_and(|detail| detail.contains("limits.connections"))
    );
    assert!(refused_upgrade(&host, host.token()).await?.contains("503"));

    let local = TestClient::from_socket(connect_unix(&host.socket_path()).await?);
    local.initialize().await?;
    let session = first.new_session(&cwd(&host)?).await?;
    assert_eq!(prompt_for_text(&first, &session, "echo unharmed").await?, "unharmed");
    second.close().await;
    repeat_until_status(200, async || http.get("/sessions").await).await?;
    Ok(())
}

#[tokio::test]
async fn agents_cannot_take_the_last_permits_of_the_socket() -> Result<()> {
    let host = configure_limits("connections = 4")?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let ask = format!("socket {}", host.socket_path().display());
    assert!(
        prompt_for_text(&client, &session, &ask).await?.starts_with("HTTP/1.1 101"),
        "there is room"
    );
    let mut crowd = Vec::new();
    for _ in 0..3 {
        crowd.push(TestClient::from_socket(connect_unix(&host.socket_path()).await?));
    }
    let said = prompt_for_text(&client, &session, &ask).await?;
    assert!(said.starts_with("HTTP/1.1 503"), "{said}");
    TestClient::from_socket(connect_unix(&host.socket_path()).await?)
        .initialize()
        .await?;
    Ok(())
}

#[tokio::test]
async fn connection_limit_of_one_token_affects_no_other_token() -> Result<()> {
    let host = configure_limits("connections_per_token = 2")?.start_host()?;
    let greedy = caller_with_role(&host, "controller")?;
    let sockets = [
        TestClient::connect(&host.ws_url(), greedy.token()).await?,
        TestClient::connect(&host.ws_url(), greedy.token()).await?,
    ];
    assert!(refused_upgrade(&host, greedy.token()).await?.contains("429"));
    let answer = greedy.get("/sessions/stream").await?;
    assert_eq!(answer.status_and_code(), (429, "too_many_connections".to_owned()));
    assert!(
        answer.json()["detail"]
            .as_str()
            .is_some_and(|detail| detail.contains("limits.connections_per_token"))
    );
    assert_eq!(answer.header("connection"), Some("close"));

    let (other, session) = open_session(&host).await?;
    assert_eq!(prompt_for_text(&other, &session, "echo unharmed").await?, "unharmed");
    sockets[0].close().await;
    repeat_until_status(200, async || greedy.get("/sessions").await).await?;
    Ok(())
}

#[tokio::test]
async fn http_acp_connections_count_toward_the_limit() -> Result<()> {
    let host = configure_limits("connections_per_token = 3")?.start_host()?;
    let greedy = caller_with_role(&host, "controller")?;
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": 1 } });
    // Closing sockets may still count for a moment: only the last answer is certain.
    for _ in 0..3 {
        repeat_until_status(200, async || greedy.post("/acp", &hello).await).await?;
    }
    let answer = repeat_until_status(429, async || greedy.post("/acp", &hello).await).await?;
    assert_eq!(answer.status_and_code().1, "too_many_connections");
    repeat_until_status(200, async || greedy.get("/sessions").await).await?;
    assert_eq!(RestClient::new(&host).post("/acp", &hello).await?.status, 200);
    Ok(())
}

#[tokio::test]
async fn event_streams_on_one_socket_count_toward_the_token_limit() -> Result<()> {
    let host = configure_limits("connections_per_token = 2")?.start_host()?;
    let (requests, connection) =
        h2::client::handshake(TcpStream::connect(host_authority(&host)).await?).await?;
    tokio::spawn(connection);
    let mut open = Vec::new();
    for expected in [200, 200, 429] {
        let request = tokio_tungstenite::tungstenite::http::Request::get(format!(
            "{}/sessions/stream",
            host.url()
        ));
        let request =
            request.header("authorization", format!("Bearer {}", host.token())).body(())?;
        let (answer, _) = requests.clone().ready().await?.send_request(request, true)?;
        let answer = tokio::time::timeout(WAIT_LIMIT, answer).await??;
        assert_eq!(answer.status(), expected);
        open.push(answer);
    }
    let other = caller_with_role(&host, "observer")?;
    assert!(other.open_stream("/sessions/stream", None).await.is_ok());
    Ok(())
}

#[tokio::test]
async fn a_head_over_the_limit_is_431() -> Result<()> {
    let host = configure_limits("headers = \"8KiB\"")?.start_host()?;
    let http = RestClient::new(&host);
    let large = "x".repeat(9 << 10);
    assert_eq!(http.send("GET", "/sessions", &[("x-large", &large)], "").await?.status, 431);
    let small = "x".repeat(4 << 10);
    assert_eq!(http.send("GET", "/sessions", &[("x-small", &small)], "").await?.status, 200);
    let many: Vec<(String, String)> =
        (0..200).map(|n| (format!("x-{n}"), "y".to_owned())).collect();
    let many: Vec<(&str, &str)> =
        many.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(http.send("GET", "/sessions", &many, "").await?.status, 431);
    Ok(())
}

#[tokio::test]
async fn a_body_over_the_limit_is_413_on_every_surface() -> Result<()> {
    let host = configure_limits("body = \"16KiB\"")?.start_host()?;
    let http = RestClient::new(&host);
    let large = json!({ "filling": "x".repeat(17 << 10) });
    for (path, code) in [
        ("/sessions/agent", "body_too_large"),
        ("/acp", "body_too_large"),
        ("/mcp", "body_too_large"),
    ] {
        let accept = ("accept", "application/json, text/event-stream");
        let answer = http.post_with(path, accept, &large).await?;
        assert_eq!(answer.status_and_code(), (413, code.to_owned()), "{path}");
        assert!(
            answer.json()["detail"]
                .as_str()
                .is_some_and(|detail| detail.contains("limits.body")),
            "{path}"
        );
    }
    // The same without an announced length.
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {}\r\nconnection: close\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
        host_authority(&host),
        host.token()
    );
    let chunk = format!("{:x}\r\n{}\r\n", 17 << 10, "x".repeat(17 << 10));
    let answer = read_to_end(open_socket_with(&host, &format!("{head}{chunk}")).await?).await?;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    let id = spawn_session(&http, &host).await?;
    send_prompt(&http, &id, "echo unharmed").await?;
    wait_until_idle(&http, &id).await?;
    assert_eq!(output_lines(&http, &id).await?[0], "unharmed");
    Ok(())
}

#[tokio::test]
async fn all_bodies_together_have_a_limit() -> Result<()> {
    let host = configure_limits("body = \"64KiB\"\nbodies = \"64KiB\"")?.start_host()?;
    let http = RestClient::new(&host);
    let head = format!(
        "POST /sessions/agent HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\ncontent-length: 60000\r\n\r\n",
        host_authority(&host),
        host.token()
    );
    // No event shows when the host has read so many bytes, but its refusal of other requests does.
    // If the two race, the unfinished request may be the refused one: then another is opened.
    let mut unfinished = Vec::new();
    let large = json!({ "adapter": "none", "label": "x".repeat(40_000) });
    let ask = async || {
        unfinished.push(open_socket_with(&host, &format!("{head}{}", "x".repeat(50_000))).await?);
        http.post("/sessions/agent", &large).await
    };
    let answer = repeat_until_status(503, ask).await?;
    assert_eq!(answer.status_and_code(), (503, "too_many_bodies".to_owned()));
    assert_eq!(answer.header("retry-after"), Some("1"));
    spawn_session(&http, &host).await.context("a small one fits")?;
    drop(unfinished);
    repeat_until_status(422, async || http.post("/sessions/agent", &large).await).await?;
    Ok(())
}

#[tokio::test]
async fn silent_and_half_sent_requests_time_out() -> Result<()> {
    let host = configure_limits("silence = \"1s\"")?.start_host()?;
    let (working, session) = open_session(&host).await?;
    let own = format!("host: {}\r\n", host_authority(&host));
    let known = format!("{own}authorization: Bearer {}\r\n", host.token());
    let silent = open_socket_with(&host, "").await?;
    let half_a_preface = open_socket_with(&host, "PRI * HTTP").await?;
    let half_a_head = open_socket_with(&host, &format!("GET /sessions HTTP/1.1\r\n{own}")).await?;
    let idle = open_socket_with(&host, &format!("GET /sessions HTTP/1.1\r\n{known}\r\n")).await?;
    let stranger = open_socket_with(&host, &format!("GET /healthz HTTP/1.1\r\n{own}\r\n")).await?;
    let kind = "content-type: application/json\r\ncontent-length: 100\r\n";
    let half_a_body = open_socket_with(
        &host,
        &format!("POST /sessions/agent HTTP/1.1\r\n{known}{kind}\r\n{{\"adapter\""),
    )
    .await?;
    for (what, stream) in [("silent", silent), ("half a preface", half_a_preface)] {
        assert_eq!(read_to_end(stream).await.context(what)?, "", "{what}");
    }
    let half_a_head = read_to_end(half_a_head).await.context("half a head")?;
    assert!(half_a_head.is_empty() || half_a_head.starts_with("HTTP/1.1 408"), "{half_a_head}");
    for (what, stream) in [("idle", idle), ("stranger", stranger)] {
        let answer = read_to_end(stream).await.context(what)?;
        assert!(answer.starts_with("HTTP/1.1 200"), "{what}: {answer}");
    }
    let answer = read_to_end(half_a_body).await.context("half a body")?;
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("\"cut_off\""), "{answer}");
    assert_eq!(prompt_for_text(&working, &session, "echo unharmed").await?, "unharmed");
    Ok(())
}

#[tokio::test]
async fn simultaneous_spawns_stay_within_the_session_limit() -> Result<()> {
    let host = configure_limits("sessions = 3")?.start_host()?;
    let http = RestClient::new(&host);
    let body = json!({ "adapter": "scripted", "cwd": cwd(&host)? });
    let starts =
        (0..12).map(|_| http.post_with("/sessions/agent", ("prefer", "respond-async"), &body));
    let answers = futures_util::future::join_all(starts).await;
    let mut statuses: Vec<u16> = Vec::new();
    for answer in answers {
        let answer = answer?;
        if answer.status != 201 {
            assert_eq!(answer.status_and_code(), (429, "too_many_sessions".to_owned()));
        }
        statuses.push(answer.status);
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [&[201; 3][..], &[429; 9]].concat());
    let listed = http.get("/sessions").await?.expect(200)?;
    assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(3), "what was refused never was");
    Ok(())
}

#[tokio::test]
async fn session_that_cannot_return_over_the_limit_stays_readable() -> Result<()> {
    let host = configure_limits("sessions = 1")?.start_host()?;
    let http = RestClient::new(&host);
    let first = spawn_session(&http, &host).await?;
    send_prompt(&http, &first, "echo kept").await?;
    wait_until_idle(&http, &first).await?;
    let _ = send_prompt(&http, &first, "crash").await?;
    wait_for_session(&http, &first, "the end", |session| session["status"] == "exited").await?;
    let second = spawn_session(&http, &host).await?;
    for (path, body) in [("prompt", json!({ "prompt": "echo again" })), ("resume", json!({}))] {
        let answer = http.post(&format!("/sessions/{first}/{path}"), &body).await?;
        assert_eq!(answer.status_and_code(), (429, "too_many_sessions".to_owned()), "{path}");
    }
    let reader = connect_client(&host).await?;
    reader.load_session(&first, &cwd(&host)?).await?;
    reader.expect_text("kept").await;
    let error = expect_error(reader.send_prompt(&first, "echo again").await)?;
    assert_eq!(error.data["reason"], "too_many_sessions", "{error}");
    http.post_empty(&format!("/sessions/{second}/kill")).await?.expect(200)?;
    assert_eq!(prompt_for_text(&reader, &first, "echo again").await?, "again");
    Ok(())
}

#[tokio::test]
async fn spawn_rate_limit_answers_with_retry_after() -> Result<()> {
    let host = configure_limits("spawns_per_minute = 2")?.start_host()?;
    let http = RestClient::new(&host);
    spawn_session(&http, &host).await?;
    let fast = connect_client(&host).await?;
    fast.new_session(&cwd(&host)?).await?;
    let answer = http
        .post("/sessions/agent", &json!({ "adapter": "scripted", "cwd": cwd(&host)? }))
        .await?;
    assert_eq!(answer.status_and_code(), (429, "too_many_spawns".to_owned()));
    let wait: u64 = answer.header("retry-after").context("no Retry-After")?.parse()?;
    assert!((1..=31).contains(&wait) && answer.json()["retryAfter"] == wait, "{answer:?}");
    let error = expect_error(fast.new_session(&cwd(&host)?).await)?;
    assert_eq!(error.data["reason"], "too_many_spawns", "{error}");
    assert!(error.message.contains("limits.spawns_per_minute"), "{error}");
    let arguments = json!({ "adapter": "scripted", "cwd": cwd(&host)? });
    let (code, _) = Mcp::over_http(RestClient::new(&host))
        .call_for_refusal("start_agent_session", arguments)
        .await?;
    assert_eq!(code, "too_many_spawns");
    spawn_session(&caller_with_role(&host, "admin")?, &host)
        .await
        .context("another token")?;
    Ok(())
}

#[tokio::test]
async fn agent_requests_over_the_limit_are_refused() -> Result<()> {
    let host = configure_limits("asks = 1")?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let running = client.start_prompt(&session, "ask2; echo done").await;
    let ask = client.expect_request("session/request_permission").await;
    let fault = log::expect_event(&host, &session, "agent_faulted", |_| true).await?;
    assert!(fault.to_string().contains("open asks"), "{fault}");
    let chosen = json!({ "outcome": { "outcome": "selected", "optionId": "allow_once" } });
    client.send_result(ask.id(), chosen).await;
    running.wait_answer().await?;
    let asks = client
        .received_frames()
        .iter()
        .filter(|frame| frame.method() == "session/request_permission")
        .count();
    assert_eq!(asks, 1);
    Ok(())
}

#[tokio::test]
async fn one_answer_carries_log_events_up_to_the_byte_limit() -> Result<()> {
    let host = configure_limits("history = \"16KiB\"")?.start_host()?;
    let (client, session) = open_session(&host).await?;
    client.send_prompt(&session, &["echo begin"; 1].concat()).await?;
    client.send_prompt(&session, "stream 200 1000").await?;
    let http = RestClient::new(&host);
    let page = http.get(&format!("/sessions/{session}/events?limit=1000")).await?;
    assert!(page.body.len() < 40 << 10, "{} bytes", page.body.len());
    let mut page = page.expect(200)?;
    let mut events = page["events"].as_array().map_or(0, Vec::len);
    while let Some(next) = page["next"].as_str() {
        page = http
            .get(&format!("/sessions/{session}/events?limit=1000&after={next}"))
            .await?
            .expect(200)?;
        events += page["events"].as_array().map_or(0, Vec::len);
    }
    assert_eq!(events, log::read_records(&host, &session)?.len(), "all of it comes in the end");
    client
        .send_prompt(&session, &format!("rawupdate {}", update_with_lines(100)))
        .await?;
    let last = http.get(&format!("/sessions/{session}/output?lastN=10000")).await?;
    assert!(last.body.len() < 40 << 10, "{} bytes", last.body.len());
    assert_eq!(last.json()["truncated"], true);
    let reader = crate::connect_client(&host).await?;
    let asked =
        json!({ "sessionId": session, "historyPolicy": "full", "historyDelivery": "response" });
    let attached = reader.call_method("session/attach", asked).await?;
    assert_eq!((&attached["historyDelivery"], attached.get("history")), (&json!("stream"), None));
    reader.expect_text("begin").await;
    Ok(())
}

/// Returns an update with this many lines of a kilobyte.
fn update_with_lines(count: usize) -> Value {
    let text = format!("{}\n", "x".repeat(1_000)).repeat(count);
    json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } })
}

#[tokio::test]
async fn a_log_at_its_limit_ends_the_session_and_stays_readable() -> Result<()> {
    let mut host = configure_limits("log = \"64KiB\"")?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let other = client.new_session(&cwd(&host)?).await?;
    let running = client.start_prompt(&session, "wait; stream 20000 500; hang hard").await;
    let waiting = client.start_prompt(&session, "echo never").await;
    log::expect_event(&host, &session, "prompt_accepted", |event| {
        event["frame"].to_string().contains("never")
    })
    .await?;
    client.send_notification("_go", json!({ "sessionId": session })).await;
    for call in [running, waiting] {
        let error = expect_error(call.wait_answer().await)?;
        assert_eq!(error.data["reason"], "session_ended", "{error}");
    }
    let http = RestClient::new(&host);
    let ended = http.get(&format!("/sessions/{session}")).await?.expect(200)?;
    assert_eq!((&ended["status"], &ended["endReason"]), (&json!("killed"), &json!("log_full")));
    let size: usize = log::read_records(&host, &session)?
        .iter()
        .map(|record| record.to_string().len())
        .sum();
    // Output that was read from the agent in one go is kept whole.
    assert!((50 << 10..1 << 20).contains(&size), "{size} bytes");

    let answer = http
        .post(&format!("/sessions/{session}/prompt"), &json!({ "prompt": "echo more" }))
        .await?;
    assert_eq!(answer.status_and_code(), (507, "log_full".to_owned()));
    assert!(
        answer.json()["detail"]
            .as_str()
            .is_some_and(|detail| detail.contains("limits.log"))
    );
    let error = expect_error(client.send_prompt(&session, "echo more").await)?;
    assert_eq!(error.data["reason"], "log_full", "{error}");
    let reader = crate::connect_client(&host).await?;
    reader.load_session(&session, &cwd(&host)?).await?;
    assert!(!reader.chunk_texts().is_empty(), "nothing is read");
    assert_eq!(prompt_for_text(&client, &other, "echo unharmed").await?, "unharmed");

    // With a larger limit the session goes on.
    let larger = host.options_mut().config.as_mut().context("no configuration")?;
    *larger = larger.replace("log = \"64KiB\"", "log = \"64MiB\"");
    host.restart()?;
    let http = RestClient::new(&host);
    send_prompt(&http, &session, "echo more").await?;
    wait_until_idle(&http, &session).await?;
    assert!(output_lines(&http, &session).await?.contains(&"more".to_owned()));
    let forgotten = http.delete(&format!("/sessions/{session}")).await?.expect(200)?;
    assert_eq!(forgotten["ok"], true);
    Ok(())
}

#[tokio::test]
async fn host_recovers_after_running_out_of_file_descriptors() -> Result<()> {
    let (options, _folder) = start_from_shell(scripted_host(&[])?, "ulimit -n 128")?;
    let host = options.start_host()?;
    assert!(
        host.read_stderr().contains("limits.connections"),
        "what does not fit is said: {}",
        host.read_stderr()
    );
    let (working, session) = open_session(&host).await?;
    let mut crowd = Vec::new();
    for _ in 0..150 {
        crowd.push(TcpStream::connect(host_authority(&host)).await?);
    }
    let said = polling::poll_until(WAIT_LIMIT, || {
        Ok(host.read_stderr().contains("cannot accept a connection").then_some(()))
    })
    .await?;
    ensure!(said.is_some(), "it did not run out: {}", host.read_stderr());
    assert_eq!(prompt_for_text(&working, &session, "echo on").await?, "on");
    drop(crowd);
    let http = RestClient::new(&host);
    let answer = tokio::time::timeout(WAIT_LIMIT, http.get("/sessions"))
        .await
        .context("it did not recover")??;
    assert_eq!(answer.status, 200);
    let complaints = host.read_stderr().matches("cannot accept a connection").count();
    assert!(complaints <= 4, "{complaints} complaints");
    Ok(())
}

#[tokio::test]
async fn host_raises_its_file_limit_and_agents_keep_the_original_limit() -> Result<()> {
    let (options, _folder) = start_from_shell(scripted_host(&[])?, "ulimit -Sn 200")?;
    let host = options.start_host()?;
    let soft = |pid: u32| -> Result<(String, String)> {
        let limits = std::fs::read_to_string(format!("/proc/{pid}/limits"))?;
        let line = limits
            .lines()
            .find(|line| line.starts_with("Max open files"))
            .context("no such limit")?;
        let mut words = line.split_whitespace().skip(3).map(str::to_owned);
        Ok((words.next().context("no soft limit")?, words.next().context("no hard limit")?))
    };
    let (own, most) = soft(host.pid())?;
    assert_eq!(own, most);
    let (client, session) = open_session(&host).await?;
    let agent = parse_pids(&prompt_for_text(&client, &session, "pid").await?)[0];
    assert_eq!(soft(agent)?, ("200".to_owned(), most));
    let seen = prompt_for_text(&client, &session, "env WHARF_KEEPER_FILES").await?;
    assert_eq!(
        seen.trim_start_matches("WHARF_KEEPER_FILES"),
        prompt_for_text(&client, &session, "env NO_SUCH")
            .await?
            .trim_start_matches("NO_SUCH")
    );
    Ok(())
}

#[test]
fn impossible_limits_are_refused_at_startup() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("config.toml");
    let path = config.display().to_string();
    for (text, word) in [
        ("[limits]\nheaders = \"1KiB\"", "limits.headers"),
        ("[limits]\nsilence = \"never\"", "limits.silence"),
        ("[limits]\nconnections_per_token = 0", "no client could reach"),
        ("hosts = [\"https://box.example\"]", "box.example"),
        ("hosts = [\"box.example:7433\"]", "without scheme and port"),
    ] {
        std::fs::write(&config, text)?;
        let error = crate::program::run_failing_serve(
            &folder.path().join("state"),
            &["--config", &path, "--listen", "127.0.0.1:0"],
        )?;
        assert!(error.contains(word), "{text}: {error}");
    }
    Ok(())
}
