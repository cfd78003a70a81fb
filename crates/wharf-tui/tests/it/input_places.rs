//! Input goes to the place that shows it: pasted texts, the fields that the palette opens, and
//! texts that are being read.

use serde_json::json;
use wharf_api::SessionStreamEvent;
use wharf_tui::{StreamInput, TuiEffect, TuiInput};

use crate::scene::{attention, session, text_row};
use crate::transcript_frames::{edit_row, failed_run_row, open_transcript, prompt_row};

#[test]
fn pasted_text_goes_to_the_find_field() {
    let (mut scene, _) =
        open_transcript(80, 24, &[prompt_row(2, "Fix it"), text_row(3, "message", "the parser")]);
    scene.press("/");
    scene.feed(TuiInput::Paste("the\nparser".to_owned()));
    let text = scene.text();
    assert!(text.contains("/the parser"), "{text}");
    assert!(!text.contains("❯ the"), "{text}");
}

#[test]
fn pasted_text_goes_to_the_filter_of_the_list() {
    let (mut scene, _) = open_transcript(80, 24, &[prompt_row(2, "Fix it")]);
    scene.press("ctrl-t /");
    scene.feed(TuiInput::Paste("zebra\n".to_owned()));
    assert!(scene.text().contains("no session has “zebra"), "{}", scene.text());
}

#[test]
fn find_of_the_palette_takes_the_keys() {
    let (mut scene, _) =
        open_transcript(80, 24, &[prompt_row(2, "Fix it"), text_row(3, "message", "the parser")]);
    scene.press("i ctrl-p");
    scene.type_text("find in this");
    scene.press("enter");
    scene.type_text("pars");
    assert!(scene.text().contains("/pars") && !scene.text().contains("❯ pars"), "{}", scene.text());
}

#[test]
fn filter_of_the_palette_takes_the_keys() {
    for width in [80, 120] {
        let (mut scene, _) = open_transcript(width, 24, &[prompt_row(2, "Fix it")]);
        // The list is hidden.
        scene.press("ctrl-t ctrl-t ctrl-p");
        scene.type_text("filter the");
        scene.press("enter");
        scene.type_text("zebra");
        assert!(scene.text().contains("no session has “zebra”"), "{width}: {}", scene.text());
        assert!(!scene.text().contains("❯ zebra"), "{width}: {}", scene.text());
    }
}

/// Opens the next session that waits, below the overlays.
fn open_other_session(scene: &mut crate::scene::Scene) {
    let other = session(
        "sess_b",
        "Other",
        attention("needs_answer", "2026-11-17T09:58:00.000Z", Some("may I?")),
    );
    let event = SessionStreamEvent::read("session", other).unwrap();
    scene.feed(TuiInput::List(StreamInput::Event(event)));
    scene.press("ctrl-n");
    let opens = |effect: &TuiEffect| matches!(effect, TuiEffect::OpenRows { session, .. } if session == "sess_b");
    assert!(scene.take_effects().iter().any(opens));
}

#[test]
fn pages_of_a_text_come_from_the_session_of_its_row() {
    let (mut scene, _) = open_transcript(80, 20, &[prompt_row(2, "Fix it"), failed_run_row(7)]);
    scene.press("k j v");
    let calls = scene.take_calls();
    open_other_session(&mut scene);
    let answer = json!({ "row": "1-7", "part": "output", "offset": 0, "bytes": 12, "text": "first\n", "next": 6 });
    scene.answer(calls[0].0, &answer);
    let calls = scene.take_calls();
    let path = "/sessions/sess_a/rows/1-7/text?part=output&offset=6";
    assert!(calls.iter().any(|(_, call)| call.path == path), "{calls:?}");
}

#[test]
fn changes_of_a_file_come_from_the_session_of_the_list() {
    let (mut scene, _) =
        open_transcript(80, 20, &[prompt_row(2, "Fix it"), edit_row(3, "src/parser.rs")]);
    scene.press("c");
    let calls = scene.take_calls();
    let file = json!({ "path": "src/parser.rs", "status": "changed", "added": 4, "removed": 1, "exact": true,
        "rows": ["1-3"], "rowCount": 1, "turns": [], "turnCount": 1, "changedAt": "2026-11-17T09:58:00.000Z" });
    scene.answer(
        calls[0].0,
        &json!({ "fold": 4, "session": "sess_a", "asOf": "1-9", "total": 1, "added": 4, "removed": 1, "partial": false,
        "files": [file] }),
    );
    open_other_session(&mut scene);
    scene.press("enter");
    let calls = scene.take_calls();
    let call = calls.iter().find(|(_, call)| call.path == "/sessions/sess_a/rows/1-3");
    let (id, _) = call.unwrap_or_else(|| panic!("{calls:?}"));
    scene.answer(*id, &edit_row(3, "src/parser.rs"));
    assert!(scene.text().contains("41   41 │ fn last_line"), "{}", scene.text());
}

#[test]
fn pager_gets_no_control_characters() {
    let row = text_row(3, "message", "a\u{1b}]0;title\u{7}b\u{1b}[2J\n\tc\u{9b}31md\u{202e}");
    let (mut scene, _) = open_transcript(80, 24, &[prompt_row(2, "Fix it"), row]);
    let paged = |scene: &mut crate::scene::Scene| {
        scene.take_effects().into_iter().find_map(|effect| match effect {
            TuiEffect::RunPager(text) => Some(text),
            _ => None,
        })
    };
    scene.press("k j o");
    assert_eq!(paged(&mut scene).as_deref(), Some("ab\n\tc31md[U+202E]"));
    scene.press("v o");
    assert_eq!(paged(&mut scene).as_deref(), Some("ab\n\tc31md[U+202E]"));
    let (mut cut, _) = open_transcript(80, 20, &[prompt_row(2, "Fix it"), failed_run_row(7)]);
    cut.press("k j o");
    let calls = cut.take_calls();
    let text = "first\u{1b}[31m\nsecond";
    cut.answer(
        calls[0].0,
        &json!({ "row": "1-7", "part": "output", "offset": 0, "bytes": 12, "text": text, "next": null }),
    );
    assert_eq!(paged(&mut cut).as_deref(), Some("first\nsecond"));
}

#[test]
fn cleared_text_comes_back_with_its_pasted_text() {
    let (mut scene, _) = open_transcript(80, 24, &[prompt_row(2, "Fix it")]);
    let pasted = (1..=20).map(|number| number.to_string()).collect::<Vec<_>>().join("\n");
    scene.press("i");
    scene.feed(TuiInput::Paste(pasted.clone()));
    scene.press("ctrl-c ctrl-y");
    assert!(scene.text().contains("[pasted 20 lines #1]"), "{}", scene.text());
    scene.take_effects();
    scene.press("enter");
    let (_, call) = scene.take_calls().pop().unwrap();
    let body: serde_json::Value = serde_json::from_str(call.body.as_deref().unwrap()).unwrap();
    assert!(body.to_string().contains("\\n19\\n20"), "{body}");
}
