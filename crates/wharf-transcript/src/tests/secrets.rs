//! Secrets in places where a part of the text was cut, decoded or joined before it was redacted
//! (rule 10.6).

use serde_json::{Value, json};
use wharf_core::{
    Ask, AskEvent, AskId, AskKind, EndReason, Ending, PromptEnd, PromptEvent, SessionEvent, Status,
};

use super::{Transcript, prompt_id, raw};
use crate::RowNumber;

const TOKEN: &str = "ghp_0123456789abcdefghijABCDEFGHIJ012345";

/// A private key of so many lines.
fn key_block(lines: usize) -> String {
    let body: String = (0..lines).map(|n| format!("MIIKEYLINE{n}\n")).collect();
    format!("-----BEGIN PRIVATE KEY-----\n{body}-----END PRIVATE KEY-----\n")
}

fn with_input(input: Value) -> Transcript {
    let mut log = Transcript::started();
    log.update(json!({ "sessionUpdate": "tool_call", "toolCallId": "c1", "title": "x", "rawInput": input }));
    log
}

#[test]
fn secret_after_an_escape_in_the_input_is_redacted() {
    for before in ["x\n", "\t", "\r", "a=", "\"", "\u{1b}[31m"] {
        let log = with_input(
            json!({ "content": format!("{before}{TOKEN}"), "list": [{ format!("\n{TOKEN}"): 1 }] }),
        );
        let text = log.json(0)["input"].to_string();
        assert!(
            !text.contains("0123456789") && text.matches("ghp_[redacted]").count() == 2,
            "{before:?}: {text}"
        );
    }
}

#[test]
fn secret_after_an_escape_in_a_long_input_is_redacted_in_its_whole_text() {
    let log = with_input(json!({ "content": format!("{}\n{TOKEN}", "long ".repeat(2_000)) }));
    let whole = log.rows.whole_text(RowNumber(1), "input").unwrap();
    assert!(
        !whole.contains("0123456789") && whole.contains("ghp_[redacted]"),
        "{}",
        &whole[9_000..]
    );
    assert_eq!(log.json(0)["inputCut"]["bytes"], whole.len());
    serde_json::from_str::<Value>(whole).expect("the whole input is JSON");
}

#[test]
fn private_key_in_an_input_is_redacted_and_the_rest_stays() {
    let log = with_input(
        json!({ "text": key_block(2), "lines": key_block(2).lines().collect::<Vec<_>>(), "mode": 420 }),
    );
    let redacted = ["[redacted]"; 4];
    let expected =
        json!({ "text": format!("{}\n", redacted.join("\n")), "lines": redacted, "mode": 420 });
    assert_eq!(log.json(0)["input"], expected);
}

#[test]
fn secret_in_a_deeply_nested_input_is_not_shown() {
    let nested = format!("{}{{\"a\":\"\\n{TOKEN}\"}}{}", "[".repeat(120), "]".repeat(120));
    let mut log = Transcript::started();
    let frame = format!(
        r#"{{"params":{{"update":{{"sessionUpdate":"tool_call","toolCallId":"c1","title":"x","rawInput":{nested}}}}}}}"#
    );
    let (update, frame) = (wharf_core::UpdateKind::ToolCall, wharf_core::Raw::new(frame).unwrap());
    log.add(wharf_core::AgentEvent::Updated { update, frame, title: None, tool: None });
    let text = log.json(0)["input"].to_string();
    assert!(text.starts_with("[[[") && !text.contains("0123456789"), "{text}");
}

#[test]
fn secrets_in_the_schema_of_a_form_are_redacted() {
    let mut log = Transcript::started();
    let schema =
        json!({ "properties": { "key": { "type": "string", "default": format!("x\n{TOKEN}") } } });
    log.add(AskEvent::Opened(Ask {
        id: AskId(3),
        kind: AskKind::Elicitation,
        agent_request: raw(&json!(0)),
        frame: raw(&json!({ "params": { "message": "Which key?", "requestedSchema": schema } })),
        options: Vec::new(),
        tool_call: None,
        prompt: None,
    }));
    assert_eq!(log.json(0)["form"]["schema"]["properties"]["key"]["default"], "x\nghp_[redacted]");
}

#[test]
fn secret_at_the_cut_of_a_line_of_a_diff_is_redacted() {
    for before in [1_000, 1_010, 1_020, 1_023] {
        let new = format!("{}\t{TOKEN} rest\n", "a".repeat(before));
        let mut log = Transcript::started();
        log.update(json!({ "sessionUpdate": "tool_call", "toolCallId": "c1", "title": "x",
            "content": [{ "type": "diff", "path": "/w/blog/a", "newText": new }] }));
        let line = log.json(0)["diffs"][0]["hunks"][0]["lines"][0].to_string();
        assert!(!line.contains("0123"), "{before}: {line}");
    }
}

#[test]
fn hunk_that_begins_inside_a_private_key_is_redacted() {
    let old = key_block(30);
    let new = old.replace("MIIKEYLINE20\n", "MIIKEYCHANGED\n");
    let mut log = Transcript::started();
    log.update(json!({ "sessionUpdate": "tool_call", "toolCallId": "c1", "title": "x",
        "content": [{ "type": "diff", "path": "/w/blog/a", "oldText": old, "newText": new }] }));
    let diff = log.json(0)["diffs"][0].clone();
    assert!(!diff.to_string().contains("MIIKEY"), "{diff}");
    assert_eq!((&diff["added"], &diff["removed"]), (&json!(1), &json!(1)), "the change is counted");
}

#[test]
fn secret_at_the_cut_of_a_notice_is_redacted() {
    for before in (8_192 - 40)..8_192 {
        let mut log = Transcript::started();
        log.update(json!({ "sessionUpdate": "notice", "message": format!("{} {TOKEN}", "a".repeat(before - 1)) }));
        assert!(!log.json(0).to_string().contains("ghp_0"), "{before} bytes before it");
    }
}

#[test]
fn secret_at_the_cut_of_a_title_is_redacted() {
    for before in 4_060..4_096 {
        let log = with_input(json!({ "cwd": format!("{}{TOKEN}", " ".repeat(before)) }));
        assert!(!log.json(0)["cwd"].to_string().contains("ghp_0"), "{before} bytes before it");
    }
}

#[test]
fn private_key_that_begins_before_the_shown_end_of_stderr_is_redacted() {
    let mut log = Transcript::started();
    log.prompt("prm_1", "go");
    log.add(PromptEvent::Ended {
        prompt: prompt_id("prm_1"),
        end: PromptEnd::AgentExited,
        failure: None,
    });
    let stderr =
        format!("{}{}", key_block(90).replace("LINE", &"x".repeat(100)), "a ".repeat(3_500));
    let message = Some(format!("it failed\nstderr: {stderr}").into());
    let (status, reason) = (Status::Error, EndReason::AgentExited);
    log.add(SessionEvent::Ended(Ending {
        status,
        reason,
        exit_code: Some(1),
        message,
        needs_login: false,
    }));
    let shown = log.json(1)["stderr"].as_str().unwrap().to_owned();
    assert!(shown.ends_with("a a ") && !shown.contains("MIIKEY"), "{shown}");
}
