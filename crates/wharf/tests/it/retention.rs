//! Sessions that the host puts to sleep or forgets by itself (rules 2.11 to 2.13).

use anyhow::{Context, Result, ensure};
use serde_json::json;
use wharf_testkit::WAIT_LIMIT;
use wharf_testkit::http::RestClient;
use wharf_testkit::polling::poll_until;

use crate::rest::{output_lines, send_prompt, spawn_session, wait_for_session, wait_until_idle};
use crate::{add_section, connect_client, connect_observer, scripted_host};

/// Waits until the list of all sessions does not hold this one any more.
async fn wait_until_forgotten(http: &RestClient, id: &str) -> Result<()> {
    let mut sessions = http.open_stream("/sessions/stream", None).await?;
    let waited = async {
        while http.get(&format!("/sessions/{id}")).await?.status != 404 {
            sessions.next().await?;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(WAIT_LIMIT, waited).await.context("it is not forgotten")?
}

#[tokio::test]
async fn idle_sessions_sleep_when_their_controller_has_left() -> Result<()> {
    let host = add_section(scripted_host(&["--resume"])?, "[session]\nsleep_after = \"300ms\"")
        .start_host()?;
    let http = RestClient::new(&host);
    let (left, kept) = (spawn_session(&http, &host).await?, spawn_session(&http, &host).await?);
    let (controller, other) = (connect_client(&host).await?, connect_client(&host).await?);
    controller.call_method("session/attach", json!({ "sessionId": kept })).await?;
    other.call_method("session/attach", json!({ "sessionId": left })).await?;
    for id in [&left, &kept] {
        send_prompt(&http, id, "echo before").await?;
        wait_until_idle(&http, id).await?;
    }
    other.close().await;
    let observer = connect_observer(&host).await?;
    observer
        .call_method("session/attach", json!({ "sessionId": left, "role": "observer" }))
        .await?;
    let asleep =
        wait_for_session(&http, &left, "sleep", |session| session["status"] == "killed").await?;
    let message = asleep["message"].as_str().context("no message")?;
    ensure!(asleep["endReason"] == "idle" && message.contains("session.sleep_after"), "{asleep}");
    assert_eq!(
        http.get(&format!("/sessions/{kept}")).await?.expect(200)?["status"],
        "running",
        "it is attended"
    );
    controller.close().await;
    wait_for_session(&http, &kept, "sleep", |session| session["status"] == "killed").await?;
    send_prompt(&http, &kept, "echo after").await?;
    wait_until_idle(&http, &kept).await?;
    ensure!(output_lines(&http, &kept).await?.contains(&"after".to_owned()), "it does not wake");
    Ok(())
}

#[tokio::test]
async fn process_in_the_background_keeps_a_session_awake() -> Result<()> {
    let host = add_section(scripted_host(&["--resume"])?, "[session]\nsleep_after = \"300ms\"")
        .start_host()?;
    let http = RestClient::new(&host);
    let (busy, idle) = (spawn_session(&http, &host).await?, spawn_session(&http, &host).await?);
    send_prompt(&http, &busy, "sh sleep 600 >/dev/null 2>&1 & echo $!").await?;
    wait_until_idle(&http, &busy).await?;
    let child = output_lines(&http, &busy).await?;
    let child: u32 = child.first().context("no pid")?.trim().parse()?;
    send_prompt(&http, &idle, "echo done").await?;
    wait_for_session(&http, &idle, "sleep", |session| session["status"] == "killed").await?;
    assert_eq!(http.get(&format!("/sessions/{busy}")).await?.expect(200)?["status"], "running");
    wharf_testkit::processes::send_sigkill(child);
    wait_for_session(&http, &busy, "sleep", |session| session["status"] == "killed").await?;
    Ok(())
}

#[tokio::test]
async fn ended_sessions_are_forgotten_as_retention_says() -> Result<()> {
    let dry = add_section(
        scripted_host(&["--resume"])?,
        "[retention]\nkeep_for = \"200ms\"\ndry_run = true",
    );
    let mut host = dry.start_host()?;
    let http = RestClient::new(&host);
    let (ended, archived, lives) = (
        spawn_session(&http, &host).await?,
        spawn_session(&http, &host).await?,
        spawn_session(&http, &host).await?,
    );
    for id in [&ended, &archived, &lives] {
        send_prompt(&http, id, "echo said").await?;
        wait_until_idle(&http, id).await?;
    }
    let json_type = [("content-type", "application/json")];
    http.send("PATCH", &format!("/sessions/{archived}"), &json_type, r#"{"archived":true}"#)
        .await?
        .expect(200)?;
    for id in [&ended, &archived] {
        http.post_empty(&format!("/sessions/{id}/kill")).await?.expect(200)?;
    }
    let told = |stderr: String| stderr.contains("would be forgotten").then_some(stderr);
    let told = poll_until(WAIT_LIMIT, || Ok(told(host.read_stderr())))
        .await?
        .context("nothing was logged")?;
    ensure!(told.contains(&ended) && !told.contains("a session was forgotten"), "{told}");
    assert_eq!(http.get(&format!("/sessions/{ended}")).await?.status, 200, "it was a dry run");

    host.kill()?;
    let settings = host.options_mut().config.take().context("no settings")?;
    host.options_mut().config = Some(settings.replace("dry_run = true", ""));
    host.restart()?;
    let http = RestClient::new(&host);
    wait_until_forgotten(&http, &ended).await?;
    assert_eq!(http.get(&format!("/sessions/{archived}")).await?.status, 200);
    let is_told = || Ok(host.read_stderr().contains("a session was forgotten").then_some(()));
    poll_until(WAIT_LIMIT, is_told).await?.with_context(|| host.read_stderr())
}

#[tokio::test]
async fn sessions_that_were_never_prompted_are_forgotten() -> Result<()> {
    let host = add_section(scripted_host(&["--no-load"])?, "[session]\nunused_ttl = \"500ms\"")
        .start_host()?;
    let http = RestClient::new(&host);
    let client = connect_client(&host).await?;
    let attended = client.new_session(&crate::cwd(&host)?).await?;
    // It is prompted at once, since it is deleted soon.
    let body = json!({ "adapter": "scripted", "cwd": crate::cwd(&host)?, "prompt": "echo used" });
    let used = http.post("/sessions/agent", &body).await?.expect(201)?;
    let used = used["id"].as_str().context("no id")?;
    let unused = spawn_session(&http, &host).await?;
    wait_until_forgotten(&http, &unused).await?;
    assert_eq!(
        http.get(&format!("/sessions/{attended}")).await?.expect(200)?["status"],
        "running",
        "it has a client"
    );
    client.close().await;
    wait_until_forgotten(&http, &attended).await?;
    assert_eq!(http.get(&format!("/sessions/{used}")).await?.expect(200)?["status"], "running");
    Ok(())
}
