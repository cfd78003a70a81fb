//! No row has more than 64 KiB as JSON, whatever the agent sends (rule 13.1).

use serde_json::{Value, json};
use wharf_core::{Ask, AskEvent, AskId, AskKind, AskOutcome, PromptEnd, PromptEvent};

use super::{Transcript, prompt_id, raw, sender};
use crate::RowNumber;
use crate::row_size::check_estimate;

/// Text whose every character takes two bytes as JSON.
fn quotes(count: usize) -> String {
    "\"".repeat(count)
}

fn link(n: usize) -> Value {
    json!({ "type": "resource_link", "uri": format!("{n}{}", quotes(400)), "name": format!("{n}{}", quotes(400)) })
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// Asks for a permission with these options.
fn ask_with(log: &mut Transcript, tool_call: &Value, options: &[Value]) -> AskId {
    let id = AskId(log.log.len() as u64 + 1);
    log.add(AskEvent::Opened(Ask {
        id,
        kind: AskKind::Permission,
        agent_request: raw(&json!(0)),
        frame: raw(&json!({ "params": { "toolCall": tool_call, "options": options } })),
        options: Vec::new(),
        tool_call: None,
        prompt: None,
    }));
    id
}

#[track_caller]
fn check_sizes(log: &Transcript) {
    log.rows().iter().for_each(check_estimate);
}

#[test]
fn message_of_quotes_and_links_fits_its_row() {
    let mut log = Transcript::started();
    for n in 0..31 {
        log.update(json!({ "sessionUpdate": "agent_message_chunk", "content": link(n) }));
    }
    for _ in 0..300 {
        log.say(&quotes(100));
        check_sizes(&log);
    }
    let parts = log.json(0)["parts"].clone();
    assert_eq!((parts.as_array().unwrap().len(), parts[31]["cut"]["bytes"].is_u64()), (32, true));
    log.update(json!({ "sessionUpdate": "agent_message", "messageId": "m1",
        "content": (0..31).map(link).chain([text(&quotes(30_000))]).collect::<Vec<_>>() }));
    check_sizes(&log);
}

#[test]
fn prompt_of_quotes_and_links_fits_its_row() {
    let mut log = Transcript::started();
    let blocks: Vec<Value> = [text(&quotes(30_000))].into_iter().chain((0..31).map(link)).collect();
    let (prompt, frame) = (prompt_id("prm_1"), raw(&json!({ "params": { "prompt": blocks } })));
    log.add(PromptEvent::Accepted {
        prompt: prompt.clone(),
        sender: sender(&quotes(300)),
        frame,
        key: None,
        first: false,
    });
    log.add(PromptEvent::TurnStarted { prompt, content: wharf_core::Seq(3) });
    check_sizes(&log);
}

#[test]
fn plan_of_quotes_fits_its_row_and_counts_all_entries() {
    let mut log = Transcript::started();
    let words = quotes(300);
    let entry = json!({ "content": words, "status": words, "priority": words });
    log.update(json!({ "sessionUpdate": "plan", "entries": vec![entry; 150] }));
    check_sizes(&log);
    let entries = log.json(0)["entries"].as_array().unwrap().len();
    assert!(entries > 50, "{entries} entries are shown");
    assert_eq!(log.json(0)["total"], 150);
}

#[test]
fn tool_call_of_quotes_fits_its_row_and_keeps_its_texts() {
    let mut log = Transcript::started();
    let lines = |count| format!("{}\n", quotes(500)).repeat(count);
    let diffs = (0..20).map(
        |n| json!({ "type": "diff", "path": format!("{n}{}", quotes(400)), "newText": lines(1) }),
    );
    let links = (0..31).map(|n| json!({ "type": "content", "content": link(n) }));
    let locations: Vec<_> =
        (0..20).map(|n| json!({ "path": format!("/{n}{}", quotes(400)) })).collect();
    log.update(json!({ "sessionUpdate": "tool_call", "toolCallId": "c1", "title": quotes(1_000), "kind": "execute",
        "locations": locations, "content": links.chain(diffs).collect::<Vec<_>>(),
        "rawInput": { "command": quotes(3_000), "cwd": quotes(400) } }));
    check_sizes(&log);
    log.update(
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c1", "rawOutput": lines(15) }),
    );
    check_sizes(&log);
    for _ in 0..20 {
        log.update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c1",
            "_meta": { "terminal_output_delta": { "data": lines(1) } } }));
        check_sizes(&log);
    }
    ask_with(&mut log, &json!({ "toolCallId": "c1" }), &[]);
    check_sizes(&log);
    let row = log.json(0);
    assert_eq!(log.rows.whole_text(RowNumber(1), "output"), Some(&*lines(35)));
    assert_eq!(
        (&row["output"]["bytes"], &row["output"]["lines"]),
        (&json!(lines(35).len()), &json!(35))
    );
    let addresses = [&row["inputCut"], &row["output"]["cut"]]
        .into_iter()
        .chain((0..20).map(|n| &row["diffs"][n]["cut"]));
    for address in addresses.filter_map(|cut| cut["whole"].as_str()) {
        let part = address.split_once("part=").unwrap().1;
        assert!(log.rows.whole_text(RowNumber(1), part).is_some(), "no text is kept for {address}");
    }
}

#[test]
fn end_of_a_turn_with_many_files_fits_its_row() {
    let mut log = Transcript::started();
    log.prompt("prm_1", "go");
    for call in 0..3 {
        let path = |n| format!("{call}-{n}{}", quotes(400));
        let diffs: Vec<_> = (0..20)
            .map(|n| json!({ "type": "diff", "path": path(n), "newText": "a\n" }))
            .collect();
        log.update(
            json!({ "sessionUpdate": "tool_call", "toolCallId": format!("c{call}"), "title": "x",
            "status": "completed", "content": diffs }),
        );
    }
    let frame = raw(
        &json!({ "error": { "code": -32000, "message": quotes(9_000), "data": { "stderr": quotes(9_000) } } }),
    );
    log.add(PromptEvent::Ended {
        prompt: prompt_id("prm_1"),
        end: PromptEnd::Failed { frame },
        failure: None,
    });
    check_sizes(&log);
    assert_eq!(log.rows().last().unwrap().body.kind(), "turn_end");
}

#[test]
fn ask_of_quotes_fits_its_row() {
    let mut log = Transcript::started();
    let locations: Vec<_> =
        (0..20).map(|n| json!({ "path": format!("/{n}{}", quotes(400)) })).collect();
    let diffs: Vec<_> = (0..20)
        .map(|n| json!({ "type": "diff", "path": format!("/x{n}{}", quotes(400)), "newText": quotes(400) }))
        .collect();
    let option = |n: usize| json!({ "optionId": format!("{n}{}", "\u{1}".repeat(100)), "name": quotes(300), "kind": quotes(200) });
    let options: Vec<_> = (0..40).map(option).collect();
    let call = json!({ "toolCallId": "c1", "title": quotes(1_000), "kind": "edit", "locations": locations,
        "content": diffs, "rawInput": { "command": quotes(3_000) } });
    ask_with(&mut log, &call, &options);
    check_sizes(&log);
    let row = log.json(1);
    let shown = row["options"].as_array().unwrap().len();
    assert!(
        shown > 0 && shown as u64 + row["moreOptions"].as_u64().unwrap() == 40,
        "{shown} options"
    );
    assert_eq!(
        row["options"][0]["optionId"],
        format!("0{}", "\u{1}".repeat(100)),
        "an id is sent back as it is"
    );
}

#[test]
fn option_whose_id_is_too_long_is_counted_and_not_offered() {
    let mut log = Transcript::started();
    let long = "x".repeat(2_000);
    let options =
        [json!({ "optionId": long, "name": "Long" }), json!({ "optionId": "a", "name": "Short" })];
    let ask = ask_with(&mut log, &json!({ "toolCallId": "c1", "title": "x" }), &options);
    let row = log.json(1);
    assert_eq!(row["options"], json!([{ "optionId": "a", "name": "Short", "kind": "" }]));
    assert_eq!(row["moreOptions"], 1);
    let outcome = AskOutcome::Answered { option: Some(long.into()), answer: raw(&json!({})) };
    log.add(AskEvent::Resolved { ask, outcome, by: None });
    assert_eq!(
        (&log.json(1)["state"], &log.json(1)["answer"]["option"]),
        (&json!("answered"), &json!(null))
    );
}
