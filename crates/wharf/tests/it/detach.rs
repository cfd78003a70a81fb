//! Detaching from a session with a pending request: the request is still answered.

use anyhow::Result;
use serde_json::json;

use crate::{expect_error, log, open_session, scripted_host};

#[tokio::test]
async fn request_accepted_while_the_agent_starts_is_carried_out_and_answered_after_the_client_left()
-> Result<()> {
    let folder = tempfile::tempdir()?;
    let has_left = folder.path().join("has-left");
    let host = scripted_host(&["--await-on", &format!("session/load={}", has_left.display())])?
        .start_host()?;
    let (client, session) = open_session(&host).await?;
    expect_error(client.send_prompt(&session, "crash 3").await)?;
    log::expect_event(&host, &session, "ended", |_| true).await?;
    let waiting = client
        .start_request("session/set_mode", json!({ "sessionId": session, "modeId": "auto" }))
        .await;
    log::expect_event(&host, &session, "agent_starting", |event| event["how"] == "load").await?;
    client.call_method("session/detach", json!({ "sessionId": session })).await?;
    assert!(
        log::list_events(&host, &session, "agent_started")?.len() == 1,
        "it left before the agent was back"
    );
    std::fs::write(has_left, "")?;
    waiting.wait_answer().await?;
    let changed =
        |event: &serde_json::Value| event["frame"]["params"]["update"]["currentModeId"] == "auto";
    log::expect_event(&host, &session, "agent_updated", changed).await?;
    Ok(())
}
