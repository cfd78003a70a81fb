//! Flags of the scripted agent.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tempfile::TempDir;
use wharf_testkit::agent::Flags;
use wharf_testkit::agent_pipe::{chunk_text, joined_text};

use crate::{open_scripted_agent, prompt_for_text, start_agent};

fn old_session() -> Value {
    json!({ "sessionId": "old", "cwd": "/tmp", "mcpServers": [] })
}

#[test]
fn wrong_flags_are_refused() {
    for flags in [&["--no-such"][..], &["--delay", "x"], &["--overlap", "sideways"], &["--replay"]]
    {
        assert!(Flags::parse(flags.iter().map(|flag| (*flag).to_owned())).is_err(), "{flags:?}");
    }
}

#[test]
fn an_agent_can_exit_at_once() -> Result<()> {
    assert_eq!(
        start_agent(&["--exit-on-start", "9", "--stderr", "told to"])?
            .wait_exit()?
            .code(),
        Some(9)
    );
    Ok(())
}

#[test]
fn early_updates_precede_the_response() -> Result<()> {
    let (agent, _) = open_scripted_agent(&["--early-updates", "2", "--session-id", "0"])?;
    let messages: Vec<Value> = agent
        .received
        .iter()
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect();
    assert_eq!(joined_text(&messages), "early 0early 1");
    assert_eq!(messages.last().context("nothing")?["result"]["sessionId"], "0");
    Ok(())
}

#[test]
fn capabilities_follow_the_flags() -> Result<()> {
    let mut agent =
        start_agent(&["--no-load", "--resume", "--close", "--native-queue", "--ready"])?;
    let answer = agent.call_method("initialize", json!({}))?;
    let offered = json!({ "close": {}, "promptQueueing": {}, "ready": {}, "resume": {} });
    assert_eq!(answer["agentCapabilities"]["sessionCapabilities"], offered);
    assert_eq!(answer["agentCapabilities"]["_meta"]["claudeCode"]["promptQueueing"], true);
    assert_eq!(answer["capabilities"]["session"]["ready"], true);
    assert_eq!(answer["agentCapabilities"]["loadSession"], false);
    let id = agent.start_request("session/load", old_session())?;
    assert_eq!(agent.wait_response(id)?["error"]["code"], -32601);
    Ok(())
}

#[test]
fn a_replay_comes_before_or_after_the_answer() -> Result<()> {
    let replayed = "old answer 0old answer 1";
    for (flags, method, before) in [
        (&[][..], "session/load", replayed),
        (&["--replay-after-load"], "session/load", ""),
        (&["--resume"], "session/resume", ""),
        (&["--resume", "--replay-on-resume"], "session/resume", replayed),
    ] {
        let mut agent = start_agent(flags)?;
        agent.call_method(method, old_session())?;
        let messages: Vec<Value> = agent
            .received
            .iter()
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect();
        assert_eq!(joined_text(&messages), before, "{flags:?}");
        if flags.contains(&"--replay-after-load") {
            agent.expect("replay", |message| chunk_text(message) == "old answer 1")?;
        }
        assert_eq!(prompt_for_text(&mut agent, "old", "echo new")?.0, "new");
    }
    Ok(())
}

#[test]
fn a_native_queue_ends_the_earlier_prompt_first() -> Result<()> {
    let (mut agent, session) = open_scripted_agent(&["--native-queue"])?;
    let first = agent.start_prompt(&session, "echo first; hang")?;
    agent.expect("start", |message| chunk_text(message) == "first")?;
    let from = agent.received.len();
    let second = agent.start_prompt(&session, "echo second")?;
    assert_eq!(agent.wait_response(second)?["result"]["stopReason"], "end_turn");
    let after: Vec<Value> = agent.received[from..]
        .iter()
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect();
    assert_eq!(
        after[0],
        json!({ "jsonrpc": "2.0", "id": first, "result": { "stopReason": "end_turn" } })
    );
    assert_eq!(chunk_text(&after[1]), "second");
    Ok(())
}

#[test]
fn overlapping_prompts_are_rejected_or_queued() -> Result<()> {
    let (mut agent, session) = open_scripted_agent(&[])?;
    agent.start_prompt(&session, "hang")?;
    let second = agent.start_prompt(&session, "echo second")?;
    assert_eq!(agent.wait_response(second)?["error"]["message"], "a prompt is already running");
    let (mut agent, session) = open_scripted_agent(&["--overlap", "queue"])?;
    agent.start_prompt(&session, "wait; echo first")?;
    let second = agent.start_prompt(&session, "echo second")?;
    agent.send_notification("_go", json!({}))?;
    agent.wait_response(second)?;
    let messages: Vec<Value> = agent
        .received
        .iter()
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect();
    assert_eq!(joined_text(&messages), "firstsecond");
    Ok(())
}

#[test]
fn agent_with_the_ready_flag_is_silent_and_refuses_prompts_before_ready() -> Result<()> {
    let (mut agent, session) = open_scripted_agent(&["--ready"])?;
    let early = agent.start_prompt(&session, "echo hi")?;
    assert_eq!(
        agent.wait_response(early)?["error"]["message"],
        "a prompt came before session/ready"
    );
    agent.send_notification("session/ready", json!({ "sessionId": session }))?;
    let held = agent.next_line()?.context("nothing")?;
    assert!(String::from_utf8_lossy(&held).contains("available_commands_update"));
    assert_eq!(prompt_for_text(&mut agent, &session, "echo hi")?.0, "hi");
    Ok(())
}

#[test]
fn methods_can_fail_hang_or_need_authentication() -> Result<()> {
    let mut agent = start_agent(&[
        "--error-on",
        "initialize=-32099",
        "--hang-on",
        "logout",
        "--auth",
        "--delay",
        "session/new=1",
    ])?;
    let id = agent.start_request("initialize", json!({}))?;
    assert_eq!(agent.wait_response(id)?["error"]["code"], -32099);
    let hung = agent.start_request("logout", json!({}))?;
    let id = agent.start_request("session/new", json!({ "cwd": "/" }))?;
    assert_eq!(agent.wait_response(id)?["error"]["code"], -32000);
    agent.call_method("authenticate", json!({ "methodId": "token" }))?;
    agent.call_method("session/new", json!({ "cwd": "/" }))?;
    let answered = agent
        .received
        .iter()
        .filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    assert!(answered.filter(|message| message["id"] == hung).count() == 0);
    Ok(())
}

#[test]
fn modes_and_options_are_kept_and_told() -> Result<()> {
    let (mut agent, session) = open_scripted_agent(&[])?;
    agent.call_method("session/set_mode", json!({ "sessionId": session, "modeId": "auto" }))?;
    let params = json!({ "sessionId": session, "configId": "model", "value": "large" });
    let answer = agent.call_method("session/set_config_option", params)?;
    assert_eq!(answer["configOptions"][0]["currentValue"], "large");
    assert_eq!(prompt_for_text(&mut agent, &session, "mode")?.0, "mode=auto model=large cwd=/tmp");
    Ok(())
}

#[test]
fn settings_outlive_the_agent_when_kept_in_a_file() -> Result<()> {
    let folder = TempDir::new()?;
    let flags = [
        "--settings",
        folder.path().to_str().context("path")?,
        "--mode-option",
        "--models",
        "--first-mode",
        "auto",
    ];
    let (mut agent, session) = open_scripted_agent(&flags)?;
    let set = |of: &str, value: &str| json!({ "sessionId": session, of: value });
    assert_eq!(agent.call_method("session/set_mode", set("modeId", "ask"))?, json!({}));
    assert_eq!(agent.call_method("session/set_model", set("modelId", "large"))?, json!({}));
    drop(agent);
    let mut agent = start_agent(&flags)?;
    let loaded = agent.call_method(
        "session/load",
        json!({ "sessionId": session, "cwd": "/tmp", "mcpServers": [] }),
    )?;
    assert_eq!(loaded["modes"]["currentModeId"], "ask");
    assert_eq!(loaded["models"]["currentModelId"], "large");
    let values: Vec<&Value> = loaded["configOptions"]
        .as_array()
        .context("list")?
        .iter()
        .map(|o| &o["currentValue"])
        .collect();
    assert_eq!(values, ["large", "ask"]);
    Ok(())
}

#[test]
fn changes_are_reported_or_refused_as_the_flags_say() -> Result<()> {
    for (how, expected) in [("before", [true, false]), ("after", [false, true])] {
        let (mut agent, session) = open_scripted_agent(&["--report", how])?;
        let id = agent
            .start_request("session/set_mode", json!({ "sessionId": session, "modeId": "auto" }))?;
        let mut is_update = || -> Result<bool> {
            let line: Value = serde_json::from_slice(&agent.next_line()?.context("no line")?)?;
            assert!(
                line["id"] == id || line["params"]["update"]["currentModeId"] == "auto",
                "{line}"
            );
            Ok(line["id"].is_null())
        };
        assert_eq!([is_update()?, is_update()?], expected, "{how}");
    }
    let (mut agent, session) = open_scripted_agent(&["--refuse-same"])?;
    let id = agent
        .start_request("session/set_mode", json!({ "sessionId": session, "modeId": "ask" }))?;
    let error = agent.wait_response(id)?["error"].clone();
    assert_eq!(
        (&error["message"], &error["data"]),
        (&json!("already in that mode"), &json!({ "current": "ask" }))
    );
    Ok(())
}

#[test]
fn received_lines_are_recorded_as_they_came() -> Result<()> {
    let folder = TempDir::new()?;
    let path = folder.path().join("received");
    let mut agent = start_agent(&["--record", path.to_str().context("path")?])?;
    let odd = r#"{"jsonrpc":"2.0", "id":1.0,"method":"initialize" , "params":{"x":1e2}}"#;
    agent.send_line(odd.as_bytes())?;
    agent.next_line()?;
    assert_eq!(std::fs::read_to_string(&path)?, format!("{odd}\n"));
    Ok(())
}

#[test]
fn cancel_can_be_ignored() -> Result<()> {
    let (mut agent, session) = open_scripted_agent(&["--no-cancel"])?;
    let id = agent.start_prompt(&session, "wait; echo still there")?;
    agent.send_notification("session/cancel", json!({ "sessionId": session }))?;
    agent.send_notification("_go", json!({}))?;
    assert_eq!(agent.wait_response(id)?["result"]["stopReason"], "end_turn");
    Ok(())
}
