//! Session memory and CPU time are measured, shown on every surface, and capped without disturbing
//! working sessions (rules 2.3, 2.6, 10.5).

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;
use wharf_testkit::{WAIT_LIMIT, polling};

use crate::rest::{output_lines, send_prompt, spawn_session, wait_for_session, wait_until_idle};
use crate::{add_section, connect_client, log, program, prompt_for_text, scripted_host};

const MIB_BYTES: u64 = 1 << 20;

fn memory_mib(session: &Value) -> u64 {
    session["resources"]["memoryBytes"].as_u64().unwrap_or_default() / MIB_BYTES
}

/// Sends a prompt and waits for the end of its turn.
async fn run_turn(http: &RestClient, id: &str, text: &str) -> Result<()> {
    send_prompt(http, id, text).await?;
    wait_until_idle(http, id).await.map(drop)
}

async fn is_sleeping(http: &RestClient, id: &str) -> Result<Value> {
    wait_for_session(http, id, "a session that sleeps", |session| session["status"] == "killed")
        .await
}

/// Waits for a line of the host's own output.
async fn wait_for_output(host: &TestHost, text: &str) -> Result<()> {
    let said =
        polling::poll_until(WAIT_LIMIT, || Ok(host.read_stderr().contains(text).then_some(())))
            .await?;
    said.with_context(|| format!("it does not say {text:?}"))
}

fn run_wharf(host: &TestHost, arguments: &[&str]) -> Result<String> {
    let told = program::wharf_command(arguments)
        .arg("--state-dir")
        .arg(host.state_dir())
        .output()?;
    Ok(String::from_utf8(told.stdout)?)
}

#[tokio::test]
async fn memory_and_cpu_of_the_whole_tree_rise_and_fall() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let small =
        wait_for_session(&http, &id, "a first figure", |session| session["resources"].is_object())
            .await?;
    assert!(memory_mib(&small) < 60, "{small}");
    assert_eq!(small["resources"]["processes"], 2, "the agent and its keeper: {small}");

    run_turn(&http, &id, "spin 400; hold 80").await?;
    let more = wait_for_session(&http, &id, "80 MiB more", |session| {
        memory_mib(session) >= memory_mib(&small) + 80
    })
    .await?;
    assert!(more["resources"]["cpuMillis"].as_u64() >= Some(300), "{more}");
    run_turn(&http, &id, "hold-apart 60").await?;
    let most = wait_for_session(&http, &id, "60 MiB apart", |session| {
        memory_mib(session) >= memory_mib(&small) + 140
    })
    .await?;
    assert_eq!(most["resources"]["processes"], 3, "{most}");
    assert!(most["resources"].get("overLimit").is_none(), "{most}");

    run_turn(&http, &id, "hold 0").await?;
    let less = wait_for_session(&http, &id, "80 MiB less", |session| {
        (1..memory_mib(&small) + 80).contains(&memory_mib(session))
    })
    .await?;
    assert!(
        less["resources"]["cpuMillis"].as_u64() >= most["resources"]["cpuMillis"].as_u64(),
        "{less}"
    );

    // Every surface shows the same figures.
    let one = http.get(&format!("/sessions/{id}")).await?.expect(200)?;
    let listed = http.get("/sessions").await?.expect(200)?;
    assert!(memory_mib(&one) > 0 && memory_mib(&listed["sessions"][0]) > 0, "{listed}");
    let acp = connect_client(&host).await?;
    let status = acp.call_method("session/status", json!({ "sessionId": id })).await?;
    assert!(status["_meta"]["wharf"]["resources"]["memoryBytes"].as_u64() > Some(0), "{status}");
    let list = acp.call_method("session/list", json!({})).await?;
    assert!(list["sessions"][0]["_meta"]["wharf"]["resources"]["processes"] == 3, "{list}");
    let line = run_wharf(&host, &["sessions"])?;
    let columns: Vec<&str> = line.trim_end_matches('\n').split('\t').collect();
    assert_eq!(columns.len(), 16, "{line}");
    assert!(
        columns[12].parse::<u64>()? > MIB_BYTES && columns[13].parse::<u64>()? >= 300,
        "{line}"
    );
    let shown = run_wharf(&host, &["show", &id])?;
    assert!(
        shown.contains("\nmemory\t")
            && shown.contains("\ncpu\t")
            && shown.contains("\nprocesses\t3\n"),
        "{shown}"
    );

    // The figures go away together with the processes.
    http.post(&format!("/sessions/{id}/kill"), &json!({})).await?.expect(200)?;
    let ended = is_sleeping(&http, &id).await?;
    assert!(ended.get("resources").is_none(), "{ended}");
    Ok(())
}

#[tokio::test]
async fn longest_idle_session_sleeps_over_the_total_cap_and_wakes_at_a_prompt() -> Result<()> {
    let host = add_section(scripted_host(&[])?, "[limits]\nmemory = \"150MiB\"").start_host()?;
    let http = RestClient::new(&host);
    let (busy, oldest, newest) = (
        spawn_session(&http, &host).await?,
        spawn_session(&http, &host).await?,
        spawn_session(&http, &host).await?,
    );
    send_prompt(&http, &busy, "hold 60; hang").await?;
    run_turn(&http, &oldest, "echo before; hold 60").await?;
    run_turn(&http, &newest, "hold 60").await?;

    let slept = is_sleeping(&http, &oldest).await?;
    assert_eq!(
        (&slept["endReason"], &slept["resumable"]),
        (&json!("memory"), &json!(true)),
        "{slept}"
    );
    assert!(
        slept["message"]
            .as_str()
            .is_some_and(|why| why.contains("limits.memory (150 MiB)")),
        "{slept}"
    );
    let ended =
        log::expect_event(&host, &oldest, "ended", |event| event["ending"]["reason"] == "memory")
            .await?;
    assert_eq!(ended["ending"]["status"], "killed");
    // The other two sessions stay up: one is working, and ending the oldest freed enough memory.
    for id in [&busy, &newest] {
        let session = http.get(&format!("/sessions/{id}")).await?.expect(200)?;
        assert_eq!(session["status"], "running", "{session}");
    }
    wait_for_output(&host, "a session was put to sleep").await?;

    // It is the same session, with its history.
    run_turn(&http, &oldest, "echo after").await?;
    assert_eq!(
        output_lines(&http, &oldest)
            .await?
            .iter()
            .filter(|line| *line == "before" || *line == "after")
            .count(),
        2
    );
    let starts = log::list_events(&host, &oldest, "agent_starting")?;
    assert_eq!(starts.iter().map(|event| &event["how"]).collect::<Vec<_>>(), ["new", "load"]);
    Ok(())
}

#[tokio::test]
async fn a_session_over_its_own_cap_is_reported_while_it_works_and_sleeps_when_it_is_idle()
-> Result<()> {
    let host =
        add_section(scripted_host(&[])?, "[limits]\nsession_memory = \"50MiB\"").start_host()?;
    let http = RestClient::new(&host);
    let acp = connect_client(&host).await?;
    let id = spawn_session(&http, &host).await?;
    send_prompt(&http, &id, "hold 80; wait; hold 80; echo done").await?;
    let over = wait_for_session(&http, &id, "a session over its cap", |session| {
        session["resources"]["overLimit"] == true
    })
    .await?;
    assert_eq!(
        (&over["status"], &over["turn"]),
        (&json!("running"), &json!("running")),
        "it is at work: {over}"
    );
    wait_for_output(&host, "more memory than limits.session_memory").await?;
    acp.call_method(
        "session/resume",
        json!({ "sessionId": id, "cwd": crate::cwd(&host)?, "mcpServers": [] }),
    )
    .await?;
    acp.send_notification("_go", json!({ "sessionId": id })).await;
    let slept = is_sleeping(&http, &id).await?;
    assert_eq!(slept["endReason"], "memory");
    assert!(
        output_lines(&http, &id).await?.contains(&"done".to_owned()),
        "the turn was not cut off"
    );
    // A client that stayed attached can go on using the session.
    assert_eq!(prompt_for_text(&acp, &id, "echo again").await?, "again");
    Ok(())
}

#[tokio::test]
async fn a_session_that_could_not_come_back_stays_awake() -> Result<()> {
    let options = add_section(
        scripted_host(&["--no-load"])?,
        "[limits]\nsession_memory = \"20MiB\"\nmemory = \"20MiB\"",
    );
    let host = options.start_host()?;
    let http = RestClient::new(&host);
    let (first, second) = (spawn_session(&http, &host).await?, spawn_session(&http, &host).await?);
    run_turn(&http, &first, "hold 40").await?;
    wait_for_session(&http, &first, "a session over its cap", |session| {
        session["resources"]["overLimit"] == true
    })
    .await?;
    // Further measurements are taken meanwhile: another session's use is sampled.
    for size in [10, 30, 50] {
        run_turn(&http, &second, &format!("hold {size}")).await?;
        wait_for_session(&http, &second, "its figure", |session| memory_mib(session) >= size)
            .await
            .context("second")?;
    }
    let session = http.get(&format!("/sessions/{first}")).await?.expect(200)?;
    assert_eq!(
        (&session["status"], &session["resources"]["overLimit"]),
        (&json!("running"), &json!(true))
    );
    Ok(())
}
