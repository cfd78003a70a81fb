//! Odd values in what a client sends.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use wharf_json::Json;
use wharf_testkit::client::{ReceivedFrame, TestClient};
use wharf_testkit::host::TestHost;
use wharf_testkit::random::TestRandom;
use wharf_testkit::{WAIT_LIMIT, polling};

use super::cases::{Case, sample_cases};
use super::{able_client, answer_to, logged_frames, mark_of, raw_at};
use crate::transports::Transport;
use crate::{cwd, scripted_host};

/// The agent's own id of its session.
const AGENT_WORDS: &str = "the agents own";
/// An agent that sends this back has it renamed.
const WHARF_META: &str = r#""wharf":{"z":1},"#;
/// So many changes of each message on each way in.
const OF_EACH: usize = 9;
const PROMPTS_PER_SAMPLE: usize = 40;
const STARTS_PER_SAMPLE: usize = 10;
/// The text of a prompt that waits for the one before it.
const PROBE_PROMPT: &str = "echo probe";
const TESTED_TRANSPORTS: [Transport; 2] = [Transport::WebSocket, Transport::Http];

struct Stage {
    host: TestHost,
    record: tempfile::NamedTempFile,
    /// Keeps the session open, and watches.
    owner: TestClient,
    session: String,
}

impl Stage {
    async fn open() -> Result<Self> {
        let record = tempfile::NamedTempFile::new()?;
        let path = record.path().to_str().context("not UTF-8")?;
        let host = scripted_host(&[
            "--record",
            path,
            "--session-id",
            AGENT_WORDS,
            "--resume",
            "--models",
        ])?
        .start_host()?;
        let owner = able_client(&host, Transport::WebSocket).await?;
        let session = owner.new_session(&cwd(&host)?).await?;
        let attach = json!({ "sessionId": session, "historyPolicy": "none" });
        owner.call_method("session/attach", attach).await?;
        Ok(Self { host, record, owner, session })
    }

    fn make_request(&self, method: &str, members: &str) -> String {
        let session = &self.session;
        format!(
            r#"{{"jsonrpc":"2.0","id":"ID","method":"{method}","params":{{"sessionId":"{session}",{members}"_meta":{{"wharf":{{"z":1}},"y":1}}}}}}"#
        )
    }

    /// The line with this mark that the agent has received.
    fn received_line(&self, number: usize) -> Result<Option<String>> {
        let record = fs::read_to_string(self.record.path())?;
        let mark = number.to_string();
        Ok(record
            .lines()
            .find(|line| mark_of(line).as_ref() == Some(&mark))
            .map(str::to_owned))
    }

    /// Returns the params as the agent must receive them.
    fn expected_params(&self, frame: &str) -> Option<String> {
        let ours = format!(r#""sessionId":"{}""#, self.session);
        raw_at(&frame.replacen(&ours, &format!(r#""sessionId":"{AGENT_WORDS}""#), 1), &["params"])
    }
}

/// The message with an id and a mark of its own.
fn insert_number(case: &Case, number: usize) -> String {
    let marked =
        format!("{},\"mark\":{number}}}", case.text.strip_suffix('}').unwrap_or(&case.text));
    marked.replacen(r#""id":"ID""#, &format!(r#""id":"c{number}""#), 1)
}

#[tokio::test]
async fn odd_requests_of_clients_are_answered_and_reach_the_agent_as_they_are() -> Result<()> {
    let mut dice = TestRandom::from_environment()?;
    let stage = Stage::open().await?;
    let cwd = json!(cwd(&stage.host)?);
    let join = format!(r#""cwd":{cwd},"mcpServers":[],"#);
    let attach = r#""historyPolicy":"none","afterMessageId":"m","clientId":"odd","clientInfo":{"name":"odd","version":"1"},"#;
    let messages = [
        ("session/load", stage.make_request("session/load", &join)),
        ("session/resume", stage.make_request("session/resume", &join)),
        ("session/attach", stage.make_request("session/attach", attach)),
        (
            "session/list",
            format!(
                r#"{{"jsonrpc":"2.0","id":"ID","method":"session/list","params":{{"cwd":{cwd},"cursor":null,"_meta":{{"wharf":{{"all":true}}}}}}}}"#
            ),
        ),
        ("session/status", stage.make_request("session/status", "")),
        ("session/set_mode", stage.make_request("session/set_mode", r#""modeId":"auto","#)),
        ("session/set_model", stage.make_request("session/set_model", r#""modelId":"large","#)),
        (
            "session/set_config_option",
            stage.make_request("session/set_config_option", r#""configId":"model","value":"large","#),
        ),
        ("_echo", stage.make_request("_echo", r#""a":[1,{"b":2}],"#).replacen(WHARF_META, "", 1)),
        ("_wharf/queue/list", stage.make_request("_wharf/queue/list", "")),
        (
            "_wharf/queue/update",
            stage
                .make_request("_wharf/queue/update", r#""promptId":"prm_none","prompt":[{"type":"text","text":"a"}],"#),
        ),
        ("_wharf/queue/move", stage.make_request("_wharf/queue/move", r#""promptId":"prm_none","position":0,"#)),
        ("_wharf/queue/remove", stage.make_request("_wharf/queue/remove", r#""promptId":"prm_none","#)),
        ("amux/queue_prompt", stage.make_request("amux/queue_prompt", r#""text":"echo a","#)),
        (
            "authenticate",
            r#"{"jsonrpc":"2.0","id":"ID","method":"authenticate","params":{"methodId":"none","_meta":{"y":1}}}"#
                .to_owned(),
        ),
        ("session/cancel", stage.make_request("session/cancel", r#""x":1,"#).replacen(r#""id":"ID","#, "", 1)),
        ("session/ready", stage.make_request("session/ready", r#""x":1,"#).replacen(r#""id":"ID","#, "", 1)),
        (
            "$/cancel_request",
            r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"none","_meta":{"y":1}}}"#.to_owned(),
        ),
        ("_note", stage.make_request("_note", r#""a":[1],"#).replacen(r#""id":"ID","#, "", 1)),
        ("session/detach", stage.make_request("session/detach", "")),
        ("session/close", stage.make_request("session/close", "")),
        ("session/delete", stage.make_request("session/delete", "")),
    ];
    let mut number = 0;
    for way in TESTED_TRANSPORTS {
        let client = able_client(&stage.host, way).await?;
        for case in sample_cases(&messages, OF_EACH, &mut dice)? {
            number += 1;
            check_request(&stage, &client, &case, number)
                .await
                .with_context(|| format!("{way:?} {} {}", case.kind, case.path))?;
        }
    }
    Ok(())
}

/// A request that the agent answers has reached it as it was sent, and an echo comes back so.
async fn check_request(
    stage: &Stage,
    client: &TestClient,
    case: &Case,
    number: usize,
) -> Result<()> {
    let frame = insert_number(case, number);
    let answer = answer_to(client, case, &frame, &format!("c{number}")).await?;
    let forwarded = matches!(
        case.kind,
        "session/set_mode" | "session/set_model" | "session/set_config_option" | "_echo"
    );
    let Some(answer) = answer.filter(|_| forwarded) else { return Ok(()) };
    match stage.received_line(number)? {
        Some(line) => {
            let expected = stage.expected_params(&frame);
            ensure!(
                raw_at(&line, &["params"]) == expected,
                "the agent received\n{line}\nfor\n{frame}"
            );
            if case.kind == "_echo" && answer.body.get("result").is_some() {
                ensure!(
                    raw_at(&answer.raw, &["result"]) == expected,
                    "{}\nfor\n{frame}",
                    answer.raw
                );
            }
        }
        None => ensure!(
            answer.body["error"].is_object(),
            "{} without the agent for {frame}",
            answer.raw
        ),
    }
    Ok(())
}

#[tokio::test]
async fn odd_prompts_are_the_same_for_the_agent_the_log_and_the_others() -> Result<()> {
    let mut dice = TestRandom::from_environment()?;
    let stage = Stage::open().await?;
    let blocks = r#""prompt":[{"type":"text","text":"echo said","annotations":{"priority":1}},{"type":"resource_link","uri":"file:///a","name":"a"}],"#;
    let messages = [("session/prompt", stage.make_request("session/prompt", blocks))];
    let (mut number, mut taken) = (0, Vec::new());
    for way in TESTED_TRANSPORTS {
        let client = able_client(&stage.host, way).await?;
        for case in sample_cases(&messages, PROMPTS_PER_SAMPLE, &mut dice)? {
            number += 1;
            let frame = insert_number(&case, number);
            let answer = answer_to(&client, &case, &frame, &format!("c{number}")).await?;
            if answer.is_none() {
                // Its end is told under an id that the test does not know: a prompt behind it ends
                // later.
                client.send_prompt(&stage.session, PROBE_PROMPT).await?;
            }
            // A request of another name is passed on as it is, and is no prompt.
            let line = stage.received_line(number)?.filter(|_| case.path != "/method");
            let Some(line) = line else {
                let is_refused =
                    answer.as_ref().is_none_or(|answer| answer.body["error"].is_object());
                let is_refused = is_refused || case.path == "/method";
                ensure!(is_refused, "{answer:?} without the agent for {frame}");
                continue;
            };
            let expected = stage.expected_params(&frame);
            ensure!(
                raw_at(&line, &["params"]) == expected,
                "{}: the agent received\n{line}\nfor\n{frame}",
                case.path
            );
            taken.push((
                number,
                case.path,
                raw_at(&frame, &["params", "prompt"]).context("no prompt")?,
            ));
        }
    }
    check_prompts(&stage, &taken).await
}

/// The log, the watcher and the history have the prompts that the agent has.
async fn check_prompts(stage: &Stage, taken: &[(usize, String, String)]) -> Result<()> {
    ensure!(taken.len() > PROMPTS_PER_SAMPLE / 2, "only {} prompts were taken", taken.len());
    let mut logged =
        logged_frames(&stage.host, &stage.session, "prompt_accepted", &["event", "frame"])?;
    logged.retain(|frame| mark_of(frame).is_some());
    let marks: Vec<String> = logged.iter().filter_map(|frame| mark_of(frame)).collect();
    let received: Vec<String> = taken.iter().map(|(number, ..)| number.to_string()).collect();
    let paths: Vec<_> = taken
        .iter()
        .filter(|(number, ..)| !marks.contains(&number.to_string()))
        .collect();
    ensure!(
        marks == received,
        "the log has the prompts {marks:?}, the agent {received:?}; not in the log: {paths:?}"
    );
    let is_probe = |prompt: &Value| prompt[0]["text"] == PROBE_PROMPT;
    let told = |frame: &ReceivedFrame| {
        let update = frame.update().filter(|update| update["sessionUpdate"] == "prompt_received");
        update.is_some_and(|update| !is_probe(&update["prompt"]))
    };
    let told_frames = || stage.owner.received_frames().into_iter().filter(told).collect::<Vec<_>>();
    // The watcher may read the last prompt after its sender has read the answer.
    polling::poll_until(WAIT_LIMIT, || Ok((told_frames().len() >= taken.len()).then_some(())))
        .await?;
    let received = told_frames();
    ensure!(
        received.len() == taken.len(),
        "{} prompts were told, {} are with the agent",
        received.len(),
        taken.len()
    );
    let late = able_client(&stage.host, Transport::WebSocket).await?;
    let attach = json!({ "sessionId": stage.session, "historyDelivery": "response" });
    let attached = late.call_method("session/attach", attach).await?;
    let history = attached["history"].as_array().context("no history")?;
    let history: Vec<_> = history
        .iter()
        .filter(|entry| entry["type"] == "prompt" && !is_probe(&entry["content"]))
        .collect();
    ensure!(
        history.len() == taken.len(),
        "{} prompts are in the history, {} with the agent",
        history.len(),
        taken.len()
    );
    for (place, (_, path, prompt)) in taken.iter().enumerate() {
        ensure!(
            raw_at(&logged[place], &["params", "prompt"]).as_ref() == Some(prompt),
            "{path}: {}",
            logged[place]
        );
        let shown = raw_at(&received[place].raw, &["params", "update", "prompt"]);
        ensure!(
            shown.as_ref() == Some(prompt),
            "{path}: the watcher was told {shown:?} of {prompt}"
        );
        let value = Json::parse(prompt.as_bytes())?.to_value();
        // The history is made of values, which are cut where they are too deep.
        let is_deep = prompt.contains(&"[".repeat(100));
        ensure!(
            is_deep || history[place]["content"] == value,
            "{path}: the history has {} of {prompt}",
            history[place]
        );
    }
    Ok(())
}

#[tokio::test]
async fn odd_starts_of_sessions_and_connections_are_answered() -> Result<()> {
    let mut dice = TestRandom::from_environment()?;
    let stage = Stage::open().await?;
    let cwd = json!(cwd(&stage.host)?);
    let hello = [("initialize", r#"{"jsonrpc":"2.0","id":"ID","method":"initialize","params":{"protocolVersion":1,"clientInfo":{"name":"odd","version":"1"},"clientCapabilities":{"fs":{"readTextFile":false,"writeTextFile":true},"terminal":true,"elicitation":{"form":{}},"session":{"notices":{}}},"_meta":{"wharf":{"multiClientUpdates":true,"eventIds":true,"clientId":"odd","env":{"A":"b"}}}}}"#.to_owned())];
    let cases = sample_cases(&hello, 3 * STARTS_PER_SAMPLE, &mut dice)?;
    for (number, case) in cases.iter().enumerate().filter(|(_, case)| !case.path.starts_with("/id"))
    {
        let client = Transport::WebSocket.connect(&stage.host, stage.host.token()).await?;
        answer_to(&client, case, &insert_number(case, number), &format!("c{number}")).await?;
    }
    let new = [(
        "session/new",
        format!(
            r#"{{"jsonrpc":"2.0","id":"ID","method":"session/new","params":{{"cwd":{cwd},"mcpServers":[{{"name":"m","command":"/none","args":["a"],"env":[{{"name":"A","value":"b"}}]}}],"additionalDirectories":[{cwd}],"_meta":{{"wharf":{{"agent":"scripted"}},"y":1}}}}}}"#
        ),
    )];
    for way in TESTED_TRANSPORTS {
        let client = able_client(&stage.host, way).await?;
        for (number, case) in sample_cases(&new, STARTS_PER_SAMPLE, &mut dice)?.iter().enumerate() {
            let answer =
                answer_to(&client, case, &insert_number(case, number), &format!("c{number}"))
                    .await?;
            let Some(session) =
                answer.as_ref().and_then(|answer| answer.body["result"]["sessionId"].as_str())
            else {
                continue;
            };
            let close = json!({ "sessionId": session, "_meta": { "wharf": { "force": true } } });
            client.call_method("session/close", close).await?;
        }
    }
    Ok(())
}
