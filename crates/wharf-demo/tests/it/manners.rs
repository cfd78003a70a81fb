//! Errors, malformed input and the end of the agent.

use anyhow::Result;
use serde_json::{Value, json};

use crate::Demo;

/// Returns the error code of a request that must fail.
fn error_code(demo: &mut Demo, method: &str, params: Value) -> Result<Value> {
    let id = demo.agent.start_request(method, params)?;
    Ok(demo.agent.wait_response(id)?["error"]["code"].clone())
}

#[test]
fn wrong_requests_get_their_error_codes() -> Result<()> {
    let mut demo = Demo::start()?;
    let session = demo.session.clone();
    assert_eq!(error_code(&mut demo, "session/fly", json!({}))?, -32601);
    assert_eq!(error_code(&mut demo, "session/new", json!({}))?, -32602);
    assert_eq!(error_code(&mut demo, "session/prompt", json!({ "sessionId": "nobody" }))?, -32002);
    assert_eq!(error_code(&mut demo, "session/load", json!({ "sessionId": "../demo-1" }))?, -32002);
    assert_eq!(
        error_code(
            &mut demo,
            "session/set_mode",
            json!({ "sessionId": session, "modeId": "fast" })
        )?,
        -32602
    );
    let option = json!({ "sessionId": session, "configId": "pace", "value": "frantic" });
    assert_eq!(error_code(&mut demo, "session/set_config_option", option)?, -32602);
    let prompt = json!({ "sessionId": session, "prompt": [{ "type": "text", "text": "error" }] });
    assert_eq!(error_code(&mut demo, "session/prompt", prompt)?, -32603);
    Ok(())
}

#[test]
fn malformed_input_is_answered_and_the_agent_goes_on() -> Result<()> {
    let mut demo = Demo::start()?;
    demo.agent.send_line(b"{ not json")?;
    demo.agent.expect("parse error", |message| {
        message["error"]["code"] == -32700 && message["id"].is_null()
    })?;
    demo.agent.send_line(b"[]")?;
    demo.agent.expect("refusal", |message| message["error"]["code"] == -32600)?;
    demo.agent.send_line(b"")?;
    demo.agent.send_notification("session/unheard_of", json!({}))?;
    demo.agent.send_line(br#"{"jsonrpc":"2.0","id":77,"result":{}}"#)?;
    assert_eq!(demo.send_prompt("echo still here")?.0, "end_turn");
    Ok(())
}

#[test]
fn a_second_prompt_is_refused_while_one_runs_but_other_sessions_go_on() -> Result<()> {
    let mut demo = Demo::start()?;
    let hanging = demo.start_prompt("hang")?;
    let second = demo.start_prompt("hello")?;
    let refused = demo.agent.wait_response(second)?;
    assert_eq!(refused["error"]["code"], -32600);
    assert_eq!(refused["error"]["message"], "a prompt is already running in this session");
    let other = demo
        .agent
        .call_method("session/new", json!({ "cwd": "/tmp", "mcpServers": [] }))?;
    let other = other["sessionId"].as_str().unwrap_or_default().to_owned();
    assert_eq!(demo.agent.send_prompt(&other, "echo hi")?.0["result"]["stopReason"], "end_turn");
    demo.cancel_turn()?;
    assert_eq!(demo.agent.wait_response(hanging)?["result"]["stopReason"], "cancelled");
    assert_eq!(demo.send_prompt("echo free again")?.0, "end_turn");
    Ok(())
}

#[test]
fn die_exits_with_its_code() -> Result<()> {
    let mut demo = Demo::start()?;
    demo.start_prompt("die 7")?;
    assert_eq!(demo.agent.wait_exit()?.code(), Some(7));
    Ok(())
}

#[test]
fn the_end_of_the_input_ends_the_agent_even_in_a_hard_hang() -> Result<()> {
    let mut demo = Demo::start()?;
    demo.start_prompt("hang hard")?;
    demo.agent.close_stdin();
    assert_eq!(demo.agent.wait_exit()?.code(), Some(0));
    Ok(())
}

#[test]
fn closing_a_session_cancels_its_turn_and_forgets_it() -> Result<()> {
    let mut demo = Demo::start()?;
    let id = demo.start_prompt("hang")?;
    let close = demo
        .agent
        .start_request("session/close", json!({ "sessionId": demo.session }))?;
    let ends = [demo
        .agent
        .expect("an end", |message| message["id"] == id || message["id"] == close)?];
    let other = if ends[0]["id"] == id { close } else { id };
    demo.agent.wait_response(other)?;
    let again = demo.start_prompt("hello")?;
    assert_eq!(demo.agent.wait_response(again)?["error"]["code"], -32002);
    Ok(())
}
