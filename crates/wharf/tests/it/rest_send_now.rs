//! Over REST: sending a queued prompt at once, ending a turn by force, and the attached clients
//! (rules 17.3 to 17.5).

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::http::RestClient;

use crate::rest::{
    caller_with_role, output_lines, send_prompt, spawn_session, wait_for_session, wait_until_idle,
};
use crate::{connect_client, join_session, scripted_host};

/// Queues a prompt and returns its id.
async fn queue_prompt(http: &RestClient, id: &str, text: &str) -> Result<String> {
    let body = json!({ "prompt": text, "queue": true });
    let queued = http.post(&format!("/sessions/{id}/prompt"), &body).await?.expect(200)?;
    Ok(queued["promptId"].as_str().context("no id")?.to_owned())
}

async fn wait_until_running(http: &RestClient, id: &str) -> Result<Value> {
    wait_for_session(http, id, "a turn", |session| session["turn"] == "running").await
}

#[tokio::test]
async fn queued_prompt_is_sent_now_before_others() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    send_prompt(&http, &id, "hang").await?;
    wait_until_running(&http, &id).await?;
    queue_prompt(&http, &id, "echo second").await?;
    let third = queue_prompt(&http, &id, "echo third").await?;
    let path = format!("/sessions/{id}/queue/{third}/send");
    assert_eq!(
        http.post(&path, &json!({ "steer": true })).await?.status_and_code(),
        (409, "cannot_steer".to_owned()),
        "this agent takes one prompt at a time"
    );
    let sent = http.post_empty(&path).await?.expect(200)?;
    assert_eq!(sent, json!({ "ok": true, "promptId": third, "interrupted": true }));
    wait_until_idle(&http, &id).await?;
    let lines: Vec<_> = output_lines(&http, &id)
        .await?
        .into_iter()
        .filter(|line| !line.is_empty())
        .collect();
    let end = "── turn-end (end_turn) ──";
    assert_eq!(lines, ["── turn-end (cancelled) ──", "third", end, "second", end]);
    assert_eq!(http.post_empty(&path).await?.status_and_code(), (404, "unknown_prompt".to_owned()));
    let observer = caller_with_role(&host, "observer")?;
    assert_eq!(observer.post_empty(&path).await?.status_and_code(), (403, "observer".to_owned()));
    Ok(())
}

#[tokio::test]
async fn queued_prompt_is_steered_into_the_turn_of_an_agent_that_queues() -> Result<()> {
    let host = scripted_host(&["--native-queue", "--overlap", "supersede"])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    send_prompt(&http, &id, "hang").await?;
    wait_until_running(&http, &id).await?;
    let queued = queue_prompt(&http, &id, "echo steered").await?;
    let sent = http
        .post(&format!("/sessions/{id}/queue/{queued}/send"), &json!({ "steer": true }))
        .await?
        .expect(200)?;
    assert_eq!(sent["interrupted"], false);
    wait_until_idle(&http, &id).await?;
    assert!(output_lines(&http, &id).await?.contains(&"steered".to_owned()));
    Ok(())
}

#[tokio::test]
async fn turns_that_overlap_each_end_and_answer_their_callers() -> Result<()> {
    let host = scripted_host(&["--native-queue", "--overlap", "supersede"])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let path = format!("/sessions/{id}/prompt?wait=10s");
    let watcher = join_session(&host, &id).await?;
    let first =
        async { http.post(&path, &json!({ "prompt": "echo first; hang" })).await?.expect(200) };
    let steer = async {
        watcher.expect_text("first").await;
        let queued = queue_prompt(&http, &id, "echo second").await?;
        let path = format!("/sessions/{id}/queue/{queued}/send");
        http.post(&path, &json!({ "steer": true })).await?.expect(200)?;
        Ok(queued)
    };
    let (first, second): (Value, String) = tokio::try_join!(first, steer)?;
    assert_eq!(
        (&first["turn"]["state"], &first["turn"]["text"]),
        (&json!("ended"), &json!("first")),
        "{first}"
    );
    wait_until_idle(&http, &id).await?;
    for prompt in [first["promptId"].as_str().context("no id")?, &second] {
        let turn = http.get(&format!("/sessions/{id}/turns/{prompt}")).await?.expect(200)?;
        assert_eq!((&turn["state"], &turn["outcome"]), (&json!("ended"), &json!("done")), "{turn}");
    }
    Ok(())
}

#[tokio::test]
async fn forced_interrupt_ends_a_turn_that_ignores_cancels_and_the_queue_goes_on() -> Result<()> {
    let host = scripted_host(&["--resume"])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    send_prompt(&http, &id, "pid").await?;
    wait_until_idle(&http, &id).await?;
    send_prompt(&http, &id, "hang hard").await?;
    wait_until_running(&http, &id).await?;
    queue_prompt(&http, &id, "pid; echo after").await?;
    let path = format!("/sessions/{id}/interrupt");
    let ended = http.post(&path, &json!({ "force": true })).await?.expect(200)?;
    assert_eq!(ended, json!({ "ok": true, "id": id, "wasBusy": true }));
    let session = wait_until_idle(&http, &id).await?;
    assert_eq!(session["status"], "running");
    let lines = output_lines(&http, &id).await?;
    assert!(
        lines.contains(&"── turn-end (cancelled) ──".to_owned())
            && lines.concat().contains("after"),
        "{lines:?}"
    );
    let pids: Vec<_> = lines.iter().filter(|line| line.starts_with("pid ")).collect();
    assert!(pids.len() == 2 && pids[0] != pids[1], "another process goes on: {lines:?}");
    assert_eq!(http.post(&path, &json!({ "force": true })).await?.expect(200)?["wasBusy"], false);
    assert_eq!(http.post(&path, &json!({ "force": 1 })).await?.status, 422);
    Ok(())
}

#[tokio::test]
async fn attached_clients_are_listed_with_role_and_time() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let path = format!("/sessions/{id}/clients");
    assert_eq!(http.get(&path).await?.expect(200)?, json!({ "clients": [] }));
    let first = join_session(&host, &id).await?;
    let second = connect_client(&host).await?;
    let params = json!({
        "sessionId": id, "role": "observer", "clientId": "phone", "clientInfo": { "name": "Phone", "version": "2" },
    });
    second.call_method("session/attach", params).await?;
    let mut clients = http.get(&path).await?.expect(200)?["clients"].take();
    let listed = clients.as_array_mut().context("no list")?;
    assert_eq!(listed.len(), 2, "{listed:?}");
    for client in listed.iter_mut() {
        let since = client["since"].take();
        assert!(since.as_str().is_some_and(|since| since.ends_with('Z')), "{since}");
    }
    assert_eq!(
        (&listed[0]["role"], &listed[0]["transport"]),
        (&json!("controller"), &json!("websocket"))
    );
    let phone = json!({
        "clientId": "phone", "name": "Phone", "version": "2", "role": "observer", "person": "owner", "since": null,
        "transport": "websocket", "connections": 1,
    });
    assert_eq!(listed[1], phone);
    second.call_method("session/detach", json!({ "sessionId": id })).await?;
    assert_eq!(http.get(&path).await?.expect(200)?["clients"].as_array().map(Vec::len), Some(1));
    drop(first);
    Ok(())
}
