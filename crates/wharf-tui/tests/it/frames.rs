//! Pictures as text files. `WHARF_BLESS=1` writes them anew.

use std::path::Path;

use serde_json::json;
use wharf_tui::{StreamInput, TuiInput};

use crate::scene::{Scene, ask_row, attention, page, row, session, text_row};

/// Compares the frame with the file of this name.
pub(crate) fn check_frame(scene: &Scene, name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it/frames")
        .join(format!("{name}.txt"));
    let text = format!("{}\n", scene.text());
    if std::env::var_os("WHARF_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "frame {name}; WHARF_BLESS=1 takes it as it is now");
}

fn three_sessions() -> Vec<serde_json::Value> {
    vec![
        session(
            "sess_a",
            "Fix the parser",
            attention(
                "needs_answer",
                "2026-11-17T09:58:00.000Z",
                Some("rm -rf build && git push --force"),
            ),
        ),
        session(
            "sess_b",
            "Translate the posts",
            attention("working", "2026-11-17T09:59:00.000Z", None),
        ),
        session(
            "sess_c",
            "Write the README",
            attention("finished", "2026-11-17T09:46:00.000Z", Some("Done.")),
        ),
    ]
}

fn open_conversation(width: u16, height: u16) -> Scene {
    let mut scene = Scene::connected(width, height);
    scene.list(&three_sessions());
    scene.press("g enter");
    let stream = scene.opened_stream();
    let tool = json!({ "toolCallId": "t", "title": "cargo test -p parser", "toolKind": "execute", "state": "failed", "startedAt": "2026-11-17T09:58:00.000Z",
        "endedAt": "2026-11-17T09:58:14.000Z",
        "output": { "text": "assertion failed\n  left: 3\n right: 4\n", "bytes": 40, "lines": 3, "exitCode": 101,
            "signal": null } });
    let rows = [
        row(
            2,
            "prompt",
            "Fix it",
            json!({ "by": { "name": "zed" }, "acceptedAt": null,
            "parts": [{ "type": "text", "text": "The parser drops the last line. Fix it, add a test." }] }),
        ),
        text_row(3, "thought", "I look at the parser first."),
        row(4, "tool", "cargo test -p parser (exit code 101)", tool),
        text_row(
            5,
            "message",
            "The test is right and my fix was one line too short: 日本語 and \u{1b}[31mcolours\u{1b}[0m \
            stay harmless.",
        ),
        ask_row(14, "rm -rf build && git push --force"),
    ];
    let about = session(
        "sess_a",
        "Fix the parser",
        json!({ "turn": "awaiting_input",
        "context": { "used": 76_000, "size": 200_000 },
        "usage": { "input": null, "output": null, "cached": null, "total": null,
            "cost": { "amount": 0.41, "currency": "USD" } } }),
    );
    scene.rows(stream, "page", page(about, &rows, &["1-14"]));
    scene
}

#[test]
fn list_stands_beside_the_open_session_on_a_wide_screen() {
    check_frame(&open_conversation(120, 32), "conversation_120x32");
}

#[test]
fn one_pane_fills_a_narrow_screen() {
    let mut scene = open_conversation(60, 20);
    check_frame(&scene, "conversation_60x20");
    scene.press("ctrl-t");
    check_frame(&scene, "list_60x20");
}

#[test]
fn focused_ask_shows_its_subject_and_its_options() {
    let mut scene = open_conversation(80, 24);
    scene.press("ctrl-g");
    check_frame(&scene, "ask_80x24");
}

#[test]
fn palette_and_help_lie_over_the_panes() {
    let mut scene = open_conversation(80, 24);
    scene.press("ctrl-p");
    scene.type_text("sess");
    check_frame(&scene, "palette_80x24");
    scene.press("esc tab ?");
    check_frame(&scene, "help_80x24");
}

#[test]
fn lost_host_is_told_and_the_conversation_stays() {
    let mut scene = open_conversation(80, 24);
    scene.type_text("half a thought");
    let lost = StreamInput::Lost {
        reason: "gone".to_owned(),
        retry_in: Some(std::time::Duration::from_secs(3)),
    };
    scene.feed(TuiInput::List(lost));
    check_frame(&scene, "lost_80x24");
}
