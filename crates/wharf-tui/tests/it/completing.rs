//! Completion, earlier prompts, and attachments in the composer.

use serde_json::{Value, json};
use wharf_tui::{ApiFailure, CallId, TuiEffect, TuiInput};

use crate::frames::check_frame;
use crate::scene::{Scene, page, row, session};

fn open_session() -> Scene {
    let mut scene = Scene::connected(80, 24);
    let about = session("sess_a", "Fix the parser", json!({}));
    scene.list(std::slice::from_ref(&about));
    scene.press("enter");
    let stream = scene.opened_stream();
    let prompt = |seq: u64, text: &str| {
        row(
            seq,
            "prompt",
            text,
            json!({ "by": { "name": "zed" }, "acceptedAt": null,
            "parts": [{ "type": "text", "text": text }] }),
        )
    };
    let mut first = page(about, &[prompt(2, "first prompt"), prompt(4, "second prompt")], &[]);
    first["state"]["settings"] = json!({ "id": "sess_a", "options": [], "commands": [
        { "name": "compact", "description": "Shorten the context" }, { "name": "cost" }, { "name": "review" }],
        "modes": { "current": "ask", "all": [{ "id": "ask", "name": "Ask" }, { "id": "build", "name": "Build" }] } });
    scene.rows(stream, "page", first);
    scene.take_effects();
    scene
}

/// Returns the prompt that was sent. The host takes it.
fn sent_prompt(scene: &mut Scene) -> Value {
    let (id, call) = scene
        .take_calls()
        .into_iter()
        .find(|(_, call)| call.path.ends_with("/prompt"))
        .unwrap();
    scene.answer(id, &json!({}));
    serde_json::from_str::<Value>(&call.body.unwrap()).unwrap()["prompt"].clone()
}

#[test]
fn slash_at_the_start_completes_commands_of_the_agent() {
    let mut scene = open_session();
    scene.type_text("/co");
    check_frame(&scene, "completion_80x24");
    scene.press("down tab");
    assert!(scene.text().contains("❯ /cost"), "{}", scene.text());
    scene.press("enter");
    assert_eq!(sent_prompt(&mut scene), json!("/cost"));
    scene.type_text("/review");
    scene.press("enter");
    assert_eq!(
        sent_prompt(&mut scene),
        json!("/review"),
        "a whole command is sent by the first Enter"
    );
}

#[test]
fn esc_closes_the_completion_and_keeps_the_text() {
    let mut scene = open_session();
    scene.type_text("/co");
    scene.press("esc");
    assert!(
        scene.text().contains("❯ /co") && !scene.text().contains("/compact"),
        "{}",
        scene.text()
    );
    scene.type_text("m");
    assert!(!scene.text().contains("/compact"), "it stays closed for this word");
}

#[test]
fn at_sign_completes_files_that_the_host_finds() {
    let mut scene = open_session();
    scene.type_text("see @pars");
    let (id, call) = scene.take_calls().pop().unwrap();
    assert_eq!(call.path, "/sessions/sess_a/files?limit=8&q=pars");
    let file =
        |path: &str| json!({ "path": path, "absolute": format!("/w/blog/{path}"), "kind": "file" });
    scene.answer(
        id,
        &json!({ "files": [file("src/parser.rs"), file("docs/parser.md")], "partial": false }),
    );
    assert!(scene.text().contains("@docs/parser.md"), "{}", scene.text());
    scene.press("enter");
    assert!(scene.text().contains("❯ see @src/parser.rs"), "{}", scene.text());
}

#[test]
fn up_and_down_walk_through_earlier_prompts_and_back_to_the_typed_text() {
    let mut scene = open_session();
    scene.type_text("half");
    scene.press("up");
    assert!(scene.text().contains("❯ second prompt"), "{}", scene.text());
    scene.press("up up");
    assert!(scene.text().contains("❯ first prompt"), "{}", scene.text());
    scene.press("down down");
    assert!(scene.text().contains("❯ half"), "{}", scene.text());
}

#[test]
fn ctrl_r_finds_an_earlier_prompt() {
    let mut scene = open_session();
    scene.press("ctrl-r");
    scene.type_text("first");
    check_frame(&scene, "history_80x24");
    scene.press("enter");
    assert!(scene.text().contains("❯ first prompt"), "{}", scene.text());
}

#[test]
fn history_goes_beyond_the_rows_that_are_loaded() {
    let mut scene = open_session();
    scene.press("up");
    let (call, read) = scene.take_calls().pop().unwrap();
    assert_eq!(read.path, "/sessions/sess_a/rows?kinds=prompt&limit=200");
    let prompt = |seq: u64, text: &str| {
        row(
            seq,
            "prompt",
            text,
            json!({ "by": { "name": "zed" }, "acceptedAt": null, "parts": [{ "type": "text", "text": text }] }),
        )
    };
    let about = session("sess_a", "Fix the parser", json!({}));
    scene
        .answer(call, &page(about, &[prompt(1, "the very first"), prompt(2, "first prompt")], &[]));
    scene.press("up up");
    assert!(scene.text().contains("❯ the very first"), "{}", scene.text());
    scene.press("down down down ctrl-r");
    assert!(scene.text().contains("the very first"), "{}", scene.text());
    assert_eq!(scene.take_calls(), [], "they are asked for once");
}

#[test]
fn long_paste_is_a_chip_and_is_sent_whole() {
    let mut scene = open_session();
    let pasted = (1..=20).map(|number| number.to_string()).collect::<Vec<_>>().join("\r");
    scene.type_text("look: ");
    scene.feed(TuiInput::Paste(pasted.clone()));
    assert!(scene.text().contains("look: [pasted 20 lines #1]"), "{}", scene.text());
    scene.press("enter");
    assert_eq!(sent_prompt(&mut scene), json!(format!("look: {}", pasted.replace('\r', "\n"))));
}

#[test]
fn pasted_image_path_is_uploaded_and_named_in_the_prompt() {
    let mut scene = open_session();
    scene.type_text("see ");
    scene.feed(TuiInput::Paste("/tmp/shot.png".to_owned()));
    let uploads = scene.take_effects().into_iter().filter_map(|effect| match effect {
        TuiEffect::UploadFile { id, path, .. } => Some((id, path)),
        _ => None,
    });
    let [(id, path)] = &uploads.collect::<Vec<_>>()[..] else { panic!("one upload") };
    assert_eq!(path, "/tmp/shot.png");
    scene.press("enter");
    assert_eq!(scene.take_calls(), [], "the file is not at the host yet");
    assert!(scene.text().contains("[shot.png] is still on its way"), "{}", scene.text());
    scene.answer(
        *id,
        &json!({ "id": "up_1", "name": "shot.png", "mimeType": "image/png", "bytes": 3 }),
    );
    scene.press("enter");
    let blocks =
        json!([{ "type": "text", "text": "see [shot.png]" }, { "type": "upload", "id": "up_1" }]);
    assert_eq!(sent_prompt(&mut scene), blocks);
}

/// Returns the call that sends the file.
fn upload_id(scene: &mut Scene) -> CallId {
    let ids = scene.take_effects().into_iter().find_map(|effect| match effect {
        TuiEffect::UploadFile { id, .. } => Some(id),
        _ => None,
    });
    ids.unwrap()
}

#[test]
fn attached_file_and_long_paste_are_still_there_when_the_session_is_opened_again() {
    let mut scene = open_session();
    scene.list(&[
        session("sess_a", "Fix the parser", json!({})),
        session("sess_b", "Other", json!({})),
    ]);
    scene.feed(TuiInput::Paste("/tmp/shot.png".to_owned()));
    let id = upload_id(&mut scene);
    scene.feed(TuiInput::Paste("line\n".repeat(20)));
    scene.press("ctrl-t down enter");
    assert!(!scene.text().contains("shot.png"), "{}", scene.text());
    scene.answer(
        id,
        &json!({ "id": "up_1", "name": "shot.png", "mimeType": "image/png", "bytes": 3 }),
    );
    scene.press("ctrl-t up enter");
    assert!(scene.text().contains("❯ [shot.png][pasted 20 lines #1]"), "{}", scene.text());
    scene.press("enter");
    let text = format!("[shot.png]{}", "line\n".repeat(20).trim_end());
    let blocks = json!([{ "type": "text", "text": text }, { "type": "upload", "id": "up_1" }]);
    assert_eq!(sent_prompt(&mut scene), blocks);
}

#[test]
fn path_that_was_typed_stays_text_although_the_file_was_sent_before() {
    let mut scene = open_session();
    scene.list(&[
        session("sess_a", "Fix the parser", json!({})),
        session("sess_b", "Other", json!({})),
    ]);
    scene.feed(TuiInput::Paste("/tmp/shot.png".to_owned()));
    let id = upload_id(&mut scene);
    scene.answer(
        id,
        &json!({ "id": "up_1", "name": "shot.png", "mimeType": "image/png", "bytes": 3 }),
    );
    scene.press("enter");
    sent_prompt(&mut scene);
    scene.type_text("now delete /tmp/shot.png");
    scene.press("ctrl-t down enter ctrl-t up enter enter");
    assert_eq!(sent_prompt(&mut scene), json!("now delete /tmp/shot.png"));
}

#[test]
fn file_that_cannot_be_uploaded_leaves_its_path() {
    let mut scene = open_session();
    scene.feed(TuiInput::Paste("/tmp/shot.png".to_owned()));
    let failure = ApiFailure { code: None, text: "no such file".to_owned() };
    let call = upload_id(&mut scene);
    scene.feed(TuiInput::Answer { call, answer: Err(failure) });
    let text = scene.text();
    assert!(
        text.contains("❯ /tmp/shot.png") && text.contains("[shot.png] not attached: no such file"),
        "{text}"
    );
}

#[test]
fn shift_tab_sets_the_next_mode_and_the_menu_shows_all() {
    let mut scene = open_session();
    scene.press("shift-tab");
    let (_, call) = scene.take_calls().pop().unwrap();
    assert_eq!(
        (call.path.as_str(), call.body.as_deref()),
        ("/sessions/sess_a/settings", Some(r#"{"mode":"build"}"#))
    );
    scene.press("ctrl-x m");
    check_frame(&scene, "settings_80x24");
    scene.press("enter");
    let (_, call) = scene.take_calls().pop().unwrap();
    assert_eq!(call.body.as_deref(), Some(r#"{"mode":"ask"}"#));
}

#[test]
fn ctrl_f_searches_from_an_empty_composer_and_moves_in_a_text() {
    let mut scene = open_session();
    scene.press("ctrl-f");
    assert!(scene.text().contains("Search"), "{}", scene.text());
    scene.press("esc");
    scene.type_text("ab");
    scene.press("ctrl-a ctrl-f");
    scene.type_text("-");
    assert!(scene.text().contains("❯ a-b"), "{}", scene.text());
}
