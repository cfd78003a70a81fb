//! The full-screen client on a pseudo-terminal: from bare `wharf` to a prompt and back to the
//! shell.

use anyhow::{Context, Result};
use serde_json::json;
use wharf_testkit::host::{HostOptions, TestHost};
use wharf_testkit::http::RestClient;

use crate::cli::command_for_host;
use crate::screen_terminal::ScreenTerminal;
use crate::wharf_binary;

const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";

fn start_demo_host() -> Result<TestHost> {
    HostOptions { binary: Some(wharf_binary()), ..HostOptions::default() }.start_host()
}

#[tokio::test]
async fn bare_wharf_starts_a_session_streams_takes_a_prompt_and_detaches() -> Result<()> {
    let host = start_demo_host()?;
    let http = RestClient::new(&host);
    let mut client = ScreenTerminal::run_wharf(&host, (32, 120), &[])?;
    client.wait_for("the form with its agent", |screen| {
        screen.contains("New session") && screen.contains("demo")
    })?;
    assert!(client.is_alternate_screen());
    client.press("echo first words\r")?;
    client.wait_for("the first answer", |screen| {
        screen.contains("\n") && screen.matches("first words").count() >= 3
    })?;
    client.wait_for_text("── done")?;
    client.press("echo second words\r")?;
    client.wait_for("the second answer", |screen| screen.matches("── done").count() == 2)?;
    client.press("unsent")?;
    client.wait_for_text("❯ unsent")?;
    client.press(CTRL_C)?;
    client.wait_for_text("cleared")?;
    client.press(CTRL_D)?;
    let (code, left) = client.finish()?;
    assert_eq!(code, Some(0));
    assert!(!client.is_alternate_screen(), "the terminal is restored");
    assert!(
        left.contains("second words") && left.contains("detached; the session goes on"),
        "{left}"
    );

    let sessions = http.get("/sessions").await?.expect(200)?;
    let session = &sessions["sessions"][0];
    assert_eq!(
        (&session["status"], &session["adapterSlug"]),
        (&json!("running"), &json!("demo")),
        "{session}"
    );
    let id = session["id"].as_str().context("no id")?;

    let mut again = ScreenTerminal::run_wharf(&host, (20, 60), &[])?;
    again.wait_for_text("Sessions")?;
    again.wait_for("the session in the list", |screen| screen.contains("echo first words"))?;
    again.press("\r")?;
    again.wait_for_text("second words")?;
    again.press(CTRL_C)?;
    again.wait_for_text("again to detach")?;
    again.press(CTRL_C)?;
    assert_eq!(again.finish()?.0, Some(0));

    let mut attached = ScreenTerminal::run_wharf(&host, (24, 80), &["attach", "--readonly", id])?;
    attached.wait_for("the transcript for an observer", |screen| {
        screen.contains("second words") && screen.contains("observer") && !screen.contains('❯')
    })?;
    Ok(())
}

#[test]
fn bare_wharf_without_a_terminal_prints_the_help() -> Result<()> {
    let host = start_demo_host()?;
    let output = command_for_host(&host, &[]).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{said}");
    assert!(said.contains("Usage:") && said.contains("attach"), "{said}");
    Ok(())
}
