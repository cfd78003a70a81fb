//! Which agent process a connection uses (rule 12.15): `wharf acp --session`, requests without a session, and returns to
//! a host that was restarted.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::host::Host;
use wharf_testkit::http::Http;
use wharf_testkit::pipe::joined_text;

use crate::bridge::start_editor;
use crate::recording::Recording;
use crate::{connect_client_of, connect_client_with, cwd, scripted_host};

/// Returns how often the agent was started.
fn count_starts(recording: &Recording) -> Result<usize> {
    Ok(recording.messages()?.iter().filter(|message| message["method"] == "initialize").count())
}

/// Creates a session of the scripted agent with a label and returns its id.
async fn create_labelled_session(host: &Host) -> Result<String> {
    let body = json!({ "adapter": "scripted", "cwd": cwd(host)?, "label": "my work" });
    let session = Http::new(host).post("/sessions/agent", &body).await?.expect(201)?;
    Ok(session["id"].as_str().context("no id")?.to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acp_command_joins_a_session_by_every_form_of_its_id_without_the_default_agent() -> Result<()> {
    let recording = Recording::new()?;
    let options = recording.scripted(&[])?.agent("missing", &["/no/such/program".to_owned()]);
    let host = options.argument("--agent").argument("missing").start()?;
    let session = create_labelled_session(&host).await?;
    let (bare, end) = (session.trim_start_matches("sess_"), &session[session.len() - 6..]);
    for form in [session.as_str(), bare, end, "my work"] {
        let mut editor = start_editor(&host, &["--session", form])?;
        let hello = editor.request("initialize", json!({ "protocolVersion": 1 }))?;
        assert_eq!(hello["agentInfo"]["name"], "wharf-scripted-agent", "{form}: {hello}");
        let opened = editor.request("session/new", json!({ "cwd": cwd(&host)?, "mcpServers": [] }))?;
        assert_eq!(opened["sessionId"], session.as_str(), "{form}");
        let (_, said) = editor.prompt(&session, "echo joined")?;
        assert_eq!(joined_text(&said), "joined", "{form}");
    }
    assert_eq!(count_starts(&recording)?, 1, "the session's own agent answers for itself");
    Ok(())
}

#[tokio::test]
async fn acp_command_names_a_session_that_does_not_exist() -> Result<()> {
    let host = scripted_host(&[])?.start()?;
    let mut command =
        crate::program::wharf_command(&["acp", "--no-start", "--session", "none-like-this", "--state-dir"]);
    let output = command.arg(host.state_dir()).output()?;
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && words.contains("none-like-this"), "{words}");
    Ok(())
}

#[tokio::test]
async fn a_request_without_a_session_goes_to_the_agent_that_the_connection_has() -> Result<()> {
    let recording = Recording::new()?;
    let host = recording.scripted(&[])?.start()?;
    let here = json!({ "wharf": { "cwd": cwd(&host)? } });
    let client = connect_client_with(&host, json!({}), here).await?;
    let session = client.new_session(&cwd(&host)?).await?;
    assert_eq!(count_starts(&recording)?, 1);
    let answer = client.request("_echo", json!({ "n": 1 })).await?;
    assert_eq!(answer["n"], 1, "{answer}");
    let login: Value = client.request("authenticate", json!({ "methodId": "token" })).await?;
    assert_eq!((login, count_starts(&recording)?), (json!({}), 1), "no agent besides the session's");
    // The login is repeated for the connection's next agent.
    let other = host.directory().join("other");
    std::fs::create_dir(&other)?;
    client.new_session(other.to_str().context("not UTF-8")?).await?;
    assert_eq!(recording.methods()?, ["authenticate", "session/new"]);
    // Without a session there is no agent to ask, so one is started.
    client.request("session/close", json!({ "sessionId": session })).await?;
    assert_eq!(count_starts(&recording)?, 2);
    let alone = connect_client_of(&host, "scripted").await?;
    alone.initialize().await?;
    alone.request("_echo", json!({})).await?;
    assert_eq!(count_starts(&recording)?, 3);
    Ok(())
}

#[test]
fn a_bridge_that_returns_to_a_restarted_host_starts_only_the_agent_of_its_session() -> Result<()> {
    let recording = Recording::new()?;
    let mut host = recording.scripted(&["--resume"])?.start()?;
    let mut editor = start_editor(&host, &[])?;
    let session = editor.open_session()?;
    let before = count_starts(&recording)?;
    host.kill9()?;
    // This holds even if the cached answer to `initialize` is gone.
    let _ = std::fs::remove_file(host.state_dir().join("initialize.json"));
    host.restart()?;
    let (_, said) = editor.prompt(&session, "echo back")?;
    assert_eq!(joined_text(&said), "back");
    assert_eq!(count_starts(&recording)?, before + 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acp_command_starts_the_agent_of_a_cold_session_once() -> Result<()> {
    let recording = Recording::new()?;
    let mut host = recording.scripted(&["--resume"])?.start()?;
    let session = create_labelled_session(&host).await?;
    host.kill9()?;
    host.restart()?;
    let mut editor = start_editor(&host, &["--session", "my work"])?;
    let can = json!({ "fs": { "readTextFile": true } });
    editor.request("initialize", json!({ "protocolVersion": 1, "clientCapabilities": can }))?;
    assert_eq!(count_starts(&recording)?, 1, "initialize starts nothing");
    editor.request("session/new", json!({ "cwd": cwd(&host)?, "mcpServers": [] }))?;
    let (_, said) = editor.prompt(&session, "echo back")?;
    assert_eq!((joined_text(&said).as_str(), count_starts(&recording)?), ("back", 2));
    Ok(())
}
