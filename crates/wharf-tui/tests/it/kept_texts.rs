//! Texts that must not be lost, and keys that must not act on something else than the person saw.

use std::time::Duration;

use serde_json::{Value, json};
use wharf_api::ErrorCode;
use wharf_tui::{
    ApiFailure, CallId, DraftKey, ProgramEnd, StreamId, StreamInput, TuiEffect, TuiInput,
};

use crate::scene::{Scene, ask_row, page, row, session, text_row};

fn open_session(turn: &str, queue: &Value) -> (Scene, StreamId) {
    let mut scene = Scene::connected(80, 24);
    let about = session("sess_a", "Fix the parser", json!({ "turn": turn }));
    scene.list(std::slice::from_ref(&about));
    scene.press("enter");
    let stream = scene.opened_stream();
    // The other one is below.
    scene.list(&[about.clone(), session("sess_b", "Other", json!({ "forkable": true }))]);
    let mut first = page(about, &[text_row(3, "message", "hello")], &[]);
    first["state"]["queue"] = queue.clone();
    scene.rows(stream, "page", first);
    scene.take_effects();
    (scene, stream)
}

fn waiting_prompt() -> Value {
    json!([{ "promptId": "prm_2", "position": 0, "text": "and open a PR", "sender": "wharf" }])
}

fn fail(scene: &mut Scene, call: CallId, code: Option<ErrorCode>) {
    let failure = ApiFailure { code, text: "the reason".to_owned() };
    scene.feed(TuiInput::Answer { call, answer: Err(failure) });
}

/// Returns the path below the session and the body of each call, without reads.
fn changes(scene: &mut Scene) -> Vec<(CallId, String, String)> {
    let calls = scene.take_calls().into_iter().filter(|(_, call)| call.body.is_some());
    calls
        .map(|(id, call)| {
            (id, call.path.replace("/sessions/sess_a", ""), call.body.unwrap_or_default())
        })
        .collect()
}

/// Returns the text that was written last for a session or the form.
fn saved_draft(scene: &mut Scene, key: &DraftKey) -> Option<String> {
    let mut newest_first = scene.take_effects().into_iter().rev();
    newest_first.find_map(|effect| match effect {
        TuiEffect::SaveDraft { key: saved, text } if saved == *key => Some(text),
        _ => None,
    })
}

fn draft_of(session: &str) -> DraftKey {
    DraftKey::Session(session.to_owned())
}

fn find_files(scene: &mut Scene, paths: &[&str]) {
    let (id, _) = scene.take_calls().pop().unwrap();
    let file = |path: &&str| json!({ "path": path, "absolute": format!("/w/blog/{path}"), "kind": "file" });
    scene.answer(
        id,
        &json!({ "files": paths.iter().map(file).collect::<Vec<_>>(), "partial": false }),
    );
}

#[test]
fn completion_ends_with_the_text_that_it_belongs_to() {
    let (mut scene, _) = open_session("idle", &json!([]));
    scene.type_text("please fix @src");
    find_files(&mut scene, &["src/parser.rs"]);
    scene.feed(TuiInput::Program(ProgramEnd::Editor(Ok("go".to_owned()))));
    scene.press("tab");
    assert!(
        scene.text().contains(" go") && !scene.text().contains("parser.rs"),
        "{}",
        scene.text()
    );
    let (mut scene, _) = open_session("idle", &json!([]));
    scene.type_text("hello");
    scene.press("ctrl-j");
    scene.type_text("@s");
    scene.press("up");
    find_files(&mut scene, &["src/parser.rs"]);
    scene.press("tab");
    assert!(!scene.text().contains("parser.rs"), "{}", scene.text());
}

#[test]
fn files_found_for_a_shorter_word_are_taken_only_if_they_still_fit() {
    let (mut scene, _) = open_session("idle", &json!([]));
    scene.type_text("see @src/p");
    find_files(&mut scene, &["src/page.rs", "src/parser.rs"]);
    scene.type_text("arser.rs");
    scene.press("enter");
    let sent = changes(&mut scene);
    assert_eq!(sent[0].2, r#"{"prompt":"see @src/parser.rs","queue":true}"#);
}

#[test]
fn next_turn_is_not_forced_by_the_interrupt_of_the_last_one() {
    let (mut scene, stream) = open_session("running", &waiting_prompt());
    scene.press("esc esc");
    assert_eq!(changes(&mut scene).len(), 1);
    assert!(scene.text().contains("interrupting"), "{}", scene.text());
    let mut next = row(
        5,
        "prompt",
        "and open a PR",
        json!({ "by": { "name": "wharf" }, "acceptedAt": null,
        "parts": [{ "type": "text", "text": "and open a PR" }] }),
    );
    next["turn"] = json!("prm_2");
    scene.rows(stream, "row", next);
    assert!(!scene.text().contains("interrupting"), "{}", scene.text());
    scene.press("esc");
    assert_eq!(changes(&mut scene), [], "one Esc does nothing to the next turn");
}

#[test]
fn interrupt_that_could_not_be_sent_is_not_shown() {
    let (mut scene, _) = open_session("running", &json!([]));
    scene.feed(TuiInput::List(StreamInput::Lost { reason: String::new(), retry_in: None }));
    scene.press("esc esc");
    assert!(!scene.text().contains("interrupting"), "{}", scene.text());
}

#[test]
fn changed_waiting_prompt_is_saved_before_it_is_sent_now() {
    let (mut scene, _) = open_session("running", &waiting_prompt());
    scene.press("up ctrl-u");
    scene.type_text("do NOT open a PR");
    scene.press("ctrl-x enter down enter");
    let sent = changes(&mut scene);
    let body = r#"{"prompt":"do NOT open a PR","keepAttachments":true}"#;
    assert_eq!(
        sent.iter()
            .map(|(_, path, body)| (path.as_str(), body.as_str()))
            .collect::<Vec<_>>(),
        [("/queue/prm_2", body)]
    );
    scene.answer(sent[0].0, &json!({}));
    let sent = changes(&mut scene);
    assert_eq!(
        sent.iter().map(|(_, path, _)| path.as_str()).collect::<Vec<_>>(),
        ["/queue/prm_2/send"]
    );
}

#[test]
fn waiting_prompt_that_was_not_changed_comes_back() {
    let (mut scene, _) = open_session("running", &waiting_prompt());
    scene.press("up");
    scene.type_text("!");
    scene.press("enter");
    let (call, ..) = changes(&mut scene).remove(0);
    fail(&mut scene, call, Some(ErrorCode::UNKNOWN_SESSION));
    assert!(
        scene.text().contains("❯ and open a PR!") && scene.text().contains("not changed"),
        "{}",
        scene.text()
    );
}

#[test]
fn change_of_a_waiting_prompt_is_kept_when_the_person_goes_elsewhere() {
    let (mut scene, _) = open_session("running", &waiting_prompt());
    scene.press("up");
    scene.type_text("!");
    scene.press("ctrl-t down enter");
    scene.wait(Duration::from_secs(1));
    assert_eq!(saved_draft(&mut scene, &draft_of("sess_a")).as_deref(), Some("and open a PR!"));
}

#[test]
fn refused_prompt_joins_a_newer_draft_of_its_session() {
    let (mut scene, _) = open_session("idle", &json!([]));
    scene.type_text("first");
    scene.press("enter");
    let (call, ..) = changes(&mut scene).remove(0);
    scene.type_text("long new text");
    scene.press("ctrl-t down enter");
    fail(&mut scene, call, Some(ErrorCode::UNKNOWN_SESSION));
    scene.wait(Duration::from_secs(1));
    assert_eq!(
        saved_draft(&mut scene, &draft_of("sess_a")).as_deref(),
        Some("first\nlong new text")
    );
}

#[test]
fn refused_prompt_does_not_join_a_waiting_prompt() {
    let (mut scene, _) = open_session("running", &waiting_prompt());
    scene.type_text("first");
    scene.press("enter");
    let (call, ..) = changes(&mut scene).remove(0);
    scene.press("up");
    fail(&mut scene, call, Some(ErrorCode::UNKNOWN_SESSION));
    assert!(scene.text().contains("❯ and open a PR"), "{}", scene.text());
    scene.press("esc");
    assert!(scene.text().contains("❯ first"), "{}", scene.text());
}

#[test]
fn prompt_without_an_answer_is_sent_again_with_the_same_key() {
    let (mut scene, _) = open_session("idle", &json!([]));
    scene.type_text("once");
    scene.press("enter");
    let (call, sent) = scene.take_calls().remove(0);
    fail(&mut scene, call, None);
    scene.wait(Duration::from_secs(2));
    let (call, again) = scene.take_calls().remove(0);
    assert_eq!(again, sent);
    scene.answer(call, &json!({}));
    scene.type_text("once");
    scene.press("enter");
    let (_, other) = scene.take_calls().remove(0);
    assert_ne!(
        other.idempotency_key, sent.idempotency_key,
        "the same words are another prompt later"
    );
}

#[test]
fn prompt_without_an_answer_is_kept_when_the_client_ends() {
    let (mut scene, _) = open_session("idle", &json!([]));
    scene.type_text("on its way");
    scene.press("enter");
    assert!(scene.state.has_unanswered_changes());
    scene.type_text("half");
    scene.feed(TuiInput::End);
    assert_eq!(saved_draft(&mut scene, &draft_of("sess_a")).as_deref(), Some("on its way\nhalf"));
    let (mut scene, _) = open_session("idle", &json!([]));
    scene.type_text("sent");
    scene.press("enter");
    let (call, ..) = changes(&mut scene).remove(0);
    scene.answer(call, &json!({}));
    assert!(!scene.state.has_unanswered_changes());
}

#[test]
fn copy_of_a_session_leaves_the_form_and_a_busy_person_alone() {
    let (mut scene, _) = open_session("idle", &json!([]));
    scene.press("ctrl-t n");
    scene.type_text("a new session");
    scene.press("esc down f");
    let (call, _) = scene
        .take_calls()
        .into_iter()
        .find(|(_, call)| call.path.ends_with("/fork"))
        .unwrap();
    scene.wait(Duration::from_millis(10));
    scene.press("up enter");
    scene.type_text("hel");
    scene.answer(call, &session("sess_copy", "Copy", json!({})));
    scene.type_text("lo");
    assert!(scene.text().contains("❯ hello"), "{}", scene.text());
    scene.press("ctrl-t n");
    assert!(scene.text().contains("a new session"), "{}", scene.text());
}

#[test]
fn failed_start_is_told_although_its_form_was_closed() {
    let mut scene = Scene::connected(80, 24);
    let calls = scene.take_calls();
    let demo = json!({ "slug": "demo", "name": "demo", "description": "", "version": "", "source": "built-in",
        "command": ["demo"], "protocol": "acp", "installed": true, "variables": [], "modes": [], "options": [],
        "capabilities": {}, "default": false, "login": "yes" });
    scene.answer(calls[0].0, &json!({ "adapters": [demo] }));
    scene.list(&[]);
    scene.type_text("fix it");
    scene.press("enter");
    let (call, _) = scene.take_calls().pop().unwrap();
    scene.type_text("typed too late");
    assert!(!scene.text().contains("too late"), "{}", scene.text());
    scene.press("esc");
    fail(&mut scene, call, Some(ErrorCode::UNKNOWN_SESSION));
    assert!(scene.text().contains("not started: the reason"), "{}", scene.text());
}

#[test]
fn first_prompt_that_the_host_did_not_take_is_in_the_field_of_its_session() {
    for (taken, words) in [(None, "❯ fix it"), (Some("prm_1"), "❯ a prompt")] {
        let mut scene = Scene::connected(80, 24);
        let calls = scene.take_calls();
        let demo = json!({ "slug": "demo", "name": "demo", "description": "", "version": "", "source": "built-in",
            "command": ["demo"], "protocol": "acp", "installed": true, "variables": [], "modes": [], "options": [],
            "capabilities": {}, "default": false, "login": "yes" });
        scene.answer(calls[0].0, &json!({ "adapters": [demo] }));
        scene.list(&[]);
        scene.type_text("fix it");
        scene.press("enter");
        let (call, _) = scene.take_calls().pop().unwrap();
        let mut made = session("sess_new", "New", json!({}));
        if let Some(taken) = taken {
            made["promptId"] = json!(taken);
        }
        scene.answer(call, &made);
        assert!(scene.text().contains(words), "{}", scene.text());
    }
}

#[test]
fn attached_file_is_kept_as_its_path_when_the_session_is_left() {
    let (mut scene, _) = open_session("idle", &json!([]));
    scene.feed(TuiInput::Paste("/tmp/shot.png".to_owned()));
    scene.type_text(" look");
    assert!(scene.text().contains("[shot.png] look"), "{}", scene.text());
    scene.press("ctrl-t down enter");
    scene.wait(Duration::from_secs(1));
    assert_eq!(saved_draft(&mut scene, &draft_of("sess_a")).as_deref(), Some("/tmp/shot.png look"));
}

#[test]
fn second_enter_after_an_answer_does_not_send_the_composer() {
    let (mut scene, stream) = open_session("running", &json!([]));
    scene.type_text("unfinished");
    scene.rows(stream, "row", ask_row(14, "rm -rf build"));
    scene.rows(stream, "state", json!({ "asks": ["1-14"] }));
    scene.press("ctrl-g");
    scene.wait(Duration::from_secs(1));
    scene.press("enter");
    let mut answered = ask_row(14, "rm -rf build");
    (answered["rev"], answered["state"]) = (json!(15), json!("answered"));
    scene.rows(stream, "row", answered);
    scene.rows(stream, "state", json!({ "asks": [] }));
    scene.take_effects();
    scene.press("enter");
    assert_eq!(changes(&mut scene), []);
    scene.wait(Duration::from_millis(400));
    scene.press("enter");
    assert_eq!(changes(&mut scene).len(), 1);
}

#[test]
fn observer_changes_nothing_from_the_palette() {
    let mut scene = Scene::starting(wharf_tui::TuiOptions {
        size: wharf_tui::ScreenSize { width: 80, height: 24 },
        is_readonly: true,
        drafts: vec![(draft_of("sess_a"), "left by an earlier client".to_owned())],
        ..wharf_tui::TuiOptions::default()
    });
    scene.feed(TuiInput::List(StreamInput::Connected));
    let about = session("sess_a", "Fix the parser", json!({ "turn": "running" }));
    scene.list(std::slice::from_ref(&about));
    scene.press("enter");
    let stream = scene.opened_stream();
    let mut first = page(about, &[text_row(3, "message", "hello")], &[]);
    first["state"]["queue"] = waiting_prompt();
    scene.rows(stream, "page", first);
    scene.take_effects();
    for command in ["remove", "send now", "send;", "next mode", "send", "waiting prompt"] {
        scene.press("ctrl-p");
        scene.type_text(command);
        scene.press("enter enter");
        scene.press("esc esc");
        let calls = scene.take_calls();
        assert!(
            calls
                .iter()
                .all(|(_, call)| call.body.is_none() && call.method == wharf_tui::ApiMethod::Get),
            "{command}: {calls:?}"
        );
    }
}

#[test]
fn letters_before_the_first_connection_do_nothing() {
    let mut scene = Scene::starting(wharf_tui::TuiOptions {
        size: wharf_tui::ScreenSize { width: 80, height: 24 },
        ..wharf_tui::TuiOptions::default()
    });
    scene.type_text("now quit");
    assert_eq!(
        scene
            .take_effects()
            .into_iter()
            .filter(|effect| matches!(effect, TuiEffect::Leave { .. }))
            .count(),
        0
    );
    assert!(!scene.text().contains("New session"), "{}", scene.text());
    scene.press("ctrl-c ctrl-c");
    assert!(
        scene
            .take_effects()
            .iter()
            .any(|effect| matches!(effect, TuiEffect::Leave { .. }))
    );
}
