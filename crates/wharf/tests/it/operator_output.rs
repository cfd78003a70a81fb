//! The output for operators (the host's log, metrics, debugging, exports) holds no session content
//! and no token.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::http::RestClient;

use crate::{
    add_section, connect_client_with, cwd, expect_error, prompt_for_text, rest, scripted_host,
};

/// A word in all prompts and answers. It does not look like a secret, so that no redaction removes
/// it.
const CONTENT_MARK: &str = "zanzibar";

/// Uses every kind of message of a session, each with the mark in it.
async fn use_every_message(host: &wharf_testkit::host::TestHost, http: &RestClient) -> Result<()> {
    let meta = json!({ "wharf": { "env": { "MARKED": CONTENT_MARK, "LC_ALL": CONTENT_MARK } } });
    let acp = connect_client_with(host, json!({ "fs": { "readTextFile": true } }), meta).await?;
    acp.respond_with(|_| Some(Err(json!({ "code": -32000, "message": CONTENT_MARK }))));
    let session = acp.new_session(&cwd(host)?).await?;
    assert_eq!(
        prompt_for_text(&acp, &session, "env MARKED").await?,
        format!("MARKED={CONTENT_MARK}"),
        "the agent does get it"
    );
    let tool = json!({ "sessionUpdate": "tool_call", "toolCallId": CONTENT_MARK, "title": CONTENT_MARK, "rawInput": { "a": CONTENT_MARK } });
    for script in [
        format!("echo {CONTENT_MARK}; think {CONTENT_MARK}; title {CONTENT_MARK}; env MARKED"),
        format!("rawupdate {tool}"),
        format!("raw {CONTENT_MARK} is not JSON"),
        format!("stop {CONTENT_MARK}"),
        format!("ext _{CONTENT_MARK} {{\"x\":\"{CONTENT_MARK}\"}}"),
        format!("fs read /{CONTENT_MARK}"),
        format!("terminal echo {CONTENT_MARK}"),
    ] {
        acp.send_prompt(&session, &script).await.ok();
    }
    // These requests are refused in every way that there is.
    expect_error(
        acp.call_method(&format!("_wharf/{CONTENT_MARK}"), json!({ "x": CONTENT_MARK }))
            .await,
    )?;
    expect_error(
        acp.call_method(
            "session/prompt",
            json!({ "sessionId": CONTENT_MARK, "prompt": CONTENT_MARK }),
        )
        .await,
    )?;
    expect_error(
        acp.call_method(
            "session/prompt",
            json!({ "sessionId": session, "prompt": 7, "x": CONTENT_MARK }),
        )
        .await,
    )?;
    expect_error(
        acp.call_method(
            "session/new",
            json!({ "cwd": format!("/{CONTENT_MARK}"), "mcpServers": CONTENT_MARK }),
        )
        .await,
    )?;
    acp.call_method(
        &format!("_{CONTENT_MARK}/method"),
        json!({ "sessionId": session, "x": CONTENT_MARK }),
    )
    .await
    .ok();
    acp.send_notification(
        &format!("_{CONTENT_MARK}/note"),
        json!({ "sessionId": session, "x": CONTENT_MARK }),
    )
    .await;
    expect_error(acp.send_prompt(&session, &format!("echo {CONTENT_MARK}; crash 9")).await)?;
    acp.send_prompt(&session, "ask").await.ok();
    for (path, body) in [
        (
            "/sessions/agent",
            json!({ "adapter": "scripted", "cwd": cwd(host)?, "label": CONTENT_MARK, "prompt": CONTENT_MARK, "env": { "A": CONTENT_MARK } }),
        ),
        ("/sessions/agent", json!({ "adapter": CONTENT_MARK, "cwd": "/" })),
        ("/sessions/agent", json!({ "adapter": { "x": CONTENT_MARK } })),
        ("/sessions/agent", json!({ "adapter": "scripted", "cwd": format!("/{CONTENT_MARK}") })),
        ("/mcp", json!({ "jsonrpc": "2.0", "id": CONTENT_MARK, "method": CONTENT_MARK })),
        ("/zanzibar?zanzibar=zanzibar", json!({ "x": CONTENT_MARK })),
    ] {
        http.post(path, &body).await?;
    }
    assert_eq!(RestClient::with_token(host, CONTENT_MARK).get("/sessions").await?.status, 401);
    http.send("POST", "/sessions/agent", &[("content-type", "application/json")], CONTENT_MARK)
        .await?;
    Ok(())
}

#[tokio::test]
async fn operator_output_holds_no_session_content() -> Result<()> {
    for level in ["debug", "trace"] {
        let options =
            scripted_host(&["--stderr", CONTENT_MARK])?.with_setting("ask_timeout", "50ms");
        let options = add_section(
            options,
            "[agents.failing]\ncommand = [\"sh\", \"-c\", \"echo zanzibar >&2; exit 3\"]",
        );
        let options = options
            .with_argument("--log-format")
            .with_argument("json")
            .with_variable("WHARF_LOG", level);
        let mut options = options;
        options
            .config
            .get_or_insert_default()
            .insert_str(0, "env_passthrough = [\"MARKED\"]\n");
        let mut host = options.start_host()?;
        let http = RestClient::new(&host);
        use_every_message(&host, &http).await?;
        let failing = json!({ "adapter": "failing", "cwd": cwd(&host)? });
        assert_eq!(http.post("/sessions/agent", &failing).await?.status, 502);

        let metrics = http.get("/metrics").await?.body;
        let debug = http.get("/debug/sessions").await?.body;
        assert!(metrics.contains("outcome=\"other\""), "{metrics}");
        let token = rest::caller_with_role(&host, "observer")?.token().to_owned();
        RestClient::with_token(&host, &token).get("/sessions").await?;
        let own = host.token().to_owned();
        assert!(host.terminate()?.success());
        // A session that comes back is covered too.
        host.restart()?;
        assert!(host.terminate()?.success());
        let output = host.read_stderr();
        for (what, text) in [("metrics", &metrics), ("debug", &debug), ("output", &output)] {
            for secret in [CONTENT_MARK, token.as_str(), own.as_str()] {
                let line = text.lines().find(|line| line.contains(secret));
                assert_eq!(line, None, "{secret} is in the {what} at level {level}");
            }
            assert!(!text.is_empty(), "no {what}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn every_line_of_the_hosts_output_is_json_if_wanted() -> Result<()> {
    let options = scripted_host(&[])?
        .with_setting("log_format", "json")
        .with_setting("log_level", "debug");
    let mut host = options.without_keepers(crate::PROCESSES_END).start_host()?;
    let http = RestClient::new(&host);
    let id = rest::spawn_session(&http, &host).await?;
    rest::send_prompt(&http, &id, "echo hi").await?;
    rest::wait_until_idle(&http, &id).await?;
    assert_eq!(
        rest::caller_with_role(&host, "observer")?
            .post_empty(&format!("/sessions/{id}/kill"))
            .await?
            .status,
        403
    );
    assert!(host.terminate()?.success());
    let lines: Vec<Value> =
        host.read_stderr().lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    assert!(
        lines
            .iter()
            .all(|line| line["timestamp"].is_string() && line["level"].is_string()),
        "{lines:#?}"
    );
    let line = |message: &str| {
        lines
            .iter()
            .find(|line| line["message"] == message)
            .with_context(|| message.to_owned())
    };
    assert_eq!(line("a session runs")?["session"], id);
    assert_eq!(line("a prompt was taken")?["token"], "host");
    assert_eq!(line("a prompt has ended")?["outcome"], "end_turn");
    assert_eq!(line("a session has ended")?["reason"], "host_shutdown");
    let refused = line("a request was refused")?;
    assert_eq!(
        (&refused["code"], &refused["method"]),
        (&json!("observer"), &json!("POST")),
        "{refused}"
    );
    assert!(refused["token"].as_str().is_some_and(|token| token.starts_with("tok_")), "{refused}");
    Ok(())
}

/// Returns the fields of the span of this name, if the line carries it.
fn span_of<'a>(line: &'a Value, name: &str) -> Option<&'a Value> {
    line["spans"].as_array()?.iter().find(|span| span["name"] == name)
}

#[tokio::test]
async fn log_lines_carry_the_spans_of_session_agent_and_client() -> Result<()> {
    let options = scripted_host(&[])?
        .with_setting("log_format", "json")
        .with_setting("log_level", "debug");
    let mut host = options.without_keepers(crate::PROCESSES_END).start_host()?;
    let acp = connect_client_with(&host, json!({}), json!({})).await?;
    let session = acp.new_session(&cwd(&host)?).await?;
    acp.send_prompt(&session, "echo hi").await?;
    expect_error(
        acp.call_method("session/prompt", json!({ "sessionId": "sess_unknown", "prompt": [] }))
            .await,
    )?;
    assert_eq!(RestClient::new(&host).get("/sessions/sess_unknown").await?.status, 404);
    assert!(host.terminate()?.success());
    let lines: Vec<Value> =
        host.read_stderr().lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    for message in
        ["a session runs", "a prompt was taken", "a prompt has ended", "a session has ended"]
    {
        let line = lines
            .iter()
            .find(|line| line["message"] == message)
            .with_context(|| message.to_owned())?;
        assert_eq!(
            span_of(line, "session").map(|span| &span["id"]),
            Some(&json!(session)),
            "{line}"
        );
        assert!(span_of(line, "agent").is_some_and(|span| span["pid"].is_u64()), "{line}");
    }
    let refused: Vec<_> =
        lines.iter().filter(|line| line["message"] == "a request was refused").collect();
    let clients: Vec<_> = refused
        .iter()
        .filter_map(|line| span_of(line, "client")?["id"].as_str())
        .collect();
    assert_eq!(clients.len(), refused.len(), "{refused:?}");
    assert!(clients.iter().any(|client| client.starts_with("api_")), "{clients:?}");
    assert!(
        refused.iter().any(|line| line["client"].is_string()
            && span_of(line, "client").is_some_and(|span| span["id"] == line["client"])),
        "{refused:?}"
    );
    Ok(())
}

#[test]
fn unknown_log_level_or_format_is_an_error() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let told = crate::program::run_failing_serve(dir.path(), &["--log-format", "xml"])?;
    assert!(told.contains("\"text\" or \"json\""), "{told}");
    let file = dir.path().join("config.toml");
    std::fs::write(&file, "log_level = \"wharf=noisy\"\n")?;
    let told = crate::program::run_failing_serve(
        dir.path(),
        &["--config", file.to_str().context("a path")?],
    )?;
    assert!(told.contains("log_level"), "{told}");
    Ok(())
}
