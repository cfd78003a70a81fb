//! A message over `limits.frame` is not read, but the request that its first bytes name does not
//! wait for ever.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use wharf_testkit::client::TestClient;
use wharf_testkit::host::HostOptions;
use wharf_testkit::{WAIT_LIMIT, polling};

use crate::http_client::AcpHttpClient;
use crate::{add_section, cwd, expect_error, log, open_session, prompt_for_text, scripted_host};

/// More than the limit, and less than the system takes as one argument.
const OVERSIZED_BYTES: usize = 70_000;

fn host_with(flags: &[&str]) -> Result<HostOptions> {
    Ok(add_section(scripted_host(flags)?, "[limits]\nframe = \"64KiB\""))
}

fn long_answer(method: &str) -> String {
    format!(
        r#"{method}={{"jsonrpc":"2.0","id":@ID@,"result":{{"x":"{}"}}}}"#,
        "x".repeat(OVERSIZED_BYTES)
    )
}

#[tokio::test]
async fn an_oversized_answer_of_the_agent_fails_the_prompt_that_it_names() -> Result<()> {
    let host = host_with(&["--answer-with", &long_answer("session/prompt")])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let error = expect_error(client.send_prompt(&session, "echo unused").await)?;
    ensure!(error.message.contains("limits.frame"), "{error}");
    assert_eq!(
        log::list_events(&host, &session, "prompt_ended")?.len(),
        1,
        "the log has one end of the prompt"
    );
    assert_eq!(
        log::list_events(&host, &session, "agent_faulted")?.len(),
        1,
        "the fault is recorded"
    );
    Ok(())
}

#[tokio::test]
async fn an_oversized_answer_of_the_agent_fails_a_forwarded_request() -> Result<()> {
    let host = host_with(&["--answer-with", &long_answer("session/set_mode")])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let set = client
        .call_method("session/set_mode", json!({ "sessionId": session, "modeId": "auto" }))
        .await;
    let error = expect_error(set)?;
    ensure!(error.message.contains("limits.frame"), "{error}");
    Ok(())
}

#[tokio::test]
async fn an_oversized_answer_to_initialize_or_new_fails_the_start() -> Result<()> {
    for method in ["initialize", "session/new"] {
        let host = host_with(&["--answer-with", &long_answer(method)])?.start_host()?;
        let client = TestClient::connect(&host.ws_url(), host.token()).await?;
        let error = match client.initialize().await {
            Ok(_) => expect_error(client.new_session(&cwd(&host)?).await)?,
            Err(error) => error,
        };
        ensure!(error.to_string().contains("limits.frame"), "{method}: {error}");
    }
    Ok(())
}

#[tokio::test]
async fn an_oversized_request_of_the_agent_is_refused() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let record = folder.path().join("record");
    let host = host_with(&["--record", record.to_str().context("not UTF-8")?])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let lines = host.directory().join("lines");
    let long = "x".repeat(OVERSIZED_BYTES);
    fs::write(
        &lines,
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":\"long\",\"method\":\"_x/ask\",\"params\":\"{long}\"}}\n"
        ),
    )?;
    assert_eq!(
        prompt_for_text(&client, &session, &format!("rawfile {}; echo on", lines.display()))
            .await?,
        "on"
    );
    let refusal = polling::poll_until(WAIT_LIMIT, || {
        let text = fs::read_to_string(&record)?;
        Ok(text.lines().find(|line| line.contains(r#""id":"long""#)).map(str::to_owned))
    });
    let refusal = refusal.await?.context("the agent was told nothing")?;
    ensure!(refusal.contains("-32600") && refusal.contains("limits.frame"), "{refusal}");
    Ok(())
}

#[tokio::test]
async fn an_oversized_answer_over_http_fails_the_request_that_it_names() -> Result<()> {
    let host = host_with(&[])?.start_host()?;
    let http = AcpHttpClient::open(&host).await?;
    let (_own, mut events, session) = http.session(&host).await?;
    http.send_prompt(2, &session, r#"ext _x/ask {"a":1}"#).await?;
    let asked = events.expect("the request", |event| event.data["method"] == "_x/ask").await?;
    let (id, long) = (&asked.data["id"], "x".repeat(OVERSIZED_BYTES));
    let answer = http
        .post_text(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"x":"{long}"}}}}"#))
        .await?;
    assert_eq!(answer.status, 413, "{answer:?}");
    let said = events.expect("the agent's words", |event| event.text().is_some()).await?;
    ensure!(said.text().is_some_and(|text| text.contains("limits.frame")), "{said:?}");
    assert_eq!(events.answer(2).await?["result"]["stopReason"], "end_turn");
    Ok(())
}
