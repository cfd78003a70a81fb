//! `session/delete` and REST `DELETE` reach the agent too, and are not for observers (rule 12.7).

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use wharf_testkit::client::TestClient;
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;

use crate::{expect_error, log, open_session, prompt_for_text, scripted_host};

/// Starts a host whose agent records the messages that it receives.
fn start_recording_host(flags: &[&str]) -> Result<(TestHost, tempfile::TempDir)> {
    let folder = tempfile::TempDir::with_prefix("wharf-record-")?;
    let record = folder.path().join("record");
    let flags = [flags, &["--record", record.to_str().context("not UTF-8")?]].concat();
    Ok((scripted_host(&flags)?.start_host()?, folder))
}

/// Returns the methods about ended sessions that the agent received, each with its session.
fn list_sent_methods(folder: &tempfile::TempDir) -> Result<Vec<(String, String)>> {
    let text = std::fs::read_to_string(folder.path().join("record"))?;
    let frames = text.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let told = frames
        .iter()
        .map(|frame| (word(&frame["method"]), word(&frame["params"]["sessionId"])));
    let wanted = ["session/cancel", "session/close", "session/delete"];
    Ok(told.filter(|(method, _)| wanted.contains(&method.as_str())).collect())
}

async fn agent_session(http: &RestClient, session: &str) -> Result<String> {
    let known = http.get(&format!("/sessions/{session}")).await?.expect(200)?;
    Ok(known["agentSessionId"].as_str().context("no agentSessionId")?.to_owned())
}

#[tokio::test]
async fn delete_of_a_live_session_reaches_its_agent() -> Result<()> {
    let (host, folder) = start_recording_host(&["--close", "--delete"])?;
    let (client, session) = open_session(&host).await?;
    let http = RestClient::new(&host);
    let own = agent_session(&http, &session).await?;
    let running = client.start_prompt(&session, "echo on; hang").await;
    client.expect_text("on").await;
    let answer = client.call_method("session/delete", json!({ "sessionId": session })).await?;
    assert_eq!(answer, json!({}));
    expect_error(running.wait_answer().await)?;
    let expected = ["session/cancel", "session/close", "session/delete"]
        .map(|method| (method.to_owned(), own.clone()));
    assert_eq!(list_sent_methods(&folder)?, expected);
    ensure!(!log::session_dir(&host, &session).exists(), "the log is still there");
    Ok(())
}

#[tokio::test]
async fn delete_of_a_cold_session_reaches_an_agent() -> Result<()> {
    let (host, folder) = start_recording_host(&["--delete"])?;
    let (client, session) = open_session(&host).await?;
    let http = RestClient::new(&host);
    let own = agent_session(&http, &session).await?;
    http.post_empty(&format!("/sessions/{session}/kill")).await?.expect(200)?;
    // No agent runs, so one is started for the request.
    let answer = http.delete(&format!("/sessions/{session}")).await?.expect(200)?;
    assert_eq!(answer, json!({ "ok": true, "id": session }));
    assert_eq!(list_sent_methods(&folder)?, [("session/delete".to_owned(), own)]);

    let cold = client.new_session(&crate::cwd(&host)?).await?;
    let own = agent_session(&http, &cold).await?;
    http.post_empty(&format!("/sessions/{cold}/kill")).await?.expect(200)?;
    // The agent of another session handles it.
    client.new_session(&crate::cwd(&host)?).await?;
    let before = std::fs::read_to_string(folder.path().join("record"))?
        .matches("\"initialize\"")
        .count();
    client.call_method("session/delete", json!({ "sessionId": cold })).await?;
    assert_eq!(list_sent_methods(&folder)?.last(), Some(&("session/delete".to_owned(), own)));
    let after = std::fs::read_to_string(folder.path().join("record"))?
        .matches("\"initialize\"")
        .count();
    assert_eq!(before, after, "an agent was started although one ran");
    Ok(())
}

#[tokio::test]
async fn delete_that_the_agent_refuses_removes_the_log_and_says_so() -> Result<()> {
    let (host, _folder) =
        start_recording_host(&["--delete", "--error-on", "session/delete=-32603"])?;
    let (client, session) = open_session(&host).await?;
    let answer = client.call_method("session/delete", json!({ "sessionId": session })).await?;
    assert_eq!(answer, json!({ "_meta": { "wharf": { "agentDelete": "failed" } } }));
    ensure!(!log::session_dir(&host, &session).exists(), "the log is still there");
    let http = RestClient::new(&host);
    let second = client.new_session(&crate::cwd(&host)?).await?;
    http.post_empty(&format!("/sessions/{second}/kill")).await?.expect(200)?;
    let answer = http.delete(&format!("/sessions/{second}")).await?.expect(200)?;
    assert_eq!(answer, json!({ "ok": true, "id": second, "agentDelete": "failed" }));
    Ok(())
}

#[tokio::test]
async fn delete_does_not_wait_for_an_agent_that_does_not_answer() -> Result<()> {
    let (host, _folder) = start_recording_host(&["--delete", "--hang-on", "session/delete"])?;
    let (client, session) = open_session(&host).await?;
    let answer = client.call_method("session/delete", json!({ "sessionId": session })).await?;
    assert_eq!(answer["_meta"]["wharf"]["agentDelete"], "failed");
    ensure!(!log::session_dir(&host, &session).exists(), "the log is still there");
    Ok(())
}

#[tokio::test]
async fn agent_without_delete_is_not_sent_one() -> Result<()> {
    let (host, folder) = start_recording_host(&[])?;
    let (client, session) = open_session(&host).await?;
    let http = RestClient::new(&host);
    assert_eq!(
        client.call_method("session/delete", json!({ "sessionId": session })).await?,
        json!({})
    );
    let cold = client.new_session(&crate::cwd(&host)?).await?;
    http.post_empty(&format!("/sessions/{cold}/kill")).await?.expect(200)?;
    assert_eq!(
        client.call_method("session/delete", json!({ "sessionId": cold })).await?,
        json!({})
    );
    assert_eq!(list_sent_methods(&folder)?, []);
    Ok(())
}

#[tokio::test]
async fn observer_cannot_delete_a_session() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (_owner, session) = open_session(&host).await?;
    let client = crate::connect_client(&host).await?;
    client
        .call_method("session/attach", json!({ "sessionId": session, "role": "observer" }))
        .await?;
    let force = json!({ "sessionId": session, "_meta": { "wharf": { "force": true } } });
    for method in ["session/delete", "session/close"] {
        let error = expect_error(client.call_method(method, force.clone()).await)?;
        assert_eq!(error.code, -32011, "{method}: {error}");
    }
    ensure!(log::session_dir(&host, &session).exists(), "an observer deleted the session");
    let known = RestClient::new(&host).get(&format!("/sessions/{session}")).await?.expect(200)?;
    assert_eq!(known["status"], "running");
    Ok(())
}

/// A client is known by its token and its id: what its attachment may not do, it may not do another
/// way.
#[tokio::test]
async fn observer_known_by_its_id_deletes_nothing_on_another_connection() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (_owner, session) = open_session(&host).await?;
    let client = crate::connect_client(&host).await?;
    let observes = json!({ "sessionId": session, "role": "observer", "clientId": "phone" });
    client.call_method("session/attach", observes).await?;
    let http = RestClient::new(&host);
    let path = format!("/sessions/{session}");
    let refusal = http.send("DELETE", &path, &[("Wharf-Client-Id", "phone")], "").await?;
    assert_eq!(refusal.status_and_code(), (403, "observer".to_owned()));
    let second = TestClient::connect(&host.ws_url(), host.token()).await?;
    let meta = json!({ "wharf": { "clientId": "phone" } });
    second
        .call_method("initialize", json!({ "protocolVersion": 1, "_meta": meta }))
        .await?;
    let force = json!({ "sessionId": session, "_meta": { "wharf": { "force": true } } });
    let error = expect_error(second.call_method("session/delete", force).await)?;
    assert_eq!(error.code, -32011, "{error}");
    ensure!(log::session_dir(&host, &session).exists(), "an observer deleted the session");

    // Another holder of the token may delete, and so may the client once it is no observer any
    // more.
    client.call_method("session/detach", json!({ "sessionId": session })).await?;
    http.send("DELETE", &path, &[("Wharf-Client-Id", "phone")], "")
        .await?
        .expect(200)?;
    ensure!(!log::session_dir(&host, &session).exists(), "the log is still there");
    Ok(())
}

#[tokio::test]
async fn forget_removes_the_demo_agents_copy() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let state = host.state_dir().join("demo-agent");
    let client = crate::connect_client_of(&host, "demo").await?;
    client.initialize().await?;
    let copies = || -> Result<usize> { Ok(std::fs::read_dir(&state)?.count()) };
    for kill_first in [false, true] {
        let session = client.new_session(&crate::cwd(&host)?).await?;
        prompt_for_text(&client, &session, "hello").await?;
        assert_eq!(copies()?, 1);
        let http = RestClient::new(&host);
        if kill_first {
            http.post_empty(&format!("/sessions/{session}/kill")).await?.expect(200)?;
        }
        http.delete(&format!("/sessions/{session}")).await?.expect(200)?;
        assert_eq!(copies()?, 0, "killed first: {kill_first}");
    }
    Ok(())
}
