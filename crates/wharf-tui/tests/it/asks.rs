//! Asks: they never take the focus, and keys answer them only in their own card.

use std::time::Duration;

use serde_json::{Value, json};

use crate::scene::{Scene, ask_row, page, session, text_row};

fn open_session(scene: &mut Scene) -> wharf_tui::StreamId {
    let about = session("sess_a", "Fix the parser", json!({ "turn": "running" }));
    scene.list(std::slice::from_ref(&about));
    scene.press("enter");
    let stream = scene.opened_stream();
    scene.rows(stream, "page", page(about, &[text_row(3, "message", "hello")], &[]));
    stream
}

fn bodies(scene: &mut Scene) -> Vec<Value> {
    let calls = scene.take_calls();
    let asks = calls.into_iter().filter(|(_, call)| call.path.contains("/asks/"));
    asks.map(|(_, call)| serde_json::from_str(&call.body.unwrap()).unwrap()).collect()
}

#[test]
fn arriving_ask_leaves_the_focus_and_typed_letters_in_the_composer() {
    let mut scene = Scene::connected(80, 24);
    let stream = open_session(&mut scene);
    scene.type_text("la");
    scene.rows(stream, "row", ask_row(14, "rm -rf build"));
    scene.rows(stream, "state", json!({ "asks": ["1-14"] }));
    assert!(scene.text().contains("rm -rf build") && scene.text().contains("Ctrl-G to answer"), "{}", scene.text());
    scene.wait(Duration::from_secs(1));
    scene.type_text("aAd1");
    assert!(scene.text().contains("laaAd1"), "{}", scene.text());
    assert_eq!(bodies(&mut scene), Vec::<Value>::new());
}

#[test]
fn focused_ask_takes_one_answer_and_none_in_its_first_moment() {
    let mut scene = Scene::connected(80, 24);
    let stream = open_session(&mut scene);
    scene.rows(stream, "row", ask_row(14, "rm -rf build"));
    scene.rows(stream, "state", json!({ "asks": ["1-14"] }));
    scene.press("ctrl-g a");
    assert_eq!(bodies(&mut scene), Vec::<Value>::new(), "the card has just appeared");
    scene.wait(Duration::from_millis(400));
    scene.press("a a");
    assert_eq!(bodies(&mut scene), [json!({ "optionId": "allow_once" })]);
    let mut answered = ask_row(14, "rm -rf build");
    answered["rev"] = json!(15);
    answered["state"] = json!("answered");
    scene.rows(stream, "row", answered);
    scene.rows(stream, "state", json!({ "asks": [] }));
    scene.type_text("next");
    assert!(scene.text().contains("❯ next"), "the composer has the focus again:\n{}", scene.text());
}

#[test]
fn observer_sees_the_ask_and_cannot_answer() {
    let mut scene = Scene::starting(wharf_tui::TuiOptions {
        size: wharf_tui::ScreenSize { width: 80, height: 24 },
        is_readonly: true,
        ..wharf_tui::TuiOptions::default()
    });
    scene.feed(wharf_tui::TuiInput::List(wharf_tui::StreamInput::Connected));
    let stream = open_session(&mut scene);
    scene.rows(stream, "row", ask_row(14, "rm -rf build"));
    scene.rows(stream, "state", json!({ "asks": ["1-14"] }));
    scene.wait(Duration::from_secs(1));
    scene.press("ctrl-g a 1 enter");
    assert_eq!(bodies(&mut scene), Vec::<Value>::new());
    assert!(scene.text().contains("rm -rf build") && scene.text().contains("observer"), "{}", scene.text());
}
