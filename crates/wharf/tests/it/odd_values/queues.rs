//! Odd values in what changes the queue, and in the requests of amux clients.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use wharf_json::Json;
use wharf_testkit::client::TestClient;
use wharf_testkit::random::TestRandom;
use wharf_testkit::{WAIT_LIMIT, polling};

use super::cases::{Case, sample_cases};
use super::stage::Stage;
use super::{answer_to, logged_frames, raw_at};
use crate::transports::Transport;
use crate::{cwd, log, scripted_host};

/// So many changes of each request.
const QUEUE_REQUESTS: usize = 25;
const AMUX_REQUESTS: usize = 25;

fn with_id(case: &Case, id: &str) -> String {
    case.text.replacen(r#""id":"ID""#, &format!(r#""id":"{id}""#), 1)
}

/// The prompts that wait.
async fn list_waiting(stage: &Stage) -> Result<Vec<Value>> {
    let list = stage
        .sender
        .call_method("_wharf/queue/list", json!({ "sessionId": stage.session }))
        .await?;
    list["prompts"].as_array().cloned().context("no list")
}

/// Two prompts wait, the first of which has the returned id.
async fn fill_queue(stage: &Stage) -> Result<String> {
    while list_waiting(stage).await?.len() < 2 {
        let _ = stage.sender.start_prompt(&stage.session, "echo first").await;
    }
    let first = list_waiting(stage).await?.swap_remove(0);
    first["promptId"].as_str().map(str::to_owned).context("no id")
}

#[tokio::test]
async fn odd_changes_of_the_queue_are_the_same_in_its_list_the_log_and_the_agent() -> Result<()> {
    let mut dice = TestRandom::from_environment()?;
    let stage = Stage::open(Transport::WebSocket, &[]).await?;
    let running = stage.sender.start_prompt(&stage.session, "wait").await;
    let session = &stage.session;
    let message = |method: &str, members: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":"ID","method":"{method}","params":{{"sessionId":"{session}","promptId":"PROMPT"{members},"_meta":{{"y":1}}}}}}"#
        )
    };
    let messages = [
        (
            "_wharf/queue/update",
            message("_wharf/queue/update", r#","prompt":[{"type":"text","text":"echo new"}]"#),
        ),
        ("_wharf/queue/move", message("_wharf/queue/move", r#","position":1"#)),
        ("_wharf/queue/remove", message("_wharf/queue/remove", "")),
    ];
    for (number, case) in sample_cases(&messages, QUEUE_REQUESTS, &mut dice)?.iter().enumerate() {
        let prompt = fill_queue(&stage).await?;
        let id = format!("c{number}");
        let frame = with_id(case, &id).replacen("PROMPT", &prompt, 1);
        let before = list_waiting(&stage).await?;
        let Some(answer) = answer_to(&stage.sender, case, &frame, &id).await? else { continue };
        let after = list_waiting(&stage).await?;
        let context = || {
            format!("{} {}: {frame}\n{}\n{before:?}\n{after:?}", case.kind, case.path, answer.raw)
        };
        if answer.body["error"].is_object() {
            ensure!(before == after, "a refused request changed the queue: {}", context());
        } else if case.kind == "_wharf/queue/update" {
            check_update(&stage, &frame, &prompt, &after).with_context(context)?;
        } else if case.kind == "_wharf/queue/remove" {
            ensure!(
                after.iter().all(|entry| entry["promptId"] != prompt.as_str()),
                "{}",
                context()
            );
        }
    }
    fill_queue(&stage).await?;
    let expected: Vec<Value> = list_waiting(&stage)
        .await?
        .into_iter()
        .map(|mut entry| entry["prompt"].take())
        .collect();
    stage
        .sender
        .send_notification("_go", json!({ "sessionId": stage.session }))
        .await;
    running.wait_answer().await?;
    // The agent is sent what waits, in its order.
    let sent = || -> Result<Vec<Value>> {
        // A request whose name was changed is passed on as it is; it is no prompt.
        let lines = stage
            .read_lines()?
            .into_iter()
            .filter(|line| line.contains(r#""method":"session/prompt""#));
        let prompts = lines.filter_map(|line| raw_at(&line, &["params", "prompt"]));
        prompts
            .skip(1)
            .map(|prompt| Ok(Json::parse(prompt.as_bytes())?.to_value()))
            .collect()
    };
    let all = polling::poll_until(WAIT_LIMIT, || {
        Ok(Some(sent()?).filter(|sent| sent.len() >= expected.len()))
    })
    .await?;
    ensure!(all.as_ref() == Some(&expected), "the agent was sent {all:?} of {expected:?}");
    Ok(())
}

/// The list and the log have the new content.
fn check_update(stage: &Stage, frame: &str, prompt: &str, after: &[Value]) -> Result<()> {
    let content = raw_at(frame, &["params", "prompt"]).context("taken without a prompt")?;
    let listed = after
        .iter()
        .find(|entry| entry["promptId"] == prompt)
        .context("it has left the list")?;
    let is_deep = content.contains(&"[".repeat(90));
    ensure!(
        is_deep || listed["prompt"] == Json::parse(content.as_bytes())?.to_value(),
        "the list has other content"
    );
    let logged = logged_frames(&stage.host, &stage.session, "prompt_updated", &["event", "frame"])?;
    let logged = logged.last().and_then(|frame| raw_at(frame, &["params", "prompt"]));
    ensure!(logged.as_ref() == Some(&content), "the log has {logged:?}");
    Ok(())
}

#[tokio::test]
async fn odd_requests_of_amux_clients_are_answered_and_reach_the_agent_as_they_are() -> Result<()> {
    let mut dice = TestRandom::from_environment()?;
    let record = tempfile::NamedTempFile::new()?;
    let host =
        scripted_host(&["--record", record.path().to_str().context("not UTF-8")?])?.start_host()?;
    let url = format!("{}?session=work&peer_id=odd&peer_name=odd&role=driver", host.ws_url());
    let peer = TestClient::connect(&url, host.token()).await?;
    peer.initialize().await?;
    let session = peer.new_session(&cwd(&host)?).await?;
    let message = |method: &str, members: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":"ID","method":"{method}","params":{{"sessionId":"{session}",{members},"_meta":{{"y":1}}}}}}"#
        )
    };
    let blocks = r#""prompt":[{"type":"text","text":"echo a","annotations":{"priority":1}}]"#;
    let messages = [
        ("amux/queue_prompt", message("amux/queue_prompt", r#""text":"echo a""#)),
        ("amux/queue_prompt", message("amux/queue_prompt", blocks)),
        ("amux/steer_active_turn", message("amux/steer_active_turn", r#""text":"echo a""#)),
        ("amux/steer_active_turn", message("amux/steer_active_turn", blocks)),
        ("amux/unqueue_prompt", message("amux/unqueue_prompt", r#""queueItemId":"none""#)),
        ("amux/cancel_active_turn", message("amux/cancel_active_turn", r#""reason":"words""#)),
    ];
    for (number, case) in sample_cases(&messages, AMUX_REQUESTS, &mut dice)?.iter().enumerate() {
        let id = format!("c{number}");
        let frame = with_id(case, &id);
        let answer = answer_to(&peer, case, &frame, &id).await?;
        // A plain request tells that the one before it was read; its turn has ended when it is in
        // the log.
        peer.call_method("session/status", json!({ "sessionId": session })).await?;
        let ended = polling::poll_until(WAIT_LIMIT, || {
            let accepted = log::list_events(&host, &session, "prompt_accepted")?.len();
            Ok((log::list_events(&host, &session, "prompt_ended")?.len() == accepted).then_some(()))
        });
        ended.await?.with_context(|| format!("no end of {} {frame}", case.path))?;
        if answer.is_none_or(|answer| answer.body["error"].is_object())
            || !frame.contains("_prompt") && !frame.contains("steer")
        {
            continue;
        }
        let text = raw_at(&frame, &["params", "text"])
            .map(|text| format!(r#"[{{"type":"text","text":{text}}}]"#));
        let expected = text.or_else(|| raw_at(&frame, &["params", "prompt"]));
        let record = std::fs::read_to_string(record.path())?;
        let received = record.lines().rfind(|line| line.contains(r#""session/prompt""#));
        let received = received.and_then(|line| raw_at(line, &["params", "prompt"]));
        ensure!(
            received == expected,
            "{} {}: the agent received {received:?} of {frame}",
            case.kind,
            case.path
        );
    }
    let turns = log::list_events(&host, &session, "turn_started")?.len();
    ensure!(turns > 10, "only {turns} prompts were taken");
    Ok(())
}
