//! Turns and agents that failed (rule 19.9): the reason once, the command that helps, and the way
//! to try again.

use serde_json::{Value, json};
use wharf_api::ErrorCode;
use wharf_tui::{ApiCall, ApiFailure, CallId, ProgramEnd, ScreenSize, TuiInput, TuiOptions};

use crate::frames::check_frame;
use crate::scene::{Scene, page, row, session, text_row};

fn prompt_row(seq: u64, text: &str) -> Value {
    let parts = json!([{ "type": "text", "text": text }]);
    row(seq, "prompt", text, json!({ "by": { "name": "zed" }, "acceptedAt": null, "parts": parts }))
}

/// Returns the end of a turn that failed for this reason.
fn failed_end(seq: u64, reason: &str, message: &str) -> Value {
    let members = json!({ "reason": reason, "outcome": "failed", "durationMs": 300, "usage": null, "context": null,
        "tools": { "count": 0, "failed": 0 }, "files": [], "message": message, "stderr": null, "next": null });
    row(seq, "turn_end", "failed", members)
}

fn login_end(seq: u64) -> Value {
    let mut end = failed_end(seq, "error", "Authentication required");
    end["error"] = json!({ "code": -32000, "message": "Authentication required" });
    end["stderr"] = json!("Error: Authentication required");
    end
}

fn end_notice(seq: u64, text: &str) -> Value {
    let mut notice =
        row(seq, "notice", text, json!({ "what": "ended", "level": "error", "text": text }));
    notice["turn"] = Value::Null;
    notice
}

fn show(scene: &mut Scene, members: Value, rows: &[Value]) {
    let about = session("sess_a", "Fix the parser", members);
    scene.list(std::slice::from_ref(&about));
    scene.press("enter");
    let stream = scene.opened_stream();
    scene.rows(stream, "page", page(about, rows, &[]));
    scene.take_effects();
}

fn open_with(members: Value, rows: &[Value]) -> Scene {
    let mut scene = Scene::connected(80, 24);
    show(&mut scene, members, rows);
    scene
}

/// Opens a live session whose login ran out.
fn logged_out() -> Scene {
    open_with(json!({}), &[prompt_row(2, "Fix it"), login_end(3)])
}

fn one_call(scene: &mut Scene) -> (CallId, ApiCall) {
    let mut calls = scene.take_calls();
    assert_eq!(calls.len(), 1, "{calls:?}");
    calls.remove(0)
}

fn count(scene: &Scene, words: &str) -> usize {
    scene.text().matches(words).count()
}

#[test]
fn login_that_ran_out_is_told_once_with_the_command_and_the_way_on() {
    let mut scene = logged_out();
    check_frame(&scene, "login_needed_80x24");
    assert_eq!(count(&scene, "Authentication required"), 0, "{}", scene.text());
    scene.press("ctrl-x l");
    let login = wharf_tui::TuiEffect::RunLogin { adapter: "claude".to_owned() };
    assert!(scene.take_effects().contains(&login));
    scene.feed(TuiInput::Program(ProgramEnd::Login(Ok(()))));
    assert!(scene.text().contains("logged in · Ctrl-X A tries again"), "{}", scene.text());
}

#[test]
fn login_on_another_machine_is_told_for_that_machine() {
    let size = ScreenSize { width: 80, height: 24 };
    let mut scene = Scene::starting(TuiOptions { size, ..TuiOptions::default() });
    let host_name = Some("https://big.example".to_owned());
    scene.feed(TuiInput::HostReady(wharf_tui::HostReady { host_name, session: None }));
    scene.feed(TuiInput::List(wharf_tui::StreamInput::Connected));
    show(&mut scene, json!({}), &[prompt_row(2, "Fix it"), login_end(3)]);
    assert!(
        scene.text().contains("run wharf login claude on https://big.example, then"),
        "{}",
        scene.text()
    );
}

#[test]
fn trying_again_sends_the_whole_prompt() {
    let mut scene = logged_out();
    scene.press("ctrl-x a");
    let (read, call) = one_call(&mut scene);
    assert_eq!(call.path, "/sessions/sess_a/rows/1-2", "the row may be cut");
    scene.answer(read, &prompt_row(2, "Fix it, all of it"));
    let (send, call) = one_call(&mut scene);
    assert_eq!(call.body.as_deref(), Some(r#"{"prompt":"Fix it, all of it","queue":true}"#));
    assert!(scene.text().contains("▌ sending…"), "{}", scene.text());
    scene.press("ctrl-x a");
    assert_eq!(scene.take_calls(), [], "two presses send one prompt");
    scene.answer(send, &json!({}));
    scene.press("ctrl-x a");
    assert_eq!(scene.take_calls(), [], "its row has not come yet");
}

#[test]
fn prompt_that_the_agent_reported_is_not_taken_for_that_of_the_turn() {
    let mut reported = prompt_row(3, "Look at the tests");
    reported["by"] = json!({ "agent": true });
    let mut scene = open_with(json!({}), &[prompt_row(2, "Fix it"), reported, login_end(4)]);
    scene.press("ctrl-x a");
    assert_eq!(one_call(&mut scene).1.path, "/sessions/sess_a/rows/1-2");
}

#[test]
fn prompt_that_is_too_long_to_be_read_whole_is_not_sent_cut() {
    let mut scene = logged_out();
    scene.press("ctrl-x a");
    let (read, _) = one_call(&mut scene);
    let mut prompt = prompt_row(2, "Fix it");
    let cut = json!({ "bytes": 3_000_000, "lines": 1, "whole": "rows/1-2/text?part=0" });
    prompt["parts"] = json!([{ "type": "text", "text": "Fix it", "cut": cut }]);
    scene.answer(read, &prompt);
    assert_eq!(scene.take_calls(), []);
    assert!(scene.text().contains("too long to be read whole"), "{}", scene.text());
}

#[test]
fn attempt_that_came_to_nothing_can_be_repeated() {
    let mut scene = logged_out();
    scene.press("ctrl-x a");
    let (read, _) = one_call(&mut scene);
    scene.refuse(read, "the host is gone");
    assert!(scene.text().contains("not tried again: the host is gone"), "{}", scene.text());
    scene.press("ctrl-x a");
    let (read, _) = one_call(&mut scene);
    scene.answer(read, &prompt_row(2, "Fix it"));
    let (send, _) = one_call(&mut scene);
    let failure = ApiFailure {
        code: Some(ErrorCode::QUEUE_FULL),
        text: "the queue is full".to_owned(),
    };
    scene.feed(TuiInput::Answer { call: send, answer: Err(failure) });
    assert!(scene.text().contains("❯ Fix it"), "{}", scene.text());
    scene.press("ctrl-c ctrl-x a");
    assert_eq!(scene.take_calls().len(), 1);
}

#[test]
fn files_of_the_prompt_go_with_it_and_images_are_asked_for() {
    let mut scene = logged_out();
    scene.press("ctrl-x a");
    let (read, _) = one_call(&mut scene);
    let mut prompt = prompt_row(2, "see @a.rs");
    prompt["parts"] = json!([{ "type": "text", "text": "see @a.rs" }, { "type": "file", "uri": "file:///w/a.rs", "name": "a.rs" }]);
    scene.answer(read, &prompt);
    let (_, call) = one_call(&mut scene);
    let body: Value = serde_json::from_str(&call.body.unwrap()).unwrap();
    let blocks = json!([{ "type": "text", "text": "see @a.rs" }, { "type": "resource_link", "uri": "file:///w/a.rs", "name": "a.rs" }]);
    assert_eq!(body["prompt"], blocks);

    let mut scene = logged_out();
    scene.press("ctrl-x a");
    let (read, _) = one_call(&mut scene);
    let image = json!({ "type": "blob", "media": "image", "mime": "image/png", "bytes": 9, "blob": "b3_9f", "name": "shot.png" });
    prompt["parts"] = json!([{ "type": "text", "text": "see" }, image]);
    scene.answer(read, &prompt);
    assert_eq!(scene.take_calls(), []);
    let text = scene.text();
    assert!(text.contains("❯ see") && text.contains("has images: attach them again"), "{text}");
}

#[test]
fn prompt_that_is_not_held_is_found() {
    let mut scene = open_with(json!({}), &[text_row(3, "message", "hello"), login_end(4)]);
    scene.press("ctrl-x a");
    let (found, call) = one_call(&mut scene);
    assert_eq!(call.path, "/sessions/sess_a/rows?kinds=prompt&limit=200&turn=prm_1");
    let rows = json!({ "fold": 4, "session": "sess_a", "asOf": "1-20", "rows": [prompt_row(2, "Fix…")], "before": null,
        "after": null, "midTurn": false, "turnHead": null });
    scene.answer(found, &rows);
    assert_eq!(one_call(&mut scene).1.path, "/sessions/sess_a/rows/1-2");
}

#[test]
fn start_without_a_login_is_told_once_by_the_card() {
    let reason = "Authentication required (-32000)";
    let failed = json!({ "status": "error", "endReason": "start_failed", "message": reason, "resumable": true });
    let rows = [
        prompt_row(2, "Fix it"),
        failed_end(3, "start_failed", reason),
        end_notice(4, &format!("The agent did not start: {reason}")),
    ];
    let mut scene = open_with(failed, &rows);
    check_frame(&scene, "start_without_login_80x24");
    assert_eq!(
        (count(&scene, "Authentication"), count(&scene, "not signed in")),
        (0, 1),
        "{}",
        scene.text()
    );
    scene.press("ctrl-x a");
    assert_eq!(one_call(&mut scene).1.path, "/sessions/sess_a/rows/1-2");
}

#[test]
fn crash_is_told_once_and_stays_in_the_transcript_when_the_agent_is_back() {
    let reason = "The agent exited (code 137)";
    let rows =
        [prompt_row(2, "Fix it"), failed_end(3, "agent_exited", reason), end_notice(4, reason)];
    let gone = json!({ "status": "exited", "endReason": "agent_exited", "message": reason, "resumable": false, "exitCode": 137 });
    let scene = open_with(gone, &rows);
    assert_eq!(count(&scene, reason), 1, "{}", scene.text());
    assert!(scene.text().contains("! claude is gone"), "{}", scene.text());
    let back = open_with(json!({}), &rows);
    assert_eq!(count(&back, reason), 1, "{}", back.text());
    assert!(back.text().contains("Ctrl-X A tries again"), "{}", back.text());
}

#[test]
fn usage_limit_names_itself_and_only_the_newest_failure_has_a_way_on() {
    let reason = "You have hit your usage limit, which resets at 18:00";
    let rows = [
        prompt_row(2, "Fix it"),
        failed_end(3, "error", reason),
        prompt_row(5, "Again"),
        failed_end(6, "error", reason),
    ];
    let scene = open_with(json!({}), &rows);
    check_frame(&scene, "usage_limit_80x24");
    assert_eq!(count(&scene, "Ctrl-X A tries again"), 1, "{}", scene.text());
}

#[test]
fn session_whose_agent_cannot_come_back_is_replaced() {
    let failed = json!({ "status": "error", "endReason": "start_failed", "message": "no such model", "resumable": false, "label": "docs" });
    let mut scene = open_with(
        failed,
        &[prompt_row(2, "Fix it"), failed_end(3, "start_failed", "no such model")],
    );
    scene.type_text("unsent words");
    scene.press("ctrl-x a");
    let (read, _) = one_call(&mut scene);
    scene.answer(read, &prompt_row(2, "Fix it"));
    let (start, call) = one_call(&mut scene);
    let body: Value = serde_json::from_str(&call.body.unwrap()).unwrap();
    assert_eq!(body, json!({ "adapter": "claude", "cwd": "/w/blog", "label": "docs" }));
    scene.answer(start, &session("sess_new", "docs", json!({})));
    let calls = scene.take_calls();
    let archived = calls
        .iter()
        .find(|(_, call)| call.path == "/sessions/sess_a")
        .expect("it stays in the list");
    assert_eq!(archived.1.body.as_deref(), Some(r#"{"archived":true}"#));
    let sent = calls
        .iter()
        .find(|(_, call)| call.path == "/sessions/sess_new/prompt")
        .expect("the prompt is lost");
    assert_eq!(sent.1.body.as_deref(), Some(r#"{"prompt":"Fix it","queue":true}"#));
    let text = scene.text();
    assert!(text.contains("▌ Fix it") && text.contains("❯ unsent words"), "{text}");
}

#[test]
fn nothing_is_tried_again_before_the_rows_are_there() {
    let mut scene = Scene::connected(80, 24);
    scene.list(&[session(
        "sess_a",
        "Fix the parser",
        json!({ "status": "error", "endReason": "start_failed",
        "message": "no such model", "resumable": false }),
    )]);
    scene.press("enter");
    scene.take_effects();
    assert!(scene.text().contains("Ctrl-X A tries again"), "{}", scene.text());
    scene.press("ctrl-x a");
    assert_eq!(scene.take_calls(), [], "its prompt would be left behind");
}

#[test]
fn turn_that_did_not_fail_is_not_repeated_and_observers_repeat_none() {
    let mut scene =
        open_with(json!({}), &[prompt_row(2, "Fix it"), text_row(3, "message", "done")]);
    scene.press("ctrl-x a");
    assert_eq!(scene.take_calls(), []);
    assert!(scene.text().contains("the last turn did not fail"), "{}", scene.text());
    let size = ScreenSize { width: 80, height: 24 };
    let mut observer =
        Scene::starting(TuiOptions { size, is_readonly: true, ..TuiOptions::default() });
    observer.feed(TuiInput::List(wharf_tui::StreamInput::Connected));
    show(&mut observer, json!({}), &[prompt_row(2, "Fix it"), login_end(3)]);
    assert!(!observer.text().contains("tries again"), "{}", observer.text());
    observer.press("ctrl-x a");
    assert_eq!(observer.take_calls(), []);
}
