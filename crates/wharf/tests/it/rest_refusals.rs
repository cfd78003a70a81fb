//! AIP-46 over HTTP: refusals in plain words, and requests that must not be taken for others (rule
//! 8.2).

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::http::RestClient;

use crate::openapi::OpenApiDocument;
use crate::rest::spawn_session;
use crate::{cwd, scripted_host};

const JSON_HEADER: (&str, &str) = ("content-type", "application/json");

/// Words of the library that reads JSON, which mean nothing to a caller.
const LIBRARY_WORDS: [&str; 8] = [
    "missing field",
    "invalid type",
    "invalid value",
    "expected",
    "unknown variant",
    "struct",
    "usize",
    "at line",
];

#[tokio::test]
async fn a_cursor_that_no_page_returned_is_refused() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let (_, newest) = (spawn_session(&http, &host).await?, spawn_session(&http, &host).await?);
    for cursor in ["zzz", "", "sess_", "sess_none", "1-3", "sess_01KB2QZ3M4N5P6R7S8T9V0W1X2Y"] {
        let answer = http.get(&format!("/sessions?cursor={cursor}")).await?;
        assert_eq!(
            answer.status_and_code(),
            (422, "invalid_params".to_owned()),
            "{cursor}: {}",
            answer.body
        );
    }
    let page = http.get("/sessions?limit=1").await?.expect(200)?;
    assert_eq!(page["nextCursor"], json!(newest));
    http.post_empty(&format!("/sessions/{newest}/kill")).await?.expect(200)?;
    http.send("DELETE", &format!("/sessions/{newest}"), &[], "")
        .await?
        .expect(200)?;
    let rest = http.get(&format!("/sessions?cursor={newest}")).await?.expect(200)?;
    assert_eq!(
        rest["sessions"].as_array().map(Vec::len),
        Some(1),
        "the session of a cursor may be gone: {rest}"
    );
    Ok(())
}

#[tokio::test]
async fn a_query_name_that_a_route_does_not_know_is_refused() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let document = OpenApiDocument(http.get("/openapi.json").await?.expect(200)?);
    for operation in document.list_operations() {
        if operation.path == "/stop" {
            continue;
        }
        let path = operation.path.replace("{id}", &id).replace(['{', '}'], "");
        let answer = http
            .send(&operation.method, &format!("{path}?colour=red"), &[JSON_HEADER], "{}")
            .await?;
        let shown = format!("{} {path}: {}", operation.method, answer.body);
        assert_eq!(answer.status_and_code(), (400, "unknown_parameter".to_owned()), "{shown}");
        operation.check(&document, &answer).with_context(|| shown)?;
    }
    let answer = http.get("/sessions?limit=1&Label=x").await?;
    let detail = answer.json()["detail"].as_str().unwrap_or_default().to_owned();
    assert!(
        detail.contains("\"Label\"") && detail.contains("label"),
        "the known names are told: {detail}"
    );
    http.get("/sessions?limit=1&label=a%26colour%3Dred").await?.expect(200)?;
    // Only the stream of lines has a choice of lines.
    let answer = http.get(&format!("/sessions/{id}/rows/stream?include=plans")).await?;
    assert_eq!(answer.status_and_code(), (400, "unknown_parameter".to_owned()));
    Ok(())
}

#[tokio::test]
async fn an_array_is_not_taken_for_an_object() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let here = cwd(&host)?;
    for (path, body) in [
        (
            "/sessions/agent".to_owned(),
            json!(["scripted", null, here, null, null, null, null, null, null, null]),
        ),
        (format!("/sessions/{id}/prompt"), json!(["echo x", null, null])),
        (format!("/sessions/{id}/resume"), json!([null, null])),
        (format!("/sessions/{id}/asks/1"), json!(["allow_once", null, null, null])),
        ("/workspaces".to_owned(), json!(["slug", here, null])),
        ("/login/codes".to_owned(), json!([null, null, null])),
        ("/login".to_owned(), json!(["code"])),
    ] {
        let answer = http.post(&path, &body).await?;
        assert_eq!(
            answer.status_and_code(),
            (422, "invalid_params".to_owned()),
            "{path}: {}",
            answer.body
        );
        let detail = answer.json()["detail"].clone();
        assert_eq!(detail, "the body must be an object, not a list", "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn the_detail_of_a_refusal_names_the_member_in_plain_words() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let spawn = |body: Value| ("POST", "/sessions/agent".to_owned(), body.to_string());
    let get = |path: &str| ("GET", path.to_owned(), String::new());
    for ((method, path, body), expected) in [
        (spawn(json!({})), "adapter: is missing"),
        (spawn(json!({ "adapter": 7 })), "adapter: must be a text, not a number"),
        (spawn(json!({ "adapter": null })), "adapter: must be a text, not null"),
        (
            spawn(json!({ "adapter": "a", "env": { "A": 1 } })),
            "env.A: must be a text, not a number",
        ),
        (spawn(json!({ "adapter": "a", "env": [] })), "env: must be an object, not a list"),
        (
            spawn(json!({ "adapter": "a", "mcpServers": "x" })),
            "mcpServers: must be a list, not a text",
        ),
        (
            spawn(json!({ "adapter": "a", "additionalDirectories": [5] })),
            "additionalDirectories[0]: must be a text, not a number",
        ),
        (spawn(json!("text")), "the body must be an object, not a text"),
        (spawn(json!(null)), "the body must be an object, not null"),
        (
            (
                "POST",
                format!("/sessions/{id}/prompt"),
                json!({ "prompt": "x", "queue": "yes" }).to_string(),
            ),
            "queue: must be true or false, not a text",
        ),
        (
            ("POST", format!("/sessions/{id}/asks/1"), json!({ "action": "shout" }).to_string()),
            "action: ",
        ),
        (
            ("PATCH", format!("/sessions/{id}/queue/p"), json!({ "position": -1 }).to_string()),
            "position: must be a whole number, not -1",
        ),
        (("POST", "/login".to_owned(), json!({}).to_string()), "code: is missing"),
        (("POST", "/sessions/agent".to_owned(), "{\"adapter\"".to_owned()), "not JSON: "),
        (("POST", "/sessions/agent".to_owned(), "{adapter}".to_owned()), "not JSON: "),
        (get("/sessions?limit=many"), "limit: must be a whole number"),
        (get("/sessions?limit="), "limit: must be a whole number"),
        (get("/sessions?limit=99999999999999999999"), "limit: "),
        (get("/sessions?alive=yes"), "alive: must be true or false"),
        (
            get("/sessions?status=dead"),
            "status: must be one of starting, running, exited, killed, error",
        ),
        (get("/sessions?limit=1&limit=2"), "limit: is there twice"),
    ] {
        let answer = http.send(method, &path, &[JSON_HEADER], &body).await?;
        let detail = answer.json()["detail"].as_str().unwrap_or_default().to_owned();
        assert!([400, 422].contains(&answer.status), "{method} {path} {body}: {}", answer.body);
        assert!(detail.starts_with(expected), "{method} {path} {body}: {detail:?}");
        let alien = LIBRARY_WORDS.iter().find(|word| detail.contains(**word));
        assert_eq!(alien, None, "{method} {path} {body}: {detail:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_spawn_with_a_damaged_registry_is_refused_as_documented() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let document = OpenApiDocument(http.get("/openapi.json").await?.expect(200)?);
    std::fs::write(host.state_dir().join("workspaces.json"), "{")?;
    for (path, body) in [
        ("/sessions/agent", json!({ "adapter": "scripted", "workspaceSlug": "here" })),
        ("/login/codes", json!({ "workspace": "here" })),
        ("/login/codes", json!({ "workspace": "default" })),
    ] {
        let answer = http.post(path, &body).await?;
        assert_eq!(
            answer.status_and_code(),
            (500, "registry_damaged".to_owned()),
            "{path}: {}",
            answer.body
        );
        let operations = document.list_operations();
        let operation =
            operations.iter().find(|known| known.method == "POST" && known.path == path);
        operation
            .context("no such operation")?
            .check(&document, &answer)
            .context(path)?;
    }
    Ok(())
}

#[tokio::test]
async fn the_default_workspace_of_an_answer_is_accepted_in_a_request() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let id = spawn_session(&http, &host).await?;
    let session = http.get(&format!("/sessions/{id}")).await?.expect(200)?;
    let again = json!({ "adapter": "scripted", "cwd": session["cwd"], "workspaceSlug": session["workspaceSlug"] });
    let twin = http.post("/sessions/agent", &again).await?.expect(201)?;
    assert_eq!((&twin["workspaceSlug"], &twin["cwd"]), (&json!("default"), &session["cwd"]));
    let login = http.post("/login/codes", &json!({ "workspace": "default" })).await?;
    assert_eq!(
        login.status_and_code(),
        (422, "unknown_workspace".to_owned()),
        "no login is for it alone"
    );
    let listed = http.get("/sessions?workspace=default").await?.expect(200)?;
    assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(2));
    Ok(())
}

#[tokio::test]
async fn a_living_session_that_can_come_back_is_resumable() -> Result<()> {
    for (flags, resumable) in [(&["--resume"][..], true), (&["--no-load"], false)] {
        let host = scripted_host(flags)?.start_host()?;
        let http = RestClient::new(&host);
        let id = spawn_session(&http, &host).await?;
        let alive = http.get(&format!("/sessions/{id}")).await?.expect(200)?;
        assert_eq!(
            (&alive["status"], &alive["resumable"]),
            (&json!("running"), &json!(resumable)),
            "{flags:?}"
        );
        http.post_empty(&format!("/sessions/{id}/kill")).await?.expect(200)?;
        let dead = http.get(&format!("/sessions/{id}")).await?.expect(200)?;
        assert_eq!(
            (&dead["status"], &dead["resumable"]),
            (&json!("killed"), &json!(resumable)),
            "{flags:?}"
        );
    }
    Ok(())
}
