//! Turns that are left running: by Ctrl-D, by a terminal that closes, and by `run -d`. What the
//! verb was told holds on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;

use crate::cli::{run_failing_wharf, run_wharf, start_kept_session};
use crate::host_relay::{CallFate, HostRelay};
use crate::keepers::KeepingHost;
use crate::rest::{wait_for_session, wait_until_idle};
use crate::scripted_host;
use crate::terminal::TestTerminal;

/// Returns the id of the only session.
pub(crate) async fn only_session(http: &RestClient) -> Result<String> {
    let sessions = http.get("/sessions").await?.expect(200)?;
    Ok(sessions["sessions"][0]["id"].as_str().context("no session")?.to_owned())
}

/// Waits until the session has ended, and returns why.
pub(crate) async fn wait_for_end(http: &RestClient, id: &str) -> Result<String> {
    let session =
        wait_for_session(http, id, "its end", |session| session["endedAt"].is_string()).await?;
    Ok(session["endReason"].as_str().context("no reason")?.to_owned())
}

pub(crate) fn last_answer(host: &TestHost, id: &str) -> Result<String> {
    run_wharf(host, &["output", id, "--turn", "last", "--text"])
}

#[tokio::test]
async fn turn_goes_on_under_its_policy_when_its_terminal_is_closed() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let closed = host.directory().join("closed");
    let prompt = format!("echo begun; await {}; ask; echo after", closed.display());
    let mut shown = TestTerminal::run_wharf(&host, &["run", "scripted", "--allow", &prompt])?;
    shown.expect("begun")?;
    let id = only_session(&http).await?;
    // The terminal closes when this ends.
    drop(shown);
    std::fs::write(closed, "")?;
    assert_eq!(wait_for_end(&http, &id).await?, "finished");
    let answer = last_answer(&host, &id)?;
    assert!(answer.contains("chosen: allow_once") && answer.contains("after"), "{answer}");
    Ok(())
}

#[tokio::test]
async fn ctrl_d_leaves_the_turn_running_and_its_asks_wait_for_a_person() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let left = host.directory().join("left");
    let prompt = format!("echo begun; await {}; ask; echo after", left.display());
    let mut shown =
        TestTerminal::run_wharf(&host, &["run", "scripted", "--keep", "-l", "docs", &prompt])?;
    shown.expect("Ctrl-C interrupts, Ctrl-D leaves it running")?;
    shown.expect("begun")?;
    shown.press("\r\x04")?;
    shown.expect("left running; follow it with: wharf output -f docs")?;
    let (code, all) = shown.finish()?;
    assert_eq!(code, Some(0), "{all:?}");
    let id = only_session(&http).await?;
    std::fs::write(left, "")?;
    wait_for_session(&http, &id, "the ask", |session| session["turn"] == "awaiting_input").await?;
    run_wharf(&host, &["answer", "docs", "allow"])?;
    let session = wait_until_idle(&http, &id).await?;
    assert_eq!(session["status"], "running", "{session}");
    assert!(last_answer(&host, &id)?.contains("chosen: allow_once"));
    Ok(())
}

#[tokio::test]
async fn detached_run_holds_its_policy_over_a_restart_of_the_host() -> Result<()> {
    let mut host = KeepingHost::start(scripted_host(&[])?)?;
    let back = host.directory().join("back");
    let prompt = format!("await {}; ask; echo after", back.display());
    let id = run_wharf(&host, &["run", "-d", "--allow", "scripted", &prompt])?;
    let id = id.trim().to_owned();
    let http = RestClient::new(&host);
    wait_for_session(&http, &id, "its turn", |session| session["turn"] == "running").await?;
    host.restart()?;
    std::fs::write(back, "")?;
    let http = RestClient::new(&host);
    assert_eq!(wait_for_end(&http, &id).await?, "finished");
    let answer = last_answer(&host, &id)?;
    assert!(answer.contains("chosen: allow_once") && answer.contains("after"), "{answer}");
    Ok(())
}

#[tokio::test]
async fn time_limit_counts_on_without_the_terminal() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id =
        run_wharf(&host, &["run", "-d", "-k", "--timeout", "1s", "scripted", "echo begun; hang"])?;
    let id = id.trim();
    let session = wait_until_idle(&http, id).await?;
    assert_eq!(session["status"], "running", "{session}");
    let turns = http.get(&format!("/sessions/{id}/turns")).await?.expect(200)?;
    assert_eq!(turns["turns"][0]["stopReason"], "cancelled", "{turns}");
    Ok(())
}

#[tokio::test]
async fn prompt_that_is_left_holds_its_policy_and_keeps_its_session() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = start_kept_session(&host, &[])?;
    let left = host.directory().join("left");
    let prompt = format!("echo begun; await {}; ask; echo after", left.display());
    let mut shown = TestTerminal::run_wharf(&host, &["prompt", &id, "--wait", "--deny", &prompt])?;
    shown.expect("begun")?;
    shown.press("\r\x04")?;
    let (code, all) = shown.finish()?;
    assert_eq!(code, Some(0), "{all:?}");
    std::fs::write(left, "")?;
    let session = wait_until_idle(&http, &id).await?;
    assert_eq!(session["status"], "running", "{session}");
    assert!(last_answer(&host, &id)?.contains("chosen: reject_once"));
    run_wharf(&host, &["prompt", &id, "--detach", "--allow", "ask"])?;
    wait_until_idle(&http, &id).await?;
    assert!(last_answer(&host, &id)?.contains("chosen: allow_once"));
    run_failing_wharf(&host, &["run", "-d", "scripted"], 2)?;
    run_failing_wharf(&host, &["prompt", &id, "-d", "--wait", "echo x"], 2)?;
    Ok(())
}

/// The answers to asks that a busy host refuses.
const REFUSALS: usize = 2;

#[tokio::test(flavor = "multi_thread")]
async fn attendant_answers_an_ask_again_that_a_busy_host_refused() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let refusals = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&refusals);
    let _relay = HostRelay::put_before(&host.socket_path(), move |line| {
        let is_answer = line.starts_with("POST ") && line.contains("/asks/");
        if is_answer && counted.fetch_add(1, Ordering::SeqCst) < REFUSALS {
            CallFate::Refused
        } else {
            CallFate::Passed
        }
    })?;
    let id = run_wharf(&host, &["run", "-d", "--allow", "scripted", "ask; echo after"])?;
    let id = id.trim();
    assert_eq!(wait_for_end(&http, id).await?, "finished");
    let answer = last_answer(&host, id)?;
    assert!(answer.contains("chosen: allow_once") && answer.contains("after"), "{answer}");
    assert_eq!(refusals.load(Ordering::SeqCst), REFUSALS + 1);
    Ok(())
}

#[tokio::test]
async fn detached_turn_that_is_repeated_after_a_restart_runs_to_its_own_end() -> Result<()> {
    let options = scripted_host(&[])?
        .with_setting("on_restart", "requeue")
        .with_setting("resume_on_start", "none");
    let mut host = options.without_keepers(crate::TURN_IS_CUT).start_host()?;
    let back = host.directory().join("back");
    let prompt = format!("echo begun; await {}; ask; echo after", back.display());
    let id = run_wharf(&host, &["run", "-d", "--allow", "scripted", &prompt])?;
    let id = id.trim().to_owned();
    crate::log::expect_event(&host, &id, "agent_updated", |_| true).await?;
    host.restart()?;
    let requeued = crate::log::expect_event(&host, &id, "prompt_requeued", |_| true).await?;
    let prompt = requeued["prompt"].as_str().context("no prompt")?;
    let http = RestClient::new(&host);
    let turn = http.get(&format!("/sessions/{id}/turns/{prompt}")).await?.expect(200)?;
    assert_eq!((&turn["state"], &turn["stopReason"]), (&json!("queued"), &Value::Null), "{turn}");
    http.post_empty(&format!("/sessions/{id}/resume")).await?.expect(200)?;
    std::fs::write(back, "")?;
    assert_eq!(wait_for_end(&http, &id).await?, "finished");
    let answer = last_answer(&host, &id)?;
    assert!(answer.contains("chosen: allow_once") && answer.contains("after"), "{answer}");
    Ok(())
}
