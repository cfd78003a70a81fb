//! The tokens of turns by the meaning of the agent's numbers (rule 15.1).

use serde_json::{Value, json};
use wharf_core::{
    AgentEvent, AgentTraits, PromptEnd, PromptEvent, StartKind, StartNo, TokenSource, TokenSpan,
    UsageMeaning,
};

use super::{Transcript, prompt_id, raw};

/// Begins with an agent whose numbers have this meaning, `None` if its manifest does not say it.
fn started(how: StartKind, usage: Option<UsageMeaning>) -> Transcript {
    let mut log = Transcript::started();
    start(&mut log, 2, how, usage);
    log
}

fn start(log: &mut Transcript, start: u64, how: StartKind, usage: Option<UsageMeaning>) {
    let traits = AgentTraits { usage, ..AgentTraits::default() };
    log.add(AgentEvent::Starting { start: StartNo(start), how });
    log.add(AgentEvent::Started {
        start: StartNo(start),
        agent_session: "a".into(),
        traits,
        answer: raw(&json!({})),
    });
}

const fn meaning(tokens: TokenSpan, source: TokenSource) -> Option<UsageMeaning> {
    Some(UsageMeaning { tokens, source })
}

/// Runs a turn whose answer reports these tokens.
fn run_turn(log: &mut Transcript, prompt: &str, text: &str, (input, output): (u64, u64)) {
    log.prompt(prompt, "go");
    if !text.is_empty() {
        log.say(text);
    }
    let usage = json!({ "inputTokens": input, "outputTokens": output });
    log.end(prompt, json!({ "stopReason": "end_turn", "usage": usage }));
}

/// Returns the usage of the ends of all turns.
fn usages(log: &Transcript) -> Vec<Value> {
    let ends = log.rows().iter().enumerate().filter(|(_, row)| row.body.kind() == "turn_end");
    ends.map(|(place, _)| log.json(place)["usage"].clone()).collect()
}

fn inputs(log: &Transcript) -> Vec<Option<u64>> {
    usages(log).iter().map(|usage| usage["input"].as_u64()).collect()
}

fn report_chunk(log: &mut Transcript, input: u64) {
    let usage = json!({ "usage": { "inputTokens": input } });
    let content = json!({ "type": "text", "text": "" });
    log.update(
        json!({ "sessionUpdate": "agent_message_chunk", "content": content, "_meta": usage }),
    );
}

#[test]
fn turns_of_running_sums_show_their_own_tokens() {
    let mut log = started(StartKind::New, meaning(TokenSpan::Process, TokenSource::Answer));
    run_turn(&mut log, "prm_1", "one", (100, 7));
    run_turn(&mut log, "prm_2", "two", (250, 9));
    start(&mut log, 3, StartKind::Load, meaning(TokenSpan::Process, TokenSource::Answer));
    run_turn(&mut log, "prm_3", "three", (120, 4));
    assert_eq!(inputs(&log), [Some(100), Some(150), Some(120)]);
    assert!(usages(&log).iter().all(|usage| usage.get("guessed").is_none()));
}

#[test]
fn fork_that_comes_back_before_its_first_answer_does_not_show_its_source() {
    let session = meaning(TokenSpan::Session, TokenSource::Answer);
    let mut log = started(StartKind::Fork, session);
    start(&mut log, 3, StartKind::Load, session);
    run_turn(&mut log, "prm_1", "one", (1_000, 100));
    run_turn(&mut log, "prm_2", "two", (1_030, 101));
    assert_eq!(inputs(&log), [None, Some(30)]);
}

#[test]
fn tokens_of_chunks_belong_to_the_turn_that_ran_however_it_ends() {
    let mut log = started(StartKind::New, meaning(TokenSpan::Turn, TokenSource::Chunk));
    log.prompt("prm_1", "go");
    report_chunk(&mut log, 100);
    // A prompt that never ran ends beside the running turn.
    log.accept("prm_2", "later");
    log.add(PromptEvent::Ended {
        prompt: prompt_id("prm_2"),
        end: PromptEnd::Cancelled,
        failure: None,
    });
    report_chunk(&mut log, 20);
    log.add(PromptEvent::Ended {
        prompt: prompt_id("prm_1"),
        end: PromptEnd::AgentExited,
        failure: None,
    });
    assert_eq!(inputs(&log), [None, Some(120)]);
}

#[test]
fn turns_after_the_first_signs_of_running_sums_show_their_own_tokens() {
    let mut log = started(StartKind::New, None);
    run_turn(&mut log, "prm_1", "an answer", (100, 5));
    run_turn(&mut log, "prm_2", "ok", (220, 9));
    run_turn(&mut log, "prm_3", "", (220, 9));
    run_turn(&mut log, "prm_4", "more", (300, 12));
    assert_eq!(inputs(&log), [Some(100), Some(220), Some(0), Some(80)]);
    assert!(usages(&log).iter().all(|usage| usage["guessed"] == true));
}
