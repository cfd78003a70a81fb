//! Damage on the disk that the host meets at its start: lines of a log, the epoch, the database of transcripts.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;

use crate::rest::{caller_with_role, spawn_session};
use crate::rows::{read_all_rows, run_prompt};
use crate::{cli, log, open_session, prompt_for_text, scripted_host};

fn segment(host: &TestHost, session: &str) -> PathBuf {
    log::session_dir(host, session).join("log").join(format!("{:020}.log", 1))
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 * (crc & 1)))
    })
}

/// Changes the last line with an event of this kind.
fn change_line(host: &TestHost, session: &str, kind: &str, change: impl Fn(&str) -> String) -> Result<()> {
    let path = segment(host, session);
    let text = fs::read_to_string(&path)?;
    let mut lines: Vec<String> = text.lines().map(ToOwned::to_owned).collect();
    let marker = format!(r#""event":{{"kind":"{kind}""#);
    let line = lines.iter_mut().rfind(|line| line.contains(&marker)).with_context(|| format!("no {kind} in {text}"))?;
    *line = change(line);
    fs::write(&path, lines.join("\n") + "\n")?;
    Ok(())
}

/// Makes the last event of this kind undecodable, with a right checksum, as an earlier version wrote it: a control byte stands in
/// the name of a member.
fn make_undecodable(host: &TestHost, session: &str, kind: &str) -> Result<()> {
    change_line(host, session, kind, |line| {
        let payload = line[9..].replacen(r#""jsonrpc":"2.0""#, "\"jsonrpc\":\"2.0\",\"a\tb\":1", 1);
        format!("{:08x} {payload}", crc32(payload.as_bytes()))
    })
}

fn flip_bit(host: &TestHost, session: &str, kind: &str) -> Result<()> {
    change_line(host, session, kind, |line| line.replacen("\"at\":", "\"au\":", 1))
}

fn forget_index(host: &TestHost) {
    for name in ["index.db", "index.db-wal", "index.db-shm"] {
        let _ = fs::remove_file(host.state_dir().join(name));
    }
}

fn texts(rows: &[Value]) -> String {
    rows.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Checks that everything of the session can be read but the lost event, which is named.
async fn is_readable(http: &RestClient, session: &str, said: &str) -> Result<()> {
    http.get(&format!("/sessions/{session}")).await?.expect(200)?;
    let events = http.get(&format!("/sessions/{session}/events")).await?.expect(200)?;
    let kinds: Vec<&str> =
        events["events"].as_array().into_iter().flatten().filter_map(|e| e["kind"].as_str()).collect();
    ensure!(kinds.contains(&"lost") && kinds.contains(&"prompt_accepted"), "{kinds:?}");
    let rows = texts(&read_all_rows(http, session, 200).await?);
    ensure!(rows.contains("of the log cannot be read") && rows.contains(said), "{rows}");
    for format in ["md", "json", "html"] {
        let export = http.get(&format!("/sessions/{session}/export?format={format}")).await?;
        ensure!(export.status == 200, "{format}: {}", export.status);
    }
    http.get(&format!("/sessions/{session}/output")).await?.expect(200)?;
    Ok(())
}

#[tokio::test]
async fn event_that_cannot_be_decoded_costs_its_line_and_the_session_goes_on() -> Result<()> {
    for kind in ["prompt_ended", "agent_updated"] {
        let mut host = scripted_host(&[])?.start_host()?;
        let http = RestClient::new(&host);
        let session = spawn_session(&http, &host).await?;
        run_prompt(&http, &session, "echo wombat").await?;
        run_prompt(&http, &session, "echo quokka").await?;
        host.terminate()?;
        make_undecodable(&host, &session, kind)?;
        host.restart()?;
        let http = RestClient::new(&host);
        is_readable(&http, &session, "wombat").await?;
        ensure!(host.read_stderr().contains("cannot be read and are left out"), "{}", host.read_stderr());
        run_prompt(&http, &session, "echo later").await?;
        let rows = texts(&read_all_rows(&http, &session, 200).await?);
        ensure!(rows.contains("later"), "{kind}: {rows}");
    }
    Ok(())
}

#[tokio::test]
async fn damaged_first_event_costs_its_line_and_the_session_goes_on() -> Result<()> {
    for has_index in [true, false] {
        let mut host = scripted_host(&[])?.start_host()?;
        let http = RestClient::new(&host);
        let session = spawn_session(&http, &host).await?;
        run_prompt(&http, &session, "echo wombat").await?;
        let before = http.get(&format!("/sessions/{session}")).await?.expect(200)?;
        host.terminate()?;
        flip_bit(&host, &session, "created")?;
        if !has_index {
            forget_index(&host);
        }
        host.restart()?;
        let http = RestClient::new(&host);
        is_readable(&http, &session, "wombat").await?;
        let after = http.get(&format!("/sessions/{session}")).await?.expect(200)?;
        for member in ["adapterSlug", "workspaceSlug", "cwd"] {
            assert_eq!(after[member], before[member], "{member}");
        }
        let found = http.get("/search?q=wombat").await?.expect(200)?;
        ensure!(found["hits"].as_array().is_some_and(|hits| !hits.is_empty()) || found["pending"] != 0, "{found}");
        run_prompt(&http, &session, "echo later").await?;
        let rows = texts(&read_all_rows(&http, &session, 200).await?);
        ensure!(rows.contains("later"), "index: {has_index}: {rows}");
    }
    Ok(())
}

#[tokio::test]
async fn session_whose_scope_is_lost_is_read_by_admins_alone() -> Result<()> {
    let mut host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let session = spawn_session(&http, &host).await?;
    run_prompt(&http, &session, "echo wombat").await?;
    let controller = caller_with_role(&host, "controller")?;
    controller.get(&format!("/sessions/{session}")).await?.expect(200)?;
    let token = controller.token().to_owned();
    host.terminate()?;
    flip_bit(&host, &session, "created")?;
    forget_index(&host);
    // As an earlier version wrote it.
    let path = log::session_dir(&host, &session).join("start.json");
    let mut inputs: Value = serde_json::from_slice(&fs::read(&path)?)?;
    inputs.as_object_mut().context("not an object")?.remove("origin");
    fs::write(&path, inputs.to_string())?;
    // The second start finds the session in its index.
    for _ in 0..2 {
        host.restart()?;
        let http = RestClient::new(&host);
        is_readable(&http, &session, "wombat").await?;
        let known = http.get(&format!("/sessions/{session}")).await?.expect(200)?;
        assert_eq!((&known["workspaceSlug"], &known["resumable"]), (&json!("default"), &json!(false)), "{known}");
        let prompt = http.post(&format!("/sessions/{session}/prompt"), &json!({ "prompt": "echo x" })).await?;
        assert_eq!(prompt.status_and_code(), (409, "not_resumable".to_owned()));
        let other = RestClient::with_token(&host, &token);
        let refused = other.get(&format!("/sessions/{session}")).await?.status_and_code();
        assert_eq!(refused, (404, "unknown_session".to_owned()));
        let listed = other.get("/sessions").await?.expect(200)?;
        ensure!(!listed.to_string().contains(&session), "{listed}");
        host.terminate()?;
    }
    Ok(())
}

#[tokio::test]
async fn lost_settings_event_never_widens_rights() -> Result<()> {
    for is_flipped in [true, false] {
        let folder = TempDir::new()?;
        let kept = folder.path().to_str().context("the path is not UTF-8")?;
        let mut host = scripted_host(&["--settings", kept])?.start_host()?;
        let (client, session) = open_session(&host).await?;
        for mode in ["auto", "ask"] {
            client.call_method("session/set_mode", json!({ "sessionId": session, "modeId": mode })).await?;
        }
        client.send_prompt(&session, "echo before").await?;
        host.terminate()?;
        if is_flipped {
            flip_bit(&host, &session, "settings_changed")?;
        } else {
            change_line(&host, &session, "settings_changed", |line| {
                let payload = line[9..].replacen(r#""settings":"#, "\"a\tb\":1,\"settings\":", 1);
                format!("{:08x} {payload}", crc32(payload.as_bytes()))
            })?;
        }
        host.restart()?;
        let http = RestClient::new(&host);
        let refused = http.post(&format!("/sessions/{session}/resume"), &json!({})).await?;
        assert_eq!(refused.status, 502, "{}", refused.json());
        let detail = refused.json()["detail"].to_string();
        ensure!(detail.contains("has lost the settings") && detail.contains("--session-mode"), "{detail}");
        http.post(&format!("/sessions/{session}/resume"), &json!({ "sessionMode": "ask" })).await?.expect(200)?;
        let client = crate::connect_client(&host).await?;
        client.load_session(&session, &crate::cwd(&host)?).await?;
        ensure!(prompt_for_text(&client, &session, "settings").await?.starts_with("mode=ask "));
        // From here on the settings are known again.
        host.restart()?;
        let http = RestClient::new(&host);
        let again = http.post(&format!("/sessions/{session}/resume"), &json!({})).await?;
        // An agent that was taken over runs already.
        ensure!(again.status == 200 || again.status == 409, "{}", again.json());
    }
    Ok(())
}

#[tokio::test]
async fn host_starts_with_a_damaged_epoch_and_no_event_id_comes_twice() -> Result<()> {
    let mut host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let session = spawn_session(&http, &host).await?;
    run_prompt(&http, &session, "echo wombat").await?;
    host.terminate()?;
    fs::write(host.state_dir().join("epoch"), "garbage\n")?;
    host.restart()?;
    ensure!(host.read_stderr().contains("was missing or damaged"), "{}", host.read_stderr());
    let http = RestClient::new(&host);
    run_prompt(&http, &session, "echo later").await?;
    let last = log::read_records(&host, &session)?.pop().context("no events")?;
    assert_eq!(last["epoch"], 1_000_001);
    assert_eq!(fs::read_to_string(host.state_dir().join("epoch.damaged"))?, "garbage\n");
    let told = cli::command_for_host(&host, &["doctor"]).output()?;
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    ensure!(told.contains("epoch.damaged"), "{told}");
    Ok(())
}

#[tokio::test]
async fn rows_of_a_damaged_database_are_whole_at_the_first_read() -> Result<()> {
    let mut host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let session = spawn_session(&http, &host).await?;
    for n in 0..10 {
        run_prompt(&http, &session, &format!("echo wombat {n}; tool; echo done")).await?;
    }
    let before = read_all_rows(&http, &session, 200).await?;
    host.terminate()?;
    let path = host.state_dir().join("transcript.db");
    let good = fs::read(&path)?;
    let pages = good.len() / 4096;
    for page in (1..pages).step_by(pages.div_ceil(12)) {
        let mut bytes = good.clone();
        // Fewer rows on the page than there are, and a wrong byte in its last one.
        bytes[page * 4096 + 4] = bytes[page * 4096 + 4].saturating_sub(1);
        bytes[page * 4096 + 4090] ^= 4;
        fs::write(&path, &bytes)?;
        for suffix in ["-wal", "-shm"] {
            let _ = fs::remove_file(host.state_dir().join(format!("transcript.db{suffix}")));
        }
        host.restart()?;
        let http = RestClient::new(&host);
        let newest = http.get(&format!("/sessions/{session}/rows?limit=10")).await?.expect(200)?;
        ensure!(newest["rows"].as_array().is_some_and(|rows| rows.len() >= 10), "page {page}: {newest}");
        let mut after = read_all_rows(&http, &session, 7).await?;
        after.truncate(before.len());
        assert_eq!(after, before, "page {page}");
        host.terminate()?;
    }
    Ok(())
}
