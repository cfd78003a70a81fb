//! Prompts that need no answer of the user.

use anyhow::Result;
use serde_json::json;

use crate::{Demo, joined_text, list_kinds};

#[test]
fn initialize_names_the_agent_and_what_it_can_do() -> Result<()> {
    let mut demo = Demo::start()?;
    let answer = demo.agent.call_method("initialize", json!({ "protocolVersion": 2 }))?;
    assert_eq!(answer["protocolVersion"], 1);
    assert_eq!(answer["agentInfo"]["name"], "wharf-demo");
    assert_eq!(answer["agentCapabilities"]["loadSession"], true);
    assert_eq!(
        answer["agentCapabilities"]["sessionCapabilities"],
        json!({ "close": {}, "delete": {}, "fork": {}, "list": {}, "resume": {} })
    );
    Ok(())
}

#[test]
fn the_commands_are_offered_after_a_new_session() -> Result<()> {
    let demo = Demo::start()?;
    let offered = demo
        .agent
        .received
        .iter()
        .any(|line| line.windows(25).any(|part| part == b"available_commands_update"));
    assert!(offered);
    Ok(())
}

#[test]
fn a_plain_prompt_gets_a_title_a_thought_a_plan_text_and_usage() -> Result<()> {
    let mut demo = Demo::start()?;
    let (reason, updates) = demo.send_prompt("good morning")?;
    assert_eq!(reason, "end_turn");
    let expected = [
        "session_info_update",
        "agent_thought_chunk",
        "plan",
        "agent_message_chunk",
        "usage_update",
    ];
    assert_eq!(list_kinds(&updates), expected);
    assert!(joined_text(&updates).contains("“good morning”"));
    assert!(joined_text(&updates).contains("`help`"));
    assert_eq!(updates[0]["title"], "good morning");
    Ok(())
}

#[test]
fn the_same_prompt_gets_the_same_answer() -> Result<()> {
    let (first, second) = (Demo::start()?.send_prompt("hi")?, Demo::start()?.send_prompt("hi")?);
    assert_eq!(first, second);
    Ok(())
}

#[test]
fn help_lists_every_command_that_is_offered() -> Result<()> {
    let mut demo = Demo::start()?;
    let (_, updates) = demo.send_prompt("/help")?;
    let help = joined_text(&updates);
    for name in [
        "tour", "burst", "tick", "hang", "die", "ask", "edit", "plan", "think", "tool", "echo",
        "error", "slow",
    ] {
        assert!(help.contains(&format!("- `{name}")), "{name} is missing in: {help}");
    }
    Ok(())
}

#[test]
fn a_burst_is_complete_and_in_order() -> Result<()> {
    let mut demo = Demo::start()?;
    let (reason, updates) = demo.send_prompt("burst 20000 50")?;
    assert_eq!(reason, "end_turn");
    let chunks: Vec<&str> =
        updates.iter().filter_map(|update| update["content"]["text"].as_str()).collect();
    assert_eq!(chunks.len(), 20_000);
    for (index, chunk) in chunks.iter().enumerate() {
        assert!(chunk.starts_with(&format!("{index} ")) && chunk.len() == 50, "{index}: {chunk:?}");
    }
    Ok(())
}

#[test]
fn ticks_plans_tools_thoughts_and_echo_do_what_they_say() -> Result<()> {
    let mut demo = Demo::start()?;
    assert_eq!(
        joined_text(&demo.send_prompt("tick 3 1")?.1),
        "tick 1 of 3\ntick 2 of 3\ntick 3 of 3\n"
    );
    assert_eq!(joined_text(&demo.send_prompt("echo a  b; c")?.1), "a  b; c");
    assert_eq!(
        list_kinds(&demo.send_prompt("plan")?.1),
        ["plan", "agent_message_chunk", "usage_update"]
    );
    assert_eq!(
        list_kinds(&demo.send_prompt("think")?.1),
        ["agent_thought_chunk", "agent_message_chunk", "usage_update"]
    );
    let (_, updates) = demo.send_prompt("tool")?;
    let states: Vec<_> = updates.iter().filter_map(|update| update["status"].as_str()).collect();
    assert_eq!(states, ["pending", "in_progress", "completed"]);
    Ok(())
}

#[test]
fn hidden_thoughts_are_not_sent() -> Result<()> {
    let mut demo = Demo::start()?;
    let params = json!({ "sessionId": demo.session, "configId": "thoughts", "value": "hide" });
    let answer = demo.agent.call_method("session/set_config_option", params)?;
    assert_eq!(answer["configOptions"].as_array().map(Vec::len), Some(2));
    assert_eq!(
        list_kinds(&demo.send_prompt("think")?.1),
        ["session_info_update", "agent_message_chunk", "usage_update"]
    );
    Ok(())
}

#[test]
fn talk_that_only_begins_like_a_command_is_talk() -> Result<()> {
    let mut demo = Demo::start()?;
    for text in ["hang on a moment", "die hard is a film", "plan my week", "ask me anything"] {
        let (reason, updates) = demo.send_prompt(text)?;
        assert_eq!(reason, "end_turn");
        assert!(joined_text(&updates).contains(&format!("“{text}”")), "{text}");
    }
    Ok(())
}
