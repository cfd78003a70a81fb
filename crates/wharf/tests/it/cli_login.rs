//! `wharf login`: the agent's own login, and the state of it in the list of agents.

use anyhow::{Context, Result};
use serde_json::Value;
use wharf_testkit::host::TestHost;
use wharf_testkit::http::RestClient;

use crate::cli::{command_for_host, expect_output, run_failing_wharf, run_wharf};
use crate::program::{start_and_read_lines, terminal_command};
use crate::{scripted_host, wharf_binary};

async fn login_state(host: &TestHost) -> Result<Value> {
    let listed = RestClient::new(host).get("/adapters").await?.expect(200)?;
    let adapters = listed["adapters"].as_array().context("no adapters")?;
    Ok(adapters
        .iter()
        .find(|adapter| adapter["slug"] == "scripted")
        .context("not listed")?["login"]
        .clone())
}

#[tokio::test]
async fn login_by_the_agent_is_checked_with_a_session_that_leaves_no_trace() -> Result<()> {
    let host = scripted_host(&["--auth"])?.start_host()?;
    let failed = command_for_host(&host, &["run", "scripted", "echo x"]).output()?;
    assert_eq!(failed.status.code(), Some(13), "{failed:?}");
    let said = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert!(
        said.lines()
            .any(|line| line == "login needed: wharf login scripted, then try again"),
        "{said}"
    );
    assert_eq!(login_state(&host).await?, "no");
    assert!(
        run_wharf(&host, &["agents"])?
            .lines()
            .any(|line| line.starts_with("scripted\t") && line.ends_with("\tno"))
    );
    let before = run_wharf(&host, &["ls", "-aq"])?;
    assert_eq!(run_wharf(&host, &["login", "scripted"])?, "scripted is logged in\n");
    assert_eq!(login_state(&host).await?, "yes");
    assert_eq!(run_wharf(&host, &["ls", "-aq"])?, before, "the session of the check is gone");
    assert!(
        run_failing_wharf(&host, &["login", "scripted", "--method", "x"], 4)?
            .contains("token (Token)")
    );
    Ok(())
}

#[test]
fn login_in_a_terminal_runs_the_agents_program_there() -> Result<()> {
    let host = scripted_host(&["--terminal-auth"])?.start_host()?;
    let config = host.directory().join("config.toml");
    let arguments = format!("--no-start --config {} login scripted", config.display());
    let mut command = terminal_command(&format!("exec {} {arguments}", wharf_binary().display()));
    command.env("WHARF_STATE_DIR", host.state_dir()).env("HOME", "/nonexistent");
    let mut login = start_and_read_lines(command)?;
    let said = login.read_rest()?.join("\n");
    // The scripted agent's login is to end with 7.
    assert!(said.contains("the login of scripted ended with exit status: 7"), "{said}");
    assert_eq!(login.code()?, Some(13));
    let refused = run_failing_wharf(&host, &["login", "scripted"], 2)?;
    assert!(refused.contains("the login needs a terminal"), "{refused}");
    Ok(())
}

#[test]
fn agents_without_a_login_and_unknown_ones_are_told_apart() -> Result<()> {
    let host = scripted_host(&[])?.start_host()?;
    assert_eq!(run_wharf(&host, &["login", "demo"])?, "demo offers no login: it needs none\n");
    assert!(run_failing_wharf(&host, &["login", "nobody"], 4)?.contains("wharf agents"));
    let output = command_for_host(&host, &["login", "claude"])
        .env("PATH", "/nonexistent")
        .output()?;
    // The host has its own PATH: installed there or not, there is no terminal for a login.
    let code = output.status.code().context("killed")?;
    assert!([2, 4, 13].contains(&code), "{}", expect_output(output, 2)?);
    Ok(())
}
