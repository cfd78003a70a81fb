//! Prompts, drafts, interrupting and leaving.

use std::time::Duration;

use serde_json::json;
use wharf_api::ErrorCode;
use wharf_tui::{ApiFailure, DraftKey, StreamInput, TuiEffect, TuiInput};

use crate::scene::{Scene, page, session, text_row};

fn open_session(turn: &str) -> Scene {
    let mut scene = Scene::connected(80, 24);
    let about = session("sess_a", "Fix the parser", json!({ "turn": turn }));
    scene.list(std::slice::from_ref(&about));
    scene.press("enter");
    let stream = scene.opened_stream();
    scene.rows(stream, "page", page(about, &[text_row(3, "message", "hello")], &[]));
    scene
}

#[test]
fn refused_prompt_comes_back_before_the_text_typed_since() {
    let mut scene = open_session("idle");
    scene.type_text("first");
    scene.press("enter");
    let (id, call) = scene.take_calls().pop().unwrap();
    assert_eq!(call.path, "/sessions/sess_a/prompt");
    scene.type_text("second");
    let failure = ApiFailure {
        code: Some(ErrorCode::QUEUE_FULL),
        text: "the queue is full".to_owned(),
    };
    scene.feed(TuiInput::Answer { call: id, answer: Err(failure) });
    let text = scene.text();
    assert!(
        text.contains("❯ first\n  second") && text.contains("not sent: the queue is full"),
        "{text}"
    );
}

#[test]
fn draft_is_saved_after_a_moment_and_before_leaving() {
    let mut scene = open_session("idle");
    scene.type_text("half");
    scene.take_effects();
    scene.wait(Duration::from_secs(1));
    let saved = |text: &str| TuiEffect::SaveDraft {
        key: DraftKey::Session("sess_a".to_owned()),
        text: text.to_owned(),
    };
    assert!(scene.take_effects().contains(&saved("half")));
    scene.type_text(" more");
    scene.press("tab q");
    assert!(
        !scene
            .take_effects()
            .iter()
            .any(|effect| matches!(effect, TuiEffect::Leave { .. })),
        "q steps back"
    );
    scene.press("ctrl-t q");
    let effects = scene.take_effects();
    assert!(effects.contains(&saved("half more")), "{effects:?}");
    assert!(
        matches!(effects.last(), Some(TuiEffect::Leave { text }) if text.contains("wharf attach sess_a"))
    );
}

#[test]
fn way_back_names_the_label_if_a_shell_takes_it_as_it_is() {
    for (labels, way_back) in [
        (["docs", "other"], "wharf attach docs"),
        (["docs", "docs"], "wharf attach sess_a"),
        (["my docs", "other"], "wharf attach sess_a"),
        (["-f", "other"], "wharf attach sess_a"),
        ([".", "other"], "wharf attach sess_a"),
    ] {
        let mut scene = Scene::connected(80, 24);
        let [own, other] = labels.map(|label| json!({ "label": label }));
        let about = session("sess_a", "", own);
        scene.list(std::slice::from_ref(&about));
        scene.press("enter");
        let stream = scene.opened_stream();
        scene.rows(stream, "page", page(about.clone(), &[], &[]));
        scene.list(&[about, session("sess_b", "", other)]);
        scene.press("ctrl-d");
        let effects = scene.take_effects();
        let Some(TuiEffect::Leave { text }) = effects.last() else { panic!("{effects:?}") };
        assert!(text.ends_with(way_back), "{labels:?}: {text}");
    }
}

#[test]
fn prompt_is_not_sent_to_a_lost_host_and_its_text_stays() {
    let mut scene = open_session("idle");
    scene.feed(TuiInput::List(StreamInput::Lost { reason: String::new(), retry_in: None }));
    scene.type_text("later");
    scene.take_effects();
    scene.press("enter");
    assert_eq!(scene.take_calls(), []);
    assert!(scene.text().contains("❯ later"), "{}", scene.text());
}

#[test]
fn second_esc_interrupts_and_a_third_forces() {
    let mut scene = open_session("running");
    scene.take_effects();
    scene.type_text("x");
    scene.press("ctrl-c esc");
    assert!(scene.text().contains("Esc again to interrupt"), "{}", scene.text());
    scene.wait(Duration::from_secs(4));
    scene.press("esc");
    assert_eq!(scene.take_calls(), [], "the first one was too long ago");
    scene.press("esc esc");
    let bodies: Vec<_> = scene
        .take_calls()
        .into_iter()
        .map(|(_, call)| (call.path, call.body.unwrap()))
        .collect();
    let path = "/sessions/sess_a/interrupt".to_owned();
    assert_eq!(bodies, [(path.clone(), "{}".to_owned()), (path, r#"{"force":true}"#.to_owned())]);
}

#[test]
fn ctrl_c_clears_the_text_and_twice_without_text_leaves() {
    let mut scene = open_session("running");
    scene.type_text("text");
    scene.press("ctrl-c");
    assert!(!scene.text().contains("❯ text"));
    scene.press("ctrl-y");
    assert!(scene.text().contains("❯ text"), "{}", scene.text());
    scene.press("ctrl-c ctrl-c");
    assert!(scene.text().contains("again to detach"), "{}", scene.text());
    scene.take_effects();
    scene.press("ctrl-c");
    let effects = scene.take_effects();
    assert!(effects.iter().any(|effect| matches!(effect, TuiEffect::Leave { .. })), "{effects:?}");
    assert!(
        !effects.iter().any(|effect| matches!(effect, TuiEffect::Call { .. })),
        "no agent is ended: {effects:?}"
    );
}

#[test]
fn idle_client_waits_for_nothing() {
    let mut scene = open_session("idle");
    scene.refuse_all();
    assert_eq!(scene.state.next_wake(), None);
}
