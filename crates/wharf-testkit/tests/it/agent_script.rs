//! Commands in prompts of the scripted agent.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::agent_pipe::{AgentPipe, chunk_text};

use crate::{open_scripted_agent, prompt_for_text};

/// Answers the agent's next request of this method.
fn answer_request(agent: &mut AgentPipe, method: &str, result: Value) -> Result<Value> {
    let ask = agent.expect(method, |message| message["method"] == method)?;
    agent.send_result(&ask["id"], result)?;
    Ok(ask)
}

fn allow_once() -> Value {
    json!({ "outcome": { "outcome": "selected", "optionId": "allow_once" } })
}

#[test]
fn commands_run_in_order() -> Result<()> {
    let (mut agent, session) = open_scripted_agent(&[])?;
    let (text, reason) = prompt_for_text(
        &mut agent,
        &session,
        "echo one; plan ;echo  two;stop max_tokens; echo three",
    )?;
    assert_eq!((text.as_str(), reason), ("onetwo", json!("max_tokens")));
    Ok(())
}

#[test]
fn streams_are_numbered_and_of_the_asked_size() -> Result<()> {
    let (mut agent, session) = open_scripted_agent(&[])?;
    for command in ["stream 500 60", "burst 5000 60", "burst 500 60 flush"] {
        let (_, messages) = agent.send_prompt(&session, command)?;
        for (index, message) in messages.iter().enumerate() {
            let text = chunk_text(message);
            assert!(
                text.starts_with(&format!("{index} ")) && text.len() == 60,
                "{command}: {text:?}"
            );
        }
    }
    Ok(())
}

#[test]
fn ticks_carry_the_time_they_were_sent_at() -> Result<()> {
    let (mut agent, session) = open_scripted_agent(&[])?;
    let (_, messages) = agent.send_prompt(&session, "tick 3 500")?;
    let times: Vec<u128> = messages
        .iter()
        .filter_map(|message| chunk_text(message).split(' ').nth(2)?.parse().ok())
        .collect();
    assert_eq!(times.len(), 3);
    assert!(times[2] - times[0] >= 900_000, "{times:?}");
    Ok(())
}

#[test]
fn a_permission_tells_what_was_chosen() -> Result<()> {
    let (mut agent, session) = open_scripted_agent(&[])?;
    for (command, id) in [("ask", json!(1)), ("id0", json!(0)), ("stringid", json!("question-é-1"))]
    {
        let prompt = agent.start_prompt(&session, command)?;
        let ask = answer_request(&mut agent, "session/request_permission", allow_once())?;
        assert_eq!(ask["id"], id);
        agent.expect("choice", |message| chunk_text(message) == "chosen: allow_once")?;
        agent.wait_response(prompt)?;
    }
    Ok(())
}

#[test]
fn two_permissions_can_be_answered_in_any_order() -> Result<()> {
    let (mut agent, session) = open_scripted_agent(&[])?;
    agent.start_prompt(&session, "ask2")?;
    agent.expect("second", |message| message["id"] == "right")?;
    agent.send_result(&json!("right"), allow_once())?;
    agent.send_result(&json!("left"), json!({ "outcome": { "outcome": "cancelled" } }))?;
    agent.expect("left", |message| chunk_text(message) == "left chosen: cancelled")?;
    agent.expect("right", |message| chunk_text(message) == "right chosen: allow_once")?;
    Ok(())
}

#[test]
fn a_withdrawn_permission_tells_the_error() -> Result<()> {
    let (mut agent, session) = open_scripted_agent(&[])?;
    agent.start_prompt(&session, "withdraw")?;
    agent.expect("withdrawal", |message| message["params"]["requestId"] == "to-be-withdrawn")?;
    agent.send_line(
        br#"{"jsonrpc":"2.0","id":"to-be-withdrawn","error":{"code":-32800,"message":"gone"}}"#,
    )?;
    agent.expect("report", |message| {
        chunk_text(message).starts_with("failed: ") && chunk_text(message).contains("-32800")
    })?;
    Ok(())
}

#[test]
fn files_terminals_and_elicitations_are_asked_for() -> Result<()> {
    let (mut agent, session) = open_scripted_agent(&[])?;
    agent.start_prompt(&session, "fs read /a/b; elicit; terminal echo hi")?;
    let ask = answer_request(&mut agent, "fs/read_text_file", json!({ "content": "text" }))?;
    assert_eq!(ask["params"]["path"], "/a/b");
    agent.expect("file", |message| chunk_text(message) == r#"answered: {"content":"text"}"#)?;
    answer_request(&mut agent, "elicitation/create", json!({ "action": "decline" }))?;
    answer_request(&mut agent, "terminal/create", json!({ "terminalId": "t1" }))?;
    for method in ["terminal/wait_for_exit", "terminal/output", "terminal/release"] {
        assert_eq!(answer_request(&mut agent, method, json!({}))?["params"]["terminalId"], "t1");
    }
    agent.expect("end", |message| message["result"]["stopReason"] == "end_turn")?;
    Ok(())
}

#[test]
fn bad_output_is_bad_and_the_agent_goes_on() -> Result<()> {
    let (mut agent, session) = open_scripted_agent(&[])?;
    let from = agent.received.len();
    let (text, reason) = prompt_for_text(
        &mut agent,
        &session,
        "malformed; binary; flood 3; foreign; unknown-update; oversized 100000; echo ok",
    )?;
    assert!(text.ends_with("ok"));
    assert_eq!(reason, "end_turn");
    let lines = &agent.received[from..];
    let bad = lines
        .iter()
        .filter(|line| serde_json::from_slice::<Value>(line).is_err())
        .count();
    assert_eq!(bad, 5);
    assert!(lines.iter().any(|line| std::str::from_utf8(line).is_err()));
    assert!(lines.iter().any(|line| line.len() == 100_000));
    Ok(())
}

#[test]
fn a_line_that_never_ends_has_no_line_break() -> Result<()> {
    let (mut agent, session) = open_scripted_agent(&[])?;
    agent.start_prompt(&session, "noline 100000; crash 4")?;
    assert_eq!(agent.next_line()?.map(|line| line.len()), Some(100_000));
    assert_eq!(agent.wait_exit()?.code(), Some(4));
    Ok(())
}

#[test]
fn raw_output_and_echoes_are_byte_for_byte() -> Result<()> {
    let (mut agent, session) = open_scripted_agent(&[])?;
    let update = r#"{"sessionUpdate":"x",  "n":1.00, "e":"\u00e9;\/", "n":2}"#;
    agent.send_prompt(&session, &format!("rawupdate {update}"))?;
    let held = agent
        .received
        .iter()
        .any(|line| line.ends_with(format!("{update}}}}}").as_bytes()));
    assert!(held);
    agent.send_line(br#"{"jsonrpc":"2.0","id":99999999999999999999,"method":"_echo","params":{"a":1.0,  "a":2}}"#)?;
    let line = agent.next_line()?.context("no echo")?;
    let expected = r#"{"jsonrpc":"2.0","id":99999999999999999999,"result":{"a":1.0,  "a":2}}"#;
    assert_eq!(String::from_utf8_lossy(&line), expected);
    Ok(())
}

#[test]
fn late_updates_follow_the_response() -> Result<()> {
    let (mut agent, session) = open_scripted_agent(&[])?;
    let (text, _) = prompt_for_text(&mut agent, &session, "late afterwards; echo before")?;
    assert_eq!(text, "before");
    agent.expect("late update", |message| chunk_text(message) == "afterwards")?;
    Ok(())
}

#[test]
fn hang_waits_for_cancel_and_wait_for_go() -> Result<()> {
    let (mut agent, session) = open_scripted_agent(&[])?;
    let id = agent.start_prompt(&session, "wait; echo gone; hang")?;
    agent.send_notification("_go", json!({}))?;
    agent.expect("go", |message| chunk_text(message) == "gone")?;
    agent.send_notification("session/cancel", json!({ "sessionId": session }))?;
    assert_eq!(agent.wait_response(id)?["result"]["stopReason"], "cancelled");
    let id = agent.start_prompt(&session, "error -32001")?;
    assert_eq!(agent.wait_response(id)?["error"]["code"], -32001);
    Ok(())
}
