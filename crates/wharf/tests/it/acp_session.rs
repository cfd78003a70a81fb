//! Which agent process a connection uses (rule 12.15): `wharf acp --session`, requests without a
//! session, and returns to a host that was restarted.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::agent_pipe::joined_text;
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;

use crate::bridge::start_editor;
use crate::recording::Recording;
use crate::{connect_client_of, connect_client_with, cwd, scripted_host};

/// Returns how often the agent was started.
fn count_starts(recording: &Recording) -> Result<usize> {
    Ok(recording
        .read_messages()?
        .iter()
        .filter(|message| message["method"] == "initialize")
        .count())
}

/// Creates a session of the scripted agent with a label and returns its id.
async fn create_labelled_session(host: &TestHost) -> Result<String> {
    let body = json!({ "adapter": "scripted", "cwd": cwd(host)?, "label": "my work" });
    let session = RestClient::new(host).post("/sessions/agent", &body).await?.expect(201)?;
    Ok(session["id"].as_str().context("no id")?.to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acp_command_joins_a_session_by_every_form_of_its_id_without_the_default_agent()
-> Result<()> {
    let recording = Recording::new()?;
    let options = recording
        .host_options(&[])?
        .with_agent("missing", &["/no/such/program".to_owned()]);
    let host = options.with_argument("--agent").with_argument("missing").start_host()?;
    let session = create_labelled_session(&host).await?;
    let (bare, end) = (session.trim_start_matches("sess_"), &session[session.len() - 6..]);
    for form in [session.as_str(), bare, end, "my work"] {
        let mut editor = start_editor(&host, &["--session", form])?;
        let hello = editor.call_method("initialize", json!({ "protocolVersion": 1 }))?;
        assert_eq!(hello["agentInfo"]["name"], "wharf-scripted-agent", "{form}: {hello}");
        let opened =
            editor.call_method("session/new", json!({ "cwd": cwd(&host)?, "mcpServers": [] }))?;
        assert_eq!(opened["sessionId"], session.as_str(), "{form}");
        let (_, said) = editor.send_prompt(&session, "echo joined")?;
        assert_eq!(joined_text(&said), "joined", "{form}");
    }
    assert_eq!(count_starts(&recording)?, 1, "the session's own agent answers for itself");
    Ok(())
}

#[tokio::test]
async fn acp_command_names_a_session_that_does_not_exist() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let mut command = crate::program::wharf_command(&[
        "acp",
        "--no-start",
        "--session",
        "none-like-this",
        "--state-dir",
    ]);
    let output = command.arg(host.state_dir()).output()?;
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && words.contains("none-like-this"), "{words}");
    Ok(())
}

#[tokio::test]
async fn a_request_without_a_session_goes_to_the_agent_that_the_connection_has() -> Result<()> {
    let recording = Recording::new()?;
    let host = recording.host_options(&[])?.start_host()?;
    let here = json!({ "wharf": { "cwd": cwd(&host)? } });
    let client = connect_client_with(&host, json!({}), here).await?;
    let session = client.new_session(&cwd(&host)?).await?;
    assert_eq!(count_starts(&recording)?, 1);
    let answer = client.call_method("_echo", json!({ "n": 1 })).await?;
    assert_eq!(answer["n"], 1, "{answer}");
    let login: Value = client.call_method("authenticate", json!({ "methodId": "token" })).await?;
    assert_eq!(
        (login, count_starts(&recording)?),
        (json!({}), 1),
        "no agent besides the session's"
    );
    // The login is repeated for the connection's next agent.
    let other = host.directory().join("other");
    std::fs::create_dir(&other)?;
    client.new_session(other.to_str().context("not UTF-8")?).await?;
    assert_eq!(recording.read_methods()?, ["authenticate", "session/new"]);
    // Without a session there is no agent to ask, so one is started.
    client.call_method("session/close", json!({ "sessionId": session })).await?;
    assert_eq!(count_starts(&recording)?, 2);
    let alone = connect_client_of(&host, "scripted").await?;
    alone.initialize().await?;
    alone.call_method("_echo", json!({})).await?;
    assert_eq!(count_starts(&recording)?, 3);
    Ok(())
}

#[test]
fn a_bridge_that_returns_to_a_restarted_host_starts_only_the_agent_of_its_session() -> Result<()> {
    let recording = Recording::new()?;
    let mut host = recording
        .host_options(&["--resume"])?
        .without_keepers(crate::AGENT_COMES_BACK)
        .start_host()?;
    let mut editor = start_editor(&host, &[])?;
    let session = editor.open_session()?;
    let before = count_starts(&recording)?;
    host.kill()?;
    // This holds even if the cached answer to `initialize` is gone.
    let _ = std::fs::remove_file(host.state_dir().join("initialize.json"));
    host.restart()?;
    let (_, said) = editor.send_prompt(&session, "echo back")?;
    assert_eq!(joined_text(&said), "back");
    assert_eq!(count_starts(&recording)?, before + 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acp_command_starts_the_agent_of_a_cold_session_once() -> Result<()> {
    let recording = Recording::new()?;
    let mut host = recording
        .host_options(&["--resume"])?
        .without_keepers(crate::AGENT_COMES_BACK)
        .start_host()?;
    let session = create_labelled_session(&host).await?;
    host.kill()?;
    host.restart()?;
    let mut editor = start_editor(&host, &["--session", "my work"])?;
    let can = json!({ "fs": { "readTextFile": true } });
    editor.call_method("initialize", json!({ "protocolVersion": 1, "clientCapabilities": can }))?;
    assert_eq!(count_starts(&recording)?, 1, "initialize starts nothing");
    editor.call_method("session/new", json!({ "cwd": cwd(&host)?, "mcpServers": [] }))?;
    let (_, said) = editor.send_prompt(&session, "echo back")?;
    assert_eq!((joined_text(&said).as_str(), count_starts(&recording)?), ("back", 2));
    Ok(())
}
