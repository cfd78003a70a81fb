//! `session/ready`: no update of a session reaches a client before the client knows the session
//! (§6, rule 3.6).

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::client::{ReceivedFrame, TestClient};
use wharf_testkit::host::TestHost;
use wharf_testkit::{WAIT_LIMIT, polling};

use crate::recording::Recording;
use crate::{connect_client, cwd, join_session, log, open_session, scripted_host, stop_reason};

/// Longer than any test: a client that waited for this timeout would fail the test.
const ENDLESS_READY_TIMEOUT: &str = "600s";

/// Returns when all frames that were under way to the client have arrived.
async fn round_trip(client: &TestClient) -> Result<()> {
    client.call_method("session/list", json!({})).await?;
    Ok(())
}

fn is_of_session(client: &TestClient, session: &str) -> Vec<ReceivedFrame> {
    let frames = client.received_frames().into_iter();
    frames
        .filter(|frame| !frame.method().is_empty() && frame.params()["sessionId"] == session)
        .collect()
}

async fn notify_ready(client: &TestClient, session: &str) {
    client.send_notification("session/ready", json!({ "sessionId": session })).await;
}

/// Waits until the agent has sent its early updates.
async fn wait_for_early_updates(host: &TestHost, session: &str, last: &str) -> Result<()> {
    log::expect_event(host, session, "agent_updated", |event| {
        event["frame"].to_string().contains(last)
    })
    .await
    .map(drop)
}

#[tokio::test]
async fn updates_wait_for_the_session_ready_message() -> Result<()> {
    let host = scripted_host(&["--early-updates", "3", "--commands"])?
        .with_setting("ready_timeout", ENDLESS_READY_TIMEOUT)
        .start_host()?;
    let (first, session) = open_session(&host).await?;
    wait_for_early_updates(&host, &session, "availableCommands").await?;
    let other = first.new_session(&cwd(&host)?).await?;
    round_trip(&first).await?;
    assert!(is_of_session(&first, &session).is_empty(), "held back");
    notify_ready(&first, &session).await;
    first
        .expect_update("the commands", |update| update["availableCommands"].is_array())
        .await;
    assert_eq!(
        first.chunk_texts(),
        ["early 0", "early 1", "early 2"],
        "nothing dropped, nothing reordered"
    );
    round_trip(&first).await?;
    assert!(is_of_session(&first, &other).is_empty(), "the other session is another matter");
    Ok(())
}

#[tokio::test]
async fn any_message_about_the_session_counts_as_ready() -> Result<()> {
    let host = scripted_host(&["--early-updates", "3"])?
        .with_setting("ready_timeout", ENDLESS_READY_TIMEOUT)
        .start_host()?;
    let messages = [
        ("session/prompt", json!({ "prompt": [{ "type": "text", "text": "echo x" }] })),
        ("session/status", json!({})),
        ("session/set_mode", json!({ "modeId": "auto" })),
        ("_echo", json!({})),
    ];
    for (method, mut params) in messages {
        let (client, session) = open_session(&host).await?;
        params["sessionId"] = json!(session);
        client.call_method(method, params).await?;
        client.expect_text("early 2").await;
    }
    let (client, session) = open_session(&host).await?;
    client.cancel_turn(&session).await;
    client.expect_text("early 2").await;
    Ok(())
}

#[tokio::test]
async fn updates_to_clients_without_session_ready_wait_briefly() -> Result<()> {
    for timeout in [None, Some("10ms"), Some("0s")] {
        let options = scripted_host(&["--early-updates", "3"])?;
        let options = timeout.map_or_else(
            || options.clone(),
            |time| options.clone().with_setting("ready_timeout", time),
        );
        let host = options.start_host()?;
        let (client, _session) = open_session(&host).await?;
        client.expect_text("early 2").await;
    }
    Ok(())
}

#[tokio::test]
async fn answer_to_session_new_precedes_updates_of_the_session() -> Result<()> {
    // The agent sends updates before its own answer, every time.
    let host = scripted_host(&["--early-updates", "20"])?.start_host()?;
    let client = connect_client(&host).await?;
    let mut calls = Vec::new();
    for _ in 0..8 {
        calls.push(
            client
                .start_request("session/new", json!({ "cwd": cwd(&host)?, "mcpServers": [] }))
                .await,
        );
    }
    let expected: Vec<String> = (0..20).map(|number| format!("early {number}")).collect();
    for call in calls {
        let opened = call.wait_answer().await?;
        let session = opened["sessionId"].as_str().context("no id")?.to_owned();
        let all = || Ok((is_of_session(&client, &session).len() == expected.len()).then_some(()));
        polling::poll_until(WAIT_LIMIT, all).await?.context("not all of the updates")?;
        let frames = client.received_frames();
        let answered = frames
            .iter()
            .position(|frame| frame.body["result"]["sessionId"] == session.as_str());
        let first = frames.iter().position(|frame| frame.params()["sessionId"] == session.as_str());
        assert!(answered.context("no answer")? < first.context("no update")?);
        let texts = is_of_session(&client, &session);
        assert_eq!(
            texts.iter().filter_map(ReceivedFrame::chunk_text).collect::<Vec<_>>(),
            expected
        );
    }
    Ok(())
}

#[tokio::test]
async fn load_replay_is_sent_at_once_and_later_updates_wait_for_ready() -> Result<()> {
    let host = scripted_host(&[])?
        .with_setting("ready_timeout", ENDLESS_READY_TIMEOUT)
        .start_host()?;
    let (first, session) = open_session(&host).await?;
    let running = first
        .start_prompt(&session, "echo before; commands; ask; stream 300; echo end")
        .await;
    let ask = first.expect_request("session/request_permission").await;
    let second = join_session(&host, &session).await?;
    assert_eq!(second.chunk_texts(), ["before"]);
    let third = connect_client(&host).await?;
    third
        .call_method(
            "session/resume",
            json!({ "sessionId": session, "cwd": cwd(&host)?, "mcpServers": [] }),
        )
        .await?;
    for client in [&second, &third] {
        round_trip(client).await?;
        assert!(
            !client.received_frames().iter().any(ReceivedFrame::is_request),
            "the open permission is held back"
        );
    }
    assert!(is_of_session(&third, &session).is_empty(), "so is the latest state");
    first
        .send_result(
            ask.id(),
            json!({ "outcome": { "outcome": "selected", "optionId": "allow_once" } }),
        )
        .await;
    assert_eq!(stop_reason(running.wait_answer().await)?, "end_turn");
    for client in [&second, &third] {
        round_trip(client).await?;
        assert!(!client.chunk_texts().contains(&"end".to_owned()), "held back");
        notify_ready(client, &session).await;
        client.expect_text("end").await;
        let indices: Vec<u64> =
            client.received_frames().iter().filter_map(ReceivedFrame::chunk_index).collect();
        assert!(indices.into_iter().eq(0..300), "nothing dropped, nothing reordered");
    }
    let commands = |update: &Value| update["availableCommands"].is_array();
    let told = third
        .received_frames()
        .iter()
        .filter_map(ReceivedFrame::update)
        .filter(|update| commands(update))
        .count();
    assert_eq!(told, 1, "the latest state follows the answer of a resume");
    Ok(())
}

#[tokio::test]
async fn agent_that_asks_for_it_is_sent_session_ready() -> Result<()> {
    for flags in [&["--ready"][..], &["--ready", "--resume"]] {
        let recording = Recording::new()?;
        let mut host = recording
            .host_options(flags)?
            .without_keepers(crate::AGENT_COMES_BACK)
            .start_host()?;
        let (first, session) = open_session(&host).await?;
        // The agent refuses prompts before `session/ready` and holds its own updates back until
        // then.
        assert_eq!(stop_reason(first.send_prompt(&session, "echo one").await)?, "end_turn");
        first.expect_text("one").await;
        assert_eq!(recording.read_methods()?, ["session/new", "session/ready", "session/prompt"]);
        let sent = recording.since_start()?;
        assert_eq!(
            sent[1]["params"]["sessionId"], sent[2]["params"]["sessionId"],
            "under the agent's own id"
        );
        let updates = log::list_events(&host, &session, "agent_updated")?;
        assert!(updates.iter().any(|event| event["update"] == "available_commands_update"));

        host.restart()?;
        let second = connect_client(&host).await?;
        assert_eq!(stop_reason(second.send_prompt(&session, "echo two").await)?, "end_turn");
        let back = if flags.contains(&"--resume") { "session/resume" } else { "session/load" };
        assert_eq!(recording.read_methods()?, [back, "session/ready", "session/prompt"]);
    }
    Ok(())
}

#[tokio::test]
async fn agent_that_does_not_ask_for_it_is_not_sent_session_ready() -> Result<()> {
    let recording = Recording::new()?;
    let host = recording.host_options(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    notify_ready(&first, &session).await;
    first.send_prompt(&session, "echo one").await?;
    assert_eq!(recording.read_methods()?, ["session/new", "session/prompt"]);
    Ok(())
}
