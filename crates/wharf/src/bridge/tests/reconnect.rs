//! The host goes and comes back: nothing is missing, nothing comes twice.

use serde_json::{Value, json};

use super::{S, Stage, update};

fn methods(frames: &[String]) -> Vec<String> {
    let method = |frame: &String| {
        serde_json::from_str::<Value>(frame).unwrap()["method"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    frames.iter().map(method).collect()
}

#[test]
fn sessions_are_attached_after_the_last_event_and_the_client_sees_nothing_of_it() {
    let mut stage = Stage::opened();
    stage.chunk("a");
    stage.chunk("b");
    assert!(stage.lose().nothing());
    stage.host = 2;
    let greeting = stage.connect();
    assert_eq!(methods(&greeting.host), ["initialize"]);
    assert_eq!(greeting.to_host(0)["params"]["_meta"]["wharf"]["eventIds"], true);
    assert_eq!(greeting.to_host(0)["id"], "wharf-bridge-1");
    let attach = stage.frame(r#"{"jsonrpc":"2.0","id":"wharf-bridge-1","result":{}}"#);
    assert!(attach.client.is_empty());
    let params = &attach.to_host(0)["params"];
    assert_eq!(
        (params["historyPolicy"].as_str(), params["afterEventId"].as_str()),
        (Some("after_event"), Some("3-2"))
    );
    assert_eq!(params["sessionId"], S);
    assert!(stage.attached(&attach).nothing());
    assert_eq!(stage.chunk("c").client.len(), 1);
}

#[test]
fn a_session_of_which_nothing_was_seen_is_shown_from_its_beginning() {
    let mut stage = Stage::opened();
    stage.prompt(2, "hello");
    let attach = stage.restart();
    let params = &attach.to_host(0)["params"];
    assert_eq!(
        (params["historyPolicy"].as_str(), params["historyDelivery"].as_str()),
        (Some("full"), Some("stream"))
    );
    stage.attached(&attach);
    // The client knows its own prompt; that of another it does not.
    let prompt = |text: &str| {
        let content = format!(r#"{{"type":"text","text":"{text}"}}"#);
        let body = format!(r#""sessionUpdate":"user_message_chunk","content":{content}"#);
        (update(r#""_meta":{"wharf":{"eventId":"3-1"}},"#, &body), update("", &body))
    };
    assert!(stage.frame(&prompt("hello").0).nothing());
    assert_eq!(stage.frame(&prompt("goodbye").0).client, [prompt("goodbye").1]);
}

#[test]
fn a_joined_session_of_which_nothing_was_seen_goes_on_from_now() {
    let mut stage = Stage::opened();
    stage.line(
        r#"{"jsonrpc":"2.0","id":2,"method":"session/close","params":{"sessionId":"sess_1"}}"#,
    );
    stage.frame(r#"{"jsonrpc":"2.0","id":2,"result":{}}"#);
    stage.line(
        r#"{"jsonrpc":"2.0","id":3,"method":"session/resume","params":{"sessionId":"sess_2"}}"#,
    );
    stage.frame(r#"{"jsonrpc":"2.0","id":3,"result":{}}"#);
    let attach = stage.restart();
    assert_eq!(attach.host.len(), 1, "the closed one is not attached");
    let meta = json!({ "wharf": { "multiClientUpdates": false, "serves": true } });
    assert_eq!(
        attach.to_host(0)["params"],
        json!({ "sessionId": "sess_2", "historyPolicy": "none", "_meta": meta })
    );
}

#[test]
fn a_prompt_without_an_answer_is_sent_again_with_its_key_and_answered_once() {
    let mut stage = Stage::opened();
    let first = stage.prompt(2, "one");
    stage.frame(r#"{"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}"#);
    let second = stage.prompt(3, "two");
    stage.chunk("a");
    let attach = stage.restart();
    let again = stage.attached(&attach);
    assert_eq!(again.host, second.host, "not {first:?}");
    let answer = r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"restarted"}}"#;
    assert_eq!(stage.frame(answer).client, [answer]);
    let attach = stage.restart();
    assert!(stage.attached(&attach).nothing());
}

#[test]
fn unanswered_requests_are_resent_if_they_can_be_repeated() {
    let mut stage = Stage::opened();
    for (id, method) in
        [(10, "session/list"), (11, "session/new"), (12, "_vendor/launch"), (13, "authenticate")]
    {
        stage.line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{}}}}"#));
    }
    let attach = stage.restart();
    let out = stage.attached(&attach);
    assert_eq!(methods(&out.host), ["session/list", "authenticate"]);
    let refused: Vec<Value> = (0..out.client.len()).map(|at| out.to_client(at)).collect();
    assert_eq!(
        refused.iter().map(|error| error["id"].as_u64().unwrap()).collect::<Vec<_>>(),
        [11, 12]
    );
    assert!(refused.iter().all(|error| error["error"]["data"]["reason"] == "host_restarted"));
}

#[test]
fn lines_wait_until_the_sessions_are_attached() {
    let mut stage = Stage::opened();
    stage.prompt(2, "cut");
    stage.lose();
    assert!(stage.prompt(3, "said while the host was away").nothing());
    stage.host = 2;
    stage.connect();
    assert!(stage.prompt(4, "said during the greeting").nothing());
    let attach = stage.frame(r#"{"jsonrpc":"2.0","id":"wharf-bridge-1","result":{}}"#);
    assert!(stage.prompt(5, "said before the attach was answered").nothing());
    let sent = stage.attached(&attach);
    let ids: Vec<u64> = (0..sent.host.len())
        .map(|at| sent.to_host(at)["id"].as_u64().unwrap())
        .collect();
    assert_eq!(ids, [2, 3, 4, 5]);
}

#[test]
fn an_initialize_without_an_answer_is_said_again_and_answered() {
    let mut stage = Stage::new();
    let line = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#;
    let first = stage.line(line);
    stage.lose();
    stage.host = 2;
    assert_eq!(stage.connect(), first);
    assert_eq!(stage.frame(r#"{"jsonrpc":"2.0","id":0,"result":{}}"#).client.len(), 1);
    assert!(stage.restart().nothing());
}

/// Returns the options that the bridge sent with its last attach.
fn asked(stage: &mut Stage) -> Value {
    let attach = stage.restart();
    let asked = attach.to_host(0)["params"]["_meta"]["wharf"].clone();
    stage.attached(&attach);
    asked
}

#[test]
fn a_client_gets_after_a_reconnect_what_it_got_before_and_serves_what_it_served() {
    let mut stage = Stage::opened();
    assert_eq!(asked(&mut stage), json!({ "multiClientUpdates": false, "serves": true }));
    stage.line(
        r#"{"jsonrpc":"2.0","id":2,"method":"session/attach","params":{"sessionId":"sess_1"}}"#,
    );
    stage.frame(r#"{"jsonrpc":"2.0","id":2,"result":{"sessionId":"sess_1"}}"#);
    assert_eq!(asked(&mut stage), json!({ "multiClientUpdates": true, "serves": true }));
    stage.line(
        r#"{"jsonrpc":"2.0","id":3,"method":"session/load","params":{"sessionId":"sess_1"}}"#,
    );
    stage.frame(r#"{"jsonrpc":"2.0","id":3,"result":{}}"#);
    assert_eq!(asked(&mut stage), json!({ "multiClientUpdates": false, "serves": true }));

    let mut stage = Stage::new();
    let wish = r#""_meta":{"wharf":{"multiClientUpdates":true}}"#;
    stage.line(&format!(r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{{wish}}}}}"#));
    stage.frame(r#"{"jsonrpc":"2.0","id":0,"result":{}}"#);
    stage.line(
        r#"{"jsonrpc":"2.0","id":1,"method":"session/attach","params":{"sessionId":"sess_1"}}"#,
    );
    stage.frame(r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"sess_1"}}"#);
    assert_eq!(asked(&mut stage), json!({ "multiClientUpdates": true, "serves": false }));
}

#[test]
fn a_prompt_of_its_own_is_not_told_to_a_client_that_is_told_of_others() {
    let mut stage = Stage::opened();
    stage.prompt(2, "mine");
    let attach = stage.restart();
    stage.attached(&attach);
    let told = |tags: &str, text: &str| {
        let body = format!(r#"{tags},"prompt":[{{"text":"{text}","type":"text"}}],"sentBy":{{}}"#);
        update("", &body)
    };
    let twice = r#""sessionUpdate":"prompt_received","type":"prompt_received""#;
    assert!(stage.frame(&told(twice, "mine")).nothing());
    assert_eq!(stage.frame(&told(twice, "yours")).client.len(), 1);
    // An agent's own update of such a name has no second tag.
    assert_eq!(stage.frame(&told(r#""sessionUpdate":"prompt_received""#, "mine")).client.len(), 1);
}

#[test]
fn an_answer_says_where_to_go_on_from_and_the_client_does_not_see_it() {
    let mut stage = Stage::opened();
    let cases = [
        (
            "session/new",
            r#"{"sessionId":"sess_1","x":1.10}"#,
            r#"{"_meta":{"wharf":{"eventId":"3-7"}},"sessionId":"sess_1","x":1.10}"#,
        ),
        ("session/load", "{}", r#"{"_meta":{"wharf":{"eventId":"3-7"}}}"#),
        (
            "session/resume",
            r#"{"_meta":{"a":[ ]}}"#,
            r#"{"_meta":{"wharf":{"eventId":"3-7"},"a":[ ]}}"#,
        ),
        (
            "session/load",
            r#"{"_meta":{"wharf":{"s":1}}}"#,
            r#"{"_meta":{"wharf":{"eventId":"3-7","s":1}}}"#,
        ),
        ("session/load", r#"{"_meta":{"wharf":{}}}"#, r#"{"_meta":{"wharf":{"eventId":"3-7" }}}"#),
    ];
    for (number, (method, plain, told)) in cases.into_iter().enumerate() {
        let event = format!("3-7{number}");
        let id = number + 10;
        stage.line(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"sessionId":"sess_1"}}}}"#
        ));
        let answer = |result: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
        assert_eq!(stage.frame(&answer(&told.replace("3-7", &event))).client, [answer(plain)]);
        let attach = stage.restart();
        let params = &attach.to_host(0)["params"];
        assert_eq!(
            (&params["historyPolicy"], &params["afterEventId"]),
            (&json!("after_event"), &json!(event))
        );
        stage.attached(&attach);
    }
    // The host's answer to the bridge itself says so too.
    let attach = stage.restart();
    let id = attach.to_host(0)["id"].to_string();
    let result = r#"{"_meta":{"wharf":{"eventId":"4-2"}},"historyPolicy":"full"}"#;
    assert!(
        stage
            .frame(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))
            .nothing()
    );
    assert_eq!(stage.restart().to_host(0)["params"]["afterEventId"], "4-2");
}

#[test]
fn interrupted_load_continues_after_the_last_frame() {
    let mut stage = Stage::opened();
    stage.chunk("live");
    stage.line(
        r#"{"jsonrpc":"2.0","id":2,"method":"session/load","params":{"sessionId":"sess_1"}}"#,
    );
    for event in 1..=3 {
        assert_eq!(stage.chunk_of("replayed", event).client.len(), 1);
    }
    let again = stage.restart();
    assert_eq!(methods(&again.host), ["session/load"], "it is not attached besides");
    for event in 1..=3 {
        assert!(stage.chunk_of("replayed", event).nothing());
    }
    assert_eq!(stage.chunk_of("replayed", 4).client.len(), 1);
    assert_eq!(stage.frame(r#"{"jsonrpc":"2.0","id":2,"result":{}}"#).client.len(), 1);
}

#[test]
fn a_session_that_does_not_come_back_is_tried_again_when_it_is_needed() {
    let mut stage = Stage::opened();
    stage.chunk("a");
    stage.prompt(2, "cut");
    let attach = stage.restart();
    let id = attach.to_host(0)["id"].to_string();
    let error = r#"{"code":-32603,"message":"the agent does not start"}"#;
    let refused = stage.frame(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#));
    assert_eq!(refused.client, [format!(r#"{{"jsonrpc":"2.0","id":2,"error":{error}}}"#)]);
    let attach = stage.prompt(3, "now?");
    assert_eq!(
        (methods(&attach.host), attach.client.len()),
        (vec!["session/attach".to_owned()], 0)
    );
    assert_eq!(attach.to_host(0)["params"]["afterEventId"], "3-1");
    assert_eq!(methods(&stage.attached(&attach).host), ["session/prompt"]);
}

#[test]
fn forgotten_session_is_refused_by_the_host() {
    let mut stage = Stage::opened();
    stage.prompt(2, "cut");
    let attach = stage.restart();
    let id = attach.to_host(0)["id"].to_string();
    let again = stage.frame(&format!(
        r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32001,"message":"none"}}}}"#
    ));
    assert_eq!((methods(&again.host), again.client.len()), (vec!["session/prompt".to_owned()], 0));
}

#[test]
fn second_disconnect_during_a_reconnect_loses_no_message() {
    let mut stage = Stage::opened();
    stage.chunk("a");
    let prompt = stage.prompt(2, "cut twice");
    stage.restart();
    let attach = stage.restart();
    stage.attached(&attach);
    stage.chunk("b");
    let attach = stage.restart();
    assert_eq!(attach.to_host(0)["params"]["afterEventId"], "3-2");
    assert_eq!(stage.attached(&attach), prompt);
}
