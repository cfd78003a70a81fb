//! How much is laid out: rows in view, and each of them once.

use serde_json::{Value, json};
use wharf_api::{RowStreamEvent, SessionStreamEvent};

use crate::keymap::KeyPress;
use crate::{
    Moment, ScreenSize, StreamId, StreamInput, TuiEffect, TuiInput, TuiOptions, TuiState, update,
    view,
};

const HEIGHT: u16 = 40;
const ROWS: u64 = 2_000;

fn feed(state: &mut TuiState, input: TuiInput) -> Vec<TuiEffect> {
    update(state, input, Moment::default())
}

fn press(state: &mut TuiState, key: &str) {
    feed(state, TuiInput::Key(KeyPress::parse(key).unwrap()));
}

fn send(state: &mut TuiState, stream: StreamId, name: &str, data: Value) {
    let event = RowStreamEvent::read(name, data).unwrap();
    feed(state, TuiInput::Rows { stream, input: StreamInput::Event(event) });
}

fn row(seq: u64, kind: &str, members: Value) -> Value {
    let mut row = json!({ "id": format!("1-{seq}"), "rev": seq, "at": "", "changedAt": "", "turn": null, "parent": null,
        "open": true, "summary": "", "kind": kind });
    row.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    row
}

fn message(seq: u64) -> Value {
    row(seq, "message", json!({ "parts": [{ "type": "text", "text": format!("message {seq}") }] }))
}

/// Opens a session with these rows and shows it.
fn open_session(rows: &[Value]) -> (TuiState, StreamId) {
    let size = ScreenSize { width: 100, height: HEIGHT };
    let mut state = TuiState::new(TuiOptions { size, ..TuiOptions::default() }, Moment::default());
    let session = json!({ "id": "s", "adapterSlug": "demo", "workspaceSlug": "w", "cwd": "/w", "status": "running",
        "startedAt": "2026-11-17T09:00:00.000Z", "title": "t", "turn": "idle", "queued": 0, "clients": 0, "lastSeq": 1,
        "resumable": true });
    feed(&mut state, TuiInput::List(StreamInput::Connected));
    let list = SessionStreamEvent::read("snapshot", json!({ "sessions": [session] })).unwrap();
    feed(&mut state, TuiInput::List(StreamInput::Event(list)));
    let effects = feed(&mut state, TuiInput::Key(KeyPress::parse("enter").unwrap()));
    let opened = effects.into_iter().find_map(|effect| {
        let TuiEffect::OpenRows { stream, .. } = effect else { return None };
        Some(stream)
    });
    let stream = opened.unwrap();
    send(
        &mut state,
        stream,
        "page",
        json!({ "fold": 4, "session": "s", "asOf": "1-9", "rows": rows, "before": null,
        "after": null, "midTurn": false, "turnHead": null, "state": { "session": session, "asks": [], "plan": null,
            "queue": [], "clients": [], "live": [] } }),
    );
    press(&mut state, "tab");
    view(&state);
    (state, stream)
}

/// Returns how many rows were laid out by `act` and the picture after it.
fn count_laid_out(state: &mut TuiState, act: impl FnOnce(&mut TuiState)) -> u64 {
    let before = state.layouts.borrow().count_laid_out();
    act(state);
    view(state);
    state.layouts.borrow().count_laid_out() - before
}

fn append(seq: u64, from: u64) -> Value {
    json!({ "id": format!("1-{seq}"), "from": from, "rev": from + 1, "part": 0, "text": " and\n\nmore", "changedAt": "" })
}

#[test]
fn only_rows_in_view_are_laid_out_and_each_once() {
    let rows: Vec<Value> = (2..ROWS).map(message).collect();
    let (mut state, _) = open_session(&rows);
    assert!(
        state.layouts.borrow().count_laid_out() <= u64::from(HEIGHT),
        "opening lays out one screen"
    );
    assert_eq!(count_laid_out(&mut state, |_| {}), 0, "the same picture again");
    let page = count_laid_out(&mut state, |state| press(state, "pgup"));
    assert!(page <= u64::from(HEIGHT), "a page up laid out {page} rows");
    let jump = count_laid_out(&mut state, |state| press(state, "g"));
    assert!(jump <= 2 * u64::from(HEIGHT), "the jump to the oldest row laid out {jump} rows");
}

#[test]
fn update_lays_out_its_own_row_and_none_if_that_is_not_in_view() {
    let rows: Vec<Value> = (2..ROWS).map(message).collect();
    let (mut state, stream) = open_session(&rows);
    let last = ROWS - 1;
    for number in 0..100 {
        let count = count_laid_out(&mut state, |state| {
            send(state, stream, "append", append(last, last + number))
        });
        assert_eq!(count, 1, "append {number}");
    }
    press(&mut state, "g");
    view(&state);
    let count =
        count_laid_out(&mut state, |state| send(state, stream, "append", append(last, last + 100)));
    assert_eq!(count, 0, "the row is not in view");
}

#[test]
fn several_updates_between_two_pictures_lay_a_row_out_once() {
    let rows: Vec<Value> = (2..ROWS).map(message).collect();
    let (mut state, stream) = open_session(&rows);
    let last = ROWS - 1;
    let count = count_laid_out(&mut state, |state| {
        for number in 0..1_000 {
            send(state, stream, "append", append(last, last + number));
        }
    });
    assert_eq!(count, 1);
}

#[test]
fn folded_steps_are_not_laid_out() {
    let tool = |seq| {
        row(
            seq,
            "tool",
            json!({ "toolCallId": "t", "title": "t", "state": "completed", "startedAt": "" }),
        )
    };
    let rows: Vec<Value> = (2..ROWS).map(tool).collect();
    let (mut state, _) = open_session(&rows);
    assert_eq!(state.layouts.borrow().count_laid_out(), 1, "one line stands for all");
    assert_eq!(count_laid_out(&mut state, |_| {}), 0);
}
