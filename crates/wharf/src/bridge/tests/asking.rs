//! Requests of the host: the client is asked once, by an id that stays.

use bytes::Bytes;

use super::{S, Seen, Stage, seen};
use crate::stdio_pump::StdioBridge;

fn ask(id: u64, call: &str, event: Option<u64>) -> String {
    let meta = event
        .map(|event| format!(r#""_meta":{{"wharf":{{"eventId":"3-{event}"}}}},"#))
        .unwrap_or_default();
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"session/request_permission","params":{{{meta}"sessionId":"{S}","toolCall":{{"toolCallId":"{call}"}}}}}}"#
    )
}

fn answer(id: u64) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"outcome":{{"outcome":"selected","optionId":"yes"}}}}}}"#
    )
}

fn cancel(id: u64) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"$/cancel_request","params":{{"requestId":{id}}}}}"#)
}

/// The connection is lost and found; the host is the same. Returns the marker by which the bridge
/// finds the end of the open asks.
fn reconnected(stage: &mut Stage) -> Seen {
    let attach = stage.reconnect();
    let marker = stage.attached(&attach);
    assert_eq!(marker.client, Vec::<String>::new());
    assert_eq!(marker.to_host(0)["method"], "_wharf/queue/list");
    marker
}

/// The host answers the marker: it has repeated all asks that are open.
fn answer_marker(stage: &mut Stage, marker: &Seen) -> Seen {
    let id = marker.to_host(0)["id"].to_string();
    stage.frame(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"queue":[]}}}}"#))
}

#[test]
fn a_permission_passes_and_so_does_its_answer() {
    let mut stage = Stage::opened();
    assert_eq!(stage.frame(&ask(1, "a", Some(1))).client, [ask(1, "a", None)]);
    assert_eq!(stage.line(&answer(1)).host, [answer(1)]);
    assert!(stage.line(&answer(1)).nothing(), "answered already");
    stage.frame(&ask(2, "b", Some(2)));
    assert_eq!(stage.frame(&cancel(2)).client, [cancel(2)]);
    assert!(stage.line(&answer(2)).nothing(), "withdrawn");
}

#[test]
fn an_answer_under_another_spelling_of_its_id_is_known() {
    for id in ["\"1\"", "1.0", "10e-1"] {
        let mut stage = Stage::opened();
        stage.frame(&ask(1, "a", Some(1)));
        let odd = answer(1).replace("\"id\":1,", &format!("\"id\":{id},"));
        assert_eq!(stage.line(&format!("\u{feff}{odd}")).host, [answer(1)], "{id}");
    }
}

#[test]
fn a_malformed_answer_fails_the_request_that_it_names_under_the_hosts_id() {
    let mut stage = Stage::opened();
    stage.frame(&ask(1, "a", Some(1)));
    stage.frame(&ask(2, "b", Some(2)));
    reconnected(&mut stage);
    assert!(stage.frame(&ask(1, "b", None)).nothing());
    let told = stage.line(r#"{"jsonrpc":"2.0","id":2,"id":2,"result":{}}"#);
    assert_eq!(told.host.len(), 1, "{told:?}");
    let failed = told.to_host(0);
    assert_eq!(
        (&failed["id"], &failed["error"]["code"]),
        (&1.into(), &(-32603).into()),
        "{failed}"
    );
    assert!(stage.line(&answer(2)).nothing(), "it has its answer");
}

#[test]
fn a_permission_that_is_asked_again_is_not_shown_again() {
    let mut stage = Stage::opened();
    for (id, call) in [(1, "a"), (2, "b"), (3, "c")] {
        stage.frame(&ask(id, call, Some(id)));
    }
    let marker = reconnected(&mut stage);
    assert!(stage.frame(&ask(1, "b", None)).nothing());
    assert!(stage.frame(&ask(2, "c", None)).nothing());
    assert_eq!(answer_marker(&mut stage, &marker).client, [cancel(1)], "it is over");
    assert_eq!(stage.line(&answer(2)).host, [answer(1)]);
    assert_eq!(stage.frame(&cancel(2)).client, [cancel(3)]);
}

#[test]
fn ask_that_is_over_is_withdrawn_when_an_unanswered_request_joins_its_session_again() {
    for method in ["session/load", "session/resume"] {
        let mut stage = Stage::opened();
        stage.frame(&ask(1, "a", Some(1)));
        stage.frame(&ask(2, "b", Some(2)));
        stage.line(&format!(
            r#"{{"jsonrpc":"2.0","id":3,"method":"{method}","params":{{"sessionId":"{S}","cwd":"/","mcpServers":[]}}}}"#
        ));
        let again = stage.reconnect();
        assert_eq!(
            (again.host.len(), &again.to_host(0)["method"]),
            (1, &method.into()),
            "{again:?}"
        );
        let joined = stage.frame(r#"{"jsonrpc":"2.0","id":3,"result":{}}"#);
        assert_eq!(joined.client.len(), 1, "{joined:?}");
        assert_eq!(joined.host.len(), 1, "{method} has no marker");
        assert!(stage.frame(&ask(1, "b", None)).nothing());
        assert_eq!(answer_marker(&mut stage, &joined).client, [cancel(1)], "it is over");
        assert_eq!(stage.line(&answer(2)).host, [answer(1)]);
    }
}

#[test]
fn an_answer_that_was_given_meanwhile_is_kept_for_the_host() {
    let mut stage = Stage::opened();
    stage.frame(&ask(1, "a", Some(1)));
    stage.frame(&ask(2, "b", Some(2)));
    assert_eq!(stage.line(&answer(2)).host.len(), 1);
    let attach = stage.reconnect();
    assert!(stage.line(&answer(1)).nothing());
    assert!(stage.attached(&attach).client.is_empty(), "the host has not asked again yet");
    assert_eq!(stage.frame(&ask(1, "a", None)).host, [answer(1)]);
    // This answer was on its way when the connection was lost.
    assert_eq!(stage.frame(&ask(2, "b", None)).host, [answer(2)]);
}

#[test]
fn a_fresh_permission_is_shown_however_much_it_is_like_an_earlier_one() {
    let mut stage = Stage::opened();
    stage.frame(&ask(1, "a", Some(1)));
    stage.line(&answer(1));
    reconnected(&mut stage);
    assert_eq!(stage.frame(&ask(1, "a", Some(2))).client, [ask(2, "a", None)]);
    assert_eq!(stage.line(&answer(2)).host, [answer(1)]);
}

#[test]
fn answer_that_was_given_while_the_host_was_away_reaches_the_next_host() {
    let mut stage = Stage::opened();
    for (id, call) in [(1, "a"), (2, "b"), (3, "c")] {
        stage.frame(&ask(id, call, Some(id)));
    }
    stage.lose();
    assert!(stage.line(&answer(1)).nothing());
    stage.host = 2;
    let greeting = stage.connect();
    assert_eq!(
        greeting.client,
        Vec::<String>::new(),
        "no ask is over because the host was replaced"
    );
    let id = greeting.to_host(0)["id"].to_string();
    let attach = stage.frame(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    let marker = stage.attached(&attach);
    assert_eq!(stage.frame(&ask(1, "a", None)).host, [answer(1)]);
    assert!(stage.frame(&ask(2, "b", None)).nothing(), "the client was asked already");
    assert_eq!(answer_marker(&mut stage, &marker).client, [cancel(3)], "only this one is over");
    assert_eq!(stage.line(&answer(2)).host, [answer(2)]);
}

#[test]
fn requests_of_a_session_that_is_gone_are_cancelled() {
    let mut stage = Stage::opened();
    stage.frame(&ask(1, "a", Some(1)));
    let attach = stage.restart();
    let id = attach.to_host(0)["id"].to_string();
    let refusal =
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32001,"message":"none"}}}}"#);
    assert_eq!(stage.frame(&refusal).client, [cancel(1)]);
}

#[test]
fn requests_for_this_client_alone_are_cancelled_with_the_connection() {
    let mut stage = Stage::opened();
    let read = r#"{"jsonrpc":"2.0","id":1,"method":"fs/read_text_file","params":{"sessionId":"sess_1","path":"/a"}}"#;
    assert_eq!(stage.frame(read).client, [read]);
    assert_eq!(stage.lose().client, [cancel(1)]);
}

#[test]
fn a_permission_that_was_settled_meanwhile_is_withdrawn_with_the_end_of_the_turn() {
    let mut stage = Stage::opened();
    stage.prompt(2, "go");
    stage.frame(&ask(1, "a", Some(1)));
    reconnected(&mut stage);
    let end = r#"{"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn"}}"#;
    assert_eq!(stage.frame(end).client, [cancel(1), end.to_owned()]);
}

#[test]
fn an_answer_that_the_host_cannot_be_sent_fails_the_request_that_it_names() {
    let mut stage = Stage::opened();
    stage.frame(&ask(1, "a", Some(1)));
    let head = br#"{"jsonrpc":"2.0","id":1,"result":{"outcome":{"outcome":"aaa"#;
    let told = seen(stage.bridge.handle_oversized_line(head, 7)).to_host(0);
    assert_eq!((&told["id"], &told["error"]["code"]), (&1.into(), &(-32603).into()));
    stage.frame(&ask(2, "b", Some(2)));
    let latin = Bytes::from_static(b"{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"x\":\"\xe9\"}}");
    let told = seen(stage.bridge.handle_line(latin)).to_host(0);
    assert_eq!((&told["id"], &told["error"]["code"]), (&2.into(), &(-32603).into()));
}
