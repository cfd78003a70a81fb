//! The OpenAPI document against the host that serves it: every answer to random requests is
//! documented.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::host::TestHost;
use wharf_testkit::http::{RestAnswer, RestClient};

use crate::openapi::{OpenApiDocument, Operation, pick_one};
use crate::rest::{
    caller_with_role, send_prompt, spawn_session, wait_for_session, wait_until_idle,
};
use crate::{add_scripted_agent, add_section, cwd, scripted_host};
use wharf_testkit::random::TestRandom;

/// The number of requests to each operation.
const REQUESTS_PER_OPERATION: usize = 30;

async fn fetch_document(http: &RestClient) -> Result<OpenApiDocument> {
    Ok(OpenApiDocument(http.get("/openapi.json").await?.expect(200)?))
}

/// Returns the routes that the tables of the protocol's page list in their first column, such as
/// `GET /sessions`.
fn routes_in_the_docs() -> Result<BTreeSet<String>> {
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocol/rest.md");
    let page = std::fs::read_to_string(page)?;
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let cells = rows.filter_map(|row| row.split(" | ").next());
    let names = cells.flat_map(|cell| cell.split('`'));
    let routes =
        names.filter(|name| name.split_once(' ').is_some_and(|(_, path)| path.starts_with('/')));
    Ok(routes
        .map(|route| route.split('?').next().unwrap_or(route).to_owned())
        .collect())
}

#[tokio::test]
async fn document_is_openapi_3_1_and_lists_the_routes_of_the_docs() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let document = fetch_document(&RestClient::new(&host)).await?;
    assert!(document.0["openapi"].as_str().is_some_and(|version| version.starts_with("3.1")));
    assert_eq!(document.0["info"]["title"], "Wharf");
    let operations = document.list_operations();
    let known = operations
        .iter()
        .map(|operation| format!("{} {}", operation.method, operation.path))
        .collect();
    let documented = routes_in_the_docs()?;
    assert!(documented.contains("GET /sessions/{id}/output"), "the page is read");
    let missing: Vec<_> = documented.symmetric_difference(&known).collect();
    assert!(
        missing.is_empty(),
        "in only one of /openapi.json and docs/protocol/rest.md: {missing:?}"
    );
    Ok(())
}

/// Adds the references of the document that lead nowhere.
fn find_dangling_references(document: &Value, value: &Value, found: &mut Vec<String>) {
    if let Some(place) = value["$ref"].as_str()
        && place.strip_prefix('#').is_none_or(|place| document.pointer(place).is_none())
    {
        found.push(place.to_owned());
    }
    let members = value.as_object().into_iter().flat_map(|object| object.values());
    for inner in members.chain(value.as_array().into_iter().flatten()) {
        find_dangling_references(document, inner, found);
    }
}

#[tokio::test]
async fn generators_of_clients_find_every_schema_and_every_event_of_a_stream() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let document = fetch_document(&RestClient::new(&host)).await?.0;
    let mut dangling = Vec::new();
    find_dangling_references(&document, &document, &mut dangling);
    assert_eq!(dangling, Vec::<String>::new(), "references that lead nowhere");
    let mut streams = 0;
    for operation in OpenApiDocument(document.clone()).list_operations() {
        let schema = &operation.about["responses"]["200"]["content"]["text/event-stream"]["schema"];
        let Some(place) = schema["$ref"].as_str().and_then(|place| place.strip_prefix('#')) else {
            continue;
        };
        streams += 1;
        let events = document
            .pointer(place)
            .and_then(|schema| schema["oneOf"].as_array())
            .context(place.to_owned())?;
        for event in events {
            let members = &event["properties"];
            assert_eq!(
                members["event"]["enum"].as_array().map(Vec::len),
                Some(1),
                "{place}: a name tells the data"
            );
            assert!(
                members["data"]["$ref"].is_string(),
                "{place}: the data of {} have no schema",
                members["event"]
            );
        }
    }
    assert!(streams >= 3, "only {streams} streams have a schema");
    Ok(())
}

/// Returns words with a meaning in this host, and others without one.
async fn sample_words(http: &RestClient, host: &TestHost) -> Result<Vec<String>> {
    let here = cwd(host)?;
    let (live, busy, dead) = (
        spawn_session(http, host).await?,
        spawn_session(http, host).await?,
        spawn_session(http, host).await?,
    );
    send_prompt(http, &live, "echo one; think two; tool").await?;
    wait_until_idle(http, &live).await?;
    send_prompt(http, &busy, "ask").await?;
    wait_for_session(http, &busy, "a question", |session| session["turn"] == "awaiting_input")
        .await?;
    let asks = http.get(&format!("/sessions/{busy}/asks")).await?.expect(200)?;
    let queued = json!({ "prompt": "echo queued", "queue": true });
    let queued = http.post(&format!("/sessions/{busy}/prompt"), &queued).await?.expect(200)?;
    http.post_empty(&format!("/sessions/{dead}/kill")).await?.expect(200)?;
    http.post("/workspaces", &json!({ "slug": "here", "path": here }))
        .await?
        .expect(201)?;
    let known = [live, busy.clone(), busy, dead, here, asks["asks"][0]["askId"].to_string()];
    let made = [
        "scripted",
        "broken",
        "here",
        "allow_once",
        "1-3",
        "1-4.1",
        "",
        "..",
        "../../x",
        "a b",
        "é😀",
        "%00",
        "\u{7}",
    ];
    let mut words: Vec<String> = known.into_iter().chain(made.map(str::to_owned)).collect();
    words.push(queued["promptId"].as_str().context("no id")?.to_owned());
    words.push("x".repeat(3000));
    Ok(words)
}

/// Encodes a word for a path or a query.
fn percent_encode(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    word.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

fn value_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Sends a request to this operation: as documented, or nearly.
async fn send_random_request(
    http: &RestClient,
    document: &OpenApiDocument,
    operation: &Operation<'_>,
    dice: &mut TestRandom,
    words: &[String],
) -> Result<(String, RestAnswer)> {
    let (mut path, mut query, mut headers) = (operation.path.to_owned(), Vec::new(), Vec::new());
    for parameter in operation.about["parameters"].as_array().into_iter().flatten() {
        let name = parameter["name"].as_str().context("no name")?;
        let mut value = document.make_value(&parameter["schema"], dice, words);
        if dice.next_number().is_multiple_of(5) {
            value = json!(pick_one(words, dice));
        }
        match parameter["in"].as_str() {
            Some("path") => {
                let word = pick_one(words, dice);
                let word = if word.is_empty() { "x" } else { word };
                path = path.replace(&format!("{{{name}}}"), &percent_encode(word));
            }
            Some("query") if dice.next_number().is_multiple_of(2) => {
                query.push(format!("{name}={}", percent_encode(&value_text(&value))))
            }
            Some("header") if dice.next_number().is_multiple_of(3) => {
                let value: String = value_text(&value)
                    .chars()
                    .filter(|c| c.is_ascii_graphic() || *c == ' ')
                    .collect();
                headers.push((name.to_owned(), value));
            }
            _ => {}
        }
    }
    if !query.is_empty() {
        path = format!("{path}?{}", query.join("&"));
    }
    let mut body = String::new();
    if operation.about.get("requestBody").is_some() {
        let mut value = document.make_value(
            &operation.about["requestBody"]["content"]["application/json"]["schema"],
            dice,
            words,
        );
        if dice.next_number().is_multiple_of(3) {
            OpenApiDocument::spoil(&mut value, dice);
        }
        // Most spawns pass the first check.
        if operation.path == "/sessions/agent"
            && value.is_object()
            && !dice.next_number().is_multiple_of(3)
        {
            value["adapter"] = "scripted".into();
            value["workspaceSlug"] = "here".into();
        }
        body = value.to_string();
        if dice.next_number().is_multiple_of(10) {
            body.pop();
        }
        if !dice.next_number().is_multiple_of(15) {
            headers.push(("content-type".to_owned(), "application/json".to_owned()));
        }
    }
    let headers: Vec<(&str, &str)> =
        headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let answer = http.send_until_stream(&operation.method, &path, &headers, &body).await?;
    let shown: String = format!("{} {path} {headers:?} {body}", operation.method)
        .chars()
        .take(600)
        .collect();
    Ok((shown, answer))
}

#[tokio::test]
async fn every_answer_to_any_request_is_documented() -> Result<()> {
    let options =
        add_scripted_agent(scripted_host(&["--resume"])?, "broken", &["--exit-on-start", "1"])?;
    let host = add_section(options, "[limits]\nsessions = 8\nqueue = 5").start_host()?;
    let http = RestClient::new(&host);
    let document = fetch_document(&http).await?;
    let words = sample_words(&http, &host).await?;
    let mut dice = TestRandom::from_environment()?;
    let mut operations = document.list_operations();
    operations.retain(|operation| operation.path != "/stop");
    // Deletions come last, so that the other operations find sessions.
    operations.sort_by_key(|operation| operation.method == "DELETE");
    let mut statuses = std::collections::BTreeSet::new();
    for operation in &operations {
        for _ in 0..REQUESTS_PER_OPERATION {
            let (shown, answer) =
                send_random_request(&http, &document, operation, &mut dice, &words).await?;
            statuses.insert(answer.status);
            operation.check(&document, &answer).with_context(|| shown)?;
        }
    }
    for expected in [200, 201, 400, 404, 409, 422] {
        assert!(statuses.contains(&expected), "the requests were too tame: {statuses:?}");
    }
    assert!(http.get("/readyz").await?.status == 200, "and the host is well");
    Ok(())
}

#[tokio::test]
async fn every_documented_route_requires_a_token() -> Result<()> {
    let host = add_section(scripted_host(&[])?, "[limits]\nfailed_logins = 1000").start_host()?;
    let document = fetch_document(&RestClient::new(&host)).await?;
    let (stranger, observer) =
        (RestClient::with_token(&host, "wrong"), caller_with_role(&host, "observer")?);
    for operation in document.list_operations() {
        let path = operation.path.replace(['{', '}'], "");
        let answer = stranger.send(&operation.method, &path, &[], "").await?;
        let open = operation.about.get("security").is_some();
        // A login has a body, which is checked first.
        let taken = if operation.method == "GET" { 200 } else { 415 };
        assert_eq!(answer.status, if open { taken } else { 401 }, "{} {path}", operation.method);
        operation.check(&document, &answer).with_context(|| path.clone())?;
        if operation.method != "GET" {
            let body = document.make_value(
                &operation.about["requestBody"]["content"]["application/json"]["schema"],
                &mut TestRandom::from_seed(1),
                &["word".to_owned()],
            );
            let json = [("content-type", "application/json")];
            let answer = observer.send(&operation.method, &path, &json, &body.to_string()).await?;
            // Observers may log themselves in and out, and have marks.
            let expected = match path.as_str() {
                "/sessions/id/seen" | "/sessions/id/mute" => 404,
                "/login" => 401,
                "/login/codes" if operation.method == "POST" => 422,
                "/login/codes" | "/logout" => 200,
                _ => 403,
            };
            assert_eq!(answer.status, expected, "{} {path}: {}", operation.method, answer.body);
            operation.check(&document, &answer).with_context(|| path.clone())?;
        }
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            let known = document
                .list_operations()
                .iter()
                .any(|known| known.path == operation.path && known.method == method);
            if !known {
                let answer = RestClient::new(&host).send(method, &path, &[], "").await?;
                assert_eq!(answer.status, 405, "{method} {path}");
                assert!(answer.header("allow").is_some());
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn checker_reports_an_undocumented_answer() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    let document = fetch_document(&http).await?;
    let operations = document.list_operations();
    let list = operations
        .iter()
        .find(|operation| operation.path == "/sessions")
        .context("no list")?;
    spawn_session(&http, &host).await?;
    let good = http.get("/sessions").await?;
    list.check(&document, &good)?;
    for (from, to) in [
        (r#""turn":"idle""#, r#""turn":"asleep""#),
        (r#""queued":0"#, r#""queued":"0""#),
        (r#""id":"sess_"#, r#""no":"sess_"#),
        (r#"{"sessions":"#, r#"{"session":"#),
    ] {
        let mut wrong = good.clone();
        wrong.body = wrong.body.replace(from, to);
        assert_ne!(wrong.body, good.body, "{from}");
        assert!(list.check(&document, &wrong).is_err(), "{to}");
    }
    for status in [418, 500] {
        assert!(list.check(&document, &RestAnswer { status, ..good.clone() }).is_err(), "{status}");
    }
    Ok(())
}
