//! Turns that run at the same time: an agent that queues by itself gets a prompt while it works on
//! another one (rule 7.1).

use serde_json::{Value, json};
use wharf_core::{PromptEnd, PromptEvent, Seq};

use super::{Transcript, prompt_id, sender};

/// Begins the turns of prm_a and prm_b, the second while the first runs, each with an open tool
/// call.
fn overlapping() -> Transcript {
    let mut log = Transcript::started();
    log.prompt("prm_a", "first");
    log.update(json!({ "sessionUpdate": "tool_call", "toolCallId": "c_a", "title": "Build", "status": "in_progress" }));
    log.prompt("prm_b", "second");
    log.update(json!({ "sessionUpdate": "tool_call", "toolCallId": "c_b", "title": "Test", "status": "in_progress" }));
    log
}

fn end_with(log: &mut Transcript, prompt: &str, end: PromptEnd) {
    log.add(PromptEvent::Ended { prompt: prompt_id(prompt), end, failure: None });
}

/// Returns the kind, the turn and the summary of all rows.
fn lines(log: &Transcript) -> Vec<(&str, &str, &str)> {
    log.rows()
        .iter()
        .map(|row| (row.body.kind(), row.turn.as_deref().unwrap_or_default(), row.summary.as_str()))
        .collect()
}

#[test]
fn overlapping_turns_each_have_an_end_in_any_order() {
    for order in [["prm_a", "prm_b"], ["prm_b", "prm_a"]] {
        let mut log = overlapping();
        log.end(order[0], json!({ "stopReason": "end_turn", "usage": { "inputTokens": 3 } }));
        log.say("more");
        log.end(order[1], json!({ "stopReason": "end_turn" }));
        let expected = [
            ("prompt", "prm_a", "first"),
            ("tool", "prm_a", "Build"),
            ("prompt", "prm_b", "second"),
            ("tool", "prm_b", "Test"),
        ];
        assert_eq!(lines(&log)[..4], expected);
        let later: Vec<_> = lines(&log)[4..].iter().map(|(kind, turn, _)| (*kind, *turn)).collect();
        assert_eq!(later, [("turn_end", order[0]), ("message", order[1]), ("turn_end", order[1])]);
        assert_eq!(log.json(4)["usage"]["input"], 3);
        assert_eq!(
            (&log.json(4)["tools"]["count"], &log.json(6)["tools"]["count"]),
            (&json!(1), &json!(1))
        );
        assert_eq!(log.fold.open_turn(), None);
    }
}

#[test]
fn turn_that_ends_badly_closes_its_own_tool_calls() {
    let states = |log: &Transcript| (log.json(1)["state"].clone(), log.json(3)["state"].clone());
    let mut log = overlapping();
    end_with(&mut log, "prm_a", PromptEnd::AgentExited);
    assert_eq!(states(&log), (json!("cut_off"), json!("running")));
    end_with(&mut log, "prm_b", PromptEnd::Cancelled);
    assert_eq!(states(&log), (json!("cut_off"), json!("cancelled")));
}

#[test]
fn late_end_of_a_tool_call_counts_for_the_turn_of_its_row() {
    let mut log = overlapping();
    let diff = json!([{ "type": "diff", "path": "/w/blog/a", "oldText": "a\n", "newText": "b\n" }]);
    log.update(
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c_a", "status": "completed", "content": diff }),
    );
    log.update(
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": "c_b", "status": "failed" }),
    );
    log.end("prm_b", json!({ "stopReason": "end_turn" }));
    log.end("prm_a", json!({ "stopReason": "end_turn" }));
    let files = json!([{ "path": "a", "added": 1, "removed": 1 }]);
    let end = |index: usize| (log.json(index)["files"].clone(), log.json(index)["tools"].clone());
    assert_eq!(end(4), (json!([]), json!({ "count": 1, "failed": 1 })));
    assert_eq!(end(5), (files, json!({ "count": 1, "failed": 0 })));
}

#[test]
fn cancel_belongs_to_the_turn_that_it_names() {
    let mut log = overlapping();
    let (by, limit, reason) = (Some(sender("phone")), None, None);
    log.add(PromptEvent::CancelRequested { prompt: prompt_id("prm_a"), by, limit, reason });
    log.end("prm_a", json!({ "stopReason": "end_turn" }));
    log.end("prm_b", json!({ "stopReason": "end_turn" }));
    assert_eq!(
        (&log.json(4)["outcome"], &log.json(5)["outcome"]),
        (&json!("cancelled"), &json!("done"))
    );
}

#[test]
fn overlapping_turns_that_a_crash_cut_off_keep_their_prompts() {
    let mut log = overlapping();
    for prompt in ["prm_b", "prm_a"] {
        log.add(PromptEvent::Requeued { prompt: prompt_id(prompt) });
    }
    for prompt in ["prm_a", "prm_b"] {
        log.add(PromptEvent::TurnStarted { prompt: prompt_id(prompt), content: Seq(3) });
    }
    let expected = [
        ("turn_end", "prm_b", "Cut off (interrupted) in 2.0 s, to be repeated"),
        ("turn_end", "prm_a", "Cut off (interrupted) in 6.0 s, to be repeated"),
        ("prompt", "prm_a", "first"),
        ("prompt", "prm_b", "second"),
    ];
    assert_eq!(lines(&log)[4..], expected);
    let again: Vec<Value> = [0, 2, 6, 7].map(|index| log.json(index)["again"].clone()).to_vec();
    assert_eq!(again, [json!(false), json!(false), json!(true), json!(true)]);
}

#[test]
fn cost_is_counted_for_the_turn_that_was_newest() {
    let cost = |amount: f64| json!({ "sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": { "amount": amount, "currency": "USD" } });
    let mut log = Transcript::started();
    log.prompt("prm_a", "first");
    log.update(cost(0.1));
    log.prompt("prm_b", "second");
    log.update(cost(0.3));
    log.end("prm_a", json!({ "stopReason": "end_turn" }));
    log.end("prm_b", json!({ "stopReason": "end_turn" }));
    let costs = [2, 3].map(|index| log.json(index)["usage"]["cost"]["amount"].clone());
    assert_eq!(costs, [json!(0.1), json!(0.2)]);
}
