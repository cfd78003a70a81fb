//! Notifications of the terminal: of changes that came by the stream, and of those that a lost
//! connection hid.

use std::time::Duration;

use serde_json::{Value, json};
use wharf_api::SessionStreamEvent;
use wharf_tui::{StreamInput, TuiEffect, TuiInput};

use crate::scene::{Scene, attention, session};

fn needs(state: &str, row: &str) -> Value {
    let mut members = attention(state, "2026-11-17T09:58:00.000Z", Some("may I?"));
    members["attention"]["row"] = json!(row);
    session("sess_a", "Fix the parser", members)
}

/// Starts a client whose window has no focus.
fn start_unwatched() -> Scene {
    let mut scene = Scene::connected(80, 24);
    scene.feed(TuiInput::TerminalFocus(false));
    scene
}

fn change(scene: &mut Scene, changed: Value) {
    let event = SessionStreamEvent::read("session", changed).unwrap();
    scene.feed(TuiInput::List(StreamInput::Event(event)));
}

fn count_notices(scene: &mut Scene) -> usize {
    scene
        .take_effects()
        .iter()
        .filter(|effect| matches!(effect, TuiEffect::Notify { .. }))
        .count()
}

#[test]
fn question_that_came_while_the_host_was_lost_is_announced() {
    let mut scene = start_unwatched();
    scene.list(&[session("sess_a", "Fix the parser", json!({}))]);
    assert_eq!(count_notices(&mut scene), 0);
    scene.feed(TuiInput::List(StreamInput::Lost {
        reason: "gone".to_owned(),
        retry_in: Some(Duration::from_secs(1)),
    }));
    scene.feed(TuiInput::List(StreamInput::Connected));
    scene.list(&[needs("needs_answer", "1-14")]);
    assert_eq!(count_notices(&mut scene), 1);
    scene.list(&[needs("needs_answer", "1-14")]);
    assert_eq!(count_notices(&mut scene), 0, "nothing is new");
}

#[test]
fn first_list_announces_nothing() {
    let mut scene = start_unwatched();
    scene.list(&[needs("needs_answer", "1-14")]);
    assert_eq!(count_notices(&mut scene), 0);
}

#[test]
fn session_is_announced_once_a_minute_unless_it_asks() {
    let mut scene = start_unwatched();
    scene.list(&[session("sess_a", "Fix the parser", json!({}))]);
    change(&mut scene, needs("finished", "1-14"));
    assert_eq!(count_notices(&mut scene), 1);
    change(&mut scene, needs("finished", "1-15"));
    assert_eq!(count_notices(&mut scene), 0, "it was announced just now");
    change(&mut scene, needs("needs_answer", "1-16"));
    assert_eq!(count_notices(&mut scene), 1, "a question does not wait");
    scene.wait(Duration::from_secs(60));
    change(&mut scene, needs("failed", "1-17"));
    assert_eq!(count_notices(&mut scene), 1);
}

#[test]
fn questions_that_come_fast_are_announced_as_one() {
    let mut scene = start_unwatched();
    scene.list(&[session("sess_a", "Fix the parser", json!({}))]);
    for row in 14..24 {
        change(&mut scene, needs("needs_answer", &format!("1-{row}")));
    }
    assert_eq!(count_notices(&mut scene), 6);
    scene.wait(Duration::from_secs(59));
    assert_eq!(count_notices(&mut scene), 0);
    scene.wait(Duration::from_secs(1));
    let effects = scene.take_effects();
    let bodies: Vec<&str> = effects.iter().filter_map(notice_body).collect();
    assert_eq!(bodies, ["Fix the parser — asks: 4 more"]);
}

#[test]
fn questions_that_were_answered_meanwhile_are_not_announced() {
    let mut scene = start_unwatched();
    scene.list(&[session("sess_a", "Fix the parser", json!({}))]);
    for row in 14..24 {
        change(&mut scene, needs("needs_answer", &format!("1-{row}")));
    }
    change(&mut scene, session("sess_a", "Fix the parser", json!({})));
    assert_eq!(count_notices(&mut scene), 6);
    scene.wait(Duration::from_secs(60));
    assert_eq!(count_notices(&mut scene), 0);
}

fn notice_body(effect: &TuiEffect) -> Option<&str> {
    if let TuiEffect::Notify { body, .. } = effect { Some(body) } else { None }
}
