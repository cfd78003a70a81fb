//! Turns that are left running: by Ctrl-D, by a terminal that closes, and by `run -d`. What the verb was told holds on.

use anyhow::{Context, Result};
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;

use crate::cli::{run_failing_wharf, run_wharf, start_kept_session};
use crate::keepers::KeepingHost;
use crate::rest::{wait_for_session, wait_until_idle};
use crate::scripted_host;
use crate::terminal::TestTerminal;

/// Returns the id of the only session.
async fn only_session(http: &RestClient) -> Result<String> {
    let sessions = http.get("/sessions").await?.expect(200)?;
    Ok(sessions["sessions"][0]["id"].as_str().context("no session")?.to_owned())
}

/// Waits until the session has ended, and returns why.
async fn wait_for_end(http: &RestClient, id: &str) -> Result<String> {
    let session = wait_for_session(http, id, "its end", |session| session["endedAt"].is_string()).await?;
    Ok(session["endReason"].as_str().context("no reason")?.to_owned())
}

fn last_answer(host: &TestHost, id: &str) -> Result<String> {
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
    let mut shown = TestTerminal::run_wharf(&host, &["run", "scripted", "--keep", "-l", "docs", &prompt])?;
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
    let id = run_wharf(&host, &["run", "-d", "-k", "--timeout", "1s", "scripted", "echo begun; hang"])?;
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
