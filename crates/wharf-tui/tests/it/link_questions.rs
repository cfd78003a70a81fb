//! Questions with a link that the person opens elsewhere: the client copies the link, and sends
//! that it is done.

use std::time::Duration;

use serde_json::{Value, json};
use wharf_tui::TuiEffect;

use crate::frames::check_frame;
use crate::scene::{Scene, ask_row, page, session, text_row};

const LINK: &str =
    "https://example.org/login?client=wharf&state=4f1c9a77d2b84e6f9a3c5d7e8f901a2b3c4d5e6f";

/// Opens a session whose agent asks for a visit to a link; the focus is on the question.
fn open_link_question(schema: Value) -> Scene {
    let mut scene = Scene::connected(80, 24);
    let about = session("sess_a", "Fix the parser", json!({ "turn": "awaiting_input" }));
    scene.list(std::slice::from_ref(&about));
    scene.press("enter");
    let stream = scene.opened_stream();
    let mut ask = ask_row(14, "");
    (ask["ask"], ask["options"]) = (json!("form"), json!([]));
    ask["subject"] = json!({ "title": "Sign in to the tracker", "command": null, "cwd": null, "paths": [], "diffs": [],
        "text": "Open the link and sign in.", "outside": [], "detailed": true });
    ask["form"] = json!({ "schema": schema, "url": LINK });
    scene.rows(stream, "page", page(about, &[text_row(3, "message", "hello"), ask], &["1-14"]));
    scene.wait(Duration::from_secs(1));
    scene.press("ctrl-g");
    scene.take_effects();
    scene
}

fn answers(scene: &mut Scene) -> Vec<Value> {
    let calls = scene.take_calls().into_iter().filter(|(_, call)| call.path.contains("/asks/"));
    calls
        .map(|(_, call)| serde_json::from_str(call.body.as_deref().unwrap()).unwrap())
        .collect()
}

#[test]
fn link_is_shown_whole_copied_and_accepted() {
    let mut scene = open_link_question(json!(null));
    check_frame(&scene, "ask_link_80x24");
    scene.press("1");
    assert!(scene.take_effects().contains(&TuiEffect::Copy(LINK.to_owned())));
    scene.press("y");
    assert!(scene.take_effects().contains(&TuiEffect::Copy(LINK.to_owned())));
    scene.press("a a");
    assert_eq!(answers(&mut scene), [json!({ "action": "accept", "content": {} })]);
}

#[test]
fn selected_answer_to_a_link_is_the_one_that_enter_gives() {
    let mut accepted = open_link_question(json!(null));
    accepted.press("j enter");
    assert_eq!(answers(&mut accepted), [json!({ "action": "accept", "content": {} })]);
    let mut declined = open_link_question(json!(null));
    declined.press("j j j enter");
    assert_eq!(answers(&mut declined), [json!({ "action": "decline" })]);
}

#[test]
fn link_with_fields_is_accepted_by_its_form() {
    let schema = json!({ "type": "object", "properties": { "code": { "type": "string", "title": "Code" } } });
    let mut scene = open_link_question(schema);
    scene.press("a");
    assert_eq!(answers(&mut scene), Vec::<Value>::new(), "its fields are not filled in");
    scene.press("2");
    assert!(scene.text().contains("Code"), "{}", scene.text());
}
