//! Little room: the most important facts stay, and a screen that is too small says so.

use serde_json::{Value, json};
use wharf_tui::{HostReady, ScreenSize, TuiInput, TuiOptions};

use crate::frames::check_frame;
use crate::scene::{Scene, page, session, text_row};

/// Opens a session with two waiting prompts, a mode and a model with long names, a context and a
/// cost.
fn open_with_long_names(width: u16, height: u16) -> Scene {
    let mut scene = Scene::connected(width, height);
    let about = session(
        "sess_a",
        "Fix the parser",
        json!({ "context": { "used": 38, "size": 100 },
        "usage": { "input": null, "output": null, "cached": null, "total": null,
            "cost": { "amount": 0.41, "currency": "USD" } } }),
    );
    scene.list(std::slice::from_ref(&about));
    scene.press("enter");
    let stream = scene.opened_stream();
    let mut first = page(about, &[text_row(3, "message", "hello")], &[]);
    let choice = |name: &str| json!({ "current": "a", "all": [{ "id": "a", "name": name }] });
    first["state"]["settings"] = json!({ "id": "sess_a", "options": [], "commands": [],
        "modes": choice("Accept all edits in this directory"), "models": choice("Opus 4.5 with a very long context") });
    let waiting = |position: u64, text: &str| -> Value {
        json!({ "promptId": format!("prm_{position}"), "position": position, "text": text, "sender": "zed" })
    };
    first["state"]["queue"] =
        json!([waiting(0, "then the changelog"), waiting(1, "and open a PR")]);
    scene.rows(stream, "page", first);
    scene
}

#[test]
fn context_and_cost_stay_in_view_with_long_names() {
    for (width, shown) in
        [(120, "Opus 4.5 with a very long context · 38 % · $0.41"), (80, "38 % · $0.41")]
    {
        let mut scene = open_with_long_names(width, 24);
        scene.press("ctrl-t ctrl-t");
        let text = scene.text();
        let head = text.lines().next().unwrap();
        assert!(head.contains(shown), "{head}");
        assert!(head.contains("Fix the parser"), "{head}");
    }
    let narrow = open_with_long_names(24, 24);
    assert!(narrow.text().contains("38 % · $0.41"), "{}", narrow.text());
}

#[test]
fn queue_shrinks_to_one_line_on_a_low_screen() {
    let high = open_with_long_names(80, 24);
    assert!(high.text().contains("2 and open a PR"), "{}", high.text());
    for height in [8, 12] {
        let low = open_with_long_names(80, height);
        assert!(
            low.text().contains("─ Queue 2 · then the changelog ─"),
            "{height}: {}",
            low.text()
        );
        assert!(!low.text().contains("and open a PR"), "{height}: {}", low.text());
    }
}

#[test]
fn screen_that_is_too_small_says_how_large_it_should_be() {
    for (width, height, is_small) in
        [(60, 12, false), (59, 12, true), (60, 11, true), (30, 6, true)]
    {
        let scene = open_with_long_names(width, height);
        let says = format!("needs 60×12 cells, has {width}×{height}");
        assert_eq!(scene.text().contains(&says), is_small, "{width}x{height}: {}", scene.text());
        assert!(scene.text().contains('❯'), "{width}x{height}: {}", scene.text());
    }
    check_frame(&open_with_long_names(40, 10), "too_small_40x10");
}

#[test]
fn name_of_a_host_on_another_machine_stands_in_the_list() {
    let size = ScreenSize { width: 60, height: 20 };
    let mut scene = Scene::starting(TuiOptions { size, ..TuiOptions::default() });
    scene.feed(TuiInput::HostReady(HostReady {
        host_name: Some("build-box".to_owned()),
        session: None,
    }));
    scene.list(&[session("sess_a", "Fix the parser", json!({}))]);
    assert!(scene.text().starts_with(" Sessions · host: build-box"), "{}", scene.text());
}

#[test]
fn agent_stands_in_the_row_of_a_session_with_a_last_line() {
    let mut scene = Scene::connected(60, 20);
    scene.list(&[session("sess_a", "Fix the parser", json!({}))]);
    let calls = scene.take_calls();
    let (id, _) = calls.iter().find(|(_, call)| call.path.contains("/rows")).unwrap();
    let about = session("sess_a", "Fix the parser", json!({}));
    scene.answer(*id, &page(about, &[text_row(3, "message", "All tests pass.")], &[]));
    let text = scene.text();
    let row = text.lines().find(|line| line.contains("All tests pass.")).unwrap();
    assert!(row.ends_with("claude"), "{text}");
}
