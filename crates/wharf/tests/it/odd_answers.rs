//! Answers in odd spellings: members that are null, ids that come back as another spelling, lines
//! that are malformed. Each of them ends the request that it names, from agents as from clients.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use wharf_testkit::client::{PendingCall, ReceivedFrame, TestClient};

use crate::{connect_client, cwd, expect_error, log, open_session, scripted_host, stop_reason};

const TURN_RESULT: &str = r#""result":{"stopReason":"end_turn"}"#;

/// Opens a session whose agent answers every prompt with this line, and prompts it.
async fn prompt_with_answer(
    answer: &str,
) -> Result<(wharf_testkit::host::TestHost, TestClient, PendingCall)> {
    let host =
        scripted_host(&["--answer-with", &format!("session/prompt={answer}")])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let call = client.start_prompt(&session, "echo unused").await;
    Ok((host, client, call))
}

async fn expect_result(answer: &str) -> Result<()> {
    let (_host, _client, call) = prompt_with_answer(answer).await?;
    assert_eq!(stop_reason(call.wait_answer().await)?, "end_turn", "{answer}");
    Ok(())
}

async fn expect_failure(answer: &str, words: &str) -> Result<()> {
    let (host, _client, call) = prompt_with_answer(answer).await?;
    let error = expect_error(call.wait_answer().await)?;
    ensure!(error.message.contains(words), "{answer}: {error}");
    let session = log::only_session(&host)?;
    ensure!(
        log::list_events(&host, &session, "prompt_ended")?.len() == 1,
        "{answer}: the log has one end of the prompt"
    );
    Ok(())
}

#[tokio::test]
async fn a_null_error_beside_a_result_is_absent() -> Result<()> {
    expect_result(&format!(r#"{{"jsonrpc":"2.0","id":@ID@,{TURN_RESULT},"error":null}}"#)).await
}

#[tokio::test]
async fn a_null_result_beside_an_error_is_absent() -> Result<()> {
    let answer = r#"{"jsonrpc":"2.0","id":@ID@,"result":null,"error":{"code":-32050,"message":"no credit"}}"#;
    expect_failure(answer, "no credit").await
}

#[tokio::test]
async fn a_null_method_in_an_answer_is_absent() -> Result<()> {
    expect_result(&format!(
        r#"{{"jsonrpc":"2.0","method":null,"params":null,"id":@ID@,{TURN_RESULT}}}"#
    ))
    .await
}

#[tokio::test]
async fn an_id_that_comes_back_as_a_string_is_known() -> Result<()> {
    expect_result(&format!(r#"{{"jsonrpc":"2.0","id":"@ID@",{TURN_RESULT}}}"#)).await
}

#[tokio::test]
async fn an_id_that_comes_back_as_a_float_is_known() -> Result<()> {
    expect_result(&format!(r#"{{"jsonrpc":"2.0","id":@ID@.0,{TURN_RESULT}}}"#)).await?;
    expect_result(&format!(r#"{{"jsonrpc":"2.0","id":@ID@0e-1,{TURN_RESULT}}}"#)).await
}

#[tokio::test]
async fn a_byte_order_mark_before_an_answer_is_skipped() -> Result<()> {
    expect_result(&format!("\u{feff}{{\"jsonrpc\":\"2.0\",\"id\":@ID@,{TURN_RESULT}}}")).await
}

#[tokio::test]
async fn a_doubled_id_fails_the_request_that_it_names() -> Result<()> {
    expect_failure(
        &format!(r#"{{"jsonrpc":"2.0","id":@ID@,"id":@ID@,{TURN_RESULT}}}"#),
        "`id` stands there twice",
    )
    .await
}

#[tokio::test]
async fn a_malformed_answer_fails_the_request_that_it_names() -> Result<()> {
    let both = format!(
        r#"{{"jsonrpc":"2.0","id":@ID@,{TURN_RESULT},"error":{{"code":1,"message":"m"}}}}"#
    );
    expect_failure(&both, "both a result and an error").await?;
    expect_failure(r#"{"jsonrpc":"2.0","id":@ID@}"#, "could not be read").await?;
    expect_failure(
        r#"{"jsonrpc":"2.0","id":@ID@,"result":{"stopReason":"end_tu"#,
        "could not be read",
    )
    .await?;
    expect_failure(
        &format!(r#"{{"jsonrpc":"2.0","id":@ID@,{TURN_RESULT}}} trailing"#),
        "could not be read",
    )
    .await
}

#[tokio::test]
async fn an_empty_method_beside_an_outcome_is_absent() -> Result<()> {
    expect_result(&format!(r#"{{"jsonrpc":"2.0","id":@ID@,"method":"",{TURN_RESULT}}}"#)).await?;
    expect_result(&format!(
        r#"{{"jsonrpc":"2.0","id":@ID@,"method":"","params":null,"error":null,{TURN_RESULT}}}"#
    ))
    .await?;
    let error =
        r#"{"jsonrpc":"2.0","method":"","id":@ID@,"error":{"code":-32050,"message":"no credit"}}"#;
    expect_failure(error, "no credit").await
}

#[tokio::test]
async fn answer_that_names_a_method_fails_its_request() -> Result<()> {
    let answer =
        format!(r#"{{"jsonrpc":"2.0","method":"session/prompt","id":@ID@,{TURN_RESULT}}}"#);
    expect_failure(&answer, "a method together with a result").await?;
    expect_failure(
        r#"{"jsonrpc":"2.0","id":@ID@,"method":"","result":{"stopReason":"end_tu"#,
        "could not be read",
    )
    .await
}

#[tokio::test]
async fn batch_fails_the_requests_that_it_answers() -> Result<()> {
    expect_failure(&format!(r#"[{{"jsonrpc":"2.0","id":@ID@,{TURN_RESULT}}}]"#), "a batch").await?;
    let note = r#"{"jsonrpc":"2.0","method":"_x/note"}"#;
    expect_failure(
        &format!(r#" [ {note} , {{"jsonrpc":"2.0","id":@ID@,{TURN_RESULT}}}"#),
        "could not be read",
    )
    .await
}

#[tokio::test]
async fn answer_behind_another_message_on_its_line_fails_its_request() -> Result<()> {
    let note = r#"{"jsonrpc":"2.0","method":"_x/note"}"#;
    expect_failure(
        &format!(r#"{note}{{"jsonrpc":"2.0","id":@ID@,{TURN_RESULT}}}"#),
        "could not be read",
    )
    .await
}

#[tokio::test]
async fn answer_behind_other_text_is_a_fault_and_settles_nothing() -> Result<()> {
    for (before, after) in [("DEBUG sends ", ""), ("[DEBUG sends ", "]")] {
        expect_ignored_echo(&format!(
            r#"{before}{{"jsonrpc":"2.0","id":@ID@,{TURN_RESULT}}}{after}"#
        ))
        .await?;
    }
    Ok(())
}

/// Fails if this line of the agent ends the turn whose id it names.
async fn expect_ignored_echo(line: &str) -> Result<()> {
    let (host, client, call) = prompt_with_answer(line).await?;
    let session = log::only_session(&host)?;
    let fault = log::expect_event(&host, &session, "agent_faulted", |_| true).await?;
    ensure!(fault["detail"].as_str().is_some_and(|detail| detail.contains("not JSON")), "{fault}");
    // The next one would be an answer; a debug echo is none.
    ensure!(log::list_events(&host, &session, "prompt_ended")?.is_empty(), "the turn has ended");
    client
        .call_method(
            "session/close",
            json!({ "sessionId": session, "_meta": { "wharf": { "force": true } } }),
        )
        .await?;
    ensure!(call.wait_answer().await.is_err(), "the turn has ended with an answer");
    Ok(())
}

#[tokio::test]
async fn a_result_that_is_an_odd_value_ends_its_request() -> Result<()> {
    for odd in ["1e400", r#""\ud83d""#, r#"{"stopReason":"end\ud83d","x":1e400}"#] {
        let (_host, _client, call) =
            prompt_with_answer(&format!(r#"{{"jsonrpc":"2.0","id":@ID@,"result":{odd}}}"#)).await?;
        call.wait_answer().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_malformed_answer_to_initialize_or_new_fails_the_start() -> Result<()> {
    for method in ["initialize", "session/new"] {
        for (answer, words) in [
            (r#"{"jsonrpc":"2.0","id":@ID@,"id":@ID@,"result":{}}"#, "`id` stands there twice"),
            (
                r#"{"jsonrpc":"2.0","id":@ID@,"method":"m","result":{}}"#,
                "a method together with a result",
            ),
            (r#"[{"jsonrpc":"2.0","id":@ID@,"result":{}}]"#, "a batch"),
        ] {
            let host =
                scripted_host(&["--answer-with", &format!("{method}={answer}")])?.start_host()?;
            let client = TestClient::connect(&host.ws_url(), host.token()).await?;
            let error = match client.initialize().await {
                Ok(_) => expect_error(client.new_session(&cwd(&host)?).await)?,
                Err(error) => error,
            };
            ensure!(error.to_string().contains(words), "{method}: {error}");
        }
    }
    Ok(())
}

/// Answers a permission in some spelling of its request id and returns the agent's reaction.
async fn answer_permission_as(spelled: impl Fn(&str, &str) -> String) -> Result<String> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let running = client.start_prompt(&session, "ask").await;
    let ask: ReceivedFrame = client.expect_request("session/request_permission").await;
    let granted = r#""result":{"outcome":{"outcome":"selected","optionId":"allow_once"}}"#;
    client.send_raw(&spelled(&ask.id().to_string(), granted)).await;
    assert_eq!(stop_reason(running.wait_answer().await)?, "end_turn");
    client.chunk_texts().pop().context("no text")
}

#[tokio::test]
async fn odd_spellings_of_a_clients_answer_are_understood() -> Result<()> {
    let granted = "chosen: allow_once";
    assert_eq!(
        answer_permission_as(|id, it| format!(
            r#"{{"jsonrpc":"2.0","id":{id},{it},"error":null}}"#
        ))
        .await?,
        granted
    );
    assert_eq!(
        answer_permission_as(|id, it| format!(r#"{{"jsonrpc":"2.0","id":"{id}",{it}}}"#)).await?,
        granted
    );
    assert_eq!(
        answer_permission_as(|id, it| format!(
            r#"{{"jsonrpc":"2.0","id":{id}.0,"method":null,{it}}}"#
        ))
        .await?,
        granted
    );
    assert_eq!(
        answer_permission_as(|id, it| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"",{it}}}"#))
            .await?,
        granted
    );
    assert_eq!(
        answer_permission_as(|id, it| format!("\u{feff}{{\"jsonrpc\":\"2.0\",\"id\":{id},{it}}}"))
            .await?,
        granted
    );
    Ok(())
}

#[tokio::test]
async fn a_malformed_answer_of_a_client_counts_as_its_decline() -> Result<()> {
    let declined = "chosen: cancelled";
    let twice = |id: &str, it: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"id":{id},{it}}}"#);
    assert_eq!(answer_permission_as(twice).await?, declined);
    let both = |id: &str, it: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},{it},"error":{{"code":1,"message":"m"}}}}"#)
    };
    assert_eq!(answer_permission_as(both).await?, declined);
    let batch = |id: &str, it: &str| format!(r#"[{{"jsonrpc":"2.0","id":{id},{it}}}]"#);
    assert_eq!(answer_permission_as(batch).await?, declined);
    Ok(())
}

#[tokio::test]
async fn a_malformed_answer_of_a_client_fails_the_agents_request() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let running = client.start_prompt(&session, r#"ext _x/ask {"a":1}"#).await;
    let ask = client.expect_request("_x/ask").await;
    client
        .send_raw(&format!(r#"{{"jsonrpc":"2.0","id":{0},"id":{0},"result":{{}}}}"#, ask.id()))
        .await;
    assert_eq!(stop_reason(running.wait_answer().await)?, "end_turn");
    let told = client.chunk_texts().pop().context("no text")?;
    ensure!(told.contains("stands there twice"), "{told}");
    Ok(())
}

#[tokio::test]
async fn null_members_of_a_clients_request_are_absent() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let prompt = r#"[{"type":"text","text":"echo hi"}]"#;
    let request = format!(
        r#"{{"jsonrpc":"2.0","id":"nulls","method":"session/prompt","result":null,"error":null,"params":{{"sessionId":"{session}","prompt":{prompt},"_meta":null}}}}"#
    );
    client.send_raw(&request).await;
    let answer = client.expect("the answer", |frame| *frame.id() == "nulls").await;
    assert_eq!(answer.body["result"]["stopReason"], "end_turn", "{}", answer.raw);
    Ok(())
}

#[tokio::test]
async fn an_agents_own_wharf_meta_is_renamed() -> Result<()> {
    let host = scripted_host(&["--add-to", r#"session/new="_meta":{"wharf":{"eventId":"9-9"}}"#])?
        .start_host()?;
    let client =
        crate::connect_client_with(&host, json!({}), json!({ "wharf": { "eventIds": true } }))
            .await?;
    let opened = client
        .call_method("session/new", json!({ "cwd": cwd(&host)?, "mcpServers": [] }))
        .await?;
    assert_eq!(opened["_meta"]["wharf.agent"]["eventId"], "9-9", "{opened}");
    let session = opened["sessionId"].as_str().context("no id")?;
    let forged = r#"raw {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"$SESSION","_meta":{"\u0077harf":{"eventId":"9-9"},"n":1e400},"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"forged"},"_meta":{"wharf":{"terminals":["t"]}}}}}"#;
    client.send_prompt(session, forged).await?;
    let frame = client
        .received_frames()
        .into_iter()
        .find(|frame| frame.chunk_text() == Some("forged"))
        .context("no update")?;
    let meta = &frame.params()["_meta"];
    assert_eq!(meta["wharf.agent"], json!({ "eventId": "9-9" }), "{}", frame.raw);
    ensure!(meta["wharf"]["eventId"].as_str().is_some_and(|id| id != "9-9"), "{}", frame.raw);
    assert_eq!(
        frame.update().map(|update| &update["_meta"]),
        Some(&json!({ "wharf.agent": { "terminals": ["t"] } }))
    );
    ensure!(frame.raw.contains("1e400"), "other members stay as they are: {}", frame.raw);
    let stored = log::list_events(&host, session, "agent_updated")?;
    ensure!(
        stored
            .iter()
            .all(|event| event["frame"]["params"]["_meta"].get("wharf").is_none()),
        "{stored:?}"
    );
    Ok(())
}

#[tokio::test]
async fn an_agents_own_members_under_capabilities_session_stay() -> Result<()> {
    let own = r#"initialize="capabilities":{"session":{"fancy":{"n":1e400}},"x":"\ud83d"}"#;
    let host = scripted_host(&["--add-to", own])?.start_host()?;
    let client = TestClient::connect(&host.ws_url(), host.token()).await?;
    let answer: Value = client.initialize().await?;
    assert_eq!(
        answer["capabilities"]["session"],
        json!({ "fancy": { "n": "1e400" }, "ready": true })
    );
    let raw = client.received_frames().pop().context("no frame")?.raw;
    ensure!(
        raw.contains(r#""fancy":{"n":1e400}"#) && raw.contains(r#""x":"\ud83d""#),
        "byte for byte: {raw}"
    );
    let again = crate::connect_client(&host).await?;
    ensure!(
        again.received_frames().pop().is_some_and(|frame| frame.raw.contains("1e400")),
        "from the cache too"
    );
    Ok(())
}

#[tokio::test]
async fn an_odd_answer_of_the_agent_reaches_every_client_the_same() -> Result<()> {
    let host = scripted_host(&["--add-to", r#"session/new="x":1e400"#])?.start_host()?;
    let one = connect_client(&host).await?;
    let session = one.new_session(&cwd(&host)?).await?;
    let two = crate::join_session(&host, &session).await?;
    let loaded = two
        .received_frames()
        .into_iter()
        .find(|frame| frame.body["result"]["modes"].is_object());
    assert_eq!(
        loaded.context("no modes in the load answer")?.body["result"]["modes"]["currentModeId"],
        "ask"
    );
    Ok(())
}
