//! Turns and sessions that were cut off: what is left of them says so (rule 12.16).

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::{log, open, refused, scripted};

#[tokio::test]
async fn tool_call_that_a_death_cut_off_has_failed() -> Result<()> {
    let host = scripted(&[])?.start()?;
    let (client, session) = open(&host).await?;
    let error = refused(client.prompt(&session, "tool; tool-open t1; tool-open t2; tool-done t2; crash").await)?;
    assert_eq!(error.data["reason"], "agent_exited");
    let failed = client.expect_update("a tool call that failed", |update| update["status"] == "failed").await;
    assert_eq!(
        failed.params()["update"],
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t1", "status": "failed" })
    );
    // One update for one call; it is in the log, before the turn's end.
    let kinds: Vec<_> = log::records(&host, &session)?.into_iter().map(|mut record| record["event"].take()).collect();
    let of = |event: &Value| event["frame"]["params"]["update"]["status"] == "failed";
    assert_eq!(kinds.iter().filter(|event| of(event)).count(), 1);
    let (failed, ended) = (kinds.iter().position(of), kinds.iter().position(|event| event["kind"] == "prompt_ended"));
    ensure!(failed < ended, "{failed:?} {ended:?}");
    Ok(())
}

#[tokio::test]
async fn tool_call_that_a_kill_of_the_host_cut_off_has_failed() -> Result<()> {
    let mut host = scripted(&[])?.start()?;
    let (client, session) = open(&host).await?;
    let _running = client.start_prompt(&session, "tool-open t1; hang").await;
    client.expect_update("the tool call", |update| update["toolCallId"] == "t1").await;
    host.kill9()?;
    host.restart()?;
    let joined = crate::join(&host, &session).await?;
    joined.expect_update("its end", |update| update["toolCallId"] == "t1" && update["status"] == "failed").await;
    Ok(())
}
