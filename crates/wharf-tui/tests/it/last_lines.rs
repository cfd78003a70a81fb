//! The last line of each session in the list.

use std::time::Duration;

use serde_json::{Value, json};
use wharf_api::SessionStreamEvent;
use wharf_tui::{CallId, StreamInput, TuiInput};

use crate::scene::{Scene, page, session, text_row};
use crate::transcript_frames::tool_row;

/// Returns the sessions whose newest row is asked for, with the calls.
fn asked_lines(scene: &mut Scene) -> Vec<(CallId, String)> {
    let calls = scene
        .take_calls()
        .into_iter()
        .filter(|(_, call)| call.path.ends_with("&limit=1"));
    calls
        .map(|(id, call)| (id, call.path.split('/').nth(2).unwrap_or_default().to_owned()))
        .collect()
}

fn change_session(scene: &mut Scene, changed: Value) {
    let event = SessionStreamEvent::read("session", changed).unwrap();
    scene.feed(TuiInput::List(StreamInput::Event(event)));
}

#[test]
fn list_shows_the_newest_line_of_each_session_and_looks_again_while_it_works() {
    let mut scene = Scene::connected(60, 20);
    let working = session("sess_a", "Fix the parser", json!({ "turn": "running" }));
    let idle = session("sess_b", "Write the README", json!({}));
    scene.list(&[working.clone(), idle.clone()]);
    let asked = asked_lines(&mut scene);
    let ids: Vec<&str> = asked.iter().map(|(_, id)| id.as_str()).collect();
    assert_eq!(ids, ["sess_a", "sess_b"]);
    scene.answer(
        asked[1].0,
        &page(idle.clone(), &[text_row(3, "message", "I am done.\nTwo examples are new.\n")], &[]),
    );
    scene.answer(
        asked[0].0,
        &page(
            working.clone(),
            &[tool_row(4, "execute", "Run npm test", "running", json!({}))],
            &[],
        ),
    );
    assert!(
        scene.text().contains("Two examples are new.") && scene.text().contains("Run npm test"),
        "{}",
        scene.text()
    );
    assert_eq!(asked_lines(&mut scene), []);

    scene.wait(Duration::from_secs(2));
    let asked = asked_lines(&mut scene);
    assert_eq!(
        asked.iter().map(|(_, id)| id.as_str()).collect::<Vec<_>>(),
        ["sess_a"],
        "only the one that works"
    );
    scene.refuse(asked[0].0, "the session is gone");
    assert!(scene.text().contains("Run npm test"), "the earlier line stays: {}", scene.text());
    scene.wait(Duration::from_secs(2));
    let asked = asked_lines(&mut scene);
    let mut growing = text_row(
        5,
        "message",
        "a sentence that is longer than the room and still grows at its end",
    );
    growing["open"] = json!(true);
    scene.answer(asked[0].0, &page(working.clone(), &[growing], &[]));
    assert!(
        scene.text().contains("   …room and still grows at its end"),
        "the end is what is new: {}",
        scene.text()
    );

    change_session(&mut scene, session("sess_b", "Write the README", json!({ "lastSeq": 30 })));
    scene.wait(Duration::from_secs(2));
    let ids: Vec<String> = asked_lines(&mut scene).into_iter().map(|(_, id)| id).collect();
    assert_eq!(ids, ["sess_b", "sess_a"], "a session that changed is read again");
}

#[test]
fn idle_list_and_one_that_nobody_looks_at_ask_for_nothing() {
    let mut scene = Scene::connected(60, 20);
    let working = session("sess_a", "Fix the parser", json!({ "turn": "running" }));
    scene.list(std::slice::from_ref(&working));
    let asked = asked_lines(&mut scene);
    scene.answer(asked[0].0, &page(working, &[text_row(3, "message", "hello")], &[]));
    scene.feed(TuiInput::TerminalFocus(false));
    scene.wait(Duration::from_secs(10));
    assert_eq!(asked_lines(&mut scene), []);
    scene.feed(TuiInput::TerminalFocus(true));
    assert_eq!(asked_lines(&mut scene).len(), 1);
}
