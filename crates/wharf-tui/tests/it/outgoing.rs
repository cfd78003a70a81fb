//! Prompts on their way to the host (rule 19.8): shown at once, sent until they are taken, and
//! never lost.

use std::time::Duration;

use serde_json::json;
use wharf_api::ErrorCode;
use wharf_tui::{ApiCall, ApiFailure, CallId, DraftKey, StreamInput, TuiEffect, TuiInput};

use crate::frames::check_frame;
use crate::scene::{Scene, page, session, text_row};

fn open_session() -> Scene {
    let mut scene = Scene::connected(60, 20);
    let about = session("sess_a", "Fix the parser", json!({}));
    scene.list(std::slice::from_ref(&about));
    scene.press("enter");
    let stream = scene.opened_stream();
    scene.rows(stream, "page", page(about, &[text_row(3, "message", "hello")], &[]));
    scene.wait(Duration::from_secs(3));
    scene.take_effects();
    scene
}

fn send(scene: &mut Scene, text: &str) {
    scene.type_text(text);
    scene.press("enter");
}

/// Returns the prompts that were sent since the last look.
fn sent_prompts(scene: &mut Scene) -> Vec<(CallId, ApiCall)> {
    let mut calls = scene.take_calls();
    calls.retain(|(_, call)| call.path.ends_with("/prompt"));
    calls
}

fn bodies(sent: &[(CallId, ApiCall)]) -> Vec<&str> {
    sent.iter().filter_map(|(_, call)| call.body.as_deref()).collect()
}

fn is_sending(scene: &Scene) -> bool {
    scene.text().contains("▌ sending…")
}

fn lose_answer(scene: &mut Scene, call: CallId) {
    scene.refuse(call, "the host on /run/wharf.sock is gone");
}

/// Returns the last text of the session that was written to disk since the last look.
fn kept_on_disk(scene: &mut Scene) -> Option<String> {
    let mut newest_first = scene.take_effects().into_iter().rev();
    newest_first.find_map(|effect| match effect {
        TuiEffect::SaveDraft { key, text } if key == DraftKey::Session("sess_a".to_owned()) => {
            Some(text)
        }
        _ => None,
    })
}

/// Waits until the client says that its host does not answer.
fn freeze_until_told(scene: &mut Scene) {
    scene.freeze_host();
    scene.feed(TuiInput::List(StreamInput::Silent));
    assert!(scene.text().contains("the host does not answer"), "{}", scene.text());
}

#[test]
fn prompt_is_shown_at_once_until_the_host_has_taken_it() {
    let mut scene = open_session();
    send(&mut scene, "Keep the newline, and add a test for the last line of the file");
    check_frame(&scene, "sending_60x20");
    let (call, _) = sent_prompts(&mut scene).remove(0);
    scene.answer(call, &json!({}));
    assert!(!is_sending(&scene), "{}", scene.text());
}

#[test]
fn prompts_of_a_session_are_sent_in_the_order_in_which_they_were_written() {
    let mut scene = open_session();
    send(&mut scene, "first");
    send(&mut scene, "second");
    let sent = sent_prompts(&mut scene);
    assert_eq!(bodies(&sent), [r#"{"prompt":"first","queue":true}"#]);
    assert!(scene.text().contains("▌ second"), "{}", scene.text());
    scene.answer(sent[0].0, &json!({}));
    let sent = sent_prompts(&mut scene);
    assert_eq!(bodies(&sent), [r#"{"prompt":"second","queue":true}"#]);
    scene.answer(sent[0].0, &json!({}));
    assert!(!is_sending(&scene), "{}", scene.text());
}

#[test]
fn prompt_without_an_answer_is_sent_again_as_it_was_until_it_is_taken() {
    let mut scene = open_session();
    send(&mut scene, "once");
    let (mut call, first) = sent_prompts(&mut scene).remove(0);
    for _ in 0..3 {
        lose_answer(&mut scene, call);
        assert!(is_sending(&scene), "{}", scene.text());
        assert_eq!(sent_prompts(&mut scene), [], "not at once");
        scene.wait(Duration::from_secs(2));
        let (next, again) = sent_prompts(&mut scene).remove(0);
        assert_eq!(again, first);
        call = next;
    }
    scene.answer(call, &json!({}));
    scene.wait(Duration::from_secs(60));
    assert_eq!(sent_prompts(&mut scene), []);
}

#[test]
fn prompt_for_a_host_that_does_not_answer_is_sent_when_it_does() {
    let mut scene = open_session();
    freeze_until_told(&mut scene);
    send(&mut scene, "later");
    scene.wait(Duration::from_secs(60));
    assert_eq!(sent_prompts(&mut scene), []);
    assert!(is_sending(&scene), "{}", scene.text());
    scene.feed(TuiInput::HostProbed { has_answered: true });
    assert_eq!(bodies(&sent_prompts(&mut scene)), [r#"{"prompt":"later","queue":true}"#]);
}

#[test]
fn prompt_that_a_frozen_host_has_got_is_sent_again_only_if_no_answer_follows() {
    for answers in [true, false] {
        let mut scene = open_session();
        send(&mut scene, "once");
        let (call, first) = sent_prompts(&mut scene).remove(0);
        freeze_until_told(&mut scene);
        scene.feed(TuiInput::List(StreamInput::Connected));
        if answers {
            scene.answer(call, &json!({}));
        }
        scene.wait(Duration::from_secs(10));
        let again: Vec<ApiCall> =
            sent_prompts(&mut scene).into_iter().map(|(_, call)| call).collect();
        assert_eq!(again, if answers { vec![] } else { vec![first] });
    }
}

#[test]
fn prompt_outlives_the_loss_of_its_host() {
    let mut scene = open_session();
    send(&mut scene, "once");
    let (call, first) = sent_prompts(&mut scene).remove(0);
    lose_answer(&mut scene, call);
    let retry_in = Some(Duration::from_secs(1));
    scene.feed(TuiInput::List(StreamInput::Lost {
        reason: "no host is running".to_owned(),
        retry_in,
    }));
    scene.wait(Duration::from_secs(30));
    assert_eq!(sent_prompts(&mut scene), []);
    scene.feed(TuiInput::List(StreamInput::Connected));
    let (_, again) = sent_prompts(&mut scene).remove(0);
    assert_eq!(again, first);
}

#[test]
fn refused_prompt_comes_back_and_lets_the_next_one_go() {
    let mut scene = open_session();
    send(&mut scene, "first");
    send(&mut scene, "second");
    let (call, _) = sent_prompts(&mut scene).remove(0);
    let failure = ApiFailure {
        code: Some(ErrorCode::QUEUE_FULL),
        text: "the queue is full".to_owned(),
    };
    scene.feed(TuiInput::Answer { call, answer: Err(failure) });
    let text = scene.text();
    assert!(text.contains("❯ first") && text.contains("not sent: the queue is full"), "{text}");
    assert_eq!(bodies(&sent_prompts(&mut scene)), [r#"{"prompt":"second","queue":true}"#]);
}

#[test]
fn prompt_that_is_not_taken_is_kept_on_disk_before_the_text_that_follows_it() {
    let mut scene = open_session();
    send(&mut scene, "on its way");
    scene.type_text("half");
    scene.wait(Duration::from_secs(1));
    let (call, _) = {
        let effects = scene.take_effects();
        let saved: Vec<&str> = effects
            .iter()
            .filter_map(|effect| match effect {
                TuiEffect::SaveDraft { text, .. } => Some(text.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(saved, ["on its way\nhalf"]);
        let sent = effects.into_iter().find_map(|effect| match effect {
            TuiEffect::Call { id, call } => Some((id, call)),
            _ => None,
        });
        sent.unwrap()
    };
    assert!(scene.text().contains("❯ half"), "{}", scene.text());
    scene.answer(call, &json!({}));
    scene.wait(Duration::from_secs(1));
    assert_eq!(kept_on_disk(&mut scene).as_deref(), Some("half"));
}

#[test]
fn prompt_is_taken_back_into_the_empty_field_and_stays_the_same_prompt() {
    let mut scene = open_session();
    send(&mut scene, "once");
    let (call, first) = sent_prompts(&mut scene).remove(0);
    scene.press("up");
    assert!(is_sending(&scene), "a host that answers has it in a moment: {}", scene.text());
    scene.press("down");
    lose_answer(&mut scene, call);
    assert!(scene.text().contains("sending… · ↑ takes it back"), "{}", scene.text());
    scene.press("up");
    assert!(!is_sending(&scene) && scene.text().contains("❯ once"), "{}", scene.text());
    scene.wait(Duration::from_secs(10));
    assert_eq!(sent_prompts(&mut scene), []);
    scene.press("enter");
    let (_, again) = sent_prompts(&mut scene).remove(0);
    assert_eq!(again, first);
}

#[test]
fn prompt_that_is_taken_back_twice_stays_the_same_prompt() {
    let mut scene = open_session();
    send(&mut scene, "once");
    let (_, first) = sent_prompts(&mut scene).remove(0);
    freeze_until_told(&mut scene);
    scene.press("up enter up enter");
    assert_eq!(sent_prompts(&mut scene), [], "the host does not answer");
    scene.feed(TuiInput::HostProbed { has_answered: true });
    let (_, again) = sent_prompts(&mut scene).remove(0);
    assert_eq!(again, first);
}

#[test]
fn prompt_that_was_taken_back_too_late_is_told_and_is_no_longer_known() {
    let mut scene = open_session();
    send(&mut scene, "continue");
    let (call, first) = sent_prompts(&mut scene).remove(0);
    freeze_until_told(&mut scene);
    scene.press("up");
    scene.answer(call, &json!({}));
    assert!(scene.text().contains("the host had taken the prompt already"), "{}", scene.text());
    scene.press("enter");
    let (_, later) = sent_prompts(&mut scene).remove(0);
    assert_ne!(later.idempotency_key, first.idempotency_key, "it is another prompt");
}

#[test]
fn same_text_after_another_prompt_is_another_prompt() {
    let mut scene = open_session();
    send(&mut scene, "continue");
    let (call, first) = sent_prompts(&mut scene).remove(0);
    lose_answer(&mut scene, call);
    scene.press("up ctrl-c");
    send(&mut scene, "stop here");
    let (call, _) = sent_prompts(&mut scene).remove(0);
    scene.answer(call, &json!({}));
    send(&mut scene, "continue");
    let (_, later) = sent_prompts(&mut scene).remove(0);
    assert_ne!(later.idempotency_key, first.idempotency_key);
}

#[test]
fn prompts_of_a_session_that_is_not_open_are_sent_too() {
    let mut scene = open_session();
    scene.list(&[
        session("sess_a", "Fix the parser", json!({})),
        session("sess_b", "Other", json!({})),
    ]);
    send(&mut scene, "once");
    let (call, first) = sent_prompts(&mut scene).remove(0);
    scene.press("ctrl-t down enter");
    assert!(!is_sending(&scene), "it is another session's: {}", scene.text());
    lose_answer(&mut scene, call);
    scene.wait(Duration::from_secs(2));
    let (_, again) = sent_prompts(&mut scene).remove(0);
    assert_eq!(again, first);
    scene.press("ctrl-t up enter");
    assert!(is_sending(&scene), "{}", scene.text());
}
