//! Sessions that another process loads.

use anyhow::Result;
use serde_json::{Value, json};

use crate::{Demo, list_kinds};

/// Returns the updates received between two positions, without state updates.
fn content_since(demo: &Demo, from: usize) -> Vec<Value> {
    let messages = demo.agent.received[from..]
        .iter()
        .filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let updates = messages.map(|message| message["params"]["update"].clone());
    let state = [
        "available_commands_update",
        "session_info_update",
        "usage_update",
        "config_option_update",
    ];
    updates
        .filter(|update| {
            update["sessionUpdate"].as_str().is_some_and(|kind| !state.contains(&kind))
        })
        .collect()
}

fn load_session(demo: &mut Demo, method: &str) -> Result<Value> {
    demo.agent
        .call_method(method, json!({ "sessionId": demo.session, "cwd": "/tmp", "mcpServers": [] }))
}

#[test]
fn load_in_a_new_process_replays_exactly_what_was_sent() -> Result<()> {
    let mut demo = Demo::start()?;
    for text in ["hello", "tool", "burst 300 40"] {
        demo.send_prompt(text)?;
    }
    let sent = content_since(&demo, 0);
    let mut demo = demo.restart()?;
    let from = demo.agent.received.len();
    let answer = load_session(&mut demo, "session/load")?;
    assert_eq!(answer["modes"]["currentModeId"], "ask");
    let replayed = content_since(&demo, from);
    let prompts: Vec<&str> = replayed
        .iter()
        .filter(|update| update["sessionUpdate"] == "user_message_chunk")
        .filter_map(|update| update["content"]["text"].as_str())
        .collect();
    assert_eq!(prompts, ["hello", "tool", "burst 300 40"]);
    let answers: Vec<&Value> = replayed
        .iter()
        .filter(|update| update["sessionUpdate"] != "user_message_chunk")
        .collect();
    assert_eq!(answers, sent.iter().collect::<Vec<_>>());
    assert_eq!(demo.send_prompt("echo on we go")?.0, "end_turn");
    Ok(())
}

#[test]
fn resume_replays_nothing_and_keeps_mode_options_and_title() -> Result<()> {
    let mut demo = Demo::start()?;
    demo.send_prompt("the first prompt")?;
    demo.agent
        .call_method("session/set_mode", json!({ "sessionId": demo.session, "modeId": "auto" }))?;
    let mut demo = demo.restart()?;
    let from = demo.agent.received.len();
    let answer = load_session(&mut demo, "session/resume")?;
    assert_eq!(answer["modes"]["currentModeId"], "auto");
    assert_eq!(answer["configOptions"][0]["currentValue"], "instant");
    assert_eq!(content_since(&demo, from), Vec::<Value>::new());
    let (_, updates) = demo.send_prompt("hello")?;
    assert!(!list_kinds(&updates).contains(&"session_info_update"));
    let listed = demo.agent.call_method("session/list", json!({ "cwd": "/tmp" }))?;
    let expected =
        json!([{ "sessionId": demo.session, "cwd": "/tmp", "title": "the first prompt" }]);
    assert_eq!(listed["sessions"], expected);
    Ok(())
}

#[test]
fn ids_of_messages_and_calls_stay_unique_over_a_restart() -> Result<()> {
    let mut demo = Demo::start()?;
    demo.send_prompt("tool")?;
    let mut demo = demo.restart()?;
    load_session(&mut demo, "session/load")?;
    demo.send_prompt("tool")?;
    let all = content_since(&demo, 0);
    let calls: Vec<&Value> = all
        .iter()
        .filter(|update| update["sessionUpdate"] == "tool_call")
        .map(|update| &update["toolCallId"])
        .collect();
    assert_eq!(calls, ["call-1-1", "call-2-1"]);
    Ok(())
}

#[test]
fn session_works_without_a_writable_directory() -> Result<()> {
    let demo = Demo::start()?;
    let blocked = demo.state.path().join("a-file");
    std::fs::write(&blocked, "")?;
    let mut agent = crate::start_agent(&blocked.join("below"))?;
    let session = agent.open_session()?;
    assert_eq!(agent.send_prompt(&session, "echo hi")?.0["result"]["stopReason"], "end_turn");
    Ok(())
}
