//! MCP: every tool of AIP-46, over HTTP and over `wharf mcp`, and Wharf's own tools (rule 8.5).

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use wharf_testkit::agent_pipe::AgentPipe;
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;

use crate::cli_host::StopHostOnDrop;
use crate::mcp_client::{Mcp, McpTransport, initialize_client, post_message, without_nulls};
use crate::rest::{caller_with_role, output_lines, send_prompt, wait_until_idle};
use crate::{add_section, cwd, program, scripted_host, wharf_binary, without_usage};

const TURN_END: &str = "── turn-end (end_turn) ──";

/// Starts a session of the scripted agent.
async fn start_session(mcp: &mut Mcp, host: &TestHost) -> Result<String> {
    let session = mcp
        .call_tool("start_agent_session", json!({ "adapter": "scripted", "cwd": cwd(host)? }))
        .await?;
    Ok(session["id"].as_str().context("no id")?.to_owned())
}

/// Sends a prompt and waits for its end.
async fn prompt_and_wait(mcp: &mut Mcp, session: &str, text: &str) -> Result<Value> {
    mcp.call_tool("prompt_agent_session", json!({ "sessionId": session, "prompt": text }))
        .await?;
    mcp.call_tool("wait_agent_session", json!({ "sessionId": session })).await
}

#[tokio::test]
async fn start_agent_session_returns_the_session() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    for mut mcp in Mcp::over_both(&host)? {
        let arguments = json!({ "adapter": "scripted", "cwd": cwd(&host)?, "prompt": "echo first", "label": "mine" });
        let session = mcp.call_tool("start_agent_session", arguments).await?;
        assert_eq!((&session["status"], &session["label"]), (&json!("running"), &json!("mine")));
        let id = session["id"].as_str().context("no id")?;
        assert_eq!(
            RestClient::new(&host).get(&format!("/sessions/{id}")).await?.expect(200)?["cwd"],
            session["cwd"]
        );
        mcp.call_tool("wait_agent_session", json!({ "sessionId": id })).await?;
        assert_eq!(output_lines(&RestClient::new(&host), id).await?, ["first", TURN_END]);
    }
    Ok(())
}

#[tokio::test]
async fn repeated_start_with_one_key_gives_the_session_of_the_first() -> Result<()> {
    for transport in 0..2 {
        let host = scripted_host(&[])?.start_host()?;
        let mut mcp = Mcp::over_both(&host)?.into_iter().nth(transport).context("no transport")?;
        let arguments = json!({ "adapter": "scripted", "cwd": cwd(&host)?, "prompt": "echo", "idempotencyKey": "k" });
        let first = mcp.call_tool("start_agent_session", arguments.clone()).await?;
        let again = mcp.call_tool("start_agent_session", arguments.clone()).await?;
        assert_eq!((&first["duplicate"], &again["duplicate"]), (&json!(false), &json!(true)));
        assert_eq!((&first["id"], &first["promptId"]), (&again["id"], &again["promptId"]));
        let mut other = arguments;
        other["prompt"] = json!("echo something else");
        assert_eq!(
            mcp.call_for_refusal("start_agent_session", other).await?.0,
            "idempotency_key_reused"
        );
        let odd = json!({ "adapter": "scripted", "cwd": cwd(&host)?, "idempotencyKey": 7 });
        let (code, detail) = mcp.call_for_refusal("start_agent_session", odd).await?;
        assert_eq!(
            (code.as_str(), detail.as_str()),
            ("invalid_params", "idempotencyKey: must be a text, not a number")
        );
        let listed = mcp.call_tool("list_agent_sessions", json!({})).await?;
        assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(1));
    }
    Ok(())
}

#[tokio::test]
async fn prompt_agent_session_returns_at_once_and_refuses_a_second_turn() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    for mut mcp in Mcp::over_both(&host)? {
        let session = start_session(&mut mcp, &host).await?;
        let with = |more: Value| {
            let mut arguments = json!({ "sessionId": session, "prompt": "hang" });
            arguments
                .as_object_mut()
                .into_iter()
                .for_each(|all| all.extend(more.as_object().cloned().unwrap_or_default()));
            arguments
        };
        let taken = mcp.call_tool("prompt_agent_session", with(json!({}))).await?;
        assert_eq!((&taken["ok"], &taken["sessionId"]), (&json!(true), &json!(session)));
        let (code, detail) = mcp.call_for_refusal("prompt_agent_session", with(json!({}))).await?;
        assert_eq!(code, "turn_in_progress");
        ensure!(detail.contains("queue") && detail.contains("interrupt"), "{detail}");
        let queued = mcp
            .call_tool(
                "prompt_agent_session",
                with(json!({ "queue": true, "prompt": "echo queued" })),
            )
            .await?;
        assert_eq!(queued["position"], 0);
        mcp.call_tool(
            "prompt_agent_session",
            with(json!({ "interrupt": true, "prompt": "echo urgent" })),
        )
        .await?;
        let waited = mcp.call_tool("wait_agent_session", json!({ "sessionId": session })).await?;
        assert_eq!(
            waited["lines"],
            json!(["── turn-end (cancelled) ──", "urgent", TURN_END, "queued", TURN_END])
        );
        let key = json!({ "idempotencyKey": "k", "prompt": "echo once" });
        let first = mcp.call_tool("prompt_agent_session", with(key.clone())).await?;
        let again = mcp.call_tool("prompt_agent_session", with(key)).await?;
        assert_eq!((&again["promptId"], &again["duplicate"]), (&first["promptId"], &json!(true)));
        let other = with(json!({ "idempotencyKey": "k", "prompt": "echo twice" }));
        assert_eq!(
            mcp.call_for_refusal("prompt_agent_session", other).await?.0,
            "idempotency_key_reused"
        );
    }
    Ok(())
}

#[tokio::test]
async fn list_agent_sessions_lists_all_or_only_those_alive() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let ids = |listed: &Value| -> Vec<String> {
        let sessions = listed["sessions"].as_array().into_iter().flatten();
        sessions
            .filter_map(|session| session["id"].as_str().map(str::to_owned))
            .collect()
    };
    let [mut http, mut stdio] = Mcp::over_both(&host)?;
    let (dead, alive) =
        (start_session(&mut http, &host).await?, start_session(&mut stdio, &host).await?);
    http.call_tool("kill_agent_session", json!({ "sessionId": dead })).await?;
    for mcp in [&mut http, &mut stdio] {
        let listed = mcp.call_tool("list_agent_sessions", json!({})).await?;
        assert_eq!(ids(&listed), [alive.clone(), dead.clone()]);
        let rest = RestClient::new(&host).get("/sessions").await?.expect(200)?;
        assert_eq!(
            without_usage(listed),
            without_nulls(without_usage(rest)),
            "REST lists the same"
        );
        let living = mcp.call_tool("list_agent_sessions", json!({ "onlyAlive": true })).await?;
        assert_eq!(ids(&living), std::slice::from_ref(&alive));
        assert_eq!(
            ids(&mcp.call_tool("list_agent_sessions", json!({ "onlyAlive": false })).await?).len(),
            2
        );
    }
    Ok(())
}

#[tokio::test]
async fn get_agent_session_output_returns_the_last_n_lines() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    for mut mcp in Mcp::over_both(&host)? {
        let session = start_session(&mut mcp, &host).await?;
        prompt_and_wait(&mut mcp, &session, "echo one; tool; echo two").await?;
        let result = mcp
            .call_for_result("get_agent_session_output", json!({ "sessionId": session }))
            .await?;
        let lines = result["structuredContent"]["lines"].clone();
        assert_eq!(
            lines,
            json!(output_lines(&RestClient::new(&host), &session).await?),
            "REST shows the same"
        );
        assert_eq!(lines.as_array().and_then(|lines| lines.last()), Some(&json!(TURN_END)));
        let text: Vec<&str> =
            lines.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        assert_eq!(result["content"][0]["text"], text.join("\n"), "a model reads lines, not JSON");
        let last = mcp
            .call_tool("get_agent_session_output", json!({ "sessionId": session, "lastN": 2 }))
            .await?;
        assert_eq!(last["lines"], json!(["two", TURN_END]));
        assert_eq!((&last["turn"], &last["asks"]), (&json!("idle"), &json!([])));
    }
    Ok(())
}

#[tokio::test]
async fn last_lines_of_a_long_session_are_the_same_for_every_count() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let rest = RestClient::new(&host);
    let mut mcp = Mcp::over_http(rest.clone());
    let session = start_session(&mut mcp, &host).await?;
    // The log holds a line of 200 kB without a break, a message of 6000 lines, then many turns.
    prompt_and_wait(&mut mcp, &session, &format!("echo {}; stream 6000 50", "x".repeat(200_000)))
        .await?;
    for turn in 0..10 {
        prompt_and_wait(
            &mut mcp,
            &session,
            &format!("echo turn {turn}; think hm; tool; echo more"),
        )
        .await?;
    }
    let last = async |n: usize| -> Result<Vec<String>> {
        let output =
            rest.get(&format!("/sessions/{session}/output?lastN={n}")).await?.expect(200)?;
        Ok(serde_json::from_value(output["lines"].clone())?)
    };
    let all = last(10_000).await?;
    ensure!(
        all[0] == "x".repeat(64 * 1024),
        "the long line was not cut at 64 KiB: {} bytes",
        all[0].len()
    );
    ensure!(all.iter().filter(|line| *line == TURN_END).count() == 11, "{} lines", all.len());
    for n in [1, 2, 5, 50, 1_000, 3_000, all.len() - 3, all.len() - 1, all.len()] {
        assert_eq!(last(n).await?, all[all.len() - n..], "the last {n}");
    }
    Ok(())
}

#[tokio::test]
async fn kill_agent_session_returns_ok_and_the_session() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    for mut mcp in Mcp::over_both(&host)? {
        let session = start_session(&mut mcp, &host).await?;
        for _ in 0..2 {
            let killed =
                mcp.call_tool("kill_agent_session", json!({ "sessionId": session })).await?;
            assert_eq!(killed, json!({ "ok": true, "sessionId": session }));
        }
        let waited = mcp.call_tool("wait_agent_session", json!({ "sessionId": session })).await?;
        assert_eq!(
            (&waited["outcome"], &waited["session"]["status"]),
            (&json!("session_ended"), &json!("killed"))
        );
        let prompt = json!({ "sessionId": session, "prompt": "echo late" });
        assert_eq!(mcp.call_for_refusal("prompt_agent_session", prompt).await?.0, "killed");
    }
    Ok(())
}

#[tokio::test]
async fn one_session_is_driven_through_rest_and_mcp_in_turns() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let rest = RestClient::new(&host);
    let [mut http, mut stdio] = Mcp::over_both(&host)?;
    let session = start_session(&mut http, &host).await?;
    send_prompt(&rest, &session, "echo over rest").await?;
    wait_until_idle(&rest, &session).await?;
    prompt_and_wait(&mut stdio, &session, "echo over stdio").await?;
    prompt_and_wait(&mut http, &session, "echo over http").await?;
    send_prompt(&rest, &session, "hang").await?;
    let arguments = json!({ "sessionId": session, "prompt": "echo no" });
    assert_eq!(
        stdio.call_for_refusal("prompt_agent_session", arguments).await?.0,
        "turn_in_progress"
    );
    rest.post_empty(&format!("/sessions/{session}/interrupt")).await?.expect(200)?;
    let waited = http.call_tool("wait_agent_session", json!({ "sessionId": session })).await?;
    let told = [
        "over rest",
        TURN_END,
        "over stdio",
        TURN_END,
        "over http",
        TURN_END,
        "── turn-end (cancelled) ──",
    ];
    assert_eq!(waited["lines"], json!(told));
    assert_eq!(output_lines(&rest, &session).await?, told);
    stdio.call_tool("kill_agent_session", json!({ "sessionId": session })).await?;
    assert_eq!(rest.get(&format!("/sessions/{session}")).await?.expect(200)?["status"], "killed");
    Ok(())
}

#[tokio::test]
async fn wait_reports_progress_and_ends_at_its_timeout() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    for mut mcp in Mcp::over_both(&host)? {
        let session = start_session(&mut mcp, &host).await?;
        mcp.call_tool(
            "prompt_agent_session",
            json!({ "sessionId": session, "prompt": "echo begun; hang" }),
        )
        .await?;
        let arguments = json!({ "sessionId": session, "timeoutSeconds": 0.3 });
        let mut call = json!({ "name": "wait_agent_session", "arguments": arguments });
        let quiet = mcp.call_method("tools/call", call.clone()).await?;
        assert_eq!(quiet.answer["result"]["structuredContent"]["outcome"], "timeout");
        assert_eq!(quiet.notes, [] as [Value; 0], "progress that nobody asked for");
        call["_meta"] = json!({ "progressToken": "news" });
        let Ok(exchange) = mcp.call_method("tools/call", call).await else {
            anyhow::bail!("no answer")
        };
        let news = exchange.notes.first().context("no progress")?;
        assert_eq!(
            (&news["method"], &news["params"]["progressToken"]),
            (&json!("notifications/progress"), &json!("news"))
        );
        RestClient::new(&host)
            .post_empty(&format!("/sessions/{session}/interrupt"))
            .await?
            .expect(200)?;
        let waited = mcp.call_tool("wait_agent_session", json!({ "sessionId": session })).await?;
        assert_eq!(
            (&waited["outcome"], &waited["session"]["turn"]),
            (&json!("turn_ended"), &json!("idle"))
        );
    }
    Ok(())
}

#[tokio::test]
async fn wait_returns_at_an_ask_and_the_answer_resumes_the_turn() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    for mut mcp in Mcp::over_both(&host)? {
        let session = start_session(&mut mcp, &host).await?;
        let waited = prompt_and_wait(&mut mcp, &session, "ask").await?;
        assert_eq!(waited["outcome"], "awaiting_input");
        let shown = mcp
            .call_tool("get_agent_session_output", json!({ "sessionId": session }))
            .await?;
        assert_eq!((&shown["asks"], &shown["turn"]), (&waited["asks"], &json!("awaiting_input")));
        let wrong = json!({ "sessionId": session, "optionId": "no such option" });
        assert_eq!(
            mcp.call_for_refusal("answer_agent_session", wrong).await?.0,
            "option_not_offered"
        );
        let option = &waited["asks"][0]["options"][0]["optionId"];
        let answered = mcp
            .call_tool("answer_agent_session", json!({ "sessionId": session, "optionId": option }))
            .await?;
        assert_eq!(answered["askId"], waited["asks"][0]["askId"]);
        let waited = mcp.call_tool("wait_agent_session", json!({ "sessionId": session })).await?;
        assert_eq!((&waited["outcome"], &waited["asks"]), (&json!("turn_ended"), &json!([])));
        let nothing = json!({ "sessionId": session, "optionId": option });
        assert_eq!(mcp.call_for_refusal("answer_agent_session", nothing).await?.0, "unknown_ask");
        let again = json!({ "sessionId": session, "askId": answered["askId"], "optionId": option });
        assert_eq!(
            mcp.call_for_refusal("answer_agent_session", again).await?.0,
            "already_answered"
        );
    }
    Ok(())
}

#[tokio::test]
async fn newer_tool_names_call_the_same_tools() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    for mut mcp in Mcp::over_both(&host)? {
        let session = mcp
            .call_tool("agent_start", json!({ "adapter": "scripted", "cwd": cwd(&host)? }))
            .await?["id"]
            .clone();
        mcp.call_tool("agent_prompt", json!({ "sessionId": session, "prompt": "echo hi" }))
            .await?;
        mcp.call_tool("wait_agent_session", json!({ "sessionId": session })).await?;
        let output = mcp.call_tool("agent_output", json!({ "sessionId": session })).await?;
        assert_eq!(output["lines"], json!(["hi", TURN_END]));
        let listed = mcp.call_tool("agent_sessions_list", json!({ "onlyAlive": true })).await?;
        assert_eq!(listed["sessions"][0]["id"], session);
        assert_eq!(mcp.call_tool("agent_kill", json!({ "sessionId": session })).await?["ok"], true);
    }
    Ok(())
}

#[tokio::test]
async fn tools_are_listed_with_schemas_and_annotations() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    for mut mcp in Mcp::over_both(&host)? {
        let listed = mcp.call_method("tools/list", json!({})).await?.answer;
        let tools = listed["result"]["tools"].as_array().context("no tools")?.clone();
        let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
        let rows = [
            "start_agent_session",
            "prompt_agent_session",
            "list_agent_sessions",
            "get_agent_session_output",
        ];
        let more = [
            "kill_agent_session",
            "wait_agent_session",
            "answer_agent_session",
            "search_agent_sessions",
        ];
        let rest = [
            "fork_agent_session",
            "interrupt_agent_session",
            "resume_agent_session",
            "list_agents",
        ];
        for name in rows.into_iter().chain(more).chain(rest) {
            assert!(names.contains(&name), "{name} is not in {names:?}");
        }
        assert_eq!(names.len(), 12);
        for tool in &tools {
            assert_eq!(
                (&tool["inputSchema"]["type"], &tool["outputSchema"]["type"]),
                (&json!("object"), &json!("object"))
            );
            let name = tool["name"].as_str().unwrap_or_default();
            let reading = [
                "list_agent_sessions",
                "get_agent_session_output",
                "wait_agent_session",
                "search_agent_sessions",
            ];
            let reads = reading.contains(&name) || name == "list_agents";
            assert_eq!(tool["annotations"]["readOnlyHint"], reads, "{name}");
            assert_eq!(tool["annotations"]["destructiveHint"] == true, !reads, "{name}");
            let is_idempotent = ["kill_agent_session", "resume_agent_session"].contains(&name);
            assert_eq!(tool["annotations"]["idempotentHint"] == true, is_idempotent, "{name}");
        }
        let required = |at: usize| tools[at]["inputSchema"]["required"].clone();
        assert_eq!(
            (required(0), required(1)),
            (json!(["adapter"]), json!(["sessionId", "prompt"]))
        );
    }
    Ok(())
}

#[tokio::test]
async fn an_observer_reads_and_changes_nothing() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let mut mine = Mcp::over_http(RestClient::new(&host));
    let session = start_session(&mut mine, &host).await?;
    prompt_and_wait(&mut mine, &session, "echo hi").await?;
    let mut observer = Mcp::over_http(caller_with_role(&host, "observer")?);
    let one = json!({ "sessionId": session });
    assert_eq!(
        observer.call_tool("get_agent_session_output", one.clone()).await?["lines"][0],
        "hi"
    );
    assert_eq!(
        observer.call_tool("wait_agent_session", one.clone()).await?["outcome"],
        "turn_ended"
    );
    assert_eq!(
        observer.call_tool("list_agent_sessions", json!({})).await?["sessions"][0]["id"],
        session
    );
    let spawn = json!({ "adapter": "scripted", "cwd": cwd(&host)? });
    let prompt = json!({ "sessionId": session, "prompt": "echo no" });
    let answer = json!({ "sessionId": session, "cancel": true });
    for (tool, arguments) in [
        ("start_agent_session", spawn),
        ("prompt_agent_session", prompt),
        ("answer_agent_session", answer),
        ("kill_agent_session", one),
    ] {
        assert_eq!(observer.call_for_refusal(tool, arguments).await?.0, "observer", "{tool}");
    }
    let listed = mine.call_tool("list_agent_sessions", json!({})).await?;
    assert_eq!(
        (listed["sessions"].as_array().map(Vec::len), &listed["sessions"][0]["status"]),
        (Some(1), &json!("running"))
    );
    Ok(())
}

#[tokio::test]
async fn bad_arguments_are_tool_errors_that_create_nothing() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let here = cwd(&host)?;
    for mut mcp in Mcp::over_both(&host)? {
        for (tool, arguments, code, names) in [
            ("start_agent_session", json!({}), "invalid_params", "adapter"),
            ("start_agent_session", json!({ "adapter": 7 }), "invalid_params", "adapter"),
            (
                "start_agent_session",
                json!({ "adapter": "scriptd", "cwd": here }),
                "unknown_adapter",
                "scripted",
            ),
            (
                "start_agent_session",
                json!({ "adapter": "scripted", "cwd": "/no/such" }),
                "invalid_cwd",
                "/no/such",
            ),
            (
                "start_agent_session",
                json!({ "adapter": "scripted", "cwd": here, "prompt": [] }),
                "invalid_params",
                "prompt",
            ),
            (
                "start_agent_session",
                json!({ "adapter": "scripted", "cwd": here, "label": "x".repeat(1 << 20) }),
                "label_too_long",
                "label",
            ),
            (
                "prompt_agent_session",
                json!({ "sessionId": "sess_none", "prompt": "x" }),
                "unknown_session",
                "sess_none",
            ),
            (
                "prompt_agent_session",
                json!({ "sessionId": "../../x", "prompt": "x" }),
                "unknown_session",
                "../../x",
            ),
            (
                "get_agent_session_output",
                json!({ "sessionId": "sess_none" }),
                "unknown_session",
                "sess_none",
            ),
            (
                "get_agent_session_output",
                json!({ "sessionId": "x", "lastN": -1 }),
                "invalid_params",
                "lastN",
            ),
            (
                "wait_agent_session",
                json!({ "sessionId": "x", "timeoutSeconds": 1e9 }),
                "invalid_params",
                "timeoutSeconds",
            ),
            (
                "wait_agent_session",
                json!({ "sessionId": "sess_none" }),
                "unknown_session",
                "sess_none",
            ),
            ("kill_agent_session", json!({ "sessionId": 3 }), "invalid_params", "sessionId"),
            (
                "kill_agent_session",
                json!({ "sessionId": "sess_none" }),
                "unknown_session",
                "sess_none",
            ),
            ("list_agent_sessions", json!({ "onlyAlive": "yes" }), "invalid_params", "onlyAlive"),
            ("list_agent_sessions", json!({ "limit": 0 }), "invalid_params", "limit"),
            (
                "list_agent_sessions",
                json!({ "onlyalive": true }),
                "invalid_params",
                "\"onlyalive\" is no argument",
            ),
            (
                "kill_agent_session",
                json!({ "sessionId": "x", "force": true }),
                "invalid_params",
                "\"force\" is no",
            ),
            (
                "start_agent_session",
                json!({ "adapter": "scripted", "cwd": here, "sandbox": true }),
                "invalid_params",
                "it takes: adapter",
            ),
        ] {
            let (said, detail) = mcp.call_for_refusal(tool, arguments.clone()).await?;
            assert_eq!(said, code, "{tool} {arguments}");
            assert!(detail.contains(names), "{tool} {arguments}: {detail}");
        }
        let unknown =
            mcp.call_method("tools/call", json!({ "name": "no_such_tool" })).await?.answer;
        assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
        assert_eq!(
            mcp.call_tool("list_agent_sessions", json!({})).await?,
            json!({ "sessions": [] })
        );
    }
    Ok(())
}

#[tokio::test]
async fn mcp_checks_token_host_and_origin() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    assert_eq!(post_message(&RestClient::with_token(&host, "wrong"), &list).await?.status, 401);
    let http = RestClient::new(&host);
    assert_eq!(post_message(&http, &list).await?.status, 200);
    let kind =
        [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
    let foreign = [kind.as_slice(), &[("origin", "http://evil.example")]].concat();
    assert_eq!(http.send("POST", "/mcp", &foreign, &list.to_string()).await?.status, 403);
    assert_eq!(RestClient::with_token(&host, "wrong").get("/mcp/stdio").await?.status, 401);
    assert_eq!(
        http.get("/mcp/stdio").await?.status_and_code(),
        (426, "upgrade_required".to_owned())
    );
    assert_eq!(http.get("/mcp").await?.status, 405, "there are no MCP sessions to listen to");
    Ok(())
}

#[tokio::test]
async fn newest_lines_are_read_without_scanning_a_large_log() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let rest = RestClient::new(&host);
    let mut mcp = Mcp::over_http(rest.clone());
    let session = start_session(&mut mcp, &host).await?;
    prompt_and_wait(&mut mcp, &session, "echo old").await?;
    for _ in 0..5 {
        // User text is in the log but not in the output.
        prompt_and_wait(&mut mcp, &session, &format!("usage {}", "x".repeat(8 << 20))).await?;
    }
    let after = prompt_and_wait(&mut mcp, &session, "echo before").await?;
    assert_eq!(
        (&after["truncated"], &after["lines"][0]),
        (&json!(false), &json!("old")),
        "few events are all looked at"
    );
    prompt_and_wait(&mut mcp, &session, &format!("{}echo new", "usage; ".repeat(400))).await?;
    let last = mcp
        .call_tool("get_agent_session_output", json!({ "sessionId": session }))
        .await?;
    assert_eq!((&last["truncated"], &last["lines"]), (&json!(true), &json!(["new", TURN_END])));
    let output = rest.get(&format!("/sessions/{session}/output?lastN=2")).await?.expect(200)?;
    assert_eq!((output.get("truncated"), &output["lines"]), (None, &json!(["new", TURN_END])));
    Ok(())
}

#[tokio::test]
async fn calls_per_connection_and_waits_per_host_are_limited() -> Result<()> {
    for (connections, most, code) in [(5000, 64, "too_many_requests"), (8, 8, "too_many_streams")] {
        let host =
            add_section(scripted_host(&[])?, &format!("[limits]\nconnections = {connections}"))
                .start_host()?;
        let mut mcp = Mcp::over_stdio(&host)?;
        let session = start_session(&mut mcp, &host).await?;
        mcp.call_tool("prompt_agent_session", json!({ "sessionId": session, "prompt": "hang" }))
            .await?;
        let McpTransport::Stdio(pipe) = &mut mcp.transport else { unreachable!("it is a pipe") };
        let wait = json!({ "name": "wait_agent_session", "arguments": { "sessionId": session } });
        let waits = (0..=most)
            .map(|_| pipe.start_request("tools/call", wait.clone()))
            .collect::<Result<Vec<_>>>()?;
        let refused = pipe.expect("a refusal", |message| message["result"]["isError"] == true)?;
        assert!(
            refused["result"]["content"][0]["text"]
                .as_str()
                .is_some_and(|text| text.contains(code)),
            "{refused}"
        );
        pipe.call_method("ping", json!({}))?;
        RestClient::new(&host)
            .post_empty(&format!("/sessions/{session}/interrupt"))
            .await?
            .expect(200)?;
        for _ in 0..most {
            pipe.expect("the end of a wait", |message| {
                waits.iter().any(|id| message["id"] == *id) && message["result"]["isError"] != true
            })?;
        }
        mcp.call_tool("wait_agent_session", json!({ "sessionId": session })).await?;
    }
    Ok(())
}

#[test]
fn wharf_mcp_exits_with_its_client_and_reports_that_no_host_runs() -> Result<()> {
    let mut host = scripted_host(&[])?.start_host()?;
    let state_dir = host.state_dir();
    let begin = || {
        AgentPipe::start(
            &wharf_binary(),
            &["mcp", "--no-start"],
            &[("WHARF_STATE_DIR", &state_dir)],
        )
    };
    let mut done = initialize_client(begin()?)?;
    done.close_stdin();
    assert!(done.wait_exit()?.success());
    let mut left = initialize_client(begin()?)?;
    host.terminate()?;
    // It waits for a host that comes back, but not longer than its client.
    left.close_stdin();
    assert!(left.wait_exit()?.success());
    let refused = program::wharf_command(&["mcp", "--no-start", "--state-dir"])
        .arg(&state_dir)
        .output()?;
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(3), "{words}");
    ensure!(words.contains("no host is running") && refused.stdout.is_empty(), "{words}");
    Ok(())
}

#[test]
fn wharf_mcp_starts_a_host_where_none_runs() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (state_dir, demo) = (folder.path().join("state"), folder.path().join("demo"));
    let _ends = StopHostOnDrop(&state_dir);
    let listen = Path::new("127.0.0.1:0");
    let environment = [
        ("WHARF_STATE_DIR", state_dir.as_path()),
        ("WHARF_LISTEN", listen),
        ("HOME", folder.path()),
        ("WHARF_DEMO_STATE", &demo),
    ];
    let mut pipe = initialize_client(AgentPipe::start(&wharf_binary(), &["mcp"], &environment)?)?;
    let arguments = json!({ "adapter": "demo", "cwd": folder.path(), "prompt": "echo hello" });
    let started = pipe.call_method(
        "tools/call",
        json!({ "name": "start_agent_session", "arguments": arguments }),
    )?;
    assert_eq!(started["structuredContent"]["status"], "running", "{started}");
    Ok(())
}
