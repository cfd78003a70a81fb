//! Agents that start other agents: permission, depth, number, directories, and control of the
//! children (newer AIP-46).

use std::fs;
use std::os::unix::fs::symlink;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use wharf_testkit::client::TestClient;
use wharf_testkit::host::{HostOptions, TestHost};
use wharf_testkit::http::RestClient;
use wharf_testkit::{WAIT_LIMIT, polling, processes};

use crate::identity::{CallingAgent, list_ids, run_verb_in_agent, token_of};
use crate::mcp_client::Mcp;
use crate::rest::{output_lines, spawn_session, wait_for_session, wait_until_idle};
use crate::{
    add_scripted_agent, add_section, connect_client, cwd, expect_error, log, scripted_host,
};

const TURN_END: &str = "── turn-end (end_turn) ──";

/// Lets agents called `scripted_host` start agents called `child`, which may start further ones
/// within the depth limit.
pub(crate) fn configure_delegation(settings: &str) -> Result<HostOptions> {
    let options = add_scripted_agent(scripted_host(&["--resume"])?, "child", &["--resume"])?;
    let allow = "allow = { scripted = [\"child\"], child = [\"child\"] }";
    Ok(add_section(options, &format!("[delegation]\n{allow}\n{settings}")))
}

/// A session whose agent calls the host over HTTP.
struct ParentSession {
    agent: CallingAgent,
    http: RestClient,
    mcp: Mcp,
}

impl ParentSession {
    async fn new(host: &TestHost) -> Result<Self> {
        let agent = CallingAgent::new(host).await?;
        let http = agent.http(host).await?;
        Ok(Self { agent, mcp: Mcp::over_http(http.clone()), http })
    }

    fn id(&self) -> &str {
        &self.agent.session
    }

    async fn start_child(&self) -> Result<String> {
        let child = self
            .http
            .post("/sessions/agent", &json!({ "adapter": "child" }))
            .await?
            .expect(201)?;
        Ok(child["id"].as_str().context("no id")?.to_owned())
    }

    /// Checks that both requests that start a child are refused with this status and code.
    async fn is_refused(&mut self, wanted: &Value, status: u16, code: &str) -> Result<()> {
        assert_eq!(
            self.http.post("/sessions/agent", wanted).await?.status_and_code(),
            (status, code.to_owned()),
            "{wanted}"
        );
        for tool in ["start_agent_session", "agent_start"] {
            assert_eq!(self.mcp.call_for_refusal(tool, wanted.clone()).await?.0, code, "{wanted}");
        }
        Ok(())
    }
}

/// Returns the number of sessions with a log, and of processes.
fn count_sessions_and_processes(host: &TestHost) -> Result<(usize, usize)> {
    Ok((log::all_sessions(host)?.len(), processes::list_descendants(host.pid()).len()))
}

/// Returns a caller with the current token of a session's agent.
async fn agent_caller(host: &TestHost, session: &str) -> Result<RestClient> {
    let client = connect_client(host).await?;
    client.load_session(session, &cwd(host)?).await?;
    Ok(RestClient::with_token(host, &token_of(&client, session, host).await?))
}

#[tokio::test]
async fn delegation_is_off_by_default() -> Result<()> {
    let host = add_scripted_agent(scripted_host(&[])?, "child", &[])?.start_host()?;
    let mut parent = ParentSession::new(&host).await?;
    let before = count_sessions_and_processes(&host)?;
    for wanted in [
        json!({ "adapter": "child" }),
        json!({ "adapter": "scripted" }),
        json!({ "adapter": "no such" }),
    ] {
        parent.is_refused(&wanted, 403, "delegation_denied").await?;
    }
    assert_eq!(count_sessions_and_processes(&host)?, before, "something was made");
    Ok(())
}

#[tokio::test]
async fn an_agent_starts_a_child_works_with_it_and_ends_it() -> Result<()> {
    let host = configure_delegation("")?.start_host()?;
    let mut parent = ParentSession::new(&host).await?;
    let start = json!({ "adapter": "child", "prompt": "echo first", "label": "helper" });
    let child = parent.mcp.call_tool("agent_start", start).await?;
    let id = child["id"].as_str().context("no id")?.to_owned();
    assert_eq!((&child["parentSessionId"], &child["depth"]), (&json!(parent.id()), &json!(1)));
    assert_eq!(child["cwd"], fs::canonicalize(host.directory())?.to_str().context("odd")?);
    let mcp = &mut parent.mcp;
    mcp.call_tool("wait_agent_session", json!({ "sessionId": id })).await?;
    mcp.call_tool("agent_prompt", json!({ "sessionId": id, "prompt": "echo second" }))
        .await?;
    mcp.call_tool("wait_agent_session", json!({ "sessionId": id })).await?;
    let told = mcp.call_tool("agent_output", json!({ "sessionId": id })).await?;
    assert_eq!(told["lines"], json!(["first", TURN_END, "second", TURN_END]));
    let listed = mcp.call_tool("agent_sessions_list", json!({})).await?;
    assert_eq!(list_ids(&listed), [&id, &parent.agent.session]);
    assert_eq!(mcp.call_tool("agent_kill", json!({ "sessionId": id })).await?["ok"], true);
    assert_eq!(
        mcp.call_for_refusal("agent_prompt", json!({ "sessionId": id, "prompt": "again" }))
            .await?
            .0,
        "killed"
    );

    // The log records the ancestry and the session whose agent acted.
    let origin = log::list_events(&host, &id, "created")?.remove(0)["origin"].take();
    assert_eq!(
        (&origin["lineage"], &origin["by"]["parent"]),
        (&json!([parent.id()]), &json!(parent.id()))
    );
    let prompts = log::list_events(&host, &id, "prompt_accepted")?;
    ensure!(prompts.iter().all(|prompt| prompt["sender"]["parent"] == parent.id()), "{prompts:?}");
    // Every surface shows the ancestry; a session of the user has none.
    let user = RestClient::new(&host);
    let listed = user.get("/sessions").await?.expect(200)?;
    assert_eq!(listed["sessions"][0]["parentSessionId"], parent.id());
    assert!(
        listed["sessions"][1].get("parentSessionId").is_none()
            && listed["sessions"][1].get("depth").is_none()
    );
    let all = json!({ "_meta": { "wharf": { "all": true } } });
    let listed = parent.agent.client.call_method("session/list", all).await?;
    let meta = &listed["sessions"][0]["_meta"]["wharf"];
    assert_eq!((&meta["parentSessionId"], &meta["depth"]), (&json!(parent.id()), &json!(1)));
    let shown = crate::program::wharf_command(&["show", &id, "--state-dir"])
        .arg(host.state_dir())
        .output()?;
    let shown = String::from_utf8(shown.stdout)?;
    ensure!(shown.contains(&format!("parent\t{}\ndepth\t1\n", parent.id())), "{shown}");
    Ok(())
}

#[tokio::test]
async fn process_of_an_agent_delegates_without_a_token() -> Result<()> {
    let host = configure_delegation("")?.start_host()?;
    let agent = CallingAgent::new(&host).await?;
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params":
        { "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } } });
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let arguments = json!({ "adapter": "child", "prompt": "echo from below" });
    let start = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params":
        { "name": "agent_start", "arguments": arguments } });
    let said = run_verb_in_agent(&host, &agent, "mcp --no-start", &[hello, ready, start]).await?;
    ensure!(said.contains(&format!(r#""parentSessionId":"{}""#, agent.session)), "{said}");
    let socket = format!("'{}'", host.socket_path().display());
    let body = r#"'{"adapter":"child"}'"#;
    // Over the socket the agent is recognised whatever token it sends.
    let (status, child) = agent
        .call("env -i", &format!("{socket} POST /sessions/agent {} {body}", host.token()))
        .await?;
    assert_eq!((status, &child["parentSessionId"]), (201, &json!(agent.session)));
    let (_, refused) = agent
        .call(
            "",
            &format!(
                r#"{socket} POST /sessions/agent {} '{{"adapter":"scripted"}}'"#,
                host.token()
            ),
        )
        .await?;
    assert_eq!(refused["code"], "delegation_denied");
    Ok(())
}

#[tokio::test]
async fn forbidden_delegation_is_refused_and_creates_no_session() -> Result<()> {
    let host = configure_delegation("max_depth = 1")?.start_host()?;
    let outside = tempfile::tempdir()?;
    let inside = host.directory().join("inside");
    fs::create_dir(&inside)?;
    let link = host.directory().join("link");
    symlink(outside.path(), &link)?;
    let mut parent = ParentSession::new(&host).await?;
    let before = count_sessions_and_processes(&host)?;
    parent
        .is_refused(&json!({ "adapter": "scripted" }), 403, "delegation_denied")
        .await?;
    for (member, value) in [
        ("mode", json!("auto")),
        ("options", json!({ "model": "large" })),
        ("mcpServers", json!([{ "name": "x", "command": "sh", "args": [], "env": [] }])),
    ] {
        parent
            .is_refused(&json!({ "adapter": "child", member: value }), 403, "delegation_denied")
            .await?;
    }
    let up = format!("{}/../..", inside.display());
    for cwd in [outside.path().to_str().context("odd")?, "/", &up, link.to_str().context("odd")?] {
        parent
            .is_refused(&json!({ "adapter": "child", "cwd": cwd }), 403, "cwd_outside_parent")
            .await?;
        let more =
            json!({ "adapter": "child", "cwd": inside, "additionalDirectories": [inside, cwd] });
        parent.is_refused(&more, 403, "cwd_outside_parent").await?;
    }
    let elsewhere = json!({ "adapter": "child", "workspaceSlug": "elsewhere" });
    parent.is_refused(&elsewhere, 403, "cwd_outside_parent").await?;
    for cwd in ["relative", "/no/such/directory"] {
        parent
            .is_refused(&json!({ "adapter": "child", "cwd": cwd }), 422, "invalid_cwd")
            .await?;
    }
    assert_eq!(count_sessions_and_processes(&host)?, before, "something was made");

    let wanted =
        json!({ "adapter": "child", "cwd": inside, "env": { "LANG": "xx", "PATH": "/nowhere" } });
    let child = parent.http.post("/sessions/agent", &wanted).await?.expect(201)?;
    assert_eq!(child["cwd"], fs::canonicalize(&inside)?.to_str().context("odd")?);
    let child = child["id"].as_str().context("no id")?;
    let start = json!({ "prompt": "env LANG" });
    parent
        .http
        .post(&format!("/sessions/{child}/prompt"), &start)
        .await?
        .expect(200)?;
    wait_until_idle(&parent.http, child).await?;
    ensure!(
        !output_lines(&parent.http, child).await?.contains(&"LANG=xx".to_owned()),
        "it got its parent's variable"
    );
    // A depth of one is the limit.
    let http = agent_caller(&host, child).await?;
    let mut below = Mcp::over_http(http.clone());
    let before = count_sessions_and_processes(&host)?;
    let wanted = json!({ "adapter": "child" });
    assert_eq!(
        http.post("/sessions/agent", &wanted).await?.status_and_code(),
        (403, "max_depth_exceeded".to_owned())
    );
    assert_eq!(below.call_for_refusal("agent_start", wanted).await?.0, "max_depth_exceeded");
    assert_eq!(count_sessions_and_processes(&host)?, before, "something was made");
    Ok(())
}

#[tokio::test]
async fn child_cannot_start_outside_through_a_replaced_directory() -> Result<()> {
    let host = configure_delegation("max_depth = 1")?.start_host()?;
    let (outside, work) = (tempfile::tempdir()?, host.directory().join("work"));
    fs::create_dir(&work)?;
    let agent = CallingAgent::in_directory(&host, work.to_str().context("odd")?).await?;
    let http = agent.http(&host).await?;
    let child = json!({ "adapter": "child" });
    http.post("/sessions/agent", &child).await?.expect(201)?;
    let before = log::all_sessions(&host)?.len();
    fs::rename(&work, host.directory().join("moved"))?;
    symlink(outside.path(), &work)?;
    for cwd in [json!(null), json!(work), json!(outside.path())] {
        let wanted = json!({ "adapter": "child", "cwd": cwd });
        assert_eq!(
            http.post("/sessions/agent", &wanted).await?.status_and_code(),
            (403, "cwd_outside_parent".to_owned()),
            "{cwd}"
        );
    }
    assert_eq!(log::all_sessions(&host)?.len(), before, "something was made");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn simultaneous_starts_stay_within_the_quota() -> Result<()> {
    let host = configure_delegation("max_children = 3")?.start_host()?;
    let mut parent = ParentSession::new(&host).await?;
    let mut starting = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let http = parent.http.clone();
        starting.spawn(async move {
            http.post("/sessions/agent", &json!({ "adapter": "child" })).await
        });
    }
    let (mut started, mut refusals) = (Vec::new(), 0);
    while let Some(answer) = starting.join_next().await {
        let answer = answer??;
        match answer.status {
            201 => started.push(answer.json()["id"].as_str().context("no id")?.to_owned()),
            _ => {
                assert_eq!(answer.status_and_code(), (429, "child_quota_exceeded".to_owned()));
                refusals += 1;
            }
        }
    }
    assert_eq!((started.len(), refusals), (3, 7));
    let before = count_sessions_and_processes(&host)?;
    assert_eq!(before.0, 4);
    parent
        .is_refused(&json!({ "adapter": "child" }), 429, "child_quota_exceeded")
        .await?;
    assert_eq!(count_sessions_and_processes(&host)?, before, "something was made");
    // Ended children do not count, and another session has its own quota.
    parent
        .http
        .post_empty(&format!("/sessions/{}/kill", started[0]))
        .await?
        .expect(200)?;
    parent.start_child().await?;
    ParentSession::new(&host).await?.start_child().await?;
    Ok(())
}

#[tokio::test]
async fn repeated_spawn_with_one_key_starts_one_child() -> Result<()> {
    let host = configure_delegation("max_children = 1")?.start_host()?;
    let parent = ParentSession::new(&host).await?;
    let wanted = json!({ "adapter": "child" });
    let again = async || {
        parent
            .http
            .post_with("/sessions/agent", ("idempotency-key", "k"), &wanted)
            .await
    };
    let first = again().await?.expect(201)?;
    assert_eq!(again().await?.expect(200)?["id"], first["id"]);
    Ok(())
}

#[tokio::test]
async fn agent_controls_its_descendant_sessions_only() -> Result<()> {
    let host = configure_delegation("max_depth = 2")?.start_host()?;
    let user = RestClient::new(&host);
    let stranger = spawn_session(&user, &host).await?;
    let [parent, other] = [ParentSession::new(&host).await?, ParentSession::new(&host).await?];
    let (child, sibling, cousin) =
        (parent.start_child().await?, parent.start_child().await?, other.start_child().await?);
    let below = agent_caller(&host, &child).await?;
    let grandchild = below
        .post("/sessions/agent", &json!({ "adapter": "child" }))
        .await?
        .expect(201)?;
    let grandchild = grandchild["id"].as_str().context("no id")?.to_owned();
    let known = user.get(&format!("/sessions/{grandchild}")).await?.expect(200)?;
    assert_eq!((&known["parentSessionId"], &known["depth"]), (&json!(child), &json!(2)));
    let deepest = agent_caller(&host, &grandchild).await?;
    let deeper = deepest.post("/sessions/agent", &json!({ "adapter": "child" })).await?;
    assert_eq!(deeper.status_and_code(), (403, "max_depth_exceeded".to_owned()));

    let say = json!({ "prompt": "echo hi" });
    let prompted = async |http: &RestClient, id: &str| {
        let answer = http.post(&format!("/sessions/{id}/prompt"), &say).await?;
        Ok::<_, anyhow::Error>((
            answer.status,
            answer.json()["code"].as_str().unwrap_or_default().to_owned(),
        ))
    };
    for reached in [&child, &sibling, &grandchild] {
        assert_eq!(prompted(&parent.http, reached).await?.0, 200, "{reached}");
        wait_until_idle(&user, reached).await?;
    }
    assert_eq!(prompted(&below, &grandchild).await?.0, 200);
    for (http, unseen) in [
        (&parent.http, [&stranger, &cousin, &other.agent.session].as_slice()),
        (&below, &[&sibling, &stranger, &parent.agent.session]),
        (&deepest, &[&child, &sibling, &parent.agent.session]),
    ] {
        for id in unseen {
            assert_eq!(prompted(http, id).await?, (404, "unknown_session".to_owned()));
            assert_eq!(http.post_empty(&format!("/sessions/{id}/kill")).await?.status, 404);
            assert_eq!(http.get(&format!("/sessions/{id}/output")).await?.status, 404);
        }
    }
    assert_eq!(prompted(&parent.http, parent.id()).await?, (403, "observer".to_owned()), "its own");
    // A parent cannot delete its child, bring it back from a kill, or reach it over ACP.
    assert_eq!(parent.http.delete(&format!("/sessions/{child}")).await?.status, 403);
    assert_eq!(parent.http.post_empty(&format!("/sessions/{child}/resume")).await?.status, 403);
    let acp = TestClient::connect(&host.ws_url(), parent.http.token()).await?;
    acp.initialize().await?;
    let prompt = json!({ "sessionId": child, "prompt": [{ "type": "text", "text": "echo" }] });
    assert_eq!(expect_error(acp.call_method("session/prompt", prompt).await)?.code, -32011);
    let adapters = parent.http.get("/adapters").await?.expect(200)?;
    let slugs: Vec<&Value> = adapters["adapters"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| &one["slug"])
        .collect();
    assert_eq!(slugs, ["child"]);
    Ok(())
}

#[tokio::test]
async fn asks_of_a_child_are_answered_by_the_user_unless_configured_otherwise() -> Result<()> {
    for (settings, may) in [("", false), ("answer = true", true)] {
        let host = configure_delegation(settings)?.start_host()?;
        let mut parent = ParentSession::new(&host).await?;
        let child = parent.start_child().await?;
        parent
            .mcp
            .call_tool("agent_prompt", json!({ "sessionId": child, "prompt": "ask" }))
            .await?;
        let waited = parent
            .mcp
            .call_tool("wait_agent_session", json!({ "sessionId": child }))
            .await?;
        assert_eq!(waited["outcome"], "awaiting_input");
        let ask = waited["asks"][0]["askId"].as_u64().context("no ask")?;
        let yes = json!({ "sessionId": child, "optionId": "allow_once" });
        let route = format!("/sessions/{child}/asks/{ask}");
        if may {
            parent.mcp.call_tool("answer_agent_session", yes).await?;
        } else {
            assert_eq!(
                parent.mcp.call_for_refusal("answer_agent_session", yes).await?.0,
                "delegation_denied"
            );
            let answer = json!({ "optionId": "allow_once" });
            let refused = parent.http.post(&route, &answer).await?;
            assert_eq!(refused.status_and_code(), (403, "delegation_denied".to_owned()));
            RestClient::new(&host)
                .post(&route, &json!({ "optionId": "reject_once" }))
                .await?
                .expect(200)?;
        }
        wait_until_idle(&parent.http, &child).await?;
        let chosen = if may { "chosen: allow_once" } else { "chosen: reject_once" };
        let lines = output_lines(&parent.http, &child).await?;
        ensure!(lines.iter().any(|line| line == chosen), "{lines:?}");
        // The child's own agent cannot answer in either case.
        let own = agent_caller(&host, &child).await?;
        parent
            .mcp
            .call_tool("agent_prompt", json!({ "sessionId": child, "prompt": "ask" }))
            .await?;
        let asks = format!("/sessions/{child}/asks");
        let open = look_for(&own, &asks).await?;
        let refused = own
            .post(&format!("{asks}/{open}"), &json!({ "optionId": "allow_once" }))
            .await?;
        assert_eq!(refused.status_and_code(), (403, "observer".to_owned()));
    }
    Ok(())
}

async fn look_for(http: &RestClient, asks: &str) -> Result<u64> {
    loop {
        let open = http.get(asks).await?.expect(200)?;
        if let Some(ask) = open["asks"][0]["askId"].as_u64() {
            return Ok(ask);
        }
    }
}

#[tokio::test]
async fn children_end_with_their_killed_parent_unless_configured_otherwise() -> Result<()> {
    for (settings, end) in
        [("max_depth = 2", "killed"), ("max_depth = 2\nchildren = \"keep\"", "running")]
    {
        let host = configure_delegation(settings)?.start_host()?;
        let user = RestClient::new(&host);
        let parent = ParentSession::new(&host).await?;
        let child = parent.start_child().await?;
        let below = agent_caller(&host, &child).await?;
        let grandchild = below
            .post("/sessions/agent", &json!({ "adapter": "child" }))
            .await?
            .expect(201)?;
        let grandchild = grandchild["id"].as_str().context("no id")?;
        let bystander = spawn_session(&user, &host).await?;
        // An agent that exits by itself may come back, so its children stay.
        expect_error(parent.agent.client.send_prompt(parent.id(), "crash").await)?;
        wait_for_session(&user, parent.id(), "its end", |session| session["status"] == "exited")
            .await?;
        let again = parent.agent.http(&host).await?;
        assert_eq!(list_ids(&again.get("/sessions?alive=true").await?.expect(200)?).len(), 3);
        user.post_empty(&format!("/sessions/{}/kill", parent.id())).await?.expect(200)?;
        for session in [&child, grandchild] {
            let now =
                wait_for_session(&user, session, end, |session| session["status"] == end).await?;
            assert_eq!(now.get("endReason"), (end == "killed").then_some(&json!("closed")));
        }
        assert_eq!(
            user.get(&format!("/sessions/{bystander}")).await?.expect(200)?["status"],
            "running"
        );
    }
    Ok(())
}

#[tokio::test]
async fn ancestry_of_sessions_survives_a_restart() -> Result<()> {
    let mut host = configure_delegation("max_children = 1\nmax_depth = 2")?
        .without_keepers(crate::AGENT_COMES_BACK)
        .start_host()?;
    let parent = ParentSession::new(&host).await?;
    let child = parent.start_child().await?;
    host.kill()?;
    host.restart()?;
    let user = RestClient::new(&host);
    let known = user.get(&format!("/sessions/{child}")).await?.expect(200)?;
    assert_eq!((&known["parentSessionId"], &known["depth"]), (&json!(parent.id()), &json!(1)));
    assert_eq!(parent.http.token().len(), 64);
    assert_eq!(
        RestClient::with_token(&host, parent.http.token())
            .get("/sessions")
            .await?
            .status,
        401,
        "of a dead agent"
    );
    // The parent comes back under its id, and its new token covers its child, which comes back for
    // a prompt.
    let http = agent_caller(&host, parent.id()).await?;
    assert_eq!(list_ids(&http.get("/sessions").await?.expect(200)?), [&child, parent.id()]);
    http.post(&format!("/sessions/{child}/prompt"), &json!({ "prompt": "echo back" }))
        .await?
        .expect(200)?;
    wait_until_idle(&user, &child).await?;
    ensure!(output_lines(&http, &child).await?.contains(&"back".to_owned()));
    // The child counts toward the quota again.
    let refused = http.post("/sessions/agent", &json!({ "adapter": "child" })).await?;
    assert_eq!(refused.status_and_code(), (429, "child_quota_exceeded".to_owned()));

    // A sleeping child does not count; it counts when it would come back.
    let sleeps = user
        .post(&format!("/sessions/{child}/prompt"), &json!({ "prompt": "crash" }))
        .await?;
    sleeps.expect(200)?;
    wait_for_session(&user, &child, "its end", |session| session["status"] == "exited").await?;
    let second = http
        .post("/sessions/agent", &json!({ "adapter": "child" }))
        .await?
        .expect(201)?;
    let prompt = format!("/sessions/{child}/prompt");
    let refused = http.post(&prompt, &json!({ "prompt": "echo one too many" })).await?;
    assert_eq!(refused.status_and_code(), (429, "child_quota_exceeded".to_owned()));
    let gone = format!("/sessions/{}/kill", second["id"].as_str().context("no id")?);
    http.post_empty(&gone).await?.expect(200)?;
    http.post(&prompt, &json!({ "prompt": "echo again" })).await?.expect(200)?;

    // After a clean stop the next start reads the ancestry from the index alone.
    host.terminate()?;
    host.restart()?;
    let known = RestClient::new(&host).get(&format!("/sessions/{child}")).await?.expect(200)?;
    assert_eq!((&known["parentSessionId"], &known["depth"]), (&json!(parent.id()), &json!(1)));
    let http = agent_caller(&host, parent.id()).await?;
    assert_eq!(http.get(&format!("/sessions/{child}")).await?.status, 200);
    Ok(())
}

#[tokio::test]
async fn dead_parent_starts_no_child_over_a_connection_it_left_open() -> Result<()> {
    let host = configure_delegation("")?.start_host()?;
    let parent = ParentSession::new(&host).await?;
    parent.start_child().await?;
    // An MCP connection over TCP is one request; an event stream stays open for as long as it is
    // read.
    let mut events = parent.http.open_stream("/sessions/stream", None).await?;
    events.next().await?;
    expect_error(parent.agent.client.send_prompt(parent.id(), "crash").await)?;
    tokio::time::timeout(WAIT_LIMIT, events.read_rest())
        .await
        .context("the stream did not end with the agent")??;
    let ended = || Ok(processes::list_descendants(host.pid()).len().eq(&2).then_some(()));
    polling::poll_until(WAIT_LIMIT, ended)
        .await?
        .context("the child's processes alone")?;
    let refused = parent.http.post("/sessions/agent", &json!({ "adapter": "child" })).await?;
    assert_eq!(refused.status, 401);
    Ok(())
}

#[tokio::test]
async fn ask_of_a_child_counts_for_its_parent() -> Result<()> {
    let host = configure_delegation("")?.start_host()?;
    let owner = RestClient::new(&host);
    let parent = ParentSession::new(&host).await?;
    let child = parent.start_child().await?;
    owner
        .post(&format!("/sessions/{child}/prompt"), &json!({ "prompt": "ask" }))
        .await?
        .expect(200)?;
    let asks = |session: &Value| session["attention"]["state"] == "needs_answer";
    let asking = wait_for_session(&owner, &child, "an ask", asks).await?;
    let above = wait_for_session(&owner, parent.id(), "the ask of the child", asks).await?;
    assert_eq!(
        (&above["attention"]["via"], &above["attention"]["count"]),
        (&json!(child), &json!(1))
    );
    assert_eq!(above["attention"]["row"], asking["attention"]["row"]);
    assert_eq!(asking["attention"]["via"], Value::Null);
    let refused = parent.http.send("PUT", &format!("/sessions/{child}/mute"), &[], "{}").await?;
    assert_eq!(
        refused.status_and_code(),
        (403, "not_for_agents".to_owned()),
        "an agent is no person"
    );
    Ok(())
}
