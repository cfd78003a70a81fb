//! The rows that are held have a limit, also while the person reads far from the newest one.

use serde_json::{Value, json};
use wharf_tui::{StreamId, TuiEffect};

use crate::scene::{Scene, ask_row, page, session, text_row};

/// Opens a session with 100 rows, shows the oldest one, and lets 2,500 rows come.
fn read_above_a_flood() -> (Scene, StreamId) {
    let mut scene = Scene::connected(80, 24);
    let about = session("sess_a", "Fix the parser", json!({ "turn": "running" }));
    scene.list(std::slice::from_ref(&about));
    scene.press("enter");
    let stream = scene.opened_stream();
    let rows: Vec<Value> =
        (1..=100).map(|seq| text_row(seq, "message", &format!("row {seq}."))).collect();
    scene.rows(stream, "page", page(about, &rows, &[]));
    scene.press("tab g");
    for seq in 101..=2_600 {
        scene.rows(stream, "row", text_row(seq, "message", &format!("row {seq}.")));
    }
    scene.take_effects();
    (scene, stream)
}

fn opens_rows(scene: &mut Scene) -> usize {
    scene
        .take_effects()
        .iter()
        .filter(|effect| matches!(effect, TuiEffect::OpenRows { .. }))
        .count()
}

#[test]
fn newest_rows_are_dropped_while_older_ones_are_read_and_come_back() {
    let (mut scene, stream) = read_above_a_flood();
    assert!(scene.text().contains("row 1."), "{}", scene.text());
    assert!(scene.text().contains("↓ more than"), "{}", scene.text());
    scene.press("G");
    assert!(!scene.text().contains("row 2600."), "it was dropped: {}", scene.text());
    scene.press("G");
    assert_eq!(opens_rows(&mut scene), 1, "the rows are followed anew once");
    let about = session("sess_a", "Fix the parser", json!({ "turn": "running" }));
    let rows: Vec<Value> = (2_541..=2_600)
        .map(|seq| text_row(seq, "message", &format!("row {seq}.")))
        .collect();
    let mut newest = page(about, &rows, &[]);
    newest["before"] = json!("f4.1-2541");
    scene.rows(stream, "page", newest);
    assert!(scene.text().contains("row 2600.") && !scene.text().contains('↓'), "{}", scene.text());
    scene.rows(stream, "row", text_row(2_601, "message", "row 2601."));
    assert!(scene.text().contains("row 2601."), "{}", scene.text());
}

#[test]
fn reading_on_loads_the_rows_that_were_dropped() {
    let (mut scene, stream) = read_above_a_flood();
    for _ in 0..300 {
        scene.press("pgdn");
    }
    let calls = scene.take_calls();
    let newer: Vec<&str> = calls.iter().map(|(_, call)| call.path.as_str()).collect();
    assert_eq!(newer, ["/sessions/sess_a/rows?limit=200&around=1-2000"]);
    let before = scene.text();
    assert!(before.contains("row 2000."), "{before}");
    let rows: Vec<Value> = (1_901..=2_100)
        .map(|seq| text_row(seq, "message", &format!("row {seq}.")))
        .collect();
    let mut next = page(session("sess_a", "Fix the parser", json!({})), &rows, &[]);
    (next["before"], next["after"]) = (json!("f4.1-1901"), json!("f4.1-2100"));
    scene.answer(calls[0].0, &next);
    assert!(scene.text().contains("row 2000."), "the rows in view stay: {}", scene.text());
    scene.press("pgdn");
    assert!(scene.text().contains("row 2001."), "{}", scene.text());
    scene.rows(stream, "row", text_row(2_601, "message", "row 2601."));
    for _ in 0..40 {
        scene.press("pgdn");
    }
    let calls = scene.take_calls();
    assert_eq!(calls[0].1.path, "/sessions/sess_a/rows?limit=200&around=1-2100");
}

#[test]
fn question_that_comes_after_a_gap_is_shown() {
    let (mut scene, stream) = read_above_a_flood();
    scene.rows(stream, "row", ask_row(2_700, "rm -rf build"));
    scene.rows(stream, "state", json!({ "asks": ["1-2700"] }));
    assert!(scene.text().contains("rm -rf build"), "{}", scene.text());
}
