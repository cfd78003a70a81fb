//! The state machine without any IO: lines in, lines out.

use serde_json::{Value, json};

use super::*;
use crate::stdio_pump::MAX_WAITING_LINES;

const INITIALIZE: &str =
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"clientInfo":{"name":"x"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

fn texts(lines: &[Bytes]) -> Vec<&str> {
    lines.iter().map(|line| std::str::from_utf8(line).unwrap()).collect()
}

fn to_value(line: &Bytes) -> Value {
    serde_json::from_slice(line).unwrap()
}

fn tool_call(id: u64, tool: &str, arguments: &Value) -> Bytes {
    let params = json!({ "name": tool, "arguments": arguments });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
        .to_string()
        .into()
}

/// A bridge whose client has made its handshake.
fn initialized() -> McpBridge {
    let mut bridge = McpBridge::new("me".to_owned());
    assert_eq!(bridge.handle_connected(()), BridgeStep::default());
    assert_eq!(texts(&bridge.handle_line(INITIALIZE.into()).to_host), [INITIALIZE]);
    let answer = r#"{"jsonrpc":"2.0","id":0,"result":{"serverInfo":{}}}"#;
    assert_eq!(texts(&bridge.handle_host_frame(answer.into()).to_client), [answer]);
    assert_eq!(texts(&bridge.handle_line(INITIALIZED.into()).to_host), [INITIALIZED]);
    assert!(!bridge.awaits_answers());
    bridge
}

/// Loses the connection, connects again and has the host answer the handshake. Returns the lines
/// after it.
fn reconnect(bridge: &mut McpBridge) -> BridgeStep {
    bridge.handle_disconnected(DisconnectCause::ConnectionLost);
    let hello = bridge.handle_connected(());
    let [line] = hello.to_host.as_slice() else { panic!("{hello:?}") };
    let mut hello = to_value(line);
    let id = hello["id"].take();
    assert_eq!(hello["params"]["clientInfo"]["name"], "x");
    bridge.handle_host_frame(json!({ "jsonrpc": "2.0", "id": id, "result": {} }).to_string().into())
}

#[test]
fn handshake_is_repeated_and_its_answer_kept_from_the_client() {
    let mut bridge = initialized();
    assert_eq!(texts(&reconnect(&mut bridge).to_host), [INITIALIZED]);
    let step = reconnect(&mut bridge);
    assert_eq!(
        (texts(&step.to_host), step.to_client),
        (vec![INITIALIZED], vec![]),
        "again, with another id"
    );
}

#[test]
fn unanswered_initialize_is_sent_as_it_was() {
    let mut bridge = McpBridge::new("me".to_owned());
    bridge.handle_connected(());
    bridge.handle_line(INITIALIZE.into());
    bridge.handle_disconnected(DisconnectCause::ConnectionLost);
    assert_eq!(texts(&bridge.handle_connected(()).to_host), [INITIALIZE]);
    assert_eq!(
        bridge
            .handle_host_frame(r#"{"jsonrpc":"2.0","id":0,"result":{}}"#.into())
            .to_client
            .len(),
        1
    );
}

#[test]
fn reading_request_is_repeated_once_and_an_unsafe_one_is_refused() {
    let mut bridge = initialized();
    let wait = tool_call(1, "wait_agent_session", &json!({ "sessionId": "s" }));
    let start = tool_call(2, "fork_agent_session", &json!({ "sessionId": "s" }));
    let list: Bytes = r#"{"jsonrpc":"2.0","id":"three","method":"tools/list"}"#.into();
    for line in [&wait, &start, &list] {
        assert_eq!(bridge.handle_line(line.clone()).to_host, std::slice::from_ref(line));
    }
    let step = reconnect(&mut bridge);
    assert_eq!(step.to_host, [INITIALIZED.into(), wait, list]);
    let [refused] = step.to_client.as_slice() else { panic!("{step:?}") };
    let refused = to_value(refused);
    assert_eq!((&refused["id"], &refused["result"]["isError"]), (&json!(2), &json!(true)));
    let problem: Value =
        serde_json::from_str(refused["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!((&problem["code"], &problem["status"]), (&json!("host_restarted"), &json!(503)));

    let step = reconnect(&mut bridge);
    assert_eq!(texts(&step.to_host), [INITIALIZED], "a request may be what ended the connection");
    assert_eq!(to_value(&step.to_client[0])["result"]["isError"], true);
    assert_eq!(to_value(&step.to_client[1])["error"]["data"]["reason"], "host_restarted");
    assert!(!bridge.awaits_answers());
}

#[test]
fn keyed_call_gets_a_key_and_is_repeated_with_it() {
    let mut bridge = initialized();
    let sent = bridge.handle_line(tool_call(
        1,
        "prompt_agent_session",
        &json!({ "sessionId": "s", "prompt": "x" }),
    ));
    assert_eq!(to_value(&sent.to_host[0])["params"]["arguments"]["idempotencyKey"], "me-1");
    let own = tool_call(2, "agent_prompt", &json!({ "sessionId": "s", "idempotencyKey": "mine" }));
    assert_eq!(bridge.handle_line(own.clone()).to_host, std::slice::from_ref(&own));
    let start =
        bridge.handle_line(tool_call(3, "start_agent_session", &json!({ "adapter": "demo" })));
    assert_eq!(to_value(&start.to_host[0])["params"]["arguments"]["idempotencyKey"], "me-2");
    let step = reconnect(&mut bridge);
    assert_eq!(step.to_host[1..], [sent.to_host[0].clone(), own, start.to_host[0].clone()]);
    assert!(step.to_client.is_empty(), "{step:?}");
}

#[test]
fn answered_and_cancelled_requests_are_not_repeated() {
    let mut bridge = initialized();
    for id in 1..=2 {
        bridge.handle_line(tool_call(id, "wait_agent_session", &json!({ "sessionId": "s" })));
    }
    let progress =
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1}}"#;
    assert_eq!(texts(&bridge.handle_host_frame(progress.into()).to_client), [progress]);
    bridge.handle_host_frame(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#.into());
    bridge.handle_line(
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#.into(),
    );
    assert_eq!(texts(&reconnect(&mut bridge).to_host), [INITIALIZED]);
}

#[test]
fn lines_wait_while_there_is_no_host() {
    let mut bridge = initialized();
    bridge.handle_disconnected(DisconnectCause::ConnectionLost);
    let list: Bytes = r#"{"jsonrpc":"2.0","id":5,"method":"tools/list"}"#.into();
    assert_eq!(bridge.handle_line(list.clone()), BridgeStep::default());
    assert!(bridge.awaits_answers() && bridge.has_room());
    assert_eq!(reconnect(&mut bridge).to_host, [INITIALIZED.into(), list.clone()]);
    bridge.handle_disconnected(DisconnectCause::ConnectionLost);
    for _ in 0..MAX_WAITING_LINES {
        bridge.handle_line(INITIALIZED.into());
    }
    assert!(!bridge.has_room());
}

/// A client that leaves must not be kept waiting for a host, only to deliver its notifications.
#[test]
fn only_waiting_requests_count_as_open() {
    let mut bridge = initialized();
    bridge.handle_disconnected(DisconnectCause::ConnectionLost);
    bridge.handle_line(INITIALIZED.into());
    bridge.handle_line(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#.into());
    assert!(!bridge.awaits_answers());
    bridge.handle_line(r#"{"jsonrpc":"2.0","id":5,"method":"tools/list"}"#.into());
    assert!(bridge.awaits_answers());
}

#[test]
fn lines_that_are_no_messages_are_left_to_the_host() {
    let mut bridge = initialized();
    for line in ["{", "7", r#"{"jsonrpc":"2.0","id":1,"result":{}}"#] {
        assert_eq!(texts(&bridge.handle_line(line.into()).to_host), [line]);
    }
    let refused = bridge
        .handle_oversized_line(br#"{"jsonrpc":"2.0","id":9,"method":"tools/call","params":"#, 10);
    assert_eq!(to_value(&refused.to_client[0])["id"], 9);
}
