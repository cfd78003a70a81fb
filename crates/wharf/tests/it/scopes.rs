//! Tokens of one workspace: the sessions that they can start, and their directories (rules 8.6,
//! 10.2).

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use wharf_testkit::client::TestClient;
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;

use crate::tokens::{create_token, expect_stderr, expect_stdout, run_token};
use crate::{expect_error, scripted_host};

/// Creates a directory and registers it under this slug.
pub(crate) async fn register_workspace(host: &TestHost, slug: &str) -> Result<PathBuf> {
    let path = host.directory().join(format!("{slug}-dir"));
    std::fs::create_dir_all(&path)?;
    RestClient::new(host)
        .post("/workspaces", &json!({ "slug": slug, "path": path }))
        .await?
        .expect(201)?;
    Ok(path)
}

/// Returns a caller with a token of one workspace.
pub(crate) fn workspace_caller(host: &TestHost, slug: &str) -> Result<RestClient> {
    Ok(RestClient::with_token(
        host,
        &create_token(host, &["--role", "controller", "--workspace", slug])?.1,
    ))
}

/// Starts a session of the scripted agent, with further members of the body.
pub(crate) async fn start_session(http: &RestClient, more: &Value) -> Result<Value> {
    let mut body = json!({ "adapter": "scripted" });
    body.as_object_mut()
        .into_iter()
        .for_each(|all| all.extend(more.as_object().cloned().unwrap_or_default()));
    http.post("/sessions/agent", &body).await?.expect(201)
}

#[tokio::test]
async fn a_token_of_one_workspace_starts_sessions_there_and_nowhere_else() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (quokka, here) =
        (register_workspace(&host, "quokka").await?, register_workspace(&host, "here").await?);
    let inner = here.join("inner");
    std::fs::create_dir(&inner)?;
    RestClient::new(&host)
        .post("/workspaces", &json!({ "slug": "inner", "path": inner }))
        .await?
        .expect(201)?;
    std::os::unix::fs::symlink(&quokka, here.join("link"))?;
    let http = workspace_caller(&host, "here")?;
    // `quokka` is the active one.
    for (more, cwd) in [
        (json!({}), &here),
        (json!({ "workspaceSlug": "here" }), &here),
        (json!({ "cwd": inner }), &inner),
        (json!({ "cwd": inner, "workspaceSlug": "here", "additionalDirectories": [here] }), &inner),
    ] {
        let session = start_session(&http, &more).await?;
        assert_eq!(
            (&session["workspaceSlug"], &session["cwd"]),
            (&json!("here"), &json!(cwd)),
            "{more}"
        );
        http.get(&format!("/sessions/{}", session["id"].as_str().unwrap_or_default()))
            .await?
            .expect(200)?;
    }
    for (more, code) in [
        (json!({ "cwd": quokka }), "cwd_not_allowed"),
        (json!({ "cwd": host.directory() }), "cwd_not_allowed"),
        (json!({ "cwd": here.join("link") }), "cwd_not_allowed"),
        (json!({ "cwd": here.join("..") }), "cwd_not_allowed"),
        (json!({ "additionalDirectories": [quokka] }), "cwd_not_allowed"),
        (json!({ "workspaceSlug": "inner" }), "unknown_workspace"),
        (json!({ "workspaceSlug": "nothing" }), "unknown_workspace"),
    ] {
        let mut body = json!({ "adapter": "scripted" });
        body.as_object_mut()
            .into_iter()
            .for_each(|all| all.extend(more.as_object().cloned().unwrap_or_default()));
        let answer = http.post("/sessions/agent", &body).await?;
        assert_eq!(answer.status_and_code().1, code, "{more}: {}", answer.body);
        ensure!(
            !answer.body.contains("quokka") || more.to_string().contains("quokka"),
            "{}",
            answer.body
        );
    }
    let listed = http.get("/workspaces").await?.expect(200)?;
    assert_eq!(
        (&listed["active"], listed["workspaces"].as_array().map(Vec::len)),
        (&Value::Null, Some(1))
    );
    Ok(())
}

#[tokio::test]
async fn acp_sessions_and_names_stay_in_the_workspace_of_the_token() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (quokka, here) =
        (register_workspace(&host, "quokka").await?, register_workspace(&host, "here").await?);
    let text = |path: &PathBuf| path.to_str().map(str::to_owned).context("not UTF-8");
    let http = workspace_caller(&host, "here")?;
    let client = TestClient::connect(&host.ws_url(), http.token()).await?;
    client.initialize().await?;
    let elsewhere = json!({ "cwd": quokka, "mcpServers": [] });
    assert_eq!(
        expect_error(client.call_method("session/new", elsewhere).await)?.data["reason"],
        "cwd_not_allowed"
    );
    let session = client.new_session(&text(&here)?).await?;
    let wider = json!({ "sessionId": session, "cwd": here, "mcpServers": [], "additionalDirectories": [quokka] });
    http.post_empty(&format!("/sessions/{session}/kill")).await?.expect(200)?;
    http.post_empty(&format!("/sessions/{session}/resume")).await?.expect(200)?;
    assert_eq!(
        http.get(&format!("/sessions/{session}")).await?.expect(200)?["workspaceSlug"],
        "here"
    );
    http.post_empty(&format!("/sessions/{session}/kill")).await?.expect(200)?;
    assert_eq!(
        expect_error(client.call_method("session/load", wider).await)?.data["reason"],
        "cwd_not_allowed"
    );

    // The same name in two workspaces means two sessions, and a peer of one is unknown in the
    // other.
    let room = format!("{}?session=room&peer_id=ann", host.ws_url());
    let ann = TestClient::connect(&room, host.token()).await?;
    ann.initialize().await?;
    let first = ann.new_session(&text(&quokka)?).await?;
    let other = TestClient::connect(&room, http.token()).await?;
    other.initialize().await?;
    let attached = other.call_method("session/attach", json!({ "sessionId": "room" })).await?;
    let second = attached["sessionId"].as_str().context("no session")?.to_owned();
    assert_ne!(first, second);
    assert_eq!(
        http.get(&format!("/sessions/{second}")).await?.expect(200)?["cwd"],
        json!(here),
        "not the active one's"
    );
    assert_eq!(
        expect_error(other.call_method("logout", json!({})).await)?.data["reason"],
        "host_only"
    );
    Ok(())
}

#[tokio::test]
async fn an_idempotency_key_never_leads_out_of_the_workspace() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (quokka, _) =
        (register_workspace(&host, "quokka").await?, register_workspace(&host, "here").await?);
    let (id, text) = create_token(&host, &["--role", "controller"])?;
    let http = RestClient::with_token(&host, &text);
    let key = ("idempotency-key", "k");
    let body = json!({ "adapter": "scripted", "cwd": quokka });
    let first = http.post_with("/sessions/agent", key, &body).await?.expect(201)?;
    assert_eq!(
        http.post_with("/sessions/agent", key, &body).await?.expect(200)?["id"],
        first["id"]
    );
    // The file is edited by hand: the token that created the session now belongs to another
    // workspace.
    let file = host.state_dir().join("tokens.json");
    let mut tokens: Value = serde_json::from_slice(&std::fs::read(&file)?)?;
    tokens["version"] = json!(2);
    let entry = tokens["tokens"]
        .as_array_mut()
        .and_then(|all| all.iter_mut().find(|entry| entry["id"] == json!(id)));
    entry.context("no entry")?["workspace"] = json!("here");
    std::fs::write(&file, tokens.to_string())?;
    for body in [body, json!({ "adapter": "scripted" })] {
        let answer = http.post_with("/sessions/agent", key, &body).await?;
        let id = first["id"].as_str().unwrap_or_default();
        ensure!(!answer.body.contains(id), "{}", answer.body);
    }
    Ok(())
}

#[tokio::test]
async fn a_workspace_that_has_tokens_stays_until_they_are_revoked() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    register_workspace(&host, "here").await?;
    let (id, text) = create_token(&host, &["--role", "observer", "--workspace", "here"])?;
    let answer = RestClient::new(&host).delete("/workspaces/here").await?;
    assert_eq!(answer.status_and_code(), (409, "workspace_has_tokens".to_owned()));
    assert_eq!(answer.json()["tokens"], json!([id]));
    assert_eq!(RestClient::with_token(&host, &text).get("/sessions").await?.status, 200);
    expect_stdout(run_token(&host, &["revoke", &id])?)?;
    RestClient::new(&host).delete("/workspaces/here").await?.expect(200)?;
    Ok(())
}

#[tokio::test]
async fn limits_of_a_token_are_checked_and_shown() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    register_workspace(&host, "here").await?;
    let unknown = expect_stderr(run_token(
        &host,
        &["create", "--role", "observer", "--workspace", "there"],
    )?)?;
    assert!(unknown.contains("no workspace called \"there\""), "{unknown}");
    let admin =
        expect_stderr(run_token(&host, &["create", "--role", "admin", "--workspace", "here"])?)?;
    assert!(admin.contains("--role controller or observer"), "{admin}");
    let limits = ["--role", "observer", "--workspace", "here", "--ttl", "7d"];
    let made = expect_stdout(run_token(&host, &[&["create", "--json"], &limits[..]].concat())?)?;
    let made: Value = serde_json::from_str(&made)?;
    assert_eq!((&made["workspace"], &made["expired"]), (&json!("here"), &json!(false)));
    let listed: Value =
        serde_json::from_str(&expect_stdout(run_token(&host, &["list", "--json"])?)?)?;
    assert_eq!(
        (&listed[0]["workspace"], &listed[0]["expiresAt"]),
        (&json!("here"), &made["expiresAt"])
    );
    let table = expect_stdout(run_token(&host, &["list"])?)?;
    let end = made["expiresAt"].as_str().unwrap_or_default();
    assert!(table.contains(&format!("workspace here, expires {end}")), "{table}");
    let file = std::fs::read_to_string(host.state_dir().join("tokens.json"))?;
    assert!(file.contains("\"version\": 2"), "an older wharf must refuse it: {file}");

    // The token expires: it is refused, listed as expired, and removed.
    std::fs::write(
        host.state_dir().join("tokens.json"),
        file.replace(end, "2020-01-01T00:00:00Z"),
    )?;
    let answer = RestClient::with_token(&host, made["token"].as_str().unwrap_or_default())
        .get("/sessions")
        .await?;
    assert_eq!(answer.status_and_code(), (401, "unauthorized".to_owned()));
    assert!(answer.body.contains("expired"), "{}", answer.body);
    assert!(expect_stdout(run_token(&host, &["list"])?)?.contains("expired 2020-01-01"));
    assert!(
        expect_stdout(run_token(&host, &["revoke", "--expired"])?)?.contains("which had expired")
    );
    assert_eq!(expect_stdout(run_token(&host, &["list"])?)?, "");
    Ok(())
}
