//! MCP tools that list agents, interrupt turns and bring sessions back; and `wharf mcp` across
//! restarts of the host (rule 8.5).

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use wharf_testkit::agent_pipe::AgentPipe;
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;

use crate::mcp_client::{Mcp, initialize_client};
use crate::rest::caller_with_role;
use crate::{cwd, scripted_host, wharf_binary};

async fn start_session(mcp: &mut Mcp, host: &TestHost) -> Result<String> {
    let session = mcp
        .call_tool("start_agent_session", json!({ "adapter": "scripted", "cwd": cwd(host)? }))
        .await?;
    Ok(session["id"].as_str().context("no id")?.to_owned())
}

#[tokio::test]
async fn list_agents_lists_them_as_rest_does() -> Result<()> {
    let host = scripted_host(&[])?
        .with_agent("absent", &["/no/such/program".to_owned()])
        .start_host()?;
    let rest = RestClient::new(&host).get("/adapters").await?.expect(200)?;
    let told = |adapter: &Value| {
        json!([adapter["slug"], adapter["installed"], adapter["login"], adapter["default"]])
    };
    let told: Vec<Value> = rest["adapters"].as_array().into_iter().flatten().map(told).collect();
    for mut mcp in Mcp::over_both(&host)? {
        let result = mcp.call_for_result("list_agents", json!({})).await?;
        let agents = result["structuredContent"]["agents"].as_array().context("no agents")?;
        let listed = |agent: &Value| {
            json!([agent["adapter"], agent["installed"], agent["login"], agent["default"]])
        };
        assert_eq!(agents.iter().map(listed).collect::<Vec<_>>(), told);
        let text = result["content"][0]["text"].as_str().context("no text")?;
        assert_eq!(text.lines().count(), agents.len());
        ensure!(text.contains("absent (absent): not installed"), "{text}");
        let there = mcp.call_tool("list_agents", json!({ "onlyInstalled": true })).await?;
        let there: Vec<&Value> = there["agents"].as_array().into_iter().flatten().collect();
        ensure!(there.iter().all(|agent| agent["installed"] == true), "{there:?}");
        ensure!(there.iter().any(|agent| agent["adapter"] == "scripted"), "{there:?}");
    }
    Ok(())
}

#[tokio::test]
async fn interrupt_agent_session_ends_the_turn_and_keeps_the_queue() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    for mut mcp in Mcp::over_both(&host)? {
        let session = start_session(&mut mcp, &host).await?;
        let idle = mcp
            .call_tool("interrupt_agent_session", json!({ "sessionId": session }))
            .await?;
        assert_eq!(idle, json!({ "ok": true, "sessionId": session, "wasBusy": false }));
        mcp.call_tool("prompt_agent_session", json!({ "sessionId": session, "prompt": "hang" }))
            .await?;
        let next = json!({ "sessionId": session, "prompt": "echo next", "queue": true });
        mcp.call_tool("prompt_agent_session", next).await?;
        let busy = mcp
            .call_tool("interrupt_agent_session", json!({ "sessionId": session }))
            .await?;
        assert_eq!(busy["wasBusy"], true);
        let waited = mcp.call_tool("wait_agent_session", json!({ "sessionId": session })).await?;
        let end = "── turn-end (end_turn) ──";
        assert_eq!(waited["lines"], json!(["── turn-end (cancelled) ──", "next", end]));
    }
    Ok(())
}

#[tokio::test]
async fn resume_agent_session_brings_a_killed_session_back() -> Result<()> {
    let host = scripted_host(&["--resume"])?.start_host()?;
    for mut mcp in Mcp::over_both(&host)? {
        let session = start_session(&mut mcp, &host).await?;
        mcp.call_tool(
            "prompt_agent_session",
            json!({ "sessionId": session, "prompt": "echo one" }),
        )
        .await?;
        mcp.call_tool("wait_agent_session", json!({ "sessionId": session })).await?;
        mcp.call_tool("kill_agent_session", json!({ "sessionId": session })).await?;
        for _ in 0..2 {
            let back =
                mcp.call_tool("resume_agent_session", json!({ "sessionId": session })).await?;
            assert_eq!((&back["id"], &back["status"]), (&json!(session), &json!("running")));
        }
    }
    let observer = caller_with_role(&host, "observer")?;
    let mut observer = Mcp::over_http(observer);
    for tool in ["interrupt_agent_session", "resume_agent_session"] {
        assert_eq!(
            observer.call_for_refusal(tool, json!({ "sessionId": "sess_none" })).await?.0,
            "observer",
            "{tool}"
        );
    }
    Ok(())
}

fn start_mcp(host: &TestHost) -> Result<AgentPipe> {
    let state_dir = host.state_dir();
    initialize_client(AgentPipe::start(
        &wharf_binary(),
        &["mcp", "--no-start"],
        &[("WHARF_STATE_DIR", &state_dir)],
    )?)
}

fn start_call(pipe: &mut AgentPipe, tool: &str, arguments: &Value) -> Result<u64> {
    pipe.start_request("tools/call", json!({ "name": tool, "arguments": arguments }))
}

#[tokio::test]
async fn wharf_mcp_survives_a_kill_of_the_host() -> Result<()> {
    let mut host =
        scripted_host(&["--resume"])?.without_keepers(crate::TURN_IS_CUT).start_host()?;
    let mut pipe = start_mcp(&host)?;
    let id = start_call(
        &mut pipe,
        "start_agent_session",
        &json!({ "adapter": "scripted", "cwd": cwd(&host)? }),
    )?;
    let started = pipe.wait_response(id)?;
    let session = started["result"]["structuredContent"]["id"]
        .as_str()
        .context("no id")?
        .to_owned();
    let prompt = json!({ "sessionId": session, "prompt": "echo before; hang" });
    let id = start_call(&mut pipe, "prompt_agent_session", &prompt)?;
    pipe.wait_response(id)?;
    let wait = start_call(&mut pipe, "wait_agent_session", &json!({ "sessionId": session }))?;
    // The host has taken the wait when it answers the request after it.
    pipe.call_method("ping", json!({}))?;
    host.kill()?;
    let list = pipe.start_request("tools/list", json!({}))?;
    host.restart()?;
    let (waited, listed) = pipe.wait_both_responses(wait, list)?;
    assert_eq!(waited["result"]["structuredContent"]["outcome"], "session_ended", "{waited}");
    ensure!(
        listed["result"]["tools"].as_array().is_some_and(|tools| tools.len() >= 12),
        "{listed}"
    );
    let again = json!({ "sessionId": session, "prompt": "echo after" });
    let id = start_call(&mut pipe, "prompt_agent_session", &again)?;
    assert_eq!(pipe.wait_response(id)?["result"]["structuredContent"]["ok"], true);
    let id = start_call(&mut pipe, "wait_agent_session", &json!({ "sessionId": session }))?;
    let waited = pipe.wait_response(id)?;
    ensure!(
        waited["result"]["structuredContent"]["lines"].to_string().contains("after"),
        "{waited}"
    );
    let answers = pipe
        .received
        .iter()
        .filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let strange =
        answers.filter(|answer| answer["id"].as_str().is_some_and(|id| id.contains("wharf-mcp")));
    assert_eq!(strange.count(), 0, "the repeated handshake is not the client's");
    Ok(())
}

#[tokio::test]
async fn wharf_mcp_repeats_a_start_whose_host_died_without_a_second_session() -> Result<()> {
    // The agent never finishes its start, so that the call is under way when the host dies.
    let mut host = scripted_host(&["--hang-on", "session/new"])?.start_host()?;
    let mut pipe = start_mcp(&host)?;
    let mut sessions = RestClient::new(&host).open_stream("/sessions/stream", None).await?;
    let id = start_call(
        &mut pipe,
        "start_agent_session",
        &json!({ "adapter": "scripted", "cwd": cwd(&host)? }),
    )?;
    let started = sessions
        .expect("the session", |event| event.data["status"] == "starting")
        .await?;
    host.kill()?;
    host.restart()?;
    let answer = pipe.wait_response(id)?;
    let session = &answer["result"]["structuredContent"];
    assert_eq!(
        (&session["id"], &session["duplicate"]),
        (&started.data["id"], &json!(true)),
        "{answer}"
    );
    assert_eq!(session["endReason"], "host_restarted");
    let listed = RestClient::new(&host).get("/sessions").await?.expect(200)?;
    assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(1));
    Ok(())
}

#[tokio::test]
async fn wharf_mcp_refuses_a_fork_whose_host_died() -> Result<()> {
    let mut host = scripted_host(&["--fork", "--hang-on", "session/fork"])?.start_host()?;
    let mut pipe = start_mcp(&host)?;
    let http = RestClient::new(&host);
    let source = http
        .post("/sessions/agent", &json!({ "adapter": "scripted", "cwd": cwd(&host)? }))
        .await?;
    let source = source.expect(201)?["id"].clone();
    let mut sessions = http.open_stream("/sessions/stream", None).await?;
    let id = start_call(&mut pipe, "fork_agent_session", &json!({ "sessionId": source }))?;
    sessions
        .expect("the fork", |event| event.data["forkedFrom"]["sessionId"] == source)
        .await?;
    host.kill()?;
    host.restart()?;
    let refused = pipe.wait_response(id)?;
    let problem = refused["result"]["content"][0]["text"].as_str().context("no text")?;
    assert_eq!(refused["result"]["isError"], true);
    ensure!(
        problem.contains("\"host_restarted\"") && problem.contains("fork_agent_session"),
        "{problem}"
    );
    Ok(())
}
