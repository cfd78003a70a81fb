//! Diffs, whole texts and changed files over the whole screen.

use serde_json::json;
use wharf_tui::{ScreenSize, TuiEffect, TuiInput, view};

use crate::frames::check_frame;
use crate::scene::{row, session};
use crate::transcript_frames::{edit_row, failed_run_row, open_transcript, prompt_row, tool_row};

#[test]
fn diff_fills_the_screen_file_by_file() {
    let mut edit = edit_row(3, "src/parser.rs");
    let mut second = edit["diffs"][0].clone();
    second["path"] = json!("src/日本.rs");
    second["numbered"] = json!(false);
    second["hunks"] = json!([{ "old": null, "new": null, "lines": ["-a\ttab", "+b \u{1b}[2J and a line that is so long \
        that it does not fit a narrow screen, and goes on in the next line"] }]);
    edit["diffs"].as_array_mut().unwrap().push(second);
    let (mut scene, _) = open_transcript(100, 20, &[prompt_row(2, "Fix it"), edit.clone()]);
    scene.press("k j v");
    check_frame(&scene, "diff_100x20");
    scene.press("]");
    check_frame(&scene, "diff_second_file_100x20");
    let (mut narrow, _) = open_transcript(60, 20, &[prompt_row(2, "Fix it"), edit]);
    narrow.press("k j v ]");
    check_frame(&narrow, "diff_second_file_60x20");
    narrow.press("w");
    assert!(narrow.text().contains('…'), "long lines are cut: {}", narrow.text());
    narrow.press("[ y");
    let copied = narrow.take_effects().into_iter().find_map(|effect| {
        let TuiEffect::Copy(text) = effect else { return None };
        Some(text)
    });
    assert!(copied.is_some_and(|text| {
        text.starts_with("--- src/parser.rs\n+++ src/parser.rs\n@@ -41,3 +41,4 @@\n")
    }));
    narrow.press("q");
    assert!(narrow.text().contains("Edit   src/parser.rs"));
}

#[test]
fn whole_output_is_read_page_by_page() {
    let (mut scene, _) = open_transcript(80, 20, &[prompt_row(2, "Fix it"), failed_run_row(7)]);
    scene.press("k j v");
    assert!(scene.text().contains("loading…"), "{}", scene.text());
    let calls = scene.take_calls();
    assert_eq!(calls[0].1.path, "/sessions/sess_a/rows/1-7/text?part=output&offset=0");
    let answer = json!({ "row": "1-7", "part": "output", "offset": 0, "bytes": 12, "text": "first\n", "next": 6 });
    scene.answer(calls[0].0, &answer);
    let calls = scene.take_calls();
    assert_eq!(calls[0].1.path, "/sessions/sess_a/rows/1-7/text?part=output&offset=6");
    let answer = json!({ "row": "1-7", "part": "output", "offset": 6, "bytes": 12, "text": "second\n", "next": null });
    scene.answer(calls[0].0, &answer);
    check_frame(&scene, "output_80x20");
    scene.press("o");
    assert!(
        scene
            .take_effects()
            .contains(&TuiEffect::RunPager("first\nsecond\n".to_owned()))
    );
}

#[test]
fn refused_text_leaves_the_part_that_the_row_has() {
    let (mut scene, _) = open_transcript(80, 20, &[prompt_row(2, "Fix it"), failed_run_row(7)]);
    scene.press("k j v");
    let calls = scene.take_calls();
    scene.refuse(calls[0].0, "too many answers");
    assert!(
        scene.text().contains("assertion failed") && !scene.text().contains("loading"),
        "{}",
        scene.text()
    );
}

#[test]
fn changed_files_lead_to_their_newest_change() {
    let (mut scene, _) =
        open_transcript(80, 20, &[prompt_row(2, "Fix it"), edit_row(3, "src/parser.rs")]);
    scene.press("c");
    let calls = scene.take_calls();
    assert_eq!(calls[0].1.path, "/sessions/sess_a/changes");
    let file = |path: &str, status: &str| {
        json!({ "path": path, "status": status, "added": 4, "removed": 1, "exact": true, "rows": ["1-3"],
            "rowCount": 1, "turns": [], "turnCount": 1, "changedAt": "2026-11-17T09:58:00.000Z" })
    };
    scene.answer(
        calls[0].0,
        &json!({ "fold": 4, "session": "sess_a", "asOf": "1-9", "total": 2, "added": 8,
        "removed": 2, "partial": false, "files": [file("tests/new.rs", "created"), file("src/parser.rs", "changed")] }),
    );
    scene.press("j");
    check_frame(&scene, "changed_files_80x20");
    scene.press("enter");
    let calls = scene.take_calls();
    assert_eq!(calls[0].1.path, "/sessions/sess_a/rows/1-3");
    scene.answer(calls[0].0, &edit_row(3, "src/parser.rs"));
    assert!(scene.text().contains("41   41 │ fn last_line"), "{}", scene.text());
    scene.press("esc");
    assert!(scene.text().contains("Changed files"), "one step back");
}

#[test]
fn row_without_more_says_so_and_the_pager_gets_its_text() {
    let tool = tool_row(3, "other", "Wait", "completed", json!({}));
    let (mut scene, _) = open_transcript(80, 20, &[prompt_row(2, "Fix it"), tool]);
    scene.press("k j v");
    assert!(scene.text().contains("nothing more to show"), "{}", scene.text());
    scene.press("o");
    assert!(scene.take_effects().contains(&TuiEffect::RunPager("Wait".to_owned())));
}

#[test]
fn plan_is_pinned_and_opens() {
    let entry = |text: &str, status: &str| json!({ "text": text, "status": status });
    let plan = row(
        3,
        "plan",
        "",
        json!({ "done": 1, "total": 3, "entries": [entry("Look around", "completed"),
        entry("Fix it", "in_progress"), entry("Test it", "pending")] }),
    );
    let rows = [prompt_row(2, "Fix it"), plan];
    let (mut scene, stream) = open_transcript(60, 20, &rows);
    scene.rows(stream, "state", json!({ "plan": "1-3" }));
    assert!(scene.text().contains("─ Plan 1/3 · ▸ Fix it"), "{}", scene.text());
    scene.press("p");
    check_frame(&scene, "plan_60x20");
    let killed = session("sess_a", "Fix the parser", json!({ "status": "killed" }));
    scene.rows(stream, "state", json!({ "session": killed }));
    assert!(!scene.text().contains("─ Plan 1/3"), "{}", scene.text());
}

#[test]
fn no_size_of_the_screen_is_too_small_for_reading_and_finding() {
    let mut edit = edit_row(3, "src/parser.rs");
    edit["output"] =
        json!({ "text": "日本\n", "bytes": 7, "lines": 1, "exitCode": 0, "signal": null });
    for keys in ["v", "v ]", "v w", "/ a", "/ a enter", "enter", "p"] {
        let (mut scene, _) =
            open_transcript(80, 24, &[prompt_row(2, "Fix it"), edit.clone(), failed_run_row(4)]);
        scene.feed(TuiInput::TerminalFocus(false));
        scene.press(&format!("g j {keys}"));
        for width in 0..40 {
            for height in 0..16 {
                scene.feed(TuiInput::Resized(ScreenSize { width, height }));
                let frame = view(&scene.state);
                assert_eq!(
                    (frame.buffer.area().width, frame.buffer.area().height),
                    (width, height),
                    "{keys}"
                );
            }
        }
    }
}
