//! Moving in a transcript: rows, errors, older pages, new rows, finding and copying.

use serde_json::{Value, json};
use wharf_tui::{TuiEffect, TuiInput};

use crate::frames::check_frame;
use crate::scene::{Scene, attention, page, row, session, text_row};
use crate::transcript_frames::{edit_row, failed_run_row, open_transcript, prompt_row, tool_row};

/// Returns messages with these numbers.
fn messages(numbers: std::ops::Range<u64>) -> Vec<Value> {
    numbers.map(|seq| text_row(seq, "message", &format!("message {seq}"))).collect()
}

/// Returns the line that is selected first.
fn selected_line(scene: &Scene) -> String {
    let text = scene.text();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix('▌'));
    lines
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default()
        .trim_end()
        .to_owned()
}

fn copied(scene: &mut Scene) -> Option<String> {
    scene.take_effects().into_iter().find_map(|effect| {
        let TuiEffect::Copy(text) = effect else { return None };
        Some(text)
    })
}

fn older_page(rows: &[Value], before: Option<&str>) -> Value {
    json!({ "fold": 4, "session": "sess_a", "asOf": "1-99", "rows": rows, "before": before, "after": null,
        "midTurn": false, "turnHead": null })
}

#[test]
fn errors_are_reached_by_a_key() {
    let mut rows = messages(2..30);
    rows[5] = failed_run_row(7);
    rows[12] = failed_run_row(14);
    let (mut scene, _) = open_transcript(60, 20, &rows);
    scene.press("E");
    assert!(selected_line(&scene).contains("cargo test"), "{}", scene.text());
    scene.press("E");
    assert!(scene.text().contains("message 8"), "{}", scene.text());
    scene.press("E");
    assert!(scene.text().contains("no earlier error"), "{}", scene.text());
    scene.press("e");
    assert!(scene.text().contains("message 13"), "{}", scene.text());
    scene.press("e");
    assert!(scene.text().contains("no later error"), "{}", scene.text());
}

#[test]
fn transcript_is_entered_at_its_newest_row_unless_the_person_reads_older_ones() {
    let (mut scene, stream) = open_transcript(60, 20, &messages(2..30));
    // Sending follows the newest row, which is an older one soon.
    scene.press("i");
    scene.type_text("go on");
    scene.press("enter");
    scene.rows(stream, "row", text_row(30, "message", "late"));
    scene.press("tab");
    assert!(selected_line(&scene).contains("late"), "{}", scene.text());
    scene.press("pgup");
    let older = selected_line(&scene);
    scene.press("i tab");
    assert_eq!(selected_line(&scene), older);
}

#[test]
fn new_rows_are_counted_while_the_person_reads_older_ones() {
    let (mut scene, stream) = open_transcript(60, 20, &messages(2..30));
    scene.press("pgup pgup");
    let before: Vec<String> = scene.text().lines().take(15).map(str::to_owned).collect();
    for seq in 30..33 {
        scene.rows(stream, "row", text_row(seq, "message", "late"));
    }
    assert!(scene.text().contains("↓ 3 new · G"), "{}", scene.text());
    let after: Vec<String> = scene.text().lines().take(15).map(str::to_owned).collect();
    assert_eq!(before, after, "the picture stays");
    scene.press("G");
    assert!(scene.text().contains("late") && !scene.text().contains("new · G"), "{}", scene.text());
}

#[test]
fn rows_of_the_time_elsewhere_stand_below_a_line() {
    let (mut scene, stream) = open_transcript(60, 20, &messages(2..5));
    scene.feed(TuiInput::TerminalFocus(false));
    scene.rows(stream, "row", text_row(5, "message", "came later"));
    scene.rows(stream, "row", text_row(6, "message", "and this"));
    scene.feed(TuiInput::TerminalFocus(true));
    check_frame(&scene, "unread_60x20");
}

#[test]
fn rows_that_were_not_seen_stand_below_a_line_when_the_session_is_opened() {
    let open = |rows: &[Value], before: Option<&str>| {
        let mut scene = Scene::connected(60, 20);
        let mut attention = attention("finished", "2026-11-17T09:59:00.000Z", None);
        attention["attention"]["seen"] = json!("1-3");
        let about = session("sess_a", "Fix the parser", attention);
        scene.list(std::slice::from_ref(&about));
        scene.press("enter");
        let stream = scene.opened_stream();
        let mut first = page(about, rows, &[]);
        first["before"] = json!(before);
        scene.rows(stream, "page", first);
        scene.text()
    };
    let text = open(&messages(2..6), None);
    let new_line = text.lines().position(|line| line.contains("── new"));
    let first_new = text.lines().position(|line| line.contains("message 4"));
    assert_eq!(new_line.map(|line| line + 1), first_new, "{text}");
    let later = open(&messages(4..6), Some("f4.1-4"));
    assert!(
        !later.contains("── new"),
        "the first row that was not seen may be an older one: {later}"
    );
    let all_seen = open(&messages(2..4), None);
    assert!(!all_seen.contains("── new"), "{all_seen}");
    let mut rows = messages(2..4);
    rows.extend([prompt_row(4, "my own words"), text_row(5, "message", "the answer")]);
    let text = open(&rows, None);
    let place = |words: &str| {
        text.lines()
            .position(|line| line.contains(words))
            .unwrap_or_else(|| panic!("{text}"))
    };
    assert!(
        place("my own words") < place("── new") && place("── new") < place("the answer"),
        "{text}"
    );
    let mut rows = messages(2..4);
    rows.push(row(
        4,
        "notice",
        "The host was restarted",
        json!({ "what": "host_restarted", "level": "info",
        "text": "The host was restarted" }),
    ));
    let text = open(&rows, None);
    assert!(!text.contains("── new"), "a notice alone is no news: {text}");
}

#[test]
fn older_page_is_loaded_at_the_top_and_the_picture_stays() {
    let (mut scene, stream) = open_transcript(60, 20, &[]);
    let mut first = older_page(&messages(40..80), Some("f4.1-40"));
    first["state"] = json!({ "session": crate::scene::session("sess_a", "Fix the parser", json!({})), "asks": [],
        "plan": null, "queue": [], "clients": [], "live": [] });
    scene.rows(stream, "reset", json!({ "why": "log_cut" }));
    scene.rows(stream, "page", first);
    scene.press("g");
    let calls = scene.take_calls();
    assert_eq!(calls[0].1.path, "/sessions/sess_a/rows?limit=100&before=f4.1-40");
    let before = scene.text();
    scene.answer(calls[0].0, &older_page(&messages(20..40), Some("f4.1-20")));
    assert_eq!(scene.text(), before);
    scene.press("k");
    assert!(scene.text().contains("message 39"), "{}", scene.text());
}

#[test]
fn folded_steps_that_do_not_fill_the_screen_bring_older_rows() {
    let (mut scene, stream) = open_transcript(60, 20, &[]);
    let steps: Vec<Value> = (40..80).map(|seq| edit_row(seq, "a.rs")).collect();
    scene.rows(stream, "page", older_page(&steps, Some("f4.1-40")));
    let calls = scene.take_calls();
    assert_eq!(calls.len(), 1, "{}", scene.text());
    scene.answer(calls[0].0, &older_page(&messages(2..40), None));
    assert!(
        scene.text().contains("40 steps · 1 file +80 −40") && scene.text().contains("message 39")
    );
    assert!(scene.take_calls().is_empty());
}

#[test]
fn text_is_found_in_held_rows_and_marked() {
    let (mut scene, _) = open_transcript(60, 20, &messages(2..60));
    scene.press("/");
    scene.type_text("Message 1");
    check_frame(&scene, "find_60x20");
    scene.press("enter");
    assert_eq!(selected_line(&scene), "message 19");
    scene.press("n");
    assert_eq!(selected_line(&scene), "message 18");
    scene.press("N");
    assert_eq!(selected_line(&scene), "message 19");
    scene.press("N");
    assert!(scene.text().contains("no newer row has “Message 1”"), "{}", scene.text());
    scene.press("esc i");
    assert!(!scene.text().contains("/Message"), "Esc ends finding");
}

#[test]
fn text_in_rows_that_are_not_held_is_found_by_the_host() {
    let (mut scene, stream) = open_transcript(60, 20, &[]);
    scene.rows(stream, "page", older_page(&messages(80..120), Some("f4.1-80")));
    scene.take_effects();
    scene.press("/");
    scene.type_text("needle");
    scene.press("enter");
    let calls = scene.take_calls();
    assert_eq!(calls[0].1.path, "/search?q=needle&session=sess_a&limit=100");
    let hit = |row: &str| {
        json!({ "session": "sess_a", "workspaceSlug": "blog", "row": row, "kind": "message",
        "at": "2026-11-17T09:58:00.000Z", "summary": "needle", "snippet": [] })
    };
    scene.answer(
        calls[0].0,
        &json!({ "fold": 4, "hits": [hit("1-90"), hit("1-25")], "pending": 0 }),
    );
    let calls = scene.take_calls();
    assert_eq!(calls[0].1.path, "/sessions/sess_a/rows?limit=100&before=f4.1-80");
    scene.answer(calls[0].0, &older_page(&messages(50..80), Some("f4.1-50")));
    let calls = scene.take_calls();
    assert_eq!(calls[0].1.path, "/sessions/sess_a/rows?limit=100&before=f4.1-50");
    let mut oldest = messages(10..50);
    oldest[15] = text_row(25, "message", "the needle is here");
    scene.answer(calls[0].0, &older_page(&oldest, None));
    assert_eq!(selected_line(&scene), "the needle is here", "{}", scene.text());
}

#[test]
fn found_step_is_shown_although_its_run_was_folded() {
    let mut rows = messages(2..4);
    rows.extend((4..12).map(|seq| edit_row(seq, &format!("src/file{seq}.rs"))));
    let (mut scene, _) = open_transcript(60, 20, &rows);
    scene.press("/");
    scene.type_text("file7");
    scene.press("enter");
    assert!(selected_line(&scene).contains("src/file7.rs"), "{}", scene.text());
}

#[test]
fn row_and_turn_are_copied_as_text() {
    let rows = [
        prompt_row(2, "Fix it\nnow"),
        failed_run_row(3),
        text_row(4, "message", "It is **fixed**."),
    ];
    let (mut scene, _) = open_transcript(60, 20, &rows);
    scene.press("G y");
    assert_eq!(copied(&mut scene).as_deref(), Some("It is **fixed**."));
    scene.press("Y");
    assert_eq!(
        copied(&mut scene).as_deref(),
        Some("> Fix it\n> now\n\n[cargo test]\n\nIt is **fixed**.")
    );
}

#[test]
fn step_that_joins_a_folded_run_gives_its_selection_to_the_run() {
    let rows =
        [edit_row(2, "a"), edit_row(3, "b"), tool_row(4, "edit", "Edit c", "running", json!({}))];
    let (mut scene, stream) = open_transcript(60, 20, &rows);
    scene.press("G");
    assert!(selected_line(&scene).contains("Edit   c"), "{}", scene.text());
    let mut done = tool_row(4, "edit", "Edit c", "completed", json!({}));
    done["rev"] = json!(9);
    scene.rows(stream, "row", done);
    assert!(selected_line(&scene).contains("3 steps"), "{}", scene.text());
}

#[test]
fn long_row_is_read_through_line_by_line() {
    let long: String = (0..60).map(|number| format!("line {number}\n\n")).collect();
    let (mut scene, _) = open_transcript(
        60,
        20,
        &[prompt_row(2, "Tell"), text_row(3, "message", &long), text_row(4, "message", "end")],
    );
    scene.press("g j");
    let mut seen = 0;
    for _ in 0..60 {
        let text = scene.text();
        while text.contains(&format!("line {seen}\n")) || text.contains(&format!("▌line {seen}\n"))
        {
            seen += 1;
        }
        scene.press("j");
    }
    assert_eq!(seen, 60, "no line was jumped over");
}
