//! Permissions, modes and cancelling.

use anyhow::Result;
use serde_json::{Value, json};

use crate::{Demo, joined_text, parse_updates, selected_option};

/// Starts a prompt, answers its first permission, and returns the text that followed. The diff must
/// come before the question.
fn run_edit(demo: &mut Demo, result: Value) -> Result<String> {
    let before = demo.agent.received.len();
    let id = demo.start_prompt("edit")?;
    let ask = demo
        .agent
        .expect("permission", |message| message["method"] == "session/request_permission")?;
    let from = demo.agent.received.len();
    demo.agent.send_result(&ask["id"], result)?;
    assert_eq!(demo.agent.wait_response(id)?["result"]["stopReason"], "end_turn");
    let shown = parse_updates(&demo.agent.received[before..from]);
    let diffs = shown.iter().filter(|update| update["content"][0]["type"] == "diff").count();
    assert_eq!(diffs, 1, "the question comes without its diff: {shown:?}");
    Ok(joined_text(&parse_updates(&demo.agent.received[from..])))
}

#[test]
fn an_edit_shows_its_diff_before_it_asks() -> Result<()> {
    let text = run_edit(&mut Demo::start()?, selected_option("allow_once"))?;
    assert!(text.starts_with("Done: you allowed it."), "{text}");
    Ok(())
}

#[test]
fn a_rejected_or_undecided_edit_changes_nothing() -> Result<()> {
    let mut demo = Demo::start()?;
    assert_eq!(
        run_edit(&mut demo, selected_option("reject_once"))?,
        "I left it as it was: you rejected it."
    );
    let cancelled = json!({ "outcome": { "outcome": "cancelled" } });
    assert_eq!(run_edit(&mut demo, cancelled)?, "I left it as it was: the question was cancelled.");
    Ok(())
}

#[test]
fn an_edit_allowed_for_good_is_not_asked_again() -> Result<()> {
    let mut demo = Demo::start()?;
    run_edit(&mut demo, selected_option("allow_always"))?;
    let (_, updates) = demo.send_prompt("edit")?;
    assert!(joined_text(&updates).contains("I did not need to ask"));
    Ok(())
}

#[test]
fn the_mode_auto_edits_without_asking_and_is_announced() -> Result<()> {
    let mut demo = Demo::start()?;
    demo.agent.start_request(
        "session/set_mode",
        json!({ "sessionId": demo.session, "modeId": "auto" }),
    )?;
    let announced = demo
        .agent
        .expect("mode", |message| message["params"]["update"]["currentModeId"] == "auto")?;
    assert_eq!(announced["params"]["update"]["sessionUpdate"], "current_mode_update");
    assert!(joined_text(&demo.send_prompt("edit")?.1).contains("I did not need to ask"));
    Ok(())
}

#[test]
fn questions_come_one_after_the_other() -> Result<()> {
    let mut demo = Demo::start()?;
    let id = demo.start_prompt("ask 3")?;
    for option in ["allow_once", "allow_always", "reject_once"] {
        let ask = demo
            .agent
            .expect("permission", |message| message["method"] == "session/request_permission")?;
        assert_eq!(ask["params"]["options"].as_array().map(Vec::len), Some(3));
        demo.agent.send_result(&ask["id"], selected_option(option))?;
    }
    assert_eq!(demo.agent.wait_response(id)?["result"]["stopReason"], "end_turn");
    Ok(())
}

#[test]
fn cancel_ends_whatever_runs() -> Result<()> {
    let mut demo = Demo::start()?;
    for text in ["hang", "slow", "tick 1000 1000", "ask", "burst 100000000 10"] {
        let id = demo.start_prompt(text)?;
        // An update of the turn, or the title for a silent one, shows that it runs.
        if text != "hang" {
            demo.agent
                .expect("sign of life", |message| message["method"] == "session/update")?;
        }
        demo.cancel_turn()?;
        assert_eq!(demo.agent.wait_response(id)?["result"]["stopReason"], "cancelled", "{text}");
    }
    Ok(())
}

#[test]
fn a_hard_hang_ignores_cancel() -> Result<()> {
    let mut demo = Demo::start()?;
    let id = demo.start_prompt("hang hard")?;
    demo.agent
        .expect("title", |message| message["params"]["update"]["title"] == "hang hard")?;
    demo.cancel_turn()?;
    // The agent answers other requests meanwhile, in order: an answer to the cancelled prompt would
    // have come before this one.
    demo.agent.call_method("session/list", json!({}))?;
    let answered = demo
        .agent
        .received
        .iter()
        .filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    assert!(
        answered
            .filter(|message| message["id"] == id)
            .all(|message| message.get("result").is_none())
    );
    Ok(())
}

#[test]
fn a_withdrawn_prompt_ends_with_the_error_for_it_and_withdraws_its_question() -> Result<()> {
    let mut demo = Demo::start()?;
    let id = demo.start_prompt("ask")?;
    let ask = demo
        .agent
        .expect("permission", |message| message["method"] == "session/request_permission")?;
    demo.agent.send_notification("$/cancel_request", json!({ "requestId": id }))?;
    let withdrawn = demo
        .agent
        .expect("withdrawal", |message| message["method"] == "$/cancel_request")?;
    assert_eq!(withdrawn["params"]["requestId"], ask["id"]);
    assert_eq!(demo.agent.wait_response(id)?["error"]["code"], -32800);
    Ok(())
}
