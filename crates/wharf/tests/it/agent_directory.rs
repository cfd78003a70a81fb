//! An agent runs in its session's directory, where many agents read a project's settings (rules
//! 2.2, 3.2).

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::client::TestClient;

use crate::bridge::start_editor;
use crate::recording::Recording;
use crate::{
    connect_client, connect_client_with, cwd, expect_error, prompt_for_text, scripted_host,
};

/// Returns the pid of the agent that answered `initialize`.
fn initialized_pid(client: &TestClient) -> Value {
    client.received_frames().remove(0).body["result"]["_meta"]["scripted"]["pid"].take()
}

#[tokio::test]
async fn agent_initialized_in_another_directory_is_replaced() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let client = connect_client(&host).await?;
    let session = client.new_session(&cwd(&host)?).await?;
    assert_eq!(prompt_for_text(&client, &session, "pwd").await?, cwd(&host)?);
    assert_ne!(
        prompt_for_text(&client, &session, "pid").await?,
        format!("pid {}", initialized_pid(&client))
    );
    Ok(())
}

#[tokio::test]
async fn agent_initialized_in_the_sessions_directory_gets_the_session() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let here = cwd(&host)?;
    let told_where =
        connect_client_with(&host, json!({}), json!({ "wharf": { "cwd": here } })).await?;
    let session = told_where.new_session(&here).await?;
    assert_eq!(prompt_for_text(&told_where, &session, "pwd").await?, here);
    assert_eq!(
        prompt_for_text(&told_where, &session, "pid").await?,
        format!("pid {}", initialized_pid(&told_where))
    );
    Ok(())
}

#[test]
fn editor_uses_one_agent_from_initialize_to_session() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let mut editor = start_editor(&host, &[])?;
    let hello = editor
        .call_method("initialize", json!({ "protocolVersion": 1, "clientCapabilities": {} }))?;
    let here = std::env::current_dir()?;
    let opened = editor.call_method("session/new", json!({ "cwd": here, "mcpServers": [] }))?;
    let session = opened["sessionId"].as_str().context("no id")?.to_owned();
    let (_, said) = editor.send_prompt(&session, "pid")?;
    let pid = &hello["_meta"]["scripted"]["pid"];
    assert_eq!(wharf_testkit::agent_pipe::joined_text(&said), format!("pid {pid}"));
    Ok(())
}

#[tokio::test]
async fn login_between_two_attempts_reaches_the_agent_of_the_session() -> Result<()> {
    let recording = Recording::new()?;
    let host = recording.host_options(&["--auth"])?.start_host()?;
    let client = connect_client(&host).await?;
    let new = json!({ "cwd": cwd(&host)?, "mcpServers": [] });
    assert_eq!(expect_error(client.call_method("session/new", new).await)?.code, -32000);
    client.call_method("authenticate", json!({ "methodId": "token" })).await?;
    let session = client.new_session(&cwd(&host)?).await?;
    assert_eq!(prompt_for_text(&client, &session, "pwd").await?, cwd(&host)?);
    let logins = recording
        .read_messages()?
        .into_iter()
        .filter(|message| message["method"] == "authenticate")
        .count();
    assert_eq!(logins, 1, "a person may have been asked for it");
    Ok(())
}
