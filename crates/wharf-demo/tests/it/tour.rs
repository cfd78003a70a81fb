//! The tour: what it shows, in which order, and what the answer to its question changes.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::agent_pipe::AgentPipe;
use wharf_testkit::program;

use crate::{Demo, joined_text, parse_updates, selected_option};

/// The updates before and after the question, and the answer to the prompt.
struct TourRun {
    before: Vec<Value>,
    ask: Value,
    after: Vec<Value>,
    response: Value,
}

fn run_tour(demo: &mut Demo, answer: Value) -> Result<TourRun> {
    let start = demo.agent.received.len();
    let id = demo.start_prompt("tour")?;
    let ask = demo
        .agent
        .expect("permission", |message| message["method"] == "session/request_permission")?;
    let asked_at = demo.agent.received.len();
    demo.agent.send_result(&ask["id"], answer)?;
    let response = demo.agent.wait_response(id)?;
    let before = parse_updates(&demo.agent.received[start..asked_at]);
    let after = parse_updates(&demo.agent.received[asked_at..]);
    Ok(TourRun { before, ask, after, response })
}

/// Returns one word per update, without repeated ones: a kind, a tool call's state, or a plan's
/// number of completed steps.
fn outline(updates: &[Value]) -> Vec<String> {
    let mut words: Vec<String> = updates.iter().filter_map(update_word).collect();
    words.dedup();
    words
}

fn update_word(update: &Value) -> Option<String> {
    let kind = update["sessionUpdate"].as_str()?;
    Some(match kind {
        "tool_call" => format!("{} {}", update["kind"].as_str()?, update["status"].as_str()?),
        "tool_call_update" => update["status"].as_str()?.to_owned(),
        "plan" => {
            let entries = update["entries"].as_array()?;
            let done = entries.iter().filter(|entry| entry["status"] == "completed").count();
            format!("plan {done}/{}", entries.len())
        }
        other => other.to_owned(),
    })
}

#[test]
fn tour_shows_everything_up_to_its_question() -> Result<()> {
    let run = run_tour(&mut Demo::start()?, selected_option("allow_once"))?;
    let expected = [
        "session_info_update",
        "agent_thought_chunk",
        "plan 0/4",
        "read pending",
        "in_progress",
        "completed",
        "plan 1/4",
        "execute pending",
        "in_progress",
        "completed",
        "plan 2/4",
        "agent_message_chunk",
        "edit pending",
    ];
    assert_eq!(outline(&run.before), expected);
    let output = run
        .before
        .iter()
        .filter_map(|update| update["content"][0]["content"]["text"].as_str())
        .next_back();
    assert_eq!(output.context("no output")?.lines().count(), 20);
    let edit = run.before.last().context("no edit")?;
    let diff = &edit["content"][0];
    assert_eq!(
        (&diff["type"], &edit["toolCallId"]),
        (&json!("diff"), &run.ask["params"]["toolCall"]["toolCallId"])
    );
    let [old, new] = ["oldText", "newText"].map(|name| diff[name].as_str().unwrap_or_default());
    assert_eq!(old.lines().zip(new.lines()).filter(|(old, new)| old != new).count(), 2, "{diff}");
    Ok(())
}

#[test]
fn allowed_tour_edits_sums_up_and_reports_usage() -> Result<()> {
    let run = run_tour(&mut Demo::start()?, selected_option("allow_once"))?;
    let expected = [
        "in_progress",
        "completed",
        "plan 3/4",
        "agent_message_chunk",
        "plan 4/4",
        "usage_update",
        "agent_message_chunk",
        "usage_update",
    ];
    assert_eq!(outline(&run.after), expected);
    let text = joined_text(&run.after);
    assert!(
        text.contains("| Edit `hello.py` | changed: +2 −2 (you allowed it once) |\n"),
        "{text}"
    );
    assert!(text.contains("```python\n") && text.contains("Welcome to the harbour"), "{text}");
    assert!(text.ends_with("answer in the other one."), "{text}");
    let usage = json!({ "inputTokens": 1480, "outputTokens": 410, "totalTokens": 1890 });
    assert_eq!(run.response["result"], json!({ "stopReason": "end_turn", "usage": usage }));
    Ok(())
}

#[test]
fn rejected_tour_leaves_the_file_and_ends_well() -> Result<()> {
    let run = run_tour(&mut Demo::start()?, selected_option("reject_once"))?;
    assert_eq!(outline(&run.after)[..3], ["failed", "plan 3/4", "agent_message_chunk"]);
    let text = joined_text(&run.after);
    assert!(text.contains("| Edit `hello.py` | left as it was (you rejected it) |\n"), "{text}");
    assert!(!text.contains("Welcome to the harbour"), "{text}");
    assert_eq!(run.response["result"]["stopReason"], "end_turn");
    Ok(())
}

#[test]
fn tour_does_not_ask_in_mode_auto() -> Result<()> {
    let mut demo = Demo::start()?;
    demo.agent
        .call_method("session/set_mode", json!({ "sessionId": demo.session, "modeId": "auto" }))?;
    let (reason, updates) = demo.send_prompt("tour")?;
    assert_eq!(reason, "end_turn");
    assert!(joined_text(&updates).contains("changed: +2 −2 (I did not need to ask)"));
    Ok(())
}

#[test]
fn variable_names_the_pace_of_new_sessions() -> Result<()> {
    for (value, pace) in [("instant", "instant"), ("frantic", "natural"), ("", "natural")] {
        let state = tempfile::TempDir::new()?;
        let environment = [("WHARF_DEMO_STATE", state.path()), ("WHARF_DEMO_PACE", value.as_ref())];
        let mut agent =
            AgentPipe::start(&program::find_beside("examples/demo")?, &[], &environment)?;
        let opened =
            agent.call_method("session/new", json!({ "cwd": "/tmp", "mcpServers": [] }))?;
        assert_eq!(opened["configOptions"][0]["currentValue"], pace, "{value:?}");
    }
    Ok(())
}
