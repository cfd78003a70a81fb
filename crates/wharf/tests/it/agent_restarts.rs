//! Deaths of agents and kills by users: a kill holds, and the queue survives its agent (rules 2.4,
//! 12.5).

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use wharf_testkit::client::{PendingCall, TestClient};
use wharf_testkit::cold_sessions::ColdSessions;
use wharf_testkit::host::{HostOptions, TestHost};
use wharf_testkit::http::RestClient;

use crate::{
    add_section, expect_error, log, open_session, prompt_for_text, scripted_host, stop_reason,
};

/// Holds the starts of scripted agents up: each start takes a token.
struct StartTokens(tempfile::TempDir);

impl StartTokens {
    fn new() -> Result<Self> {
        Ok(Self(tempfile::TempDir::with_prefix("wharf-start-tokens-")?))
    }

    /// Configures a host that starts one agent at a time.
    fn host_options(&self) -> Result<HostOptions> {
        let folder = self.0.path().to_str().context("not UTF-8")?;
        Ok(add_section(scripted_host(&["--start-token", folder])?, "[limits]\nstarts = 1"))
    }

    fn grant(&self, count: usize) -> Result<()> {
        for _ in 0..count {
            tempfile::NamedTempFile::new_in(&self.0)?.keep()?;
        }
        Ok(())
    }
}

/// More tokens than a test needs.
const ENOUGH_TOKENS: usize = 20;

/// Returns a stopped host with this many cold sessions, each with a queued prompt.
fn stop_with_cold_sessions(options: HostOptions, count: usize) -> Result<(TestHost, Vec<String>)> {
    cold_with(options, count, Some("echo waited"))
}

/// The same with this prompt, or with none.
fn cold_with(
    options: HostOptions,
    count: usize,
    waiting: Option<&str>,
) -> Result<(TestHost, Vec<String>)> {
    let mut host = options.without_keepers(crate::AGENT_COMES_BACK).start_host()?;
    ensure!(host.terminate()?.success(), "the host did not stop in order");
    let directory = host.directory().to_owned();
    let cold = ColdSessions {
        count,
        agent: "scripted",
        cwd: &directory,
        events: 0,
        waiting,
    };
    let sessions = cold.write_to(&host.state_dir())?;
    Ok((host, sessions))
}

#[tokio::test]
async fn kill_of_a_session_that_waits_to_be_brought_back_keeps_it_dead() -> Result<()> {
    let tokens = StartTokens::new()?;
    let (mut host, sessions) = stop_with_cold_sessions(tokens.host_options()?, 3)?;
    let [first, doomed, last] = sessions.as_slice() else { anyhow::bail!("{sessions:?}") };
    host.restart()?;
    let http = RestClient::new(&host);
    // Sessions come back one at a time: the second waits for the first, the third for the second.
    log::expect_event(&host, first, "agent_starting", |event| event["start"] == 2).await?;
    http.post_empty(&format!("/sessions/{doomed}/kill")).await?.expect(200)?;
    tokens.grant(ENOUGH_TOKENS)?;
    log::expect_event(&host, last, "prompt_ended", |event| event["prompt"] == "waiting").await?;

    let starts = log::list_events(&host, doomed, "agent_starting")?;
    let known = http.get(&format!("/sessions/{doomed}")).await?.expect(200)?;
    assert_eq!(
        (starts.len(), &known["status"], &known["endReason"]),
        (1, &json!("killed"), &json!("user")),
        "{known}"
    );
    Ok(())
}

#[tokio::test]
async fn close_of_a_session_that_waits_to_be_brought_back_keeps_it_closed() -> Result<()> {
    let tokens = StartTokens::new()?;
    let (mut host, sessions) = stop_with_cold_sessions(tokens.host_options()?, 4)?;
    let [first, _, doomed, last] = sessions.as_slice() else { anyhow::bail!("{sessions:?}") };
    host.restart()?;
    log::expect_event(&host, first, "agent_starting", |event| event["start"] == 2).await?;
    // The client's own agent starts as soon as the first session's agent is up, before the other
    // sessions' agents.
    tokens.grant(1)?;
    let client = crate::connect_client_of(&host, "demo").await?;
    client.initialize().await?;
    client.call_method("session/close", json!({ "sessionId": doomed })).await?;
    tokens.grant(ENOUGH_TOKENS)?;
    log::expect_event(&host, last, "prompt_ended", |event| event["prompt"] == "waiting").await?;
    assert_eq!(log::list_events(&host, doomed, "agent_starting")?.len(), 1);
    Ok(())
}

#[tokio::test]
async fn close_of_a_session_without_prompts_that_waits_to_be_brought_back_keeps_it_closed()
-> Result<()> {
    let tokens = StartTokens::new()?;
    let (mut host, sessions) =
        cold_with(tokens.host_options()?.with_setting("resume_on_start", "all"), 4, None)?;
    let [first, _, doomed, last] = sessions.as_slice() else { anyhow::bail!("{sessions:?}") };
    host.restart()?;
    log::expect_event(&host, first, "agent_starting", |event| event["start"] == 2).await?;
    tokens.grant(1)?;
    let client = crate::connect_client_of(&host, "demo").await?;
    client.initialize().await?;
    client.call_method("session/close", json!({ "sessionId": doomed })).await?;
    tokens.grant(ENOUGH_TOKENS)?;
    log::expect_event(&host, last, "agent_started", |event| event["start"] == 2).await?;
    assert_eq!(log::list_events(&host, doomed, "agent_starting")?.len(), 1);

    // The close also holds for the next host, and for nobody who wants the session.
    host.restart()?;
    log::expect_event(&host, last, "agent_started", |event| event["start"] == 3).await?;
    assert_eq!(log::list_events(&host, doomed, "agent_starting")?.len(), 1);
    let known = RestClient::new(&host).get(&format!("/sessions/{doomed}")).await?.expect(200)?;
    assert_eq!(
        (&known["endReason"], &known["resumable"]),
        (&json!("closed"), &json!(true)),
        "{known}"
    );
    let client = crate::connect_client(&host).await?;
    assert_eq!(prompt_for_text(&client, doomed, "echo again").await?, "again");
    Ok(())
}

#[tokio::test]
async fn request_for_the_agent_of_a_killed_session_does_not_bring_it_back() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    prompt_for_text(&client, &session, "echo before").await?;
    let http = RestClient::new(&host);
    http.post_empty(&format!("/sessions/{session}/kill")).await?.expect(200)?;
    let error = expect_error(
        client
            .call_method("session/set_mode", json!({ "sessionId": session, "modeId": "code" }))
            .await,
    )?;
    assert_eq!(error.data["reason"], "killed", "{error}");
    let known = http.get(&format!("/sessions/{session}")).await?.expect(200)?;
    assert_eq!(
        (&known["status"], &known["endReason"]),
        (&json!("killed"), &json!("user")),
        "{known}"
    );
    Ok(())
}

/// Configures a host whose agent exits at the starts with these numbers; a failed start is retried
/// soon.
fn fail_at_starts(failing: &str) -> Result<(HostOptions, tempfile::TempDir)> {
    let folder = tempfile::TempDir::with_prefix("wharf-flaky-")?;
    let script = folder.path().join("agent");
    let agent = wharf_testkit::program::find_scripted_agent()?;
    let count = folder.path().join("count");
    let text = format!(
        "#!/bin/sh\necho >> {count}\nn=$(wc -l < {count})\ncase \" {failing} \" in *\" $n \"*) echo start $n fails >&2; exit 9;; esac\nexec {agent} \"$@\"\n",
        count = count.display(),
        agent = agent.display(),
    );
    std::fs::write(&script, text)?;
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755))?;
    let command = script.to_str().context("not UTF-8")?.to_owned();
    let options = scripted_host(&[])?.with_agent("flaky", &[command]);
    Ok((retry_soon(options), folder))
}

/// A prompt that makes its agent crash, and one that waits behind it.
pub(crate) struct QueuedCrash {
    crashes: PendingCall,
    waits: PendingCall,
    /// The agent goes on to crash once this file exists.
    gate: PathBuf,
}

impl QueuedCrash {
    /// Sends a prompt that ends with these words, and the waiting one. Returns once both are in the
    /// log.
    pub(crate) async fn queue(
        host: &TestHost,
        client: &TestClient,
        session: &str,
        (crash, waiting): (&str, &str),
    ) -> Result<Self> {
        let gate = host.directory().join("may-crash");
        let crashes = client
            .start_prompt(session, &format!("await {}; {crash}", gate.display()))
            .await;
        let waits = client.start_prompt(session, waiting).await;
        log::expect_event(host, session, "prompt_accepted", |event| {
            event["frame"].to_string().contains(waiting)
        })
        .await?;
        Ok(Self { crashes, waits, gate })
    }

    /// Lets the agent crash. Returns the calls of both prompts.
    pub(crate) fn let_crash(self) -> Result<(PendingCall, PendingCall)> {
        std::fs::write(&self.gate, "")?;
        Ok((self.crashes, self.waits))
    }
}

fn retry_soon(mut options: HostOptions) -> HostOptions {
    options
        .config
        .get_or_insert_default()
        .insert_str(0, "start_retries = [\"50ms\", \"50ms\", \"50ms\"]\n");
    options
}

#[tokio::test]
async fn queue_survives_an_agent_that_dies_in_its_first_turn() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    client
        .call_method("session/set_mode", json!({ "sessionId": session, "modeId": "auto" }))
        .await?;
    let crash = QueuedCrash::queue(&host, &client, &session, ("crash", "mode")).await?;
    let (crashes, waits) = crash.let_crash()?;
    assert_eq!(expect_error(crashes.wait_answer().await)?.data["reason"], "agent_exited");
    assert_eq!(stop_reason(waits.wait_answer().await)?, "end_turn");
    // The agent starts without memory but with the same mode as before, and clients are told that
    // it does not remember.
    ensure!(client.chunk_texts().concat().starts_with("mode=auto"), "{:?}", client.chunk_texts());
    log::expect_event(&host, &session, "agent_updated", |event| {
        let update = &event["frame"]["params"]["update"];
        update["sessionUpdate"] == "notice" && update["message"].to_string().contains("memory")
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn queue_goes_on_without_an_agent_that_cannot_come_back() -> Result<()> {
    let host = scripted_host(&["--no-load"])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    prompt_for_text(&client, &session, "echo before").await?;
    let crash = QueuedCrash::queue(&host, &client, &session, ("crash", "echo after")).await?;
    let (crashes, waits) = crash.let_crash()?;
    assert_eq!(expect_error(crashes.wait_answer().await)?.data["reason"], "agent_exited");
    assert_eq!(stop_reason(waits.wait_answer().await)?, "end_turn");
    Ok(())
}

#[tokio::test]
async fn third_death_in_a_row_ends_the_queue() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let gate = host.directory().join("may-crash");
    let first = format!("await {}; crash", gate.display());
    let mut calls = Vec::new();
    for prompt in [&first, "crash", "crash", "echo four", "echo five"] {
        calls.push(client.start_prompt(&session, prompt).await);
    }
    log::expect_event(&host, &session, "prompt_accepted", |event| {
        event["frame"].to_string().contains("five")
    })
    .await?;
    std::fs::write(gate, "")?;
    for call in calls {
        assert_eq!(expect_error(call.wait_answer().await)?.data["reason"], "agent_exited");
    }
    assert_eq!(log::list_events(&host, &session, "agent_starting")?.len(), 3);
    // The session itself can still be used.
    assert_eq!(prompt_for_text(&client, &session, "echo six").await?, "six");
    Ok(())
}

#[tokio::test]
async fn cut_off_prompt_is_run_once_more_where_the_settings_say_so() -> Result<()> {
    let host = scripted_host(&[])?.with_setting("on_restart", "requeue").start_host()?;
    let (client, session) = open_session(&host).await?;
    let crash =
        QueuedCrash::queue(&host, &client, &session, ("echo trying; crash", "echo after")).await?;
    let (crashes, waits) = crash.let_crash()?;
    assert_eq!(expect_error(crashes.wait_answer().await)?.data["reason"], "agent_exited");
    assert_eq!(stop_reason(waits.wait_answer().await)?, "end_turn");
    assert_eq!(client.chunk_texts(), ["trying", "trying", "after"]);
    Ok(())
}

#[tokio::test]
async fn failed_start_is_tried_again_for_the_queue() -> Result<()> {
    // The first start is for `initialize`, the second for the session, the third follows the crash.
    let (options, _folder) = fail_at_starts("3 4")?;
    let host = options.start_host()?;
    let client = crate::connect_client_of(&host, "flaky").await?;
    client.initialize().await?;
    let session = client.new_session(&crate::cwd(&host)?).await?;
    let crash = QueuedCrash::queue(&host, &client, &session, ("crash", "echo after")).await?;
    let (crashes, waits) = crash.let_crash()?;
    assert_eq!(expect_error(crashes.wait_answer().await)?.data["reason"], "agent_exited");
    assert_eq!(stop_reason(waits.wait_answer().await)?, "end_turn");
    let failed = log::list_events(&host, &session, "start_failed")?;
    ensure!(
        failed.len() == 2 && failed[0]["message"].to_string().contains("start 3 fails"),
        "{failed:?}"
    );
    Ok(())
}

#[tokio::test]
async fn failed_first_start_is_tried_again_for_a_prompt_if_the_caller_does_not_wait() -> Result<()>
{
    let (options, _folder) = fail_at_starts("1 2")?;
    let host = options.start_host()?;
    let http = RestClient::new(&host);
    let body = json!({ "adapter": "flaky", "cwd": crate::cwd(&host)?, "prompt": "echo at last" });
    let spawned = http
        .post_with("/sessions/agent", ("Prefer", "respond-async"), &body)
        .await?
        .expect(201)?;
    let session = spawned["id"].as_str().context("no id")?;
    log::expect_event(&host, session, "prompt_ended", |event| event["end"]["how"] == "answered")
        .await?;
    assert_eq!(log::list_events(&host, session, "start_failed")?.len(), 2);
    Ok(())
}

#[tokio::test]
async fn failed_first_start_is_told_at_once_to_a_caller_that_waits() -> Result<()> {
    let (options, _folder) = fail_at_starts("1")?;
    let host = options.start_host()?;
    let http = RestClient::new(&host);
    let body = json!({ "adapter": "flaky", "cwd": crate::cwd(&host)?, "prompt": "echo at last" });
    let answer = http.post("/sessions/agent", &body).await?;
    ensure!(answer.status == 502, "{answer:?}");
    let session = answer.json()["sessionId"].as_str().context("no session")?.to_owned();
    assert_eq!(log::list_events(&host, &session, "agent_starting")?.len(), 1);
    Ok(())
}

#[tokio::test]
async fn start_that_cannot_succeed_is_not_tried_again() -> Result<()> {
    let host = retry_soon(scripted_host(&[])?).start_host()?;
    let folder = tempfile::TempDir::with_prefix("wharf-vanishing-")?;
    let client = crate::connect_client(&host).await?;
    let session = client.new_session(folder.path().to_str().context("not UTF-8")?).await?;
    let crash = QueuedCrash::queue(&host, &client, &session, ("crash", "echo after")).await?;
    folder.close()?;
    let (crashes, waits) = crash.let_crash()?;
    assert_eq!(expect_error(crashes.wait_answer().await)?.data["reason"], "agent_exited");
    assert_eq!(expect_error(waits.wait_answer().await)?.data["reason"], "start_failed");
    assert_eq!(log::list_events(&host, &session, "start_failed")?, Vec::<serde_json::Value>::new());
    assert_eq!(log::list_events(&host, &session, "agent_starting")?.len(), 2);
    let known = RestClient::new(&host).get(&format!("/sessions/{session}")).await?.expect(200)?;
    ensure!(known["message"].to_string().contains("does not exist"), "{known}");
    Ok(())
}

#[tokio::test]
async fn start_that_keeps_failing_ends_the_queue_with_its_reason() -> Result<()> {
    let (options, _folder) = fail_at_starts("3 4 5 6")?;
    let host = options.start_host()?;
    let client = crate::connect_client_of(&host, "flaky").await?;
    client.initialize().await?;
    let session = client.new_session(&crate::cwd(&host)?).await?;
    let crash = QueuedCrash::queue(&host, &client, &session, ("crash", "echo after")).await?;
    let (crashes, waits) = crash.let_crash()?;
    assert_eq!(expect_error(crashes.wait_answer().await)?.data["reason"], "agent_exited");
    assert_eq!(expect_error(waits.wait_answer().await)?.data["reason"], "start_failed");
    let known = RestClient::new(&host).get(&format!("/sessions/{session}")).await?.expect(200)?;
    ensure!(known["message"].to_string().contains("start 6 fails"), "{known}");
    assert_eq!(prompt_for_text(&client, &session, "echo later").await?, "later");
    Ok(())
}

#[tokio::test]
async fn kill_ends_a_session_that_waits_for_its_next_try() -> Result<()> {
    let (mut options, _folder) = fail_at_starts("3 4 5 6")?;
    options.config = options
        .config
        .map(|config| config.replace("\"50ms\", \"50ms\", \"50ms\"", "\"600s\""));
    let host = options.start_host()?;
    let client = crate::connect_client_of(&host, "flaky").await?;
    client.initialize().await?;
    let session = client.new_session(&crate::cwd(&host)?).await?;
    let crash = QueuedCrash::queue(&host, &client, &session, ("crash", "echo after")).await?;
    let (crashes, waits) = crash.let_crash()?;
    expect_error(crashes.wait_answer().await)?;
    log::expect_event(&host, &session, "start_failed", |_| true).await?;
    let http = RestClient::new(&host);
    http.post_empty(&format!("/sessions/{session}/kill")).await?.expect(200)?;
    assert_eq!(expect_error(waits.wait_answer().await)?.data["reason"], "session_ended");
    let known = http.get(&format!("/sessions/{session}")).await?.expect(200)?;
    assert_eq!(
        (&known["status"], &known["endReason"]),
        (&json!("killed"), &json!("user")),
        "{known}"
    );
    Ok(())
}
