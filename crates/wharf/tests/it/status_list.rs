//! `session/status` and `session/list` read sessions without changing or waking them (§5, rule
//! 3.5).

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::client::TestClient;
use wharf_testkit::host::TestHost;

use crate::{
    add_scripted_agent, connect_client, connect_client_of, cwd, join_session, log, open_session,
    scripted_host, without_usage,
};

async fn fetch_status(client: &TestClient, session: &str) -> Result<Value> {
    Ok(without_usage(client.call_method("session/status", json!({ "sessionId": session })).await?))
}

async fn fetch_list(client: &TestClient, params: Value) -> Result<Value> {
    Ok(without_usage(client.call_method("session/list", params).await?))
}

fn list_ids(list: &Value) -> Vec<String> {
    let sessions = list["sessions"].as_array().into_iter().flatten();
    sessions
        .filter_map(|session| session["sessionId"].as_str().map(str::to_owned))
        .collect()
}

async fn new_session(client: &TestClient, cwd: &Path) -> Result<String> {
    Ok(client.new_session(cwd.to_str().context("not UTF-8")?).await?)
}

#[tokio::test]
async fn status_of_a_running_session_is_live_and_of_an_ended_one_not_found() -> Result<()> {
    let mut host = add_scripted_agent(scripted_host(&[])?, "mortal", &["--no-load"])?
        .without_keepers(crate::AGENT_COMES_BACK)
        .start_host()?;
    let (first, session) = open_session(&host).await?;
    let mortal = connect_client_of(&host, "mortal").await?.new_session(&cwd(&host)?).await?;
    let second = connect_client(&host).await?;
    let live = |turn: &str, clients: u32| json!({ "status": "live", "_meta": { "wharf": { "turn": turn, "clients": clients, "resumable": true } } });
    assert_eq!(fetch_status(&second, &session).await?, live("idle", 1));
    let running = first.start_prompt(&session, "echo on it; ask").await;
    let ask = first.expect_request("session/request_permission").await;
    assert_eq!(fetch_status(&second, &session).await?, live("awaiting_input", 1));
    first
        .send_result(
            ask.id(),
            json!({ "outcome": { "outcome": "selected", "optionId": "allow_once" } }),
        )
        .await;
    running.wait_answer().await?;
    let _running = first.start_prompt(&session, "echo again; hang").await;
    first.expect_text("again").await;
    assert_eq!(fetch_status(&second, &session).await?, live("running", 1));
    let third = join_session(&host, &session).await?;
    assert_eq!(fetch_status(&second, &session).await?, live("running", 2));
    drop(third);
    for unknown in ["sess_00000000000000000000000000", "../../token", ""] {
        let answer = fetch_status(&second, unknown).await?;
        assert_eq!(answer["status"], "not_found", "never an error: {answer}");
        assert_eq!(answer["_meta"]["wharf"]["resumable"], false);
    }
    host.restart()?;
    let later = connect_client(&host).await?;
    for (id, resumable) in [(&session, true), (&mortal, false)] {
        let answer = fetch_status(&later, id).await?;
        assert_eq!(answer["status"], "not_found");
        assert_eq!(answer["_meta"]["wharf"]["resumable"], resumable, "{id}");
    }
    Ok(())
}

/// Asks as fast as possible; the benchmark measures the rate.
async fn probe_status(client: &TestClient, session: &str, times: usize) -> Result<()> {
    for _ in 0..times {
        assert_eq!(fetch_status(client, session).await?["status"], "live");
    }
    Ok(())
}

#[tokio::test]
async fn asking_for_the_status_appends_nothing_and_works_while_the_agent_hangs() -> Result<()> {
    let host = scripted_host(&["--no-cancel"])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    let _running = first.start_prompt(&session, "echo on it; hang hard").await;
    first.expect_text("on it").await;
    let before = log::read_records(&host, &session)?;
    let descriptor = fetch_list(&first, json!({})).await?;
    let second = connect_client(&host).await?;
    probe_status(&second, &session, 500).await?;
    assert_eq!(log::read_records(&host, &session)?, before);
    assert_eq!(fetch_list(&first, json!({})).await?, descriptor, "nor does it count as output");
    Ok(())
}

#[tokio::test]
async fn the_status_is_answered_while_the_session_streams_at_full_rate() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    let running = first.start_prompt(&session, "burst 60000 100; echo end").await;
    first.expect("some of it", |frame| frame.chunk_index().is_some()).await;
    let second = connect_client(&host).await?;
    probe_status(&second, &session, 200).await?;
    running.wait_answer().await?;
    Ok(())
}

#[tokio::test]
async fn status_request_does_not_wake_a_cold_session() -> Result<()> {
    let mut host = scripted_host(&[])?.without_keepers(crate::AGENT_COMES_BACK).start_host()?;
    let (_first, session) = open_session(&host).await?;
    host.restart()?;
    log::expect_event(&host, &session, "ended", |_| true).await?;
    let before = log::read_records(&host, &session)?;
    let second = connect_client(&host).await?;
    for _ in 0..20 {
        assert_eq!(fetch_status(&second, &session).await?["status"], "not_found");
        assert_eq!(list_ids(&fetch_list(&second, json!({})).await?), [session.as_str()]);
    }
    assert_eq!(log::read_records(&host, &session)?, before);
    Ok(())
}

#[tokio::test]
async fn the_list_shows_the_sessions_of_the_connections_agent_newest_first() -> Result<()> {
    let host = add_scripted_agent(scripted_host(&[])?, "other", &["--no-modes"])?.start_host()?;
    let (first, one) = open_session(&host).await?;
    let two = first.new_session(&cwd(&host)?).await?;
    first.send_prompt(&two, "title A good name; echo hi").await?;
    let other = connect_client_of(&host, "other").await?;
    let three = other.new_session(&cwd(&host)?).await?;
    // The agent is named at the session's creation, not by the connection.
    let new =
        json!({ "cwd": cwd(&host)?, "mcpServers": [], "_meta": { "wharf": { "agent": "other" } } });
    let opened = first.call_method("session/new", new).await?;
    let four = opened["sessionId"].as_str().context("no id")?.to_owned();
    assert!(opened.get("modes").is_none(), "of the other agent: {opened}");

    let own = fetch_list(&first, json!({})).await?;
    assert_eq!(list_ids(&own), [two.clone(), one.clone()]);
    let session = &own["sessions"][0];
    assert_eq!(session["title"], "A good name");
    assert_eq!(session["cwd"], cwd(&host)?.as_str());
    assert!(session["updatedAt"].as_str().is_some_and(|at| at.ends_with('Z')), "{session}");
    let meta = &session["_meta"]["wharf"];
    assert_eq!(
        (&meta["agent"], &meta["status"], &meta["clients"]),
        (&json!("scripted"), &json!("running"), &json!(1))
    );
    assert_eq!(list_ids(&fetch_list(&other, json!({})).await?), [four.clone(), three.clone()]);
    let all = fetch_list(&other, json!({ "_meta": { "wharf": { "all": true } } })).await?;
    assert_eq!(list_ids(&all), [four, three, two, one]);
    Ok(())
}

#[tokio::test]
async fn list_can_be_filtered_by_directory() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (here, there) = (host.directory().join("here"), host.directory().join("there"));
    std::fs::create_dir(&here)?;
    std::fs::create_dir(&there)?;
    let client = connect_client(&host).await?;
    let one = new_session(&client, &here).await?;
    let two = new_session(&client, &there).await?;
    let three = new_session(&client, &here).await?;
    assert_eq!(list_ids(&fetch_list(&client, json!({ "cwd": here })).await?), [three, one]);
    assert_eq!(list_ids(&fetch_list(&client, json!({ "cwd": there })).await?), [two]);
    assert_eq!(list_ids(&fetch_list(&client, json!({ "cwd": "/nowhere" })).await?), [""; 0]);
    Ok(())
}

/// Creates sessions and ends them, so that many of them use little memory.
async fn create_ended_sessions(
    host: &TestHost,
    client: &TestClient,
    count: usize,
) -> Result<Vec<String>> {
    let mut made = Vec::new();
    for _ in 0..count {
        let session = client.new_session(&cwd(host)?).await?;
        client.call_method("session/close", json!({ "sessionId": session })).await?;
        made.push(session);
    }
    Ok(made)
}

#[tokio::test]
async fn list_pages_stay_consistent_while_sessions_come_and_go() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let client = connect_client(&host).await?;
    let mut made = create_ended_sessions(&host, &client, 104).await?;
    let first = fetch_list(&client, json!({})).await?;
    let cursor = first["nextCursor"].as_str().context("no cursor")?.to_owned();
    assert_eq!(list_ids(&first).len(), 100);
    // One session is added at the beginning, and the one at the page boundary is gone.
    create_ended_sessions(&host, &client, 1).await?;
    let seam = list_ids(&first).pop().context("no session")?;
    client.call_method("session/delete", json!({ "sessionId": seam })).await?;
    let second = fetch_list(&client, json!({ "cursor": cursor })).await?;
    assert!(second.get("nextCursor").is_none());
    made.reverse();
    assert_eq!([list_ids(&first), list_ids(&second)].concat(), made);
    Ok(())
}

#[tokio::test]
async fn a_session_that_is_deleted_is_gone_and_deleting_it_again_succeeds() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    let second = join_session(&host, &session).await?;
    let delete = json!({ "sessionId": session });
    let error = crate::expect_error(second.call_method("session/delete", delete.clone()).await)?;
    assert_eq!(error.data["reason"], "in_use", "{error}");
    first.send_prompt(&session, "echo still there").await?;
    let force = json!({ "sessionId": session, "_meta": { "wharf": { "force": true } } });
    second.call_method("session/delete", force).await?;
    assert!(!log::session_dir(&host, &session).exists());
    second.call_method("session/delete", delete.clone()).await?;
    second
        .call_method("session/delete", json!({ "sessionId": "sess_unknown" }))
        .await?;
    assert_eq!(fetch_status(&second, &session).await?["status"], "not_found");
    assert_eq!(list_ids(&fetch_list(&second, json!({})).await?), [""; 0]);
    let error = crate::expect_error(first.send_prompt(&session, "echo hello?").await)?;
    assert!(error.code == -32002 || error.data["reason"] == "unavailable", "{error}");
    Ok(())
}

#[tokio::test]
async fn close_ends_a_session_only_for_its_last_client_or_with_force() -> Result<()> {
    let host = scripted_host(&["--close"])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    let second = join_session(&host, &session).await?;
    second.call_method("session/close", json!({ "sessionId": session })).await?;
    assert_eq!(fetch_status(&first, &session).await?["_meta"]["wharf"]["clients"], 1);
    assert_eq!(crate::prompt_for_text(&first, &session, "echo alone").await?, "alone");
    assert!(second.chunk_texts().is_empty(), "whoever closes leaves");
    first.call_method("session/close", json!({ "sessionId": session })).await?;
    assert_eq!(fetch_status(&first, &session).await?["status"], "not_found");

    let (first, session) = open_session(&host).await?;
    let second = join_session(&host, &session).await?;
    let force = json!({ "sessionId": session, "_meta": { "wharf": { "force": true } } });
    second.call_method("session/close", force).await?;
    assert_eq!(fetch_status(&first, &session).await?["status"], "not_found");
    let ended = log::list_events(&host, &session, "ended")?;
    assert_eq!(ended[0]["ending"]["reason"], "closed");
    let error = crate::expect_error(
        first.call_method("session/close", json!({ "sessionId": "sess_unknown" })).await,
    )?;
    assert_eq!(error.code, -32002);
    Ok(())
}
