//! Shapes that real agents send, and the rows that a person understands.

use serde_json::{Value, json};
use wharf_core::{PromptEnd, PromptEvent};

use super::{Transcript, prompt_id};

/// Returns the summary of the tool call that these members make.
fn summary_of(mut members: Value) -> String {
    members["sessionUpdate"] = json!("tool_call");
    members["toolCallId"] = json!("c1");
    let mut log = Transcript::started();
    log.update(members);
    log.rows()[0].summary.clone()
}

fn text_content(text: &str) -> Value {
    json!({ "type": "content", "content": { "type": "text", "text": text } })
}

#[test]
fn summary_of_a_tool_call_names_its_command_or_path() {
    let edit = |title: &str, kind: &str| json!({ "title": title, "kind": kind, "locations": [{ "path": "/w/blog/src/a.rs" }] });
    let run = |title: &str| json!({ "title": title, "kind": "execute", "rawInput": { "command": "cargo test\n  -p a" } });
    for (members, summary) in [
        (run("execute"), "cargo test -p a"),
        (run("bash"), "bash: cargo test -p a"),
        (run("Run the tests"), "Run the tests: cargo test -p a"),
        (run("shell · cargo test -p a"), "shell · cargo test -p a"),
        (run("`cargo test -p a`"), "`cargo test -p a`"),
        (run("cargo test…"), "cargo test -p a"),
        (edit("write", "edit"), "write src/a.rs"),
        (edit("Change the parser", "edit"), "Change the parser: src/a.rs"),
        (edit("Edit a.rs", "edit"), "Edit a.rs"),
        (edit("write · /w/blog/src/a.rs", "edit"), "write · src/a.rs"),
        (edit("w/blog/src/a.rs", "edit"), "Edit src/a.rs"),
        (edit("a.rs", "read"), "Read src/a.rs"),
        (edit("", "read"), "Read src/a.rs"),
        (edit("Find the callers", "search"), "Find the callers"),
        (json!({ "title": "", "kind": "fetch" }), "Fetch"),
        (
            json!({ "title": "read_file", "kind": "read", "rawInput": { "path": "/w/blog/b.rs" } }),
            "read_file b.rs",
        ),
    ] {
        assert_eq!(summary_of(members.clone()), summary, "{members}");
    }
}

#[test]
fn only_the_beginning_of_a_path_is_taken_out_of_a_title() {
    for (cwd, title, summary) in [
        ("/app", "Read /srv/app/config", "Read /srv/app/config"),
        ("/app", "Read /app/config", "Read config"),
        ("/app", "/app/config", "config"),
        (
            "/app/",
            "Read `/app/a`, \"/app/b\", '/app/c' (/app/d) [/app/e]",
            "Read `a`, \"b\", 'c' (d) [e]",
        ),
        ("/app", "Read /apple/a", "Read /apple/a"),
        ("/", "Read /srv/app/config", "Read /srv/app/config"),
    ] {
        let mut log = Transcript::started_in(cwd);
        log.update(json!({ "sessionUpdate": "tool_call", "toolCallId": "c1", "title": title }));
        assert_eq!(log.rows()[0].summary, summary, "{title} in {cwd}");
    }
}

#[test]
fn summary_of_a_command_tells_an_exit_code_that_is_not_zero() {
    let run = |status: &str, code: u8| {
        json!({ "title": "make", "kind": "execute", "status": status,
        "rawInput": { "command": "make" }, "rawOutput": { "stdout": "x", "exit_code": code } })
    };
    assert_eq!(summary_of(run("completed", 3)), "make (exit code 3)");
    assert_eq!(summary_of(run("completed", 0)), "make");
    assert_eq!(summary_of(run("failed", 2)), "make (exit code 2)");
}

#[test]
fn summary_of_a_failure_is_short_and_plain() {
    let long = format!("<tool_use_error>Blocked: {}</tool_use_error>", "do not ".repeat(50));
    let summary = summary_of(
        json!({ "title": "sleep 30", "status": "failed", "content": [text_content(&long)] }),
    );
    assert!(
        summary.starts_with("sleep 30 (Blocked: do not do not") && summary.ends_with("…)"),
        "{summary}"
    );
    assert!(summary.chars().count() < 150, "{summary}");
}

#[test]
fn member_named_command_of_a_file_tool_is_no_command_line() {
    let mut log = Transcript::started();
    log.update(json!({ "sessionUpdate": "tool_call", "toolCallId": "c1", "title": "text_editor", "kind": "edit",
        "rawInput": { "command": "view", "path": "/w/blog/a.rs" } }));
    assert_eq!(
        (&log.json(0)["command"], &log.json(0)["summary"]),
        (&json!(null), &json!("text_editor a.rs"))
    );
}

#[test]
fn output_of_a_command_is_shown_once() {
    let mut log = Transcript::started();
    log.update(json!({ "sessionUpdate": "tool_call", "toolCallId": "c1", "title": "shell · make",
        "rawInput": { "command": "make" } }));
    log.update(
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed",
        "content": [text_content("exit code: 3"), text_content("all\nbuilt")],
        "rawOutput": { "stdout": "all\nbuilt", "stderr": "", "exit_code": 3 } }),
    );
    let row = log.json(0);
    assert_eq!(
        (&row["output"]["text"], &row["parts"]),
        (&json!("exit code: 3\nall\nbuilt"), &json!(null))
    );
}

#[test]
fn text_before_a_command_runs_is_no_output() {
    let mut log = Transcript::started();
    log.ask(&json!({ "toolCallId": "c1", "title": "make", "kind": "execute", "status": "pending",
        "content": [text_content("[current working directory /w/blog]")] }));
    assert_eq!(log.json(1)["subject"]["text"], "[current working directory /w/blog]");
    log.update(
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed", "content": [] }),
    );
    let row = log.json(0);
    assert_eq!((&row["output"], &row["parts"]), (&json!(null), &json!(null)));
}

#[test]
fn placeholders_of_terminals_are_not_shown() {
    for placeholder in ["[no output]", "[terminal t1: no output kept]"] {
        let mut log = Transcript::started();
        log.update(
            json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c1", "title": "sleep 3", "kind": "execute",
            "status": "completed", "content": [text_content(placeholder)],
            "_meta": { "wharf": { "terminals": ["t1"] } } }),
        );
        assert_eq!(log.json(0)["output"], json!(null));
    }
}

#[test]
fn code_block_around_a_result_is_removed() {
    let mut log = Transcript::started();
    log.update(json!({ "sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Read a", "kind": "read",
        "content": [text_content("```\n1\tHello!\n```"), text_content("```rust\nfn a() {}\n```\nand `more`")] }));
    let parts = &log.json(0)["parts"];
    assert_eq!(
        (&parts[0]["text"], &parts[1]["text"]),
        (&json!("1\tHello!\n"), &json!("```rust\nfn a() {}\n```\nand `more`"))
    );
}

#[test]
fn diff_stays_when_the_end_of_the_edit_only_brings_words() {
    let mut log = Transcript::started();
    log.prompt("prm_1", "write");
    log.ask(&json!({ "toolCallId": "c1", "title": "write", "kind": "edit",
        "content": [{ "type": "diff", "path": "/w/blog/a.txt", "oldText": "a\n", "newText": "b\n" }] }));
    log.update(
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed",
        "content": [text_content("Wrote file successfully.")] }),
    );
    log.end("prm_1", json!({ "stopReason": "end_turn" }));
    assert_eq!(log.outline()[1], ("tool", "write a.txt +1 −1"));
    assert_eq!(log.json(3)["files"], json!([{ "path": "a.txt", "added": 1, "removed": 1 }]));
    assert_eq!(log.json(1)["parts"][0]["text"], "Wrote file successfully.");
}

#[test]
fn failed_edit_counts_no_lines() {
    let diff =
        json!([{ "type": "diff", "path": "/w/blog/a.txt", "oldText": "a\n", "newText": "b\n" }]);
    let failed =
        json!({ "title": "Write a.txt", "kind": "edit", "status": "failed", "content": diff });
    assert_eq!(summary_of(failed), "Write a.txt (failed)");
}

#[test]
fn tool_calls_end_with_a_turn_that_did_not_end_well() {
    for (end, state, summary) in [
        (PromptEnd::Cancelled, "cancelled", "sleep 30 (cancelled)"),
        (PromptEnd::AgentExited, "cut_off", "sleep 30 (cut off)"),
    ] {
        let mut log = Transcript::started();
        log.prompt("prm_1", "sleep");
        let call = json!({ "sessionUpdate": "tool_call", "toolCallId": "c1", "title": "sleep 30", "status": "in_progress" });
        log.update(call.clone());
        log.add(PromptEvent::Ended { prompt: prompt_id("prm_1"), end, failure: None });
        let row = log.json(1);
        assert_eq!(
            (&row["state"], &row["open"], &row["summary"]),
            (&json!(state), &json!(false), &json!(summary))
        );
        assert_eq!((&row["endedAt"], &row["rev"]), (&json!("1970-01-01T00:00:06.000Z"), &json!(6)));
        log.prompt("prm_2", "again");
        log.update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed" }));
        assert_eq!(log.json(1)["state"], "completed", "the agent's own word counts");
    }
    let mut log = Transcript::started();
    log.prompt("prm_1", "go");
    log.update(json!({ "sessionUpdate": "tool_call", "toolCallId": "c1", "title": "serve", "status": "in_progress" }));
    log.end("prm_1", json!({ "stopReason": "end_turn" }));
    assert_eq!(log.json(1)["open"], true, "it may go on in the background");
}

#[test]
fn options_that_are_named_by_their_kind_get_words() {
    let mut log = Transcript::started();
    let frame = super::raw(
        &json!({ "params": { "toolCall": { "toolCallId": "c1", "title": "x" }, "options": [
        { "optionId": "allow_once", "name": "allow_once", "kind": "allow_once" },
        { "optionId": "a", "name": "", "kind": "allow_always" }, { "optionId": "n", "name": "Never!", "kind": "reject_always" }] } }),
    );
    log.add(wharf_core::AskEvent::Opened(wharf_core::Ask {
        id: wharf_core::AskId(3),
        kind: wharf_core::AskKind::Permission,
        agent_request: super::raw(&json!(0)),
        frame,
        options: Vec::new(),
        tool_call: None,
        prompt: None,
    }));
    let options = log.json(1)["options"].clone();
    let names: Vec<_> = options
        .as_array()
        .unwrap()
        .iter()
        .map(|option| option["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["Allow once", "Always allow", "Never!"]);
    assert_eq!(options[0]["optionId"], "allow_once", "the id is the agent's");
}

#[test]
fn ask_is_named_like_its_tool_call() {
    let mut log = Transcript::started();
    log.prompt("prm_1", "write");
    let ask = log.ask(&json!({ "toolCallId": "c1", "title": "/w/blog/a.txt", "kind": "edit", "locations": [{ "path": "/w/blog/a.txt" }] }));
    assert_eq!(log.outline()[2], ("ask", "Asks: Edit a.txt"));
    log.answer(ask);
    assert_eq!(log.outline()[2], ("ask", "Asks: Edit a.txt (Allow)"));
}

#[test]
fn cost_of_a_turn_has_no_rounding_error() {
    let mut log = Transcript::started();
    let cost = |amount: f64| json!({ "sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": { "amount": amount, "currency": "USD" } });
    log.update(cost(0.0024));
    log.prompt("prm_1", "go");
    log.update(cost(0.0036));
    log.end("prm_1", json!({ "stopReason": "end_turn" }));
    assert_eq!(log.json(1)["usage"]["cost"]["amount"], json!(0.0012));
}

#[test]
fn reason_of_an_end_is_in_words() {
    let mut log = Transcript::started();
    log.prompt("prm_1", "go");
    log.end("prm_1", json!({ "stopReason": "max_tokens" }));
    assert_eq!(log.outline()[1], ("turn_end", "Stopped (max tokens) in 1.0 s"));
    assert_eq!(log.json(1)["reason"], "max_tokens");
}

#[test]
fn raw_input_that_is_no_object_is_shown_where_a_call_has_nothing_else() {
    for (input, text) in [
        (json!("rm -rf build\nls"), "rm -rf build\nls"),
        (json!(["rm", "-rf", { "x": 1 }]), r#"["rm","-rf",{"x":1}]"#),
        (json!(17), "17"),
        (json!(false), "false"),
    ] {
        let mut log = Transcript::started();
        log.ask(
            &json!({ "toolCallId": "c1", "title": "Run", "kind": "execute", "rawInput": input }),
        );
        let subject = &log.json(1)["subject"];
        assert_eq!(
            (&subject["text"], &subject["detailed"]),
            (&json!(text), &json!(true)),
            "{input}"
        );
        assert_eq!(subject["command"], json!(null), "text of an unknown form is no command");
        assert_eq!(log.json(0)["input"], input);
    }
    for nothing in [json!(""), json!([]), json!({}), json!("  ")] {
        let mut log = Transcript::started();
        log.ask(&json!({ "toolCallId": "c1", "title": "Run", "rawInput": nothing }));
        assert_eq!(log.json(1)["subject"]["detailed"], false, "{nothing}");
    }
}

#[test]
fn option_id_that_is_a_number_is_shown_as_text() {
    let mut log = Transcript::started();
    log.ask_with_options(
        &json!([{ "optionId": 1, "name": "Yes" }, { "optionId": 2.0, "name": "No" }]),
    );
    let options = &log.json(1)["options"];
    assert_eq!((&options[0]["optionId"], &options[1]["optionId"]), (&json!("1"), &json!("2")));
}
