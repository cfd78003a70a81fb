//! Damage on the disk that the host meets at its start: lines of a log, the epoch, the database of
//! transcripts.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use wharf_testkit::WAIT_LIMIT;
use wharf_testkit::cold_sessions::ColdSessions;
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;

use crate::rest::{
    caller_with_role, send_prompt, spawn_session, wait_for_session, wait_until_idle,
};
use crate::rest_settings::patch;
use crate::rows::{read_all_rows, run_prompt};
use crate::scopes::{register_workspace, start_session};
use crate::{cli, log, open_session, prompt_for_text, scripted_host};

/// Returns the directory of a session, whichever workspace it is in.
fn find_session_dir(host: &TestHost, session: &str) -> PathBuf {
    let dirs =
        ["default", WORKSPACE].map(|workspace| log::session_dir_in(host, workspace, session));
    dirs.into_iter().find(|dir| dir.exists()).unwrap_or_default()
}

fn segment(host: &TestHost, session: &str) -> PathBuf {
    find_session_dir(host, session).join("log").join(format!("{:020}.log", 1))
}

/// The workspace of the tests that need one in which a controller can start sessions.
const WORKSPACE: &str = "quokka";

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 * (crc & 1)))
    })
}

/// Changes the last line with an event of this kind.
fn change_line(
    host: &TestHost,
    session: &str,
    kind: &str,
    change: impl Fn(&str) -> String,
) -> Result<()> {
    let path = segment(host, session);
    let text = fs::read_to_string(&path)?;
    let mut lines: Vec<String> = text.lines().map(ToOwned::to_owned).collect();
    let marker = format!(r#""event":{{"kind":"{kind}""#);
    let line = lines
        .iter_mut()
        .rfind(|line| line.contains(&marker))
        .with_context(|| format!("no {kind} in {text}"))?;
    *line = change(line);
    fs::write(&path, lines.join("\n") + "\n")?;
    Ok(())
}

/// Makes the last event of this kind undecodable, with a right checksum, as an earlier version
/// wrote it: a control byte stands in the name of a member.
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
    for suffix in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(host.state_dir().join(format!("index.db{suffix}")));
    }
}

fn texts(rows: &[Value]) -> String {
    rows.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Stops the host after all rows of the session were read: it writes them to the database before it
/// ends.
async fn stop_host_with_rows(host: &mut TestHost, session: &str) -> Result<()> {
    read_all_rows(&RestClient::new(host), session, 200).await?;
    host.terminate()?;
    Ok(())
}

/// Checks that everything of the session can be read but the lost event, which is named.
async fn is_readable(http: &RestClient, session: &str, said: &str) -> Result<()> {
    http.get(&format!("/sessions/{session}")).await?.expect(200)?;
    let events = http.get(&format!("/sessions/{session}/events")).await?.expect(200)?;
    let kinds: Vec<&str> = events["events"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|e| e["kind"].as_str())
        .collect();
    ensure!(kinds.contains(&"lost") && kinds.contains(&"prompt_accepted"), "{kinds:?}");
    let rows = texts(&read_all_rows(http, session, 200).await?);
    ensure!(rows.contains("of the log cannot be read") && rows.contains(said), "{rows}");
    for format in ["md", "json", "html"] {
        let export = http.get(&format!("/sessions/{session}/export?format={format}")).await?;
        ensure!(export.status == 200, "{format}: {}", export.status);
        ensure!(export.body.contains("of the log cannot be read"), "{format}: {}", export.body);
    }
    http.get(&format!("/sessions/{session}/output")).await?.expect(200)?;
    Ok(())
}

#[tokio::test]
async fn event_that_cannot_be_decoded_costs_its_line_and_the_session_goes_on() -> Result<()> {
    for kind in ["prompt_ended", "agent_updated", "agent_started", "ask_opened", "prompt_accepted"]
    {
        let mut host = scripted_host(&[])?.start_host()?;
        let http = RestClient::new(&host);
        let session = spawn_session(&http, &host).await?;
        run_prompt(&http, &session, "echo wombat").await?;
        send_prompt(&http, &session, "ask").await?;
        let asking = |session: &Value| session["turn"] == "awaiting_input";
        wait_for_session(&http, &session, "a question", asking).await?;
        let asks = http.get(&format!("/sessions/{session}/asks")).await?.expect(200)?;
        let ask = format!("/sessions/{session}/asks/{}", asks["asks"][0]["askId"]);
        http.post(&ask, &json!({ "cancel": true })).await?.expect(200)?;
        wait_until_idle(&http, &session).await?;
        run_prompt(&http, &session, "echo quokka").await?;
        stop_host_with_rows(&mut host, &session).await?;
        make_undecodable(&host, &session, kind)?;
        host.restart()?;
        let http = RestClient::new(&host);
        is_readable(&http, &session, "wombat").await?;
        ensure!(
            host.read_stderr().contains("cannot be read and are left out"),
            "{}",
            host.read_stderr()
        );
        let known = http.get(&format!("/sessions/{session}")).await?.expect(200)?;
        assert_eq!(known["status"], "running", "{kind}: the agent was not taken over");
        run_prompt(&http, &session, "echo later").await?;
        let rows = texts(&read_all_rows(&http, &session, 200).await?);
        ensure!(rows.contains("later"), "{kind}: {rows}");
    }
    Ok(())
}

#[tokio::test]
async fn session_whose_agent_start_is_lost_comes_back_on_terms() -> Result<()> {
    for is_flipped in [true, false] {
        let options = scripted_host(&["--resume"])?;
        let mut host = options.without_keepers(crate::AGENT_COMES_BACK).start_host()?;
        let session = spawn_session(&RestClient::new(&host), &host).await?;
        run_prompt(&RestClient::new(&host), &session, "echo wombat").await?;
        let agent_session = RestClient::new(&host)
            .get(&format!("/sessions/{session}"))
            .await?
            .expect(200)?["agentSessionId"]
            .clone();
        stop_host_with_rows(&mut host, &session).await?;
        if is_flipped {
            flip_bit(&host, &session, "agent_started")?;
        } else {
            make_undecodable(&host, &session, "agent_started")?;
        }
        // The second start finds the session ended in its index.
        for _ in 0..2 {
            host.restart()?;
            let http = RestClient::new(&host);
            is_readable(&http, &session, "wombat").await?;
            let known = http.get(&format!("/sessions/{session}")).await?.expect(200)?;
            assert_eq!(
                (&known["agentSessionId"], &known["resumable"]),
                (&agent_session, &json!(true)),
                "{known}"
            );
            let refused = http.post(&format!("/sessions/{session}/resume"), &json!({})).await?;
            assert_eq!(refused.status, 502, "{}", refused.body);
            ensure!(
                refused.json()["detail"].to_string().contains("has lost the settings"),
                "{}",
                refused.body
            );
            host.terminate()?;
        }
        host.restart()?;
        let http = RestClient::new(&host);
        http.post(&format!("/sessions/{session}/resume"), &json!({ "acceptAgentSettings": true }))
            .await?
            .expect(200)?;
        run_prompt(&http, &session, "echo later").await?;
        let known = http.get(&format!("/sessions/{session}")).await?.expect(200)?;
        assert_eq!(known["agentSessionId"], agent_session, "the conversation is another one");
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
        stop_host_with_rows(&mut host, &session).await?;
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
        ensure!(
            found["hits"].as_array().is_some_and(|hits| !hits.is_empty()) || found["pending"] != 0,
            "{found}"
        );
        run_prompt(&http, &session, "echo later").await?;
        let rows = texts(&read_all_rows(&http, &session, 200).await?);
        ensure!(rows.contains("later"), "index: {has_index}: {rows}");
    }
    Ok(())
}

/// Makes it unknown which sessions led to this one, as in the state directory of an earlier
/// version.
fn lose_scope(host: &TestHost, session: &str) -> Result<()> {
    flip_bit(host, session, "created")?;
    forget_index(host);
    let path = find_session_dir(host, session).join("start.json");
    let mut inputs: Value = serde_json::from_slice(&fs::read(&path)?)?;
    inputs.as_object_mut().context("not an object")?.remove("origin");
    fs::write(&path, inputs.to_string())?;
    Ok(())
}

/// Checks that a caller who is no admin does not learn of a session.
async fn expect_hidden(caller: &RestClient, session: &str) -> Result<()> {
    let refused = caller.get(&format!("/sessions/{session}")).await?.status_and_code();
    assert_eq!(refused, (404, "unknown_session".to_owned()));
    let listed = caller.get("/sessions").await?.expect(200)?;
    ensure!(!listed.to_string().contains(session), "{listed}");
    Ok(())
}

#[tokio::test]
async fn session_whose_scope_is_lost_is_read_by_admins_alone() -> Result<()> {
    let mut host = scripted_host(&[])?.without_keepers(crate::AGENT_COMES_BACK).start_host()?;
    let http = RestClient::new(&host);
    let session = spawn_session(&http, &host).await?;
    run_prompt(&http, &session, "echo wombat").await?;
    let controller = caller_with_role(&host, "controller")?;
    controller.get(&format!("/sessions/{session}")).await?.expect(200)?;
    let token = controller.token().to_owned();
    stop_host_with_rows(&mut host, &session).await?;
    lose_scope(&host, &session)?;
    // The second start finds the session in its index.
    for _ in 0..2 {
        host.restart()?;
        let http = RestClient::new(&host);
        is_readable(&http, &session, "wombat").await?;
        let known = http.get(&format!("/sessions/{session}")).await?.expect(200)?;
        assert_eq!(
            (&known["workspaceSlug"], &known["resumable"]),
            (&json!("default"), &json!(false)),
            "{known}"
        );
        let prompt = http
            .post(&format!("/sessions/{session}/prompt"), &json!({ "prompt": "echo x" }))
            .await?;
        assert_eq!(prompt.status_and_code(), (409, "not_resumable".to_owned()));
        expect_hidden(&RestClient::with_token(&host, &token), &session).await?;
        host.terminate()?;
    }
    Ok(())
}

#[tokio::test]
async fn adopted_session_whose_scope_is_lost_stays_hidden_and_keeps_its_label() -> Result<()> {
    let mut host = scripted_host(&[])?.start_host()?;
    register_workspace(&host, WORKSPACE).await?;
    let there = json!({ "workspaceSlug": WORKSPACE });
    let session = start_session(&RestClient::new(&host), &there).await?["id"]
        .as_str()
        .context("no id")?
        .to_owned();
    run_prompt(&RestClient::new(&host), &session, "echo wombat").await?;
    let token = caller_with_role(&host, "controller")?.token().to_owned();
    stop_host_with_rows(&mut host, &session).await?;
    lose_scope(&host, &session)?;
    host.restart()?;
    let http = RestClient::new(&host);
    is_readable(&http, &session, "wombat").await?;
    let path = format!("/sessions/{session}");
    assert_eq!(
        http.get(&path).await?.expect(200)?["status"],
        "running",
        "the agent was not taken over"
    );
    run_prompt(&http, &session, "echo later").await?;
    let controller = RestClient::with_token(&host, &token);
    expect_hidden(&controller, &session).await?;
    http.send("PATCH", &path, &[("content-type", "application/json")], r#"{"label":"docs"}"#)
        .await?
        .expect(200)?;
    for on_label in ["refuse", "continue", "take"] {
        let wish = json!({ "adapter": "scripted", "workspaceSlug": WORKSPACE, "label": "docs", "onLabel": on_label });
        let answer = controller.post("/sessions/agent", &wish).await?;
        ensure!(!answer.body.contains(&session), "{on_label}: {}", answer.body);
        let own = answer.expect(201)?["id"].as_str().context("no id")?.to_owned();
        // The next request must not find this one.
        controller.delete(&format!("/sessions/{own}")).await?.expect(200)?;
    }
    assert_eq!(http.get(&path).await?.expect(200)?["label"], "docs");
    Ok(())
}

#[tokio::test]
async fn lost_settings_event_never_widens_rights() -> Result<()> {
    for is_flipped in [true, false] {
        let folder = TempDir::new()?;
        let kept = folder.path().to_str().context("the path is not UTF-8")?;
        let options = scripted_host(&["--settings", kept])?;
        let mut host = options.without_keepers(crate::AGENT_COMES_BACK).start_host()?;
        let session = change_modes(&host).await?;
        host.terminate()?;
        lose_settings(&host, &session, is_flipped)?;
        host.restart()?;
        expect_return_with_mode_only(&host, &session).await?;
        // From here on the settings are known again.
        host.terminate()?;
        host.restart()?;
        RestClient::new(&host)
            .post(&format!("/sessions/{session}/resume"), &json!({}))
            .await?
            .expect(200)?;
        expect_mode(&host, &session, "ask").await?;
    }
    Ok(())
}

#[tokio::test]
async fn lost_settings_event_of_an_adopted_agent_never_widens_rights() -> Result<()> {
    for is_flipped in [true, false] {
        let folder = TempDir::new()?;
        let kept = folder.path().to_str().context("the path is not UTF-8")?;
        let mut host = scripted_host(&["--settings", kept])?.start_host()?;
        let session = change_modes(&host).await?;
        host.terminate()?;
        lose_settings(&host, &session, is_flipped)?;
        host.restart()?;
        // The agent that was taken over is as it was.
        expect_mode(&host, &session, "ask").await?;
        let http = RestClient::new(&host);
        http.post_empty(&format!("/sessions/{session}/kill")).await?.expect(200)?;
        expect_return_with_mode_only(&host, &session).await?;
    }
    Ok(())
}

/// Opens a session and sets two modes, the last one with the fewest rights.
async fn change_modes(host: &TestHost) -> Result<String> {
    let (client, session) = open_session(host).await?;
    for mode in ["auto", "ask"] {
        client
            .call_method("session/set_mode", json!({ "sessionId": session, "modeId": mode }))
            .await?;
    }
    client.send_prompt(&session, "echo before").await?;
    Ok(session)
}

/// Damages the last event with settings: flips a bit of its line, or makes it undecodable.
fn lose_settings(host: &TestHost, session: &str, is_flipped: bool) -> Result<()> {
    if is_flipped {
        return flip_bit(host, session, "settings_changed");
    }
    change_line(host, session, "settings_changed", |line| {
        let payload = line[9..].replacen(r#""settings":"#, "\"a\tb\":1,\"settings\":", 1);
        format!("{:08x} {payload}", crc32(payload.as_bytes()))
    })
}

/// Checks that the agent comes back only for a caller that names a mode, and then with this mode.
async fn expect_return_with_mode_only(host: &TestHost, session: &str) -> Result<()> {
    let http = RestClient::new(host);
    let refused = http.post(&format!("/sessions/{session}/resume"), &json!({})).await?;
    assert_eq!(refused.status, 502, "{}", refused.json());
    let detail = refused.json()["detail"].to_string();
    ensure!(
        detail.contains("has lost the settings") && detail.contains("--session-mode"),
        "{detail}"
    );
    http.post(&format!("/sessions/{session}/resume"), &json!({ "sessionMode": "ask" }))
        .await?
        .expect(200)?;
    expect_mode(host, session, "ask").await
}

async fn expect_mode(host: &TestHost, session: &str, mode: &str) -> Result<()> {
    let client = crate::connect_client(host).await?;
    client.load_session(session, &crate::cwd(host)?).await?;
    let settings = prompt_for_text(&client, session, "settings").await?;
    ensure!(settings.starts_with(&format!("mode={mode} ")), "{settings}");
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
        ensure!(
            newest["rows"].as_array().is_some_and(|rows| rows.len() >= 10),
            "page {page}: {newest}"
        );
        let mut after = read_all_rows(&http, &session, 7).await?;
        after.truncate(before.len());
        assert_eq!(after, before, "page {page}");
        host.terminate()?;
    }
    Ok(())
}

/// Starts a host with one ended session so long that the host reads its log only from a snapshot on
/// at its next start. Returns the session.
async fn start_host_with_long_session() -> Result<(TestHost, String)> {
    let mut host = scripted_host(&[])?.start_host()?;
    host.terminate()?;
    let cwd = host.directory().to_owned();
    let cold = ColdSessions {
        count: 1,
        agent: "scripted",
        cwd: &cwd,
        events: 10_100,
        waiting: None,
    };
    let session = cold.write_to(&host.state_dir())?.pop().context("no session")?;
    host.restart()?;
    let http = RestClient::new(&host);
    // The session takes a snapshot with this event.
    patch(&http, &format!("/sessions/{session}"), &json!({ "archived": true }))
        .await?
        .expect(200)?;
    Ok((host, session))
}

async fn read_all_events(http: &RestClient, session: &str) -> Result<()> {
    let mut path = format!("/sessions/{session}/events?limit=1000");
    loop {
        let page = http.get(&path).await?.expect(200)?;
        let Some(next) = page["next"].as_str() else { return Ok(()) };
        path = format!("/sessions/{session}/events?limit=1000&after={next}");
    }
}

#[tokio::test]
async fn open_stream_of_rows_begins_again_when_they_are_made_again_for_a_lost_event() -> Result<()>
{
    let (mut host, session) = start_host_with_long_session().await?;
    stop_host_with_rows(&mut host, &session).await?;
    flip_bit(&host, &session, "prompt_ended")?;
    host.restart()?;
    let http = RestClient::new(&host);
    let mut events = http.open_stream(&format!("/sessions/{session}/rows/stream"), None).await?;
    let first = events.expect("the page", |event| event.name == "page").await?;
    ensure!(
        !first.data.to_string().contains("of the log cannot be read"),
        "the host has read the log from its snapshot on: {}",
        first.data
    );
    // Another reader meets the lost event, and the next one makes the rows again.
    read_all_events(&http, &session).await?;
    let remade = http.get(&format!("/sessions/{session}/rows")).await?.expect(200)?;
    ensure!(remade["rows"].to_string().contains("of the log cannot be read"), "{remade}");

    // Beats come for ever.
    let reset = events.expect("the reset", |event| event.name == "reset");
    let reset = tokio::time::timeout(WAIT_LIMIT, reset).await.context("no reset comes")??;
    assert_eq!(reset.data, json!({ "why": "rows_remade" }));
    let page = events.next().await?.context("no page")?;
    assert_eq!((page.name.as_str(), &page.data["rows"]), ("page", &remade["rows"]));
    Ok(())
}
