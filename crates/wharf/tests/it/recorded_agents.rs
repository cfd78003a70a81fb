//! Recorded real agents: a client behind the host receives the same frames as a client of the bare
//! agent.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::agent::transcript::{self, FrameDirection, TranscriptRecord};
use wharf_testkit::client::{ReceivedFrame, TestClient};
use wharf_testkit::host::TestHost;

use crate::{connect_client_with, cwd, scripted_host};

fn recording_path(agent: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/transcripts")
        .join(format!("{agent}.jsonl"))
}

/// Starts a host whose agent replays the recording.
fn start_recorded_host(path: &Path) -> Result<TestHost> {
    scripted_host(&["--transcript", path.to_str().context("the path is not UTF-8")?])?.start_host()
}

/// Connects a client that answers the agent's requests as the recorded client did, in the recorded
/// order.
async fn connect_recorded_client(
    host: &TestHost,
    records: &[TranscriptRecord],
) -> Result<TestClient> {
    let capabilities =
        json!({ "fs": { "readTextFile": true, "writeTextFile": true }, "terminal": true });
    let client = connect_client_with(host, capabilities, json!({})).await?;
    let answers = records
        .iter()
        .filter(|record| record.dir == FrameDirection::ToAgent && record.msg["method"].is_null());
    let answers: Mutex<VecDeque<Value>> =
        Mutex::new(answers.map(|record| record.msg.clone()).collect());
    client.respond_with(move |_| {
        let mut answer = answers.lock().ok()?.pop_front()?;
        Some(if answer["error"].is_null() {
            Ok(answer["result"].take())
        } else {
            Err(answer["error"].take())
        })
    });
    Ok(client)
}

/// Returns the part of a message that both clients can see: without ids.
fn comparable_part(message: &Value) -> Option<Value> {
    let method = message["method"].as_str()?;
    let mut params = message["params"].clone();
    params.as_object_mut()?.remove("sessionId")?;
    Some(json!([method, params]))
}

/// Returns the agent's recorded frames for the session.
fn recorded_frames(records: &[TranscriptRecord]) -> Vec<Value> {
    let sent = records.iter().filter(|record| record.dir == FrameDirection::FromAgent);
    sent.filter_map(|record| comparable_part(&record.msg)).collect()
}

/// Returns the records up to the answer of the last prompt: later frames may come at any time.
fn until_last_answer(records: &[TranscriptRecord]) -> &[TranscriptRecord] {
    let last = records.iter().rposition(|record| {
        record.dir == FrameDirection::FromAgent && record.msg["method"].is_null()
    });
    &records[..last.unwrap_or_default()]
}

/// Returns the frames that the client received for the session, without the host's own announcement
/// of a mode.
fn received_frames(client: &TestClient) -> Vec<Value> {
    let frames = client.received_frames();
    let received = frames
        .iter()
        .map(|frame: &ReceivedFrame| &frame.body)
        .filter_map(comparable_part);
    received
        .filter(|frame| frame[1]["update"]["sessionUpdate"] != "current_mode_update")
        .collect()
}

/// Sends the recorded client's messages and waits for each answer. A cancel is sent once the turn's
/// recorded text has arrived.
async fn replay_client(
    client: &TestClient,
    session: &str,
    records: &[TranscriptRecord],
) -> Result<()> {
    let mut prompt = None;
    for (place, TranscriptRecord { dir, msg }) in records.iter().enumerate() {
        let (FrameDirection::ToAgent, Some(method)) = (dir, msg["method"].as_str()) else {
            continue;
        };
        let mut params = msg["params"].clone();
        params["sessionId"] = json!(session);
        match method {
            "session/prompt" => {
                let call = client.start_request(method, params).await;
                let cancelled = records[place + 1..]
                    .iter()
                    .filter(|record| record.dir == FrameDirection::ToAgent)
                    .find_map(|record| record.msg["method"].as_str())
                    == Some("session/cancel");
                if cancelled {
                    prompt = Some(call);
                } else {
                    call.wait_answer().await?;
                }
            }
            "session/cancel" => {
                let expected = recorded_frames(&records[..place]).len();
                while received_frames(client).len() < expected {
                    client.next_frame().await;
                }
                client.send_notification(method, params).await;
                prompt.take().context("no turn to cancel")?.wait_answer().await?;
            }
            "session/set_mode" => drop(client.call_method(method, params).await?),
            _ => {}
        }
    }
    Ok(())
}

async fn frames_pass_unchanged(agent: &str) -> Result<()> {
    let path = recording_path(agent);
    let records = transcript::read_transcript(&path)?;
    let reopens = |record: &TranscriptRecord| {
        ["session/load", "session/resume"].contains(&record.msg["method"].as_str().unwrap_or(""))
    };
    let second = records.iter().position(reopens);
    let (first, second) = records.split_at(second.unwrap_or(records.len()));

    let mut host = start_recorded_host(&path)?;
    let client = connect_recorded_client(&host, first).await?;
    let session = client.new_session(&cwd(&host)?).await?;
    replay_client(&client, &session, first).await?;
    let (told, recorded) = (received_frames(&client), recorded_frames(until_last_answer(first)));
    for (place, (told, recorded)) in told.iter().zip(&recorded).enumerate() {
        assert_eq!(
            told, recorded,
            "{agent}: frame {place} through the host and from the bare agent"
        );
    }
    assert!(told.len() >= recorded.len(), "{agent}: {} frames of {}", told.len(), recorded.len());

    let comes_back = second.iter().any(|record| record.msg["method"] == "session/prompt");
    if comes_back {
        host.restart()?;
        let client = connect_recorded_client(&host, second).await?;
        client.load_session(&session, &cwd(&host)?).await?;
        let replayed = received_frames(&client).len();
        replay_client(&client, &session, second).await?;
        let texts = |frames: &[Value]| -> String {
            frames
                .iter()
                .filter_map(|frame| frame[1]["update"]["content"]["text"].as_str())
                .collect()
        };
        let turn = second
            .iter()
            .position(|record| record.msg["method"] == "session/prompt")
            .unwrap_or_default();
        assert_eq!(
            texts(&received_frames(&client)[replayed..]),
            texts(&recorded_frames(until_last_answer(&second[turn..]))),
            "{agent}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn recorded_claude_frames_pass_unchanged() -> Result<()> {
    frames_pass_unchanged("claude").await
}

#[tokio::test]
async fn recorded_codex_frames_pass_unchanged() -> Result<()> {
    frames_pass_unchanged("codex").await
}

#[tokio::test]
async fn recorded_fast_agent_frames_pass_unchanged() -> Result<()> {
    frames_pass_unchanged("fast-agent").await
}

#[tokio::test]
async fn recorded_gemini_frames_pass_unchanged() -> Result<()> {
    frames_pass_unchanged("gemini").await
}

#[tokio::test]
async fn recorded_goose_frames_pass_unchanged() -> Result<()> {
    frames_pass_unchanged("goose").await
}

#[tokio::test]
async fn recorded_opencode_frames_pass_unchanged() -> Result<()> {
    frames_pass_unchanged("opencode").await
}
