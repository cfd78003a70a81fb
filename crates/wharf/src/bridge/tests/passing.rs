//! While the host is there: everything passes as it is, but for what the bridge itself has asked
//! for.

use bytes::Bytes;

use super::{S, Stage, seen, update};
use crate::bridge::AcpHostFacts;
use crate::stdio_pump::{DisconnectCause, MAX_WAITING_LINES, StdioBridge};

#[test]
fn lines_and_frames_pass_byte_for_byte() {
    let mut stage = Stage::opened();
    let lines = [
        r#"{ "method":"session/cancel","params":{"sessionId":"sess_1"} ,"jsonrpc":"2.0"}"#,
        r#"{"jsonrpc":"2.0","id":1.50e2,"method":"session/set_mode","params":{"sessionId":"sess_1","modeId":"é"}}"#,
        r#"{"jsonrpc":"2.0","id":"x","method":"session/list"}"#,
        "[1,2]",
        "not JSON",
    ];
    for line in lines {
        let out = stage.line(line);
        assert_eq!((out.client.len(), out.host), (0, vec![line.to_owned()]));
    }
    let frames = [
        r#"{"jsonrpc":"2.0", "id":1.50e2,"result":{"a":1.10}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"not JSON"}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","method":"_vendor/news","params":[1, 2]}"#.to_owned(),
        update("", r#""sessionUpdate":"turn_complete","type":"turn_complete""#),
    ];
    for frame in frames {
        let out = stage.frame(&frame);
        assert_eq!((out.client, out.host.len()), (vec![frame], 0));
    }
}

#[test]
fn event_ids_are_asked_for_and_taken_out_again() {
    let mut stage = Stage::new();
    let asked = stage.line(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"x":1.0}}"#);
    assert_eq!(
        asked.host,
        [
            r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"_meta":{"wharf":{"clientId":"me","eventIds":true}},"x":1.0}}"#
        ]
    );
    assert_eq!(
        stage.chunk("a").client,
        [update("", r#""sessionUpdate":"agent_message_chunk","content":"a""#)]
    );
}

#[test]
fn a_client_that_can_log_in_in_a_terminal_has_this_program_to_run_there() {
    let hello = |more: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{{more}"clientCapabilities":{{"auth":{{"terminal":true}}}}}}}}"#
        )
    };
    let told = Stage::new().line(&hello(""));
    assert_eq!(
        told.host,
        [hello(r#""_meta":{"wharf":{"terminalAuth":true,"clientId":"me","eventIds":true}},"#)]
    );
}

#[test]
fn a_client_that_asks_for_event_ids_keeps_them() {
    let mut stage = Stage::new();
    let line = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"_meta":{"wharf":{"clientId":"me","eventIds":true}}}}"#;
    assert_eq!(stage.line(line).host, [line]);
    assert!(stage.chunk("a").client[0].contains(r#""eventId":"3-1""#));
}

#[test]
fn a_prompt_gets_a_key_unless_it_has_one() {
    let mut stage = Stage::opened();
    assert_eq!(
        stage.prompt(2, "a").to_host(0)["params"]["_meta"]["wharf"]["idempotencyKey"],
        "me-1"
    );
    assert_eq!(
        stage.prompt(3, "a").to_host(0)["params"]["_meta"]["wharf"]["idempotencyKey"],
        "me-2"
    );
    let line = format!(
        r#"{{"jsonrpc":"2.0","id":4,"method":"session/prompt","params":{{"sessionId":"{S}","prompt":[],"_meta":{{"wharf":{{"idempotencyKey":"k"}}}}}}}}"#
    );
    assert_eq!(stage.line(&line).host, [line]);
}

#[test]
fn session_new_resumes_the_session_of_the_option() {
    let mut stage = Stage::with(Some(S));
    let sent =
        stage.line(r#"{"jsonrpc":"2.0","id":"n","method":"session/new","params":{"cwd":"/é","mcpServers":[{}]}}"#);
    assert_eq!(
        sent.host,
        [
            r#"{"jsonrpc":"2.0","id":"n","method":"session/resume","params":{"sessionId":"sess_1","cwd":"/é","mcpServers":[]}}"#
        ]
    );
    let answer = stage.frame(r#"{"jsonrpc":"2.0","id":"n","result":{"modes":{"a":1.0}}}"#);
    assert_eq!(
        answer.client,
        [r#"{"jsonrpc":"2.0","id":"n","result":{"sessionId":"sess_1","modes":{"a":1.0}}}"#]
    );
}

#[test]
fn lines_that_a_text_frame_cannot_hold_are_answered_by_the_bridge() {
    let mut stage = Stage::opened();
    let out = seen(stage.bridge.handle_line(Bytes::from_static(b"{\"x\":\"\xff\"}")));
    assert_eq!(out.to_client(0)["error"]["code"], -32700);
    let head = br#"{"jsonrpc":"2.0","id":"mine","method":"session/prompt","params":{"prompt":[{"text":"aaa"#;
    let refused = seen(stage.bridge.handle_oversized_line(head, 7)).to_client(0);
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&"mine".into(), &(-32600).into()));
}

#[test]
fn lines_wait_for_the_host_in_order_and_up_to_a_limit() {
    let mut stage = Stage::new();
    stage.lose();
    for number in 0..MAX_WAITING_LINES {
        assert!(stage.bridge.has_room());
        assert!(
            stage
                .line(&format!(r#"{{"jsonrpc":"2.0","method":"_n","params":{number}}}"#))
                .nothing()
        );
    }
    assert!(!stage.bridge.has_room());
    let sent = stage.connect().host;
    assert_eq!(sent.len(), MAX_WAITING_LINES);
    assert!(
        sent.iter()
            .enumerate()
            .all(|(at, line)| line.ends_with(&format!("\"params\":{at}}}")))
    );
    assert!(stage.bridge.has_room());
}

#[test]
fn a_message_over_the_limit_of_the_host_is_not_sent_again() {
    let mut stage = Stage::opened();
    stage.line(r#"{"jsonrpc":"2.0","id":7,"method":"session/list"}"#);
    stage.prompt(8, "too large");
    let out = seen(stage.bridge.handle_disconnected(DisconnectCause::MessageTooLarge));
    assert_eq!(
        (out.to_client(0)["id"].as_u64(), out.to_client(0)["error"]["code"].as_i64()),
        (Some(8), Some(-32600))
    );
}

#[test]
fn the_environment_goes_with_initialize_and_with_nothing_else() {
    let mut stage = Stage::new();
    let environment = [("PATH".to_owned(), "/a \"b\"".to_owned())].into();
    stage
        .bridge
        .handle_connected(AcpHostFacts { environment, ..AcpHostFacts::default() });
    let sent = stage
        .line(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#);
    let wharf = &sent.to_host(0)["params"]["_meta"]["wharf"];
    assert_eq!(
        *wharf,
        serde_json::json!({ "clientId": "me", "env": { "PATH": "/a \"b\"" }, "eventIds": true })
    );
    stage.frame(r#"{"jsonrpc":"2.0","id":0,"result":{}}"#);
    let new =
        r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}"#;
    assert_eq!(stage.line(new).host, [new]);
}
