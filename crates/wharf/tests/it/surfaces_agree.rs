//! REST, MCP and the shell at the same time on one registry: ten sessions in four workspaces, each
//! with its own output.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;

use crate::mcp_client::Mcp;
use crate::rest::{output_lines, send_prompt, wait_until_idle};
use crate::{cli, scripted_host};

const WORKSPACE_SLUGS: [&str; 4] = ["api", "docs", "site", "tools"];
const SESSION_COUNT: usize = 10;

fn session_label(number: usize) -> (String, &'static str) {
    (format!("job-{number}"), WORKSPACE_SLUGS[number % WORKSPACE_SLUGS.len()])
}

fn session_id(session: &Value) -> Result<String> {
    Ok(session["id"].as_str().context("no id")?.to_owned())
}

/// Starts the session with this number; surfaces take turns.
async fn start_session(
    host: &TestHost,
    http: &RestClient,
    mcp: &mut Mcp,
    number: usize,
) -> Result<String> {
    let (label, workspace) = session_label(number);
    let arguments = json!({ "adapter": "scripted", "workspaceSlug": workspace, "label": label });
    match number % 3 {
        0 => session_id(&http.post("/sessions/agent", &arguments).await?.expect(201)?),
        1 => session_id(&mcp.call_tool("start_agent_session", arguments).await?),
        _ => cli::start_kept_session(host, &["--workspace", workspace, "--label", &label]),
    }
}

/// Prompts the session through another surface than the one that started it.
async fn prompt_session(
    host: &TestHost,
    http: &RestClient,
    mcp: &mut Mcp,
    number: usize,
    session: &str,
) -> Result<()> {
    let text = format!("echo output of {number}");
    match number % 3 {
        0 => drop(
            mcp.call_tool("prompt_agent_session", json!({ "sessionId": session, "prompt": text }))
                .await?,
        ),
        1 => drop(cli::run_wharf(host, &["prompt", session, &text])?),
        _ => drop(send_prompt(http, session, &text).await?),
    }
    Ok(())
}

fn list_ids(list: &Value) -> Result<BTreeSet<String>> {
    list["sessions"].as_array().context("no list")?.iter().map(session_id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_sessions_in_four_workspaces_look_the_same_on_every_surface() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let http = RestClient::new(&host);
    for slug in WORKSPACE_SLUGS {
        let path = host.directory().join(slug);
        fs::create_dir_all(&path)?;
        http.post("/workspaces", &json!({ "slug": slug, "path": path }))
            .await?
            .expect(201)?;
    }
    let mut mcp = Mcp::over_stdio(&host)?;
    let mut sessions = Vec::new();
    for number in 0..SESSION_COUNT {
        sessions.push(start_session(&host, &http, &mut mcp, number).await?);
    }
    // All sessions are prompted before the test waits for any.
    for (number, session) in sessions.iter().enumerate() {
        prompt_session(&host, &http, &mut mcp, number, session).await?;
    }
    let expected: BTreeSet<String> = sessions.iter().cloned().collect();
    let shell: Value =
        serde_json::from_str(&cli::run_wharf(&host, &["sessions", "--all", "--json"])?)?;
    let by_mcp = mcp.call_tool("list_agent_sessions", json!({})).await?;
    for list in [http.get("/sessions").await?.expect(200)?, by_mcp, shell] {
        assert_eq!(list_ids(&list)?, expected);
    }
    for (number, session) in sessions.iter().enumerate() {
        let (label, workspace) = session_label(number);
        let seen = wait_until_idle(&http, session).await?;
        assert_eq!((&seen["workspaceSlug"], &seen["label"]), (&json!(workspace), &json!(label)));
        let lines = [format!("output of {number}"), "── turn-end (end_turn) ──".to_owned()];
        assert_eq!(output_lines(&http, session).await?, lines);
        let by_mcp = mcp
            .call_tool("get_agent_session_output", json!({ "sessionId": session }))
            .await?;
        assert_eq!(by_mcp["lines"], json!(lines));
        assert_eq!(
            cli::run_wharf(&host, &["output", &label, "--style", "lines"])?,
            format!("{}\n", lines.join("\n"))
        );
    }
    for slug in WORKSPACE_SLUGS {
        let listed =
            list_ids(&http.get(&format!("/sessions?workspace={slug}")).await?.expect(200)?)?;
        let own = (0..SESSION_COUNT)
            .filter(|number| session_label(*number).1 == slug)
            .map(|number| sessions[number].clone());
        assert_eq!(listed, own.collect(), "{slug}");
    }
    Ok(())
}
