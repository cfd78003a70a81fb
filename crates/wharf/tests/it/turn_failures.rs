//! The reason of a failed turn: it stands with the turn, on every surface (rules 8.3, 8.4).

use anyhow::{Context, Result};
use serde_json::json;
use wharf_testkit::http::{RestClient, TestEvent};

use crate::rest::{output_lines, send_prompt, spawn_session, wait_for_session, wait_until_idle};
use crate::{expect_error, open_session, scripted_host};

const TURN_END: &str = "── turn-end (";

/// Follows the session until a turn has ended and returns the events up to there.
async fn follow_turn(http: &RestClient, id: &str, prompt: &str) -> Result<Vec<TestEvent>> {
    let mut events = http.open_stream(&format!("/sessions/{id}/stream"), None).await?;
    let prompt = send_prompt(http, id, prompt).await?["promptId"].clone();
    let mut seen = Vec::new();
    loop {
        let event = events.expect("an event", |_| true).await?;
        let is_end = event.data["turn"] == "ended" && event.data["promptId"] == prompt;
        seen.push(event);
        if is_end {
            return Ok(seen);
        }
    }
}

#[tokio::test]
async fn an_error_answer_to_a_prompt_has_the_end_of_stderr() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    client.send_prompt(&session, "stderr of an earlier turn").await?;
    let error = expect_error(client.send_prompt(&session, "stderr no credit left; error").await)?;
    assert_eq!(error.data["stderr"], "no credit left", "{error}");
    let http = RestClient::new(&host);
    let lines = output_lines(&http, &session).await?;
    let expected =
        ["[error] this prompt fails as told", "no credit left", "── turn-end (error) ──"];
    assert_eq!(lines[lines.len() - 3..], expected, "{lines:?}");
    let events = follow_turn(&http, &session, "stderr still none; error").await?;
    let end = &events.last().context("no end")?.data;
    let error = json!({ "message": "this prompt fails as told", "stderr": "still none" });
    assert_eq!((&end["stopReason"], &end["error"]), (&json!("error"), &error), "{end}");
    Ok(())
}

#[tokio::test]
async fn the_reason_of_a_cut_off_turn_comes_before_its_end() -> Result<()> {
    let host = scripted_host(&["--no-load"])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let events = follow_turn(&http, &id, "echo half; stderr out of memory; crash 3").await?;
    let end = &events.last().context("no end")?.data;
    assert_eq!(end["stopReason"], "agent_exited");
    let message = end["error"]["message"].as_str().context("no message")?;
    assert!(message.contains('3'), "{message}");
    assert_eq!(end["error"]["stderr"], "out of memory");
    let told: Vec<&str> = events.iter().filter_map(|event| event.data["line"].as_str()).collect();
    let reason = format!("[error] {message}");
    assert_eq!(told, ["half", reason.as_str(), "out of memory", "── turn-end (agent_exited) ──"]);
    wait_for_session(&http, &id, "its end", |session| session["endedAt"].is_string()).await?;
    assert_eq!(output_lines(&http, &id).await?, told, "the reason is told once");
    Ok(())
}

#[tokio::test]
async fn lines_on_stdout_that_are_not_json_are_kept_with_stderr() -> Result<()> {
    let host = scripted_host(&["--no-load"])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let error =
        expect_error(client.send_prompt(&session, "malformed; stderr and this; error").await)?;
    let mut kept: Vec<&str> = error.data["stderr"].as_str().context("no stderr")?.lines().collect();
    kept.sort_unstable();
    assert_eq!(
        kept,
        ["and this", "this is not JSON"],
        "the two pipes are not read in one order: {error}"
    );
    let error = expect_error(client.send_prompt(&session, "flood 5000; error").await)?;
    let kept = error.data["stderr"].as_str().context("no stderr")?.len();
    assert!((1_000..=8 * 1024).contains(&kept), "{kept} bytes were kept");
    let error = expect_error(client.send_prompt(&session, "malformed; crash 4").await)?;
    let kept = error.data["stderr"].as_str().context("no stderr")?;
    assert!(kept.ends_with("\nthis is not JSON"), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_stderr_of_an_agent_that_answers_well_is_not_told() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    send_prompt(&http, &id, "stderr only a note; echo well").await?;
    wait_until_idle(&http, &id).await?;
    let lines = output_lines(&http, &id).await?;
    assert_eq!(lines, ["well", &format!("{TURN_END}end_turn) ──")]);
    Ok(())
}
