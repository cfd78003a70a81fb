//! A disk that is really full: sessions pause, kills and cancels work, and sessions resume when
//! there is space (rule 10.5).

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::client::{CallFailure, TestClient};
use wharf_testkit::host::{HostOptions, TestHost};
use wharf_testkit::http::RestClient;
use wharf_testkit::processes;
use wharf_testkit::small_disk::{DiskFiller, SmallDisk};

use crate::{
    TREE_ENDS_WITHIN, add_section, connect_client, cwd, expect_error, log, open_session,
    parse_pids, prompt_for_text, scripted_host, stop_reason,
};

const STREAMED_UPDATES: u64 = 4_000;

fn start_on_small_disk(flags: &[&str]) -> Result<HostOptions> {
    Ok(add_section(scripted_host(flags)?, "[limits]\nreserve = \"1MiB\"").with_disk("10m"))
}

fn list_event_kinds(host: &TestHost, session: &str) -> Result<Vec<String>> {
    let records = log::read_records(host, session)?;
    Ok(records
        .iter()
        .map(|record| record["event"]["kind"].as_str().unwrap_or_default().to_owned())
        .collect())
}

fn expect_storage_full(answer: Result<impl std::fmt::Debug, CallFailure>) -> Result<()> {
    let error = expect_error(answer)?;
    assert_eq!(error.data["reason"], "storage_full", "{error}");
    Ok(())
}

/// Lets the agent continue and waits until the session is paused.
async fn go_until_paused(host: &TestHost, client: &TestClient, session: &str) -> Result<()> {
    client.send_notification("_go", json!({ "sessionId": session })).await;
    log::expect_event(host, session, "paused", |event| event["why"] == "storage_full").await?;
    Ok(())
}

async fn expect_refusals(
    host: &TestHost,
    http: &RestClient,
    client: &TestClient,
    session: &str,
) -> Result<()> {
    let sessions = log::all_sessions(host)?;
    let at = format!("/sessions/{session}");
    assert_eq!(http.get(&at).await?.expect(200)?["paused"], "storage_full");
    let status = client.call_method("session/status", json!({ "sessionId": session })).await?;
    assert_eq!(
        (&status["status"], &status["_meta"]["wharf"]["paused"]),
        (&json!("live"), &json!("storage_full"))
    );
    let prompt = json!({ "prompt": "echo no", "queue": true });
    assert_eq!(
        http.post(&format!("{at}/prompt"), &prompt).await?.status_and_code(),
        (507, "storage_full".to_owned())
    );
    expect_storage_full(client.send_prompt(session, "echo no").await)?;
    expect_storage_full(client.new_session(&cwd(host)?).await)?;
    let spawn = json!({ "adapter": "scripted", "cwd": cwd(host)? });
    assert_eq!(
        http.post("/sessions/agent", &spawn).await?.status_and_code(),
        (507, "storage_full".to_owned())
    );
    assert_eq!(log::all_sessions(host)?, sessions, "nothing half made is left");
    Ok(())
}

#[tokio::test]
async fn sessions_pause_on_a_full_disk_and_resume_without_loss() -> Result<()> {
    if !SmallDisk::is_possible() {
        return Ok(());
    }
    let host = start_on_small_disk(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let elsewhere = host.directory().join("elsewhere");
    std::fs::create_dir(&elsewhere)?;
    http.post("/workspaces", &json!({ "slug": "kept", "path": elsewhere }))
        .await?
        .expect(201)?;
    let (client, session) = open_session(&host).await?;
    let (other, killed) = open_session(&host).await?;
    let agent = parse_pids(&prompt_for_text(&other, &killed, "pid").await?);
    let cancelled = other.new_session(&cwd(&host)?).await?;
    let streaming = client
        .start_prompt(&session, &format!("wait; stream {STREAMED_UPDATES} 500; echo whole"))
        .await;
    let hanging = other.start_prompt(&cancelled, "hang").await;
    for busy in [&session, &cancelled] {
        log::expect_event(&host, busy, "turn_started", |_| true).await?;
    }
    let mut filler = DiskFiller::fill_disk(&host.state_dir())?;
    go_until_paused(&host, &client, &session).await?;
    expect_refusals(&host, &http, &client, &session).await?;
    // Another program takes the space that was free for the pause.
    filler.take_rest();
    let workspace = json!({ "slug": "more", "path": cwd(&host)? });
    assert_eq!(http.post("/workspaces", &workspace).await?.status_and_code().0, 500);
    assert_eq!(
        http.get("/workspaces").await?.expect(200)?["workspaces"][0]["slug"],
        "kept",
        "the old file is there"
    );

    // Cancels and kills are written and carried out.
    other
        .send_notification("session/cancel", json!({ "sessionId": cancelled }))
        .await;
    log::expect_event(&host, &cancelled, "cancel_requested", |_| true).await?;
    http.post_empty(&format!("/sessions/{killed}/kill")).await?.expect(200)?;
    assert_eq!(list_event_kinds(&host, &killed)?.last().map(String::as_str), Some("ended"));
    processes::wait_gone(&agent, TREE_ENDS_WITHIN)
        .map_err(|left| anyhow::anyhow!("left: {left:?}"))?;
    let shown = client
        .received_frames()
        .iter()
        .filter(|frame| frame.chunk_index().is_some())
        .count();
    let written = log::list_events(&host, &session, "agent_updated")?.len();
    assert!(
        shown <= written && written < STREAMED_UPDATES as usize,
        "{shown} shown, {written} written"
    );

    drop(filler);
    assert_eq!(stop_reason(streaming.wait_answer().await)?, "end_turn");
    assert_eq!(stop_reason(hanging.wait_answer().await)?, "cancelled");
    let indices: Vec<u64> = client
        .received_frames()
        .iter()
        .filter_map(|frame| frame.chunk_index())
        .collect();
    assert!(
        indices.into_iter().eq(0..STREAMED_UPDATES),
        "something that the agent said is lost or doubled"
    );
    let told_of: Vec<_> = list_event_kinds(&host, &session)?
        .into_iter()
        .filter(|kind| !kind.starts_with("agent_"))
        .collect();
    let expected =
        ["created", "prompt_accepted", "turn_started", "paused", "continued", "prompt_ended"];
    assert_eq!(told_of, expected, "what was refused has left no trace");
    assert_eq!(
        http.get(&format!("/sessions/{session}")).await?.expect(200)?["paused"],
        Value::Null
    );
    assert_eq!(prompt_for_text(&client, &session, "echo again").await?, "again");
    client.new_session(&cwd(&host)?).await?;
    Ok(())
}

#[tokio::test]
async fn host_starts_on_a_full_disk_and_can_kill_and_delete_sessions() -> Result<()> {
    if !SmallDisk::is_possible() {
        return Ok(());
    }
    let mut host = start_on_small_disk(&[])?.without_keepers(crate::TURN_IS_CUT).start_host()?;
    let (first, session) = open_session(&host).await?;
    first.send_prompt(&session, "echo before").await?;
    let running = first.start_prompt(&session, "hang").await;
    log::expect_event(&host, &session, "turn_started", |event| event["prompt"] != Value::Null)
        .await?;
    host.kill()?;
    drop(running);
    let filler = DiskFiller::fill_disk(&host.state_dir())?;
    host.restart()?;
    let http = RestClient::new(&host);
    log::expect_event(&host, &session, "ended", |event| {
        event["ending"]["reason"] == "host_restarted"
    })
    .await?;
    let listed = http.get("/sessions").await?.expect(200)?;
    assert_eq!(listed["sessions"][0]["status"], "killed", "{listed}");
    let second = connect_client(&host).await?;
    // The prompt is longer than the free space behind the last record.
    expect_storage_full(
        second.send_prompt(&session, &format!("echo {}", "no".repeat(5_000))).await,
    )?;
    drop(filler);
    // The prompt is repeated until one finds the space.
    loop {
        match second.send_prompt(&session, "echo after").await {
            Ok(_) => break,
            Err(error) => assert_eq!(error.data["reason"], "storage_full", "{error}"),
        }
    }
    assert!(second.chunk_texts().contains(&"after".to_owned()));
    Ok(())
}

#[tokio::test]
async fn unwritable_state_directory_is_an_error_at_startup() -> Result<()> {
    if !SmallDisk::is_possible() {
        return Ok(());
    }
    let mut host = start_on_small_disk(&[])?.start_host()?;
    assert!(host.terminate()?.success());
    host.disk().context("no disk")?.make_read_only()?;
    let error = format!("{:#}", host.restart().err().context("it started")?);
    let state = host.state_dir();
    assert!(
        error.contains("cannot be used") && error.contains(state.to_str().context("not UTF-8")?),
        "{error}"
    );
    assert!(error.contains("Read-only"), "{error}");
    Ok(())
}
