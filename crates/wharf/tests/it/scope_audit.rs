//! An audit: a token of one workspace against the sessions of another, on every route of the
//! OpenAPI document, every method of ACP and every tool of MCP. Routes, methods and tools that are
//! added later are found automatically.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use wharf_testkit::client::TestClient;
use wharf_testkit::host::TestHost;
use wharf_testkit::http::{RestAnswer, RestClient};
use wharf_testkit::random::TestRandom;

use crate::mcp_client::Mcp;
use crate::openapi::{OpenApiDocument, Operation};
use crate::rest::{send_prompt, wait_for_session, wait_until_idle};
use crate::scopes::{register_workspace, start_session, workspace_caller};
use crate::{scripted_host, without_usage};

/// The source files that name and dispatch the methods of clients.
const METHOD_SOURCES: [&str; 4] = [
    include_str!("../../../wharf-server/src/acp/inbound.rs"),
    include_str!("../../../wharf-server/src/acp/methods/mod.rs"),
    include_str!("../../../wharf-server/src/acp/methods/table.rs"),
    include_str!("../../../wharf-server/src/acp/amux/requests.rs"),
];
/// The number of bodies that are tried on each operation.
const BODIES_PER_OPERATION: usize = 8;

/// The other workspace: a session with content of every kind, and an ended session.
struct OtherWorkspace {
    busy: String,
    cold: String,
    prompt: String,
    ask: String,
    cwd: String,
    login: String,
}

impl OtherWorkspace {
    async fn new(host: &TestHost) -> Result<Self> {
        let http = RestClient::new(host);
        let cwd = register_workspace(host, "quokka").await?;
        let more = json!({ "workspaceSlug": "quokka", "label": "wombat" });
        let id = |session: &Value| session["id"].as_str().map(str::to_owned).context("no id");
        let (busy, cold) =
            (id(&start_session(&http, &more).await?)?, id(&start_session(&http, &more).await?)?);
        for session in [&busy, &cold] {
            send_prompt(&http, session, "echo numbat; tool").await?;
            wait_until_idle(&http, session).await?;
        }
        send_prompt(&http, &busy, "ask").await?;
        wait_for_session(&http, &busy, "a question", |session| session["turn"] == "awaiting_input")
            .await?;
        let asks = http.get(&format!("/sessions/{busy}/asks")).await?.expect(200)?;
        let queued = json!({ "prompt": "echo bilby", "queue": true });
        let queued = http.post(&format!("/sessions/{busy}/prompt"), &queued).await?.expect(200)?;
        http.post_empty(&format!("/sessions/{cold}/kill")).await?.expect(200)?;
        let code = http
            .post("/login/codes", &json!({ "workspace": "quokka" }))
            .await?
            .expect(201)?;
        http.post("/login", &json!({ "code": code["code"] })).await?.expect(200)?;
        let logins = http.get("/logins").await?.expect(200)?;
        let login = logins["logins"][0]["id"].as_str().context("no login")?.to_owned();
        let (prompt, ask) =
            (queued["promptId"].as_str().context("no id")?.to_owned(), &asks["asks"][0]["askId"]);
        Ok(Self {
            busy,
            cold,
            prompt,
            ask: ask.to_string(),
            cwd: cwd.display().to_string(),
            login,
        })
    }

    /// Returns strings that no answer may contain, unless its request did.
    fn secret_words(&self) -> [&str; 9] {
        [
            "quokka",
            "wombat",
            "numbat",
            "bilby",
            &self.busy,
            &self.cold,
            &self.prompt,
            &self.cwd,
            &self.login,
        ]
    }

    fn check(&self, request: &str, answer: &str) -> Result<()> {
        for secret in self.secret_words().into_iter().filter(|secret| !request.contains(secret)) {
            ensure!(!answer.contains(secret), "{request} was answered with {secret}: {answer}");
        }
        Ok(())
    }

    /// Returns the state and the start parameters of these sessions: both are unchanged if nothing
    /// was done to them.
    async fn state(&self, host: &TestHost) -> Result<[(Value, String); 2]> {
        let http = RestClient::new(host);
        let kept = host.state_dir().join("workspaces/quokka/sessions");
        let one = async |id: &String| -> Result<(Value, String)> {
            let start = std::fs::read_to_string(kept.join(id).join("start.json"))?;
            Ok((without_usage(http.get(&format!("/sessions/{id}")).await?.expect(200)?), start))
        };
        Ok([one(&self.busy).await?, one(&self.cold).await?])
    }
}

async fn start_audited_host() -> Result<(TestHost, OtherWorkspace, RestClient)> {
    let host = scripted_host(&[])?.start_host()?;
    let others = OtherWorkspace::new(&host).await?;
    register_workspace(&host, "here").await?;
    let own = workspace_caller(&host, "here")?;
    Ok((host, others, own))
}

/// Returns the path with the other workspace's names in it.
fn operation_path(
    operation: &Operation<'_>,
    others: &OtherWorkspace,
    session: &str,
) -> Result<String> {
    let names = [
        ("id", session),
        ("promptId", &others.prompt),
        ("askId", &others.ask),
        ("slug", "quokka"),
        ("row", "1-2"),
        ("blob", "b3_0"),
        ("loginId", &others.login),
    ];
    let path = names.iter().fold(operation.path.to_owned(), |path, (name, value)| {
        path.replace(&format!("{{{name}}}"), value)
    });
    ensure!(
        !path.contains('{'),
        "{path} has a name that this test does not know: give it one of the other workspace"
    );
    Ok(path)
}

/// Sends a request and returns its whole answer, or the first event of an event stream.
async fn send_request(
    http: &RestClient,
    method: &str,
    path: &str,
    body: &str,
) -> Result<RestAnswer> {
    let headers: &[(&str, &str)] =
        if body.is_empty() { &[] } else { &[("content-type", "application/json")] };
    let mut answer = http.send_until_stream(method, path, headers, body).await?;
    if answer.header("content-type") == Some("text/event-stream") {
        answer.body = format!("{:?}", http.open_stream(path, None).await?.next().await?);
    }
    Ok(answer)
}

fn is_refused(operation: &Operation<'_>, answer: &RestAnswer) -> bool {
    let gone = operation.method == "DELETE" && answer.status == 200 && answer.json()["ok"] == false;
    gone || matches!(answer.status, 400 | 403 | 404 | 415 | 422)
}

#[tokio::test]
async fn no_route_reads_or_changes_another_workspace() -> Result<()> {
    let (host, others, own) = start_audited_host().await?;
    let before = others.state(&host).await?;
    let document = OpenApiDocument(own.get("/openapi.json").await?.expect(200)?);
    // Bodies that are kept would be shown again, so they name nothing of the other workspace; the
    // following ones do and are refused.
    let words = ["scripted", "here", "mine"].map(str::to_owned);
    let naming = json!([
        { "adapter": "scripted", "workspaceSlug": "quokka" },
        { "adapter": "scripted", "cwd": others.cwd },
        { "adapter": "scripted", "additionalDirectories": [others.cwd] },
        { "prompt": "echo mine", "queue": true, "cancel": true, "slug": "quokka", "workspace": "quokka" },
    ]);
    let mut dice = TestRandom::from_seed(7);
    let mut seen = 0;
    for operation in document.list_operations() {
        let schema = &operation.about["requestBody"]["content"]["application/json"]["schema"];
        let mut bodies = vec![String::new()];
        if !schema.is_null() {
            let made = (0..BODIES_PER_OPERATION)
                .map(|_| document.make_value(schema, &mut dice, &words).to_string());
            bodies = made
                .chain(naming.as_array().into_iter().flatten().map(Value::to_string))
                .collect();
        }
        for session in [&others.busy, &others.cold] {
            for body in &bodies {
                let path = operation_path(&operation, &others, session)?;
                let asked = format!("{} {path} {body}", operation.method);
                let answer = send_request(&own, &operation.method, &path, body).await?;
                others.check(&asked, &answer.body)?;
                let about_others = operation.path.contains('{');
                ensure!(
                    !about_others || is_refused(&operation, &answer),
                    "{asked}: {} {}",
                    answer.status,
                    answer.body
                );
                if about_others && answer.status == 404 {
                    let code = answer.status_and_code().1;
                    ensure!(
                        ["unknown_session", "unknown_workspace", "unknown_login"]
                            .contains(&code.as_str()),
                        "{asked}: {code}"
                    );
                }
                ensure!(
                    answer.status < 500 || answer.status == 501 || answer.status == 502,
                    "{asked}: {}",
                    answer.body
                );
                seen += 1;
            }
        }
    }
    assert!(seen > 60, "only {seen} requests");
    for path in ["/host", "/metrics"] {
        assert_eq!(own.get(path).await?.status_and_code(), (403, "host_only".to_owned()), "{path}");
    }
    for (method, path) in [
        ("POST", "/stop"),
        ("DELETE", "/workspaces/here"),
        ("POST", "/workspaces"),
        ("PUT", "/workspaces/active"),
    ] {
        let answer = own
            .send(
                method,
                path,
                &[("content-type", "application/json")],
                r#"{"slug":"here","path":"/"}"#,
            )
            .await?;
        assert_eq!(answer.status_and_code(), (403, "admin_only".to_owned()), "{path}");
    }
    assert_eq!(others.state(&host).await?, before);
    Ok(())
}

/// Returns every method that the source dispatches.
fn dispatched_methods() -> BTreeSet<&'static str> {
    let quoted = METHOD_SOURCES.iter().flat_map(|source| source.split('"').skip(1).step_by(2));
    let is_method = |word: &&str| {
        let known = ["session/", "_wharf/", "amux/", "$/"]
            .iter()
            .any(|prefix| word.starts_with(prefix));
        (known && !word.ends_with('/')) || ["initialize", "authenticate", "logout"].contains(word)
    };
    quoted
        .filter(is_method)
        .chain(["session/set_mode", "session/fork", "_other/thing"])
        .collect()
}

#[tokio::test]
async fn no_acp_method_reads_or_changes_another_workspace() -> Result<()> {
    let (host, others, own) = start_audited_host().await?;
    let before = others.state(&host).await?;
    let methods = dispatched_methods();
    ensure!(
        methods.len() > 20 && methods.contains("session/attach"),
        "the source is not read well: {methods:?}"
    );
    let client = TestClient::connect(&host.ws_url(), own.token()).await?;
    client.initialize().await?;
    for session in [&others.busy, &others.cold] {
        let params = json!({
            "sessionId": session, "cwd": others.cwd, "mcpServers": [{ "name": "x", "command": "/bin/true", "args": [], "env": [] }],
            "prompt": [{ "type": "text", "text": "echo mine" }], "promptId": others.prompt, "index": 0, "modeId": "x",
            "historyPolicy": "full", "queueItemId": others.prompt, "text": "echo mine", "_meta": { "wharf": { "all": true, "force": true } },
        });
        for method in &methods {
            let asked = format!("{method} {params}");
            let answer = client.call_method(method, params.clone()).await;
            others.check(&asked, &format!("{answer:?}"))?;
            let harmless = match *method {
                "session/status" => {
                    answer.as_ref().is_ok_and(|answer| answer["status"] == "not_found")
                }
                "session/list" => {
                    answer.as_ref().is_ok_and(|answer| answer["sessions"] == json!([]))
                }
                // Unknown ids succeed here, and these requests concern the client's own agent.
                "session/delete" => answer == Ok(json!({})),
                "initialize" | "authenticate" | "_other/thing" => true,
                _ => answer.is_err(),
            };
            ensure!(harmless, "{asked}: {answer:?}");
            client.send_notification(method, params.clone()).await;
        }
    }
    // The answer comes after all of those notifications.
    client
        .call_method("session/list", json!({ "_meta": { "wharf": { "all": true } } }))
        .await?;
    for frame in client.received_frames() {
        ensure!(frame.method().is_empty(), "something came by itself: {}", frame.raw);
    }
    assert_eq!(others.state(&host).await?, before);
    Ok(())
}

#[tokio::test]
async fn no_acp_http_stream_reads_another_workspace() -> Result<()> {
    let (host, others, own) = start_audited_host().await?;
    let before = others.state(&host).await?;
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}"#;
    let json = ("content-type", "application/json");
    let connection = async |http: &RestClient| -> Result<String> {
        let answer = http.send("POST", "/acp", &[json], hello).await?;
        Ok(answer.header("acp-connection-id").context("no id")?.to_owned())
    };
    let (mine, theirs) = (connection(&own).await?, connection(&RestClient::new(&host)).await?);
    let listen = async |id: &str, more: &[(&str, &str)]| -> Result<RestAnswer> {
        let headers =
            [&[("accept", "text/event-stream"), ("acp-connection-id", id)], more].concat();
        own.send_until_stream("GET", "/acp", &headers, "").await
    };
    for after in ["1-1", "1-4", "1-5.1"] {
        let answer =
            listen(&mine, &[("acp-session-id", &others.busy), ("last-event-id", after)]).await?;
        assert_eq!(answer.status, 409, "{answer:?}");
        others.check(&others.busy, &answer.body)?;
    }
    assert_eq!(listen(&theirs, &[]).await?.status, 404, "another's connection");
    assert_eq!(others.state(&host).await?, before);
    Ok(())
}

#[tokio::test]
async fn no_mcp_tool_reads_or_changes_another_workspace() -> Result<()> {
    let (host, others, own) = start_audited_host().await?;
    let before = others.state(&host).await?;
    let mut mcp = Mcp::over_http(own);
    let listed = mcp.call_method("tools/list", json!({})).await?.answer;
    let listed = listed["result"]["tools"].as_array().context("no tools")?;
    ensure!(listed.len() >= 8, "{listed:?}");
    let names = listed.iter().filter_map(|tool| tool["name"].as_str()).map(|name| (name, name));
    let aliases = [
        ("agent_start", "start_agent_session"),
        ("agent_prompt", "prompt_agent_session"),
        ("agent_sessions_list", "list_agent_sessions"),
        ("agent_output", "get_agent_session_output"),
        ("agent_kill", "kill_agent_session"),
    ];
    for session in [&others.busy, &others.cold] {
        for (tool, canonical) in names.clone().chain(aliases) {
            let ask: u64 = others.ask.parse()?;
            let mut arguments = json!({
                "sessionId": session, "prompt": "echo mine", "queue": true, "askId": ask, "cancel": true, "timeoutSeconds": 1,
                "adapter": "scripted", "workspaceSlug": "quokka", "query": "numbat",
            });
            // An argument that the tool does not have would be refused for that reason alone.
            let schema =
                listed.iter().find(|known| known["name"] == canonical).context("no schema")?;
            let has = |name: &str| schema["inputSchema"]["properties"].get(name).is_some();
            arguments.as_object_mut().context("no arguments")?.retain(|name, _| has(name));
            let asked = format!("{tool} {arguments}");
            let result = mcp.call_for_result(tool, arguments).await?;
            others.check(&asked, &result.to_string())?;
            let lists = ["list_agent_sessions", "agent_sessions_list"].contains(&tool);
            let empty = result["structuredContent"]["sessions"] == json!([]);
            // The agents of the host belong to no workspace.
            let is_about_agents = tool == "list_agents";
            ensure!(
                if lists { empty } else { is_about_agents || result["isError"] == true },
                "{asked}: {result}"
            );
        }
    }
    assert_eq!(others.state(&host).await?, before);
    Ok(())
}
