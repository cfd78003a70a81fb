//! Secrets appear in no command line, log, problem, `/debug/sessions` or message of a failing agent
//! (rule 10.6). The state is private to its owner, whatever the umask.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Result, ensure};
use serde_json::json;
use wharf_testkit::host::{HostOptions, TestHost};
use wharf_testkit::http::RestClient;
use wharf_testkit::processes;

use crate::rest::{send_prompt, spawn_session, wait_until_idle};
use crate::{add_section, connect_client_with, cwd, scripted_host, start_from_shell};

/// A secret of a well-known form, and one of no known form.
const KNOWN_FORM_SECRET: &str = "sk-ant-api03-Zq8Lk2Vw9Xy7Tb4Nc6Hd";
const PLAIN_SECRET: &str = "correct-horse-battery-staple";

/// Configures a host that logs everything, with a secret in an agent's environment.
fn configure_verbose_host() -> Result<HostOptions> {
    let options = add_section(
        scripted_host(&["--resume"])?,
        &format!(
            "env = {{ PROVIDER_KEY = \"{KNOWN_FORM_SECRET}\", PASSPHRASE = \"{PLAIN_SECRET}\" }}"
        ),
    );
    // The agent prints its key, as some agents do, and exits.
    let command =
        ["sh", "-c", "echo \"refused: key $PROVIDER_KEY\" >&2; exit 3"].map(str::to_owned);
    let failing = add_section(
        options.with_agent("failing", &command),
        &format!("env = {{ PROVIDER_KEY = \"{KNOWN_FORM_SECRET}\" }}"),
    );
    Ok(failing.with_variable("WHARF_LOG", "trace"))
}

fn check_hidden(what: &str, text: &str, host: &TestHost) -> Result<()> {
    for secret in [KNOWN_FORM_SECRET, PLAIN_SECRET, host.token()] {
        ensure!(!text.contains(secret), "{what} has a secret: {text}");
    }
    Ok(())
}

#[tokio::test]
async fn secrets_are_in_no_command_line_log_problem_or_description() -> Result<()> {
    let mut host = configure_verbose_host()?.start_host()?;
    let http = RestClient::new(&host);
    let session = spawn_session(&http, &host).await?;
    send_prompt(&http, &session, "env PROVIDER_KEY; env PASSPHRASE").await?;
    wait_until_idle(&http, &session).await?;
    // The agent has the secrets, and the session's log has them too, since it holds the
    // conversation.
    let events = http.get(&format!("/sessions/{session}/events")).await?.body;
    ensure!(events.contains(KNOWN_FORM_SECRET) && events.contains(PLAIN_SECRET), "{events}");
    let output = http.get(&format!("/sessions/{session}/output")).await?.body;
    ensure!(!output.contains(KNOWN_FORM_SECRET) && output.contains("sk-[redacted]"), "{output}");

    for pid in processes::list_descendants(host.pid()).into_iter().chain([host.pid()]) {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        check_hidden("a command line", &String::from_utf8_lossy(&line), &host)?;
    }
    for path in ["/debug/sessions", "/metrics", "/host", "/sessions", "/adapters"] {
        check_hidden(path, &http.get(path).await?.body, &host)?;
    }
    // The error of a failed start carries the agent's last output.
    let failed = http
        .post("/sessions/agent", &json!({ "adapter": "failing", "cwd": cwd(&host)? }))
        .await?;
    ensure!(failed.status == 502 && failed.body.contains("refused: key"), "{}", failed.body);
    check_hidden("a problem", &failed.body, &host)?;
    let wrong = http
        .post(
            "/sessions/agent",
            &json!({ "adapter": KNOWN_FORM_SECRET, "cwd": cwd(&host)?, "env": { "K": PLAIN_SECRET } }),
        )
        .await?;
    ensure!(wrong.status >= 400 && !wrong.body.contains(PLAIN_SECRET), "{}", wrong.body);
    let stolen = RestClient::with_token(&host, &format!("{KNOWN_FORM_SECRET}{PLAIN_SECRET}"))
        .get("/sessions")
        .await?;
    check_hidden("a refusal", &stolen.body, &host)?;
    host.terminate()?;
    let log = host.read_stderr();
    ensure!(log.contains("stopping"), "the host logs nothing: {log}");
    check_hidden("the host's log", &log, &host)
}

#[tokio::test]
async fn variables_sent_by_a_client_are_not_logged() -> Result<()> {
    let mut host = configure_verbose_host()?.start_host()?;
    let client = connect_client_with(
        &host,
        json!({}),
        json!({ "wharf": { "env": { "PROVIDER_KEY": KNOWN_FORM_SECRET } } }),
    )
    .await?;
    let session = client.new_session(&cwd(&host)?).await?;
    client
        .send_prompt(&session, &format!("echo {PLAIN_SECRET} {KNOWN_FORM_SECRET}"))
        .await?;
    client.send_raw(&format!("{{ nonsense {KNOWN_FORM_SECRET}")).await;
    let _ = client
        .call_method("session/prompt", json!({ "sessionId": session, "prompt": KNOWN_FORM_SECRET }))
        .await;
    let _ = client
        .call_method(&format!("_{PLAIN_SECRET}"), json!({ "key": KNOWN_FORM_SECRET }))
        .await;
    let _ = client.load_session(PLAIN_SECRET, "/").await;
    let _ = client
        .send_prompt(&session, &format!("malformed; raw {{\"{PLAIN_SECRET}\"; crash 3"))
        .await;
    host.terminate()?;
    check_hidden("the host's log", &host.read_stderr(), &host)
}

#[tokio::test]
async fn everything_in_the_state_directory_is_for_its_owner_alone() -> Result<()> {
    let (options, _folder) = start_from_shell(scripted_host(&["--resume"])?, "umask 0")?;
    let mut host = options.start_host()?;
    let http = RestClient::new(&host);
    crate::rest::caller_with_role(&host, "observer")?;
    http.post("/workspaces", &json!({ "slug": "one", "path": cwd(&host)? }))
        .await?
        .expect(201)?;
    let session = spawn_session(&http, &host).await?;
    send_prompt(&http, &session, "stream 100").await?;
    wait_until_idle(&http, &session).await?;
    check_private(&host.state_dir())?;
    host.terminate()?;
    check_private(&host.state_dir())
}

fn check_private(path: &Path) -> Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    let expected = if metadata.is_dir() { 0o700 } else { 0o600 };
    let mode = metadata.permissions().mode() & 0o777;
    ensure!(mode == expected, "{} has mode {mode:o}", path.display());
    if metadata.is_dir() {
        for entry in fs::read_dir(path)? {
            check_private(&entry?.path())?;
        }
    }
    Ok(())
}
