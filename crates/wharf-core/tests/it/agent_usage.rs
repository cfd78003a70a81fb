//! Answers of real agents, each in its own shape, and the sums of the session (rule 15.1).

use serde_json::{Value, json};
use wharf_core::{
    AgentInput, AgentTraits, EXAMINED_AGENTS, ExaminedAgent, Input, NewSession, Origin,
    ReportedTokens, Role, Settings, TokenSource, TokenSpan, UpdateKind, UsageMeaning,
};

use crate::stage::{Stage, exited, id, origin, raw, started, wake};

/// The tokens of a model call: input and output.
#[derive(Clone, Copy)]
struct ModelCall {
    input: u64,
    output: u64,
}

/// Three turns of different sizes. The second one calls the model twice.
const FIRST_TURN: [ModelCall; 1] = [ModelCall { input: 100, output: 10 }];
const SECOND_TURN: [ModelCall; 2] =
    [ModelCall { input: 250, output: 30 }, ModelCall { input: 150, output: 20 }];
const THIRD_TURN: [ModelCall; 1] = [ModelCall { input: 200, output: 5 }];

/// The usage of a session, as far as the agents here report it.
#[derive(Debug, PartialEq)]
struct Sums {
    turns: u64,
    input: Option<u64>,
    output: Option<u64>,
    at_least: bool,
    guessed: bool,
}

/// The three turns in full.
const ALL_TURNS: Sums = Sums {
    turns: 3,
    input: Some(700),
    output: Some(65),
    at_least: false,
    guessed: false,
};

/// A session with an agent of this adapter.
struct AgentSession {
    stage: Stage,
    traits: AgentTraits,
    starts: u64,
    prompts: u64,
}

impl AgentSession {
    /// Starts a session. `usage` is the meaning that `agent_started` records.
    fn start(adapter: &str, usage: Option<UsageMeaning>) -> Self {
        let origin = Origin { adapter: adapter.into(), ..origin() };
        let mut stage = Stage::starting_new(NewSession::new(origin, Settings::default()));
        let traits = AgentTraits { load: true, usage, ..AgentTraits::default() };
        stage.give(started(1, traits));
        Self { stage, traits, starts: 1, prompts: 0 }
    }

    /// Ends the agent and starts it again with these updates before its answer.
    fn restart(&mut self, early_updates: &[Value]) {
        self.stage.give(exited(self.starts, Some(0)));
        self.stage.give(wake("ann", Role::Controller));
        early_updates.iter().for_each(|update| self.update(update));
        self.starts += 1;
        self.stage.give(started(self.starts, self.traits));
    }

    fn update(&mut self, update: &Value) {
        let kind = UpdateKind::from_tag(update["sessionUpdate"].as_str().unwrap());
        let frame = json!({ "method": "session/update", "params": { "sessionId": "agent-1", "update": update } });
        let frame = raw(&frame.to_string());
        self.stage.give(Input::Agent(AgentInput::Updated {
            update: kind,
            frame,
            title: None,
            tool: None,
        }));
    }

    /// Runs a turn with these updates, whose answer has this result.
    fn run_turn(&mut self, updates: &[Value], result: &Value) {
        self.prompts += 1;
        let prompt = format!("p{}", self.prompts);
        self.stage.prompt(&prompt, "ann");
        self.update(&message("a few words about the code"));
        updates.iter().for_each(|update| self.update(update));
        let frame = raw(&json!({ "jsonrpc": "2.0", "id": 3, "result": result }).to_string());
        let stop_reason = result["stopReason"].as_str().map(Into::into);
        self.stage.give(Input::Agent(AgentInput::Answered {
            prompt: id(&prompt),
            stop_reason,
            frame,
            stderr: None,
        }));
    }

    fn tokens(&self) -> ReportedTokens {
        self.stage.session.state().usage.tokens
    }

    /// Returns the sums. Without counted turns there is nothing that could be a guess, as in the
    /// descriptions of sessions.
    fn sums(&self) -> Sums {
        let usage = self.stage.session.state().usage;
        let guessed = usage.guessed && usage.turns > 0;
        let ReportedTokens { input, output, .. } = usage.tokens;
        Sums {
            turns: usage.turns,
            input,
            output,
            at_least: usage.at_least,
            guessed,
        }
    }
}

const fn meaning(tokens: TokenSpan, source: TokenSource) -> UsageMeaning {
    UsageMeaning { tokens, source }
}

fn message(text: &str) -> Value {
    json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } })
}

fn sum_calls(calls: &[ModelCall]) -> ModelCall {
    let input = calls.iter().map(|call| call.input).sum();
    let output = calls.iter().map(|call| call.output).sum();
    ModelCall { input, output }
}

/// Returns the result of an answer with `usage`.
fn answer(ModelCall { input, output }: ModelCall) -> Value {
    let usage =
        json!({ "inputTokens": input, "outputTokens": output, "totalTokens": input + output });
    json!({ "stopReason": "end_turn", "usage": usage })
}

fn answer_without_usage() -> Value {
    json!({ "stopReason": "end_turn" })
}

/// Runs the same session twice: with the meaning in its log, and with a log of an older version,
/// for which the adapter's name decides. The sums are the same; those of the older log are a guess.
fn check(adapter: &str, usage: UsageMeaning, expected: &Sums, run: impl Fn(&mut AgentSession)) {
    let mut session = AgentSession::start(adapter, Some(usage));
    run(&mut session);
    assert_eq!(session.sums(), *expected, "{adapter}");
    assert!(!expected.guessed);

    assert_eq!(ExaminedAgent::find(adapter).map(|agent| agent.meaning), Some(usage), "{adapter}");
    let mut older = AgentSession::start(adapter, None);
    run(&mut older);
    assert_eq!(older.sums(), Sums { guessed: true, ..*expected }, "older log of {adapter}");
}

#[test]
fn claude_reports_turns_without_their_cache() {
    let usage = meaning(TokenSpan::Turn, TokenSource::Answer);
    let report = |calls: &[ModelCall]| {
        let ModelCall { input, output } = sum_calls(calls);
        json!({
            "stopReason": "end_turn",
            "usage": {
                "inputTokens": input, "outputTokens": output, "cachedReadTokens": 4_000,
                "cachedWriteTokens": 50, "totalTokens": input + output + 4_050,
            },
            // Fuller than the usage, with subagents. It is not added.
            "_meta": { "quota": { "token_count": { "input_tokens": 9_999, "output_tokens": 9_999 } } },
        })
    };
    let zeros = json!({ "inputTokens": 0, "outputTokens": 0, "cachedReadTokens": 0, "cachedWriteTokens": 0, "totalTokens": 0 });
    let run = |session: &mut AgentSession| {
        session.run_turn(&[], &report(&FIRST_TURN));
        session.run_turn(&[], &report(&SECOND_TURN));
        session.run_turn(&[], &json!({ "stopReason": "cancelled", "usage": zeros }));
        session.restart(&[]);
        session.run_turn(&[], &report(&THIRD_TURN));
        let cached =
            (session.tokens().cached_read, session.tokens().cached_write, session.tokens().total);
        assert_eq!(cached, (Some(12_000), Some(150), Some(765 + 12_150)));
    };
    check("claude", usage, &ALL_TURNS, run);
}

#[test]
fn codex_reports_turns_and_null_for_a_cancelled_one() {
    let run = |session: &mut AgentSession| {
        session.run_turn(&[], &answer(sum_calls(&FIRST_TURN)));
        session.run_turn(&[], &answer(sum_calls(&SECOND_TURN)));
        session.run_turn(&[], &json!({ "stopReason": "cancelled", "usage": null }));
        session.restart(&[]);
        session.run_turn(&[], &answer(sum_calls(&THIRD_TURN)));
    };
    check("codex", meaning(TokenSpan::Turn, TokenSource::Answer), &ALL_TURNS, run);
}

/// Runs a session whose agent reports only the last model call of each turn.
fn report_last_calls(session: &mut AgentSession) {
    session.run_turn(&[], &answer(FIRST_TURN[0]));
    session.run_turn(&[], &answer(SECOND_TURN[1]));
    session.restart(&[]);
    session.run_turn(&[], &answer(THIRD_TURN[0]));
}

#[test]
fn last_calls_of_opencode_goose_and_older_codex_are_lower_bounds() {
    let usage = meaning(TokenSpan::LastCall, TokenSource::Answer);
    let expected = Sums {
        turns: 3,
        input: Some(450),
        output: Some(35),
        at_least: true,
        guessed: false,
    };
    check("opencode", usage, &expected, report_last_calls);
    check("goose", usage, &expected, report_last_calls);
    // The older log of codex does not have the version and counts like newer ones, see above.
    let mut codex = AgentSession::start("codex", Some(usage));
    report_last_calls(&mut codex);
    assert_eq!(codex.sums(), expected);
}

#[test]
fn gemini_reports_turns_in_its_quota() {
    let report = |calls: &[ModelCall]| {
        let ModelCall { input, output } = sum_calls(calls);
        let tokens = json!({ "input_tokens": input, "output_tokens": output });
        let by_model = json!([{ "model": "gemini-3-pro", "token_count": tokens }]);
        let quota = json!({ "token_count": tokens, "model_usage": by_model });
        json!({ "stopReason": "end_turn", "_meta": { "quota": quota } })
    };
    let run = |session: &mut AgentSession| {
        session.run_turn(&[], &report(&FIRST_TURN));
        session.run_turn(&[], &report(&SECOND_TURN));
        session.restart(&[]);
        session.run_turn(&[], &report(&THIRD_TURN));
    };
    check("gemini", meaning(TokenSpan::Turn, TokenSource::Quota), &ALL_TURNS, run);
}

#[test]
fn qwen_reports_model_calls_in_empty_chunks_and_again_in_a_load() {
    let report = |ModelCall { input, output }: &ModelCall| {
        let total = input + output;
        let usage = json!({ "inputTokens": input, "outputTokens": output, "totalTokens": total,
            "thoughtTokens": 0, "cachedReadTokens": 0 });
        let content = json!({ "type": "text", "text": "" });
        let meta = json!({ "usage": usage, "durationMs": 900 });
        json!({ "sessionUpdate": "agent_message_chunk", "content": content, "_meta": meta })
    };
    let run = |session: &mut AgentSession| {
        session.run_turn(&FIRST_TURN.each_ref().map(report), &answer_without_usage());
        session.run_turn(&SECOND_TURN.each_ref().map(report), &answer_without_usage());
        // The host drops what a load repeats. What it lets through is not counted a second time.
        let replay: Vec<_> = FIRST_TURN.iter().chain(&SECOND_TURN).map(report).collect();
        session.restart(&replay);
        session.run_turn(&THIRD_TURN.each_ref().map(report), &answer_without_usage());
    };
    check("qwen", meaning(TokenSpan::Turn, TokenSource::Chunk), &ALL_TURNS, run);
}

#[test]
fn hermes_reports_running_sums_of_its_process() {
    let run = |session: &mut AgentSession| {
        session.run_turn(&[], &answer(sum_calls(&FIRST_TURN)));
        // The next process begins at zero, and no number falls: its first turn is larger.
        session.restart(&[]);
        session.run_turn(&[], &answer(sum_calls(&SECOND_TURN)));
        session.run_turn(&[], &answer(ModelCall { input: 600, output: 55 }));
    };
    check("hermes", meaning(TokenSpan::Process, TokenSource::Answer), &ALL_TURNS, run);
}

#[test]
fn vibe_reports_running_sums_of_its_session() {
    let run = |session: &mut AgentSession| {
        session.run_turn(&[], &answer(sum_calls(&FIRST_TURN)));
        session.run_turn(&[], &answer(ModelCall { input: 500, output: 60 }));
        // A slash command calls no model: the answer repeats the sums.
        session.run_turn(&[], &answer(ModelCall { input: 500, output: 60 }));
        // The next process goes on.
        session.restart(&[]);
        session.run_turn(&[], &answer(ModelCall { input: 700, output: 65 }));
    };
    let expected = Sums { turns: 4, ..ALL_TURNS };
    check("vibe", meaning(TokenSpan::Session, TokenSource::Answer), &expected, run);
}

#[test]
fn kimi_and_fast_agent_report_no_tokens() {
    let context = json!({ "sessionUpdate": "usage_update", "used": 12_000, "size": 200_000 });
    let status = json!({ "stopReason": "end_turn", "_meta": { "status": "100 in, 10 out" } });
    for (adapter, result) in [("kimi", answer_without_usage()), ("fast-agent", status)] {
        let mut session = AgentSession::start(adapter, None);
        session.run_turn(&[], &result);
        session.update(&context);
        session.run_turn(&[], &result);
        session.restart(&[]);
        session.run_turn(&[], &result);
        let nothing = Sums {
            turns: 0,
            input: None,
            output: None,
            at_least: false,
            guessed: false,
        };
        assert_eq!(session.sums(), nothing, "{adapter}");
        assert_eq!(session.tokens(), ReportedTokens::default(), "{adapter}");
    }
}

#[test]
fn every_known_agent_has_a_test_of_its_answers() {
    // Copilot was not seen on the wire; it is said to report like vibe.
    let tested =
        ["claude", "codex", "copilot", "gemini", "goose", "hermes", "opencode", "qwen", "vibe"];
    let known: Vec<_> = EXAMINED_AGENTS.iter().map(|agent| agent.name).collect();
    assert_eq!(known, tested);
}
