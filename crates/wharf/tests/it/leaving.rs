//! Leaving a session while something is still to come: what is owed comes all the same.

use anyhow::Result;
use serde_json::json;

use crate::{log, open, refused, scripted};

#[tokio::test]
async fn a_request_that_waited_for_the_agent_is_answered_also_to_one_who_left_meanwhile() -> Result<()> {
    let host = scripted(&["--delay", "session/load=300"])?.start()?;
    let (client, session) = open(&host).await?;
    refused(client.prompt(&session, "crash 3").await)?;
    log::expect(&host, &session, "ended", |_| true).await?;
    let waiting = client.start("session/set_mode", json!({ "sessionId": session, "modeId": "auto" })).await;
    log::expect(&host, &session, "agent_starting", |event| event["how"] == "load").await?;
    client.request("session/detach", json!({ "sessionId": session })).await?;
    assert!(log::events(&host, &session, "agent_started")?.len() == 1, "it left before the agent was back");
    assert_eq!(waiting.answer().await?, json!({}));
    Ok(())
}
