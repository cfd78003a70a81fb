//! The invariants at the end of a walk.

use std::collections::{BTreeSet, HashMap};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use wharf_testkit::client::{ReceivedFrame, TestClient};
use wharf_testkit::host::TestHost;
use wharf_testkit::{WAIT_LIMIT, polling};

use super::{Connection, Role};
use crate::log as files;
use crate::recording::Recording;
use crate::{connect_client, cwd};

/// Checks that every request of an open connection has been answered.
pub(super) async fn check_answers(connection: &mut Connection) -> Result<()> {
    for call in connection.calls.drain(..) {
        match call.await?.context("the connection was lost")? {
            Ok(_) => {}
            Err(error) => {
                let known = ["removed", "agent_exited", "queue_full"];
                let reason = error.data["reason"].as_str().unwrap_or_default();
                let crashed = error.message.contains("agent is not running");
                let looked = connection.role == Role::Observer && error.code == -32011;
                let fine = looked
                    || crashed
                    || known.contains(&reason)
                    || [-32050, -32001].contains(&error.code);
                ensure!(fine, "an answer that nobody expects: {error}");
            }
        }
    }
    Ok(())
}

/// Waits until a connection that watched both sessions has received their last texts.
pub(super) async fn wait_until_up_to_date(
    connection: &Connection,
    sessions: &[String],
) -> Result<()> {
    for session in sessions.iter().filter(|_| connection.is_steady) {
        let is_end = |frame: &ReceivedFrame| {
            frame.chunk_text() == Some("the end") && frame.params()["sessionId"] == session.as_str()
        };
        let seen = polling::poll_until(WAIT_LIMIT, || {
            Ok(connection.client.received_frames().iter().any(is_end).then_some(()))
        })
        .await?;
        seen.with_context(|| format!("the end of {session} was not shown"))?;
    }
    Ok(())
}

/// Checks that each prompt has one end and each ask one answer, in a log without gaps.
pub(super) fn check_log(host: &TestHost, session: &str) -> Result<()> {
    let records = files::read_records(host, session)?;
    let gapless = records
        .iter()
        .enumerate()
        .all(|(place, record)| record["seq"] == place as u64 + 1);
    ensure!(gapless, "the log has a gap");
    let count = |kind: &str, name: fn(&Value) -> &Value| {
        let mut counted: HashMap<String, usize> = HashMap::new();
        for event in records
            .iter()
            .map(|record| &record["event"])
            .filter(|event| event["kind"] == kind)
        {
            *counted.entry(name(event).to_string()).or_default() += 1;
        }
        counted
    };
    let accepted = count("prompt_accepted", |event| &event["prompt"]);
    ensure!(accepted.values().all(|times| *times == 1));
    ensure!(
        accepted == count("prompt_ended", |event| &event["prompt"]),
        "a prompt with no end, or with two"
    );
    let asked = count("ask_opened", |event| &event["ask"]["id"]);
    ensure!(asked.values().all(|times| *times == 1));
    ensure!(
        asked == count("ask_resolved", |event| &event["ask"]),
        "a permission with no answer, or with two"
    );
    println!("{} prompts, {} permissions, {} events", accepted.len(), asked.len(), records.len());
    Ok(())
}

/// The updates about other clients and the queue (rule 4.5). The log does not hold them in this
/// form, and they come when they come: they are not part of a history.
const NEWS: [&str; 7] = [
    "prompt_received",
    "turn_complete",
    "permission_resolved",
    "elicitation_resolved",
    "client_connected",
    "client_disconnected",
    "queue_changed",
];

/// Returns the history that a `session/load` replays: the updates of this session before its
/// answer. The client leaves the session first, so that no live update is on its way.
async fn read_history(client: &TestClient, session: &str, cwd: &str) -> Result<Vec<Value>> {
    // It is refused where the client is not attached.
    let _ = client.call_method("session/detach", json!({ "sessionId": session })).await;
    let before = client.received_frames().len();
    let params = json!({ "sessionId": session, "cwd": cwd, "mcpServers": [] });
    let load = client.start_request("session/load", params).await;
    let id = load.id.clone();
    load.wait_answer().await?;
    let is_answer = |frame: &ReceivedFrame| frame.method().is_empty() && *frame.id() == id;
    let frames = client
        .received_frames()
        .into_iter()
        .skip(before)
        .take_while(|frame| !is_answer(frame));
    let own = frames.filter(|frame| frame.params()["sessionId"] == session);
    let updates = own.filter_map(|frame| frame.update().cloned());
    Ok(updates
        .filter(|update| !NEWS.iter().any(|news| update["sessionUpdate"] == *news))
        .collect())
}

pub(super) async fn check_histories(
    host: &TestHost,
    session: &str,
    connections: &[Connection],
) -> Result<()> {
    let fresh = connect_client(host).await?;
    let expected = read_history(&fresh, session, &cwd(host)?).await?;
    let logged = files::list_events(host, session, "agent_updated")?.len();
    ensure!(
        !expected.is_empty()
            && expected.len() <= logged + files::list_events(host, session, "turn_started")?.len()
    );
    for connection in connections {
        ensure!(
            read_history(&connection.client, session, &cwd(host)?).await? == expected,
            "another story"
        );
    }
    Ok(())
}

/// Checks the events that one connection received while it lasted: in the order of the log, each
/// once, and once more for each requested replay; all events, if it stayed from beginning to end.
pub(super) fn check_shown_events(
    records: &[Value],
    session: &str,
    connection: &Connection,
) -> Result<()> {
    let frames = connection.client.received_frames();
    let own: Vec<&ReceivedFrame> =
        frames.iter().filter(|frame| frame.params()["sessionId"] == session).collect();
    let replays = connection.replays.get(session).copied().unwrap_or_default();
    check_words(&own, replays)?;
    ensure!(
        connection.role == Role::Controller || own.iter().all(|frame| !frame.is_request()),
        "an observer was asked"
    );
    if !connection.has_ids {
        return Ok(());
    }
    let seqs: Vec<u64> = own.iter().filter_map(|frame| event_seq(frame)).collect();
    let descents = seqs.windows(2).filter(|pair| pair[0] > pair[1]).count();
    ensure!(
        descents <= replays,
        "events came in another order, {descents} times with {replays} replays: {seqs:?}"
    );
    let Some(last) = seqs.last().filter(|_| connection.is_steady) else { return Ok(()) };
    let seen: BTreeSet<u64> = seqs.iter().copied().collect();
    for record in records {
        let (seq, event) = (record["seq"].as_u64().unwrap_or_default(), &record["event"]);
        // An agent's echo of a prompt goes to its sender only, and notices go to clients that said
        // that they take them.
        let is_notice = event["frame"]["params"]["update"]["sessionUpdate"] == "notice";
        let is_for_all = event["kind"] == "agent_updated"
            && event["update"] != "user_message_chunk"
            && !is_notice;
        ensure!(
            !is_for_all || seq > *last || seen.contains(&seq),
            "event {seq} was not shown, but {last} was: {event}"
        );
    }
    Ok(())
}

/// Returns the sequence number of a frame's event.
fn event_seq(frame: &ReceivedFrame) -> Option<u64> {
    frame.params()["_meta"]["wharf"]["eventId"]
        .as_str()?
        .split_once('-')?
        .1
        .parse()
        .ok()
}

/// Checks that each text is shown once, and once more for each requested replay.
fn check_words(own: &[&ReceivedFrame], replays: usize) -> Result<()> {
    let mut shown: HashMap<&str, usize> = HashMap::new();
    for word in own
        .iter()
        .filter_map(|frame| frame.chunk_text())
        .filter(|text| text.starts_with('w'))
    {
        *shown.entry(word).or_default() += 1;
    }
    let most = shown.iter().max_by_key(|(_, times)| **times);
    ensure!(most.is_none_or(|(_, times)| *times <= replays + 1), "{most:?} with {replays} replays");
    Ok(())
}

/// Checks that no agent got two answers to one request.
pub(super) fn check_recording(recording: &Recording) -> Result<()> {
    let mut answered: Vec<String> = Vec::new();
    for message in recording.read_messages()? {
        if message["method"] == "initialize" {
            answered.clear();
        } else if message.get("method").is_none() {
            let id = message["id"].to_string();
            // These ids are fixed in the script and are used again each time it runs.
            let reused = ["\"left\"", "\"right\"", "\"to-be-withdrawn\""].contains(&id.as_str());
            ensure!(
                reused || !answered.contains(&id),
                "the agent got a second answer to its request {id}"
            );
            answered.push(id);
        }
    }
    Ok(())
}
