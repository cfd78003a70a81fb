//! Forms (`elicitation/create`) without an ACP client that shows them: by default cancelled, with
//! `forms = "anyone"` open for REST, MCP and the command line (rule 3.11). On a terminal a person
//! fills them in, field by field.

use anyhow::{Context, Result};
use serde_json::json;
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;

use crate::cli::{run_failing_wharf, run_wharf, start_kept_session};
use crate::rest::{output_lines, send_prompt, spawn_session, wait_for_session, wait_until_idle};
use crate::scripted_host;
use crate::terminal::TestTerminal;

const CTRL_D: &str = "\x04";

/// A prompt that has the scripted agent ask for a database, a number and an optional note.
const FORM_PROMPT: &str = r#"elicit {"type":"object","required":["db","count"],"properties":{
    "db":{"type":"string","title":"Database","enum":["sqlite","postgres"],"default":"sqlite"},
    "count":{"type":"integer","minimum":1},"note":{"type":"string"}}}"#;

#[tokio::test]
async fn a_form_waits_for_anyone_where_the_setting_says_so() -> Result<()> {
    for answer in [
        json!({ "action": "accept", "content": { "name": "ann" } }),
        json!({ "action": "decline" }),
        json!({ "cancel": true }),
    ] {
        let host = scripted_host(&[])?.with_setting("forms", "anyone").start_host()?;
        let http = RestClient::new(&host);
        let id = spawn_session(&http, &host).await?;
        send_prompt(&http, &id, "elicit").await?;
        wait_for_session(&http, &id, "a form", |session| session["turn"] == "awaiting_input")
            .await?;
        let asks = http.get(&format!("/sessions/{id}/asks")).await?.expect(200)?;
        assert_eq!(asks["asks"][0]["kind"], "elicitation", "{asks}");
        let ask = &asks["asks"][0]["askId"];
        http.post(&format!("/sessions/{id}/asks/{ask}"), &answer).await?.expect(200)?;
        wait_until_idle(&http, &id).await?;
        let lines = output_lines(&http, &id).await?;
        let action = answer["action"].as_str().unwrap_or("cancel");
        let told = lines.iter().find(|line| line.contains(action)).context("no answer")?;
        assert_eq!(told.contains("ann"), action == "accept", "{lines:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_form_is_cancelled_at_once_by_default() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    send_prompt(&http, &id, "elicit").await?;
    wait_until_idle(&http, &id).await?;
    let lines = output_lines(&http, &id).await?;
    assert!(lines.iter().any(|line| line.contains("cancel")), "{lines:?}");
    Ok(())
}

/// Starts a host on which forms wait for anyone, with a session that is labelled `talk`.
fn start_session_with_forms() -> Result<(TestHost, RestClient, String)> {
    let host = scripted_host(&[])?.with_setting("forms", "anyone").start_host()?;
    let id = start_kept_session(&host, &["--label", "talk"])?;
    let http = RestClient::new(&host);
    Ok((host, http, id))
}

/// Sends the prompt and waits until the form is open.
async fn open_form(http: &RestClient, id: &str) -> Result<()> {
    send_prompt(http, id, FORM_PROMPT).await?;
    wait_for_session(http, id, "a form", |session| session["turn"] == "awaiting_input")
        .await
        .map(drop)
}

/// Waits until the session is idle and returns its newest line about an answer.
async fn read_reported_answer(http: &RestClient, id: &str) -> Result<String> {
    wait_until_idle(http, id).await?;
    let lines = output_lines(http, id).await?;
    lines
        .into_iter()
        .rev()
        .find(|line| line.contains("answered: "))
        .context("no answer")
}

#[tokio::test]
async fn conversation_asks_for_a_form_field_by_field_and_ctrl_d_declines_it() -> Result<()> {
    let (host, http, id) = start_session_with_forms()?;
    let mut chat = TestTerminal::run_wharf(&host, &["chat", "talk"])?;
    chat.expect("> ")?;
    open_form(&http, &id).await?;
    chat.expect("? Which colour?")?;
    chat.expect("Enter takes the value in brackets")?;
    chat.expect("1/3 Database")?;
    chat.expect("2) postgres")?;
    chat.expect("db (a number or a name of these) [sqlite]: ")?;
    chat.press("\r")?;
    chat.expect("count (a whole number of at least 1): ")?;
    chat.press("none\r")?;
    chat.expect("\"none\" is no whole number; count (a whole number of at least 1): ")?;
    chat.press("3\r")?;
    chat.expect("note (text, optional): ")?;
    chat.press("\r")?;
    chat.expect("── done")?;
    let answer = read_reported_answer(&http, &id).await?;
    assert!(
        answer.contains(r#"{"action":"accept","content":{"count":3,"db":"sqlite"}}"#),
        "{answer}"
    );
    open_form(&http, &id).await?;
    chat.expect("db (a number or a name of these) [sqlite]: ")?;
    chat.press(CTRL_D)?;
    chat.expect("── done")?;
    let answer = read_reported_answer(&http, &id).await?;
    assert!(answer.contains(r#"{"action":"decline"}"#), "{answer}");
    chat.expect("> ")?;
    chat.press("echo still here\r")?;
    chat.expect("\r\nstill here")?;
    chat.expect("── done")?;
    chat.expect("> ")?;
    chat.press(CTRL_D)?;
    assert_eq!(chat.finish()?.0, Some(0));
    Ok(())
}

#[test]
fn run_on_a_terminal_asks_for_a_form_field_by_field() -> Result<()> {
    let host = scripted_host(&[])?.with_setting("forms", "anyone").start_host()?;
    let mut run = TestTerminal::run_wharf(&host, &["run", "scripted", FORM_PROMPT])?;
    run.expect("db (a number or a name of these) [sqlite]: ")?;
    run.press("2\r")?;
    run.expect("count (a whole number of at least 1): ")?;
    run.press("5\r")?;
    run.expect("note (text, optional): ")?;
    run.press("short\r")?;
    run.expect(r#""content":{"count":5,"db":"postgres","note":"short"}"#)?;
    assert_eq!(run.finish()?.0, Some(0));
    Ok(())
}

#[tokio::test]
async fn answer_on_a_terminal_asks_for_the_fields_and_cancel_declines() -> Result<()> {
    let (host, http, id) = start_session_with_forms()?;
    for (arguments, keys, reported) in [
        (
            &["answer", "talk"][..],
            ["\r", "7\r", "x\r"],
            r#""content":{"count":7,"db":"sqlite","note":"x"}"#,
        ),
        (
            &["answer", "talk", "accept"],
            ["2\r", "7\r", "\r"],
            r#""content":{"count":7,"db":"postgres"}"#,
        ),
        (&["answer", "talk"], ["2\r", "cancel\r", ""], r#"{"action":"decline"}"#),
    ] {
        open_form(&http, &id).await?;
        let mut answering = TestTerminal::run_wharf(&host, arguments)?;
        for (field, keys) in ["db (", "count (", "note ("]
            .iter()
            .zip(keys)
            .filter(|(_, keys)| !keys.is_empty())
        {
            answering.expect(&format!("  {field}"))?;
            answering.press(keys)?;
        }
        assert_eq!(answering.finish()?.0, Some(0));
        let answer = read_reported_answer(&http, &id).await?;
        assert!(answer.contains(reported), "{answer}");
    }
    Ok(())
}

#[tokio::test]
async fn answer_takes_the_values_of_a_form_as_words() -> Result<()> {
    let (host, http, id) = start_session_with_forms()?;
    open_form(&http, &id).await?;
    for (words, reason) in [
        (&["accept"][..], "the form also needs: count"),
        (&["accept", "count=none"], "\"none\" is no whole number"),
        (&["accept", "count=3", "colour=red"], "no field \"colour\""),
        (&["decline", "count=3"], "takes no values"),
    ] {
        let said = run_failing_wharf(&host, &[&["answer", "talk"], words].concat(), 2)?;
        assert!(said.contains(reason), "{said}");
    }
    run_wharf(&host, &["answer", "talk", "accept", "db=postgres", "count=3", "note=a b"])?;
    let answer = read_reported_answer(&http, &id).await?;
    assert!(answer.contains(r#""content":{"count":3,"db":"postgres","note":"a b"}"#), "{answer}");
    open_form(&http, &id).await?;
    run_wharf(&host, &["answer", "talk", "accept", "--content", r#"{"any":1}"#])?;
    let answer = read_reported_answer(&http, &id).await?;
    assert!(answer.contains(r#""content":{"any":1}"#), "{answer}");
    Ok(())
}
