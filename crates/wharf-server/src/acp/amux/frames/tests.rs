//! The frames that amux clients get for each event.

use serde_json::json;
use wharf_host::core::{AskKind, ClientId, Epoch, Millis, Peer, Seq};

use serde_json::Value;

use super::*;

const RUNNING: Before = Before { busy: true, waited: false, live: true };
const IDLE: Before = Before { busy: false, waited: false, live: true };

fn frames() -> Frames {
    Frames::new("work".into(), &[])
}

fn ann() -> Sender {
    let peer = Some(Peer { id: "ann".into(), role: Some("driver".into()) });
    let client = ClientId::new("cli_1");
    Sender {
        client,
        chosen: None,
        name: Some("Ann".into()),
        version: None,
        token: None,
        parent: None,
        peer,
    }
}

/// A client that is no amux peer.
fn editor() -> Sender {
    Sender {
        client: ClientId::new("cli_2"),
        name: None,
        peer: None,
        ..ann()
    }
}

fn raw(text: &str) -> Raw {
    Raw::new(text.to_owned()).unwrap()
}

fn prompt_frame() -> Raw {
    raw(
        r#"{"id":1,"method":"session/prompt","params":{"prompt":[{"type":"text","text":"hi","n":1.10}]}}"#,
    )
}

fn entry(event: Event) -> Entry {
    Entry { seq: Seq(7), epoch: Epoch(1), at: Millis(0), event }
}

fn accepted(prompt: &str, first: bool) -> Entry {
    let (prompt, sender, frame) = (PromptId::new(prompt), ann(), prompt_frame());
    entry(Event::Prompt(PromptEvent::Accepted { prompt, sender, frame, key: None, first }))
}

fn started(prompt: &str) -> Entry {
    entry(Event::Prompt(PromptEvent::TurnStarted {
        prompt: PromptId::new(prompt),
        content: Seq(1),
    }))
}

fn ended(prompt: &str, end: PromptEnd) -> Entry {
    entry(Event::Prompt(PromptEvent::Ended { prompt: PromptId::new(prompt), end, failure: None }))
}

fn answered() -> PromptEnd {
    PromptEnd::Answered { stop_reason: "end_turn".into(), frame: raw("{}") }
}

/// Method and parameters, without the name, which every frame must carry twice.
fn told(frames: &[Bytes]) -> Vec<(String, Value)> {
    let read = |frame: &Bytes| {
        let mut frame: Value = serde_json::from_slice(frame).unwrap();
        let params = frame["params"].as_object_mut().unwrap();
        assert_eq!(params.remove("sessionId"), Some(json!("work")));
        assert_eq!(params.remove("roomId"), Some(json!("work")));
        (
            frame["method"].as_str().unwrap().trim_start_matches("amux/").to_owned(),
            frame["params"].take(),
        )
    };
    frames.iter().map(read).collect()
}

fn note(method: &str, params: Value) -> (String, Value) {
    (method.to_owned(), params)
}

#[test]
fn a_turn_begins_with_its_prompt_as_it_was_spelled_and_ends_with_its_reason() {
    let mut frames = frames();
    assert!(frames.show_event(&accepted("p", false), IDLE).is_empty());
    let begun = frames.start_turn(&started("p"), &prompt_frame(), &ann(), true);
    assert!(
        String::from_utf8_lossy(&begun[0])
            .contains(r#""content":[{"type":"text","text":"hi","n":1.10}]"#)
    );
    let content = json!([{ "type": "text", "text": "hi", "n": 1.10 }]);
    let expected = json!({ "amuxTurnId": "at-p", "peerId": "ann", "peerName": "Ann", "role": "driver", "content": content });
    assert_eq!(told(&begun), [note("turn_started", expected)]);
    let over = frames.show_event(&ended("p", answered()), RUNNING);
    assert_eq!(
        told(&over),
        [note("turn_complete", json!({ "amuxTurnId": "at-p", "stopReason": "end_turn" }))]
    );
}

#[test]
fn a_prompt_that_waits_is_a_queue_item_from_its_coming_to_its_end() {
    let mut frames = frames();
    let added = json!({ "queueItemId": "q", "peerId": "ann", "text": "hi", "status": "queued" });
    assert_eq!(
        told(&frames.show_event(&accepted("q", false), RUNNING)),
        [note("queue_item_added", added)]
    );
    let begun = told(&frames.start_turn(&started("q"), &prompt_frame(), &ann(), true));
    assert_eq!(begun[0].0, "turn_started");
    assert_eq!(
        begun[1],
        note("queue_item_submitted", json!({ "queueItemId": "q", "amuxTurnId": "at-q" }))
    );
    let over = told(&frames.show_event(&ended("q", answered()), RUNNING));
    let completed = json!({ "queueItemId": "q", "amuxTurnId": "at-q", "stopReason": "end_turn" });
    assert_eq!(
        (over[0].0.as_str(), &over[1]),
        ("turn_complete", &note("queue_item_completed", completed))
    );
}

#[test]
fn prompt_that_never_ran_is_removed_from_the_queue() {
    let mut frames = frames();
    let waited = Before { waited: true, ..RUNNING };
    frames.show_event(&accepted("q", false), RUNNING);
    let over = frames.show_event(&ended("q", PromptEnd::Removed { by: Some(editor()) }), waited);
    let removed = json!({ "queueItemId": "q", "removedBy": "cli_2", "reason": "unqueued" });
    assert_eq!(told(&over), [note("queue_item_removed", removed)]);
    frames.show_event(&accepted("aq-1", false), IDLE);
    let over = frames.show_event(&ended("aq-1", PromptEnd::Cancelled), waited);
    let removed = json!({ "queueItemId": "aq-1", "removedBy": null, "reason": "cancelled" });
    assert_eq!(told(&over), [note("queue_item_removed", removed)]);
    // A prompt that waited for nothing but the agent's start was never shown as an item.
    frames.show_event(&accepted("p", false), IDLE);
    assert!(frames.show_event(&ended("p", PromptEnd::StartFailed), waited).is_empty());
}

#[test]
fn a_steer_names_the_turn_that_it_replaces() {
    let mut frames = frames();
    frames.start_turn(&started("p"), &prompt_frame(), &editor(), true);
    let control = told(&frames.show_event(&accepted("s", true), RUNNING));
    let expected = json!({ "kind": "steer", "mode": "hard", "peerId": "ann", "amuxTurnId": "at-p", "text": "hi" });
    assert_eq!(control, [note("control_submitted", expected)]);
    let cancel = entry(Event::Prompt(PromptEvent::CancelRequested {
        prompt: PromptId::new("p"),
        by: Some(ann()),
        limit: None,
        reason: None,
    }));
    let expected = json!({ "amuxTurnId": "at-p", "cancelledBy": "ann", "originalDriver": "cli_2", "reason": "hard_steer" });
    assert_eq!(told(&frames.show_event(&cancel, RUNNING)), [note("turn_cancelled", expected)]);
    frames.show_event(&ended("p", answered()), RUNNING);
    let begun = told(&frames.start_turn(&started("s"), &prompt_frame(), &ann(), true));
    assert_eq!((begun.len(), &begun[0].1["supersedesTurnId"]), (1, &json!("at-p")));
}

#[test]
fn a_request_is_told_of_with_who_settled_it() {
    let mut frames = frames();
    let request =
        r#"{"id":9,"method":"session/request_permission","params":{"toolCall":{"n":1.0}}}"#;
    let ask = Ask {
        id: AskId(12),
        kind: AskKind::Permission,
        agent_request: raw("9"),
        frame: raw(request),
        options: Vec::new(),
        tool_call: None,
        prompt: Some(PromptId::new("p")),
    };
    let opened = json!({ "requestId": 12, "requestMethod": "session/request_permission",
        "requestParams": { "toolCall": { "n": 1.0 } }, "amuxTurnId": "at-p" });
    assert_eq!(
        told(&frames.show_event(&entry(Event::Ask(AskEvent::Opened(ask))), RUNNING)),
        [note("agent_request_opened", opened)]
    );

    let mut resolved = |outcome, by| {
        let event = entry(Event::Ask(AskEvent::Resolved { ask: AskId(12), outcome, by }));
        told(&frames.show_event(&event, RUNNING)).pop().unwrap().1
    };
    let answer = |text| raw(text);
    let yes = AskOutcome::Answered {
        option: None,
        answer: answer(r#"{"id":1,"result":{"yes":true}}"#),
    };
    assert_eq!(
        resolved(yes, Some(ann())),
        json!({ "requestId": 12, "resolvedBy": "ann", "result": { "yes": true } })
    );
    let no = AskOutcome::Declined { answer: answer(r#"{"id":1,"error":{"code":1}}"#) };
    assert_eq!(
        resolved(no, Some(ann())),
        json!({ "requestId": 12, "resolvedBy": "ann", "error": { "code": 1 } })
    );
    let by = |word: &str| json!({ "requestId": 12, "resolvedBy": word });
    assert_eq!(resolved(AskOutcome::Withdrawn, None), by("agent:cancelled"));
    assert_eq!(resolved(AskOutcome::Cancelled, None), by("mux:turn-ended"));
    assert_eq!(resolved(AskOutcome::Cancelled, Some(ann())), by("ann"));
    assert_eq!(resolved(AskOutcome::AgentGone, None), by("mux:turn-ended"));
}

#[test]
fn presence_is_told_by_peer_id_and_label() {
    let frames = frames();
    let member = |sender, role| Member { sender, role };
    let joined = |member: &Member| told(&frames.tell_presence(member, true)).pop().unwrap().1;
    assert_eq!(
        joined(&member(ann(), Role::Controller)),
        json!({ "peerId": "ann", "peerName": "Ann", "role": "driver" })
    );
    assert_eq!(
        joined(&member(editor(), Role::Controller)),
        json!({ "peerId": "cli_2", "peerName": null, "role": "controller" })
    );
    assert_eq!(joined(&member(ann(), Role::Observer))["role"], "observer");
    let left = told(&frames.tell_presence(&member(ann(), Role::Controller), false));
    assert_eq!(left, [note("peer_left", json!({ "peerId": "ann" }))]);
}

#[test]
fn the_past_says_when_it_was() {
    let past = Before { live: false, ..RUNNING };
    let over = told(&frames().show_event(&ended("p", answered()), past));
    let recorded = json!({ "amux": { "recordedAt": "1970-01-01T00:00:00.000Z", "replaySeq": 7 } });
    assert_eq!(over[0].1["_meta"], recorded);
    let live = told(&frames().show_event(&ended("p", answered()), RUNNING));
    assert_eq!(live[0].1.get("_meta"), None);
}
