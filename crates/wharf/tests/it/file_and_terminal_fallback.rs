//! Files and terminals for agents (rule 12.13): which agents get the capability, and how Wharf
//! serves an agent whose client is gone.

use std::os::unix::fs::symlink;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::client::TestClient;
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;

use crate::recording::Recording;
use crate::{
    connect_client, connect_client_with, cwd, log, parse_pids, prompt_for_text, rest, scripted_host,
};

/// Returns the capabilities of an editor with files and a terminal.
fn editor_capabilities() -> Value {
    json!({ "fs": { "readTextFile": true, "writeTextFile": true }, "terminal": true })
}

fn no_capabilities() -> Value {
    json!({ "fs": { "readTextFile": false, "writeTextFile": false }, "terminal": false })
}

/// Returns the `clientCapabilities` that the last started agent received.
fn last_client_capabilities(recording: &Recording) -> Result<Value> {
    let start = recording
        .read_messages()?
        .into_iter()
        .rfind(|message| message["method"] == "initialize");
    Ok(start.context("no start")?["params"]["clientCapabilities"].clone())
}

/// Creates a session by an editor that leaves, and connects another client without its
/// capabilities.
async fn create_session_without_editor(
    host: &TestHost,
    directory: &str,
) -> Result<(TestClient, String)> {
    let editor = connect_client_with(host, editor_capabilities(), json!({})).await?;
    let session = editor.new_session(directory).await?;
    editor.close().await;
    let other = connect_client(host).await?;
    other.load_session(&session, directory).await?;
    Ok((other, session))
}

/// The agent's own id of its session.
const AGENT_SESSION: &str = "of-the-agent";

/// A host with the directories `inside`, where the session runs, and `outside`.
struct TwoDirectories {
    host: TestHost,
    inside: String,
    outside: std::path::PathBuf,
}

impl TwoDirectories {
    fn new() -> Result<Self> {
        let host = scripted_host(&["--session-id", AGENT_SESSION])?
            .with_variable("ONLY_OF_THE_HOST", "1")
            .start_host()?;
        let (inside, outside) = (host.directory().join("inside"), host.directory().join("outside"));
        std::fs::create_dir(&inside)?;
        std::fs::create_dir(&outside)?;
        std::fs::write(outside.join("notes"), "one\ntwo\nthree\n")?;
        let inside = inside.to_str().context("not UTF-8")?.to_owned();
        Ok(Self { host, inside, outside })
    }
}

#[tokio::test]
async fn files_and_terminals_are_offered_to_an_agent_only_if_its_client_has_them() -> Result<()> {
    let recording = Recording::new()?;
    let host = recording.host_options(&[])?.start_host()?;
    let reads = json!({ "fs": { "readTextFile": true }, "novel": { "x": 1 } });
    for capabilities in [json!({ "novel": { "x": 1 } }), reads, editor_capabilities()] {
        let client = connect_client_with(&host, capabilities.clone(), json!({})).await?;
        client.new_session(&cwd(&host)?).await?;
        assert_eq!(last_client_capabilities(&recording)?, capabilities);
    }
    Ok(())
}

#[tokio::test]
async fn agents_of_rest_and_amux_are_offered_neither_files_nor_terminals() -> Result<()> {
    let recording = Recording::new()?;
    let host = recording.host_options(&[])?.start_host()?;
    rest::spawn_session(&RestClient::new(&host), &host).await?;
    assert_eq!(last_client_capabilities(&recording)?, no_capabilities());
    let amux =
        TestClient::connect(&format!("{}?session=work", host.ws_url()), host.token()).await?;
    let mut capabilities = editor_capabilities();
    capabilities["novel"] = true.into();
    amux.call_method(
        "initialize",
        json!({ "protocolVersion": 1, "clientCapabilities": capabilities }),
    )
    .await?;
    amux.new_session(&cwd(&host)?).await?;
    assert_eq!(last_client_capabilities(&recording)?, json!({ "novel": true }));
    Ok(())
}

#[tokio::test]
async fn setting_always_offers_files_and_terminals_to_every_agent() -> Result<()> {
    let recording = Recording::new()?;
    let host =
        prepend_setting(recording.host_options(&[])?, "serve_tools = \"always\"").start_host()?;
    rest::spawn_session(&RestClient::new(&host), &host).await?;
    assert_eq!(last_client_capabilities(&recording)?, editor_capabilities());
    let client = connect_client_with(
        &host,
        json!({ "elicitation": { "form": {} }, "novel": { "x": 1 } }),
        json!({}),
    )
    .await?;
    client.new_session(&cwd(&host)?).await?;
    let mut of_client = editor_capabilities();
    of_client["elicitation"] = json!({ "form": {} });
    of_client["novel"] = json!({ "x": 1 });
    assert_eq!(last_client_capabilities(&recording)?, of_client);
    Ok(())
}

/// Adds a setting before all sections.
fn prepend_setting(
    mut options: wharf_testkit::host::HostOptions,
    line: &str,
) -> wharf_testkit::host::HostOptions {
    options.config.get_or_insert_default().insert_str(0, &format!("{line}\n"));
    options
}

#[tokio::test]
async fn deprecated_true_and_false_still_work_with_a_warning() -> Result<()> {
    for (old, new) in [("true", "always"), ("false", "never")] {
        let host =
            prepend_setting(scripted_host(&[])?, &format!("serve_tools = {old}")).start_host()?;
        let words = host.read_stderr();
        assert!(
            words.contains("WARN") && words.contains(&format!("serve_tools = \"{new}\"")),
            "{words}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn returning_agent_is_offered_the_capabilities_of_the_client_that_woke_it() -> Result<()> {
    let recording = Recording::new()?;
    let mut host = recording
        .host_options(&["--resume"])?
        .without_keepers(crate::AGENT_COMES_BACK)
        .start_host()?;
    let mut creator = editor_capabilities();
    creator["novel"] = true.into();
    let editor = connect_client_with(&host, creator, json!({})).await?;
    let session = editor.new_session(&cwd(&host)?).await?;
    // The session is brought back by a client without capabilities, and again by one with only a
    // terminal.
    let expected_tools = |terminal: bool| json!({ "fs": no_capabilities()["fs"], "terminal": terminal, "novel": true });
    for (terminal, way) in [(false, "session/resume"), (true, "session/set_mode")] {
        host.restart()?;
        let client =
            connect_client_with(&host, json!({ "terminal": terminal, "other": 1 }), json!({}))
                .await?;
        client
            .call_method(way, json!({ "sessionId": session, "cwd": cwd(&host)?, "modeId": "ask" }))
            .await?;
        assert_eq!(last_client_capabilities(&recording)?, expected_tools(terminal), "{way}");
    }
    // A REST caller has neither capability; it does not change the recorded ones.
    host.restart()?;
    let http = RestClient::new(&host);
    http.post(&format!("/sessions/{session}/resume"), &json!({}))
        .await?
        .expect(200)?;
    rest::wait_until_idle(&http, &session).await?;
    assert_eq!(last_client_capabilities(&recording)?, expected_tools(false), "REST");
    // A session that comes back for its queue has no caller, so the recorded capabilities apply.
    rest::send_prompt(&http, &session, "hang").await?;
    let waits = json!({ "prompt": "echo waited", "queue": true });
    http.post(&format!("/sessions/{session}/prompt"), &waits).await?;
    host.restart()?;
    log::expect_event(&host, &session, "prompt_ended", |event| event["end"]["how"] == "answered")
        .await?;
    assert_eq!(last_client_capabilities(&recording)?, expected_tools(true), "the queue");
    Ok(())
}

#[tokio::test]
async fn agent_without_a_client_reads_and_writes_outside_its_directories_as_its_process_could()
-> Result<()> {
    let yard = TwoDirectories::new()?;
    let (client, session) = create_session_without_editor(&yard.host, &yard.inside).await?;
    let (inside, outside) = (&yard.inside, yard.outside.display());
    symlink(&yard.outside, format!("{inside}/link"))?;
    for path in [
        format!("{outside}/made/new"),
        format!("{inside}/link/through"),
        format!("{inside}/../outside/up"),
    ] {
        assert_eq!(
            prompt_for_text(&client, &session, &format!("fs write {path} by hand")).await?,
            "answered: {}",
            "{path}"
        );
        assert_eq!(std::fs::read_to_string(&path)?, "by hand");
        let said = prompt_for_text(&client, &session, &format!("fs read {path}")).await?;
        assert_eq!(said, r#"answered: {"content":"by hand"}"#);
    }
    let said = prompt_for_text(&client, &session, &format!("fs read {outside}/missing")).await?;
    assert!(said.contains("-32002") && said.contains("does not exist"), "{said}");
    let said = prompt_for_text(&client, &session, &format!("fs read {outside}")).await?;
    assert!(said.contains("-32602") && said.contains("is a directory"), "{said}");
    let create = json!({ "sessionId": AGENT_SESSION, "command": "pwd", "cwd": yard.outside });
    let said = prompt_for_text(&client, &session, &format!("ext terminal/create {create}")).await?;
    assert!(said.contains("terminalId"), "{said}");
    Ok(())
}

#[tokio::test]
async fn proc_self_means_the_agents_process() -> Result<()> {
    let yard = TwoDirectories::new()?;
    let (client, session) = create_session_without_editor(&yard.host, &yard.inside).await?;
    let agent = parse_pids(&prompt_for_text(&client, &session, "pid").await?)
        .pop()
        .context("no pid")?;
    symlink("/proc/self", format!("{}/me", yard.inside))?;
    let through_link = format!("{}/me/status", yard.inside);
    for path in [
        "/proc/self/status",
        "/proc/thread-self/status",
        "/proc/self/task/../status",
        &through_link,
    ] {
        let said = prompt_for_text(&client, &session, &format!("fs read {path}")).await?;
        assert!(said.contains(&format!(r"\nPid:\t{agent}\n")), "{path}: {said}");
    }
    // This is the agent's environment, not the host's, which has no token of the session.
    let said = prompt_for_text(&client, &session, "fs read /proc/self/environ").await?;
    assert!(said.contains("WHARF_SESSION="), "{said}");
    Ok(())
}
