//! `wharf chat` in a terminal: prompts, asks, Ctrl-C, a second client, and a restart of the host.

use anyhow::{Context, Result};
use serde_json::json;
use wharf_testkit::http::RestClient;

use crate::cli::{run_failing_wharf, start_kept_session};
use crate::rest::{send_prompt, wait_until_idle};
use crate::scripted_host;
use crate::terminal::TestTerminal;

const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";

#[tokio::test]
async fn agent_name_starts_a_session_and_an_ask_shows_its_subject_and_takes_a_short_answer()
-> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let mut chat = TestTerminal::run_wharf(&host, &["chat", "scripted"])?;
    chat.expect("starting scripted")?;
    chat.expect("> ")?;
    chat.press("echo hello; ask\r")?;
    chat.expect("\r\nhello")?;
    chat.expect("? May I?")?;
    chat.expect("The agent sent no details.")?;
    chat.expect("1) Allow once (y)")?;
    chat.expect("your answer: ")?;
    chat.press("perhaps\r")?;
    chat.expect("a number or a name, please: ")?;
    chat.press("y\r")?;
    chat.expect("chosen: allow_once")?;
    let before_end = chat.expect("── done")?;
    assert!(!before_end.contains("> "), "the sign comes after the end of the turn: {before_end:?}");
    chat.expect("> ")?;
    chat.press(CTRL_D)?;
    chat.expect("the session goes on")?;
    let (code, _) = chat.finish()?;
    assert_eq!(code, Some(0));
    let sessions = http.get("/sessions").await?.expect(200)?;
    let session = &sessions["sessions"][0];
    assert_eq!(
        (&session["status"], &session["attention"]["state"]),
        (&json!("running"), &json!("quiet")),
        "{session}"
    );
    Ok(())
}

#[tokio::test]
async fn ctrl_c_interrupts_the_turn_and_twice_leaves_the_agent_running() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = start_kept_session(&host, &["--label", "talk"])?;
    let mut chat = TestTerminal::run_wharf(&host, &["attach", "--plain", "talk"])?;
    chat.expect("> ")?;
    chat.press("echo begun; hang\r")?;
    chat.expect("\r\nbegun")?;
    chat.press("echo later\r")?;
    chat.expect("queued at place 1")?;
    chat.press(CTRL_C)?;
    chat.expect("interrupting the turn")?;
    chat.expect("── cancelled")?;
    // The prompt that waited is shown when its turn begins.
    chat.expect("> echo later")?;
    chat.expect("\r\nlater")?;
    chat.expect("── done")?;
    chat.press("echo deaf; hang hard\r")?;
    chat.expect("\r\ndeaf")?;
    chat.press(CTRL_C)?;
    chat.expect("interrupting the turn")?;
    chat.press(CTRL_C)?;
    chat.expect("the session goes on")?;
    assert_eq!(chat.finish()?.0, Some(130));
    let session = http.get(&format!("/sessions/{id}")).await?.expect(200)?;
    assert_eq!((&session["status"], &session["turn"]), (&json!("running"), &json!("running")));
    Ok(())
}

#[tokio::test]
async fn prompts_and_answers_of_a_second_client_appear() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = start_kept_session(&host, &[])?;
    send_prompt(&http, &id, "echo first words").await?;
    wait_until_idle(&http, &id).await?;
    let mut chat = TestTerminal::run_wharf(&host, &["chat"])?;
    chat.expect("> echo first words")?;
    chat.expect("\r\nfirst words")?;
    chat.expect("── done")?;
    chat.expect("> ")?;
    send_prompt(&http, &id, "echo from elsewhere; ask").await?;
    chat.expect("> echo from elsewhere; ask")?;
    chat.expect("\r\nfrom elsewhere")?;
    chat.expect("your answer: ")?;
    let asks = http.get(&format!("/sessions/{id}/asks")).await?.expect(200)?;
    let ask = asks["asks"][0]["askId"].as_u64().context("no ask")?;
    http.post(&format!("/sessions/{id}/asks/{ask}"), &json!({ "optionId": "reject_once" }))
        .await?
        .expect(200)?;
    chat.expect("May I? → Reject (wharf-testkit")?;
    chat.expect("chosen: reject_once")?;
    chat.expect("── done")?;
    Ok(())
}

#[tokio::test]
async fn conversation_survives_a_restart_of_the_host_without_loss_or_repetition() -> Result<()> {
    let mut host = scripted_host(&["--resume"])?.start_host()?;
    start_kept_session(&host, &["--label", "talk"])?;
    let mut chat = TestTerminal::run_wharf(&host, &["chat", "talk"])?;
    chat.expect("> ")?;
    chat.press("echo word-before\r")?;
    chat.expect("\r\nword-before")?;
    chat.expect("── done")?;
    host.kill()?;
    chat.expect("the host is away")?;
    // The prompt waits for it.
    chat.press("echo word-after\r")?;
    host.restart()?;
    chat.expect("\r\nword-after")?;
    chat.expect("── done")?;
    chat.press("echo word-last\r")?;
    chat.expect("\r\nword-last\r\n")?;
    for word in ["word-before", "word-after", "word-last"] {
        let times = chat.shown().matches(&format!("\r\n{word}\r\n")).count();
        assert_eq!(times, 1, "{word}: {:?}", chat.shown());
    }
    assert_eq!(chat.shown().matches("the host is away").count(), 1, "{:?}", chat.shown());
    Ok(())
}

#[tokio::test]
async fn hints_of_a_conversation_name_the_label() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = start_kept_session(&host, &["--label", "docs"])?;
    for text in ["echo one", "echo two"] {
        send_prompt(&http, &id, text).await?;
        wait_until_idle(&http, &id).await?;
    }
    let mut chat = TestTerminal::run_wharf(&host, &["chat", "docs"])?;
    chat.expect("earlier: wharf output docs\r\n")?;
    chat.expect("two")?;
    chat.expect("> ")?;
    chat.press(CTRL_D)?;
    chat.expect("the session goes on: wharf chat docs\r\n")?;
    Ok(())
}

#[test]
fn conversation_without_a_terminal_is_refused() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let said = run_failing_wharf(&host, &["chat", "scripted"], 2)?;
    assert!(said.contains("wharf run"), "{said}");
    Ok(())
}
