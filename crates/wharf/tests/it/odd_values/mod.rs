//! A property: an odd value in any member of any message is told to all parties alike, or the
//! message is refused to its sender. Every request has an end. The cases are enumerated; a sample
//! is tried, the random seed of which is printed, or all of them with `WHARF_ODD_VALUES_ALL=1`.

mod agent_starts;
mod answers;
mod cases;
mod from_agents;
mod from_clients;
mod queues;
mod stage;

use std::fs;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_json::Json;
use wharf_testkit::client::{ReceivedFrame, TestClient};
use wharf_testkit::host::TestHost;

use self::cases::Case;
use crate::log;
use crate::transports::Transport;

/// Everything that a client may understand, so that nothing is left out for it.
fn client_capabilities() -> Value {
    json!({
        "fs": { "readTextFile": true, "writeTextFile": true }, "terminal": true,
        "elicitation": { "form": {}, "url": {} }, "plan": {}, "subagents": {},
        "session": { "notices": {}, "compaction": {}, "configOptions": { "boolean": {} } },
    })
}

/// A client that understands everything.
async fn able_client(host: &TestHost, way: Transport) -> Result<TestClient> {
    let client = way.connect(host, host.token()).await?;
    let meta = json!({ "wharf": { "multiClientUpdates": true } });
    let info = json!({ "name": "odd", "version": "1" });
    let params = json!({ "protocolVersion": 1, "clientCapabilities": client_capabilities(), "clientInfo": info, "_meta": meta });
    client.call_method("initialize", params).await?;
    Ok(client)
}

/// Sends the case and returns its answer, which names `id` or is an error without an id. A case
/// without an answer that can be known (a changed id or none) returns `None`; a second request
/// shows then that the connection goes on, and passes over an error without an id, so that the next
/// case does not take it for its own.
async fn answer_to(
    client: &TestClient,
    case: &Case,
    frame: &str,
    id: &str,
) -> Result<Option<ReceivedFrame>> {
    client.send_raw(frame).await;
    let subject = format!(
        "answer to {} {} {}",
        case.kind,
        case.path,
        frame.chars().take(600).collect::<String>()
    );
    if !case.path.starts_with("/id") && Json::parse(frame.as_bytes())?.has_key("id") {
        let is_answer = |frame: &ReceivedFrame| {
            frame.method().is_empty()
                && (*frame.id() == id || frame.id().is_null() && frame.body["error"].is_object())
        };
        return Ok(Some(client.expect(&subject, is_answer).await));
    }
    let probe = format!("probe-{id}");
    let request = json!({ "jsonrpc": "2.0", "id": probe, "method": "session/status", "params": { "sessionId": "none" } });
    client.send_raw(&request.to_string()).await;
    client
        .expect(&format!("sign of life after {subject}"), |frame| *frame.id() == probe.as_str())
        .await;
    Ok(None)
}

/// The mark of a frame, which stands beside its params.
fn mark_of(raw: &str) -> Option<String> {
    Json::parse(raw.as_bytes())
        .ok()?
        .members()
        .find(|(key, _)| key == "mark")
        .map(|(_, mark)| mark.raw().to_owned())
}

/// The frames with a mark, as they came.
fn list_marked_frames(client: &TestClient) -> Vec<String> {
    client
        .received_frames()
        .into_iter()
        .map(|ReceivedFrame { raw, .. }| raw)
        .filter(|raw| mark_of(raw).is_some())
        .collect()
}

/// The frames in the log of this kind of event, as they are written there.
fn logged_frames(host: &TestHost, session: &str, kind: &str, path: &[&str]) -> Result<Vec<String>> {
    let folder = log::session_dir(host, session).join("log");
    let mut segments = fs::read_dir(&folder)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    segments.sort();
    let mut frames = Vec::new();
    for segment in segments
        .iter()
        .filter(|path| path.extension().is_some_and(|suffix| suffix == "log"))
    {
        let text = fs::read_to_string(segment)?;
        for line in text.lines() {
            let (_, body) = line.split_once(' ').context("not a record")?;
            let record = Json::parse(body.as_bytes())?;
            let is_it = record.text_at(&["event", "kind"])?.as_deref() == Some(kind);
            let frame = if is_it { record.at(path)? } else { None };
            frames.extend(frame.map(|frame| frame.raw().to_owned()));
        }
    }
    Ok(frames)
}

/// The raw value at the end of a path.
fn raw_at(frame: &str, path: &[&str]) -> Option<String> {
    Json::parse(frame.as_bytes())
        .ok()?
        .at(path)
        .ok()?
        .map(|value| value.raw().to_owned())
}
