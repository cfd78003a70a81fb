//! Messages are true: a key as it is written, and a change that was or was not made.

use std::time::Duration;

use serde_json::json;
use wharf_tui::{StreamInput, TuiEffect, TuiInput};

use crate::scene::{Scene, ask_row, page, session, text_row};

#[test]
fn keys_after_the_prefix_act_in_both_cases() {
    let mut scene = Scene::connected(80, 24);
    let about = session(
        "sess_a",
        "Fix the parser",
        json!({ "status": "error", "endReason": "start_failed" }),
    );
    scene.list(std::slice::from_ref(&about));
    scene.press("enter");
    let stream = scene.opened_stream();
    scene.rows(stream, "page", page(about, &[], &[]));
    for keys in ["ctrl-x r", "ctrl-x R"] {
        scene.take_effects();
        scene.press(keys);
        let calls = scene.take_calls();
        assert!(
            calls.iter().any(|(_, call)| call.path == "/sessions/sess_a/resume"),
            "{keys}: {calls:?}"
        );
    }
}

/// Opens a session whose agent has three modes.
fn open_with_modes() -> Scene {
    let mut scene = Scene::connected(80, 24);
    let about = session("sess_a", "Fix the parser", json!({}));
    scene.list(std::slice::from_ref(&about));
    scene.press("enter");
    let stream = scene.opened_stream();
    let mut page = page(about, &[text_row(3, "message", "hello")], &[]);
    let modes = ["ask", "build", "plan"].map(|id| json!({ "id": id, "name": id }));
    page["state"]["settings"] = json!({ "id": "sess_a", "options": [], "commands": [],
        "modes": { "current": "ask", "all": modes } });
    scene.rows(stream, "page", page);
    scene.take_effects();
    scene
}

#[test]
fn mode_is_told_only_if_it_is_requested() {
    let mut scene = open_with_modes();
    scene.press("shift-tab");
    assert!(scene.text().contains("mode: build"), "{}", scene.text());
    scene.feed(TuiInput::List(StreamInput::Lost { reason: "gone".to_owned(), retry_in: None }));
    scene.press("shift-tab");
    assert!(scene.text().contains("not done: the host is not reachable"), "{}", scene.text());
}

#[test]
fn each_press_goes_to_the_mode_after_the_last_one() {
    let mut scene = open_with_modes();
    scene.press("shift-tab shift-tab");
    let calls = scene.take_calls();
    let wanted: Vec<&str> = calls.iter().filter_map(|(_, call)| call.body.as_deref()).collect();
    assert_eq!(wanted, [r#"{"mode":"build"}"#, r#"{"mode":"plan"}"#]);
    scene.refuse(calls[1].0, "the agent is gone");
    scene.press("shift-tab");
    let calls = scene.take_calls();
    assert_eq!(
        calls[0].1.body.as_deref(),
        Some(r#"{"mode":"build"}"#),
        "a refused mode is not the current one"
    );
}

#[test]
fn question_without_a_command_or_path_leaves_the_clipboard_alone() {
    let mut scene = Scene::connected(80, 24);
    let about = session("sess_a", "Fix the parser", json!({ "turn": "awaiting_input" }));
    scene.list(std::slice::from_ref(&about));
    scene.press("enter");
    let stream = scene.opened_stream();
    let mut ask = ask_row(14, "");
    ask["subject"]["command"] = json!(null);
    scene.rows(stream, "page", page(about, &[ask], &["1-14"]));
    scene.wait(Duration::from_secs(1));
    scene.press("ctrl-g y");
    assert!(!scene.take_effects().iter().any(|effect| matches!(effect, TuiEffect::Copy(_))));
    assert!(scene.text().contains("nothing to copy"), "{}", scene.text());
}
