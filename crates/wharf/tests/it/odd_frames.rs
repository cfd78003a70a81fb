//! Legal JSON that common parsers refuse: numbers beyond `f64`, lone surrogates, deep nesting.
//! Every party gets the meaning of such a frame.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use wharf_testkit::client::{ReceivedFrame, TestClient};
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;
use wharf_testkit::{WAIT_LIMIT, polling};

use crate::mcp_client::Mcp;
use crate::rest::{output_lines, wait_until_idle};
use crate::{
    connect_client, connect_client_with, cwd, expect_error, join_session, log, open_session,
    scripted_host, stop_reason,
};

const TURN_END: &str = "── turn-end (end_turn) ──";

fn nested_array(levels: usize) -> String {
    format!("{}{}", "[".repeat(levels), "]".repeat(levels))
}

/// Returns values that are legal and that `serde_json` refuses.
fn odd_values() -> [String; 4] {
    ["1e400".to_owned(), r#""\ud83d""#.to_owned(), nested_array(200), nested_array(100_000)]
}

async fn permission_answered_with(
    host: &TestHost,
    client: &TestClient,
    session: &str,
    answer: &str,
) -> Result<(String, Value)> {
    let running = client.start_prompt(session, "ask").await;
    let ask = client.expect_request("session/request_permission").await;
    client
        .send_raw(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{answer}}}"#, ask.id()))
        .await;
    assert_eq!(stop_reason(running.wait_answer().await)?, "end_turn", "{answer}");
    let mut resolved =
        log::list_events(host, session, "ask_resolved")?.pop().context("not resolved")?;
    let resolved = resolved["outcome"].take();
    Ok((client.chunk_texts().pop().context("the agent was told nothing")?, resolved))
}

#[tokio::test]
async fn a_grant_with_odd_members_is_one_value_for_agent_log_and_others() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let watcher = crate::connect_client(&host).await?;
    watcher
        .call_method("session/attach", json!({ "sessionId": session, "role": "observer" }))
        .await?;
    for odd in odd_values() {
        let answer = format!(
            r#"{{"outcome":{{"outcome":"selected","optionId":"allow_once","y":{odd}}},"_meta":{{"x":{odd},"\ud83d":1}}}}"#
        );
        let (told, resolved) = permission_answered_with(&host, &client, &session, &answer).await?;
        let shown = watcher
            .expect_update("the end", |update| update["sessionUpdate"] == "permission_resolved")
            .await;
        let update = shown.update().context("no update")?;
        assert_eq!(told, "chosen: allow_once", "the agent");
        assert_eq!(
            (&resolved["how"], &resolved["option"]),
            (&json!("answered"), &json!("allow_once")),
            "the log"
        );
        assert_eq!(
            (&update["outcome"], &update["chosenOptionId"]),
            (&json!("selected"), &json!("allow_once"))
        );
    }
    Ok(())
}

#[tokio::test]
async fn an_answer_that_is_not_valid_is_a_decline_and_never_forwarded() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    for (answer, why) in [
        (
            r#"{"outcome":{"outcome":"selected","optionId":"never_offered"},"_meta":{"x":1e400}}"#,
            "never_offered",
        ),
        (r#"{"outcome":{"outcome":"selected","optionId":"never_offered"}}"#, "never_offered"),
        (
            r#"{"outcome":{"outcome":"selected","optionId":"a","optionId":"allow_once"}}"#,
            "`optionId` stands there twice",
        ),
        (r#"{"outcome":{"outcome":"selected"}}"#, "optionId"),
        (r#"{"granted":"everything"}"#, "outcome"),
        (r#"{"action":"accept"}"#, "outcome"),
        ("null", "outcome"),
        ("1e400", "outcome"),
    ] {
        let (told, resolved) = permission_answered_with(&host, &client, &session, answer).await?;
        assert_eq!(told, "chosen: cancelled", "{answer}");
        assert_eq!(resolved["how"], "declined", "{answer}");
        let recorded = resolved["answer"].to_string();
        ensure!(
            recorded.contains(why) && recorded.contains(r#"{"outcome":"cancelled"}"#),
            "{answer}: {recorded}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn an_elicitation_answer_is_checked_and_announced() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let forms = json!({ "elicitation": { "form": {} } });
    let client =
        connect_client_with(&host, forms, json!({ "wharf": { "multiClientUpdates": true } }))
            .await?;
    let session = client.new_session(&cwd(&host)?).await?;
    for (answer, told) in [
        (r#"{"action":"accept","content":{"x":1e400,"y":"\ud83d"}}"#, "accept"),
        (r#"{"action":"decline","_meta":{"x":1e400}}"#, "decline"),
        (r#"{"action":"cancel","_meta":{"x":1e400}}"#, "cancel"),
        (r#"{"action":"perhaps"}"#, "cancel"),
        (r#"{"outcome":{"outcome":"selected","optionId":"a"}}"#, "cancel"),
    ] {
        let running = client.start_prompt(&session, "elicit").await;
        let ask = client.expect_request("elicitation/create").await;
        client
            .send_raw(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{answer}}}"#, ask.id()))
            .await;
        let shown = client
            .expect_update("its end", |update| update["sessionUpdate"] == "elicitation_resolved")
            .await;
        assert_eq!(shown.update().map(|update| &update["action"]), Some(&json!(told)), "{answer}");
        assert_eq!(stop_reason(running.wait_answer().await)?, "end_turn");
        let said = client.chunk_texts().pop().context("nothing")?;
        ensure!(said.contains(told), "{answer}: the agent was told {said}");
    }
    Ok(())
}

#[tokio::test]
async fn capabilities_of_an_agent_are_read_beside_odd_members() -> Result<()> {
    // An argument may have up to 128 KiB.
    for odd in ["1e400", r#""\ud83d""#, &nested_array(20_000)] {
        let folder = tempfile::tempdir()?;
        let record = folder.path().join("record");
        let beside = format!(r#"initialize="x":{odd},"\ud83d":{odd}"#);
        let flags = ["--resume", "--close", "--ready", "--add-to", &beside];
        let host = scripted_host(
            &[&flags[..], &["--record", record.to_str().context("not UTF-8")?]].concat(),
        )?
        .start_host()?;
        let (client, session) = open_session(&host).await?;
        client.send_prompt(&session, "echo ready").await?;
        let http = RestClient::new(&host);
        http.post_empty(&format!("/sessions/{session}/kill")).await?.expect(200)?;
        let listed = http.get(&format!("/sessions/{session}")).await?.expect(200)?;
        assert_eq!(listed["resumable"], true, "{listed}");
        // The kill is answered before the agent has read its `session/close`.
        let is_sent =
            |sent: &String| sent.contains("session/ready") && sent.contains("session/close");
        let sent = polling::poll_until(WAIT_LIMIT, || {
            Ok(Some(fs::read_to_string(&record)?).filter(is_sent))
        })
        .await?;
        ensure!(sent.is_some(), "{}", fs::read_to_string(&record)?);
    }
    Ok(())
}

#[tokio::test]
async fn a_mode_reported_in_an_odd_update_is_restored_on_return() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let record = folder.path().join("record");
    let mut host = scripted_host(&["--record", record.to_str().context("not UTF-8")?])?
        .without_keepers(crate::AGENT_COMES_BACK)
        .start_host()?;
    let (client, session) = open_session(&host).await?;
    let update = r#"rawupdate {"sessionUpdate":"current_mode_update","currentModeId":"auto","x":1e400,"y":"\ud83d"}"#;
    client.send_prompt(&session, update).await?;
    host.restart()?;
    let back = crate::connect_client(&host).await?;
    let loaded = back.load_session(&session, &cwd(&host)?).await?;
    assert_eq!(loaded["modes"]["currentModeId"], "auto", "{loaded}");
    back.send_prompt(&session, "echo back").await?;
    let sent = fs::read_to_string(&record)?;
    ensure!(
        sent.contains(r#""modeId":"auto""#),
        "the agent was not told to go back to its mode: {sent}"
    );
    Ok(())
}

#[tokio::test]
async fn options_reported_in_an_odd_update_are_restored_on_return() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let record = folder.path().join("record");
    let mut host = scripted_host(&["--record", record.to_str().context("not UTF-8")?])?
        .without_keepers(crate::AGENT_COMES_BACK)
        .start_host()?;
    let (client, session) = open_session(&host).await?;
    let update = r#"rawupdate {"sessionUpdate":"config_option_update","configOptions":[{"id":"model","name":"M","type":"select","currentValue":"large","options":[],"x":1e400}]}"#;
    client.send_prompt(&session, update).await?;
    host.restart()?;
    let back = join_session(&host, &session).await?;
    back.send_prompt(&session, "echo back").await?;
    let sent = fs::read_to_string(&record)?;
    ensure!(
        sent.contains(r#""configId":"model","#) && sent.contains(r#""value":"large""#),
        "{sent}"
    );
    Ok(())
}

#[tokio::test]
async fn a_session_started_with_odd_parameters_comes_back_with_the_same() -> Result<()> {
    for odd in odd_values() {
        let folder = tempfile::tempdir()?;
        let record = folder.path().join("record");
        let mut host = scripted_host(&["--record", record.to_str().context("not UTF-8")?])?
            .without_keepers(crate::AGENT_COMES_BACK)
            .start_host()?;
        let started = connect_client(&host).await?;
        let params = format!(
            r#"{{"cwd":{},"mcpServers":[],"x":{odd},"n":1.50,"_meta":{{"y":{odd},"\ud83d":{odd}}}}}"#,
            json!(cwd(&host)?)
        );
        started
            .send_raw(&format!(
                r#"{{"jsonrpc":"2.0","id":"new","method":"session/new","params":{params}}}"#
            ))
            .await;
        let answer = started.expect("the session", |frame| *frame.id() == "new").await;
        let session = answer.body["result"]["sessionId"]
            .as_str()
            .with_context(|| answer.raw.clone())?
            .to_owned();
        started.send_prompt(&session, "echo once").await?;
        host.restart()?;
        let back = join_session(&host, &session).await?;
        back.send_prompt(&session, "echo again").await?;
        let sent = fs::read_to_string(&record)?;
        let loaded =
            sent.lines().find(|line| line.contains("session/load")).context("not loaded")?;
        let same = params.trim_start_matches('{').trim_end_matches('}');
        ensure!(loaded.contains(same), "other parameters: {}", &loaded[..loaded.len().min(400)]);
    }
    Ok(())
}

/// Prompts with this script and waits for the end of the turn.
async fn run_turn(client: &TestClient, session: &str, script: &str) -> Result<()> {
    assert_eq!(stop_reason(client.send_prompt(session, script).await)?, "end_turn");
    Ok(())
}

#[tokio::test]
async fn text_of_an_odd_chunk_is_in_every_view() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let http = RestClient::new(&host);
    let odd = nested_array(200);
    let chunk = format!(
        r#"rawupdate {{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{{"type":"text","text":"one \ud83d","n":1e400}},"d":{odd}}}"#
    );
    run_turn(&client, &session, &chunk).await?;
    let tool = r#"rawupdate {"sessionUpdate":"tool_call","toolCallId":"t","title":"two \ud83d","status":"failed","rawInput":{"n":1e400},"content":[{"type":"content","content":{"type":"text","text":"three\ud83d"}}]}"#;
    run_turn(&client, &session, tool).await?;
    wait_until_idle(&http, &session).await?;
    let lines =
        ["one \u{fffd}", TURN_END, "[tool] two \u{fffd}", "[tool-error] three\u{fffd}", TURN_END];
    assert_eq!(output_lines(&http, &session).await?, lines, "REST");
    let mut events = http.open_stream(&format!("/sessions/{session}/stream"), None).await?;
    events.expect_line("one \u{fffd}").await?;
    events.expect_line("[tool] two \u{fffd}").await?;
    for mut mcp in Mcp::over_both(&host)? {
        let told = mcp
            .call_tool("get_agent_session_output", json!({ "sessionId": session }))
            .await?;
        assert_eq!(told["lines"], json!(lines), "MCP");
    }
    let late = connect_client_with(&host, json!({}), json!({})).await?;
    let attached = late.call_method("session/attach", json!({ "sessionId": session })).await?;
    let history = attached["history"].as_array().context("no history")?;
    let entry = |kind: &str| {
        history.iter().find(|entry| entry["type"] == kind).cloned().unwrap_or_default()
    };
    assert_eq!(entry("agent_message")["content"][0]["text"], "one \u{fffd}", "{history:?}");
    assert_eq!(entry("tool_call")["title"], "two \u{fffd}", "{history:?}");
    assert_eq!(entry("tool_call")["rawInput"], json!({ "n": "1e400" }), "{history:?}");
    Ok(())
}

#[tokio::test]
async fn a_surrogate_pair_cut_between_two_chunks_is_joined_in_derived_views() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let path = host.directory().join("lines");
    let chunk = |text: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"$SESSION","update":{{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{{"type":"text","text":"{text}"}}}}}}}}"#
        )
    };
    fs::write(&path, format!("{}\n{}\n", chunk(r"smile \ud83d"), chunk(r"\ude00 done")))?;
    run_turn(&client, &session, &format!("rawfile {}", path.display())).await?;
    let http = RestClient::new(&host);
    wait_until_idle(&http, &session).await?;
    assert_eq!(output_lines(&http, &session).await?, ["smile 😀 done", TURN_END]);
    let late = crate::connect_client(&host).await?;
    let attached = late.call_method("session/attach", json!({ "sessionId": session })).await?;
    let history = attached["history"].as_array().context("no history")?;
    let message = history
        .iter()
        .find(|entry| entry["type"] == "agent_message")
        .context("no message")?;
    assert_eq!(message["content"], json!([{ "type": "text", "text": "smile 😀 done" }]));
    Ok(())
}

#[tokio::test]
async fn an_odd_prompt_is_shown_to_others_and_in_queues() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let watching =
        connect_client_with(&host, json!({}), json!({ "wharf": { "multiClientUpdates": true } }))
            .await?;
    watching
        .call_method("session/attach", json!({ "sessionId": session, "historyPolicy": "none" }))
        .await?;
    let running = client.start_prompt(&session, "wait").await;
    watching
        .expect_update("the first prompt", |update| update["sessionUpdate"] == "prompt_received")
        .await;
    let prompt = r#"[{"type":"text","text":"echo odd\ud83d","n":1e400}]"#;
    client
        .send_raw(&format!(
            r#"{{"jsonrpc":"2.0","id":"odd","method":"session/prompt","params":{{"sessionId":"{session}","prompt":{prompt},"_meta":{{"x":1e400}}}}}}"#
        ))
        .await;
    let http = RestClient::new(&host);
    crate::rest::wait_for_session(&http, &session, "a queued prompt", |session| {
        session["queued"] == 1
    })
    .await?;
    let queue = http.get(&format!("/sessions/{session}/queue")).await?.expect(200)?;
    assert_eq!(queue["queue"][0]["text"], "echo odd\u{fffd}", "{queue}");
    let listed = client.call_method("_wharf/queue/list", json!({ "sessionId": session })).await?;
    assert_eq!(listed["prompts"][0]["prompt"][0]["text"], "echo odd\u{fffd}", "{listed}");
    client.send_notification("_go", json!({ "sessionId": session })).await;
    running.wait_answer().await?;
    let shown = watching
        .expect_update("the odd prompt", |update| update["sessionUpdate"] == "prompt_received")
        .await;
    let update = shown.update().context("no update")?;
    assert_eq!(update["prompt"][0]["text"], "echo odd\u{fffd}", "{}", shown.raw);
    assert!(shown.raw.contains(prompt), "the content is as it was written: {}", shown.raw);
    Ok(())
}

#[tokio::test]
async fn an_odd_permission_is_shown_with_its_options() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let ask = r#"{"jsonrpc":"2.0","id":"odd","method":"session/request_permission","params":{"sessionId":"$SESSION","toolCall":{"toolCallId":"t","title":"write \ud83d","rawInput":{"n":1e400}},"options":[{"optionId":"yes","name":"Yes \ud83d","kind":"allow_once","_meta":{"n":1e400}}],"_meta":{"x":1e400}}}"#;
    let path = host.directory().join("ask");
    fs::write(&path, format!("{ask}\n"))?;
    let running = client
        .start_prompt(&session, &format!("rawfile {}; wait", path.display()))
        .await;
    client
        .expect("the permission", |frame| frame.method() == "session/request_permission")
        .await;
    let http = RestClient::new(&host);
    let asks = http.get(&format!("/sessions/{session}/asks")).await?.expect(200)?;
    let open = &asks["asks"][0];
    assert_eq!(
        open["options"],
        json!([{ "optionId": "yes", "name": "Yes \u{fffd}", "kind": "allow_once" }]),
        "{asks}"
    );
    assert_eq!(open["toolCall"]["title"], "write \u{fffd}", "{asks}");
    assert_eq!(open["params"]["_meta"]["x"], "1e400", "{asks}");
    let lines = output_lines(&http, &session).await?;
    ensure!(lines.contains(&"[awaiting input] write \u{fffd}".to_owned()), "{lines:?}");
    http.post(
        &format!("/sessions/{session}/asks/{}", open["askId"]),
        &json!({ "optionId": "yes" }),
    )
    .await?
    .expect(200)?;
    client.send_notification("_go", json!({ "sessionId": session })).await;
    running.wait_answer().await?;
    Ok(())
}

#[tokio::test]
async fn capabilities_of_a_client_are_read_beside_odd_members() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    for odd in odd_values() {
        let client = TestClient::connect(&host.ws_url(), host.token()).await?;
        client
            .send_raw(&format!(
                r#"{{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{{"protocolVersion":1,"clientInfo":{{"name":"odd","version":"1","x":{odd}}},"clientCapabilities":{{"elicitation":{{"form":{{}}}},"x":{odd}}},"_meta":{{"y":{odd},"\ud83d":1,"wharf":{{"eventIds":true,"z":{odd}}}}}}}}}"#
            ))
            .await;
        client.expect("the answer", |frame| *frame.id() == "hello").await;
        let session = client.new_session(&cwd(&host)?).await?;
        let running = client.start_prompt(&session, "echo hi; elicit").await;
        let said = client.expect_text("hi").await;
        ensure!(
            said.params()["_meta"]["wharf"]["eventId"].is_string(),
            "event ids were asked for: {}",
            said.raw
        );
        let ask = client.expect_request("elicitation/create").await;
        client.send_result(ask.id(), json!({ "action": "decline" })).await;
        running.wait_answer().await?;
    }
    Ok(())
}

#[tokio::test]
async fn cancel_that_clears_the_queue_is_read_beside_odd_members() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let other = join_session(&host, &session).await?;
    let running = client.start_prompt(&session, "hang").await;
    let http = RestClient::new(&host);
    crate::rest::wait_for_session(&http, &session, "a turn", |session| {
        session["turn"] == "running"
    })
    .await?;
    let queued = other.start_prompt(&session, "echo queued").await;
    crate::rest::wait_for_session(&http, &session, "a queued prompt", |session| {
        session["queued"] == 1
    })
    .await?;
    client
        .send_raw(&format!(
            r#"{{"jsonrpc":"2.0","method":"session/cancel","params":{{"sessionId":"{session}","x":1e400,"_meta":{{"wharf":{{"queue":"clear","y":"\ud83d"}}}}}}}}"#
        ))
        .await;
    assert_eq!(stop_reason(running.wait_answer().await)?, "cancelled");
    assert_eq!(stop_reason(queued.wait_answer().await)?, "cancelled");
    Ok(())
}

#[tokio::test]
async fn a_needed_member_that_stands_twice_makes_a_request_malformed() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let blocks = r#"[{"type":"text","text":"echo no"}]"#;
    for (method, members) in [
        ("prompt", format!(r#""prompt":{blocks},"prompt":{blocks}"#)),
        ("prompt", format!(r#""prompt":{blocks},"_meta":{{"wharf":{{}},"wharf":{{}}}}"#)),
        ("set_mode", r#""modeId":"ask","modeId":"auto""#.to_owned()),
        ("set_config_option", r#""configId":"model","value":"small","value":"large""#.to_owned()),
    ] {
        let params = format!(r#"{{"sessionId":"{session}",{members}}}"#);
        let frame = format!(
            r#"{{"jsonrpc":"2.0","id":"twice","method":"session/{method}","params":{params}}}"#
        );
        client.send_raw(&frame).await;
        let answer = client.expect("the refusal", |frame| *frame.id() == "twice").await;
        assert_eq!(answer.body["error"]["code"], -32602, "{}", answer.raw);
        ensure!(answer.raw.contains("stands there twice"), "{}", answer.raw);
    }
    let error =
        expect_error(client.call_method("session/prompt", json!({ "sessionId": session })).await)?;
    assert_eq!(error.code, -32602);
    Ok(())
}

#[tokio::test]
async fn an_update_with_a_doubled_member_is_reported_as_malformed() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    for (member, update) in [
        (
            "currentModeId",
            r#"{"sessionUpdate":"current_mode_update","currentModeId":"one","currentModeId":"two"}"#,
        ),
        ("title", r#"{"sessionUpdate":"tool_call","toolCallId":"t","title":"one","title":"two"}"#),
        (
            "content",
            r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"one"},"content":{"type":"text","text":"two"}}"#,
        ),
    ] {
        run_turn(&client, &session, &format!("rawupdate {update}")).await?;
        let names =
            |fault: &Value| fault["detail"].as_str().is_some_and(|detail| detail.contains(member));
        log::expect_event(&host, &session, "agent_faulted", names).await?;
    }
    // Two readers could take two values from it, so nobody is given it.
    let told = log::list_events(&host, &session, "agent_updated")?;
    ensure!(!told.iter().any(|event| event.to_string().contains("two")), "{told:?}");
    Ok(())
}

#[tokio::test]
async fn prompts_of_amux_requests_reach_the_agent_as_they_are_written() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let record = folder.path().join("record");
    let host = scripted_host(&["--record", record.to_str().context("not UTF-8")?])?.start_host()?;
    let peer = TestClient::connect(
        &format!("{}?session=work&peer_id=ann&role=driver", host.ws_url()),
        host.token(),
    )
    .await?;
    peer.initialize().await?;
    let session = peer.new_session(&cwd(&host)?).await?;
    for (method, member, written) in [
        ("queue_prompt", r#""text":"echo \ud83d""#, r#"[{"type":"text","text":"echo \ud83d"}]"#),
        (
            "queue_prompt",
            r#""prompt":[{"type":"text","text":"echo b","n":1e400}]"#,
            r#"[{"type":"text","text":"echo b","n":1e400}]"#,
        ),
        (
            "steer_active_turn",
            r#""prompt":[{"z":1.10,"type":"text","text":"echo c"}]"#,
            r#"[{"z":1.10,"type":"text","text":"echo c"}]"#,
        ),
    ] {
        let frame = format!(
            r#"{{"jsonrpc":"2.0","id":"{method}","method":"amux/{method}","params":{{"sessionId":"{session}",{member}}}}}"#
        );
        peer.send_raw(&frame).await;
        // The answer and the end of the turn may come in either order.
        let is_answer = |frame: &ReceivedFrame| *frame.id() == method;
        let is_end = |frame: &ReceivedFrame| frame.method() == "amux/turn_complete";
        let first = peer
            .expect("the answer or the end", |frame| is_answer(frame) || is_end(frame))
            .await;
        let second = peer.expect("the other one", |frame| {
            if is_answer(&first) { is_end(frame) } else { is_answer(frame) }
        });
        let second = second.await;
        let answer = if is_answer(&first) { first } else { second };
        ensure!(answer.body.get("error").is_none(), "{frame}: {}", answer.raw);
        let recorded = fs::read_to_string(&record)?;
        ensure!(
            recorded.contains(&format!(r#""prompt":{written}"#)),
            "{written} is not in\n{recorded}"
        );
    }
    Ok(())
}
