//! Asks: they never take the focus, and keys answer them only in their own card.

use std::time::Duration;

use serde_json::{Value, json};

use crate::scene::{Scene, ask_row, attention, page, session, text_row};

fn open_session(scene: &mut Scene) -> wharf_tui::StreamId {
    let about = session("sess_a", "Fix the parser", json!({ "turn": "running" }));
    scene.list(std::slice::from_ref(&about));
    scene.press("enter");
    let stream = scene.opened_stream();
    scene.rows(stream, "page", page(about, &[text_row(3, "message", "hello")], &[]));
    stream
}

fn bodies(scene: &mut Scene) -> Vec<Value> {
    let calls = scene.take_calls();
    let asks = calls.into_iter().filter(|(_, call)| call.path.contains("/asks/"));
    asks.map(|(_, call)| serde_json::from_str(&call.body.unwrap()).unwrap())
        .collect()
}

#[test]
fn arriving_ask_leaves_the_focus_and_typed_letters_in_the_composer() {
    let mut scene = Scene::connected(80, 24);
    let stream = open_session(&mut scene);
    scene.type_text("la");
    scene.rows(stream, "row", ask_row(14, "rm -rf build"));
    scene.rows(stream, "state", json!({ "asks": ["1-14"] }));
    assert!(
        scene.text().contains("rm -rf build") && scene.text().contains("Ctrl-G to answer"),
        "{}",
        scene.text()
    );
    scene.wait(Duration::from_secs(1));
    scene.type_text("aAd1");
    assert!(scene.text().contains("laaAd1"), "{}", scene.text());
    assert_eq!(bodies(&mut scene), Vec::<Value>::new());
}

#[test]
fn focused_ask_takes_one_answer_and_none_in_its_first_moment() {
    let mut scene = Scene::connected(80, 24);
    let stream = open_session(&mut scene);
    scene.rows(stream, "row", ask_row(14, "rm -rf build"));
    scene.rows(stream, "state", json!({ "asks": ["1-14"] }));
    scene.press("ctrl-g a");
    assert_eq!(bodies(&mut scene), Vec::<Value>::new(), "the card has just appeared");
    scene.wait(Duration::from_millis(400));
    scene.press("a a");
    assert_eq!(bodies(&mut scene), [json!({ "optionId": "allow_once" })]);
    let mut answered = ask_row(14, "rm -rf build");
    answered["rev"] = json!(15);
    answered["state"] = json!("answered");
    scene.rows(stream, "row", answered);
    scene.rows(stream, "state", json!({ "asks": [] }));
    scene.press("a");
    scene.wait(Duration::from_millis(400));
    scene.type_text("next");
    assert!(scene.text().contains("❯ next"), "the composer has the focus again:\n{}", scene.text());
}

#[test]
fn ask_that_is_told_before_its_row_comes_is_focused_when_it_comes() {
    let mut scene = Scene::connected(80, 24);
    let stream = open_session(&mut scene);
    scene.press("ctrl-g");
    assert!(scene.text().contains("no question is open here"), "{}", scene.text());
    scene.wait(Duration::from_secs(10));
    let waiting = session("sess_a", "Fix the parser", json!({ "turn": "awaiting_input" }));
    scene.rows(stream, "state", json!({ "session": waiting }));
    assert!(scene.text().contains("waits for an answer · Ctrl-G"), "{}", scene.text());
    scene.press("ctrl-g");
    scene.rows(stream, "row", ask_row(14, "rm -rf build"));
    scene.rows(stream, "state", json!({ "asks": ["1-14"] }));
    scene.wait(Duration::from_millis(400));
    scene.press("a");
    assert_eq!(bodies(&mut scene), [json!({ "optionId": "allow_once" })]);
}

#[test]
fn key_after_ctrl_g_leaves_the_focus_where_it_is() {
    let mut scene = Scene::connected(80, 24);
    let stream = open_session(&mut scene);
    let waiting = session("sess_a", "Fix the parser", json!({ "turn": "awaiting_input" }));
    scene.rows(stream, "state", json!({ "session": waiting }));
    scene.press("ctrl-g");
    scene.type_text("b");
    scene.rows(stream, "row", ask_row(14, "rm -rf build"));
    scene.rows(stream, "state", json!({ "asks": ["1-14"] }));
    scene.wait(Duration::from_millis(400));
    scene.type_text("a");
    assert_eq!(bodies(&mut scene), Vec::<Value>::new());
    assert!(scene.text().contains("❯ ba"), "{}", scene.text());
}

#[test]
fn observer_sees_the_ask_and_cannot_answer() {
    let mut scene = Scene::starting(wharf_tui::TuiOptions {
        size: wharf_tui::ScreenSize { width: 80, height: 24 },
        is_readonly: true,
        ..wharf_tui::TuiOptions::default()
    });
    scene.feed(wharf_tui::TuiInput::List(wharf_tui::StreamInput::Connected));
    let stream = open_session(&mut scene);
    scene.rows(stream, "row", ask_row(14, "rm -rf build"));
    scene.rows(stream, "state", json!({ "asks": ["1-14"] }));
    scene.wait(Duration::from_secs(1));
    scene.press("ctrl-g a 1 enter");
    assert_eq!(bodies(&mut scene), Vec::<Value>::new());
    assert!(
        scene.text().contains("rm -rf build") && scene.text().contains("observer"),
        "{}",
        scene.text()
    );
    assert!(
        !scene.text().contains("interrupts") && !scene.text().contains("queues"),
        "{}",
        scene.text()
    );
}

#[test]
fn ask_answered_elsewhere_is_told_for_two_seconds_and_takes_no_keys() {
    let mut scene = Scene::connected(80, 24);
    let stream = open_session(&mut scene);
    scene.rows(stream, "row", ask_row(14, "rm -rf build"));
    scene.rows(stream, "row", ask_row(15, "git push"));
    scene.rows(stream, "state", json!({ "asks": ["1-14", "1-15"] }));
    scene.wait(Duration::from_secs(1));
    scene.press("ctrl-g");
    let mut answered = ask_row(14, "rm -rf build");
    answered["rev"] = json!(16);
    answered["state"] = json!("answered");
    answered["answer"] = json!({ "option": "allow_once", "name": "Yes", "by": { "name": "phone" }, "after": 900,
        "at": "2026-11-17T09:59:00.000Z" });
    scene.rows(stream, "row", answered);
    scene.rows(stream, "state", json!({ "asks": ["1-15"] }));
    assert!(scene.text().contains("✓ Yes · by phone"), "{}", scene.text());
    scene.wait(Duration::from_secs(1));
    scene.press("a");
    assert_eq!(
        bodies(&mut scene),
        Vec::<Value>::new(),
        "the card of the answered ask takes no keys"
    );
    scene.wait(Duration::from_secs(1));
    assert!(
        scene.text().contains("git push") && scene.text().contains("1 of 1"),
        "{}",
        scene.text()
    );
    scene.press("a");
    assert_eq!(bodies(&mut scene), Vec::<Value>::new(), "the next card has just appeared");
    scene.wait(Duration::from_millis(400));
    scene.press("a");
    assert_eq!(bodies(&mut scene), [json!({ "optionId": "allow_once" })]);
}

#[test]
fn option_with_a_letter_is_not_chosen_by_a_number_that_is_not_shown() {
    let mut scene = Scene::connected(80, 24);
    let stream = open_session(&mut scene);
    let mut ask = ask_row(14, "rm -rf build");
    let option = |kind: &str| json!({ "optionId": kind, "name": kind, "kind": kind });
    ask["options"] = json!([option("allow_always"), option("allow_once"), option("reject_always")]);
    scene.rows(stream, "row", ask);
    scene.rows(stream, "state", json!({ "asks": ["1-14"] }));
    scene.wait(Duration::from_secs(1));
    scene.press("ctrl-g");
    scene.wait(Duration::from_secs(1));
    scene.press("1 2");
    assert_eq!(bodies(&mut scene), Vec::<Value>::new(), "{}", scene.text());
    assert!(scene.text().contains("3  reject_always"), "{}", scene.text());
    scene.press("3");
    assert_eq!(bodies(&mut scene), [json!({ "optionId": "reject_always" })]);
}

#[test]
fn next_ask_has_its_own_guard_and_letters_mean_only_single_options() {
    let mut scene = Scene::connected(80, 24);
    let stream = open_session(&mut scene);
    let mut two_ways = ask_row(15, "git push");
    let option = |id: &str| json!({ "optionId": id, "name": id, "kind": "allow_once" });
    two_ways["options"] = json!([option("now"), option("later")]);
    scene.rows(stream, "row", ask_row(14, "rm -rf build"));
    scene.rows(stream, "row", two_ways);
    scene.rows(stream, "state", json!({ "asks": ["1-14", "1-15"] }));
    scene.wait(Duration::from_secs(1));
    scene.press("ctrl-g n");
    assert!(
        scene.text().contains("2 of 2") && scene.text().contains("▌1  now"),
        "{}",
        scene.text()
    );
    scene.press("2");
    assert_eq!(bodies(&mut scene), Vec::<Value>::new(), "the card has just replaced another");
    scene.wait(Duration::from_millis(400));
    scene.press("a d");
    assert_eq!(bodies(&mut scene), Vec::<Value>::new(), "two options allow once");
    scene.press("2");
    assert_eq!(bodies(&mut scene), [json!({ "optionId": "later" })]);
}

#[test]
fn form_is_filled_in_and_sent_or_declined() {
    let mut scene = Scene::connected(80, 24);
    let stream = open_session(&mut scene);
    let mut form = ask_row(14, "");
    form["ask"] = json!("form");
    form["options"] = json!([]);
    form["subject"] = json!({ "title": "Release settings", "command": null, "cwd": null, "paths": [], "diffs": [],
        "text": "Which branch?", "outside": [], "detailed": true });
    form["form"] = json!({ "schema": { "type": "object", "required": ["branch"], "properties": {
        "branch": { "type": "string", "title": "Branch", "description": "The branch to release" },
        "draft": { "type": "boolean" } } } });
    scene.rows(stream, "row", form);
    scene.rows(stream, "state", json!({ "asks": ["1-14"] }));
    scene.wait(Duration::from_secs(1));
    scene.press("ctrl-g enter enter");
    assert!(
        !scene.text().contains("Branch is missing"),
        "the form has just appeared: {}",
        scene.text()
    );
    scene.wait(Duration::from_millis(400));
    scene.press("enter");
    assert!(scene.text().contains("Branch is missing"), "{}", scene.text());
    scene.type_text("main");
    scene.press("tab right");
    crate::frames::check_frame(&scene, "ask_form_80x24");
    scene.press("enter");
    let answer = json!({ "action": "accept", "content": { "branch": "main", "draft": true } });
    let (call, sent) = scene
        .take_calls()
        .into_iter()
        .find(|(_, call)| call.path.contains("/asks/"))
        .unwrap();
    assert_eq!(serde_json::from_str::<Value>(&sent.body.unwrap()).unwrap(), answer);
    assert!(!scene.text().contains("* is required"), "{}", scene.text());
    scene.refuse(call, "the disk is full");
    assert!(
        scene.text().contains("* is required") && scene.text().contains("main"),
        "it comes back: {}",
        scene.text()
    );
}

#[test]
fn denial_leads_back_to_the_composer() {
    let mut scene = Scene::connected(80, 24);
    let stream = open_session(&mut scene);
    scene.rows(stream, "row", ask_row(14, "rm -rf build"));
    scene.rows(stream, "state", json!({ "asks": ["1-14"] }));
    scene.wait(Duration::from_secs(1));
    scene.press("ctrl-g d");
    assert_eq!(bodies(&mut scene), [json!({ "optionId": "reject_once" })]);
    scene.wait(Duration::from_millis(400));
    scene.type_text("use git rm");
    assert!(scene.text().contains("❯ use git rm"), "{}", scene.text());
}

#[test]
fn edit_outside_of_the_directory_is_marked_and_long_subjects_scroll() {
    let mut scene = Scene::connected(60, 20);
    let stream = open_session(&mut scene);
    let mut edit = ask_row(14, "");
    let lines: Vec<String> = (1..30).map(|number| format!("+line {number}")).collect();
    let diff = |path: &str| {
        json!({ "path": path, "change": "modified", "added": 29, "removed": 0, "numbered": true,
        "hunks": [{ "old": [1, 0], "new": [1, 29], "lines": lines }] })
    };
    edit["subject"] = json!({ "title": "Wants to edit 2 files", "command": null, "cwd": null,
        "paths": ["/w/blog/src/a.rs", "/etc/hosts"], "diffs": [diff("/w/blog/src/a.rs")], "text": null,
        "outside": ["/etc/hosts"], "detailed": true });
    scene.rows(stream, "row", edit);
    scene.rows(stream, "state", json!({ "asks": ["1-14"] }));
    scene.wait(Duration::from_secs(1));
    assert!(scene.text().contains("1 path outside"), "{}", scene.text());
    scene.press("ctrl-g");
    crate::frames::check_frame(&scene, "ask_edit_60x20");
    scene.press("pgdn pgdn pgdn pgdn pgdn pgdn pgdn pgdn");
    assert!(scene.text().contains("line 29") && scene.text().contains("d  No"), "{}", scene.text());
    scene.press("pgup");
    assert!(!scene.text().contains("line 29"), "scrolling stops at the end: {}", scene.text());
    scene.press("v");
    assert!(
        scene.text().contains("Wants to edit 2 files") && scene.text().contains("line 1"),
        "{}",
        scene.text()
    );
}

#[test]
fn answer_key_of_the_list_opens_the_session_that_asks() {
    let mut scene = Scene::connected(80, 24);
    let mut parent = session(
        "sess_a",
        "Parent",
        attention("needs_answer", "2026-11-17T09:58:00.000Z", Some("may I?")),
    );
    parent["attention"]["via"] = json!("sess_child");
    scene.list(&[parent, session("sess_b", "Quiet", json!({}))]);
    scene.take_effects();
    scene.press("G a");
    assert!(scene.text().contains("this session asks nothing"), "{}", scene.text());
    scene.press("g a");
    let opened = scene.take_effects().into_iter().find_map(|effect| match effect {
        wharf_tui::TuiEffect::OpenRows { session, stream } => Some((session, stream)),
        _ => None,
    });
    let (id, stream) = opened.unwrap();
    assert_eq!(id, "sess_child");
    scene.rows(
        stream,
        "page",
        page(session(&id, "Child", json!({})), &[ask_row(14, "rm -rf build")], &["1-14"]),
    );
    scene.wait(Duration::from_millis(400));
    scene.press("a");
    assert_eq!(bodies(&mut scene), [json!({ "optionId": "allow_once" })]);
}

#[test]
fn option_that_allows_once_is_selected_first() {
    let mut scene = Scene::connected(80, 24);
    let stream = open_session(&mut scene);
    let mut ask = ask_row(14, "rm -rf build");
    ask["options"].as_array_mut().unwrap().swap(0, 1);
    scene.rows(stream, "row", ask);
    scene.rows(stream, "state", json!({ "asks": ["1-14"] }));
    scene.press("ctrl-g");
    scene.wait(Duration::from_secs(1));
    scene.press("enter");
    assert_eq!(
        bodies(&mut scene),
        [json!({ "optionId": "allow_once" })],
        "an agent may name another option first"
    );
}
