//! AIP-46 over HTTP: every route of the standard, and Wharf's own routes (rule 8.1).

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;
use wharf_testkit::{WAIT_LIMIT, polling};

use crate::{add_scripted_agent, cwd, join_session, program, scripted_host};

/// Returns a caller with a role.
pub(crate) fn caller_with_role(host: &TestHost, role: &str) -> Result<RestClient> {
    let made =
        program::wharf_command(&["token", "create", "--role", role, "--json", "--state-dir"]);
    let made: Value = serde_json::from_slice(&{ made }.arg(host.state_dir()).output()?.stdout)?;
    Ok(RestClient::with_token(host, made["token"].as_str().context("no token")?))
}

/// Starts a session of the scripted agent.
pub(crate) async fn spawn_session(http: &RestClient, host: &TestHost) -> Result<String> {
    let body = json!({ "adapter": "scripted", "cwd": cwd(host)? });
    let session = http.post("/sessions/agent", &body).await?.expect(201)?;
    Ok(session["id"].as_str().context("no id")?.to_owned())
}

/// Sends a prompt, which must be accepted.
pub(crate) async fn send_prompt(http: &RestClient, id: &str, text: &str) -> Result<Value> {
    http.post(&format!("/sessions/{id}/prompt"), &json!({ "prompt": text }))
        .await?
        .expect(200)
}

/// Waits until the session matches and returns it.
pub(crate) async fn wait_for_session(
    http: &RestClient,
    id: &str,
    what: &str,
    is: impl Fn(&Value) -> bool,
) -> Result<Value> {
    let mut events = http.open_stream("/sessions/stream", None).await?;
    let one = |session: &Value| session["id"] == id && is(session);
    let fits = |event: &wharf_testkit::http::TestEvent| match event.name.as_str() {
        "snapshot" => event.data["sessions"]
            .as_array()
            .is_some_and(|sessions| sessions.iter().any(&one)),
        _ => one(&event.data),
    };
    events.expect(what, fits).await?;
    http.get(&format!("/sessions/{id}")).await?.expect(200)
}

pub(crate) async fn wait_until_idle(http: &RestClient, id: &str) -> Result<Value> {
    wait_for_session(http, id, "an idle session", |session| {
        session["status"] == "running" && session["turn"] == "idle"
    })
    .await
}

pub(crate) async fn output_lines(http: &RestClient, id: &str) -> Result<Vec<String>> {
    let output = http.get(&format!("/sessions/{id}/output")).await?.expect(200)?;
    Ok(serde_json::from_value(output["lines"].clone())?)
}

#[tokio::test]
async fn get_sessions_lists_newest_first() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    assert_eq!(http.get("/sessions").await?.expect(200)?, json!({ "sessions": [] }));
    let (first, second) = (spawn_session(&http, &host).await?, spawn_session(&http, &host).await?);
    let listed = http.get("/sessions").await?.expect(200)?;
    let ids: Vec<&Value> = listed["sessions"]
        .as_array()
        .context("no list")?
        .iter()
        .map(|one| &one["id"])
        .collect();
    assert_eq!(ids, [&json!(second), &json!(first)]);
    Ok(())
}

#[tokio::test]
async fn post_sessions_agent_answers_201_with_a_session_that_runs() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let body =
        json!({ "adapter": "scripted", "cwd": cwd(&host)?, "label": "a label", "unknown": [1] });
    let answer = http.post("/sessions/agent", &body).await?;
    let location = answer.header("location").context("no location")?.to_owned();
    let session = answer.expect(201)?;
    let id = session["id"].as_str().context("no id")?;
    assert_eq!(location, format!("/sessions/{id}"));
    for (member, value) in [
        ("adapterSlug", json!("scripted")),
        ("workspaceSlug", json!("default")),
        ("cwd", json!(cwd(&host)?)),
        ("status", json!("running")),
        ("label", json!("a label")),
        ("turn", json!("idle")),
    ] {
        assert_eq!(session[member], value, "{member}");
    }
    assert!(session["startedAt"].as_str().is_some_and(|at| at.ends_with('Z')), "{session}");
    assert!(session.get("endedAt").is_none() && session.get("pid").is_none(), "{session}");
    Ok(())
}

#[tokio::test]
async fn a_first_prompt_runs_as_soon_as_the_agent_is_there() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let body = json!({ "adapter": "scripted", "cwd": cwd(&host)?, "prompt": "echo hello" });
    let session = http.post("/sessions/agent", &body).await?.expect(201)?;
    let id = session["id"].as_str().context("no id")?;
    let mut events = http.open_stream(&format!("/sessions/{id}/stream"), None).await?;
    let ended = events
        .expect("the end of the turn", |event| event.data["turn"] == "ended")
        .await?;
    assert_eq!(ended.data["promptId"], session["promptId"]);
    assert_eq!(output_lines(&http, id).await?, ["hello", "── turn-end (end_turn) ──"]);
    Ok(())
}

#[tokio::test]
async fn prefer_respond_async_answers_while_the_agent_starts() -> Result<()> {
    let options = add_scripted_agent(scripted_host(&[])?, "sleeper", &["--hang-on", "initialize"])?;
    let host = options.start_host()?;
    let http = RestClient::new(&host);
    let body = json!({ "adapter": "sleeper", "cwd": cwd(&host)? });
    let answer = http
        .post_with("/sessions/agent", ("prefer", "respond-async, wait=5"), &body)
        .await?;
    assert_eq!(answer.header("preference-applied"), Some("respond-async"));
    let session = answer.expect(201)?;
    assert_eq!(session["status"], "starting");
    let id = session["id"].as_str().context("no id")?;
    http.post_empty(&format!("/sessions/{id}/kill")).await?.expect(200)?;
    assert_eq!(
        http.get(&format!("/sessions/{id}")).await?.expect(200)?["status"],
        "killed",
        "starting to killed"
    );
    Ok(())
}

#[tokio::test]
async fn an_agent_that_cannot_start_is_502_with_its_stderr_and_leaves_an_error_session()
-> Result<()> {
    let flags = ["--exit-on-start", "7", "--stderr", "the door is locked"];
    let host = add_scripted_agent(scripted_host(&[])?, "broken", &flags)?.start_host()?;
    let http = RestClient::new(&host);
    let body = json!({ "adapter": "broken", "cwd": cwd(&host)?, "prompt": "echo never" });
    let answer = http.post("/sessions/agent", &body).await?;
    assert_eq!(answer.status_and_code(), (502, "start_failed".to_owned()), "{answer:?}");
    assert_eq!(answer.json()["legacyCode"], "spawn_failed", "the word of the last release");
    let problem = answer.json();
    assert!(
        problem["stderr"]
            .as_str()
            .is_some_and(|text| text.contains("the door is locked")),
        "{problem}"
    );
    let id = problem["sessionId"].as_str().context("no session")?;
    let session = http.get(&format!("/sessions/{id}")).await?.expect(200)?;
    assert_eq!(
        (&session["status"], &session["endReason"]),
        (&json!("error"), &json!("start_failed"))
    );
    let said = output_lines(&http, id).await?;
    assert!(said.iter().any(|line| line.starts_with("[error]")), "{said:?}");
    let again = http
        .post(&format!("/sessions/{id}/prompt"), &json!({ "prompt": "echo x" }))
        .await?;
    assert_eq!(again.status_and_code(), (409, "not_resumable".to_owned()));
    Ok(())
}

#[tokio::test]
async fn get_sessions_id_is_the_session_and_404_for_an_unknown_one() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    assert_eq!(http.get(&format!("/sessions/{id}")).await?.expect(200)?["id"], id.as_str());
    let unknown = http.get("/sessions/sess_none").await?;
    assert_eq!(unknown.status_and_code(), (404, "unknown_session".to_owned()));
    assert_eq!(unknown.header("content-type"), Some("application/problem+json"));
    Ok(())
}

#[tokio::test]
async fn post_prompt_gives_the_agent_a_turn_in_the_same_process() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    for _ in 0..2 {
        let taken = send_prompt(&http, &id, "pid").await?;
        assert_eq!((&taken["ok"], &taken["id"]), (&json!(true), &json!(id)));
        assert!(
            taken["promptId"].as_str().is_some_and(|prompt| prompt.starts_with("prm_")),
            "{taken}"
        );
        wait_until_idle(&http, &id).await?;
    }
    let said = output_lines(&http, &id).await?;
    assert_eq!((said.len(), &said[0]), (4, &said[2]), "one agent, two turns: {said:?}");
    let blocks = json!({ "prompt": [{ "type": "text", "text": "echo " }, { "type": "text", "text": "blocks" }] });
    http.post(&format!("/sessions/{id}/prompt"), &blocks).await?.expect(200)?;
    wait_until_idle(&http, &id).await?;
    assert!(output_lines(&http, &id).await?.iter().any(|line| line.contains("blocks")));
    Ok(())
}

#[tokio::test]
async fn an_overlapping_prompt_is_409_unless_it_queues_or_interrupts() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let path = format!("/sessions/{id}/prompt");
    send_prompt(&http, &id, "hang").await?;
    let refused = http.post(&path, &json!({ "prompt": "echo no" })).await?;
    assert_eq!(refused.status_and_code(), (409, "turn_in_progress".to_owned()));
    let queued = http
        .post(&path, &json!({ "prompt": "echo queued", "queue": true }))
        .await?
        .expect(200)?;
    assert_eq!(queued["position"], 0);
    http.post(&path, &json!({ "prompt": "echo interrupts", "interrupt": true }))
        .await?
        .expect(200)?;
    let mut events = http.open_stream(&format!("/sessions/{id}/stream"), None).await?;
    events.expect_line("── turn-end (cancelled) ──").await?;
    events.expect_line("interrupts").await?;
    events.expect_line("queued").await?;
    Ok(())
}

#[tokio::test]
async fn post_interrupt_ends_the_turn_and_leaves_the_queue() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let path = format!("/sessions/{id}/interrupt");
    let idle_answer = http.post_empty(&path).await?.expect(200)?;
    assert_eq!(idle_answer, json!({ "ok": true, "id": id, "wasBusy": false }));
    send_prompt(&http, &id, "hang").await?;
    http.post(&format!("/sessions/{id}/prompt"), &json!({ "prompt": "echo next", "queue": true }))
        .await?
        .expect(200)?;
    assert_eq!(http.post_empty(&path).await?.expect(200)?["wasBusy"], true);
    let mut events = http.open_stream(&format!("/sessions/{id}/stream"), None).await?;
    events.expect_line("── turn-end (cancelled) ──").await?;
    events.expect_line("next").await?;
    Ok(())
}

#[tokio::test]
async fn post_kill_is_idempotent_and_a_prompt_to_a_killed_session_is_409() -> Result<()> {
    let host = scripted_host(&["--resume"])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    for _ in 0..3 {
        let killed = http.post_empty(&format!("/sessions/{id}/kill")).await?.expect(200)?;
        assert_eq!(killed, json!({ "ok": true, "id": id }));
    }
    let session = http.get(&format!("/sessions/{id}")).await?.expect(200)?;
    assert_eq!((&session["status"], &session["endReason"]), (&json!("killed"), &json!("user")));
    assert!(session["endedAt"].is_string());
    let refused = http
        .post(&format!("/sessions/{id}/prompt"), &json!({ "prompt": "echo x" }))
        .await?;
    assert_eq!(refused.status_and_code(), (409, "killed".to_owned()));
    Ok(())
}

#[tokio::test]
async fn post_resume_brings_a_killed_session_back() -> Result<()> {
    let host = scripted_host(&["--resume"])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let path = format!("/sessions/{id}/resume");
    assert_eq!(
        http.post_empty(&path).await?.expect(200)?["status"],
        "running",
        "one that runs already"
    );
    http.post_empty(&format!("/sessions/{id}/kill")).await?.expect(200)?;
    let back = http.post_empty(&path).await?.expect(200)?;
    assert_eq!(
        (&back["status"], back.get("endedAt"), back.get("exitCode")),
        (&json!("running"), None, None)
    );
    send_prompt(&http, &id, "echo back").await?;
    wait_until_idle(&http, &id).await?;
    assert_eq!(output_lines(&http, &id).await?, ["back", "── turn-end (end_turn) ──"]);
    Ok(())
}

#[tokio::test]
async fn a_session_that_cannot_come_back_says_so() -> Result<()> {
    let host = scripted_host(&["--no-load"])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    send_prompt(&http, &id, "crash 3").await?;
    let ended =
        wait_for_session(&http, &id, "an exit", |session| session["status"] == "exited").await?;
    assert_eq!((&ended["exitCode"], &ended["resumable"]), (&json!(3), &json!(false)));
    for (path, body) in [("resume", json!({})), ("prompt", json!({ "prompt": "echo x" }))] {
        let refused = http.post(&format!("/sessions/{id}/{path}"), &body).await?;
        assert_eq!(refused.status_and_code(), (409, "not_resumable".to_owned()), "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn a_prompt_wakes_a_session_that_ended_by_itself() -> Result<()> {
    let mut host = scripted_host(&["--resume"])?
        .without_keepers(crate::AGENT_COMES_BACK)
        .start_host()?;
    let id = {
        let http = RestClient::new(&host);
        let id = spawn_session(&http, &host).await?;
        send_prompt(&http, &id, "echo before").await?;
        wait_until_idle(&http, &id).await?;
        id
    };
    host.restart()?;
    let http = RestClient::new(&host);
    let cold = http.get(&format!("/sessions/{id}")).await?.expect(200)?;
    assert_eq!((&cold["status"], &cold["endReason"]), (&json!("killed"), &json!("host_restarted")));
    send_prompt(&http, &id, "echo after").await?;
    let mut events = http.open_stream(&format!("/sessions/{id}/stream"), None).await?;
    events.expect_line("before").await?;
    events.expect_line("after").await?;
    Ok(())
}

#[tokio::test]
async fn delete_forgets_and_an_unknown_id_is_ok_false() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let pids = http.get("/debug/sessions").await?.expect(200)?["sessions"][0]["pids"].clone();
    let pid = u32::try_from(pids[0].as_u64().context("no pid")?)?;
    assert_eq!(
        http.delete(&format!("/sessions/{id}")).await?.expect(200)?,
        json!({ "ok": true, "id": id })
    );
    assert_eq!(
        http.delete(&format!("/sessions/{id}")).await?.expect(200)?,
        json!({ "ok": false, "id": id })
    );
    assert_eq!(http.get(&format!("/sessions/{id}")).await?.status, 404);
    assert_eq!(http.get("/sessions").await?.expect(200)?, json!({ "sessions": [] }));
    let gone = polling::poll_until(WAIT_LIMIT, || {
        Ok((!wharf_testkit::processes::is_alive(pid)).then_some(()))
    })
    .await?;
    gone.context("the agent lives on")
}

#[tokio::test]
async fn get_host_returns_its_figures() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    send_prompt(&http, &id, "hang").await?;
    wait_for_session(&http, &id, "a turn", |session| session["turn"] == "running").await?;
    http.post(&format!("/sessions/{id}/prompt"), &json!({ "prompt": "echo later", "queue": true }))
        .await?
        .expect(200)?;
    let numbers = http.get("/metrics").await?;
    assert_eq!(numbers.status, 200);
    for line in [
        "wharf_sessions{status=\"running\"} 1",
        "wharf_sessions{status=\"killed\"} 0",
        "wharf_turns{state=\"running\"} 1",
        "wharf_prompts_queued 1",
        "wharf_clients 0",
    ] {
        assert!(
            numbers.body.lines().any(|found| found == line),
            "no {line:?} in\n{}",
            numbers.body
        );
    }
    Ok(())
}

#[tokio::test]
async fn lists_come_in_pages_and_by_filters() -> Result<()> {
    let host = add_scripted_agent(scripted_host(&[])?, "other", &[])?.start_host()?;
    let http = RestClient::new(&host);
    let mut ids = Vec::new();
    for (adapter, label) in
        [("scripted", "a"), ("other", "a"), ("scripted", "b"), ("scripted", "c&d=e")]
    {
        let body = json!({ "adapter": adapter, "cwd": cwd(&host)?, "label": label });
        let session = http.post("/sessions/agent", &body).await?.expect(201)?;
        ids.push(session["id"].as_str().context("no id")?.to_owned());
    }
    http.post_empty(&format!("/sessions/{}/kill", ids[0])).await?.expect(200)?;
    for (query, expected) in [
        ("", vec![3, 2, 1, 0]),
        ("?adapter=other", vec![1]),
        ("?label=a", vec![1, 0]),
        ("?label=c%26d%3De", vec![3]),
        ("?label=a&adapter=scripted", vec![0]),
        ("?status=killed", vec![0]),
        ("?status=running&limit=2", vec![3, 2]),
        ("?alive=true", vec![3, 2, 1]),
        ("?alive=false", vec![0]),
        ("?workspace=default", vec![3, 2, 1, 0]),
        ("?workspace=none", vec![]),
    ] {
        let expected: Vec<&String> = expected.into_iter().map(|index: usize| &ids[index]).collect();
        let listed = http.get(&format!("/sessions{query}")).await?.expect(200)?;
        let found: Vec<&str> = listed["sessions"]
            .as_array()
            .context("no list")?
            .iter()
            .filter_map(|one| one["id"].as_str())
            .collect();
        assert_eq!(found, expected, "{query}");
    }
    let (mut cursor, mut pages) = (String::new(), Vec::new());
    loop {
        let page = http.get(&format!("/sessions?limit=3{cursor}")).await?.expect(200)?;
        pages.push(page["sessions"].as_array().context("no list")?.len());
        let Some(next) = page["nextCursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(pages, [3, 1]);
    Ok(())
}

#[tokio::test]
async fn spawn_over_the_session_limit_is_429_and_creates_no_session() -> Result<()> {
    let host = crate::add_section(scripted_host(&[])?, "[limits]\nsessions = 1").start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let body = json!({ "adapter": "scripted", "cwd": cwd(&host)? });
    assert_eq!(
        http.post("/sessions/agent", &body).await?.status_and_code(),
        (429, "too_many_sessions".to_owned())
    );
    assert_eq!(
        http.get("/sessions").await?.expect(200)?["sessions"].as_array().map(Vec::len),
        Some(1)
    );
    http.post_empty(&format!("/sessions/{id}/kill")).await?.expect(200)?;
    spawn_session(&http, &host).await?;
    Ok(())
}

#[tokio::test]
async fn observers_read_and_change_nothing() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let observer = caller_with_role(&host, "observer")?;
    for path in ["", "/output", "/events", "/asks", "/queue"] {
        observer.get(&format!("/sessions/{id}{path}")).await?.expect(200)?;
    }
    observer.get("/sessions").await?.expect(200)?;
    observer.open_stream(&format!("/sessions/{id}/stream"), None).await?;
    observer.open_stream("/sessions/stream", None).await?;
    let answer = |path: &str| format!("/sessions/{id}/{path}");
    for (method, path, body) in [
        ("POST", "/sessions/agent".to_owned(), json!({ "adapter": "scripted" })),
        ("POST", answer("prompt"), json!({ "prompt": "echo x" })),
        ("POST", answer("interrupt"), json!({})),
        ("POST", answer("kill"), json!({})),
        ("POST", answer("resume"), json!({})),
        ("POST", answer("asks/1"), json!({ "cancel": true })),
        ("PATCH", answer("queue/x"), json!({ "position": 0 })),
        ("DELETE", answer("queue/x"), json!({})),
        ("DELETE", format!("/sessions/{id}"), json!({})),
        ("GET", "/debug/sessions".to_owned(), json!({})),
    ] {
        let refused = observer
            .send(method, &path, &[("content-type", "application/json")], &body.to_string())
            .await?;
        assert_eq!(refused.status_and_code(), (403, "observer".to_owned()), "{method} {path}");
    }
    assert_eq!(http.get(&format!("/sessions/{id}")).await?.expect(200)?["status"], "running");
    // The host does not wait for a body that is announced and not sent.
    let announced = [("content-type", "application/json"), ("content-length", "1000000")];
    let refused = observer.send("POST", &answer("prompt"), &announced, "").await?;
    assert_eq!(refused.status_and_code(), (403, "observer".to_owned()));
    Ok(())
}

#[tokio::test]
async fn rest_and_acp_share_a_session() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let client = join_session(&host, &id).await?;
    send_prompt(&http, &id, "echo from rest").await?;
    client.expect_text("from rest").await;
    wait_until_idle(&http, &id).await?;
    client.send_prompt(&id, "echo from acp").await?;
    assert!(output_lines(&http, &id).await?.contains(&"from acp".to_owned()));
    assert_eq!(http.get(&format!("/sessions/{id}")).await?.expect(200)?["clients"], 1);
    Ok(())
}

#[tokio::test]
async fn health_needs_no_token_and_the_rest_does() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let stranger = RestClient::with_token(&host, "x");
    assert_eq!(stranger.get("/healthz").await?.body, "ok\n");
    assert_eq!(stranger.get("/readyz").await?.body, "ready\n");
    for path in [
        "/sessions",
        "/sessions/stream",
        "/openapi.json",
        "/debug/sessions",
        "/sessions/x/stream",
        "/none",
    ] {
        let refused = stranger.get(path).await?;
        assert_eq!(refused.status_and_code(), (401, "unauthorized".to_owned()), "{path}");
        assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
    }
    Ok(())
}
