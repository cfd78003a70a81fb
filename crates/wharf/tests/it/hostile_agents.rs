//! Agents that break the protocol or crash: each fault is a clear event and affects no other
//! session.

use anyhow::{Context, Result};
use serde_json::json;
use wharf_testkit::client::{CallFailure, TestClient};
use wharf_testkit::host::TestHost;
use wharf_testkit::processes;

use crate::{
    TREE_ENDS_WITHIN, add_scripted_agent, add_section, connect_client_of, cwd, expect_error, log,
    open_session, prompt_for_text, scripted_host, stop_reason,
};

/// A session that streams during the fault and must receive every update in order.
struct StreamingSession {
    client: TestClient,
    streaming: wharf_testkit::client::PendingCall,
}

const STREAMED_UPDATES: u64 = 3_000;

impl StreamingSession {
    async fn start(host: &TestHost) -> Result<Self> {
        let (client, session) = open_session(host).await?;
        let streaming = client
            .start_prompt(&session, &format!("stream {STREAMED_UPDATES} 50 flush"))
            .await;
        Ok(Self { client, streaming })
    }

    async fn finish_unharmed(self) -> Result<()> {
        assert_eq!(stop_reason(self.streaming.wait_answer().await)?, "end_turn");
        let indices: Vec<u64> = self
            .client
            .received_frames()
            .iter()
            .filter_map(|frame| frame.chunk_index())
            .collect();
        assert!(
            indices.into_iter().eq(0..STREAMED_UPDATES),
            "the other session's stream is not whole"
        );
        Ok(())
    }
}

/// Returns the host's peak memory in KiB.
fn peak_kib(host: &TestHost) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", host.pid()))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .context("no VmHWM")?;
    Ok(line.split_whitespace().next().context("no number")?.parse()?)
}

/// Returns the faults in the log, in order.
fn list_faults(host: &TestHost, session: &str) -> Result<Vec<String>> {
    let events = log::list_events(host, session, "agent_faulted")?;
    Ok(events
        .iter()
        .map(|event| event["fault"].as_str().unwrap_or_default().to_owned())
        .collect())
}

#[tokio::test]
async fn fifty_megabytes_without_a_line_break_are_one_fault_and_use_little_memory() -> Result<()> {
    let host = add_section(scripted_host(&[])?, "[limits]\nframe = \"1MiB\"").start_host()?;
    let (client, session) = open_session(&host).await?;
    let bystander = StreamingSession::start(&host).await?;
    let before = peak_kib(&host)?;
    assert_eq!(
        prompt_for_text(&client, &session, "noline 50000000; malformed; echo and on").await?,
        "and on"
    );
    let grown = peak_kib(&host)?.saturating_sub(before);
    assert!(grown < 24 * 1024, "the host grew by {grown} KiB");
    assert_eq!(list_faults(&host, &session)?, ["oversized"]);
    bystander.finish_unharmed().await
}

#[tokio::test]
async fn endless_line_stays_within_twice_the_default_limit_of_memory() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let before = peak_kib(&host)?;
    assert_eq!(
        prompt_for_text(&client, &session, "noline 50000000; malformed; echo and on").await?,
        "and on"
    );
    let grown = peak_kib(&host)?.saturating_sub(before);
    assert!(grown < 80 * 1024, "the host grew by {grown} KiB");
    assert_eq!(list_faults(&host, &session)?, ["oversized"]);
    Ok(())
}

#[tokio::test]
async fn turn_can_be_cancelled_when_its_answer_is_lost_in_garbage() -> Result<()> {
    let options = scripted_host(&[])?.with_setting("cancel_timeout", "300ms");
    let host = add_section(options, "[limits]\nframe = \"1MiB\"").start_host()?;
    let (client, session) = open_session(&host).await?;
    let running = client.start_prompt(&session, "noline 2000000").await;
    log::expect_event(&host, &session, "agent_faulted", |event| event["fault"] == "oversized")
        .await?;
    client.cancel_turn(&session).await;
    assert_eq!(stop_reason(running.wait_answer().await)?, "cancelled");
    Ok(())
}

#[tokio::test]
async fn garbage_is_logged_and_the_session_goes_on() -> Result<()> {
    let host = add_section(scripted_host(&[])?, "[limits]\nframe = \"64KiB\"").start_host()?;
    let (client, session) = open_session(&host).await?;
    let bystander = StreamingSession::start(&host).await?;
    let script = "malformed; binary; oversized 65537; raw []; raw 7; raw {\"jsonrpc\":\"2.0\"}";
    for part in script.split("; ") {
        client.send_prompt(&session, part).await?;
    }
    assert_eq!(prompt_for_text(&client, &session, "foreign; echo and on").await?, "and on");
    let expected = [
        "malformed",
        "not_utf8",
        "oversized",
        "malformed",
        "malformed",
        "malformed",
        "foreign_session",
    ];
    assert_eq!(list_faults(&host, &session)?, expected);
    client.send_prompt(&session, "oversized 65536").await?;
    assert_eq!(
        list_faults(&host, &session)?.len(),
        expected.len(),
        "a line of just the limit is none over it"
    );
    bystander.finish_unharmed().await
}

#[tokio::test]
async fn a_flood_of_garbage_does_not_fill_the_log() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let bystander = StreamingSession::start(&host).await?;
    assert_eq!(prompt_for_text(&client, &session, "flood 100000; echo and on").await?, "and on");
    let faults = list_faults(&host, &session)?;
    assert!((100..200).contains(&faults.len()), "{} faults", faults.len());
    assert_eq!(faults.last().map(String::as_str), Some("suppressed"));
    bystander.finish_unharmed().await
}

#[tokio::test]
async fn an_agent_that_dies_in_the_middle_of_a_line_ends_its_session_only() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let bystander = StreamingSession::start(&host).await?;
    let error =
        expect_error(client.send_prompt(&session, "stream 10; noline 1000; crash 9").await)?;
    assert_eq!(error.data["reason"], "agent_exited", "{error}");
    assert_eq!(client.chunk_texts().len(), 10);
    assert_eq!(list_faults(&host, &session)?, ["malformed"]);
    let ended = log::expect_event(&host, &session, "ended", |_| true).await?;
    assert_eq!(ended["ending"]["exit_code"], 9, "{ended}");
    bystander.finish_unharmed().await
}

async fn new_session(host: &TestHost, agent: &str) -> Result<CallFailure> {
    let client = connect_client_of(host, agent).await?;
    expect_error(
        client
            .call_method("session/new", json!({ "cwd": cwd(host)?, "mcpServers": [] }))
            .await,
    )
}

#[tokio::test]
async fn failed_start_of_an_agent_is_a_clear_error() -> Result<()> {
    // The timeout is long enough for the agents that do start, even on a busy machine.
    let options = scripted_host(&[])?.with_setting("start_timeout", "8s");
    let options =
        options.with_agent("missing", &["no-such-agent-acp".to_owned(), "--acp".to_owned()]);
    let options = options.with_agent("unspeaking", &["true".to_owned()]);
    let options = add_scripted_agent(
        options,
        "dead",
        &["--stderr", "cannot find my key", "--exit-on-start", "42"],
    )?;
    let options = add_scripted_agent(options, "mute", &["--hang-on", "initialize"])?;
    let options = add_scripted_agent(options, "slow", &["--hang-on", "session/new"])?;
    let options = add_scripted_agent(options, "dying", &["--die-on", "session/new"])?;
    let options = add_scripted_agent(options, "refusing", &["--error-on", "session/new=-32000"])?;
    let host = options.start_host()?;
    let (bystander, session) = open_session(&host).await?;
    let running = processes::list_descendants(host.pid());
    let expected: [(&str, &[&str]); 7] = [
        ("missing", &["`no-such-agent-acp`", "installed"]),
        ("unspeaking", &["exited with code 0", "initialize"]),
        ("dead", &["code 42", "cannot find my key"]),
        ("mute", &["initialize", "8s", "start_timeout"]),
        ("slow", &["session/new", "8s", "start_timeout"]),
        ("dying", &["session/new", "code 3"]),
        ("refusing", &["session/new fails as told"]),
    ];
    let starts = expected.iter().map(|(agent, _)| new_session(&host, agent));
    let errors = futures_util::future::try_join_all(starts).await?;
    for ((agent, words), error) in expected.iter().zip(errors) {
        for word in *words {
            assert!(error.message.contains(word), "{agent}: no {word:?} in {error}");
        }
        let code = if *agent == "refusing" { -32000 } else { -32603 };
        assert_eq!(error.code, code, "{agent}: {error}");
    }
    // A session that the agent refused, or whose agent is not installed, was never created.
    let sessions = log::all_sessions(&host)?;
    assert_eq!(sessions.len(), 6);
    for failed in sessions.iter().filter(|id| **id != session) {
        let ended = log::expect_event(&host, failed, "ended", |_| true).await?;
        assert_eq!(ended["ending"]["status"], "error", "{ended}");
        assert_eq!(ended["ending"]["reason"], "start_failed", "{ended}");
    }
    assert_eq!(prompt_for_text(&bystander, &session, "echo unharmed").await?, "unharmed");
    let left: Vec<u32> = processes::list_descendants(host.pid())
        .into_iter()
        .filter(|pid| !running.contains(pid))
        .collect();
    assert_eq!(
        processes::wait_gone(&left, TREE_ENDS_WITHIN),
        Ok(()),
        "agents that did not come up still run"
    );
    Ok(())
}

#[tokio::test]
async fn unanswered_initialize_is_a_clear_error() -> Result<()> {
    let options =
        scripted_host(&["--hang-on", "initialize"])?.with_setting("start_timeout", "500ms");
    let host = options.start_host()?;
    let client = TestClient::connect(&host.ws_url(), host.token()).await?;
    let error = expect_error(client.initialize().await)?;
    assert!(error.message.contains("did not answer `initialize` within 500ms"), "{error}");
    assert_eq!(error.data["reason"], "start_failed");
    // The connection stays usable.
    assert_eq!(expect_error(client.initialize().await)?.data["reason"], "start_failed");
    Ok(())
}

#[tokio::test]
async fn agent_starts_when_garbage_precedes_its_answers() -> Result<()> {
    let script = r#"echo 'Loading configuration…'; printf '\377\376\n'; exec "$0" --stderr hello"#;
    let agent = wharf_testkit::program::find_scripted_agent()?.display().to_string();
    let command = ["sh", "-c", script, &agent].map(str::to_owned);
    let host = scripted_host(&[])?.with_agent("chatty", &command).start_host()?;
    let client = connect_client_of(&host, "chatty").await?;
    let session = client.new_session(&cwd(&host)?).await?;
    assert_eq!(prompt_for_text(&client, &session, "echo fine").await?, "fine");
    assert_eq!(list_faults(&host, &session)?, ["malformed", "not_utf8"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exit_of_an_agent_is_noticed_while_its_siblings_run() -> Result<()> {
    const AGENTS_AT_ONCE: usize = 12;
    let host = std::sync::Arc::new(scripted_host(&[])?.start_host()?);
    for round in 0..2 {
        let opening: Vec<_> = (0..AGENTS_AT_ONCE)
            .map(|_| {
                let host = std::sync::Arc::clone(&host);
                tokio::spawn(async move { open_session(&host).await })
            })
            .collect();
        let mut sessions = Vec::new();
        for opened in opening {
            sessions.push(opened.await??);
        }
        for (client, session) in &sessions {
            let error = expect_error(client.send_prompt(session, "crash 3").await)?;
            assert_eq!(error.data["reason"], "agent_exited", "round {round}: {error}");
        }
    }
    Ok(())
}
