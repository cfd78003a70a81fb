//! Forks: a session that begins as a copy of another one (rule 17.10).

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::host::{HostOptions, TestHost};
use wharf_testkit::http::RestClient;

use crate::bridge::start_editor;
use crate::mcp_client::Mcp;
use crate::recording::Recording;
use crate::rest::{send_prompt, spawn_session, wait_for_session, wait_until_idle};
use crate::{
    connect_client, cwd, expect_error, log, prompt_for_text, scripted_host, transports,
    wharf_binary,
};

/// Starts a host whose agent copies sessions, and a session in which a prompt was answered.
async fn start_source(flags: &[&str]) -> Result<(TestHost, RestClient, String)> {
    let host = scripted_host(flags)?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    send_prompt(&http, &id, "echo one").await?;
    wait_until_idle(&http, &id).await?;
    Ok((host, http, id))
}

async fn get_session(http: &RestClient, id: &str) -> Result<Value> {
    http.get(&format!("/sessions/{id}")).await?.expect(200)
}

async fn fork(http: &RestClient, id: &str) -> Result<Value> {
    http.post_empty(&format!("/sessions/{id}/fork")).await?.expect(201)
}

fn read_id(session: &Value) -> Result<String> {
    Ok(session["id"].as_str().context("no id")?.to_owned())
}

/// Returns the seq in an event id.
fn event_seq(id: &Value) -> Result<u64> {
    let seq = id.as_str().and_then(|id| id.split_once('-')).context("no event id")?.1;
    Ok(seq.parse()?)
}

fn start_kinds(host: &TestHost, session: &str) -> Result<Vec<Value>> {
    Ok(log::list_events(host, session, "agent_starting")?
        .iter()
        .map(|event| event["how"].clone())
        .collect())
}

/// Returns the kinds and summaries of a session's rows.
async fn list_rows(http: &RestClient, id: &str) -> Result<Vec<(String, String)>> {
    let page = http.get(&format!("/sessions/{id}/rows")).await?.expect(200)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let rows = page["rows"].as_array().context("no rows")?;
    Ok(rows.iter().map(|row| (text(&row["kind"]), text(&row["summary"]))).collect())
}

#[tokio::test]
async fn fork_is_a_session_of_its_own_that_names_its_source() -> Result<()> {
    let (host, http, source) = start_source(&["--fork", "--resume", "--replay-on-resume"]).await?;
    let mode = json!({ "mode": "auto" });
    http.send(
        "PATCH",
        &format!("/sessions/{source}/settings"),
        &[("content-type", "application/json")],
        &mode.to_string(),
    )
    .await?
    .expect(200)?;
    let before = get_session(&http, &source).await?;
    assert_eq!(before["forkable"], true);
    let earlier =
        http.get(&format!("/sessions/{source}/rows?limit=1")).await?.expect(200)?["asOf"].clone();
    let args = json!({ "title": "another way", "label": "try" });
    let answer = http.post(&format!("/sessions/{source}/fork"), &args).await?;
    let location = answer.header("location").map(ToOwned::to_owned);
    let session = answer.expect(201)?;
    let id = read_id(&session)?;
    assert_eq!(location, Some(format!("/sessions/{id}")));
    let at = session["forkedFrom"]["eventId"].clone();
    assert!(event_seq(&at)? >= event_seq(&earlier)?, "{at} is older than {earlier}");
    let from = json!({ "sessionId": source, "eventId": at });
    let told = [
        &session["forkedFrom"],
        &session["title"],
        &session["label"],
        &session["status"],
        &session["cwd"],
    ];
    assert_eq!(
        told,
        [&from, &json!("another way"), &json!("try"), &json!("running"), &before["cwd"]]
    );
    let (copy, original) =
        (session["agentSessionId"].as_str(), before["agentSessionId"].as_str().context("no id")?);
    assert!(
        copy.is_some_and(
            |copy| copy.starts_with("copy-") && copy.ends_with(&format!("-of-{original}"))
        ),
        "{copy:?}"
    );
    let settings = http.get(&format!("/sessions/{id}/settings")).await?.expect(200)?;
    assert_eq!(
        settings["modes"]["current"], "auto",
        "it has no more rights than its source: {settings}"
    );
    send_prompt(&http, &id, "echo two").await?;
    wait_until_idle(&http, &id).await?;
    // The agent's replay of the copied conversation is dropped, as after a load.
    let rows = list_rows(&http, &id).await?;
    let summaries: Vec<(&str, &str)> =
        rows.iter().map(|(kind, summary)| (kind.as_str(), summary.as_str())).collect();
    let notice = format!("Forked from {source} at {}", at.as_str().unwrap_or_default());
    assert_eq!(
        summaries[..3],
        [("notice", notice.as_str()), ("prompt", "echo two"), ("message", "two")]
    );
    let listed = http.get("/sessions?label=try").await?.expect(200)?;
    assert_eq!(
        (&listed["sessions"][0]["id"], &listed["sessions"][0]["forkedFrom"]),
        (&json!(id), &from)
    );
    assert_eq!(
        (start_kinds(&host, &source)?, start_kinds(&host, &id)?),
        (vec![json!("new")], vec![json!("fork")])
    );
    Ok(())
}

#[tokio::test]
async fn source_that_sleeps_is_forked_without_being_woken() -> Result<()> {
    let (_host, http, source) = start_source(&["--fork", "--resume"]).await?;
    http.post_empty(&format!("/sessions/{source}/kill")).await?.expect(200)?;
    let id = read_id(&fork(&http, &source).await?)?;
    send_prompt(&http, &id, "echo two").await?;
    wait_until_idle(&http, &id).await?;
    assert_eq!(get_session(&http, &source).await?["status"], "killed");
    let again = fork(&http, &id).await?;
    assert_eq!(again["forkedFrom"]["sessionId"], json!(id), "a fork can be forked");
    Ok(())
}

#[tokio::test]
async fn fork_is_refused_with_its_reason() -> Result<()> {
    let (host, http, source) = start_source(&["--fork"]).await?;
    let refused = async |http: &RestClient, id: &str| -> Result<(u16, String)> {
        Ok(http.post_empty(&format!("/sessions/{id}/fork")).await?.status_and_code())
    };
    send_prompt(&http, &source, "hang").await?;
    assert_eq!(refused(&http, &source).await?, (409, "turn_in_progress".to_owned()));
    http.post_empty(&format!("/sessions/{source}/interrupt")).await?.expect(200)?;
    wait_until_idle(&http, &source).await?;
    let observer = RestClient::with_token(&host, &transports::create_observer_token(&host)?);
    assert_eq!(refused(&observer, &source).await?, (403, "observer".to_owned()));
    assert_eq!(refused(&http, "sess_none").await?, (404, "unknown_session".to_owned()));
    let title = json!({ "title": "two\nlines" });
    let unfit = http.post(&format!("/sessions/{source}/fork"), &title).await?;
    assert_eq!(unfit.status_and_code(), (422, "invalid_params".to_owned()));
    let (_other, http, plain) = start_source(&[]).await?;
    assert_eq!(get_session(&http, &plain).await?.get("forkable"), None);
    assert_eq!(refused(&http, &plain).await?, (501, "fork_not_supported".to_owned()));
    let failing = scripted_host(&["--fork", "--error-on", "session/new=-32603"])?.start_host()?;
    let http = RestClient::new(&failing);
    let failed = http
        .post("/sessions/agent", &json!({ "adapter": "scripted", "cwd": cwd(&failing)? }))
        .await?;
    let failed = failed.json()["sessionId"].as_str().context("no id")?.to_owned();
    assert_eq!(refused(&http, &failed).await?, (409, "not_forkable".to_owned()));
    Ok(())
}

#[tokio::test]
async fn repeated_fork_with_the_same_key_is_the_same_session() -> Result<()> {
    let (_host, http, source) = start_source(&["--fork"]).await?;
    let path = format!("/sessions/{source}/fork");
    let first = http
        .post_with(&path, ("idempotency-key", "k"), &json!({ "label": "a" }))
        .await?
        .expect(201)?;
    let second = http
        .post_with(&path, ("idempotency-key", "k"), &json!({ "label": "a" }))
        .await?;
    assert_eq!(second.header("idempotency-replayed"), Some("true"));
    assert_eq!(second.expect(200)?["id"], first["id"]);
    let other = http
        .post_with(&path, ("idempotency-key", "k"), &json!({ "label": "b" }))
        .await?;
    assert_eq!(other.status_and_code(), (422, "idempotency_key_reused".to_owned()));
    Ok(())
}

#[tokio::test]
async fn fork_that_the_agent_refuses_is_a_failed_session_with_its_reason() -> Result<()> {
    let (_host, http, source) =
        start_source(&["--fork", "--error-on", "session/fork=-32002"]).await?;
    let answer = http.post_empty(&format!("/sessions/{source}/fork")).await?;
    assert_eq!(answer.status_and_code(), (502, "start_failed".to_owned()));
    let failed = answer.json()["sessionId"].as_str().context("no id")?.to_owned();
    assert_ne!(failed, source);
    let session = get_session(&http, &failed).await?;
    assert_eq!(
        (&session["status"], &session["endReason"]),
        (&json!("error"), &json!("start_failed"))
    );
    let message = session["message"].as_str().unwrap_or_default();
    assert!(message.contains("does not know the session that is to be copied"), "{message}");
    assert_eq!(session["resumable"], false);
    Ok(())
}

#[tokio::test]
async fn answer_without_a_new_session_is_no_fork() -> Result<()> {
    for flag in [r#"session/fork={"jsonrpc":"2.0","id":@ID@,"result":{}}"#] {
        let (_host, http, source) = start_source(&["--fork", "--answer-with", flag]).await?;
        let answer = http.post_empty(&format!("/sessions/{source}/fork")).await?;
        assert_eq!(answer.status_and_code(), (502, "start_failed".to_owned()), "{flag}");
        assert!(answer.body.contains("without a sessionId"), "{}", answer.body);
    }
    let same = r#"session/fork={"jsonrpc":"2.0","id":@ID@,"result":{"sessionId":"one"}}"#;
    let (_host, http, source) =
        start_source(&["--fork", "--session-id", "one", "--answer-with", same]).await?;
    let answer = http.post_empty(&format!("/sessions/{source}/fork")).await?;
    assert!(
        answer.status == 502 && answer.body.contains("that was to be copied"),
        "{}",
        answer.body
    );
    Ok(())
}

#[tokio::test]
async fn host_that_dies_before_the_agent_has_answered_leaves_a_dead_fork_and_a_whole_source()
-> Result<()> {
    let (mut host, http, source) =
        start_source(&["--fork", "--resume", "--hang-on", "session/fork"]).await?;
    let path = format!("/sessions/{source}/fork");
    let session = http
        .post_with(&path, ("prefer", "respond-async"), &json!({}))
        .await?
        .expect(201)?;
    assert_eq!(session["status"], "starting");
    let id = read_id(&session)?;
    host.kill()?;
    host.restart()?;
    let http = RestClient::new(&host);
    let session = get_session(&http, &id).await?;
    let told = [
        &session["status"],
        &session["endReason"],
        &session["resumable"],
        &session["forkedFrom"]["sessionId"],
    ];
    assert_eq!(told, [&json!("killed"), &json!("host_restarted"), &json!(false), &json!(source)]);
    send_prompt(&http, &source, "echo two").await?;
    wait_until_idle(&http, &source).await?;
    let rows = list_rows(&http, &id).await?;
    assert_eq!(
        rows.iter().map(|(kind, _)| kind.as_str()).collect::<Vec<_>>(),
        ["notice", "notice"]
    );
    Ok(())
}

#[tokio::test]
async fn fork_comes_back_after_a_crash_with_its_own_session() -> Result<()> {
    let recording = Recording::new()?;
    let mut host = recording
        .host_options(&["--fork", "--resume"])?
        .without_keepers(crate::AGENT_COMES_BACK)
        .start_host()?;
    let http = RestClient::new(&host);
    let source = spawn_session(&http, &host).await?;
    send_prompt(&http, &source, "echo one").await?;
    wait_until_idle(&http, &source).await?;
    let session = fork(&http, &source).await?;
    let id = read_id(&session)?;
    host.kill()?;
    host.restart()?;
    let http = RestClient::new(&host);
    send_prompt(&http, &id, "echo two").await?;
    wait_until_idle(&http, &id).await?;
    // Although it had answered nothing yet: a copy has a conversation from the start.
    assert_eq!(start_kinds(&host, &id)?, ["fork", "resume"]);
    let resumed = recording
        .read_messages()?
        .into_iter()
        .find(|message| message["method"] == "session/resume");
    let resumed = resumed.context("no resume")?;
    assert_eq!(resumed["params"]["sessionId"], session["agentSessionId"]);
    assert_eq!(get_session(&http, &id).await?["forkedFrom"], session["forkedFrom"]);
    Ok(())
}

#[tokio::test]
async fn acp_client_forks_a_session_and_joins_the_copy() -> Result<()> {
    let recording = Recording::new()?;
    let host = recording.host_options(&["--fork", "--close"])?.start_host()?;
    let client = connect_client(&host).await?;
    let initialized = client.received_frames().remove(0).body;
    assert_eq!(
        initialized["result"]["agentCapabilities"]["sessionCapabilities"]["fork"],
        json!({})
    );
    let here = cwd(&host)?;
    let source = client.new_session(&here).await?;
    assert_eq!(prompt_for_text(&client, &source, "echo one").await?, "one");
    let servers = json!([{ "name": "s", "command": "/bin/true", "args": [], "env": [] }]);
    let params =
        json!({ "sessionId": source, "cwd": here, "mcpServers": servers, "_meta": { "x": 1.5 } });
    let answer = client.call_method("session/fork", params).await?;
    let copy = answer["sessionId"].as_str().context("no id")?.to_owned();
    assert!(copy.starts_with("sess_") && copy != source, "{answer}");
    assert!(answer["modes"].is_object(), "the agent's answer is passed on: {answer}");
    let sent = recording
        .read_messages()?
        .into_iter()
        .find(|message| message["method"] == "session/fork");
    let known = RestClient::new(&host).get(&format!("/sessions/{source}")).await?.expect(200)?;
    let expected = json!({ "cwd": here, "mcpServers": servers, "_meta": { "x": 1.5 }, "sessionId": known["agentSessionId"] });
    assert_eq!(sent.context("no fork")?["params"], expected);
    assert_eq!(prompt_for_text(&client, &copy, "echo two").await?, "two");
    assert_eq!(prompt_for_text(&client, &source, "echo three").await?, "three");
    let elsewhere = json!({ "sessionId": source, "cwd": "/", "mcpServers": [] });
    let refused = expect_error(client.call_method("session/fork", elsewhere).await)?;
    assert_eq!(refused.code, -32602);
    Ok(())
}

#[tokio::test]
async fn acp_client_is_refused_and_told_the_agents_own_error() -> Result<()> {
    let plain = scripted_host(&[])?.start_host()?;
    let client = connect_client(&plain).await?;
    let initialized = client.received_frames().remove(0).body;
    assert_eq!(initialized["result"]["agentCapabilities"]["sessionCapabilities"].get("fork"), None);
    let source = client.new_session(&cwd(&plain)?).await?;
    let params = json!({ "sessionId": source, "cwd": cwd(&plain)?, "mcpServers": [] });
    let refused = expect_error(client.call_method("session/fork", params).await)?;
    assert_eq!((refused.code, &refused.data["reason"]), (-32601, &json!("fork_not_supported")));
    let failing = scripted_host(&["--fork", "--error-on", "session/fork=-32077"])?.start_host()?;
    let client = connect_client(&failing).await?;
    let source = client.new_session(&cwd(&failing)?).await?;
    let params = json!({ "sessionId": source, "cwd": cwd(&failing)?, "mcpServers": [] });
    assert_eq!(expect_error(client.call_method("session/fork", params).await)?.code, -32077);
    let sessions = RestClient::new(&failing).get("/sessions").await?.expect(200)?;
    assert_eq!(
        sessions["sessions"].as_array().map(Vec::len),
        Some(1),
        "to the client the copy never was"
    );
    Ok(())
}

#[test]
fn editor_forks_through_the_bridge_and_keeps_both_sessions_over_a_restart() -> Result<()> {
    let mut host = scripted_host(&["--fork", "--resume"])?.start_host()?;
    let mut editor = start_editor(&host, &[])?;
    let source = editor.open_session()?;
    editor.send_prompt(&source, "echo one")?;
    let forked = editor.call_method(
        "session/fork",
        json!({ "sessionId": source, "cwd": "/tmp", "mcpServers": [] }),
    )?;
    let copy = forked["sessionId"].as_str().context("no id")?.to_owned();
    assert!(
        forked["_meta"]["wharf"]["eventId"].is_null(),
        "the bridge's own event id is taken out: {forked}"
    );
    editor.send_prompt(&copy, "echo two")?;
    host.restart()?;
    for session in [&copy, &source] {
        let (answer, said) = editor.send_prompt(session, "echo three")?;
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
        assert_eq!(wharf_testkit::agent_pipe::joined_text(&said), "three");
    }
    Ok(())
}

#[tokio::test]
async fn mcp_tool_forks_a_session() -> Result<()> {
    let (host, _http, source) = start_source(&["--fork"]).await?;
    for mut mcp in Mcp::over_both(&host)? {
        let forked = mcp
            .call_tool("fork_agent_session", json!({ "sessionId": source, "title": "t" }))
            .await?;
        assert_eq!(
            (&forked["forkedFrom"]["sessionId"], &forked["title"]),
            (&json!(source), &json!("t"))
        );
        let unknown = json!({ "sessionId": "sess_none" });
        assert_eq!(mcp.call_for_refusal("fork_agent_session", unknown).await?.0, "unknown_session");
    }
    Ok(())
}

#[tokio::test]
async fn demo_agent_remembers_the_conversation_in_a_fork() -> Result<()> {
    let host =
        HostOptions { binary: Some(wharf_binary()), ..HostOptions::default() }.start_host()?;
    let http = RestClient::new(&host);
    let args = json!({ "adapter": "demo", "cwd": cwd(&host)? });
    let source = read_id(&http.post("/sessions/agent", &args).await?.expect(201)?)?;
    send_prompt(&http, &source, "echo hello").await?;
    wait_until_idle(&http, &source).await?;
    let used = get_session(&http, &source).await?["context"]["used"]
        .as_u64()
        .context("no usage")?;
    let id = read_id(&fork(&http, &source).await?)?;
    send_prompt(&http, &id, "echo again").await?;
    let session = wait_for_session(&http, &id, "its usage", |session| {
        session["turn"] == "idle" && session["context"]["used"].is_u64()
    });
    assert!(
        session.await?["context"]["used"].as_u64() > Some(used),
        "the tokens of the source count on"
    );
    Ok(())
}
