//! Clients that try to exceed the rights of their token or the limits of the host.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::json;
use tokio::net::TcpStream;
use wharf_testkit::client::TestClient;
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;
use wharf_testkit::{WAIT_LIMIT, polling};

use crate::recording::Recording;
use crate::rest::{caller_with_role, spawn_session, wait_for_session};
use crate::transports::create_observer_token;
use crate::{
    add_section, connect_client, expect_error, log, open_session, prompt_for_text, scripted_host,
};

/// Installs a program under the name of a well-known agent; it creates the marker file when it
/// runs.
fn install_impostor(host: &TestHost) -> Result<(PathBuf, PathBuf)> {
    let (dir, mark) = (host.directory().join("evil"), host.directory().join("ran"));
    fs::create_dir_all(&dir)?;
    let program = dir.join("goose");
    fs::write(&program, format!("#!/bin/sh\n: > {}\n", mark.display()))?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    Ok((dir, mark))
}

fn initialize_params_with_path(path: &std::path::Path) -> serde_json::Value {
    json!({ "protocolVersion": 1, "_meta": { "wharf": { "env": { "PATH": path } } } })
}

#[tokio::test]
async fn only_admins_choose_the_path_of_programs() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (path, mark) = install_impostor(&host)?;
    let url = format!("{}?agent=goose", host.ws_url());
    for token in
        [create_observer_token(&host)?, caller_with_role(&host, "controller")?.token().to_owned()]
    {
        let intruder = TestClient::connect(&url, &token).await?;
        let _ = intruder.call_method("initialize", initialize_params_with_path(&path)).await;
        let body = json!({ "adapter": "goose", "env": { "PATH": path } });
        RestClient::with_token(&host, &token).post("/sessions/agent", &body).await?;
        assert!(!mark.exists(), "a program of the caller's own choice was run");
    }
    // The user's own shell may set PATH, since the agent is installed there.
    let own = TestClient::connect(&url, host.token()).await?;
    expect_error(own.call_method("initialize", initialize_params_with_path(&path)).await)?;
    assert!(mark.exists());
    Ok(())
}

#[tokio::test]
async fn observer_cannot_start_an_agent_by_initialize() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let looking = TestClient::connect(&host.ws_url(), &create_observer_token(&host)?).await?;
    let answer = looking.initialize().await?;
    assert_eq!(answer["agentInfo"]["name"], "wharf");
    assert_eq!(answer["agentCapabilities"]["sessionCapabilities"]["attach"], json!({}));
    assert!(
        wharf_testkit::processes::list_descendants(host.pid()).is_empty(),
        "nothing was started"
    );
    // Once an agent has answered, an observer gets its answer.
    let _one = connect_client(&host).await?;
    let looking = TestClient::connect(&host.ws_url(), &create_observer_token(&host)?).await?;
    assert_ne!(looking.initialize().await?["agentInfo"]["name"], "wharf");
    Ok(())
}

#[tokio::test]
async fn observer_cannot_log_out() -> Result<()> {
    let recording = Recording::new()?;
    let host = recording.host_options(&[])?.start_host()?;
    let (one, session) = crate::open_session(&host).await?;
    let looking = crate::connect_observer(&host).await?;
    assert_eq!(expect_error(looking.call_method("logout", json!({})).await)?.code, -32011);
    assert_eq!(crate::prompt_for_text(&one, &session, "echo still here").await?, "still here");
    let heard = recording.read_messages()?;
    assert!(!heard.iter().any(|message| message["method"] == "logout"), "{heard:?}");
    Ok(())
}

#[tokio::test]
async fn directories_in_odd_frames_are_checked() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let work = host.directory().join("work");
    fs::create_dir_all(&work)?;
    RestClient::new(&host)
        .post("/workspaces", &json!({ "slug": "work", "path": work }))
        .await?
        .expect(201)?;
    let http = caller_with_role(&host, "controller")?;
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for odd in [
        r#""x":1"#.to_owned(),
        format!(r#""x":{deep}"#),
        r#""x":1e999"#.to_owned(),
        r#""x":"\ud800""#.to_owned(),
    ] {
        let intruder = TestClient::connect(&host.ws_url(), http.token()).await?;
        intruder.initialize().await?;
        let params = format!(
            r#"{{"cwd":"{}","mcpServers":[],"additionalDirectories":["/etc"],{odd}}}"#,
            work.display()
        );
        let line =
            format!(r#"{{"jsonrpc":"2.0","id":77,"method":"session/new","params":{params}}}"#);
        intruder.send_raw(&line).await;
        let answer = intruder.expect("an answer", |frame| frame.body["id"] == 77).await;
        assert!(answer.body.get("error").is_some(), "{odd}: {}", answer.raw);
    }
    let nested = (0..125).fold(json!(1), |inner, _| json!([inner]));
    let body = json!({ "adapter": "scripted", "cwd": work, "additionalDirectories": ["/etc"], "mcpServers": [nested] });
    assert_ne!(http.post("/sessions/agent", &body).await?.status, 201);
    assert_eq!(
        RestClient::new(&host).get("/sessions").await?.expect(200)?,
        json!({ "sessions": [] })
    );
    Ok(())
}

#[tokio::test]
async fn delete_of_a_hanging_agent_blocks_no_other_request() -> Result<()> {
    let mut host = scripted_host(&["--resume", "--ignore-eof", "--ignore-term"])?.start_host()?;
    let cold = spawn_session(&RestClient::new(&host), &host).await?;
    host.kill()?;
    host.restart()?;
    let http = RestClient::new(&host);
    let stubborn = spawn_session(&http, &host).await?;
    let forgetting = {
        let (http, path) = (RestClient::new(&host), format!("/sessions/{stubborn}"));
        tokio::spawn(async move { http.delete(&path).await })
    };
    wait_for_session(&http, &stubborn, "its end has begun", |session| {
        session["status"] == "killed"
    })
    .await?;
    http.get(&format!("/sessions/{cold}/output")).await?.expect(200)?;
    assert!(
        !forgetting.is_finished(),
        "the cold session was read while the other one's agent was ended"
    );
    assert_eq!(forgetting.await??.expect(200)?["ok"], true);
    Ok(())
}

#[tokio::test]
async fn waiting_requests_hold_bounded_memory_and_others_get_through() -> Result<()> {
    let host = add_section(scripted_host(&["--hang-on", "_never"])?, "[limits]\nframe = \"1MiB\"")
        .start_host()?;
    let (_other, session) = open_session(&host).await?;
    let client = connect_client(&host).await?;
    let large = json!({ "filling": "x".repeat(900 << 10) });
    // Both requests wait for the agent without a session, which never answers.
    let _waiting = [
        client.start_request("_never", large.clone()).await,
        client.start_request("_never", large.clone()).await,
    ];
    let error = expect_error(client.call_method("_never", large).await)?;
    assert_eq!(error.data["reason"], "too_many_requests", "{error}");
    client.load_session(&session, &crate::cwd(&host)?).await?;
    let running = client.start_prompt(&session, "hang").await;
    log::expect_event(&host, &session, "turn_started", |_| true).await?;
    client
        .send_notification("session/cancel", json!({ "sessionId": session }))
        .await;
    assert_eq!(running.wait_answer().await?["stopReason"], "cancelled");
    assert_eq!(prompt_for_text(&client, &session, "echo unharmed").await?, "unharmed");
    Ok(())
}

#[tokio::test]
async fn values_repeated_in_a_refusal_are_cut() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let client = connect_client(&host).await?;
    let long = "x".repeat(5_000);
    client
        .send_raw(&json!({ "jsonrpc": "2.0", "id": long, "method": "session/list" }).to_string())
        .await;
    let answer = client.expect("the refusal", |frame| frame.raw.contains("-32600")).await;
    assert!(answer.raw.contains("the id of a request"), "{answer:?}");
    for (method, params) in [
        (format!("_wharf/{long}"), json!({})),
        ("session/load".into(), json!({ "sessionId": long })),
    ] {
        let error = expect_error(client.call_method(&method, params).await)?;
        assert!(error.code == -32600 && error.message.len() < 100, "{error}");
    }
    Ok(())
}

#[tokio::test]
async fn an_agent_that_reads_many_large_files_at_once_gets_them_all() -> Result<()> {
    let record = tempfile::NamedTempFile::new()?;
    let host =
        scripted_host(&["--record", record.path().to_str().context("not UTF-8")?])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let (large, requests) = (host.directory().join("large.txt"), host.directory().join("requests"));
    fs::write(&large, "x".repeat(20 << 20))?;
    // Together they exceed the bytes that may wait for an agent that does not read.
    let request = |id: u32| {
        let params = json!({ "sessionId": "$SESSION", "path": large });
        json!({ "jsonrpc": "2.0", "id": format!("read-{id}"), "method": "fs/read_text_file", "params": params })
    };
    fs::write(&requests, (0..8).map(|id| format!("{}\n", request(id))).collect::<String>())?;
    client.send_prompt(&session, &format!("rawfile {}", requests.display())).await?;
    let all = || Ok((record.path().metadata()?.len() > 8 * (20 << 20)).then_some(()));
    polling::poll_until(WAIT_LIMIT, all)
        .await?
        .context("the agent did not get what it asked for")?;
    assert_eq!(prompt_for_text(&client, &session, "echo unharmed").await?, "unharmed");
    Ok(())
}

#[tokio::test]
async fn unread_large_answers_leave_room_for_small_ones() -> Result<()> {
    let limits = "[limits]\nframe = \"1MiB\"\nbodies = \"2MiB\"\nbuffers = \"4MiB\"";
    let host = add_section(scripted_host(&[])?, limits).start_host()?;
    let (client, session) = open_session(&host).await?;
    client.send_prompt(&session, "stream 200 1000").await?;
    let socket = TcpStream::connect(host.url().trim_start_matches("http://")).await?;
    // The window is zero, so no body can be sent.
    let unread = h2::client::Builder::new()
        .initial_window_size(0)
        .handshake::<_, ::bytes::Bytes>(socket)
        .await?;
    let (requests, connection) = unread;
    tokio::spawn(connection);
    let ask = async |query: &str| -> Result<_> {
        let url = format!("{}/sessions/{session}/events?{query}", host.url());
        let request = tokio_tungstenite::tungstenite::http::Request::get(url);
        let request =
            request.header("authorization", format!("Bearer {}", host.token())).body(())?;
        let (answer, _) = requests.clone().ready().await?.send_request(request, true)?;
        Ok(tokio::time::timeout(WAIT_LIMIT, answer).await??)
    };
    // Each answer has about 300 KiB.
    let mut held = Vec::new();
    let refused = loop {
        let answer = ask("limit=1000").await?;
        if answer.status() != 200 {
            break answer;
        }
        held.push(answer);
        assert!(held.len() < 32, "more is held than limits.buffers");
    };
    assert!(held.len() > 2, "{}", held.len());
    assert_eq!((refused.status().as_u16(), refused.headers()["retry-after"].to_str()?), (503, "1"));
    assert_eq!(ask("limit=1").await?.status(), 200, "a small one needs no place");
    let http = RestClient::new(&host);
    let page = format!("/sessions/{session}/events?limit=1000");
    assert_eq!(http.get(&page).await?.status_and_code(), (503, "too_many_answers".to_owned()));
    held.clear();
    let events = http.get(&page).await?.expect(200)?;
    assert!(events["events"].as_array().is_some_and(|events| events.len() > 200));
    Ok(())
}

#[tokio::test]
async fn name_of_a_client_is_cut_before_it_is_recorded_or_shown() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let client = TestClient::connect(&host.ws_url(), host.token()).await?;
    let info = json!({ "name": format!("n\u{1b}[2J{}", "x".repeat(60_000)), "version": "v".repeat(60_000) });
    client
        .call_method(
            "initialize",
            json!({ "protocolVersion": 1, "clientCapabilities": {}, "clientInfo": info }),
        )
        .await?;
    let session = client.new_session(&crate::cwd(&host)?).await?;
    client.send_prompt(&session, "echo hello").await?;
    let accepted = crate::log::list_events(&host, &session, "prompt_accepted")?;
    let sender = accepted.first().context("no prompt")?["sender"].clone();
    let length = |member: &str| sender[member].as_str().map(|text| text.chars().count());
    assert_eq!((length("name"), length("version")), (Some(200), Some(200)));
    assert!(sender["name"].as_str().is_some_and(|name| name.starts_with("n[2Jx")), "{sender}");
    Ok(())
}
