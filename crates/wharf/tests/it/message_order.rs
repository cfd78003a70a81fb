//! Messages of one connection about one session are accepted in the order in which they were sent,
//! whatever the session's state.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::client::TestClient;
use wharf_testkit::host::TestHost;

use crate::recording::Recording;
use crate::{connect_client, cwd, expect_error, open_session, stop_reason};

/// Creates a session and restarts its host, so that no agent runs.
async fn restart_with_cold_session(
    recording: &Recording,
    flags: &[&str],
) -> Result<(TestHost, String)> {
    let mut host = recording
        .host_options(&[&["--resume"], flags].concat())?
        .without_keepers(crate::AGENT_COMES_BACK)
        .start_host()?;
    let (first, session) = open_session(&host).await?;
    first.send_prompt(&session, "echo before").await?;
    host.kill()?;
    host.restart()?;
    Ok((host, session))
}

/// Returns the methods that the agent received since its last start.
fn methods_since_start(recording: &Recording) -> Result<Vec<String>> {
    let methods = recording.read_methods()?;
    let start = methods
        .iter()
        .position(|method| method == "session/resume")
        .context("it was not brought back")?;
    Ok(methods.into_iter().skip(start + 1).collect())
}

async fn start_request(
    client: &TestClient,
    session: &str,
    method: &str,
    params: Value,
) -> wharf_testkit::client::PendingCall {
    let mut params = params;
    params["sessionId"] = session.into();
    client.start_request(method, params).await
}

#[tokio::test]
async fn settings_sent_before_a_prompt_reach_the_agent_of_a_cold_session_before_it() -> Result<()> {
    let recording = Recording::new()?;
    let (host, session) = restart_with_cold_session(&recording, &[]).await?;
    let client = connect_client(&host).await?;
    let mode =
        start_request(&client, &session, "session/set_mode", json!({ "modeId": "auto" })).await;
    let option = start_request(
        &client,
        &session,
        "session/set_config_option",
        json!({ "configId": "model", "value": "fast" }),
    )
    .await;
    let prompt = client.start_prompt(&session, "mode").await;
    let later =
        start_request(&client, &session, "session/set_mode", json!({ "modeId": "ask" })).await;
    assert_eq!(stop_reason(prompt.wait_answer().await)?, "end_turn");
    mode.wait_answer().await?;
    let _ = option.wait_answer().await;
    later.wait_answer().await?;
    assert_eq!(
        methods_since_start(&recording)?,
        ["session/set_mode", "session/set_config_option", "session/prompt", "session/set_mode"]
    );
    Ok(())
}

#[tokio::test]
async fn detach_right_behind_load_or_attach_detaches() -> Result<()> {
    for method in ["session/load", "session/resume", "session/attach"] {
        let recording = Recording::new()?;
        let (host, session) = restart_with_cold_session(&recording, &[]).await?;
        let client = connect_client(&host).await?;
        let join = start_request(
            &client,
            &session,
            method,
            json!({ "cwd": cwd(&host)?, "mcpServers": [] }),
        )
        .await;
        let detach = start_request(&client, &session, "session/detach", json!({})).await;
        assert_eq!(
            detach.wait_answer().await.with_context(|| method.to_owned())?["status"],
            "detached"
        );
        join.wait_answer().await.with_context(|| method.to_owned())?;
        let status = client.call_method("session/status", json!({ "sessionId": session })).await?;
        assert_eq!(status["_meta"]["wharf"]["clients"], 0, "{method}: {status}");
    }
    Ok(())
}

#[tokio::test]
async fn prompts_right_behind_a_join_are_answered_and_not_shown_to_their_sender() -> Result<()> {
    for method in ["session/load", "session/resume", "session/attach"] {
        let recording = Recording::new()?;
        let (host, session) = restart_with_cold_session(&recording, &[]).await?;
        let client = connect_client(&host).await?;
        let join = start_request(
            &client,
            &session,
            method,
            json!({ "cwd": cwd(&host)?, "mcpServers": [] }),
        )
        .await;
        let prompt = client.start_prompt(&session, "echo behind").await;
        assert_eq!(
            stop_reason(prompt.wait_answer().await).with_context(|| method.to_owned())?,
            "end_turn"
        );
        join.wait_answer().await?;
        let own = client
            .received_frames()
            .iter()
            .any(|frame| frame.raw.contains("user_message_chunk") && frame.raw.contains("behind"));
        assert!(!own, "{method}: its own prompt was shown");
        let said = client.chunk_texts().iter().filter(|text| *text == "behind").count();
        assert_eq!(said, 1, "{method}");
    }
    Ok(())
}

#[tokio::test]
async fn cancel_right_behind_a_prompt_ends_it_before_the_agent_is_up() -> Result<()> {
    let recording = Recording::new()?;
    let (host, session) = restart_with_cold_session(&recording, &[]).await?;
    let client = connect_client(&host).await?;
    let join = start_request(
        &client,
        &session,
        "session/load",
        json!({ "cwd": cwd(&host)?, "mcpServers": [] }),
    )
    .await;
    let prompt = client.start_prompt(&session, "echo never").await;
    client.cancel_turn(&session).await;
    assert_eq!(stop_reason(prompt.wait_answer().await)?, "cancelled");
    join.wait_answer().await?;
    assert!(!methods_since_start(&recording)?.contains(&"session/prompt".to_owned()));
    Ok(())
}

#[tokio::test]
async fn prompt_behind_a_join_whose_start_fails_is_answered() -> Result<()> {
    let recording = Recording::new()?;
    let (mut host, session) = restart_with_cold_session(&recording, &[]).await?;
    host.kill()?;
    let agent = wharf_testkit::program::find_scripted_agent()?;
    let text = format!(
        "default_agent = \"scripted\"\n[agents.scripted]\ncommand = [{:?}, \"--resume\", \"--forget\"]\n",
        agent.display().to_string()
    );
    host.options_mut().config = Some(text);
    host.restart()?;
    let client = connect_client(&host).await?;
    let join = start_request(
        &client,
        &session,
        "session/load",
        json!({ "cwd": cwd(&host)?, "mcpServers": [] }),
    )
    .await;
    let mode =
        start_request(&client, &session, "session/set_mode", json!({ "modeId": "ask" })).await;
    let prompt = client.start_prompt(&session, "echo never").await;
    assert_eq!(expect_error(join.wait_answer().await)?.data["reason"], "start_failed");
    assert_eq!(expect_error(mode.wait_answer().await)?.data["reason"], "start_failed");
    assert_eq!(expect_error(prompt.wait_answer().await)?.data["reason"], "start_failed");
    Ok(())
}

#[tokio::test]
async fn detaching_from_a_session_that_is_not_attached_says_so() -> Result<()> {
    let host = crate::scripted_host(&[])?.start_host()?;
    let (_first, session) = open_session(&host).await?;
    let second = connect_client(&host).await?;
    let error =
        expect_error(second.call_method("session/detach", json!({ "sessionId": session })).await)?;
    assert_eq!((error.code, &error.data["reason"]), (-32001, &json!("not_attached")), "{error}");
    assert!(error.message.contains("not attached"), "{error}");
    let error = expect_error(
        second.call_method("session/detach", json!({ "sessionId": "sess_none" })).await,
    )?;
    assert!(error.message.contains("not found") && error.data.get("reason").is_none(), "{error}");
    Ok(())
}

#[tokio::test]
async fn refusals_carry_the_id_of_the_request_whenever_it_can_be_read() -> Result<()> {
    let host = crate::scripted_host(&[])?.start_host()?;
    let client = connect_client(&host).await?;
    for (frame, id) in [
        (r#"{"jsonrpc":"2.0","id":8,"method":5}"#, json!(8)),
        (r#"{"jsonrpc":"2.0","id":"nine","method":{},"params":[]}"#, json!("nine")),
    ] {
        client.send_raw(frame).await;
        let refusal = client.expect("a refusal", |frame| frame.body.get("error").is_some()).await;
        assert_eq!(
            (&refusal.body["id"], &refusal.body["error"]["code"]),
            (&id, &json!(-32600)),
            "{frame}"
        );
    }
    Ok(())
}
