//! `/metrics` is well-formed and complete, and its numbers follow the host's activity.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;
use wharf_testkit::{WAIT_LIMIT, polling};

use crate::metrics_page::MetricsPage;
use crate::raw_client::RawClient;
use crate::rest::{
    caller_with_role, send_prompt, spawn_session, wait_for_session, wait_until_idle,
};
use crate::{
    add_scripted_agent, connect_client, cwd, expect_error, join_session, open_session,
    scripted_host,
};

/// Fetches the page until it matches.
async fn fetch_page_until(
    http: &RestClient,
    what: &str,
    is: impl Fn(&MetricsPage) -> Result<bool>,
) -> Result<MetricsPage> {
    for _ in 0..600 {
        let page = MetricsPage::of(http).await?;
        if is(&page)? {
            return Ok(page);
        }
        // No event announces a change of a number, so the test polls.
        polling::poll_until(std::time::Duration::from_millis(50), || Ok(None::<()>)).await?;
    }
    anyhow::bail!("never: {what}")
}

#[tokio::test]
async fn every_line_is_well_formed_and_every_number_follows_what_happens() -> Result<()> {
    let host =
        add_scripted_agent(scripted_host(&["--resume"])?, "broken", &["--exit-on-start", "7"])?
            .start_host()?;
    let http = RestClient::new(&host);
    let before = MetricsPage::of(&http).await?;
    assert_eq!(before.get("wharf_sessions{status=\"running\"}")?, 0.0);
    assert_eq!(
        before.get(&format!("wharf_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION")))?,
        1.0
    );

    let (ann, session) = open_session(&host).await?;
    let bob = join_session(&host, &session).await?;
    ann.send_prompt(&session, "stream 50; echo fifty").await?;
    bob.expect_text("fifty").await;
    ann.send_prompt(&session, "stop refusal").await?;
    ann.send_prompt(&session, "stop of-its-own-making").await?;
    expect_error(ann.send_prompt(&session, "error").await)?;
    expect_error(ann.send_prompt(&session, "crash").await)?;
    ann.send_prompt(&session, "echo back").await?;
    let asking = ann.start_prompt(&session, "ask").await;
    let asked = bob.expect_request("session/request_permission").await;
    let now = MetricsPage::of(&http).await?;
    for (name, value) in [
        ("wharf_sessions{status=\"running\"}", 1.0),
        ("wharf_turns{state=\"awaiting_input\"}", 1.0),
        ("wharf_asks_open", 1.0),
        ("wharf_asks_total", 1.0),
        ("wharf_clients", 2.0),
        ("wharf_readers", 2.0),
        ("wharf_turns_started_total", 7.0),
        ("wharf_turns_ended_total{outcome=\"end_turn\"}", 2.0),
        ("wharf_turns_ended_total{outcome=\"refusal\"}", 1.0),
        ("wharf_turns_ended_total{outcome=\"other\"}", 1.0),
        ("wharf_turns_ended_total{outcome=\"failed\"}", 1.0),
        ("wharf_turns_ended_total{outcome=\"agent_exited\"}", 1.0),
        ("wharf_turn_seconds_count", 6.0),
        ("wharf_queue_seconds_count", 7.0),
        ("wharf_agent_starts_total{how=\"new\"}", 1.0),
        ("wharf_agent_starts_total{how=\"resume\"}", 1.0),
        ("wharf_agent_exits_total", 1.0),
    ] {
        assert_eq!(now.get(name)?, value, "{name}");
    }
    bob.send_result(
        asked.id(),
        json!({ "outcome": { "outcome": "selected", "optionId": "allow_once" } }),
    )
    .await;
    asking.wait_answer().await?;

    expect_error(
        ann.call_method("session/prompt", json!({ "sessionId": "sess_unknown", "prompt": [] }))
            .await,
    )?;
    assert_eq!(http.get("/sessions/sess_unknown").await?.status, 404);
    let body = json!({ "adapter": "broken", "cwd": cwd(&host)? });
    assert_eq!(http.post("/sessions/agent", &body).await?.status, 502);
    let after = MetricsPage::of(&http).await?;
    after.grew_from(&before)?;
    after.grew_from(&now)?;
    for (name, least) in [
        ("wharf_events_appended_total", 70.0),
        ("wharf_event_bytes_total", 10_000.0),
        ("wharf_append_seconds_count", 10.0),
        ("wharf_append_seconds_bucket{le=\"+Inf\"}", 10.0),
        ("wharf_sync_seconds_count", 7.0),
        ("wharf_tail_hits_total", 10.0),
        ("wharf_tail_bytes", 10_000.0),
        ("wharf_log_bytes", 10_000.0),
        ("wharf_connections", 2.0),
        ("wharf_requests_refused_total{code=\"unknown_session\"}", 1.0),
        ("wharf_requests_refused_total{code=\"-32002\"}", 1.0),
        ("wharf_requests_refused_total{code=\"start_failed\"}", 1.0),
        ("wharf_agent_start_failures_total", 1.0),
        ("wharf_start_time_seconds", 1.7e9),
    ] {
        assert!(after.get(name)? >= least, "{name} is {}", after.get(name)?);
    }
    assert_eq!(after.get("wharf_asks_open")?, 0.0);
    assert_eq!(after.get("wharf_sessions{status=\"error\"}")?, 1.0);
    check_documented_names(&after)
}

/// Checks that docs/observability.md lists exactly these names.
fn check_documented_names(page: &MetricsPage) -> Result<()> {
    let text = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/observability.md"
    ))?;
    let listed = text
        .lines()
        .filter_map(|line| line.strip_prefix("| `wharf_")?.split(['`', '{']).next());
    let listed: BTreeSet<String> = listed.map(|name| format!("wharf_{name}")).collect();
    let mut told: BTreeSet<String> = page.names().cloned().collect();
    // These exist only with configured caps.
    told.extend(
        ["wharf_memory_limit_bytes", "wharf_session_memory_limit_bytes"].map(str::to_owned),
    );
    ensure!(listed == told, "not the same: {:?}", listed.symmetric_difference(&told));
    Ok(())
}

#[tokio::test]
async fn memory_and_cpu_are_reported_per_adapter() -> Result<()> {
    let host = crate::add_section(
        scripted_host(&[])?,
        "[limits]\nsession_memory = \"40MiB\"\nmemory = \"4GiB\"",
    )
    .start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    send_prompt(&http, &id, "spin 200; hold 60; hang").await?;
    // The first measurement may come while the agent is still allocating.
    let over = |page: &MetricsPage| {
        let is_over = page.get("wharf_sessions_over_memory")? == 1.0;
        Ok(is_over && page.get("wharf_agent_memory_bytes{adapter=\"scripted\"}")? > 60e6)
    };
    let page = fetch_page_until(&http, "a session over its cap", over).await?;
    assert!(page.get("wharf_agent_cpu_seconds_total{adapter=\"scripted\"}")? >= 0.15);
    assert_eq!(page.get("wharf_agent_processes{adapter=\"scripted\"}")?, 2.0);
    assert!(
        page.get("wharf_resident_memory_bytes")? > 1e6
            && page.get("wharf_cpu_seconds_total")? > 0.0
    );
    assert_eq!(page.get("wharf_session_memory_limit_bytes")?, f64::from(40 << 20));
    assert!(page.get("wharf_accounting_seconds_count")? >= 1.0);
    // Measuring costs the operator milliseconds every two seconds.
    let each =
        page.get("wharf_accounting_seconds_sum")? / page.get("wharf_accounting_seconds_count")?;
    assert!(each < 1.0, "a look takes {each} s");
    http.post_empty(&format!("/sessions/{id}/interrupt")).await?.expect(200)?;
    wait_for_session(&http, &id, "a session that sleeps", |session| {
        session["endReason"] == "memory"
    })
    .await?;
    let slept = fetch_page_until(&http, "no memory", |page| {
        Ok(page.get("wharf_agent_memory_bytes{adapter=\"scripted\"}")? == 0.0)
    });
    let slept = slept.await?;
    assert_eq!(slept.get("wharf_sessions_put_to_sleep_total{reason=\"memory\"}")?, 1.0);
    slept.grew_from(&page)
}

#[tokio::test]
async fn lag_of_a_reader_is_reported() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let (ann, session) = open_session(&host).await?;
    let mut slow = RawClient::open(&host).await?;
    slow.load_session(7, &session, &cwd(&host)?).await?;
    slow.answer(7).await?;
    // This exceeds the buffers between the host and a client that does not read.
    ann.send_prompt(&session, "burst 60000 500").await?;
    let page = MetricsPage::of(&http).await?;
    assert!(
        page.get("wharf_reader_lag_events")? > 1_000.0,
        "{}",
        page.get("wharf_reader_lag_events")?
    );
    let debug = http.get("/debug/sessions").await?.expect(200)?;
    assert!(debug["sessions"][0]["lagEvents"].as_u64() > Some(1_000), "{debug}");
    drop(slow);
    fetch_page_until(&http, "one reader that keeps up", |page| {
        Ok(page.get("wharf_readers")? == 1.0 && page.get("wharf_reader_lag_events")? == 0.0)
    })
    .await
    .map(drop)
}

#[tokio::test]
async fn metrics_need_a_token_and_an_observers_is_enough() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    assert_eq!(RestClient::with_token(&host, "wrong").get("/metrics").await?.status, 401);
    let observer = caller_with_role(&host, "observer")?;
    let page = MetricsPage::of(&observer).await?;
    assert_eq!(page.get("wharf_requests_refused_total{code=\"unauthorized\"}")?, 1.0);
    assert_eq!(observer.get("/debug/sessions").await?.status, 403);
    Ok(())
}

#[tokio::test]
async fn stopping_host_is_not_ready() -> Result<()> {
    let mut host = scripted_host(&["--ignore-eof", "--ignore-term"])?
        .without_keepers("a host that leaves its agents stops too fast to be asked meanwhile")
        .start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    wait_until_idle(&http, &id).await?;
    assert_eq!(http.get("/readyz").await?.body, "ready\n");
    // The connection was open before: a stopping host accepts no new one.
    let ready = poll_readiness(&host).await?;
    wharf_testkit::processes::send_sigterm(host.pid());
    let last = ready.await?.context("it was never unready")?;
    assert!(last.contains("503") && last.contains("\"reasons\":[\"stopping\"]"), "{last}");
    host.wait_exit(WAIT_LIMIT)?;
    Ok(())
}

/// Requests `/readyz` repeatedly over one connection. Returns the first answer other than 200.
async fn poll_readiness(host: &TestHost) -> Result<tokio::task::JoinHandle<Option<String>>> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let address = host.url().trim_start_matches("http://").to_owned();
    let mut stream = tokio::net::TcpStream::connect(&address).await?;
    let ask = format!("GET /readyz HTTP/1.1\r\nHost: {address}\r\n\r\n");
    Ok(tokio::spawn(async move {
        let mut buffer = vec![0; 4096];
        loop {
            stream.write_all(ask.as_bytes()).await.ok()?;
            let length = stream.read(&mut buffer).await.ok().filter(|length| *length > 0)?;
            let answer = String::from_utf8_lossy(&buffer[..length]).into_owned();
            if !answer.starts_with("HTTP/1.1 200") {
                return Some(answer);
            }
        }
    }))
}

#[tokio::test]
async fn debug_output_shows_session_state_without_content() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let acp = connect_client(&host).await?;
    let session = acp.new_session(&cwd(&host)?).await?;
    acp.send_prompt(&session, "title the secret plan").await?;
    let debug = http.get("/debug/sessions").await?.expect(200)?;
    let one = &debug["sessions"][0];
    assert_eq!(
        (&one["id"], &one["turn"], &one["asks"]),
        (&json!(session), &json!("idle"), &json!(0))
    );
    assert_eq!((&one["readers"], one.get("paused")), (&json!(1), None));
    assert!(
        one["logBytes"].as_u64() > Some(500)
            && one["idleMillis"].is_u64()
            && one["pids"][0].is_u64(),
        "{one}"
    );
    assert!(!debug.to_string().contains("secret plan"), "{debug}");
    assert_eq!(
        http.get(&format!("/sessions/{session}")).await?.expect(200)?["title"],
        "the secret plan"
    );
    Ok(())
}
