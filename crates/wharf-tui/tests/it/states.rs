//! The states of a session and its agent, each drawn once.

use std::time::Duration;

use serde_json::{Value, json};

use crate::frames::check_frame;
use crate::scene::{Scene, page, session, text_row};

fn open_with(members: Value) -> Scene {
    let mut scene = Scene::connected(80, 24);
    open_session(&mut scene, members);
    scene
}

/// Returns the description of a host with these members.
fn host_info(members: Value) -> Value {
    let mut host = json!({ "version": env!("CARGO_PKG_VERSION"), "pid": 1, "url": "http://127.0.0.1:1", "stateDir": "/s",
        "defaultAgent": "demo", "sessions": { "live": 0, "total": 0 } });
    host.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    host
}

fn open_session(scene: &mut Scene, members: Value) {
    let about = session("sess_a", "Fix the parser", members);
    scene.list(std::slice::from_ref(&about));
    scene.press("enter");
    let stream = scene.opened_stream();
    scene.rows(stream, "page", page(about, &[text_row(3, "message", "hello")], &[]));
    scene.take_effects();
}

#[test]
fn failed_start_is_a_card_with_the_reason_and_the_ways_on() {
    let mut scene =
        open_with(json!({ "status": "error", "endReason": "start_failed", "exitCode": 1,
        "message": "claude ended before it was ready\nError: no such model", "resumable": true }));
    check_frame(&scene, "start_failed_80x24");
    scene.press("ctrl-x r");
    let (_, call) = scene.take_calls().pop().unwrap();
    assert_eq!(call.path, "/sessions/sess_a/resume");
    scene.press("ctrl-x l");
    let login = wharf_tui::TuiEffect::RunLogin { adapter: "claude".to_owned() };
    assert!(scene.take_effects().contains(&login));
}

#[test]
fn killed_session_closes_its_composer_and_says_how_it_comes_back() {
    let mut scene = open_with(
        json!({ "status": "killed", "endReason": "user", "endedAt": "2026-11-17T09:55:00.000Z" }),
    );
    check_frame(&scene, "killed_80x24");
    scene.type_text("hello");
    assert!(!scene.text().contains("❯ hello"), "{}", scene.text());
}

#[test]
fn slow_start_is_explained_and_its_seconds_run() {
    let mut scene =
        open_with(json!({ "status": "starting", "startedAt": "2026-11-17T09:59:54.000Z" }));
    assert!(scene.text().contains("» starting claude · 6 s · Enter queues"), "{}", scene.text());
    scene.wait(Duration::from_secs(10));
    assert!(
        scene.text().contains("16 s · the first start may download the adapter"),
        "{}",
        scene.text()
    );
}

#[test]
fn sleeping_paused_and_interrupted_sessions_are_told_apart() {
    let asleep = open_with(json!({ "status": "exited", "endReason": "idle" }));
    let mut stopped = open_with(json!({ "status": "killed", "endReason": "host_shutdown" }));
    stopped.type_text("wake up");
    assert!(
        stopped.text().contains("❯ wake up"),
        "a stopped host closes no composer: {}",
        stopped.text()
    );
    assert!(asleep.text().contains("z asleep · the next prompt wakes it"), "{}", asleep.text());
    let paused = open_with(json!({ "paused": "storage_full" }));
    assert!(
        paused.text().contains("paused: disk full · kill and interrupt work"),
        "{}",
        paused.text()
    );
}

#[test]
fn countdown_of_an_interrupt_is_the_timeout_of_the_host() {
    let mut unknown = open_with(json!({ "turn": "running" }));
    unknown.press("esc esc");
    assert!(unknown.text().contains("interrupting · Esc ends it by force"), "{}", unknown.text());

    let mut scene = Scene::connected(80, 24);
    let asked = scene.take_calls();
    let (call, _) = asked
        .iter()
        .find(|(_, call)| call.path == "/host")
        .expect("the host is not asked");
    scene.answer(*call, &host_info(json!({ "cancelTimeoutMs": 45_000 })));
    open_session(&mut scene, json!({ "turn": "running" }));
    scene.press("esc esc");
    assert!(scene.text().contains("interrupting · forced in 45 s"), "{}", scene.text());
    scene.wait(Duration::from_secs(12));
    assert!(scene.text().contains("forced in 33 s · Esc ends it by force now"), "{}", scene.text());
}

#[test]
fn filter_without_a_match_says_where_it_looked() {
    let mut scene = Scene::connected(80, 24);
    scene.list(&[session("sess_a", "Fix the parser", json!({}))]);
    scene.press("/");
    scene.type_text("zebra");
    check_frame(&scene, "filter_nothing_80x24");
    scene.press("esc");
    assert!(scene.text().contains("Fix the parser"), "{}", scene.text());
}
