//! AIP-46 over HTTP: wrong input gets its documented status and code, and creates or changes no
//! session.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;

use crate::rest::{caller_with_role, output_lines, send_prompt, spawn_session, wait_until_idle};
use crate::{add_section, cwd, scripted_host};

const JSON_HEADER: (&str, &str) = ("content-type", "application/json");

/// Returns the sessions in the registry and the number of logs on disk.
async fn list_sessions_and_logs(http: &RestClient, host: &TestHost) -> Result<(Value, usize)> {
    let sessions = http.get("/sessions").await?.expect(200)?["sessions"].clone();
    let ids: Vec<&Value> = sessions
        .as_array()
        .context("no list")?
        .iter()
        .map(|session| &session["id"])
        .collect();
    Ok((json!(ids), count_files(&host.state_dir().join("workspaces"))))
}

fn count_files(dir: &std::path::Path) -> usize {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
    paths.map(|path| if path.is_dir() { 1 + count_files(&path) } else { 1 }).sum()
}

#[tokio::test]
async fn a_spawn_with_wrong_input_creates_nothing() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    spawn_session(&http, &host).await?;
    let before = list_sessions_and_logs(&http, &host).await?;
    let here = cwd(&host)?;
    let with = |member: &str, value: Value| {
        let mut body = json!({ "adapter": "scripted", "cwd": here });
        body[member] = value;
        body.to_string()
    };
    let file = host.directory().join("a-file");
    std::fs::write(&file, "")?;
    for (body, status, code) in [
        (String::new(), 400, "malformed_json"),
        ("{".to_owned(), 400, "malformed_json"),
        ("{\"adapter\":7".to_owned(), 400, "malformed_json"),
        ("\u{0}".to_owned(), 400, "malformed_json"),
        ("[]".to_owned(), 422, "invalid_params"),
        ("null".to_owned(), 422, "invalid_params"),
        ("{}".to_owned(), 422, "invalid_params"),
        (with("adapter", json!(7)), 422, "invalid_params"),
        (with("adapter", json!("none")), 422, "unknown_adapter"),
        (with("adapter", json!("../../x")), 422, "unknown_adapter"),
        (with("adapter", json!("")), 422, "unknown_adapter"),
        (with("cwd", json!(["/tmp"])), 422, "invalid_params"),
        (with("cwd", json!("relative/dir")), 422, "invalid_cwd"),
        (with("cwd", json!("/no/such/directory")), 422, "invalid_cwd"),
        (with("cwd", json!(file)), 422, "invalid_cwd"),
        (with("cwd", json!(format!("{here}/../no-such/.."))), 422, "invalid_cwd"),
        (with("cwd", json!("")), 422, "invalid_cwd"),
        (
            json!({ "adapter": "scripted", "workspaceSlug": "unregistered" }).to_string(),
            422,
            "unknown_workspace",
        ),
        (
            json!({ "adapter": "scripted", "workspaceSlug": "../../x" }).to_string(),
            422,
            "unknown_workspace",
        ),
        (
            json!({ "adapter": "scripted", "workspaceSlug": "" }).to_string(),
            422,
            "unknown_workspace",
        ),
        (with("label", json!("x".repeat(1 << 20))), 422, "label_too_long"),
        (with("label", json!({})), 422, "invalid_params"),
        (with("prompt", json!(5)), 422, "invalid_params"),
        (with("prompt", json!("")), 422, "invalid_params"),
        (with("prompt", json!([])), 422, "invalid_params"),
        (with("prompt", json!([{ "text": "no type" }])), 422, "invalid_params"),
        (with("mode", json!("none")), 422, "unknown_mode"),
        (with("options", json!({ "none": true })), 422, "invalid_option"),
        (with("options", json!([])), 422, "invalid_params"),
        (with("env", json!({ "A": 1 })), 422, "invalid_params"),
        (with("mcpServers", json!("x")), 422, "invalid_params"),
        (with("additionalDirectories", json!(["/no/such"])), 422, "invalid_cwd"),
        (with("additionalDirectories", json!([5])), 422, "invalid_params"),
    ] {
        let answer = http.send("POST", "/sessions/agent", &[JSON_HEADER], &body).await?;
        let shown: String = body.chars().take(100).collect();
        assert_eq!(answer.status_and_code(), (status, code.to_owned()), "{shown}: {}", answer.body);
        assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{shown}");
        let problem = answer.json();
        assert_eq!((&problem["type"], &problem["status"]), (&json!("about:blank"), &json!(status)));
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.len() > 5), "{problem}");
        assert!(answer.body.len() < 4096, "what was wrong is not sent back whole");
    }
    assert_eq!(list_sessions_and_logs(&http, &host).await?, before);
    Ok(())
}

#[tokio::test]
async fn member_of_a_wrong_type_is_named() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let answer = http
        .post("/sessions/agent", &json!({ "adapter": "scripted", "env": { "A": 1 } }))
        .await?;
    let detail = answer.json()["detail"].as_str().unwrap_or_default().to_owned();
    assert!(detail.starts_with("env.A: "), "{detail}");
    let answer = http.get("/sessions?limit=many").await?;
    let detail = answer.json()["detail"].as_str().unwrap_or_default().to_owned();
    assert!(detail.starts_with("limit: "), "{detail}");
    Ok(())
}

#[tokio::test]
async fn a_body_must_be_json_and_not_too_large() -> Result<()> {
    let host = add_section(scripted_host(&[])?, "[limits]\nframe = \"64KiB\"").start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let path = format!("/sessions/{id}/prompt");
    let body = json!({ "prompt": "echo x" }).to_string();
    for kind in [
        &[][..],
        &[("content-type", "text/plain")],
        &[("content-type", "application/x-www-form-urlencoded")],
    ] {
        let answer = http.send("POST", &path, kind, &body).await?;
        assert_eq!(
            answer.status_and_code(),
            (415, "unsupported_media_type".to_owned()),
            "{kind:?}"
        );
    }
    let large = json!({ "prompt": "x".repeat(65 << 10) });
    assert_eq!(
        http.post(&path, &large).await?.status_and_code(),
        (413, "body_too_large".to_owned())
    );
    let charset = [("content-type", "Application/JSON; charset=utf-8")];
    assert_eq!(
        http.send("POST", &path, &charset, &body).await?.status,
        200,
        "only this one was taken"
    );
    wait_until_idle(&http, &id).await?;
    assert_eq!(output_lines(&http, &id).await?, ["x", "── turn-end (end_turn) ──"]);
    Ok(())
}

#[tokio::test]
async fn prompt_with_wrong_input_does_not_reach_the_agent() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let before = http.get(&format!("/sessions/{id}")).await?.expect(200)?["lastSeq"].clone();
    for body in [
        json!({}),
        json!({ "prompt": null }),
        json!({ "prompt": 1 }),
        json!({ "prompt": { "type": "text", "text": "x" } }),
        json!({ "prompt": ["x"] }),
        json!({ "prompt": " \n" }),
        json!({ "prompt": "x", "queue": "yes" }),
        json!({ "prompt": "x", "queue": true, "interrupt": true }),
    ] {
        let answer = http.post(&format!("/sessions/{id}/prompt"), &body).await?;
        assert_eq!(answer.status_and_code(), (422, "invalid_params".to_owned()), "{body}");
        assert_eq!(answer.json()["legacyCode"], "invalid_body", "{body}");
    }
    let key = "k".repeat(300);
    for key in ["", key.as_str()] {
        let body = json!({ "prompt": "echo x" });
        let answer = http
            .post_with(&format!("/sessions/{id}/prompt"), ("idempotency-key", key), &body)
            .await?;
        assert_eq!(
            answer.status_and_code(),
            (422, "invalid_idempotency_key".to_owned()),
            "{key:?}"
        );
    }
    assert_eq!(http.get(&format!("/sessions/{id}")).await?.expect(200)?["lastSeq"], before);
    Ok(())
}

#[tokio::test]
async fn unknown_sessions_are_404_everywhere() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    for id in ["sess_none", "..", "%2e%2e%2f%2e%2e%2fetc", "%00", "%F0%9F%98%80", &"x".repeat(2000)]
    {
        for (method, tail, body) in [
            ("GET", "", ""),
            ("GET", "/stream", ""),
            ("GET", "/output", ""),
            ("GET", "/events", ""),
            ("GET", "/asks", ""),
            ("GET", "/queue", ""),
            ("POST", "/prompt", r#"{"prompt":"x"}"#),
            ("POST", "/interrupt", ""),
            ("POST", "/kill", ""),
            ("POST", "/resume", ""),
            ("POST", "/asks/1", r#"{"cancel":true}"#),
            ("PATCH", "/queue/p", r#"{"position":0}"#),
            ("DELETE", "/queue/p", ""),
        ] {
            let answer = http
                .send(method, &format!("/sessions/{id}{tail}"), &[JSON_HEADER], body)
                .await?;
            assert_eq!(
                answer.status_and_code(),
                (404, "unknown_session".to_owned()),
                "{method} {id} {tail}"
            );
        }
    }
    let answer = http.get("/sessions/%FF").await?;
    assert_eq!(answer.status_and_code(), (404, "unknown_route".to_owned()), "not even text");
    assert_eq!(count_files(&host.state_dir().join("workspaces")), 0);
    Ok(())
}

#[tokio::test]
async fn wrong_queries_are_422() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let of = |tail: &str| format!("/sessions/{id}{tail}");
    for path in [
        "/sessions?limit=0".to_owned(),
        "/sessions?limit=1001".to_owned(),
        "/sessions?limit=-1".to_owned(),
        "/sessions?limit=99999999999999999999".to_owned(),
        "/sessions?status=dead".to_owned(),
        "/sessions?alive=yes".to_owned(),
        "/sessions?limit=1&limit=2".to_owned(),
        of("/output?lastN=0"),
        of("/output?lastN=10001"),
        of("/output?lastN=x"),
        of("/events?limit=0"),
        of("/events?limit=x"),
    ] {
        let refused = http.get(&path).await?;
        assert_eq!(refused.status_and_code(), (422, "invalid_params".to_owned()), "{path}");
        assert_eq!(refused.json()["legacyCode"], "invalid_query", "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn unknown_routes_are_404_and_wrong_methods_405() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    for path in
        ["/session", "/sessions/", "/sessions/a/b", "/sessions/a/prompt/c", "/../etc/passwd"]
    {
        let answer = http.get(path).await?;
        assert_eq!(answer.status_and_code(), (404, "unknown_route".to_owned()), "{path}");
    }
    for (method, path, allowed) in [
        ("PUT", "/sessions", "GET,HEAD"),
        ("POST", "/sessions", "GET,HEAD"),
        ("GET", "/sessions/agent", "POST"),
        ("POST", "/sessions/x", "GET,HEAD,DELETE"),
        ("GET", "/sessions/x/prompt", "POST"),
        ("POST", "/sessions/x/queue/y", "GET,HEAD,PATCH,DELETE"),
        ("DELETE", "/openapi.json", "GET,HEAD"),
    ] {
        let answer = http.send(method, path, &[], "").await?;
        assert_eq!(
            answer.status_and_code(),
            (405, "method_not_allowed".to_owned()),
            "{method} {path}"
        );
        let told: Vec<&str> = answer.header("allow").context("no Allow")?.split(',').collect();
        assert!(
            allowed.split(',').all(|method| told.contains(&method)),
            "{method} {path}: {told:?}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_controller_stays_inside_the_registered_workspaces() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let inside = host.directory().join("inside");
    std::fs::create_dir(&inside)?;
    http.post("/workspaces", &json!({ "slug": "inside", "path": inside }))
        .await?
        .expect(201)?;
    std::os::unix::fs::symlink("/", inside.join("out"))?;
    let controller = caller_with_role(&host, "controller")?;
    let body = |cwd: String| json!({ "adapter": "scripted", "cwd": cwd });
    for outside in [
        "/".to_owned(),
        cwd(&host)?,
        format!("{}/..", inside.display()),
        format!("{}/out", inside.display()),
    ] {
        let answer = controller.post("/sessions/agent", &body(outside.clone())).await?;
        assert_eq!(answer.status_and_code(), (403, "cwd_not_allowed".to_owned()), "{outside}");
    }
    assert_eq!(http.get("/sessions").await?.expect(200)?["sessions"], json!([]));
    controller
        .post("/sessions/agent", &body(inside.display().to_string()))
        .await?
        .expect(201)?;
    let by_slug = json!({ "adapter": "scripted", "workspaceSlug": "inside" });
    let session = controller.post("/sessions/agent", &by_slug).await?.expect(201)?;
    assert_eq!(session["workspaceSlug"], "inside");
    let refused = controller.post("/workspaces", &json!({ "slug": "x", "path": "/" })).await?;
    assert_eq!(refused.status_and_code(), (403, "admin_only".to_owned()));
    Ok(())
}

#[tokio::test]
async fn an_adapter_that_is_not_installed_is_501() -> Result<()> {
    let options = scripted_host(&[])?.with_agent("absent", &["/no/such/program".to_owned()]);
    let host = options.start_host()?;
    let http = RestClient::new(&host);
    let body = json!({ "adapter": "absent", "cwd": cwd(&host)? });
    assert_eq!(
        http.post("/sessions/agent", &body).await?.status_and_code(),
        (501, "adapter_not_installed".to_owned())
    );
    assert_eq!(http.get("/sessions").await?.expect(200)?["sessions"], json!([]));
    Ok(())
}

#[tokio::test]
async fn a_repeated_spawn_with_the_same_key_is_the_same_session() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let body = json!({ "adapter": "scripted", "cwd": cwd(&host)?, "prompt": "echo once" });
    let key = ("idempotency-key", "spawn-1");
    let (one, other) = tokio::join!(
        http.post_with("/sessions/agent", key, &body),
        http.post_with("/sessions/agent", key, &body)
    );
    let (one, other) = (one?, other?);
    let mut statuses = [one.status, other.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 201], "at the same time: one makes it");
    assert_eq!(
        (&one.json()["id"], &one.json()["promptId"]),
        (&other.json()["id"], &other.json()["promptId"])
    );
    let again = http.post_with("/sessions/agent", key, &body).await?;
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    let session = again.expect(200)?;
    let id = session["id"].as_str().context("no id")?;
    wait_until_idle(&http, id).await?;
    assert_eq!(output_lines(&http, id).await?, ["once", "── turn-end (end_turn) ──"]);
    let mut changed = body.clone();
    changed["prompt"] = "echo twice".into();
    let reused = http.post_with("/sessions/agent", key, &changed).await?;
    assert_eq!(reused.status_and_code(), (422, "idempotency_key_reused".to_owned()));
    assert_eq!(
        http.get("/sessions").await?.expect(200)?["sessions"].as_array().map(Vec::len),
        Some(1)
    );
    send_prompt(&http, id, "echo more").await?;
    Ok(())
}

#[tokio::test]
async fn odd_values_in_a_body_are_taken_as_written_or_refused_by_name() -> Result<()> {
    let record = tempfile::NamedTempFile::new()?;
    let host =
        scripted_host(&["--record", record.path().to_str().context("not UTF-8")?])?.start_host()?;
    let http = RestClient::new(&host);
    let here = json!(cwd(&host)?);
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for (member, words) in [
        (
            r#""mcpServers":[{"name":"a","n":123456789012345678901234567890}]"#.to_owned(),
            "mcpServers: `[0].n` is a number",
        ),
        (
            r#""mcpServers":[{"name":"a","name":"b"}]"#.to_owned(),
            "mcpServers: `[0].name` stands there twice",
        ),
        (
            r#""mcpServers":[{"name":"\ud83d"}]"#.to_owned(),
            "mcpServers: `[0].name` holds half a surrogate pair",
        ),
        (format!(r#""mcpServers":[{{"name":"a","n":{deep}}}]"#), "is nested deeper"),
        (r#""options":{"a":1e400}"#.to_owned(), "options: `a` is a number"),
        (r#""label":"\ud83d""#.to_owned(), "label: "),
    ] {
        let body = format!(r#"{{"adapter":"scripted","cwd":{here},{member}}}"#);
        let answer = http.send("POST", "/sessions/agent", &[JSON_HEADER], &body).await?;
        assert_eq!(
            answer.status_and_code(),
            (422, "invalid_params".to_owned()),
            "{member}: {}",
            answer.body
        );
        let problem = answer.json();
        assert!(
            problem["detail"].as_str().is_some_and(|detail| detail.contains(words)),
            "{member}: {problem}"
        );
    }
    let id = spawn_session(&http, &host).await?;
    let prompt =
        format!(r#"[{{"type":"text","text":"echo a","n":1e400,"d":{deep},"s":"\ud83d"}}]"#);
    let body = format!(r#"{{"prompt":{prompt},"metadata":1e400}}"#);
    http.send("POST", &format!("/sessions/{id}/prompt"), &[JSON_HEADER], &body)
        .await?
        .expect(200)?;
    wait_until_idle(&http, &id).await?;
    assert!(
        std::fs::read_to_string(record.path())?.contains(&prompt),
        "the agent has the blocks as they were written"
    );
    let call = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"prompt_agent_session","arguments":{{"sessionId":"{id}","prompt":{prompt}}}}}}}"#
    );
    let headers = [JSON_HEADER, ("accept", "application/json, text/event-stream")];
    let refused = http.send("POST", "/mcp", &headers, &call).await?;
    assert_eq!(refused.status_and_code(), (422, "invalid_params".to_owned()), "{}", refused.body);
    assert!(refused.body.contains("params.arguments.prompt[0].n"), "{}", refused.body);
    Ok(())
}
