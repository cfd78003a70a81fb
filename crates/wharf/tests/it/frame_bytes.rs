//! Order and bytes: frames of agents and clients arrive unchanged and at the right recipient.

use std::fs;

use anyhow::{Context, Result};
use serde_json::json;
use wharf_testkit::client::{ReceivedFrame, TestClient};

use crate::{
    add_section, connect_client, cwd, join_session, open_session, scripted_host, stop_reason,
};

#[tokio::test]
async fn early_updates_arrive_after_the_answer_to_session_new() -> Result<()> {
    let host = scripted_host(&["--early-updates", "3", "--commands"])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    client.send_prompt(&session, "echo now").await?;
    assert_eq!(client.chunk_texts(), ["early 0", "early 1", "early 2", "now"]);
    let frames = client.received_frames();
    let opened = frames
        .iter()
        .position(|frame| frame.body["result"]["sessionId"] == session.as_str());
    let early = frames.iter().position(|frame| frame.update().is_some()).context("no update")?;
    assert!(opened.context("no answer")? < early);
    let loaded = join_session(&host, &session).await?;
    assert_eq!(loaded.chunk_texts(), client.chunk_texts());
    Ok(())
}

#[tokio::test]
async fn an_update_after_the_answer_to_its_prompt_is_delivered() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    assert_eq!(
        stop_reason(client.send_prompt(&session, "echo in time; late too late").await)?,
        "end_turn"
    );
    client.expect_text("too late").await;
    let frames = client.received_frames();
    let answered = frames
        .iter()
        .rposition(|frame| frame.method().is_empty())
        .context("no answer")?;
    assert_eq!(
        frames[answered - 1].chunk_text(),
        Some("in time"),
        "everything of the turn came before its answer"
    );
    Ok(())
}

/// Returns updates that a host would change by serialising them again; all are valid JSON.
fn odd_updates() -> Vec<String> {
    let deep = format!("{}1{}", "[".repeat(500), "]".repeat(500));
    let deep_objects = format!("{}null{}", "{\"a\":".repeat(500), "}".repeat(500));
    let text =
        "\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"x\"}";
    let mut updates = vec![
        format!("{{{text},\"numbers\":[1.10, 1e2, 1E+2, -0, -0.0, 12345678901234567890123, 0.1e-7]}}"),
        format!("{{{text},\"escapes\":\"\\u00e9\\/\\u0041\\ud83d\\ude00 \\\" \\\\ é 😀\\u0000\"}}"),
        format!("{{  {text}  ,\t\"blanks\" :  {{ }} ,\"list\":[ ] }}"),
        format!("{{\"_meta\":{{\"z\":1,\"a\":2,\"z\":3}},{text},\"unknown\":null}}"),
        "{\"sessionUpdate\":\"from_the_future\",\"sessionId\":\"not-this-one\",\"x\":{\"sessionId\":\"nor-this\"}}"
            .to_owned(),
        "{\"session\\u0055pdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"spelled oddly\"}}"
            .to_owned(),
        "{}".to_owned(),
        // Half an emoji, as programs that cut strings by UTF-16 units write it.
        format!("{{{text},\"half\":\"\\ud83d\"}}"),
        "{\"sessionUpdate\":\"session_info_update\",\"title\":\"cut \\ud83d\"}".to_owned(),
        "{\"sessionUpdate\":\"tool_call\",\"toolCallId\":\"t\",\"title\":\"cut \\ud83d\"}".to_owned(),
        format!("{{{text},\"deep\":{deep}}}"),
        format!("{{{text},\"deep\":{deep_objects}}}"),
    ];
    updates.push(format!("{{{text},\"long\":\"{}\"}}", "é".repeat(100_000)));
    updates
}

#[tokio::test]
async fn updates_pass_byte_for_byte_but_for_the_session_id() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    let watching = join_session(&host, &session).await?;
    let mut expected = Vec::new();
    for update in odd_updates() {
        first.send_prompt(&session, &format!("rawupdate {update}")).await?;
        expected.push(format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{session}","update":{update}}}}}"#
        ));
    }
    first.send_prompt(&session, "echo end").await?;
    watching.expect_text("end").await;
    let loaded = join_session(&host, &session).await?;
    for (who, client) in [("first", &first), ("watching", &watching), ("loaded", &loaded)] {
        // Every update of the agent holds this text, at any nesting, and responses do not.
        let frames = client
            .received_frames()
            .into_iter()
            .filter(|frame| frame.raw.contains("\"session/update\""));
        let agents: Vec<String> = frames
            .map(|frame| frame.raw)
            .filter(|raw| !raw.contains("user_message_chunk"))
            .collect();
        assert_eq!(agents.len(), expected.len() + 1, "{who}");
        for (got, sent) in agents.iter().zip(&expected) {
            assert_eq!(got, sent, "{who}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn frames_pass_unchanged_in_every_order_and_spelling_of_members() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    for line in [
        r#"{ "params" : {"update":{"sessionUpdate":"plan","entries":[ ]},"sessionId": "$SESSION" , "x" : 1.0 } , "method":"session/update","jsonrpc":"2.0","extra":[1,2]}"#,
        r#"{"method":"session\/update","jsonrpc":"2.0","params":{"sessionId":"$SESSION","update":{"sessionUpdate":"agent_thought_chunk"},"_meta":{"a/b":true}}}"#,
    ] {
        client.send_prompt(&session, &format!("raw {line}")).await?;
        let arrived = client.expect("the frame", |frame| !frame.method().is_empty()).await;
        assert_eq!(arrived.raw, line.replace("$SESSION", &session));
    }
    Ok(())
}

#[tokio::test]
async fn permissions_and_answers_pass_byte_for_byte_but_for_their_ids() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let record = folder.path().join("record");
    let host = scripted_host(&["--record", record.to_str().context("not UTF-8")?])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let ask = r#"{"id":"q\/1","method":"session/request_permission","jsonrpc":"2.0","params":{"n":1.10,"options":[{"optionId":"go","name":"Go","kind":"allow_once","x":[ ]}],"sessionId":"$SESSION","toolCall":{"toolCallId":"t"}}}"#;
    client.send_prompt(&session, &format!("raw {ask}")).await?;
    let asked = client.expect_request("session/request_permission").await;
    assert_eq!(
        asked.raw,
        ask.replace("$SESSION", &session).replace(r#""q\/1""#, &asked.id().to_string())
    );
    // The end of the turn has settled that permission; the next one stays open for an answer.
    let running = client.start_prompt(&session, "stringid").await;
    let asked = client.expect_request("session/request_permission").await;
    let answer = r#"{ "result":{"outcome":{"optionId":"allow_once","outcome":"selected","y":1e2}} ,"id":$ID,"jsonrpc":"2.0" }"#;
    client.send_raw(&answer.replace("$ID", &asked.id().to_string())).await;
    running.wait_answer().await?;
    let lines = read_recording(&record)?;
    assert!(lines.contains(&answer.replace("$ID", "\"question-é-1\"")), "{lines:#?}");
    Ok(())
}

fn read_recording(path: &std::path::Path) -> Result<Vec<String>> {
    Ok(fs::read_to_string(path)?.lines().map(str::to_owned).collect())
}

#[tokio::test]
async fn prompts_reach_the_agent_byte_for_byte_but_for_their_ids() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let record = folder.path().join("record");
    let flags =
        ["--record", record.to_str().context("not UTF-8")?, "--session-id", "agent's \"own\" id"];
    let host = scripted_host(&flags)?.start_host()?;
    let (client, session) = open_session(&host).await?;
    crate::catch_up(&client).await;
    // This is as deep as the scripted agent itself can parse.
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    let sent = [
        r#"{ "id":77 , "params":{"prompt":[{"type":"text","text":"echo \u00e9\/","n":1.10}] , "sessionId":"$SESSION", "_meta":{"k":12345678901234567890123}},"method":"session/prompt","jsonrpc":"2.0"}"#.to_owned(),
        format!(r#"{{"jsonrpc":"2.0","id":"s\u00e9","method":"session/prompt","params":{{"sessionId":"$SESSION","x":{{"sessionId":"$SESSION"}},"deep":{deep},"prompt":[{{"type":"text","text":"echo b"}}]}},"id2":5}}"#),
        "{\"jsonrpc\":\"2.0\",\n  \"id\": 78,\r\n\"method\":\"session/prompt\",\"params\":{\"sessionId\":\"$SESSION\",\"prompt\":[{\"type\":\"text\",\"text\":\"echo c\"}]}}".to_owned(),
    ];
    for frame in &sent {
        client.send_raw(&frame.replace("$SESSION", &session)).await;
        let answered = client.expect("an answer", |frame| frame.method().is_empty()).await;
        assert_eq!(answered.body["result"]["stopReason"], "end_turn", "{}", answered.raw);
    }
    let lines = read_recording(&record)?;
    let prompts: Vec<&String> =
        lines.iter().filter(|line| line.contains("session/prompt")).collect();
    let agents_id = r#""agent's \"own\" id""#;
    let theirs = |frame: &str, id: &str, ours: &str| {
        let with_id = frame.replacen(id, ours, 1).replacen("\"$SESSION\"", agents_id, 1);
        with_id.replace("$SESSION", &session).replace(['\n', '\r'], " ")
    };
    // A prompt has twice the number of the event that starts its turn.
    let records = crate::log::read_records(&host, &session)?;
    let started = records.iter().filter(|record| record["event"]["kind"] == "turn_started");
    let ids: Vec<String> = started
        .filter_map(|record| Some((record["seq"].as_u64()? * 2).to_string()))
        .collect();
    let expected = [
        theirs(&sent[0], "77", &ids[0]),
        theirs(&sent[1], r#""s\u00e9""#, &ids[1]),
        theirs(&sent[2], "78", &ids[2]),
    ];
    assert_eq!(prompts, expected.iter().collect::<Vec<_>>());
    let opened = lines
        .iter()
        .position(|line| line.contains("\"session/new\""))
        .context("no session")?;
    assert!(lines[opened - 1].contains("\"initialize\""));
    Ok(())
}

#[tokio::test]
async fn session_new_reaches_the_agent_with_what_the_client_wrote() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let record = folder.path().join("record");
    let host = scripted_host(&["--record", record.to_str().context("not UTF-8")?])?.start_host()?;
    let client = connect_client(&host).await?;
    let frame = r#"{"jsonrpc":"2.0","id":"new","method":"session/new","params":{ "mcpServers":[{"name":"m","command":"/bin/x","args":[],"env":[]}],"cwd":"$CWD","_meta":{"n":1.10}}}"#
        .replace("$CWD", &cwd(&host)?);
    client.send_raw(&frame).await;
    let opened = client.expect("the session", |frame| frame.id() == "new").await;
    assert!(
        opened.body["result"]["modes"].is_object(),
        "the agent's answer is passed on: {}",
        opened.raw
    );
    let lines = read_recording(&record)?;
    assert_eq!(lines.last(), Some(&frame.replace("\"new\"", "1")));
    Ok(())
}

#[tokio::test]
async fn a_prompt_just_within_the_limit_passes() -> Result<()> {
    let host = add_section(scripted_host(&[])?, "[limits]\nframe = \"1MiB\"").start_host()?;
    let (client, session) = open_session(&host).await?;
    let text = format!("echo {}", "a".repeat(1_000_000));
    assert_eq!(stop_reason(client.send_prompt(&session, &text).await)?, "end_turn");
    assert_eq!(client.chunk_texts().concat().len(), 1_000_000);
    Ok(())
}

#[tokio::test]
async fn an_update_of_twenty_megabytes_passes_and_is_replayed() -> Result<()> {
    const LARGE_UPDATE_BYTES: usize = 20_000_000;
    let mut host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    client
        .send_prompt(&session, &format!("echo before; oversized {LARGE_UPDATE_BYTES}; echo after"))
        .await?;
    host.restart()?;
    let loaded = join_session(&host, &session).await?;
    for texts in [client.chunk_texts(), loaded.chunk_texts()] {
        let sizes: Vec<usize> = texts.iter().map(String::len).collect();
        assert_eq!((sizes.len(), sizes[0], sizes[2]), (3, 6, 5));
        assert!(sizes[1] > LARGE_UPDATE_BYTES - 1_000);
    }
    Ok(())
}

#[tokio::test]
async fn initialize_returns_the_agents_answer_with_load_session_enabled() -> Result<()> {
    let host = scripted_host(&["--no-load"])?.start_host()?;
    let client = TestClient::connect(&host.ws_url(), host.token()).await?;
    let params = json!({ "protocolVersion": 2, "clientCapabilities": {} });
    let answer = client.call_method("initialize", params).await?;
    assert_eq!(answer["protocolVersion"], 1, "a client that offers 2 gets 1");
    assert_eq!(answer["agentInfo"]["name"], "wharf-scripted-agent");
    assert_eq!(answer["agentCapabilities"]["loadSession"], true);
    assert_eq!(answer["agentCapabilities"]["promptCapabilities"]["image"], true);
    assert!(answer["_meta"]["scripted"]["pid"].is_u64());
    Ok(())
}

#[tokio::test]
async fn load_returns_the_current_mode_and_options() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (first, session) = open_session(&host).await?;
    first.send_prompt(&session, "mode auto").await?;
    let second = connect_client(&host).await?;
    let loaded = second.load_session(&session, &cwd(&host)?).await?;
    assert_eq!(loaded["modes"]["currentModeId"], "auto");
    assert_eq!(loaded["modes"]["availableModes"].as_array().map(Vec::len), Some(2));
    assert_eq!(loaded["configOptions"][0]["id"], "model");
    assert!(loaded.get("sessionId").is_none());
    let frames = second.received_frames();
    assert!(
        frames
            .iter()
            .filter_map(ReceivedFrame::update)
            .any(|update| update["currentModeId"] == "auto")
    );
    Ok(())
}
