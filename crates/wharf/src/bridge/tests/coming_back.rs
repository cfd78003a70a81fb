//! The host goes and comes back: nothing is missing, nothing comes twice.

use serde_json::{Value, json};

use super::{S, Stage, update};

fn methods(frames: &[String]) -> Vec<String> {
    let method = |frame: &String| serde_json::from_str::<Value>(frame).unwrap()["method"].as_str().unwrap().to_owned();
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
    assert_eq!((params["historyPolicy"].as_str(), params["afterEventId"].as_str()), (Some("after_event"), Some("3-2")));
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
    assert_eq!((params["historyPolicy"].as_str(), params["historyDelivery"].as_str()), (Some("full"), Some("stream")));
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
    stage.line(r#"{"jsonrpc":"2.0","id":2,"method":"session/close","params":{"sessionId":"sess_1"}}"#);
    stage.frame(r#"{"jsonrpc":"2.0","id":2,"result":{}}"#);
    stage.line(r#"{"jsonrpc":"2.0","id":3,"method":"session/resume","params":{"sessionId":"sess_2"}}"#);
    stage.frame(r#"{"jsonrpc":"2.0","id":3,"result":{}}"#);
    let attach = stage.restart();
    assert_eq!(attach.host.len(), 1, "the closed one is not attached");
    assert_eq!(attach.to_host(0)["params"], json!({ "sessionId": "sess_2", "historyPolicy": "none" }));
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
fn what_was_unanswered_is_repeated_if_that_does_no_harm() {
    let mut stage = Stage::opened();
    for (id, method) in [(10, "session/list"), (11, "session/new"), (12, "_vendor/launch"), (13, "authenticate")] {
        stage.line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{}}}}"#));
    }
    let attach = stage.restart();
    let out = stage.attached(&attach);
    assert_eq!(methods(&out.host), ["session/list", "authenticate"]);
    let refused: Vec<Value> = (0..out.client.len()).map(|at| out.to_client(at)).collect();
    assert_eq!(refused.iter().map(|error| error["id"].as_u64().unwrap()).collect::<Vec<_>>(), [11, 12]);
    assert!(refused.iter().all(|error| error["error"]["data"]["reason"] == "host_restarted"));
}

#[test]
fn what_the_client_says_meanwhile_waits_until_the_sessions_are_attached() {
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
    let ids: Vec<u64> = (0..sent.host.len()).map(|at| sent.to_host(at)["id"].as_u64().unwrap()).collect();
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

#[test]
fn updates_for_other_clients_are_made_plain() {
    let mut stage = Stage::opened();
    stage.chunk("a");
    stage.prompt(2, "mine");
    let attach = stage.restart();
    stage.attached(&attach);
    let told = |tag: &str, rest: &str| {
        let body = format!(r#""sessionUpdate":"{tag}","type":"{tag}"{rest}"#);
        update(r#""_meta":{"wharf":{"eventId":"4-9"}},"#, &body)
    };
    for tag in ["turn_complete", "permission_resolved", "client_connected", "client_disconnected"] {
        assert!(stage.frame(&told(tag, "")).nothing(), "{tag}");
    }
    let prompt = |text: &str| format!(r#","prompt":[{{"text":"{text}","type":"text"}}],"sentBy":{{}}"#);
    assert!(stage.frame(&told("prompt_received", &prompt("mine"))).nothing());
    let other = stage.frame(&told("prompt_received", &prompt("yours")));
    let content = r#""sessionUpdate":"user_message_chunk","content":{"text":"yours","type":"text"}"#;
    assert_eq!(other.client, [update("", content)]);
    // An agent's own update of such a name has no second tag.
    assert_eq!(stage.frame(&update("", r#""sessionUpdate":"turn_complete""#)).client.len(), 1);
}

#[test]
fn a_load_that_was_cut_goes_on_where_it_was() {
    let mut stage = Stage::opened();
    stage.chunk("live");
    stage.line(r#"{"jsonrpc":"2.0","id":2,"method":"session/load","params":{"sessionId":"sess_1"}}"#);
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
    assert_eq!((methods(&attach.host), attach.client.len()), (vec!["session/attach".to_owned()], 0));
    assert_eq!(attach.to_host(0)["params"]["afterEventId"], "3-1");
    assert_eq!(methods(&stage.attached(&attach).host), ["session/prompt"]);
}

#[test]
fn a_session_that_was_forgotten_is_the_hosts_to_refuse() {
    let mut stage = Stage::opened();
    stage.prompt(2, "cut");
    let attach = stage.restart();
    let id = attach.to_host(0)["id"].to_string();
    let again = stage.frame(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32001,"message":"none"}}}}"#));
    assert_eq!((methods(&again.host), again.client.len()), (vec!["session/prompt".to_owned()], 0));
}

#[test]
fn a_second_loss_before_all_is_well_again_loses_nothing() {
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
