//! The prompts that wait: editing in place, moving, removing, sending at once.

use serde_json::json;
use wharf_tui::StreamId;

use crate::frames::check_frame;
use crate::scene::{Scene, page, session, text_row};

fn open_session() -> (Scene, StreamId) {
    let mut scene = Scene::connected(60, 20);
    let about = session("sess_a", "Fix the parser", json!({ "turn": "running", "queued": 2 }));
    scene.list(std::slice::from_ref(&about));
    scene.press("enter");
    let stream = scene.opened_stream();
    let waiting = |position: usize, id: &str, text: &str, sender: &str| {
        json!({ "promptId": id, "position": position, "text": text, "sender": sender,
            "acceptedAt": "2026-11-17T09:59:00.000Z" })
    };
    let mut first = page(about, &[text_row(3, "message", "hello")], &[]);
    first["state"]["queue"] = json!([
        waiting(0, "prm_1", "then the changelog", "zed"),
        waiting(1, "prm_2", "and open a PR", "wharf")
    ]);
    scene.rows(stream, "page", first);
    scene.take_effects();
    (scene, stream)
}

/// Returns the method, the path below the session, and the body of the calls.
fn calls(scene: &mut Scene) -> Vec<(String, String, String)> {
    let calls = scene.take_calls().into_iter();
    let parts = calls.map(|(_, call)| {
        let path = call.path.replace("/sessions/sess_a", "");
        (format!("{:?}", call.method), path, call.body.unwrap_or_default())
    });
    parts.collect()
}

#[test]
fn up_in_an_empty_composer_edits_the_last_waiting_prompt() {
    let (mut scene, _) = open_session();
    scene.press("up");
    scene.type_text("!");
    check_frame(&scene, "queue_edit_60x20");
    scene.press("enter");
    let body = r#"{"prompt":"and open a PR!","keepAttachments":true}"#;
    assert_eq!(
        calls(&mut scene),
        [("Patch".to_owned(), "/queue/prm_2".to_owned(), body.to_owned())]
    );
    assert!(!scene.text().contains("editing below"), "{}", scene.text());
}

#[test]
fn esc_leaves_the_waiting_prompt_as_it_was() {
    let (mut scene, _) = open_session();
    scene.press("up up");
    assert!(scene.text().contains("❯ then the changelog"), "{}", scene.text());
    scene.type_text("!");
    scene.press("esc");
    assert!(
        !scene.text().contains("changelog!") && !scene.text().contains("Esc again"),
        "{}",
        scene.text()
    );
    assert_eq!(calls(&mut scene), []);
}

#[test]
fn waiting_prompts_are_moved_and_removed() {
    let (mut scene, _) = open_session();
    scene.press("up ctrl-x up");
    let moved = ("Patch".to_owned(), "/queue/prm_2".to_owned(), r#"{"position":0}"#.to_owned());
    assert_eq!(calls(&mut scene), [moved]);
    scene.press("ctrl-x d");
    assert_eq!(
        calls(&mut scene),
        [("Delete".to_owned(), "/queue/prm_2".to_owned(), String::new())]
    );
}

#[test]
fn prompt_that_starts_while_it_is_edited_ends_the_editing() {
    let (mut scene, stream) = open_session();
    scene.press("up");
    scene.rows(stream, "state", json!({ "queue": [] }));
    assert!(
        scene.text().contains("does not wait any more") && !scene.text().contains("❯ and open"),
        "{}",
        scene.text()
    );
}

#[test]
fn send_now_asks_once_per_session_and_interrupts() {
    let (mut scene, _) = open_session();
    scene.type_text("stop that");
    scene.press("ctrl-x enter");
    assert!(scene.text().contains("Send now?"), "{}", scene.text());
    scene.press("enter");
    assert_eq!(calls(&mut scene), [], "the first answer is no");
    scene.press("ctrl-x enter down enter");
    let body = r#"{"prompt":"stop that","interrupt":true}"#.to_owned();
    assert_eq!(calls(&mut scene), [("Post".to_owned(), "/prompt".to_owned(), body)]);
    scene.press("ctrl-x enter");
    assert_eq!(
        calls(&mut scene),
        [("Post".to_owned(), "/queue/prm_1/send".to_owned(), "{}".to_owned())]
    );
}

#[test]
fn shortened_prompt_is_read_whole_before_it_is_edited() {
    let (mut scene, stream) = open_session();
    let short = json!({ "promptId": "prm_1", "position": 0, "text": "a long…", "shortened": true, "attachments": ["image"] });
    scene.rows(stream, "state", json!({ "queue": [short] }));
    scene.press("up");
    let (call, read) = scene.take_calls().pop().unwrap();
    assert_eq!(read.path, "/sessions/sess_a/queue/prm_1");
    assert!(!scene.text().contains("editing below"), "{}", scene.text());
    scene.answer(
        call,
        &json!({ "promptId": "prm_1", "position": 0, "text": "a long prompt", "attachments": ["image"] }),
    );
    assert!(
        scene.text().contains("❯ a long prompt") && scene.text().contains("editing below"),
        "{}",
        scene.text()
    );
    scene.press("enter");
    assert_eq!(calls(&mut scene)[0].2, r#"{"prompt":"a long prompt","keepAttachments":true}"#);

    scene.press("up");
    let (call, _) = scene.take_calls().pop().unwrap();
    scene.type_text("something else");
    scene.answer(
        call,
        &json!({ "promptId": "prm_1", "position": 0, "text": "a long prompt", "attachments": ["image"] }),
    );
    assert!(
        scene.text().contains("❯ something else"),
        "typed text is not replaced: {}",
        scene.text()
    );
}
