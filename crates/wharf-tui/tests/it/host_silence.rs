//! A host that does not answer (rule 19.8): the client says so in time, and anything that comes
//! from the host ends it.

use std::time::Duration;

use serde_json::json;
use wharf_api::ErrorCode;
use wharf_tui::{
    ApiFailure, CallId, HostReady, Moment, ProgramEnd, ScreenSize, StreamId, StreamInput,
    TuiEffect, TuiInput, TuiOptions, TuiState, update,
};

use crate::scene::{Scene, page, session, text_row};

const NOTICE: &str = "the host does not answer · your text is kept";

/// Opens a session whose host has answered everything.
fn open_session() -> (Scene, StreamId) {
    let size = ScreenSize { width: 80, height: 24 };
    let mut scene =
        Scene::starting(TuiOptions { size, may_start_host: true, ..TuiOptions::default() });
    scene.feed(TuiInput::HostReady(HostReady::default()));
    scene.feed(TuiInput::List(StreamInput::Connected));
    let about = session("sess_a", "Fix the parser", json!({}));
    scene.list(std::slice::from_ref(&about));
    scene.press("enter");
    let stream = scene.opened_stream();
    scene.rows(stream, "page", page(about, &[text_row(3, "message", "hello")], &[]));
    scene.refuse_all();
    scene.take_effects();
    (scene, stream)
}

/// Freezes the host and changes the session, which it does not answer.
fn send_to_frozen_host() -> (Scene, StreamId, CallId) {
    let (mut scene, stream) = open_session();
    scene.freeze_host();
    scene.press("ctrl-t z");
    let (call, _) = scene.take_calls().pop().expect("nothing was sent");
    (scene, stream, call)
}

fn is_silent(scene: &Scene) -> bool {
    scene.text().contains(NOTICE)
}

#[test]
fn silence_after_a_request_is_told_after_five_seconds() {
    let (mut scene, ..) = send_to_frozen_host();
    scene.wait(Duration::from_millis(4_900));
    assert!(!is_silent(&scene), "{}", scene.text());
    scene.wait(Duration::from_millis(200));
    assert!(is_silent(&scene), "{}", scene.text());
    scene.press("K");
    assert!(scene.text().contains("not done: the host does not answer"), "{}", scene.text());
}

#[test]
fn host_that_only_takes_longer_is_not_told_as_silent() {
    let (mut scene, _) = open_session();
    scene.press("ctrl-t z");
    scene.wait(Duration::from_secs(20));
    assert!(!is_silent(&scene), "the probe was answered: {}", scene.text());
}

#[test]
fn host_is_probed_after_two_seconds_and_then_every_two_seconds_until_it_answers() {
    let mut state = TuiState::new(TuiOptions::default(), Moment::default());
    let mut probes = Vec::new();
    let mut feed = |input: TuiInput, millis: u64| {
        let now = Moment { elapsed: Duration::from_millis(millis), unix_millis: millis };
        let effects = update(&mut state, input, now);
        probes.extend(effects.contains(&TuiEffect::ProbeHost).then_some(millis));
    };
    feed(TuiInput::HostReady(HostReady::default()), 0);
    feed(TuiInput::Tick, 1_900);
    feed(TuiInput::Tick, 2_000);
    feed(TuiInput::Tick, 4_500);
    feed(TuiInput::Tick, 5_000);
    feed(TuiInput::HostProbed { has_answered: false }, 6_000);
    feed(TuiInput::Tick, 8_000);
    feed(TuiInput::HostProbed { has_answered: true }, 9_000);
    // The calls of the start are still unanswered.
    feed(TuiInput::Tick, 10_900);
    feed(TuiInput::Tick, 11_000);
    assert_eq!(probes, [2_000, 8_000, 11_000]);
}

#[test]
fn host_that_freezes_after_another_answer_is_told_after_five_seconds() {
    let (mut scene, stream, _) = send_to_frozen_host();
    let beat =
        wharf_api::RowStreamEvent::read("beat", json!({ "asOf": "1-20", "now": "" })).unwrap();
    scene.wait(Duration::from_secs(1));
    // It was on its way when the host froze.
    scene.feed(TuiInput::Rows { stream, input: StreamInput::Event(beat) });
    scene.wait(Duration::from_millis(5_100));
    assert!(is_silent(&scene), "{}", scene.text());
}

#[test]
fn anything_that_comes_from_the_host_ends_the_silence() {
    let refusal = |call| {
        let failure = ApiFailure {
            code: Some(ErrorCode::UNKNOWN_SESSION),
            text: "no".to_owned(),
        };
        TuiInput::Answer { call, answer: Err(failure) }
    };
    let beat =
        wharf_api::RowStreamEvent::read("beat", json!({ "asOf": "1-20", "now": "" })).unwrap();
    let inputs: [&dyn Fn(CallId, StreamId) -> TuiInput; 6] = [
        &|call, _| TuiInput::Answer { call, answer: Ok(b"{}".to_vec()) },
        &|call, _| refusal(call),
        &|_, _| TuiInput::List(StreamInput::Connected),
        &|_, stream| TuiInput::Rows { stream, input: StreamInput::Event(beat.clone()) },
        &|_, stream| TuiInput::Rows { stream, input: StreamInput::Connected },
        &|_, _| TuiInput::HostProbed { has_answered: true },
    ];
    for (number, input) in inputs.iter().enumerate() {
        let (mut scene, stream, call) = send_to_frozen_host();
        scene.wait(Duration::from_secs(6));
        assert!(is_silent(&scene), "{}", scene.text());
        scene.feed(input(call, stream));
        assert!(!is_silent(&scene), "input {number}: {}", scene.text());
    }
}

#[test]
fn call_that_failed_on_the_way_does_not_end_the_silence() {
    let (mut scene, _, call) = send_to_frozen_host();
    scene.wait(Duration::from_secs(6));
    scene.refuse(call, "the host did not answer within 60 seconds");
    scene.wait(Duration::from_secs(5));
    assert!(is_silent(&scene), "{}", scene.text());
}

#[test]
fn silent_stream_is_told_at_once_and_starts_no_other_host() {
    for is_list in [true, false] {
        let (mut scene, stream) = open_session();
        scene.freeze_host();
        scene.feed(if is_list {
            TuiInput::List(StreamInput::Silent)
        } else {
            TuiInput::Rows { stream, input: StreamInput::Silent }
        });
        assert!(is_silent(&scene), "{}", scene.text());
        let starts = |effect: &TuiEffect| matches!(effect, TuiEffect::StartHost { .. });
        assert!(
            !scene.take_effects().iter().any(starts),
            "a host that is frozen holds its state directory"
        );
        scene.feed(TuiInput::List(StreamInput::Connected));
        assert!(scene.text().contains("the host answers again"), "{}", scene.text());
    }
}

#[test]
fn host_that_dies_while_it_is_silent_is_lost() {
    let (mut scene, ..) = send_to_frozen_host();
    scene.wait(Duration::from_secs(6));
    let lost = StreamInput::Lost {
        reason: "no host is running".to_owned(),
        retry_in: Some(Duration::from_secs(1)),
    };
    scene.feed(TuiInput::List(lost));
    assert!(scene.text().contains("host not reachable: starting it again"), "{}", scene.text());
}

#[test]
fn time_in_an_editor_does_not_count_as_silence() {
    let (mut scene, ..) = send_to_frozen_host();
    scene.pass_time_unnoticed(Duration::from_secs(60));
    scene.feed(TuiInput::Program(ProgramEnd::Editor(Ok("text".to_owned()))));
    assert!(!is_silent(&scene), "{}", scene.text());
    scene.wait(Duration::from_secs(5));
    assert!(is_silent(&scene), "{}", scene.text());
}

#[test]
fn idle_client_is_not_woken_for_the_host() {
    let (mut scene, _) = open_session();
    scene.feed(TuiInput::TerminalFocus(false));
    scene.refuse_all();
    assert_eq!(scene.state.next_wake(), None);
}
