//! Ends of turns: outcomes, cost, files, and the reason that the log tells later.

use serde_json::{Value, json};
use wharf_core::{EndReason, Ending, PromptEnd, PromptEvent, SessionEvent, Status, TurnLimit};

use super::{Transcript, prompt_id, raw, sender};

fn session_end(reason: EndReason, message: &str) -> SessionEvent {
    let message = Some(message.into());
    SessionEvent::Ended(Ending {
        status: Status::Error,
        reason,
        exit_code: Some(1),
        message,
        needs_login: false,
    })
}

fn cancel(log: &mut Transcript, prompt: &str, limit: Option<TurnLimit>) {
    let by = limit.is_none().then(|| sender("phone"));
    log.add(PromptEvent::CancelRequested { prompt: prompt_id(prompt), by, limit, reason: None });
}

fn answer(stop_reason: &str) -> PromptEnd {
    let frame = raw(&json!({ "result": { "stopReason": stop_reason } }));
    PromptEnd::Answered { stop_reason: stop_reason.into(), frame }
}

/// Returns the end of a turn that was cancelled or not.
fn end_of(cancelled: bool, limit: Option<TurnLimit>, end: PromptEnd) -> Value {
    let mut log = Transcript::started();
    log.prompt("prm_1", "go");
    if cancelled || limit.is_some() {
        cancel(&mut log, "prm_1", limit);
    }
    log.add(PromptEvent::Ended { prompt: prompt_id("prm_1"), end, failure: None });
    log.json(1)
}

#[test]
fn turn_that_a_person_cancelled_is_cancelled_however_it_ends() {
    let error = PromptEnd::Failed { frame: raw(&json!({ "error": { "message": "aborted" } })) };
    for (end, reason) in [
        (answer("cancelled"), "cancelled"),
        (answer("end_turn"), "end_turn"),
        (error, "error"),
        (PromptEnd::AgentExited, "agent_exited"),
    ] {
        let row = end_of(true, None, end);
        assert_eq!((&row["outcome"], &row["reason"]), (&json!("cancelled"), &json!(reason)));
    }
}

#[test]
fn turn_that_reached_a_limit_failed_however_it_ends() {
    for end in [answer("cancelled"), answer("end_turn"), PromptEnd::Cancelled] {
        let row = end_of(false, Some(TurnLimit::Deadline), end);
        assert_eq!(row["outcome"], "failed");
        assert_eq!(row["message"], "the turn took longer than turn.deadline allows");
    }
}

#[test]
fn turn_that_the_agent_cancelled_by_itself_has_stopped_and_leaves_no_tool_call_open() {
    let mut log = Transcript::started();
    log.prompt("prm_1", "go");
    log.update(json!({ "sessionUpdate": "tool_call", "toolCallId": "c1", "title": "x", "status": "in_progress" }));
    log.end("prm_1", json!({ "stopReason": "cancelled" }));
    assert_eq!(log.json(1)["state"], "cancelled");
    assert_eq!(log.outline()[2], ("turn_end", "Stopped (cancelled) in 2.0 s"));
    assert_eq!(log.json(2)["outcome"], "stopped");
}

#[test]
fn cost_of_a_turn_without_a_report_is_unknown() {
    let cost = |amount: f64| json!({ "sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": { "amount": amount, "currency": "USD" } });
    let mut log = Transcript::started();
    log.prompt("prm_1", "one");
    log.update(cost(0.5));
    log.end("prm_1", json!({ "stopReason": "end_turn" }));
    log.prompt("prm_2", "no report");
    log.end("prm_2", json!({ "stopReason": "end_turn", "usage": { "inputTokens": 1 } }));
    log.start_agent(2);
    log.prompt("prm_3", "an agent that counts from 0 again");
    log.update(cost(0.2));
    log.update(cost(0.3));
    log.end("prm_3", json!({ "stopReason": "end_turn" }));
    log.prompt("prm_4", "free");
    log.update(cost(0.3));
    log.end("prm_4", json!({ "stopReason": "end_turn" }));
    let ends = log.rows().iter().enumerate().filter(|(_, row)| row.body.kind() == "turn_end");
    let costs: Vec<Value> = ends
        .map(|(index, _)| log.json(index)["usage"]["cost"]["amount"].clone())
        .collect();
    assert_eq!(costs, [json!(0.5), Value::Null, Value::Null, json!(0.0)]);
}

#[test]
fn files_of_a_turn_are_those_of_its_completed_tool_calls() {
    let edit = |id: &str, status: &str, new: &str| {
        json!({ "sessionUpdate": "tool_call", "toolCallId": id, "title": "Edit", "kind": "edit", "status": status,
            "content": [{ "type": "diff", "path": format!("/w/blog/{id}"), "oldText": "a\n", "newText": new }] })
    };
    let mut log = Transcript::started();
    log.prompt("prm_1", "go");
    log.update(edit("cancelled", "cancelled", "b\n"));
    log.update(edit("failed", "failed", "b\n"));
    log.update(edit("running", "in_progress", "b\n"));
    log.update(edit("revised", "completed", "b\n"));
    log.update(edit("revised", "completed", "b\nc\n"));
    log.update(edit("undone", "completed", "b\n"));
    log.update(edit("undone", "failed", "b\n"));
    log.end("prm_1", json!({ "stopReason": "end_turn" }));
    let end = log.json(log.rows().len() - 1);
    assert_eq!(end["files"], json!([{ "path": "revised", "added": 2, "removed": 1 }]));
    assert_eq!(end["tools"], json!({ "count": 5, "failed": 2 }));
}

#[test]
fn reason_of_a_later_death_stays_with_its_own_time() {
    let mut log = Transcript::started();
    log.prompt("prm_1", "go");
    log.add(PromptEvent::Ended {
        prompt: prompt_id("prm_1"),
        end: PromptEnd::HostRestarted,
        failure: None,
    });
    log.start_agent(2);
    log.add(session_end(EndReason::AgentExited, "the agent exited with code 1"));
    assert_eq!(log.json(1)["message"], Value::Null, "the agent had come back");

    let mut log = Transcript::started();
    log.prompt("prm_1", "go");
    log.add(PromptEvent::Ended {
        prompt: prompt_id("prm_1"),
        end: PromptEnd::HostRestarted,
        failure: None,
    });
    log.prompt("prm_2", "go on");
    log.add(session_end(EndReason::AgentExited, "the agent exited with code 1"));
    assert_eq!(log.json(1)["message"], Value::Null, "another turn had begun");
}

#[test]
fn reason_of_a_death_goes_to_all_turns_that_it_ended() {
    let mut log = Transcript::started();
    log.prompt("prm_1", "go");
    log.prompt("prm_2", "go on");
    for prompt in ["prm_1", "prm_2"] {
        log.add(PromptEvent::Ended {
            prompt: prompt_id(prompt),
            end: PromptEnd::AgentExited,
            failure: None,
        });
    }
    log.add(session_end(EndReason::AgentExited, "no memory"));
    assert_eq!(
        (&log.json(2)["message"], &log.json(3)["message"]),
        (&json!("no memory"), &json!("no memory"))
    );
}

#[test]
fn turn_that_the_agent_began_ends_with_its_agent_or_with_the_next_prompt() {
    let running = || json!({ "sessionUpdate": "state_update", "state": "running" });
    let mut log = Transcript::started();
    log.update(running());
    log.say("I go on");
    log.add(session_end(EndReason::AgentExited, "no memory"));
    assert_eq!(log.outline()[1], ("turn_end", "Cut off (agent exited): no memory"));
    assert_eq!((log.fold.open_turn(), log.rows().len()), (None, 3));

    let mut log = Transcript::started();
    log.update(running());
    log.say("I go on");
    log.start_agent(2);
    assert_eq!(log.outline()[1], ("turn_end", "Cut off (agent exited) in 2.0 s"));

    let mut log = Transcript::started();
    log.update(running());
    log.say("I go on");
    log.prompt("prm_1", "stop");
    log.end("prm_1", json!({ "stopReason": "end_turn" }));
    let outline = [
        ("message", "I go on"),
        ("turn_end", "Cut off (next prompt) in 3.0 s"),
        ("prompt", "stop"),
        ("turn_end", "Finished in 1.0 s"),
    ];
    assert_eq!(log.outline(), outline);
    assert_eq!((&log.json(1)["turn"], &log.json(1)["outcome"]), (&json!(null), &json!("cut_off")));
}

#[test]
fn text_that_was_held_back_until_the_end_belongs_to_its_turn() {
    let mut log = Transcript::started();
    log.prompt("prm_1", "go");
    log.say("-----BEGIN");
    assert_eq!(log.rows().len(), 1, "it may be the beginning of a secret");
    log.end("prm_1", json!({ "stopReason": "end_turn" }));
    assert_eq!(
        (log.outline()[1], &log.json(1)["turn"]),
        (("message", "-----BEGIN"), &json!("prm_1"))
    );
}

#[test]
fn plan_that_follows_a_removed_one_is_the_plan_of_the_session() {
    let plan =
        json!({ "sessionUpdate": "plan", "entries": [{ "content": "Look", "status": "pending" }] });
    let mut log = Transcript::started();
    log.prompt("prm_1", "go");
    log.update(plan.clone());
    log.update(json!({ "sessionUpdate": "plan_removed" }));
    log.update(plan);
    assert_eq!((log.fold.plan(), log.rows().len()), (Some(crate::RowNumber(2)), 2));
}

#[test]
fn children_are_counted_also_if_their_parent_is_told_late_or_their_turn_ends() {
    let mut log = Transcript::started();
    log.prompt("prm_1", "go");
    let call = |id: &str, more: Value| {
        let mut update =
            json!({ "sessionUpdate": "tool_call_update", "toolCallId": id, "title": id });
        update.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        update
    };
    log.update(call("parent", json!({ "status": "in_progress" })));
    log.update(call("one", json!({ "status": "in_progress" })));
    log.update(call("two", json!({ "status": "failed" })));
    assert_eq!(log.json(1)["children"], Value::Null);
    for child in ["one", "two"] {
        log.update(call(child, json!({ "parentToolCallId": "parent" })));
    }
    let children = |log: &Transcript| log.json(1)["children"].clone();
    assert_eq!(
        children(&log),
        json!({ "count": 2, "open": 1, "failed": 1, "latest": "two (failed)" })
    );
    log.update(call("three", json!({ "status": "completed", "parentToolCallId": "parent" })));
    log.update(call("four", json!({ "status": "in_progress", "parentToolCallId": "parent" })));
    log.update(call("four", json!({ "status": "in_progress", "parentToolCallId": "parent" })));
    assert_eq!((&children(&log)["count"], &children(&log)["open"]), (&json!(4), &json!(2)));
    log.add(PromptEvent::Ended {
        prompt: prompt_id("prm_1"),
        end: PromptEnd::Cancelled,
        failure: None,
    });
    assert_eq!(
        children(&log),
        json!({ "count": 4, "open": 0, "failed": 1, "latest": "four (cancelled)" })
    );
    log.update(call("four", json!({ "status": "failed", "parentToolCallId": "parent" })));
    assert_eq!((&children(&log)["open"], &children(&log)["failed"]), (&json!(0), &json!(2)));
}
