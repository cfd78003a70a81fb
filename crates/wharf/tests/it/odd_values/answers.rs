//! Odd values in answers: of a client to permissions and forms, of the agent to prompts.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use wharf_json::Json;
use wharf_testkit::client::ReceivedFrame;
use wharf_testkit::random::TestRandom;
use wharf_testkit::{WAIT_LIMIT, polling};

use super::cases::{Case, sample_cases};
use super::stage::{AGENT_WORDS, Stage};
use super::{logged_frames, raw_at};
use crate::log;
use crate::transports::Transport;

/// So many changes of each answer.
const ANSWERS_TO_ASKS: usize = 40;
const ANSWERS_TO_PROMPTS: usize = 60;
/// Asks that are open at the same time.
const ASKS_AT_ONCE: usize = 20;

/// A kind of ask, the answer whose changes are tried, and a plain answer that follows each.
struct Kind {
    method: &'static str,
    /// `@` is the number of the case.
    members: &'static str,
    odd: &'static str,
    plain: &'static str,
    resolved: &'static str,
}

const PERMISSION_ASK: Kind = Kind {
    method: "session/request_permission",
    members: r#""toolCall":{"toolCallId":"t@"},"options":[{"optionId":"yes","name":"Yes","kind":"allow_once"},{"optionId":"no","name":"No","kind":"reject_once"}]"#,
    odd: r#"{"outcome":{"outcome":"selected","optionId":"no"},"_meta":{"y":1}}"#,
    plain: r#"{"outcome":{"outcome":"selected","optionId":"yes"}}"#,
    resolved: "permission_resolved",
};

const FORM_ASK: Kind = Kind {
    method: "elicitation/create",
    members: r#""mode":"form","message":"m@","requestedSchema":{"type":"object","properties":{"a":{"type":"string"}}}"#,
    odd: r#"{"action":"accept","content":{"a":"b"},"_meta":{"y":1}}"#,
    plain: r#"{"action":"decline"}"#,
    resolved: "elicitation_resolved",
};

impl Kind {
    /// The word that decides: the option or the action. `None` if the result has none.
    fn expected_decision(&self, result: Option<&str>) -> Option<String> {
        let result = Json::parse(result?.as_bytes()).ok()?;
        match self.method {
            "elicitation/create" => result.text_at(&["action"]).ok()?.map(Into::into),
            _ => result.text_at(&["outcome", "optionId"]).ok()?.map(Into::into),
        }
    }

    /// The same word as an update or the log tells it.
    fn told_decision(&self, told: &Value) -> Option<String> {
        let member = if self.method == "elicitation/create" { "action" } else { "chosenOptionId" };
        told[member].as_str().map(str::to_owned)
    }
}

#[tokio::test]
async fn odd_answers_to_asks_are_one_value_for_the_agent_the_log_and_the_others() -> Result<()> {
    let mut dice = TestRandom::from_environment()?;
    for way in [Transport::WebSocket, Transport::Http] {
        for kind in [PERMISSION_ASK, FORM_ASK] {
            let stage = Stage::open(way, &[]).await?;
            let answer = format!(r#"{{"jsonrpc":"2.0","id":"ID","result":{}}}"#, kind.odd);
            let cases = sample_cases(&[(kind.method, answer)], ANSWERS_TO_ASKS, &mut dice)?;
            let mut told = Vec::new();
            for (part, cases) in cases.chunks(ASKS_AT_ONCE).enumerate() {
                let first = part * ASKS_AT_ONCE;
                told.extend(
                    answer_asks(&stage, &kind, cases, first)
                        .await
                        .with_context(|| format!("{way:?}"))?,
                );
            }
            check_ends(&stage, &kind, &told)
                .await
                .with_context(|| format!("{way:?} {}", kind.method))?;
        }
    }
    Ok(())
}

/// Has the agent ask, answers each ask oddly and then plainly, and returns what the agent was told
/// of each.
async fn answer_asks(
    stage: &Stage,
    kind: &Kind,
    cases: &[Case],
    first: usize,
) -> Result<Vec<Option<String>>> {
    let name = |number: usize| format!("{}-{}", kind.resolved, first + number);
    let line = |number: usize| {
        let members = kind.members.replace('@', &name(number));
        let (id, method) = (name(number), kind.method);
        format!(
            r#"{{"jsonrpc":"2.0","id":"{id}","method":"{method}","params":{{"sessionId":"{AGENT_WORDS}",{members}}}}}"#
        )
    };
    let path = stage.host.directory().join("asks");
    let lines: Vec<String> = (0..cases.len()).map(line).collect();
    fs::write(&path, format!("{}\n", lines.join("\n")))?;
    let running = stage
        .sender
        .start_prompt(&stage.session, &format!("rawfile {}; wait", path.display()))
        .await;
    let mut sent = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let mine = format!("{}\"", name(number));
        let is_mine =
            |frame: &ReceivedFrame| frame.method() == kind.method && frame.raw.contains(&mine);
        let ask = stage.sender.expect(&format!("ask {mine}"), is_mine).await;
        let odd = case.text.replacen(r#""id":"ID""#, &format!(r#""id":{}"#, ask.id()), 1);
        stage.sender.send_raw(&odd).await;
        let plain = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{}}}"#, ask.id(), kind.plain);
        stage.sender.send_raw(&plain).await;
        sent.push(odd);
    }
    let mut told = Vec::new();
    for (number, (case, odd)) in cases.iter().zip(&sent).enumerate() {
        let id = format!(r#""id":"{}""#, name(number));
        let found = polling::poll_until(WAIT_LIMIT, || {
            Ok(stage.read_lines()?.into_iter().find(|line| line.contains(&id)))
        })
        .await?;
        let line =
            found.with_context(|| format!("the agent was told nothing for {} {odd}", case.path))?;
        let result = raw_at(&line, &["result"]);
        check_answer(kind, case, odd, result.as_deref())
            .with_context(|| format!("{}: {odd}\n{line}", case.path))?;
        told.push(result);
    }
    stage
        .sender
        .send_notification("_go", json!({ "sessionId": stage.session }))
        .await;
    running.wait_answer().await?;
    for number in 0..cases.len() {
        let id = format!(r#""id":"{}""#, name(number));
        let answers = stage.read_lines()?.into_iter().filter(|line| line.contains(&id)).count();
        ensure!(answers == 1, "{answers} answers to {id}");
    }
    Ok(told)
}

/// The agent is told the odd answer or the plain one, each as it was sent, or that there is none.
fn check_answer(kind: &Kind, case: &Case, odd: &str, told: Option<&str>) -> Result<()> {
    let odd = raw_at(odd, &["result"]);
    let is_odd = told.is_some() && told == odd.as_deref();
    let is_sent = is_odd || told == Some(kind.plain) || told == Some(kind.odd);
    let decision = kind.expected_decision(told);
    let is_own = matches!(decision.as_deref(), None | Some("cancel"));
    ensure!(is_sent || is_own, "the agent was told something else");
    // Members that decide nothing do not matter.
    let is_free =
        ["/+", "/jsonrpc", "/result/_meta", "/result/+", "/result/outcome/+", "/result/content"]
            .iter()
            .any(|free| {
                case.path == *free || (free.starts_with("/result/_") && case.path.starts_with(free))
            });
    ensure!(is_odd || !is_free, "a valid answer was not passed on");
    let is_offered = decision.is_none()
        || kind.method != PERMISSION_ASK.method
        || matches!(decision.as_deref(), Some("yes" | "no"));
    ensure!(is_offered, "an option that was not offered reached the agent");
    Ok(())
}

/// The log and the watcher have the decisions that the agent was told, one for each ask.
async fn check_ends(stage: &Stage, kind: &Kind, told: &[Option<String>]) -> Result<()> {
    let mut expected: Vec<Option<String>> =
        told.iter().map(|result| kind.expected_decision(result.as_deref())).collect();
    if kind.method == FORM_ASK.method {
        // A form that nobody answers is cancelled in a word of its own.
        expected
            .iter_mut()
            .for_each(|decision| _ = decision.get_or_insert_with(|| "cancel".to_owned()));
    }
    let ends = |frame: &ReceivedFrame| {
        frame.update().is_some_and(|update| update["sessionUpdate"] == kind.resolved)
    };
    let all = polling::poll_until(WAIT_LIMIT, || {
        let ends: Vec<ReceivedFrame> =
            stage.watcher.received_frames().into_iter().filter(ends).collect();
        Ok((ends.len() >= told.len()).then_some(ends))
    });
    let shown = all.await?.context("the watcher was not told of every end")?;
    let mut shown: Vec<_> = shown
        .iter()
        .map(|frame| kind.told_decision(&frame.params()["update"]))
        .collect();
    let logged = logged_frames(&stage.host, &stage.session, "ask_resolved", &["event", "outcome"])?;
    let asks =
        logged_frames(&stage.host, &stage.session, "ask_opened", &["event", "ask", "frame"])?;
    ensure!(asks.len() == logged.len(), "{} asks and {} ends in the log", asks.len(), logged.len());
    shown.sort();
    expected.sort();
    ensure!(shown == expected, "the watcher was told {shown:?}, the agent {expected:?}");
    if kind.method == PERMISSION_ASK.method {
        let options = |raw: &String| -> Option<String> {
            Json::parse(raw.as_bytes()).ok()?.text_at(&["option"]).ok()?.map(Into::into)
        };
        let mut logged: Vec<Option<String>> = logged.iter().map(options).collect();
        logged.sort();
        ensure!(logged == expected, "the log has {logged:?}, the agent {expected:?}");
    }
    Ok(())
}

#[tokio::test]
async fn odd_answers_of_the_agent_end_the_prompt_alike_for_everybody() -> Result<()> {
    let mut dice = TestRandom::from_environment()?;
    let stage = Stage::open(Transport::WebSocket, &[]).await?;
    let answer = r#"{"jsonrpc":"2.0","id":"ID","result":{"stopReason":"max_tokens","usage":{"inputTokens":1},"_meta":{"y":1}}}"#;
    for (number, case) in
        sample_cases(&[("session/prompt", answer.to_owned())], ANSWERS_TO_PROMPTS, &mut dice)?
            .iter()
            .enumerate()
    {
        answer_prompt(&stage, case, number)
            .await
            .with_context(|| format!("{}: {}", case.path, case.text))?;
    }
    Ok(())
}

/// The agent answers its prompt oddly, then as it always does. One of the two is the end, for the
/// sender, the log and the watcher.
async fn answer_prompt(stage: &Stage, case: &Case, number: usize) -> Result<()> {
    // Wharf numbers its requests.
    let ids = stage
        .read_lines()?
        .into_iter()
        .filter(|line| line.contains(r#""method":"session/"#));
    let last = ids
        .filter_map(|line| raw_at(&line, &["id"])?.parse::<u64>().ok())
        .max()
        .context("no request")?;
    let path = stage.host.directory().join("answer");
    let line = case.text.replacen(r#""id":"ID""#, &format!(r#""id":{}"#, last + 1), 1);
    fs::write(&path, format!("{line}\n"))?;
    let id = format!("p{number}");
    let prompt = json!([{ "type": "text", "text": format!("rawfile {}", path.display()) }]);
    let params = json!({ "sessionId": stage.session, "prompt": prompt });
    let request =
        json!({ "jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": params });
    stage.sender.send_raw(&request.to_string()).await;
    let is_answer = |frame: &ReceivedFrame| frame.method().is_empty() && *frame.id() == id.as_str();
    let answer = stage.sender.expect("the end of the prompt", is_answer).await;
    let complete = stage
        .watcher
        .expect_update("turn_complete", |update| update["sessionUpdate"] == "turn_complete")
        .await;
    let ends = log::list_events(&stage.host, &stage.session, "prompt_ended")?;
    ensure!(
        ends.len() == number + 1,
        "{} ends in the log after {} prompts",
        ends.len(),
        number + 1
    );
    let logged =
        logged_frames(&stage.host, &stage.session, "prompt_ended", &["event", "end", "frame"])?;
    let logged = logged.last().context("the log has no answer")?;
    if answer.body["error"].is_object() {
        ensure!(
            raw_at(logged, &["error"]) == raw_at(&answer.raw, &["error"]),
            "the log has {logged}, the sender {}",
            answer.raw
        );
        return Ok(());
    }
    // A result may well be null.
    let result = raw_at(&answer.raw, &["result"]).unwrap_or_else(|| "null".to_owned());
    ensure!(
        raw_at(logged, &["result"]).as_deref().unwrap_or("null") == result,
        "the log has {logged}, the sender {}",
        answer.raw
    );
    let is_odd = raw_at(&line, &["result"]).as_deref().unwrap_or("null") == result;
    let is_agents = Json::parse(result.as_bytes())?
        .text_at(&["stopReason"])
        .ok()
        .flatten()
        .as_deref()
        == Some("end_turn");
    ensure!(is_odd || is_agents, "the sender was told {}", answer.raw);
    let reason = Json::parse(result.as_bytes())?;
    let reason =
        if reason.is_object() { reason.text_at(&["stopReason"]).ok().flatten() } else { None };
    if let Some(reason) = reason {
        ensure!(
            complete.params()["update"]["stopReason"] == *reason,
            "{} for {reason}",
            complete.raw
        );
    }
    Ok(())
}
