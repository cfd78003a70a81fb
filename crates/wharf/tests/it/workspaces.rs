//! Named directories and their sessions (rule 8.6).

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::client::TestClient;
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;

use crate::rest::{caller_with_role, output_lines, send_prompt, wait_for_session, wait_until_idle};
use crate::{connect_client, expect_error, scripted_host};

/// Creates a directory of the test, below the host's.
fn create_dir(host: &TestHost, name: &str) -> Result<PathBuf> {
    let path = host.directory().join(name);
    fs::create_dir_all(&path)?;
    Ok(path)
}

/// Registers a workspace and returns its directory.
async fn register_workspace(http: &RestClient, host: &TestHost, slug: &str) -> Result<PathBuf> {
    let path = create_dir(host, slug)?;
    http.post("/workspaces", &json!({ "slug": slug, "path": path }))
        .await?
        .expect(201)?;
    Ok(path)
}

async fn spawn_session(http: &RestClient, mut body: Value) -> Result<Value> {
    body["adapter"] = "scripted".into();
    http.post("/sessions/agent", &body).await?.expect(201)
}

fn session_id(session: &Value) -> Result<String> {
    Ok(session["id"].as_str().context("no id")?.to_owned())
}

fn check_bucket(host: &TestHost, bucket: &str, session: &str) -> bool {
    host.state_dir()
        .join("workspaces")
        .join(bucket)
        .join("sessions")
        .join(session)
        .join("log")
        .is_dir()
}

#[tokio::test]
async fn sessions_of_every_surface_are_listed_under_their_workspace() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let (code, elsewhere) =
        (register_workspace(&http, &host, "code").await?, create_dir(&host, "elsewhere")?);
    let below = create_dir(&host, "code/below")?;
    let acp = connect_client(&host).await?;
    let by_acp = acp.new_session(below.to_str().context("not UTF-8")?).await?;
    let expected = [
        (json!({ "workspaceSlug": "code" }), "code", &code),
        (json!({ "cwd": below }), "code", &below),
        (json!({ "cwd": elsewhere, "workspaceSlug": "code" }), "code", &elsewhere),
        (json!({ "cwd": elsewhere }), "default", &elsewhere),
        (json!({}), "code", &code),
    ];
    for (body, slug, cwd) in expected {
        let session = spawn_session(&http, body.clone()).await?;
        assert_eq!(
            (&session["workspaceSlug"], &session["cwd"]),
            (&json!(slug), &json!(cwd)),
            "{body}"
        );
        assert!(session.get("warnings").is_none(), "{session}");
        assert!(check_bucket(&host, slug, &session_id(&session)?), "{body}");
    }
    let session = http.get(&format!("/sessions/{by_acp}")).await?.expect(200)?;
    assert_eq!(session["workspaceSlug"], "code");
    assert!(check_bucket(&host, "code", &by_acp));
    let listed = http.get("/sessions?workspace=code").await?.expect(200)?;
    assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(5));
    Ok(())
}

#[tokio::test]
async fn the_history_of_a_removed_workspace_survives_a_restart() -> Result<()> {
    let mut host = scripted_host(&["--resume"])?.start_host()?;
    let http = RestClient::new(&host);
    register_workspace(&http, &host, "code").await?;
    let session = session_id(&spawn_session(&http, json!({ "workspaceSlug": "code" })).await?)?;
    send_prompt(&http, &session, "echo remember me").await?;
    wait_until_idle(&http, &session).await?;
    let removed = http.delete("/workspaces/code").await?.expect(200)?;
    assert_eq!(removed, json!({ "ok": true, "slug": "code", "purged": 0 }));
    // The same holds from the logs alone, when the index is gone.
    host.kill()?;
    fs::remove_file(host.state_dir().join("index.db"))?;
    host.restart()?;
    let http = RestClient::new(&host);
    let known = http.get(&format!("/sessions/{session}")).await?.expect(200)?;
    assert_eq!((&known["workspaceSlug"], &known["resumable"]), (&json!("code"), &json!(true)));
    assert_eq!(output_lines(&http, &session).await?[0], "remember me");
    send_prompt(&http, &session, "echo and on").await?;
    wait_until_idle(&http, &session).await?;
    assert!(check_bucket(&host, "code", &session));
    let answer = http
        .post("/sessions/agent", &json!({ "adapter": "scripted", "workspaceSlug": "code" }))
        .await?;
    assert_eq!(answer.status_and_code(), (422, "unknown_workspace".to_owned()));
    Ok(())
}

#[tokio::test]
async fn purging_deletes_ended_sessions_and_is_refused_while_one_runs() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    register_workspace(&http, &host, "code").await?;
    let mut sessions = Vec::new();
    for _ in 0..2 {
        sessions
            .push(session_id(&spawn_session(&http, json!({ "workspaceSlug": "code" })).await?)?);
    }
    http.post_empty(&format!("/sessions/{}/kill", sessions[0])).await?.expect(200)?;
    let refused = http.delete("/workspaces/code?purge=true").await?;
    assert_eq!(refused.status_and_code(), (409, "workspace_in_use".to_owned()));
    assert!(sessions.iter().all(|session| check_bucket(&host, "code", session)));
    http.post_empty(&format!("/sessions/{}/kill", sessions[1])).await?.expect(200)?;
    assert_eq!(http.delete("/workspaces/code?purge=true").await?.expect(200)?["purged"], 2);
    assert!(!sessions.iter().any(|session| check_bucket(&host, "code", session)));
    assert_eq!(http.get("/sessions").await?.expect(200)?, json!({ "sessions": [] }));
    Ok(())
}

#[tokio::test]
async fn a_controllers_token_names_only_directories_inside_a_workspace() -> Result<()> {
    let host = scripted_host(&["--resume"])?.start_host()?;
    let (admin, controller) = (RestClient::new(&host), caller_with_role(&host, "controller")?);
    let (code, outside) =
        (register_workspace(&admin, &host, "code").await?, create_dir(&host, "outside")?);
    let (below, link) = (create_dir(&host, "code/below")?, code.join("link"));
    std::os::unix::fs::symlink(&outside, &link)?;
    let way_out = code.join("../outside");
    for cwd in [&outside, &link, &way_out] {
        let answer = controller
            .post("/sessions/agent", &json!({ "adapter": "scripted", "cwd": cwd }))
            .await?;
        assert_eq!(answer.status_and_code(), (403, "cwd_not_allowed".to_owned()), "{cwd:?}");
    }
    let body = json!({ "adapter": "scripted", "cwd": below, "additionalDirectories": [link] });
    assert_eq!(
        controller.post("/sessions/agent", &body).await?.status_and_code(),
        (403, "cwd_not_allowed".to_owned())
    );
    let acp = TestClient::connect(&host.ws_url(), controller.token()).await?;
    acp.initialize().await?;
    for params in [
        json!({ "cwd": link, "mcpServers": [] }),
        json!({ "cwd": below, "additionalDirectories": [outside], "mcpServers": [] }),
    ] {
        let error = expect_error(acp.call_method("session/new", params).await)?;
        assert_eq!(error.data["reason"], "cwd_not_allowed", "{error}");
    }
    assert_eq!(
        admin.get("/sessions").await?.expect(200)?,
        json!({ "sessions": [] }),
        "nothing was made"
    );

    let session = session_id(
        &spawn_session(&controller, json!({ "cwd": below, "additionalDirectories": [code] }))
            .await?,
    )?;
    let by_acp = acp.new_session(code.to_str().context("not UTF-8")?).await?;
    // A session that comes back may not reach further than it did at its creation.
    admin.post_empty(&format!("/sessions/{session}/kill")).await?.expect(200)?;
    let load = json!({ "sessionId": session, "cwd": below, "mcpServers": [], "additionalDirectories": [link] });
    assert_eq!(
        expect_error(acp.call_method("session/load", load).await)?.data["reason"],
        "cwd_not_allowed"
    );
    assert_ne!(session, by_acp);
    spawn_session(&admin, json!({ "cwd": link })).await?;
    Ok(())
}

#[tokio::test]
async fn the_registry_is_changed_by_admins_alone() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let empty = json!({ "version": 1, "active": null, "workspaces": [] });
    assert_eq!(http.get("/workspaces").await?.expect(200)?, empty);
    let path = create_dir(&host, "one")?;
    let body = json!({ "slug": "one", "path": path, "label": "The first" });
    for role in ["observer", "controller"] {
        let other = caller_with_role(&host, role)?;
        assert_eq!(other.post("/workspaces", &body).await?.status_and_code().0, 403);
        assert_eq!(other.delete("/workspaces/one").await?.status_and_code().0, 403);
        assert_eq!(other.get("/workspaces").await?.expect(200)?, empty);
    }
    let added = http.post("/workspaces", &body).await?.expect(201)?;
    assert_eq!(
        (&added["slug"], &added["path"], &added["label"]),
        (&json!("one"), &json!(path), &json!("The first"))
    );
    register_workspace(&http, &host, "two").await?;
    let put = async |slug: &str| {
        let headers = [("content-type", "application/json")];
        http.send("PUT", "/workspaces/active", &headers, &json!({ "slug": slug }).to_string())
            .await
    };
    assert_eq!(put("two").await?.expect(200)?["active"], "two");
    assert_eq!(put("three").await?.status_and_code(), (404, "unknown_workspace".to_owned()));
    let wrong = [
        (json!({ "slug": "../../x", "path": path }), 422, "invalid_slug"),
        (json!({ "slug": "default", "path": path }), 422, "invalid_slug"),
        (json!({ "slug": "x", "path": "relative" }), 422, "invalid_path"),
        (json!({ "slug": "x", "path": "/no/such/dir" }), 422, "invalid_path"),
        (json!({ "slug": "one", "path": path }), 409, "workspace_exists"),
        (json!({ "slug": "x" }), 422, "invalid_params"),
    ];
    for (body, status, code) in wrong {
        assert_eq!(
            http.post("/workspaces", &body).await?.status_and_code(),
            (status, code.to_owned()),
            "{body}"
        );
    }
    for slug in ["three", "..%2F..%2Fx", "default"] {
        let answer = http.delete(&format!("/workspaces/{slug}?purge=true")).await?;
        assert_eq!(answer.status_and_code(), (404, "unknown_workspace".to_owned()), "{slug}");
    }
    Ok(())
}

#[tokio::test]
async fn damaged_registry_is_reported_by_line_and_affects_no_sessions() -> Result<()> {
    let mut host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let code = register_workspace(&http, &host, "code").await?;
    let session = session_id(&spawn_session(&http, json!({ "workspaceSlug": "code" })).await?)?;
    let file = host.state_dir().join("workspaces.json");
    let damaged = fs::read_to_string(&file)?.replace("\"slug\"", "slug");
    fs::write(&file, &damaged)?;
    for _ in 0..2 {
        let http = RestClient::new(&host);
        let answer = http.get("/workspaces").await?;
        assert_eq!(answer.status_and_code(), (500, "registry_damaged".to_owned()));
        let detail = answer.json()["detail"].to_string();
        assert!(detail.contains("workspaces.json, line 6, column 7"), "{detail}");
        for body in [json!({ "workspaceSlug": "code" }), json!({})] {
            let mut body = body;
            body["adapter"] = "scripted".into();
            assert_eq!(
                http.post("/sessions/agent", &body).await?.status_and_code(),
                (500, "registry_damaged".to_owned())
            );
        }
        let spawned = spawn_session(&http, json!({ "cwd": code })).await?;
        assert_eq!(spawned["workspaceSlug"], "default");
        assert!(
            spawned["warnings"][0].as_str().is_some_and(|text| text.contains("line 6")),
            "{spawned}"
        );
        assert_eq!(
            http.get(&format!("/sessions/{session}")).await?.expect(200)?["workspaceSlug"],
            "code"
        );
        host.restart()?;
    }
    assert_eq!(fs::read_to_string(&file)?, damaged, "it was written");
    Ok(())
}

#[tokio::test]
async fn without_a_workspace_a_spawn_runs_in_the_hosts_own_directory_and_says_so() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let session = spawn_session(&http, json!({})).await?;
    assert_eq!(session["cwd"], json!(std::env::current_dir()?));
    let warning = session["warnings"][0].as_str().context("no warning")?;
    assert!(warning.contains("no workspace is active"), "{warning}");
    wait_for_session(&http, &session_id(&session)?, "a session that runs", |session| {
        session["status"] == "running"
    })
    .await?;
    Ok(())
}
