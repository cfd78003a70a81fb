//! An agent runs in its session's directory, where many agents read a project's settings (rules 2.2, 3.2).

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::client::Client;

use crate::bridge::editor;
use crate::recording::Recording;
use crate::{client, client_with, cwd, refused, scripted, told};

/// Returns the pid of the agent that answered `initialize`.
fn greeted(client: &Client) -> Value {
    client.transcript().remove(0).body["result"]["_meta"]["scripted"]["pid"].take()
}

#[tokio::test]
async fn agent_initialized_in_another_directory_is_replaced() -> Result<()> {
    let host = scripted(&[])?.start()?;
    let client = client(&host).await?;
    let session = client.new_session(&cwd(&host)?).await?;
    assert_eq!(told(&client, &session, "pwd").await?, cwd(&host)?);
    assert_ne!(told(&client, &session, "pid").await?, format!("pid {}", greeted(&client)));
    Ok(())
}

#[tokio::test]
async fn agent_initialized_in_the_sessions_directory_gets_the_session() -> Result<()> {
    let host = scripted(&[])?.start()?;
    let here = cwd(&host)?;
    let told_where = client_with(&host, json!({}), json!({ "wharf": { "cwd": here } })).await?;
    let session = told_where.new_session(&here).await?;
    assert_eq!(told(&told_where, &session, "pwd").await?, here);
    assert_eq!(told(&told_where, &session, "pid").await?, format!("pid {}", greeted(&told_where)));
    Ok(())
}

#[test]
fn editor_uses_one_agent_from_initialize_to_session() -> Result<()> {
    let host = scripted(&[])?.start()?;
    let mut editor = editor(&host, &[])?;
    let hello = editor.request("initialize", json!({ "protocolVersion": 1, "clientCapabilities": {} }))?;
    let here = std::env::current_dir()?;
    let opened = editor.request("session/new", json!({ "cwd": here, "mcpServers": [] }))?;
    let session = opened["sessionId"].as_str().context("no id")?.to_owned();
    let (_, said) = editor.prompt(&session, "pid")?;
    let pid = &hello["_meta"]["scripted"]["pid"];
    assert_eq!(wharf_testkit::pipe::joined_text(&said), format!("pid {pid}"));
    Ok(())
}

#[tokio::test]
async fn login_between_two_attempts_reaches_the_agent_of_the_session() -> Result<()> {
    let recording = Recording::new()?;
    let host = recording.scripted(&["--auth"])?.start()?;
    let client = client(&host).await?;
    let new = json!({ "cwd": cwd(&host)?, "mcpServers": [] });
    assert_eq!(refused(client.request("session/new", new).await)?.code, -32000);
    client.request("authenticate", json!({ "methodId": "token" })).await?;
    let session = client.new_session(&cwd(&host)?).await?;
    assert_eq!(told(&client, &session, "pwd").await?, cwd(&host)?);
    let logins = recording.messages()?.into_iter().filter(|message| message["method"] == "authenticate").count();
    assert_eq!(logins, 1, "a person may have been asked for it");
    Ok(())
}
