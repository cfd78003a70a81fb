//! Stored logs, and all forms in which a late reader gets them: rows, lines, typed history and
//! frames. The texts are committed, so that a change of how updates are read shows as a difference.
//!
//! `fixtures/past/NAME/log` is a log that a host has written, of a recorded agent or of one that
//! sends odd updates; it is never edited. `WHARF_BLESS=1` writes the expected texts again.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use wharf_testkit::client::TestClient;
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;

use crate::{scripted_host, transports};

/// The number of rows in a page, the largest that a host gives.
const PAGE_ROWS: usize = 200;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/past")
}

/// A stored log and the session that it belongs to.
struct StoredSession {
    name: String,
    workspace: String,
    id: String,
}

/// Lists the stored logs. The file `place` beside a log has its workspace and its session:
/// `default/sess_…`.
fn list_stored() -> Result<Vec<StoredSession>> {
    let mut stored = Vec::new();
    for entry in fs::read_dir(fixtures())? {
        let entry = entry?;
        let name = entry
            .file_name()
            .into_string()
            .map_err(|name| anyhow::anyhow!("{name:?} is not UTF-8"))?;
        let place = fs::read_to_string(entry.path().join("place"))?;
        let (workspace, id) =
            place.trim().split_once('/').context("a place is WORKSPACE/SESSION")?;
        stored.push(StoredSession { name, workspace: workspace.to_owned(), id: id.to_owned() });
    }
    stored.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(stored)
}

/// Starts a host whose state directory has all stored sessions.
fn start_host_of(stored: &[StoredSession]) -> Result<TestHost> {
    let mut host = scripted_host(&[])?.start_host()?;
    ensure!(host.terminate()?.success(), "the host's exit");
    for StoredSession { name, workspace, id } in stored {
        let to = host
            .state_dir()
            .join("workspaces")
            .join(workspace)
            .join("sessions")
            .join(id)
            .join("log");
        fs::create_dir_all(&to)?;
        for segment in fs::read_dir(fixtures().join(name).join("log"))? {
            let segment = segment?;
            fs::copy(segment.path(), to.join(segment.file_name()))?;
        }
    }
    host.restart()?;
    Ok(host)
}

/// Returns JSON values as text, one per line.
fn to_lines(values: &[Value]) -> String {
    values.iter().map(|value| format!("{value}\n")).collect()
}

async fn read_rows(rest: &RestClient, id: &str) -> Result<String> {
    let mut pages = Vec::new();
    let mut before = String::new();
    loop {
        let page = rest
            .get(&format!("/sessions/{id}/rows?limit={PAGE_ROWS}{before}"))
            .await?
            .expect(200)?;
        pages.push(page["rows"].as_array().context("no rows")?.clone());
        let Some(next) = page["before"].as_str() else { break };
        before = format!("&before={next}");
    }
    pages.reverse();
    Ok(to_lines(&pages.concat()))
}

async fn read_output_lines(rest: &RestClient, id: &str) -> Result<String> {
    let answer = rest
        .get(&format!("/sessions/{id}/output?lastN=10000&include=prompts,plans"))
        .await?
        .expect(200)?;
    Ok(to_lines(answer["lines"].as_array().context("no lines")?))
}

async fn read_typed_history(host: &TestHost, id: &str) -> Result<String> {
    let client = connect_reader(host, json!({})).await?;
    let params = json!({ "sessionId": id, "role": "observer", "historyDelivery": "response" });
    let answer = client.call_method("session/attach", params).await?;
    Ok(to_lines(answer["history"].as_array().context("no history")?))
}

/// Connects a client that changes nothing and is notified of no other clients.
async fn connect_reader(host: &TestHost, capabilities: Value) -> Result<TestClient> {
    let client =
        TestClient::connect(&host.ws_url(), &transports::create_observer_token(host)?).await?;
    let info = json!({ "name": "wharf-testkit", "version": "1" });
    let params =
        json!({ "protocolVersion": 1, "clientCapabilities": capabilities, "clientInfo": info });
    client.call_method("initialize", params).await?;
    Ok(client)
}

/// Returns the frames of a replay to a client with these capabilities, byte for byte.
async fn read_frames(host: &TestHost, id: &str, capabilities: Value) -> Result<String> {
    let client = connect_reader(host, capabilities).await?;
    let params = json!({ "sessionId": id, "cwd": host.directory(), "mcpServers": [] });
    client.call_method("session/load", params).await?;
    Ok(client
        .received_frames()
        .iter()
        .map(|frame| format!("{}\n", frame.raw))
        .collect())
}

/// Compares a form with the committed text.
fn compare_form(name: &str, form: &str, found: &str) -> Result<()> {
    let path = fixtures().join(name).join(form);
    if std::env::var_os("WHARF_BLESS").is_some() {
        return Ok(fs::write(path, found)?);
    }
    let expected = fs::read_to_string(&path)?;
    let differs = |(found, expected): (&str, &str)| found != expected;
    let place = found.lines().zip(expected.lines()).position(differs);
    if let Some(place) = place {
        let line = |text: &str| text.lines().nth(place).unwrap_or_default().to_owned();
        anyhow::bail!(
            "{name}/{form}, line {}:\n{}\nis expected to be\n{}",
            place + 1,
            line(found),
            line(&expected)
        );
    }
    ensure!(
        found == expected,
        "{name}/{form} has {} lines of {}",
        found.lines().count(),
        expected.lines().count()
    );
    Ok(())
}

#[tokio::test]
async fn stored_logs_have_the_same_past_in_every_form() -> Result<()> {
    let stored = list_stored()?;
    let host = start_host_of(&stored)?;
    let rest = RestClient::new(&host);
    let all = json!({ "session": { "notices": {}, "compaction": {}, "configOptions": { "boolean": {} } }, "plan": {} });
    for StoredSession { name, id, .. } in &stored {
        compare_form(name, "rows.jsonl", &read_rows(&rest, id).await?)?;
        compare_form(name, "lines.jsonl", &read_output_lines(&rest, id).await?)?;
        compare_form(name, "typed.jsonl", &read_typed_history(&host, id).await?)?;
        let frames = read_frames(&host, id, json!({})).await?;
        let all_frames = read_frames(&host, id, all.clone()).await?;
        compare_form(name, "frames.jsonl", &frames)?;
        // Few agents send what only clients with further capabilities receive.
        let has_more = fixtures().join(name).join("all-frames.jsonl").exists();
        ensure!(
            has_more == (all_frames != frames),
            "{name}: capabilities make a difference, or none any more"
        );
        if has_more {
            compare_form(name, "all-frames.jsonl", &all_frames)?;
        }
    }
    Ok(())
}
