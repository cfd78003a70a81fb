//! Texts of tool calls and messages that come piece by piece, or again as a whole.

use serde_json::{Value, json};
use wharf_core::{PromptEnd, PromptEvent};

use super::{Transcript, prompt_id};
use crate::RowNumber;

const TOKEN: &str = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
const KEY: &str = "-----BEGIN PRIVATE KEY-----\nMIIfirst\nMIIsecond\n-----END PRIVATE KEY-----\n";

fn run_command() -> Transcript {
    let mut log = Transcript::started();
    log.prompt("prm_1", "go");
    log.update(json!({ "sessionUpdate": "tool_call", "toolCallId": "c1", "title": "make", "kind": "execute",
        "status": "in_progress", "rawInput": { "command": "make" } }));
    log
}

fn add_output(log: &mut Transcript, piece: &str) {
    log.update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c1",
        "_meta": { "terminal_output_delta": { "data": piece, "terminal_id": "t1" } } }));
}

fn set_output(log: &mut Transcript, text: &str) {
    log.update(
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c1", "rawOutput": text }),
    );
}

fn complete(log: &mut Transcript) {
    log.update(
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed",
        "rawOutput": { "exit_code": 0 } }),
    );
}

/// Returns the shown output of the tool call, and the whole.
fn output_of(log: &Transcript) -> (Value, Option<String>) {
    (log.json(1)["output"].clone(), log.rows.whole_text(RowNumber(2), "output").map(str::to_owned))
}

fn cut_into_pieces(text: &str, size: usize) -> Vec<String> {
    text.chars()
        .collect::<Vec<_>>()
        .chunks(size)
        .map(|piece| piece.iter().collect())
        .collect()
}

#[test]
fn output_in_pieces_is_the_output_as_a_whole() {
    let lines: String = (0..1_500).map(|n| format!("line {n} é\n")).collect();
    let texts = [
        "short".to_owned(),
        format!("{lines}the end"),
        format!("{lines}{KEY}{lines}"),
        "é".repeat(12_000),
        format!("{}\n{}", "a".repeat(9_000), "b".repeat(100)),
        format!("a {TOKEN} b\n{KEY}c\n"),
    ];
    for text in texts {
        let mut whole = run_command();
        set_output(&mut whole, &text);
        complete(&mut whole);
        for size in [1_usize, 7, 100, 5_000].into_iter().filter(|size| text.len() / size < 500) {
            let mut log = run_command();
            cut_into_pieces(&text, size)
                .iter()
                .for_each(|piece| add_output(&mut log, piece));
            complete(&mut log);
            assert_eq!(output_of(&log), output_of(&whole), "in pieces of {size}");
        }
    }
}

#[test]
fn live_output_of_goose_is_output_that_its_end_replaces() {
    let mut log = Transcript::started();
    let live = |chunks: Value| {
        let told = json!({ "type": "live_output", "params": { "sequence": 1, "chunks": chunks } });
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "in_progress",
            "_meta": { "toolNotification": told } })
    };
    log.prompt("prm_1", "go");
    log.update(json!({ "sessionUpdate": "tool_call", "toolCallId": "c1", "title": "shell · ls",
        "rawInput": { "command": "ls" } }));
    log.update(live(json!([{ "stream": "stdout", "output": "one\n" }, { "stream": "stderr", "output": "two\n" }])));
    log.update(live(json!([{ "stream": "stdout", "output": "three\n" }])));
    assert_eq!(
        (&log.json(1)["output"]["text"], &log.json(1)["output"]["live"]),
        (&json!("one\ntwo\nthree\n"), &json!(true))
    );
    log.update(
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed",
        "rawOutput": { "stdout": "one\nthree", "stderr": "two", "exit_code": 0 } }),
    );
    assert_eq!(log.json(1)["output"]["text"], "one\nthree\ntwo");
}

#[test]
fn secret_in_output_is_hidden_wherever_it_is_cut() {
    let text = format!("a {TOKEN} b\n{KEY}c");
    for size in 1..60 {
        let mut log = run_command();
        for piece in cut_into_pieces(&text, size) {
            add_output(&mut log, &piece);
            let row = log.json(1).to_string();
            assert!(!row.contains("ghp_0") && !row.contains("MII"), "in pieces of {size}: {row}");
        }
        complete(&mut log);
        let expected = "a ghp_[redacted] b\n[redacted]\n[redacted]\n[redacted]\n[redacted]\nc";
        assert_eq!(output_of(&log).0["text"], expected, "in pieces of {size}");
    }
}

#[test]
fn whole_output_replaces_pieces_and_pieces_follow_it() {
    let mut log = run_command();
    add_output(&mut log, "half ");
    set_output(&mut log, "all of it\n");
    assert_eq!(output_of(&log).0["text"], "all of it\n");
    add_output(&mut log, "and more\n");
    assert_eq!(output_of(&log).0["text"], "all of it\nand more\n");
    set_output(&mut log, &"x\n".repeat(10_000));
    add_output(&mut log, "last\n");
    let (shown, whole) = output_of(&log);
    assert_eq!((&shown["bytes"], &shown["lines"]), (&json!(20_005), &json!(10_001)));
    assert_eq!(whole, Some("x\n".repeat(10_000) + "last\n"));
    set_output(&mut log, "short again\n");
    let (shown, whole) = output_of(&log);
    assert_eq!((&shown["text"], &shown["cut"]), (&json!("short again\n"), &json!(null)));
    assert_eq!(whole.as_deref(), Some("short again\n"), "the address gives the text of the row");
}

#[test]
fn rest_of_a_secret_after_the_end_of_its_tool_call_is_hidden() {
    let mut log = run_command();
    add_output(&mut log, "-----BEGIN PRIVATE KEY-----\nMIIfirst\n");
    complete(&mut log);
    add_output(&mut log, "MIIsecond\n-----END PRIVATE KEY-----\nafter\n");
    assert_eq!(
        output_of(&log).0["text"],
        "[redacted]\n[redacted]\n[redacted]\n[redacted]\nafter\n"
    );
}

#[test]
fn output_that_is_held_back_is_shown_when_a_turn_cuts_its_tool_call_off() {
    let mut log = run_command();
    add_output(&mut log, "the word is sk-");
    assert_eq!(output_of(&log).0["text"], "the word is sk");
    log.add(PromptEvent::Ended {
        prompt: prompt_id("prm_1"),
        end: PromptEnd::AgentExited,
        failure: None,
    });
    assert_eq!(output_of(&log).0["text"], "the word is sk-");
}

#[test]
fn filters_of_open_outputs_are_bounded() {
    let mut log = Transcript::started();
    for n in 0..500 {
        log.update(
            json!({ "sessionUpdate": "tool_call", "toolCallId": format!("c{n}"), "title": "make",
            "kind": "execute", "status": "in_progress", "rawInput": { "command": "make" },
            "_meta": { "terminal_output_delta": { "data": "-----BEGIN PRIVATE KEY-----\nMII" } } }),
        );
    }
    let bytes = serde_json::to_string(&log.fold).unwrap().len();
    assert!(bytes < 64 * 1024, "the state has {bytes} bytes");
}

fn add_content(log: &mut Transcript, text: &str) {
    log.update(json!({ "sessionUpdate": "tool_call_content_chunk", "toolCallId": "c1",
        "content": { "type": "content", "content": { "type": "text", "text": text } } }));
}

#[test]
fn secret_in_content_chunks_is_hidden_wherever_it_is_cut() {
    let text = format!("a {TOKEN} b\n{KEY}c");
    for size in 1..60 {
        let mut log = Transcript::started();
        for piece in cut_into_pieces(&text, size) {
            add_content(&mut log, &piece);
            let row = log.json(0).to_string();
            assert!(!row.contains("ghp_0") && !row.contains("MII"), "in pieces of {size}: {row}");
        }
        log.update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed" }));
        let expected = "a ghp_[redacted] b\n[redacted]\n[redacted]\n[redacted]\n[redacted]\nc";
        assert_eq!(
            log.json(0)["parts"],
            json!([{ "type": "text", "text": expected }]),
            "in pieces of {size}"
        );
    }
}

#[test]
fn long_content_chunks_are_kept_whole() {
    let mut log = Transcript::started();
    let mut whole = String::new();
    for n in 0..2_000 {
        let piece = format!("{n} é, ");
        whole.push_str(&piece);
        add_content(&mut log, &piece);
    }
    let part = log.json(0)["parts"][0].clone();
    assert!(part["text"].as_str().unwrap().len() <= 4_096);
    assert_eq!(part["cut"], json!({ "bytes": whole.len(), "whole": "rows/1-3/text?part=0" }));
    assert_eq!(log.rows.whole_text(RowNumber(1), "0"), Some(&*whole));
}

#[test]
fn content_that_is_replaced_by_a_short_text_is_found_at_its_address() {
    let mut log = Transcript::started();
    let content = |text: &str| {
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c1",
        "content": [{ "type": "content", "content": { "type": "text", "text": text } }] })
    };
    log.update(content(&"long ".repeat(2_000)));
    log.update(content("short"));
    assert_eq!(log.rows.whole_text(RowNumber(1), "0"), Some("short"));
}

#[test]
fn content_between_chunks_of_text_is_a_part_of_its_own() {
    let mut log = Transcript::started();
    add_content(&mut log, "before s");
    log.update(json!({ "sessionUpdate": "tool_call_content_chunk", "toolCallId": "c1",
        "content": { "type": "content", "content": { "type": "resource_link", "uri": "file:///w/blog/a", "name": "a" } } }));
    add_content(&mut log, "after ");
    let parts = json!([{ "type": "text", "text": "before s" }, { "type": "file", "uri": "file:///w/blog/a", "name": "a" },
        { "type": "text", "text": "after " }]);
    assert_eq!(log.json(0)["parts"], parts);
}

#[test]
fn whole_message_of_v2_keeps_its_whole_text() {
    let mut log = Transcript::started();
    let text = "a long message, ".repeat(2_000);
    log.update(json!({ "sessionUpdate": "state_update", "state": "running" }));
    for piece in cut_into_pieces(&text, 3_000) {
        log.update(json!({ "sessionUpdate": "agent_message_chunk", "messageId": "m1", "content": { "type": "text", "text": piece } }));
    }
    let message = |text: &str| json!({ "sessionUpdate": "agent_message", "messageId": "m1", "content": [{ "type": "text", "text": text }] });
    log.update(message(&text));
    let cut =
        json!({ "bytes": text.len(), "tail": &text[28_672..], "whole": "rows/1-4/text?part=0" });
    assert_eq!(log.json(0)["parts"][0]["cut"], cut);
    log.update(message(&format!("{text}, with more")));
    assert_eq!(log.rows.whole_text(RowNumber(1), "0"), Some(&*format!("{text}, with more")));
    log.update(message("short"));
    assert_eq!(log.json(0)["parts"], json!([{ "type": "text", "text": "short" }]));
    assert_eq!(
        log.rows.whole_text(RowNumber(1), "0"),
        Some("short"),
        "the address gives the text of the row"
    );
}

#[test]
fn long_prompt_that_v2_echoes_makes_no_second_row() {
    let text = "a long prompt, ".repeat(2_000);
    let echo = |text: &str| json!({ "sessionUpdate": "user_message", "content": [{ "type": "text", "text": text }] });
    let mut log = Transcript::started();
    log.prompt("prm_1", &text);
    log.update(echo(&text));
    assert_eq!(log.rows().len(), 1);
    let longer = text.replace("long", "longer");
    log.update(echo(&longer));
    let cut = json!({ "bytes": longer.len(), "tail": &longer[30_720..], "whole": "rows/1-6/text?part=0" });
    assert_eq!((log.rows().len(), &log.json(1)["parts"][0]["cut"]), (2, &cut));
    assert_eq!(log.rows.whole_text(RowNumber(2), "0").map(str::len), Some(text.len() + 4_000));
}

#[test]
fn secret_in_an_echo_that_differs_is_hidden_wherever_it_is_cut() {
    for size in 1..50 {
        let mut log = Transcript::started();
        log.prompt("prm_1", "go");
        for piece in cut_into_pieces(&format!("go {TOKEN} on"), size) {
            log.update(json!({ "sessionUpdate": "user_message_chunk", "content": { "type": "text", "text": piece } }));
        }
        log.say("yes");
        assert_eq!(log.json(1)["parts"][0]["text"], "go ghp_[redacted] on", "in pieces of {size}");
    }
}

#[test]
fn text_after_the_last_part_joins_it() {
    let link = |n: u64| json!({ "type": "resource_link", "uri": format!("file:///w/blog/{n}"), "name": "a" });
    let text = |text: &str| json!({ "type": "text", "text": text });
    let mut log = Transcript::started();
    let mut blocks: Vec<Value> = (0..40).map(link).collect();
    blocks.extend([text("one"), link(1), text("two"), text(&"long ".repeat(10_000)), text("end")]);
    let whole = format!("one\ntwo\n{}\nend", "long ".repeat(10_000));
    // A prompt, a message that comes in chunks, a whole message of v2, and the content of a tool
    // call.
    let frame = super::raw(&json!({ "params": { "prompt": blocks } }));
    let (prompt, sender) = (prompt_id("prm_1"), super::sender("zed"));
    log.add(PromptEvent::Accepted {
        prompt: prompt.clone(),
        sender,
        frame,
        key: None,
        first: false,
    });
    log.add(PromptEvent::TurnStarted { prompt, content: wharf_core::Seq(3) });
    for block in &blocks {
        log.update(json!({ "sessionUpdate": "agent_message_chunk", "content": block }));
    }
    log.update(json!({ "sessionUpdate": "agent_message", "messageId": "m1", "content": blocks }));
    let content: Vec<Value> = blocks
        .iter()
        .map(|block| json!({ "type": "content", "content": block }))
        .collect();
    log.update(json!({ "sessionUpdate": "tool_call", "toolCallId": "c1", "title": "x", "content": content }));
    for (index, row) in [(0, "1-4"), (1, "1-5"), (2, "1-50"), (3, "1-51")] {
        let parts = log.json(index)["parts"].clone();
        assert_eq!(parts.as_array().unwrap().len(), 32, "row {row}");
        let whole = if index == 1 { whole.replace('\n', "") } else { whole.clone() };
        let cut = &parts[31]["cut"];
        let address = json!(format!("rows/{row}/text?part=31"));
        assert_eq!((&cut["bytes"], &cut["whole"]), (&json!(whole.len()), &address), "row {row}");
        let tail = cut["tail"].as_str();
        assert!(
            tail.map_or(index == 3, |tail| whole.ends_with(tail)),
            "row {row} ends with {tail:?}"
        );
        assert_eq!(
            log.rows.whole_text(RowNumber(index as u64 + 1), "31"),
            Some(&*whole),
            "row {row}"
        );
    }
}
