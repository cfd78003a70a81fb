//! A bridge that reconnects restores its client's state: no missing updates, the same services, and
//! no additional notifications (rules 1.5, 3.8, 4.5).

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use wharf_testkit::agent_pipe::{AgentPipe, chunk_text};
use wharf_testkit::host::TestHost;

use crate::bridge::start_editor;
use crate::{
    connect_client, connect_client_with, cwd, open_session, prompt_for_text, scripted_host,
};

fn send_signal(editor: &AgentPipe, signal: Signal) -> Result<()> {
    let pid = i32::try_from(editor.pid()).ok().and_then(Pid::from_raw).context("no pid")?;
    Ok(kill_process(pid, signal)?)
}

/// Returns the tags of all updates that the editor received.
fn list_tags(editor: &AgentPipe) -> Vec<String> {
    let lines = editor
        .received
        .iter()
        .filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let tags = lines
        .filter_map(|line| Some(line["params"]["update"]["sessionUpdate"].as_str()?.to_owned()));
    tags.collect()
}

/// Starts an editor that joins the session without its history.
fn start_joined_editor(host: &TestHost, session: &str) -> Result<AgentPipe> {
    let mut editor = start_editor(host, &["--session", session])?;
    editor.call_method("initialize", json!({ "protocolVersion": 1, "clientCapabilities": {} }))?;
    let opened =
        editor.call_method("session/new", json!({ "cwd": cwd(host)?, "mcpServers": [] }))?;
    assert_eq!(
        (&opened["sessionId"], &opened["_meta"]),
        (&json!(session), &Value::Null),
        "{opened}"
    );
    Ok(editor)
}

#[tokio::test]
async fn host_lost_before_the_first_event_leaves_no_gap() -> Result<()> {
    let mut host = scripted_host(&["--resume"])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    first.send_prompt(&session, "echo long ago").await?;
    let mut editor = start_joined_editor(&host, &session)?;
    send_signal(&editor, Signal::STOP)?;
    host.restart()?;
    let other = connect_client(&host).await?;
    assert_eq!(
        prompt_for_text(&other, &session, "echo while it was away").await?,
        "while it was away"
    );
    send_signal(&editor, Signal::CONT)?;
    editor.expect("what it missed", |message| chunk_text(message) == "while it was away")?;
    // The editor gets the updates of a client that never attached.
    assert_eq!(list_tags(&editor), ["user_message_chunk", "agent_message_chunk"]);
    assert_eq!(editor.send_prompt(&session, "echo on")?.0["result"]["stopReason"], "end_turn");
    Ok(())
}

#[tokio::test]
async fn plain_editor_gets_no_attach_notifications_after_a_restart() -> Result<()> {
    let mut host = scripted_host(&["--resume"])?.start_host()?;
    let mut editor = start_editor(&host, &[])?;
    let session = editor.open_session()?;
    editor.send_prompt(&session, "echo before")?;
    host.restart()?;
    // The editor is connected again when it gets an answer.
    editor.send_prompt(&session, "echo back")?;
    let other = connect_client(&host).await?;
    other.call_method("session/attach", json!({ "sessionId": session })).await?;
    other.choose_option("allow_once");
    other.send_prompt(&session, "ask; echo by another").await?;
    other.close().await;
    let asked = editor
        .expect("the permission", |message| message["method"] == "session/request_permission")?;
    assert_eq!(asked["params"]["sessionId"], session.as_str());
    editor.expect("the end", |message| chunk_text(message) == "by another")?;
    editor.send_prompt(&session, "echo last")?;
    let chunk = "agent_message_chunk";
    assert_eq!(list_tags(&editor), [chunk, chunk, "user_message_chunk", chunk, chunk, chunk]);
    Ok(())
}

#[tokio::test]
async fn an_editor_serves_its_files_again_after_a_restart() -> Result<()> {
    let mut host = scripted_host(&["--resume"])?.start_host()?;
    let mut editor = start_editor(&host, &[])?;
    let can = json!({ "fs": { "readTextFile": true } });
    editor.call_method("initialize", json!({ "protocolVersion": 1, "clientCapabilities": can }))?;
    let opened =
        editor.call_method("session/new", json!({ "cwd": cwd(&host)?, "mcpServers": [] }))?;
    let session = opened["sessionId"].as_str().context("no id")?.to_owned();
    host.restart()?;
    let reading = editor.start_prompt(&session, "fs read /in/the/editor")?;
    let asked = editor.expect("the request", |message| message["method"] == "fs/read_text_file")?;
    assert_eq!(asked["params"]["path"], "/in/the/editor");
    editor.send_result(&asked["id"], json!({ "content": "unsaved" }))?;
    editor
        .expect("its use", |message| chunk_text(message) == r#"answered: {"content":"unsaved"}"#)?;
    assert_eq!(editor.wait_response(reading)?["result"]["stopReason"], "end_turn");
    Ok(())
}

#[tokio::test]
async fn returning_client_serves_again_only_if_no_other_client_took_over() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let can = json!({ "fs": { "readTextFile": true } });
    let serving = async |content: &'static str| -> Result<_> {
        let client = connect_client_with(&host, can.clone(), json!({})).await?;
        client.respond_with(move |_| Some(Ok(json!({ "content": content }))));
        Ok(client)
    };
    let (first, second) = (serving("first").await?, serving("second").await?);
    let session = first.new_session(&cwd(&host)?).await?;
    let again = json!({ "sessionId": session, "historyPolicy": "none", "_meta": { "wharf": { "serves": true } } });
    second.call_method("session/attach", again.clone()).await?;
    assert_eq!(
        prompt_for_text(&first, &session, "fs read /x").await?,
        r#"answered: {"content":"first"}"#
    );
    first.close().await;
    second
        .expect_update("its leaving", |update| update["sessionUpdate"] == "client_disconnected")
        .await;
    let observing = json!({ "sessionId": session, "role": "observer", "_meta": { "wharf": { "serves": true } } });
    serving("observer").await?.call_method("session/attach", observing).await?;
    second.call_method("session/attach", again).await?;
    second.send_prompt(&session, "fs read /x").await?;
    assert_eq!(second.chunk_texts().pop().as_deref(), Some(r#"answered: {"content":"second"}"#));
    Ok(())
}

#[tokio::test]
async fn attaching_client_can_decline_notifications_about_others() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    let (plain, curious) = (connect_client(&host).await?, connect_client(&host).await?);
    let declines =
        json!({ "sessionId": session, "_meta": { "wharf": { "multiClientUpdates": false } } });
    plain.call_method("session/attach", declines).await?;
    curious.call_method("session/attach", json!({ "sessionId": session })).await?;
    first.send_prompt(&session, "echo one").await?;
    first.send_prompt(&session, "echo two").await?;
    for client in [&plain, &curious] {
        client.expect_text("two").await;
    }
    curious
        .expect_update("the end", |update| update["type"] == "turn_complete")
        .await;
    let list_client_tags = |client: &wharf_testkit::client::TestClient| -> Vec<String> {
        let frames = client.received_frames();
        let updates = frames.iter().filter_map(|frame| frame.update());
        updates
            .filter_map(|update| update["sessionUpdate"].as_str().map(str::to_owned))
            .collect()
    };
    let (mine, chunk) = ("user_message_chunk", "agent_message_chunk");
    assert_eq!(list_client_tags(&plain), [mine, chunk, mine, chunk]);
    assert_eq!(
        list_client_tags(&curious),
        ["prompt_received", chunk, "turn_complete", "prompt_received", chunk, "turn_complete"]
    );
    Ok(())
}
