//! Streams that are lost or refused: the client tells the reason and what it does about it.

use std::time::Duration;

use serde_json::json;
use wharf_tui::{HostReady, ScreenSize, StreamInput, TuiEffect, TuiInput, TuiOptions};

use crate::scene::{Scene, page, session, text_row};

const RETRY_DELAY: Duration = Duration::from_secs(3);

fn lost<E>(reason: &str) -> StreamInput<E> {
    StreamInput::Lost { reason: reason.to_owned(), retry_in: Some(RETRY_DELAY) }
}

#[test]
fn session_whose_first_page_is_lost_is_still_opening() {
    let mut scene = Scene::connected(80, 24);
    let about = session("sess_a", "Fix the parser", json!({}));
    scene.list(std::slice::from_ref(&about));
    scene.press("enter");
    let stream = scene.opened_stream();
    scene.feed(TuiInput::Rows { stream, input: lost("the connection was lost") });
    scene.wait(Duration::from_secs(1));
    assert!(!scene.text().contains("nothing was said yet"), "{}", scene.text());
    assert!(scene.text().contains("opening…"), "{}", scene.text());
    scene.feed(TuiInput::Rows { stream, input: StreamInput::Connected });
    scene.rows(stream, "page", page(about, &[text_row(3, "message", "hello")], &[]));
    assert!(
        scene.text().contains("hello") && !scene.text().contains("opening…"),
        "{}",
        scene.text()
    );
}

#[test]
fn loss_of_the_list_names_its_reason() {
    let mut scene = Scene::connected(120, 24);
    scene.list(&[session("sess_a", "Fix the parser", json!({}))]);
    scene.feed(TuiInput::List(lost("the name cannot be resolved")));
    let text = scene.text();
    assert!(
        text.contains(
            "host not reachable · trying again in 3 s · your text is kept · the name cannot"
        ),
        "{text}"
    );
}

#[test]
fn loss_of_the_rows_alone_names_its_reason_until_they_come_back() {
    let mut scene = Scene::connected(120, 24);
    let about = session("sess_a", "Fix the parser", json!({}));
    scene.list(std::slice::from_ref(&about));
    scene.press("enter");
    let stream = scene.opened_stream();
    scene.rows(stream, "page", page(about, &[text_row(3, "message", "hello")], &[]));
    scene.feed(TuiInput::Rows { stream, input: lost("too many streams are open") });
    scene.wait(Duration::from_secs(10));
    let text = scene.text();
    assert!(
        text.contains("no news of this session · trying again · too many streams are open"),
        "{text}"
    );
    scene.feed(TuiInput::Rows { stream, input: StreamInput::Connected });
    assert!(!scene.text().contains("no news"), "{}", scene.text());
}

#[test]
fn host_that_dies_after_its_start_is_started_again_a_few_times() {
    let size = ScreenSize { width: 120, height: 24 };
    let mut scene =
        Scene::starting(TuiOptions { size, may_start_host: true, ..TuiOptions::default() });
    scene.feed(TuiInput::HostReady(HostReady::default()));
    scene.feed(TuiInput::List(StreamInput::Connected));
    let mut starts = 0;
    for _ in 0..5 {
        scene.feed(TuiInput::List(lost("no host is running")));
        let started = scene
            .take_effects()
            .iter()
            .any(|effect| matches!(effect, TuiEffect::StartHost { .. }));
        starts += i32::from(started);
        if started {
            assert!(scene.text().contains("starting it again"), "{}", scene.text());
            scene.feed(TuiInput::HostStarted(Ok(())));
        }
    }
    assert_eq!(starts, 3, "a host that dies at once is not started for ever");
    let text = scene.text();
    assert!(
        text.contains("host not started · Ctrl-X S tries again · it ended right after its start"),
        "{text}"
    );
    scene.press("ctrl-x s");
    assert!(scene.take_effects().contains(&TuiEffect::StartHost { is_urgent: true }));
}

#[test]
fn host_that_refuses_the_stream_is_not_told_as_gone_nor_started() {
    let size = ScreenSize { width: 120, height: 24 };
    let mut scene =
        Scene::starting(TuiOptions { size, may_start_host: true, ..TuiOptions::default() });
    scene.feed(TuiInput::HostReady(HostReady::default()));
    scene.feed(TuiInput::List(StreamInput::Connected));
    let refused = || StreamInput::Refused {
        reason: "the token is revoked".to_owned(),
        retry_in: RETRY_DELAY,
    };
    scene.feed(TuiInput::List(refused()));
    let starts = |scene: &mut Scene| {
        scene
            .take_effects()
            .iter()
            .filter(|effect| matches!(effect, TuiEffect::StartHost { .. }))
            .count()
    };
    assert_eq!(starts(&mut scene), 0);
    assert!(
        scene
            .text()
            .contains("the host refuses: the token is revoked · trying again in 3 s"),
        "{}",
        scene.text()
    );
    scene.wait(Duration::from_secs(2));
    assert!(scene.text().contains("trying again in 1 s"), "{}", scene.text());
    scene.feed(TuiInput::List(lost("no host is running")));
    assert_eq!(starts(&mut scene), 1, "it is gone now");
}
