//! A host that goes away: one that died is started again, one that was told to stop is not.

use std::time::Duration;

use serde_json::json;
use wharf_api::SessionStreamEvent;
use wharf_tui::{HostReady, ScreenSize, StreamInput, TuiEffect, TuiInput, TuiOptions};

use crate::scene::{Scene, session};

/// Starts a client that is connected to a host, which it may start or not.
fn connected(may_start_host: bool) -> Scene {
    let size = ScreenSize { width: 80, height: 24 };
    let mut scene = Scene::starting(TuiOptions { size, may_start_host, ..TuiOptions::default() });
    scene.feed(TuiInput::HostReady(HostReady::default()));
    scene.feed(TuiInput::List(StreamInput::Connected));
    scene.list(&[session("sess_a", "Fix the parser", json!({}))]);
    scene.take_effects();
    scene
}

fn lose_host(scene: &mut Scene) {
    let retry_in = Some(Duration::from_secs(1));
    scene.feed(TuiInput::List(StreamInput::Lost {
        reason: "no host is running".to_owned(),
        retry_in,
    }));
}

fn announce_stop(scene: &mut Scene) {
    let event = SessionStreamEvent::read("stopping", json!({ "pid": 7 })).unwrap();
    scene.feed(TuiInput::List(StreamInput::Event(event)));
}

fn starts(scene: &mut Scene) -> Vec<TuiEffect> {
    let mut effects = scene.take_effects();
    effects.retain(|effect| matches!(effect, TuiEffect::StartHost { .. }));
    effects
}

#[test]
fn host_that_died_is_started_again_once() {
    let mut scene = connected(true);
    lose_host(&mut scene);
    assert_eq!(starts(&mut scene), [TuiEffect::StartHost { is_urgent: false }]);
    assert!(scene.text().contains("starting it again"), "{}", scene.text());
    lose_host(&mut scene);
    assert_eq!(starts(&mut scene), []);
    scene.feed(TuiInput::HostStarted(Err(
        "the state directory is damaged · more: wharf doctor".to_owned()
    )));
    lose_host(&mut scene);
    assert_eq!(starts(&mut scene), []);
    assert!(
        scene
            .text()
            .contains("host not started · Ctrl-X S tries again · the state directory"),
        "{}",
        scene.text()
    );
    scene.feed(TuiInput::List(StreamInput::Connected));
    assert!(scene.text().contains("connected again"), "{}", scene.text());
    lose_host(&mut scene);
    assert_eq!(starts(&mut scene).len(), 1, "the next loss is a new one");
}

#[test]
fn host_that_was_told_to_stop_is_started_only_by_the_person() {
    let mut scene = connected(true);
    announce_stop(&mut scene);
    assert!(scene.text().contains("the host is stopping"), "{}", scene.text());
    lose_host(&mut scene);
    lose_host(&mut scene);
    assert_eq!(starts(&mut scene), []);
    assert!(
        scene.text().contains("the host was stopped · Ctrl-X S starts it again"),
        "{}",
        scene.text()
    );
    scene.press("K");
    assert!(scene.text().contains("not done: the host was stopped"), "{}", scene.text());
    scene.press("esc ctrl-x s");
    assert_eq!(starts(&mut scene), [TuiEffect::StartHost { is_urgent: true }]);
    scene.wait(Duration::from_secs(5));
    assert!(scene.text().contains("starting it again"), "{}", scene.text());
}

#[test]
fn host_that_comes_back_after_a_stop_is_used_without_a_start() {
    let mut scene = connected(true);
    announce_stop(&mut scene);
    lose_host(&mut scene);
    scene.feed(TuiInput::List(StreamInput::Connected));
    assert!(scene.text().contains("connected again"), "{}", scene.text());
    assert_eq!(starts(&mut scene), []);
    lose_host(&mut scene);
    assert_eq!(starts(&mut scene).len(), 1, "the stop was that of the earlier host");
}

#[test]
fn client_that_may_not_start_a_host_waits_for_it() {
    let mut scene = connected(false);
    lose_host(&mut scene);
    assert!(scene.text().contains("host not reachable · trying again"), "{}", scene.text());
    scene.press("ctrl-x s");
    assert!(scene.text().contains("not started from here"), "{}", scene.text());
    assert_eq!(starts(&mut scene), []);
}
