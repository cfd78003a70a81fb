//! Pictures of transcripts.

use serde_json::{Value, json};
use wharf_tui::StreamId;

use crate::frames::check_frame;
use crate::scene::{Scene, page, row, session, text_row};

const MARKDOWN: &str = "## Result\n\nThe parser kept **one line too few**: `lines()` strips the last newline, \
    so that *every* caller saw less. 日本語のテキスト and 👩‍👩‍👧 stay in line.\n\n\
    1. Read `src/parser.rs`, then the tests beside it, then the [notes](https://example.org/notes)\n\
    2. Fix it\n   - in the parser\n   - in the docs\n\n\
    > The newline belongs to the line before it.\n\n\
    ```rust\nfn last_line(input: &str) -> Option<&str> {\n    input.rsplit('\\n').next()\n}\n```\n\n\
    | file | change |\n|---|---|\n| src/parser.rs | the last line is kept |\n| tests/parser.rs | one test more |\n";

/// Opens a session with these rows and gives its transcript the focus.
pub(crate) fn open_transcript(width: u16, height: u16, rows: &[Value]) -> (Scene, StreamId) {
    let mut scene = Scene::connected(width, height);
    let about = session("sess_a", "Fix the parser", json!({}));
    scene.list(std::slice::from_ref(&about));
    scene.press("enter");
    let stream = scene.opened_stream();
    scene.rows(stream, "page", page(about, rows, &[]));
    scene.press("tab");
    scene.take_effects();
    (scene, stream)
}

pub(crate) fn prompt_row(seq: u64, text: &str) -> Value {
    row(
        seq,
        "prompt",
        text,
        json!({ "by": { "name": "zed" }, "acceptedAt": null, "parts": [{ "type": "text", "text": text }] }),
    )
}

#[test]
fn markdown_is_laid_out_for_reading() {
    let rows = [prompt_row(2, "What was wrong?"), text_row(3, "message", MARKDOWN)];
    check_frame(&open_transcript(80, 34, &rows).0, "markdown_80x34");
    check_frame(&open_transcript(44, 44, &rows).0, "markdown_44x44");
}

/// Returns a tool call that took five seconds.
pub(crate) fn tool_row(seq: u64, kind: &str, title: &str, state: &str, members: Value) -> Value {
    let ended = if state == "running" { Value::Null } else { json!("2026-11-17T09:58:05.000Z") };
    let mut tool = row(
        seq,
        "tool",
        title,
        json!({ "toolCallId": format!("t{seq}"), "title": title, "toolKind": kind,
        "state": state, "startedAt": "2026-11-17T09:58:00.000Z", "endedAt": ended }),
    );
    tool.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    tool["open"] = json!(state == "running");
    tool
}

pub(crate) fn edit_row(seq: u64, path: &str) -> Value {
    let diff = json!({ "path": path, "change": "modify", "added": 2, "removed": 1, "numbered": true, "hunks": [
        { "old": [41, 3], "new": [41, 4], "lines": [" fn last_line(input: &str) {", "-    input.lines().last()",
            "+    input.trim_end()", "+        .rsplit('\\n').next()", " }"] },
        { "old": [90, 1], "new": [91, 1], "lines": [" // the end"] }] });
    tool_row(seq, "edit", &format!("Edit {path}"), "completed", json!({ "diffs": [diff] }))
}

pub(crate) fn failed_run_row(seq: u64) -> Value {
    let text = "compiling\none\ntwo\nthree\nassertion failed\n  left: 3\n right: 4\n";
    let cut =
        json!({ "bytes": 182_034, "missingLines": 2211, "whole": "rows/1-7/text?part=output" });
    tool_row(
        seq,
        "execute",
        "cargo test",
        "failed",
        json!({ "command": "cargo test -p parser", "cwd": "/w/blog",
        "output": { "text": text, "bytes": 182_034, "lines": 2218, "exitCode": 101, "signal": null, "cut": cut } }),
    )
}

fn turn_end_row(seq: u64) -> Value {
    row(
        seq,
        "turn_end",
        "done",
        json!({ "reason": "end_turn", "outcome": "done", "durationMs": 61_200,
        "usage": { "input": 18_200, "output": 2_100, "cached": null, "total": null,
            "cost": { "amount": 0.07, "currency": "USD" } },
        "context": null, "tools": { "count": 9, "failed": 1 },
        "files": [{ "path": "a", "added": 3, "removed": 1 }], "message": null, "stderr": null, "next": null }),
    )
}

fn steps() -> Vec<Value> {
    let image = json!({ "parts": [{ "type": "image", "text": "" }, { "type": "blob", "media": "image",
        "mime": "image/png", "bytes": 48_211, "blob": "b3_9f", "name": "shot.png" }] });
    let mut ask = row(
        8,
        "ask",
        "asked",
        json!({ "askId": 8, "ask": "permission", "state": "answered", "tool": "1-7",
        "answer": { "option": "allow_once", "name": "Allow once", "by": { "name": "phone" },
            "at": "2026-11-17T09:58:04.200Z", "after": 4200 },
        "subject": { "title": "Run cargo test", "command": "cargo test", "cwd": null, "paths": [], "diffs": [],
            "text": null, "outside": [], "detailed": true } }),
    );
    ask["open"] = json!(false);
    let mut thought = text_row(6, "thought", "The test tells.\nMore.");
    thought["changedAt"] = json!("2026-11-17T09:58:06.000Z");
    let mut child = tool_row(11, "search", "Search for lines()", "completed", json!({}));
    child["parent"] = json!("1-10");
    vec![
        prompt_row(2, "Fix it"),
        tool_row(
            3,
            "read",
            "Read src/parser.rs",
            "completed",
            json!({ "input": { "path": "src/parser.rs" } }),
        ),
        edit_row(4, "src/parser.rs"),
        edit_row(5, "tests/parser.rs"),
        thought,
        failed_run_row(7),
        ask,
        text_row(9, "message", "One more look."),
        tool_row(
            10,
            "think",
            "Look for callers",
            "running",
            json!({
            "children": { "count": 1, "open": 0, "failed": 0, "latest": "Search for lines()" } }),
        ),
        child,
        row(12, "message", "", image),
        row(
            13,
            "notice",
            "",
            json!({ "what": "mode", "level": "info", "text": "mode: plan → build" }),
        ),
        turn_end_row(14),
    ]
}

#[test]
fn steps_are_cards_and_three_in_a_row_are_one_line() {
    let (mut scene, _) = open_transcript(80, 34, &steps());
    check_frame(&scene, "steps_folded_80x34");
    scene.press("g j enter");
    check_frame(&scene, "steps_unfolded_80x34");
    scene.press("j enter j j j enter j j j enter g");
    check_frame(&scene, "steps_opened_80x34");
    scene.press("G");
    check_frame(&scene, "steps_opened_end_80x34");
}

#[test]
fn session_without_rows_tells_its_agent_and_some_commands() {
    let mut scene = Scene::connected(60, 20);
    let about = session("sess_a", "Fix the parser", json!({}));
    scene.list(std::slice::from_ref(&about));
    scene.press("enter");
    let stream = scene.opened_stream();
    let mut first = page(about, &[], &[]);
    let command =
        |name: &str, description: &str| json!({ "name": name, "description": description });
    first["state"]["settings"] = json!({ "id": "sess_a", "options": [], "commands": [
        command("compact", "Shorten the conversation"), command("review", "Review a change"), command("init", "Begin"),
        command("more", "Not shown")] });
    scene.rows(stream, "page", first);
    check_frame(&scene, "empty_60x20");
}

#[test]
fn session_that_failed_to_start_tells_why() {
    let failed = session(
        "sess_a",
        "Fix the parser",
        json!({ "status": "failed", "message": "the agent exited (code 1)" }),
    );
    let mut scene = Scene::connected(60, 20);
    scene.list(std::slice::from_ref(&failed));
    scene.press("enter");
    let stream = scene.opened_stream();
    scene.rows(stream, "page", page(failed, &[], &[]));
    assert!(
        scene.text().contains("claude in ~/blog · failed: the agent exited (code 1)"),
        "{}",
        scene.text()
    );
}

#[test]
fn session_without_rows_leaves_the_reason_to_its_card() {
    let failed = session(
        "sess_a",
        "Fix the parser",
        json!({ "status": "error", "endReason": "start_failed",
        "message": "no such model" }),
    );
    let mut scene = Scene::connected(60, 20);
    scene.list(std::slice::from_ref(&failed));
    scene.press("enter");
    let stream = scene.opened_stream();
    scene.rows(stream, "page", page(failed, &[], &[]));
    let text = scene.text();
    assert!(
        text.contains("! claude did not start") && text.contains("\n claude in ~/blog\n"),
        "{text}"
    );
}
