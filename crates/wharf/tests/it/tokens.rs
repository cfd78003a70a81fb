//! Tokens on the command line: created and revoked while a host runs.

use std::process::Output;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{self, client::IntoClientRequest};
use wharf_testkit::client::{Credentials, TestClient, connect};
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;

use crate::program::wharf_command;

/// Runs `wharf token` on the state of this host.
pub(crate) fn run_token(host: &TestHost, arguments: &[&str]) -> Result<Output> {
    let (verb, rest) = arguments.split_first().context("no verb")?;
    Ok(wharf_command(&["token", verb, "--state-dir"])
        .arg(host.state_dir())
        .args(rest)
        .output()?)
}

pub(crate) fn expect_stdout(output: Output) -> Result<String> {
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// Checks exit code 1 and empty stdout; returns stderr.
pub(crate) fn expect_stderr(output: Output) -> Result<String> {
    ensure!(output.status.code() == Some(1) && output.stdout.is_empty(), "{output:?}");
    Ok(String::from_utf8(output.stderr)?)
}

pub(crate) fn create_token(host: &TestHost, arguments: &[&str]) -> Result<(String, String)> {
    let made = expect_stdout(run_token(host, &[&["create", "--json"], arguments].concat())?)?;
    let made: Value = serde_json::from_str(&made)?;
    let text = |key: &str| {
        made[key]
            .as_str()
            .map(str::to_owned)
            .with_context(|| format!("no {key} in {made}"))
    };
    Ok((text("id")?, text("token")?))
}

/// Returns the HTTP status with which a connection with this token is refused; `None` if it is
/// accepted.
pub(crate) async fn refused_status(
    host: &TestHost,
    credentials: &Credentials,
) -> Result<Option<u16>> {
    let Err(error) = connect(&host.ws_url(), credentials).await else { return Ok(None) };
    error.downcast_ref().map_or(Err(anyhow::anyhow!("{error:#}")), host_status)
}

fn host_status(error: &tungstenite::Error) -> Result<Option<u16>> {
    if let tungstenite::Error::Http(response) = error {
        return Ok(Some(response.status().as_u16()));
    }
    anyhow::bail!("{error}")
}

#[tokio::test]
async fn a_controllers_token_works_until_it_is_revoked() -> Result<()> {
    let host = crate::scripted_host(&[])?.start_host()?;
    let (id, text) = create_token(&host, &["--role", "controller"])?;
    let workspace = json!({ "slug": "here", "path": host.directory() });
    RestClient::new(&host).post("/workspaces", &workspace).await?.expect(201)?;
    let client = TestClient::connect(&host.ws_url(), &text).await?;
    client.initialize().await?;
    let session = client.new_session(&crate::cwd(&host)?).await?;
    assert_eq!(crate::stop_reason(client.send_prompt(&session, "echo hello").await)?, "end_turn");

    let ways = [Credentials::Bearer(text.clone()), Credentials::Subprotocol(text)];
    for way in &ways {
        assert_eq!(refused_status(&host, way).await?, None);
    }
    expect_stdout(run_token(&host, &["revoke", &id])?)?;
    for way in &ways {
        assert_eq!(refused_status(&host, way).await?, Some(401));
    }
    assert_eq!(refused_status(&host, &Credentials::Bearer(host.token().to_owned())).await?, None);
    Ok(())
}

#[tokio::test]
async fn a_token_that_is_shown_over_the_socket_counts() -> Result<()> {
    let host = crate::scripted_host(&[])?.start_host()?;
    let (_, observer) = create_token(&host, &["--role", "observer"])?;
    let wrong = "x".repeat(52);
    for (shown, expected) in [(None, None), (Some(&observer), None), (Some(&wrong), Some(401))] {
        let mut request = "ws://localhost/acp".into_client_request()?;
        if let Some(token) = shown {
            request
                .headers_mut()
                .insert("authorization", format!("Bearer {token}").parse()?);
        }
        let stream = tokio::net::UnixStream::connect(host.socket_path()).await?;
        let answer = tokio_tungstenite::client_async(request, stream).await;
        assert_eq!(
            answer.map_or_else(|error| host_status(&error), |_| Ok(None))?,
            expected,
            "{shown:?}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn tokens_survive_a_restart_and_revocations_too() -> Result<()> {
    let mut host = crate::scripted_host(&[])?.start_host()?;
    let (_, kept) = create_token(&host, &["--role", "observer"])?;
    let (id, revoked) = create_token(&host, &["--role", "admin"])?;
    host.kill()?;
    expect_stdout(run_token(&host, &["revoke", &id])?)?;
    host.restart()?;
    assert_eq!(refused_status(&host, &Credentials::Bearer(kept.clone())).await?, None);
    assert_eq!(refused_status(&host, &Credentials::Bearer(revoked.clone())).await?, Some(401));
    for secret in [&kept, &revoked] {
        assert!(!host.read_stderr().contains(secret.as_str()), "a token is in the host's output");
    }
    Ok(())
}

#[tokio::test]
async fn damaged_token_file_is_reported_and_set_aside_at_the_next_start() -> Result<()> {
    let mut host = crate::scripted_host(&[])?.start_host()?;
    let (_, text) = create_token(&host, &["--role", "controller"])?;
    let file = host.state_dir().join("tokens.json");
    std::fs::write(&file, "{")?;
    assert_eq!(refused_status(&host, &Credentials::Bearer(text.clone())).await?, Some(503));
    assert_eq!(refused_status(&host, &Credentials::Bearer(host.token().to_owned())).await?, None);
    for arguments in [&["create", "--role", "admin"][..], &["list"], &["revoke", "tok_x"]] {
        let said = expect_stderr(run_token(&host, arguments)?)?;
        assert!(said.contains("tokens.json is damaged: EOF"), "{said}");
    }
    host.kill()?;
    host.restart()?;
    assert!(host.read_stderr().contains("tokens.json was damaged"), "{}", host.read_stderr());
    assert_eq!(refused_status(&host, &Credentials::Bearer(text)).await?, Some(401));
    assert_eq!(refused_status(&host, &Credentials::Bearer(host.token().to_owned())).await?, None);
    assert!(!file.exists());
    assert_eq!(std::fs::read_to_string(file.with_file_name("tokens.json.damaged"))?, "{");
    Ok(())
}

#[test]
fn a_token_is_shown_once_and_its_hash_never() -> Result<()> {
    let host = crate::scripted_host(&[])?.start_host()?;
    let plain = expect_stdout(run_token(&host, &["create", "--role", "observer"])?)?;
    assert!(
        plain.starts_with("wharf_") && plain.trim_end().len() == 58,
        "stdout is the token alone: {plain}"
    );
    let made = expect_stdout(run_token(
        &host,
        &["create", "--role", "admin", "--label", "ci runner", "--json"],
    )?)?;
    let made: Value = serde_json::from_str(&made)?;
    let (id, text) = (&made["id"], &made["token"]);
    assert_eq!(made, json!({ "id": id, "token": text, "role": "admin", "label": "ci runner" }));

    let listed = expect_stdout(run_token(&host, &["list", "--json"])?)?;
    let entries: Value = serde_json::from_str(&listed)?;
    let at = &entries[1]["createdAt"];
    assert_eq!(
        entries[1],
        json!({ "id": id, "role": "admin", "label": "ci runner", "createdAt": at })
    );
    let table = expect_stdout(run_token(&host, &["list"])?)?;
    assert_eq!(table.lines().count(), 2, "{table}");
    let kept: Value =
        serde_json::from_slice(&std::fs::read(host.state_dir().join("tokens.json"))?)?;
    for entry in kept["tokens"].as_array().context("no tokens")? {
        for secret in [
            plain.trim_end(),
            text.as_str().unwrap_or_default(),
            entry["hash"].as_str().unwrap_or_default(),
        ] {
            assert!(
                !secret.is_empty() && !listed.contains(secret) && !table.contains(secret),
                "{secret} is shown"
            );
        }
    }
    Ok(())
}

#[test]
fn impossible_token_commands_name_their_reason() -> Result<()> {
    let host = crate::scripted_host(&[])?.start_host()?;
    let unknown = run_token(&host, &["revoke", "tok_nobody"])?;
    let said = String::from_utf8_lossy(&unknown.stderr);
    assert!(unknown.status.code() == Some(4) && said.contains("\"tok_nobody\""), "{said}");
    let own = expect_stderr(run_token(&host, &["revoke", "host"])?)?;
    assert!(own.contains("the host's own token"), "{own}");
    let role = run_token(&host, &["create", "--role", "root"])?;
    let said = String::from_utf8_lossy(&role.stderr);
    assert!(
        role.status.code() == Some(2) && said.contains("observer, controller, admin"),
        "{said}"
    );
    Ok(())
}
