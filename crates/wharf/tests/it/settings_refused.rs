//! An agent that refuses the earlier settings on return, and how a caller can continue (rule
//! 12.12).

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tempfile::TempDir;
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;

use crate::cli;
use crate::{connect_client, cwd, expect_error, open_session, prompt_for_text, scripted_host};

/// Creates a session whose agent does not report its mode on return and refuses to set it.
async fn create_stuck_session(folder: &TempDir) -> Result<(TestHost, String)> {
    let folder = folder.path().to_str().context("the path is not UTF-8")?;
    let mut host = scripted_host(&["--settings", folder, "--refuse-same", "--silent-load"])?
        .without_keepers(crate::AGENT_COMES_BACK)
        .start_host()?;
    let (client, session) = open_session(&host).await?;
    client
        .call_method("session/set_mode", json!({ "sessionId": session, "modeId": "auto" }))
        .await?;
    client.send_prompt(&session, "echo before").await?;
    host.restart()?;
    Ok((host, session))
}

const REFUSAL_PARTS: [&str; 4] =
    [r#"mode "auto""#, "already in that mode", r#"{"current":"auto"}"#, "--accept-agent-settings"];

fn assert_names_reason(text: &str) {
    for part in REFUSAL_PARTS {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
}

#[tokio::test]
async fn refusal_names_the_value_and_the_agents_reason_on_every_surface() -> Result<()> {
    let folder = TempDir::new()?;
    let (host, session) = create_stuck_session(&folder).await?;
    let client = connect_client(&host).await?;
    let error = expect_error(client.load_session(&session, &cwd(&host)?).await)?;
    assert_names_reason(&error.message);
    assert_eq!(error.data["reason"], "start_failed", "{error}");
    assert_eq!(error.data["agentError"]["data"], json!({ "current": "auto" }), "{error}");
    let answer = RestClient::new(&host)
        .post(&format!("/sessions/{session}/resume"), &json!({}))
        .await?;
    assert_eq!(answer.status, 502);
    assert_names_reason(answer.json()["detail"].as_str().unwrap_or_default());
    assert_eq!(
        answer.json()["agentError"]["data"],
        json!({ "current": "auto" }),
        "{}",
        answer.json()
    );
    assert_names_reason(&cli::run_failing_wharf(&host, &["resume", &session], 13)?);
    Ok(())
}

#[tokio::test]
async fn agents_own_settings_are_accepted_when_the_caller_says_so() -> Result<()> {
    let accept = json!({ "acceptAgentSettings": true });
    for way in ["rest", "cli", "load", "resume", "attach"] {
        let folder = TempDir::new()?;
        let (host, session) = create_stuck_session(&folder).await?;
        let client = connect_client(&host).await?;
        let params = json!({ "sessionId": session, "cwd": cwd(&host)?, "mcpServers": [], "_meta": { "wharf": accept } });
        match way {
            "rest" => {
                let path = format!("/sessions/{session}/resume");
                RestClient::new(&host).post(&path, &accept).await?.expect(200)?;
            }
            "cli" => drop(cli::run_wharf(&host, &["resume", &session, "--accept-agent-settings"])?),
            method => drop(client.call_method(&format!("session/{method}"), params).await?),
        }
        assert!(
            prompt_for_text(&client, &session, "settings").await?.starts_with("mode=auto "),
            "{way}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn another_mode_is_taken_when_the_caller_names_one() -> Result<()> {
    let named = json!({ "sessionMode": "ask" });
    for way in ["rest", "cli", "load"] {
        let folder = TempDir::new()?;
        let (host, session) = create_stuck_session(&folder).await?;
        let client = connect_client(&host).await?;
        let params = json!({ "sessionId": session, "cwd": cwd(&host)?, "mcpServers": [], "_meta": { "wharf": named } });
        match way {
            "rest" => {
                let path = format!("/sessions/{session}/resume");
                // Effort and model have no other spelling either: they are refused like the mode.
                let body = json!({ "sessionMode": "ask", "acceptAgentSettings": true });
                RestClient::new(&host).post(&path, &body).await?.expect(200)?;
            }
            "cli" => {
                let flags =
                    ["resume", &session, "--session-mode", "ask", "--accept-agent-settings"];
                cli::run_wharf(&host, &flags)?;
            }
            _ => {
                let mut params = params;
                params["_meta"]["wharf"]["acceptAgentSettings"] = true.into();
                client.call_method("session/load", params).await?;
            }
        }
        assert!(
            prompt_for_text(&client, &session, "settings").await?.starts_with("mode=ask "),
            "{way}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn prompt_verb_fails_when_the_session_cannot_come_back() -> Result<()> {
    let folder = TempDir::new()?;
    let (host, session) = create_stuck_session(&folder).await?;
    let told = cli::run_failing_wharf(&host, &["prompt", &session, "echo never"], 13)?;
    assert_names_reason(&told);
    let listed = cli::run_wharf(&host, &["sessions"])?;
    assert!(listed.contains("error") && !listed.contains("asleep"), "{listed}");
    let listed = cli::run_wharf(&host, &["sessions", "--json"])?;
    let listed: Value = serde_json::from_str(&listed)?;
    let known = &listed["sessions"][0];
    assert_eq!(
        (&known["status"], &known["endReason"]),
        (&json!("error"), &json!("start_failed")),
        "{known}"
    );
    assert_names_reason(known["message"].as_str().unwrap_or_default());
    Ok(())
}

#[tokio::test]
async fn mode_and_acceptance_are_checked_in_the_body() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    let (_client, session) = open_session(&host).await?;
    for wrong in [
        json!({ "sessionMode": 7 }),
        json!({ "acceptAgentSettings": "yes" }),
        json!({ "sessionMode": "" }),
    ] {
        let answer = RestClient::new(&host)
            .post(&format!("/sessions/{session}/resume"), &wrong)
            .await?;
        assert_eq!(answer.status, 422, "{wrong}");
    }
    Ok(())
}
