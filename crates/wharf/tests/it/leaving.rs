//! Leaving a session while something is still to come: whoever asked is answered all the same.

use anyhow::Result;
use serde_json::json;

use crate::{log, open, refused, scripted};

#[tokio::test]
async fn a_request_that_waited_for_the_agent_of_a_session_that_was_left_meanwhile_is_refused_not_lost() -> Result<()> {
    let host = scripted(&["--delay", "session/load=300"])?.start()?;
    let (client, session) = open(&host).await?;
    refused(client.prompt(&session, "crash 3").await)?;
    log::expect(&host, &session, "ended", |_| true).await?;
    let waiting = client.start("session/set_mode", json!({ "sessionId": session, "modeId": "auto" })).await;
    log::expect(&host, &session, "agent_starting", |event| event["how"] == "load").await?;
    client.request("session/detach", json!({ "sessionId": session })).await?;
    assert!(log::events(&host, &session, "agent_started")?.len() == 1, "it left before the agent was back");
    let error = refused(waiting.answer().await)?;
    assert_eq!(error.data["reason"], "left");
    Ok(())
}
