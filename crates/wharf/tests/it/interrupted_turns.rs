//! Interrupted turns and sessions: their tool calls are marked as failed, and a killed session can
//! be read (rule 12.16).

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use wharf_testkit::http::RestClient;

use crate::{expect_error, log, open_session, prompt_for_text, scripted_host};

#[tokio::test]
async fn interrupted_tool_call_is_failed_after_a_death_of_the_agent() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    let error = expect_error(
        client
            .send_prompt(&session, "tool; tool-open t1; tool-open t2; tool-done t2; crash")
            .await,
    )?;
    assert_eq!(error.data["reason"], "agent_exited");
    let failed = client
        .expect_update("a tool call that failed", |update| update["status"] == "failed")
        .await;
    assert_eq!(
        failed.params()["update"],
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t1", "status": "failed" })
    );
    // Each call gets one update; it is in the log before the turn's end.
    let kinds: Vec<_> = log::read_records(&host, &session)?
        .into_iter()
        .map(|mut record| record["event"].take())
        .collect();
    let of = |event: &Value| event["frame"]["params"]["update"]["status"] == "failed";
    assert_eq!(kinds.iter().filter(|event| of(event)).count(), 1);
    let (failed, ended) =
        (kinds.iter().position(of), kinds.iter().position(|event| event["kind"] == "prompt_ended"));
    ensure!(failed < ended, "{failed:?} {ended:?}");
    Ok(())
}

#[tokio::test]
async fn interrupted_tool_call_is_failed_after_a_kill_of_the_host() -> Result<()> {
    let mut host = scripted_host(&[])?.without_keepers(crate::TURN_IS_CUT).start_host()?;
    let (client, session) = open_session(&host).await?;
    let _running = client.start_prompt(&session, "tool-open t1; hang").await;
    client
        .expect_update("the tool call", |update| update["toolCallId"] == "t1")
        .await;
    host.kill()?;
    host.restart()?;
    let joined = crate::join_session(&host, &session).await?;
    joined
        .expect_update("its end", |update| {
            update["toolCallId"] == "t1" && update["status"] == "failed"
        })
        .await;
    Ok(())
}

#[tokio::test]
async fn killed_session_can_be_read_and_says_how_it_comes_back() -> Result<()> {
    let host = scripted_host(&["--resume"])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    prompt_for_text(&client, &session, "echo before").await?;
    let http = RestClient::new(&host);
    http.post_empty(&format!("/sessions/{session}/kill")).await?.expect(200)?;
    client.close().await;

    let client = crate::connect_client(&host).await?;
    let params = json!({ "sessionId": session, "cwd": crate::cwd(&host)?, "mcpServers": [] });
    let words = format!("wharf resume {session}");
    for (method, params) in [
        ("session/resume", params.clone()),
        ("session/attach", json!({ "sessionId": session })),
        (
            "session/prompt",
            json!({ "sessionId": session, "prompt": [{ "type": "text", "text": "echo again" }] }),
        ),
        ("session/set_mode", json!({ "sessionId": session, "modeId": "auto" })),
    ] {
        let error = expect_error(client.call_method(method, params).await)?;
        assert_eq!(error.data["reason"], "killed", "{method}: {error}");
        ensure!(error.to_string().contains(&words), "{method}: {error}");
    }
    let loaded = client.call_method("session/load", params).await?;
    assert_eq!(loaded["_meta"]["wharf"]["ended"]["reason"], "user", "{loaded}");
    assert_eq!(client.chunk_texts(), ["before"]);
    let looks = client
        .call_method("session/attach", json!({ "sessionId": session, "role": "observer" }))
        .await?;
    assert_eq!(looks["sessionId"], *session);
    let prompt = http
        .post(&format!("/sessions/{session}/prompt"), &json!({ "prompt": "echo again" }))
        .await?;
    assert_eq!(prompt.status_and_code(), (409, "killed".to_owned()));
    http.post_empty(&format!("/sessions/{session}/resume")).await?.expect(200)?;
    assert_eq!(
        prompt_for_text(&crate::join_session(&host, &session).await?, &session, "echo again")
            .await?,
        "again"
    );
    Ok(())
}
