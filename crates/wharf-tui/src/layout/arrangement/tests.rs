//! Runs of steps and rows of subagents.

use serde_json::{Value, json};
use wharf_api::RowStreamEvent;

use super::*;

fn row(seq: u64, kind: &str, members: &Value) -> Value {
    let mut row = json!({ "id": format!("1-{seq}"), "rev": seq, "at": "", "changedAt": "", "turn": null,
        "parent": null, "open": false, "summary": "", "kind": kind });
    row.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    row
}

fn tool(seq: u64, state: &str) -> Value {
    let diff = json!({ "path": format!("f{}", seq % 2), "change": "modify", "added": 2, "removed": 1,
        "numbered": true, "hunks": [] });
    row(
        seq,
        "tool",
        &json!({ "toolCallId": "t", "title": "t", "state": state, "startedAt": "", "diffs": [diff] }),
    )
}

fn arrange(rows: &[Value], view: &TranscriptView) -> Vec<RowFold> {
    let page = json!({ "fold": 4, "session": "s", "asOf": "1-9", "rows": rows, "before": null, "after": null,
        "midTurn": false, "turnHead": null });
    let mut set = RowSet::new(100);
    set.apply(RowStreamEvent::read("page", page).unwrap());
    let arrangement = arrange_rows(&set, view, false);
    set.iter().map(|(place, _)| arrangement.context(place).fold).collect()
}

#[test]
fn three_successful_steps_fold_with_the_thoughts_between_them() {
    let thought = row(3, "thought", &json!({ "parts": [] }));
    let rows = [
        tool(2, "completed"),
        thought,
        tool(4, "completed"),
        tool(5, "completed"),
        tool(6, "running"),
    ];
    let folds = arrange(&rows, &TranscriptView::default());
    let head = RowFold::Folded("3 steps · 2 files +6 −3".into());
    assert_eq!(folds, [head, RowFold::Hidden, RowFold::Hidden, RowFold::Hidden, RowFold::Shown]);
}

#[test]
fn failed_steps_and_messages_end_a_run() {
    let message = row(4, "message", &json!({ "parts": [] }));
    let rows = [
        tool(2, "completed"),
        tool(3, "completed"),
        message,
        tool(5, "completed"),
        tool(6, "failed"),
    ];
    assert!(
        arrange(&rows, &TranscriptView::default())
            .iter()
            .all(|fold| *fold == RowFold::Shown)
    );
}

#[test]
fn run_with_an_opened_row_stays_open() {
    let rows = [tool(2, "completed"), tool(3, "completed"), tool(4, "completed")];
    let mut view = TranscriptView::default();
    view.toggled.insert(RowPlace::of_id("1-3"));
    let folds = arrange(&rows, &view);
    let head = RowFold::Unfolded("3 steps · 2 files +6 −3".into());
    assert_eq!(folds, [head, RowFold::Shown, RowFold::Shown]);
}

#[test]
fn rows_of_a_subagent_are_below_its_opened_tool_call_only() {
    let mut child = tool(3, "completed");
    child["parent"] = json!("1-2");
    let rows = [tool(2, "running"), child];
    let mut view = TranscriptView::default();
    assert_eq!(arrange(&rows, &view), [RowFold::Shown, RowFold::Hidden]);
    view.toggled.insert(RowPlace::of_id("1-2"));
    assert_eq!(arrange(&rows, &view), [RowFold::Shown, RowFold::Shown]);
}
