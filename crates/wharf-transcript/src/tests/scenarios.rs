//! One test for each rule of the fold.

use serde_json::json;
use wharf_core::{EndReason, Ending, PromptEnd, PromptEvent, SessionEvent, Status, StorageEvent};

use super::{Transcript, prompt_id, raw, sender};
use crate::{FileChangeKind, MAX_ROW_BYTES, RowChange, RowNumber, list_file_changes};

#[test]
fn a_turn_reads_as_prompt_thought_tool_message_and_end() {
    let mut log = Transcript::started();
    log.prompt("prm_1", "Add a test for the parser");
    log.think("I look first. ");
    log.think("Then I write.");
    log.update(json!({ "sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Read parser.rs", "kind": "read",
        "status": "in_progress", "locations": [{ "path": "/w/blog/src/parser.rs", "line": 3 }] }));
    log.update(
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed" }),
    );
    log.say("It has ");
    log.say("no test.");
    log.end(
        "prm_1",
        json!({ "stopReason": "end_turn", "usage": { "inputTokens": 100, "outputTokens": 20 } }),
    );
    let outline = [
        ("prompt", "Add a test for the parser"),
        ("thought", "I look first. Then I write."),
        ("tool", "Read parser.rs"),
        ("message", "It has no test."),
        ("turn_end", "Finished in 7.0 s"),
    ];
    assert_eq!(log.outline(), outline);
    let tool = log.json(2);
    assert_eq!(
        (&tool["id"], &tool["rev"], &tool["open"]),
        (&json!("1-7"), &json!(8), &json!(false))
    );
    assert_eq!(tool["locations"], json!([{ "path": "src/parser.rs", "line": 3 }]));
    assert_eq!(tool["turn"], "prm_1");
    let end = log.json(4);
    let usage = json!({ "input": 100, "output": 20, "cached": null, "total": null, "cost": null });
    assert_eq!(
        (&end["outcome"], &end["usage"], &end["tools"]["count"]),
        (&json!("done"), &usage, &json!(1))
    );
}

#[test]
fn a_tool_call_between_two_chunks_starts_a_new_message() {
    let mut log = Transcript::started();
    log.prompt("prm_1", "go");
    log.say("before");
    log.update(json!({ "sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Tool" }));
    log.update(json!({ "sessionUpdate": "usage_update", "used": 10, "size": 100 }));
    log.say("after");
    log.update(json!({ "sessionUpdate": "usage_update", "used": 20, "size": 100 }));
    log.say(" that");
    let outline =
        [("prompt", "go"), ("message", "before"), ("tool", "Tool"), ("message", "after that")];
    assert_eq!(log.outline(), outline);
}

#[test]
fn messages_with_different_ids_are_rows_of_their_own() {
    let mut log = Transcript::started();
    let chunk = |id: &str, text: &str| json!({ "sessionUpdate": "agent_message_chunk", "messageId": id, "content": { "type": "text", "text": text } });
    log.update(chunk("m1", "one"));
    log.update(chunk("m2", "two"));
    log.update(chunk("m2", " more"));
    assert_eq!(log.outline(), [("message", "one"), ("message", "two more")]);
}

#[test]
fn a_prompt_takes_its_place_when_its_turn_begins_with_the_content_in_force() {
    let mut log = Transcript::started();
    log.prompt("prm_1", "first");
    log.accept("prm_2", "second");
    let frame =
        raw(&json!({ "params": { "prompt": [{ "type": "text", "text": "second, changed" }] } }));
    log.add(PromptEvent::Updated {
        prompt: prompt_id("prm_2"),
        by: sender("phone"),
        frame,
        sender: None,
    });
    log.accept("prm_3", "third");
    log.add(PromptEvent::Ended {
        prompt: prompt_id("prm_3"),
        end: PromptEnd::Removed { by: None },
        failure: None,
    });
    log.end("prm_1", json!({ "stopReason": "end_turn" }));
    log.add(PromptEvent::TurnStarted { prompt: prompt_id("prm_2"), content: wharf_core::Seq(6) });
    let kinds: Vec<_> = log.outline().into_iter().collect();
    assert_eq!(
        kinds,
        [("prompt", "first"), ("turn_end", "Finished in 5.0 s"), ("prompt", "second, changed")]
    );
    let second = log.json(2);
    assert_eq!(
        (&second["by"]["name"], &second["editedBy"]["name"]),
        (&json!("zed"), &json!("phone"))
    );
}

#[test]
fn a_prompt_without_a_turn_gets_its_row_at_its_end() {
    let mut log = Transcript::started();
    log.accept("prm_1", "hello");
    log.add(PromptEvent::Ended {
        prompt: prompt_id("prm_1"),
        end: PromptEnd::StartFailed,
        failure: None,
    });
    assert_eq!(log.outline(), [("prompt", "hello"), ("turn_end", "Failed (start failed)")]);
    assert_eq!((&log.json(0)["id"], &log.json(1)["id"]), (&json!("1-4"), &json!("1-4.2")));
    assert_eq!((&log.json(1)["turn"], &log.json(1)["durationMs"]), (&json!("prm_1"), &json!(null)));
}

#[test]
fn a_repeated_prompt_gets_a_second_row() {
    let mut log = Transcript::started();
    log.prompt("prm_1", "go");
    log.say("half");
    log.add(PromptEvent::Requeued { prompt: prompt_id("prm_1") });
    log.add(PromptEvent::TurnStarted { prompt: prompt_id("prm_1"), content: wharf_core::Seq(3) });
    let outline = [
        ("prompt", "go"),
        ("message", "half"),
        ("turn_end", "Cut off (interrupted) in 2.0 s, to be repeated"),
        ("prompt", "go"),
    ];
    assert_eq!(log.outline(), outline);
    assert_eq!((&log.json(0)["again"], &log.json(3)["again"]), (&json!(false), &json!(true)));
}

#[test]
fn an_echo_of_the_prompt_makes_no_row() {
    let chunk = |text: &str| json!({ "sessionUpdate": "user_message_chunk", "content": { "type": "text", "text": text } });
    let mut log = Transcript::started();
    log.prompt("prm_1", "add a test ");
    log.update(chunk("add a"));
    log.update(chunk(" test"));
    log.say("yes");
    assert_eq!(log.outline(), [("prompt", "add a test"), ("message", "yes")]);
    let mut log = Transcript::started();
    log.prompt("prm_1", "add a test");
    log.update(chunk("add a "));
    log.update(chunk("poem"));
    assert_eq!(log.outline(), [("prompt", "add a test"), ("prompt", "add a poem")]);
    assert_eq!(log.json(1)["by"], json!({ "agent": true }));
}

#[test]
fn an_ask_shows_its_subject_and_freezes_it_with_the_answer() {
    let mut log = Transcript::started();
    log.prompt("prm_1", "edit");
    let diff = |new: &str| json!([{ "type": "diff", "path": "/w/blog/hello.txt", "oldText": "Hello!\n", "newText": new }]);
    log.update(json!({ "sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Edit hello.txt", "kind": "edit",
        "content": diff("Hello, harbour!\n") }));
    let ask = log.ask(&json!({ "toolCallId": "c1" }));
    let row = log.json(2);
    assert_eq!((&row["summary"], &row["tool"]), (&json!("Asks: Edit hello.txt"), &json!("1-5")));
    assert_eq!(
        row["subject"]["diffs"][0]["hunks"][0]["lines"],
        json!(["-Hello!", "+Hello, harbour!"])
    );
    assert_eq!(
        (&row["subject"]["paths"], &row["subject"]["detailed"]),
        (&json!(["hello.txt"]), &json!(true))
    );
    log.update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c1", "content": diff("Hello, sea!\n") }));
    assert_eq!(log.json(2)["subject"]["diffs"][0]["hunks"][0]["lines"][1], "+Hello, sea!");
    log.answer(ask);
    log.update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c1", "content": diff("later\n") }));
    let row = log.json(2);
    assert_eq!(
        row["subject"]["diffs"][0]["hunks"][0]["lines"][1], "+Hello, sea!",
        "the answer froze it"
    );
    assert_eq!(
        (&row["state"], &row["answer"]["name"], &row["answer"]["after"]),
        (&json!("answered"), &json!("Allow"), &json!(2000))
    );
    assert_eq!(log.json(1)["asks"], json!(["1-6"]));
}

#[test]
fn an_ask_that_tells_its_tool_call_first_shows_command_and_outside_paths() {
    let mut log = Transcript::started();
    log.ask(&json!({ "toolCallId": "c9", "title": "touch", "kind": "execute",
        "rawInput": { "command": ["touch", "/etc/x"], "cwd": "/w/blog" }, "locations": [{ "path": "/etc/x" }] }));
    assert_eq!(log.outline(), [("tool", "touch /etc/x"), ("ask", "Asks: touch /etc/x")]);
    let subject = &log.json(1)["subject"];
    assert_eq!(
        (&subject["command"], &subject["outside"]),
        (&json!("touch /etc/x"), &json!(["/etc/x"]))
    );
    assert_eq!(log.json(1)["id"], "1-3.2");
}

#[test]
fn an_ask_without_details_says_so() {
    let mut log = Transcript::started();
    log.ask(&json!({ "toolCallId": "c1", "title": "Something" }));
    assert_eq!(log.json(1)["subject"]["detailed"], false);
}

#[test]
fn an_ask_shows_the_input_of_a_tool_call_that_has_nothing_else() {
    let mut log = Transcript::started();
    let input = json!({ "path": "/etc/motd", "content": "Hello\nharbour", "mode": 420 });
    log.ask(&json!({ "toolCallId": "c1", "title": "write · /etc/motd", "kind": "other", "rawInput": input }));
    let subject = &log.json(1)["subject"];
    assert_eq!(subject["text"], "content:\nHello\nharbour\nmode: 420\npath: /etc/motd");
    assert_eq!(
        (&subject["paths"], &subject["outside"]),
        (&json!(["/etc/motd"]), &json!(["/etc/motd"]))
    );
    assert_eq!(subject["detailed"], true);
}

#[test]
fn an_ask_tells_a_path_outside_that_only_the_input_names() {
    let mut log = Transcript::started();
    let large = json!({ "file_path": "/etc/motd", "content": "x".repeat(100_000) });
    log.ask(&json!({ "toolCallId": "c1", "title": "Write", "rawInput": large }));
    let subject = &log.json(1)["subject"];
    assert_eq!((&subject["outside"], &subject["detailed"]), (&json!(["/etc/motd"]), &json!(true)));
    let text = subject["text"].as_str().unwrap();
    assert!(
        text.starts_with("[the input has 1000") && text.ends_with("text?part=input]"),
        "{text}"
    );
    let elsewhere = json!({ "path": "/etc/passwd" });
    log.ask(
        &json!({ "toolCallId": "c2", "title": "Edit", "locations": [{ "path": "/w/blog/a" }], "rawInput": elsewhere }),
    );
    assert_eq!(log.json(3)["subject"]["outside"], json!(["/etc/passwd"]));
}

#[test]
fn ask_tells_the_path_of_a_large_input_also_if_the_agent_names_other_locations() {
    let inside = json!([{ "path": "/w/blog/src/a.txt" }]);
    let large =
        |bytes: usize| json!({ "file_path": "/etc/cron.d/x", "content": "x".repeat(bytes) });
    for bytes in [10, 5 << 10] {
        let mut log = Transcript::started();
        log.ask(&json!({ "toolCallId": "c1", "title": "Write", "rawInput": large(bytes), "locations": inside }));
        assert_eq!(
            log.json(1)["subject"]["outside"],
            json!(["/etc/cron.d/x"]),
            "in one message, {bytes} bytes"
        );
        log.ask(&json!({ "toolCallId": "c2", "title": "Write", "locations": inside }));
        let update = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c2", "rawInput": large(bytes) });
        log.update(update);
        assert_eq!(
            log.json(3)["subject"]["outside"],
            json!(["/etc/cron.d/x"]),
            "in two messages, {bytes} bytes"
        );
        let harmless = json!({ "file_path": "/w/blog/b" });
        log.update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c2", "rawInput": harmless }));
        assert_eq!(log.json(3)["subject"]["outside"], json!([]), "another input counts instead");
    }
}

#[test]
fn tool_call_ids_are_used_again_after_a_restart() {
    let mut log = Transcript::started();
    let call = |title: &str| json!({ "sessionUpdate": "tool_call", "toolCallId": "call-1", "title": title, "status": "completed" });
    log.prompt("prm_1", "a");
    log.update(call("one"));
    log.end("prm_1", json!({ "stopReason": "end_turn" }));
    log.prompt("prm_2", "b");
    log.update(call("two"));
    log.start_agent(2);
    log.update(call("three"));
    let titles: Vec<_> = log
        .outline()
        .into_iter()
        .filter(|(kind, _)| *kind == "tool")
        .map(|(_, text)| text)
        .collect();
    assert_eq!(titles, ["one", "two", "three"]);
}

#[test]
fn a_late_update_changes_the_row_where_it_stands() {
    let mut log = Transcript::started();
    log.prompt("prm_1", "a");
    log.update(json!({ "sessionUpdate": "tool_call", "toolCallId": "c1", "title": "Build", "status": "in_progress" }));
    log.end("prm_1", json!({ "stopReason": "end_turn" }));
    log.prompt("prm_2", "b");
    log.update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "failed",
        "content": [{ "type": "content", "content": { "type": "text", "text": "no space left" } }] }));
    assert_eq!(log.outline()[1], ("tool", "Build (no space left)"));
    assert_eq!((&log.json(1)["rev"], &log.json(1)["turn"]), (&json!(9), &json!("prm_1")));
}

#[test]
fn output_of_a_command_is_cut_in_the_middle_and_kept_whole() {
    let mut log = Transcript::started();
    let text: String = (0..5_000).map(|n| format!("line {n}\n")).collect();
    log.update(json!({ "sessionUpdate": "tool_call", "toolCallId": "c1", "title": "cargo test", "kind": "execute",
        "status": "failed", "rawInput": { "command": "cargo test" }, "rawOutput": { "stdout": text, "exit_code": 101 } }));
    let row = log.json(0);
    assert_eq!((&row["output"]["exitCode"], &row["output"]["lines"]), (&json!(101), &json!(5000)));
    assert_eq!(
        (&row["summary"], &row["command"]),
        (&json!("cargo test (exit code 101)"), &json!("cargo test"))
    );
    assert!(row["output"]["text"].as_str().unwrap().ends_with("line 4999\n"));
    assert_eq!(row["output"]["cut"]["whole"], "rows/1-3/text?part=output");
    assert_eq!(log.rows.whole_text(RowNumber(1), "output"), Some(&*text));
}

#[test]
fn a_giant_message_is_cut_and_kept_whole() {
    let mut log = Transcript::started();
    let mut whole = String::new();
    for n in 0..2_000 {
        let text = format!("\"{n}\" is a quoted number, ");
        whole.push_str(&text);
        log.say(&text);
    }
    let row = log.json(0);
    assert!(row.to_string().len() <= MAX_ROW_BYTES);
    let counted = row["parts"][0]["cut"]["bytes"].as_u64().unwrap() as usize;
    assert!(
        counted <= whole.len() && counted > whole.len() / 9 * 8,
        "{counted} of {}",
        whole.len()
    );
    log.think("end of the message");
    assert_eq!(log.rows.whole_text(RowNumber(1), "0"), Some(&*whole));
    assert_eq!(log.json(0)["parts"][0]["cut"]["bytes"], whole.len());
}

#[test]
fn a_message_that_grows_beyond_its_row_changes_the_row_seldom() {
    let mut log = Transcript::started();
    (0..MAX_ROW_BYTES / 1_000).for_each(|_| log.say(&"x".repeat(1_000)));
    log.changes.clear();
    (0..5_000).for_each(|_| log.say("twenty characters or"));
    let whole = log
        .changes
        .iter()
        .filter(|change| matches!(change, RowChange::Row { .. }))
        .count();
    assert!(whole < 70, "{whole} of {} changes are whole rows", log.changes.len());
}

#[test]
fn end_of_a_giant_message_is_shown_as_it_grows() {
    let mut log = Transcript::started();
    let mut whole = String::new();
    for n in 0..4_000 {
        let piece = format!("{n}. Zeile äöü, ");
        whole.push_str(&piece);
        log.say(&piece);
        let part = log.json(0)["parts"][0].clone();
        let tail = part["cut"]["tail"].as_str().unwrap_or_default();
        let shown = format!("{}{tail}", part["text"].as_str().unwrap_or_default());
        assert!(shown.ends_with(&piece), "piece {n} is not at the end: {part}");
    }
    let part = log.json(0)["parts"][0].clone();
    assert!(
        whole.starts_with(part["text"].as_str().unwrap())
            && whole.ends_with(part["cut"]["tail"].as_str().unwrap())
    );
    let appends = log
        .changes
        .iter()
        .filter(|change| matches!(change, RowChange::Append { .. }))
        .count();
    assert!(appends > 3_900, "{appends} pieces were told as appends");
}

#[test]
fn an_emoji_that_is_cut_in_two_is_shown_when_it_is_whole() {
    let mut log = Transcript::started();
    for text in [r#""a\ud83d""#, r#""\ude00z""#, r#""\ud83d""#] {
        let frame = format!(
            r#"{{"params":{{"update":{{"sessionUpdate":"agent_message_chunk","content":{{"type":"text","text":{text}}}}}}}}}"#
        );
        let frame = wharf_core::Raw::new(frame).unwrap();
        let update = wharf_core::UpdateKind::AgentMessageChunk;
        log.add(wharf_core::AgentEvent::Updated { update, frame, title: None, tool: None });
    }
    assert_eq!(log.json(0)["parts"][0]["text"], "a😀z");
    log.think("next");
    assert_eq!(log.json(0)["parts"][0]["text"], "a😀z\u{fffd}");
}

#[test]
fn secrets_that_arrive_in_pieces_are_never_shown() {
    let mut log = Transcript::started();
    for piece in ["the key is sk-ant-", "api03-AbCdEfGhI", "jKlMnOp1234567", " and more"] {
        log.say(piece);
        assert!(!log.json(0).to_string().contains("AbCd"), "{}", log.json(0));
    }
    log.think("x");
    assert_eq!(log.json(0)["parts"][0]["text"], "the key is sk-[redacted] and more");
}

#[test]
fn secrets_are_shown_at_once_if_they_are_asked_for() {
    let mut log = Transcript::started_with_secrets();
    for piece in ["the key is sk-ant-", "api03-AbCdEfGhIjKlMnOp1234567"] {
        log.say(piece);
    }
    assert_eq!(log.json(0)["parts"][0]["text"], "the key is sk-ant-api03-AbCdEfGhIjKlMnOp1234567");
}

#[test]
fn last_words_of_the_agent_join_a_reason_that_is_known() {
    let mut log = Transcript::started();
    let failure = Some("no answer to `initialize`".into());
    log.accept("prm_1", "go");
    log.add(PromptEvent::Ended {
        prompt: prompt_id("prm_1"),
        end: PromptEnd::StartFailed,
        failure,
    });
    let message = Some("no answer to `initialize`\nstderr: no key".into());
    let (status, reason) = (Status::Error, EndReason::StartFailed);
    log.add(SessionEvent::Ended(Ending {
        status,
        reason,
        exit_code: None,
        message,
        needs_login: false,
    }));
    let end = log.json(1);
    assert_eq!(
        (&end["message"], &end["stderr"]),
        (&json!("no answer to `initialize`"), &json!("no key"))
    );
}

#[test]
fn the_reason_of_a_failure_belongs_to_the_turn_end() {
    let mut log = Transcript::started();
    log.prompt("prm_1", "go");
    log.add(PromptEvent::Ended {
        prompt: prompt_id("prm_1"),
        end: PromptEnd::AgentExited,
        failure: None,
    });
    let message = Some("the agent exited with code 1\nstderr: no key".into());
    let (status, reason) = (Status::Error, EndReason::AgentExited);
    log.add(SessionEvent::Ended(Ending {
        status,
        reason,
        exit_code: Some(1),
        message,
        needs_login: false,
    }));
    let end = log.json(1);
    assert_eq!(
        (&end["message"], &end["stderr"]),
        (&json!("the agent exited with code 1"), &json!("no key"))
    );
    assert_eq!(log.outline()[2], ("notice", "The agent exited (exit code 1)"));
    assert_eq!(log.json(2)["level"], "info", "it can come back");
}

#[test]
fn the_failure_that_an_end_tells_is_in_its_row() {
    let mut log = Transcript::started();
    log.prompt("prm_1", "go");
    let frame = raw(&json!({ "error": { "code": -32000, "message": "no quota" } }));
    let failure = Some("no quota\nstderr: 429 from the provider".into());
    log.add(PromptEvent::Ended {
        prompt: prompt_id("prm_1"),
        end: PromptEnd::Failed { frame },
        failure,
    });
    let end = log.json(1);
    assert_eq!(
        (&end["message"], &end["stderr"]),
        (&json!("no quota"), &json!("429 from the provider"))
    );
    assert_eq!(end["summary"], "Failed (error): no quota");
}

#[test]
fn only_completed_tool_calls_have_changed_files() {
    let mut log = Transcript::started();
    log.prompt("prm_1", "go");
    let diff = |old: Option<&str>, new: &str| json!([{ "type": "diff", "path": "/w/blog/a", "oldText": old, "newText": new }]);
    let tool = |status: &str, kind: &str, content: serde_json::Value| {
        json!({ "sessionUpdate": "tool_call", "toolCallId": format!("{status} {kind} {content}"), "title": "x",
            "status": status, "kind": kind, "content": content })
    };
    for status in ["pending", "in_progress", "failed", "cancelled"] {
        log.update(tool(status, "edit", diff(Some("a\n"), "b\n")));
    }
    log.update(tool("completed", "edit", diff(None, "b\nc\n")));
    log.update(tool("completed", "edit", diff(Some("fragment\n"), "")));
    log.update(tool("completed", "delete", diff(Some("b\nc\n"), "")));
    let lines =
        |count: usize, word: &str| (0..count).map(|n| format!("{word} {n}\n")).collect::<String>();
    log.update(tool("completed", "edit", diff(Some(&lines(3_000, "a")), &lines(3_000, "b"))));
    log.update(tool("completed", "edit", diff(None, &lines(6_000, "b"))));
    let changes: Vec<_> = log.rows().iter().flat_map(list_file_changes).collect();
    let found: Vec<_> = changes
        .iter()
        .map(|change| (change.kind, change.added, change.removed, change.exact))
        .collect();
    let expected = [
        (FileChangeKind::Created, 2, 0, true),
        // A fragment that is replaced by nothing leaves the file.
        (FileChangeKind::Changed, 0, 1, true),
        (FileChangeKind::Deleted, 0, 2, true),
        // Too many lines to be compared.
        (FileChangeKind::Changed, 3_000, 3_000, false),
        (FileChangeKind::Created, 6_000, 0, true),
    ];
    assert_eq!(found, expected);
    assert_eq!(
        (changes[0].path.as_str(), changes[0].at.as_str()),
        ("a", "1970-01-01T00:00:09.000Z")
    );
}

#[test]
fn a_plan_has_one_row_in_a_turn() {
    let mut log = Transcript::started();
    let plan = |status: &str| {
        json!({ "sessionUpdate": "plan", "entries": [
        { "content": "Look around", "status": "completed" }, { "content": "Write", "status": status }] })
    };
    log.prompt("prm_1", "go");
    log.update(plan("pending"));
    log.say("working");
    log.update(plan("completed"));
    assert_eq!(log.outline(), [("prompt", "go"), ("plan", "Plan 2/2"), ("message", "working")]);
    assert_eq!(log.fold.plan(), Some(RowNumber(2)));
    log.update(json!({ "sessionUpdate": "plan_removed" }));
    assert_eq!(
        (log.fold.plan(), log.rows().len()),
        (None, 3),
        "the row of a plan that was removed stays"
    );
}

#[test]
fn images_are_kept_by_their_hash() {
    let mut log = Transcript::started();
    let png = "iVBORw0KGgo=";
    log.update(json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "image", "data": png, "mimeType": "text/html" } }));
    log.say("done");
    let part = log.json(0)["parts"][0].clone();
    assert_eq!(
        (&part["mime"], &part["bytes"]),
        (&json!("image/png"), &json!(8)),
        "the type comes from the bytes"
    );
    assert!(log.rows.blob(part["blob"].as_str().unwrap()).is_some());
    assert_eq!(log.json(0)["parts"][1]["text"], "done");
}

#[test]
fn storage_pauses_are_told() {
    let mut log = Transcript::started();
    log.add(StorageEvent::Paused { why: wharf_core::PauseReason::StorageFull });
    log.add(StorageEvent::Continued);
    let levels: Vec<_> = (0..2).map(|index| log.json(index)["level"].clone()).collect();
    assert_eq!(levels, [json!("error"), json!("info")]);
}

#[test]
fn updates_of_v2_fold_into_rows() {
    let mut log = Transcript::started();
    log.update(json!({ "sessionUpdate": "state_update", "state": "running" }));
    let message = |text: &str| json!({ "sessionUpdate": "agent_message", "messageId": "m1", "content": [{ "type": "text", "text": text }] });
    log.update(message("draft"));
    log.update(
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t1", "title": "Index", "status": "paused" }),
    );
    log.update(json!({ "sessionUpdate": "tool_call_content_chunk", "toolCallId": "t1",
        "content": { "type": "content", "content": { "type": "text", "text": "half" } } }));
    log.update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t2", "title": "Read", "parentToolCallId": "t1", "status": "completed" }));
    log.update(message("final"));
    log.update(json!({ "sessionUpdate": "agent_message_chunk", "messageId": "m1", "content": { "type": "text", "text": " words" } }));
    log.update(json!({ "sessionUpdate": "subagent_update", "sessionId": "child-1", "toolCallId": "t1", "title": "x" }));
    log.update(json!({ "sessionUpdate": "state_update", "state": "idle", "stopReason": "error",
        "background": [{ "type": "terminal", "terminalId": "x" }] }));
    let outline = [
        ("message", "final words"),
        ("tool", "Index (paused)"),
        ("tool", "Read"),
        ("turn_end", "Failed (error) in 8.0 s"),
        ("notice", "One task runs in the background"),
    ];
    assert_eq!(log.outline(), outline);
    assert_eq!(log.json(0)["parts"][1]["text"], " words");
    let parent = log.json(1);
    assert_eq!(
        (&parent["children"]["count"], &parent["childSession"]),
        (&json!(1), &json!("child-1"))
    );
    assert_eq!((&log.json(2)["parent"], &log.json(3)["turn"]), (&json!("1-5"), &json!(null)));
}

#[test]
fn hostile_values_make_rows_of_bounded_size() {
    let mut log = Transcript::started();
    let long = "\"\\\n".repeat(10_000);
    let locations: Vec<_> =
        (0..500).map(|n| json!({ "path": format!("/{n}{}", &long[..900]) })).collect();
    let diffs: Vec<_> = (0..40)
        .map(|n| json!({ "type": "diff", "path": format!("{n}"), "newText": long }))
        .collect();
    log.prompt("prm_1", &long);
    log.update(
        json!({ "sessionUpdate": "tool_call", "toolCallId": long, "title": long, "kind": "execute", "name": long,
        "locations": locations, "content": diffs, "rawInput": { "command": long, "x": long }, "rawOutput": long }),
    );
    log.ask(&json!({ "toolCallId": long }));
    log.say(&long);
    log.end("prm_1", json!({ "stopReason": long }));
    for row in log.rows() {
        let bytes = serde_json::to_vec(row).unwrap().len();
        assert!(bytes <= MAX_ROW_BYTES, "{} has {bytes} bytes", row.body.kind());
        assert!(row.summary.chars().count() <= 200);
    }
}

/// Returns the paths of an ask with these locations, and those outside of `cwd`.
fn ask_about(cwd: &str, locations: &[&str]) -> (serde_json::Value, serde_json::Value) {
    let mut log = Transcript::started_in(cwd);
    let locations: Vec<_> = locations.iter().map(|path| json!({ "path": path })).collect();
    log.ask(
        &json!({ "toolCallId": "c1", "title": "Write", "kind": "edit", "locations": locations }),
    );
    let subject = log.json(1)["subject"].clone();
    (subject["paths"].clone(), subject["outside"].clone())
}

#[test]
fn paths_outside_are_told_however_they_are_spelled() {
    let long = format!("/w/blog/{}/../../../etc/passwd", "a".repeat(400));
    let relative = format!("{}/../../../etc/passwd", "a".repeat(400));
    for (cwd, path, shown) in [
        ("/w/blog", long.as_str(), "/etc/passwd"),
        ("/w/blog", &relative, "/etc/passwd"),
        ("/w/blog", "../../../../etc/passwd", "/etc/passwd"),
        ("/w/blog", "/w\u{1}/blog/a", "/w/blog/a"),
        ("/w/blog", "/w/blog/a\u{1b}[31m/b", "/w/blog/a/b"),
        ("/w/my blog", "/w/my  blog/a", "/w/my blog/a"),
        ("/w/blog", "file://host/w/blog/a", "file://host/w/blog/a"),
    ] {
        assert_eq!(ask_about(cwd, &[path]), (json!([shown]), json!([shown])), "{path:?}");
    }
    assert_eq!(
        ask_about("/w/blog", &["a/../b", "/w/blog/c", "/w/blog"]),
        (json!(["b", "c", "."]), json!([]))
    );
}

#[test]
fn path_outside_is_told_also_after_many_others() {
    let inside: Vec<String> = (0..30).map(|n| format!("/w/blog/{n}")).collect();
    let mut locations: Vec<&str> = inside.iter().map(String::as_str).collect();
    locations.push("/etc/passwd");
    assert_eq!(ask_about("/w/blog", &locations).1, json!(["/etc/passwd"]));
    let mut log = Transcript::started();
    let diff = |path: &&str| json!({ "type": "diff", "path": path, "newText": "a\n" });
    let diffs: Vec<_> = locations.iter().map(diff).collect();
    log.ask(&json!({ "toolCallId": "c1", "title": "Write", "kind": "edit", "content": diffs }));
    assert_eq!(log.json(1)["subject"]["outside"], json!(["/etc/passwd"]));
}

/// Returns the whole text that the address of a diff leads to.
fn whole_diff(log: &Transcript, index: usize) -> Option<&str> {
    let address = log.json(0)["diffs"][index]["cut"]["whole"].as_str()?.to_owned();
    log.rows.whole_text(RowNumber(1), address.split_once("part=").unwrap().1)
}

#[test]
fn whole_texts_of_diffs_belong_to_their_diffs() {
    let text = |word: &str| (0..3_000).map(|n| format!("{word} {n}\n")).collect::<String>();
    let diff = |path: &str, word: &str| json!({ "type": "diff", "path": path, "oldText": "", "newText": text(word) });
    let mut log = Transcript::started();
    let content = json!([diff("a", "first"), diff("b", "second"), diff("a", "third")]);
    log.update(json!({ "sessionUpdate": "tool_call", "toolCallId": "c1", "title": "x", "content": content }));
    let words = |log: &Transcript| {
        let diffs = log.json(0)["diffs"].as_array().unwrap().len();
        let word = |index| whole_diff(log, index)?.split_once("--- after\n")?.1.split(' ').next();
        let path = |index: usize| log.json(0)["diffs"][index]["path"].as_str().unwrap().to_owned();
        (0..diffs)
            .map(|index| (path(index), word(index).unwrap().to_owned()))
            .collect::<Vec<_>>()
    };
    let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs
            .iter()
            .map(|(path, word)| ((*path).to_owned(), (*word).to_owned()))
            .collect()
    };
    assert_eq!(words(&log), pairs(&[("b", "second"), ("a", "third")]));
    log.update(
        json!({ "sessionUpdate": "tool_call_content_chunk", "toolCallId": "c1", "content": diff("b", "fourth") }),
    );
    log.update(
        json!({ "sessionUpdate": "tool_call_content_chunk", "toolCallId": "c1", "content": diff("c", "fifth") }),
    );
    assert_eq!(words(&log), pairs(&[("a", "third"), ("b", "fourth"), ("c", "fifth")]));
}
