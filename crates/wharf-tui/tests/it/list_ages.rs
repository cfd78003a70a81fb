//! The ages in the list go on while nothing happens, at the cost of one wake a minute.

use std::time::Duration;

use serde_json::json;

use crate::scene::{Scene, session};

/// Shows a list with one idle session that was started at this time, ten seconds ago.
fn show_idle_list(started_at: &str) -> Scene {
    let mut scene = Scene::connected(60, 20);
    scene.list(&[session("sess_a", "Fix the parser", json!({ "startedAt": started_at }))]);
    for (id, _) in scene.take_calls() {
        scene.refuse(id, "no answer");
    }
    scene.wait(Duration::from_secs(10));
    scene
}

#[test]
fn ages_of_an_idle_list_go_on_with_one_wake_a_minute() {
    let mut scene = show_idle_list("2026-11-17T09:58:30.000Z");
    assert!(scene.text().contains("1m"), "{}", scene.text());
    assert_eq!(scene.state.next_wake(), Some(Duration::from_secs(70)));
    scene.wait(Duration::from_secs(60));
    assert!(scene.text().contains("2m"), "{}", scene.text());
    assert_eq!(scene.state.next_wake(), Some(Duration::from_secs(130)));
}

#[test]
fn age_in_hours_wakes_the_client_when_the_hour_is_over() {
    let scene = show_idle_list("2026-11-17T07:30:00.000Z");
    assert!(scene.text().contains("2h"), "{}", scene.text());
    assert_eq!(scene.state.next_wake(), Some(Duration::from_secs(30 * 60)));
}

#[test]
fn client_without_an_age_on_the_screen_sleeps() {
    let mut scene = show_idle_list("2026-11-17T09:58:30.000Z");
    scene.press("?");
    scene.wait(Duration::from_secs(10));
    assert_eq!(scene.state.next_wake(), None, "the help covers the list");
    scene.press("esc");
    scene.feed(wharf_tui::TuiInput::TerminalFocus(false));
    assert_eq!(scene.state.next_wake(), None, "the window has no focus");
}
