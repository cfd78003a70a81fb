//! The demo agent as a new user meets it: through the host, and on a pipe.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::agent_pipe::{AgentPipe, joined_text};
use wharf_testkit::client::TestClient;
use wharf_testkit::host::{HostOptions, TestHost};

use crate::{join_session, open_session, prompt_for_text, stop_reason, wharf_binary};

fn start_demo_host() -> Result<TestHost> {
    HostOptions { binary: Some(wharf_binary()), ..HostOptions::default() }.start_host()
}

/// Returns the kinds of updates received so far, each once, in order of appearance.
fn list_update_kinds(client: &TestClient) -> Vec<String> {
    let mut kinds: Vec<String> = Vec::new();
    for frame in client.received_frames() {
        let kind = frame
            .update()
            .and_then(|update| update["sessionUpdate"].as_str())
            .unwrap_or_default();
        if !kind.is_empty() && !kinds.iter().any(|known| known == kind) {
            kinds.push(kind.to_owned());
        }
    }
    kinds
}

#[tokio::test]
async fn without_any_setting_the_demo_agent_answers() -> Result<()> {
    let host = start_demo_host()?;
    let (client, session) = open_session(&host).await?;
    let said = prompt_for_text(&client, &session, "hello").await?;
    assert!(said.contains("demo agent"), "{said}");
    let kinds = list_update_kinds(&client);
    for kind in [
        "session_info_update",
        "agent_thought_chunk",
        "plan",
        "agent_message_chunk",
        "usage_update",
    ] {
        assert!(kinds.iter().any(|seen| seen == kind), "no {kind} in {kinds:?}");
    }
    Ok(())
}

#[tokio::test]
async fn help_lists_the_commands_and_the_client_is_offered_them() -> Result<()> {
    let host = start_demo_host()?;
    let (client, session) = open_session(&host).await?;
    let said = prompt_for_text(&client, &session, "help").await?;
    let offered = client.received_frames().into_iter().find_map(|frame| {
        frame
            .update()
            .and_then(|update| update["availableCommands"].as_array().cloned())
    });
    let offered = offered.context("no commands were offered")?;
    assert!(offered.len() > 5);
    for command in &offered {
        let name = command["name"].as_str().unwrap_or_default();
        assert!(said.contains(&format!("- `{name}")), "no {name} in {said}");
    }
    Ok(())
}

#[tokio::test]
async fn an_edit_asks_both_clients_and_shows_a_diff() -> Result<()> {
    let host = start_demo_host()?;
    let (first, session) = open_session(&host).await?;
    let second = join_session(&host, &session).await?;
    let running = first.start_prompt(&session, "edit").await;
    let ask = second.expect_request("session/request_permission").await;
    let options = ask.params()["options"].as_array().context("no options")?.clone();
    let allow = options
        .iter()
        .find(|option| option["kind"] == "allow_once")
        .context("no way to allow it")?;
    let chosen = json!({ "outcome": { "outcome": "selected", "optionId": allow["optionId"] } });
    second.send_result(ask.id(), chosen).await;
    first.expect_notification("$/cancel_request").await;
    assert_eq!(stop_reason(running.wait_answer().await)?, "end_turn");
    let diff =
        |frame: &wharf_testkit::client::ReceivedFrame| frame.raw.contains("\"type\":\"diff\"");
    assert!(first.received_frames().iter().any(diff));
    Ok(())
}

#[tokio::test]
async fn long_answer_can_be_cancelled_and_the_agents_exit_is_reported() -> Result<()> {
    let host = start_demo_host()?;
    let (client, session) = open_session(&host).await?;
    let story = client.start_prompt(&session, "slow").await;
    client.expect("a chunk", |frame| frame.chunk_text().is_some()).await;
    client.cancel_turn(&session).await;
    assert_eq!(stop_reason(story.wait_answer().await)?, "cancelled");
    let error = crate::expect_error(client.send_prompt(&session, "die 4").await)?;
    assert_eq!(error.data["reason"], "agent_exited");
    let ended = crate::log::expect_event(&host, &session, "ended", |_| true).await?;
    assert_eq!(ended["ending"]["exit_code"], 4);
    Ok(())
}

#[test]
fn the_demo_agent_speaks_acp_on_a_pipe() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut agent =
        AgentPipe::start(&wharf_binary(), &["demo-agent"], &[("WHARF_DEMO_STATE", folder.path())])?;
    let session = agent.open_session()?;
    let (response, messages) = agent.send_prompt(&session, "echo straight through")?;
    assert_eq!(response["result"]["stopReason"], "end_turn");
    assert_eq!(joined_text(&messages), "straight through");
    agent.call_method("session/set_mode", json!({ "sessionId": session, "modeId": "auto" }))?;
    let (_, messages) = agent.send_prompt(&session, "edit")?;
    let asked = messages
        .iter()
        .any(|message: &Value| message["method"] == "session/request_permission");
    assert!(!asked, "the mode auto does not ask");
    agent.close_stdin();
    assert!(agent.wait_exit()?.success());
    Ok(())
}
