//! Commands of the list: rename, archive, mute, kill, resume, fork; and the search over all
//! sessions.

use std::time::Duration;

use serde_json::json;
use wharf_tui::TuiEffect;

use crate::frames::check_frame;
use crate::scene::{Scene, attention, page, session, text_row};

fn list_with(members: serde_json::Value) -> Scene {
    let mut scene = Scene::connected(80, 24);
    scene.list(&[session("sess_a", "Fix the parser", members)]);
    scene.take_effects();
    scene
}

fn last_call(scene: &mut Scene) -> (String, String, String) {
    let (_, call) = scene.take_calls().pop().unwrap();
    (format!("{:?}", call.method), call.path, call.body.unwrap_or_default())
}

fn call(method: &str, path: &str, body: &str) -> (String, String, String) {
    (method.to_owned(), path.to_owned(), body.to_owned())
}

#[test]
fn session_is_renamed_archived_and_muted_by_a_key() {
    let mut scene = list_with(attention("finished", "2026-11-17T09:46:00.000Z", Some("Done.")));
    scene.press("r");
    scene.type_text("!");
    check_frame(&scene, "rename_80x24");
    scene.press("enter");
    assert_eq!(
        last_call(&mut scene),
        call("Patch", "/sessions/sess_a", r#"{"title":"Fix the parser!"}"#)
    );
    scene.press("x");
    assert_eq!(last_call(&mut scene), call("Patch", "/sessions/sess_a", r#"{"archived":true}"#));
    scene.press("z");
    assert_eq!(last_call(&mut scene), call("Put", "/sessions/sess_a/mute", r#"{"muted":true}"#));
}

#[test]
fn kill_asks_first() {
    let mut scene = list_with(json!({}));
    scene.press("K");
    check_frame(&scene, "kill_80x24");
    scene.press("enter");
    assert_eq!(scene.take_calls(), [], "the first answer is no");
    scene.press("K down enter");
    assert_eq!(last_call(&mut scene), call("Post", "/sessions/sess_a/kill", "{}"));
}

#[test]
fn ended_session_is_resumed_and_a_copy_opens() {
    let mut scene = list_with(json!({ "status": "killed", "endReason": "user", "forkable": true }));
    scene.press("R");
    assert_eq!(last_call(&mut scene), call("Post", "/sessions/sess_a/resume", "{}"));
    scene.press("f");
    let (id, _) = scene.take_calls().pop().unwrap();
    scene.answer(id, &session("sess_copy", "Fix the parser", json!({ "status": "starting" })));
    let opens = |effect: &TuiEffect| matches!(effect, TuiEffect::OpenRows { session, .. } if session == "sess_copy");
    assert!(scene.take_effects().iter().any(opens));
}

#[test]
fn observer_changes_nothing() {
    let mut scene = Scene::starting(wharf_tui::TuiOptions {
        size: wharf_tui::ScreenSize { width: 80, height: 24 },
        is_readonly: true,
        ..wharf_tui::TuiOptions::default()
    });
    scene.feed(wharf_tui::TuiInput::List(wharf_tui::StreamInput::Connected));
    scene.list(&[session("sess_a", "Fix the parser", json!({ "forkable": true }))]);
    scene.take_effects();
    scene.press("r x z K f R n");
    assert_eq!(scene.take_calls(), []);
}

#[test]
fn search_opens_the_session_at_the_found_row() {
    let mut scene = list_with(json!({}));
    scene.press("ctrl-f");
    scene.type_text("last line");
    assert_eq!(scene.take_calls(), [], "the person still types");
    scene.wait(Duration::from_millis(150));
    let (id, call) = scene.take_calls().pop().unwrap();
    assert_eq!(call.path, "/search?q=last%20line");
    let hit = json!({ "session": "sess_a", "title": "Fix the parser", "workspaceSlug": "blog", "row": "1-3",
        "kind": "message", "at": "2026-11-17T09:40:00.000Z", "summary": "",
        "snippet": [{ "text": "it drops the " }, { "text": "last line", "match": true }] });
    scene.answer(id, &json!({ "fold": 4, "hits": [hit], "pending": 0 }));
    check_frame(&scene, "search_80x24");
    scene.press("enter");
    let stream = scene.opened_stream();
    let mut newest = page(
        session("sess_a", "Fix the parser", json!({})),
        &[text_row(9, "message", "newest")],
        &[],
    );
    newest["before"] = json!("1-9");
    scene.rows(stream, "page", newest);
    let (id, call) = scene.take_calls().pop().unwrap();
    assert_eq!(
        call.path, "/sessions/sess_a/rows?limit=100&before=1-9",
        "older rows are loaded up to the hit"
    );
    let older = page(
        session("sess_a", "x", json!({})),
        &[text_row(3, "message", "it drops the last line")],
        &[],
    );
    scene.answer(id, &older);
    assert!(scene.text().contains("▌it drops the last line"), "{}", scene.text());
}

#[test]
fn search_without_hits_says_how_to_widen_it() {
    let mut scene = list_with(json!({}));
    scene.press("ctrl-f");
    scene.type_text("zebra");
    scene.wait(Duration::from_millis(150));
    let (id, _) = scene.take_calls().pop().unwrap();
    scene.answer(id, &json!({ "fold": 4, "hits": [], "pending": 0 }));
    assert!(scene.text().contains("fewer words find more"), "{}", scene.text());
}

#[test]
fn palette_command_means_the_open_session_unless_the_list_has_the_focus() {
    let mut scene = Scene::connected(80, 24);
    let sessions = [session("sess_a", "First", json!({})), session("sess_b", "Second", json!({}))];
    scene.list(&sessions);
    scene.press("g enter");
    let opened = scene.take_effects().into_iter().find_map(|effect| match effect {
        TuiEffect::OpenRows { session, .. } => Some(session),
        _ => None,
    });
    scene.press("ctrl-t j esc ctrl-p");
    scene.type_text("archive the");
    scene.press("enter");
    let (_, path, _) = last_call(&mut scene);
    assert_eq!(path, format!("/sessions/{}", opened.unwrap()));
}

#[test]
fn ctrl_n_goes_through_the_sessions_that_wait_the_longest_waiting_first() {
    let mut scene = Scene::connected(80, 24);
    let asking =
        |id: &str, since: &str| session(id, id, attention("needs_answer", since, Some("may I?")));
    let newer = asking("newer", "2026-11-17T09:58:00.000Z");
    let older = asking("older", "2026-11-17T09:30:00.000Z");
    scene.list(&[newer, older, session("quiet", "quiet", json!({}))]);
    scene.take_effects();
    let mut opened = Vec::new();
    for _ in 0..3 {
        scene.press("ctrl-n");
        opened.extend(scene.take_effects().into_iter().filter_map(|effect| match effect {
            TuiEffect::OpenRows { session, .. } => Some(session),
            _ => None,
        }));
    }
    assert_eq!(opened, ["older", "newer", "older"]);
}
