//! Odd values in an agent's answers to `initialize` and `session/new`.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use wharf_json::Json;
use wharf_testkit::client::ReceivedFrame;
use wharf_testkit::random::TestRandom;

use super::cases::{Case, sample_cases};
use super::{able_client, raw_at};
use crate::transports::Transport;
use crate::{add_scripted_agent, cwd, scripted_host};

/// So many changes of each answer: each needs an agent of its own.
const STARTS_OF_EACH: usize = 8;
/// Agents of one host.
const AGENTS_AT_ONCE: usize = 60;

const INITIALIZE_ANSWER: &str = r#"{"jsonrpc":"2.0","id":"ID","result":{"protocolVersion":1,"agentInfo":{"name":"a","version":"1"},"agentCapabilities":{"loadSession":true,"promptCapabilities":{"image":true},"sessionCapabilities":{"resume":{},"close":{}}},"authMethods":[{"id":"m","name":"M"}],"_meta":{"y":1}}}"#;
const NEW_SESSION_ANSWER: &str = r#"{"jsonrpc":"2.0","id":"ID","result":{"sessionId":"s1","modes":{"currentModeId":"ask","availableModes":[{"id":"ask","name":"Ask"}]},"configOptions":[{"id":"model","name":"Model","category":"model","type":"select","currentValue":"small","options":[{"value":"small","name":"small"}]}],"_meta":{"y":1}}}"#;

#[tokio::test]
async fn odd_answers_of_an_agent_to_its_start_are_told_or_fail_the_start() -> Result<()> {
    let mut dice = TestRandom::from_environment()?;
    let messages = [
        ("initialize", INITIALIZE_ANSWER.to_owned()),
        ("session/new", NEW_SESSION_ANSWER.to_owned()),
    ];
    let cases = sample_cases(&messages, STARTS_OF_EACH, &mut dice)?;
    // An answer under another id is not an answer: the start waits for its time limit.
    let cases: Vec<Case> = cases.into_iter().filter(|case| !case.path.starts_with("/id")).collect();
    for cases in cases.chunks(AGENTS_AT_ONCE) {
        start_agents(cases).await?;
    }
    Ok(())
}

async fn start_agents(cases: &[Case]) -> Result<()> {
    let answer = |case: &Case| case.text.replacen(r#""id":"ID""#, r#""id":@ID@"#, 1);
    let mut options = scripted_host(&[])?;
    for (number, case) in cases.iter().enumerate() {
        let flag = format!("{}={}", case.kind, answer(case));
        options = add_scripted_agent(options, &format!("odd{number}"), &["--answer-with", &flag])?;
    }
    let host = options.start_host()?;
    let client = able_client(&host, Transport::WebSocket).await?;
    for (number, case) in cases.iter().enumerate() {
        let id = format!("n{number}");
        let meta = json!({ "wharf": { "agent": format!("odd{number}") } });
        let params = json!({ "cwd": cwd(&host)?, "mcpServers": [], "_meta": meta });
        let request =
            json!({ "jsonrpc": "2.0", "id": id, "method": "session/new", "params": params });
        client.send_raw(&request.to_string()).await;
        let is_answer =
            |frame: &ReceivedFrame| frame.method().is_empty() && *frame.id() == id.as_str();
        let opened = client
            .expect(&format!("answer of {} {}", case.kind, case.text), is_answer)
            .await;
        check_start(case, &opened)
            .with_context(|| format!("{} {}: {}", case.kind, case.path, case.text))?;
        if let Some(session) = opened.body["result"]["sessionId"].as_str() {
            // The agent does not know this session and says so: that is an end too.
            let _ = client.send_prompt(session, "echo a").await;
            let close = json!({ "sessionId": session, "_meta": { "wharf": { "force": true } } });
            client.call_method("session/close", close).await?;
        }
    }
    Ok(())
}

/// A session that was opened shows the modes as the agent wrote them.
fn check_start(case: &Case, opened: &ReceivedFrame) -> Result<()> {
    if opened.body["error"].is_object() {
        let is_needed = case.path.starts_with("/result")
            || case.path.starts_with("/jsonrpc")
            || case.path == "/+";
        ensure!(is_needed, "refused: {}", opened.raw);
        return Ok(());
    }
    let modes = raw_at(&case.text, &["result", "modes"])
        .filter(|modes| case.kind == "session/new" && is_plain(modes));
    if let Some(modes) = modes {
        ensure!(
            raw_at(&opened.raw, &["result", "modes"]) == Some(modes),
            "the client was told {}",
            opened.raw
        );
    }
    Ok(())
}

/// The modes can be read.
fn is_plain(modes: &str) -> bool {
    let read = |modes: &str| {
        Json::parse(modes.as_bytes())
            .ok()?
            .text_at(&["currentModeId"])
            .ok()?
            .map(|_| ())
    };
    read(modes).is_some()
}
