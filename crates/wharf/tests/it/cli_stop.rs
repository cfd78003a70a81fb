//! `wharf stop`: turns are cut only on purpose, and agents can be left to the next host.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use wharf_testkit::host::{HostOptions, TestHost};
use wharf_testkit::http::RestClient;
use wharf_testkit::{WAIT_LIMIT, processes};

use crate::cli::{
    command_for_host, expect_output, run_failing_wharf, run_wharf, start_kept_session,
};
use crate::cli_host::command_for_state;
use crate::metrics_page::MetricsPage;
use crate::program::{shell_command, wharf_command};
use crate::rest::{send_prompt, wait_for_session, wait_until_idle};
use crate::screen_terminal::ScreenTerminal;
use crate::{TREE_ENDS_WITHIN, log, parse_pids, scripted_host};

const SIZE: (u16, u16) = (24, 100);

/// Starts a session whose turn does not end by itself. Returns its id and the agent's pid.
async fn start_endless_turn(host: &TestHost) -> Result<(String, u32)> {
    let (http, id) = (RestClient::new(host), start_kept_session(host, &[])?);
    wait_until_idle(&http, &id).await?;
    let said = run_wharf(host, &["prompt", &id, "--wait", "pid"])?;
    let agent = said.lines().flat_map(parse_pids).next().context("no pid")?;
    send_prompt(&http, &id, "hang").await?;
    wait_for_session(&http, &id, "a running turn", |session| session["turn"] == "running").await?;
    Ok((id, agent))
}

/// Runs a verb that must succeed; returns its stderr.
fn read_notes(host: &TestHost, arguments: &[&str]) -> Result<String> {
    let output = command_for_host(host, arguments).output()?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    expect_output(output, 0)?;
    Ok(stderr)
}

/// Interrupts the turn, stops the host, and checks that the agent is gone.
async fn stop_after_interrupt(host: &TestHost, id: &str, agent: u32) -> Result<()> {
    run_wharf(host, &["interrupt", id])?;
    wait_until_idle(&RestClient::new(host), id).await?;
    run_wharf(host, &["stop"])?;
    processes::wait_gone(&[agent], TREE_ENDS_WITHIN)
        .map_err(|left| anyhow::anyhow!("{left:?} outlive the host"))
}

#[tokio::test]
async fn stop_without_a_terminal_cuts_turns_only_by_force() -> Result<()> {
    let mut host = scripted_host(&[])?.without_keepers(crate::TURN_IS_CUT).start_host()?;
    start_endless_turn(&host).await?;
    start_endless_turn(&host).await?;
    let refused = run_failing_wharf(&host, &["stop"], 5)?;
    let told = ["2 turns are under way and would be cut", "wharf stop --keep-agents", "--force"];
    assert!(told.iter().all(|words| refused.contains(words)), "{refused}");
    // These agents end with the host, however it is stopped.
    let refused = run_failing_wharf(&host, &["stop", "--keep-agents"], 5)?;
    assert!(
        refused.contains("2 turns are under way") && !refused.contains("wharf stop --keep-agents"),
        "{refused}"
    );
    assert!(processes::is_alive(host.pid()));

    let stopped = run_wharf(&host, &["stop", "--force"])?;
    assert!(stopped.contains("2 turns were cut"), "{stopped}");
    assert!(host.wait_exit(WAIT_LIMIT)?.success());
    Ok(())
}

#[tokio::test]
async fn stop_without_turns_asks_nobody() -> Result<()> {
    let mut host = scripted_host(&[])?.start_host()?;
    let id = start_kept_session(&host, &[])?;
    wait_until_idle(&RestClient::new(&host), &id).await?;
    let stopped = run_wharf(&host, &["stop"])?;
    assert!(!stopped.contains("cut"), "{stopped}");
    assert!(host.wait_exit(WAIT_LIMIT)?.success());
    Ok(())
}

#[tokio::test]
async fn stop_on_a_terminal_asks_before_it_cuts_turns() -> Result<()> {
    let mut host = scripted_host(&[])?.start_host()?;
    start_endless_turn(&host).await?;
    for (answer, code) in [("n\r", 5), ("y\r", 0)] {
        assert!(processes::is_alive(host.pid()));
        let mut terminal = ScreenTerminal::run_wharf(&host, SIZE, &["stop"])?;
        terminal.wait_for_text("1 turn is under way and would be cut. Stop the host? [y/N]")?;
        terminal.press(answer)?;
        let (ended, screen) = terminal.finish()?;
        assert_eq!(ended, Some(code), "{screen}");
    }
    assert!(host.wait_exit(WAIT_LIMIT)?.success());
    Ok(())
}

#[tokio::test]
async fn agents_that_are_kept_go_on_until_the_next_host() -> Result<()> {
    let options = scripted_host(&[])?.with_variable("WHARF_KEEPER_ABSENCE", "60s");
    let mut host = options.with_variable("WHARF_KEEPER_IDLE_ABSENCE", "60s").start_host()?;
    let (id, agent) = start_endless_turn(&host).await?;
    let notes = read_notes(&host, &["stop", "--keep-agents"])?;
    assert!(notes.contains("1 agent goes on without a host"), "{notes}");
    assert!(host.wait_exit(WAIT_LIMIT)?.success());
    assert!(processes::is_alive(agent));
    let notes = read_notes(&host, &["stop", "--keep-agents"])?;
    assert!(notes.contains("no host was running") && notes.contains("1 agent goes on"), "{notes}");
    let doctor = command_for_host(&host, &["doctor"]).output()?;
    let doctor = String::from_utf8_lossy(&doctor.stdout);
    assert!(doctor.contains("keepers\t1 agent outlives its host"), "{doctor}");

    host.restart()?;
    let http = RestClient::new(&host);
    let described = http.get("/host").await?.expect(200)?;
    assert_eq!(described["turns"], serde_json::json!({ "running": 1, "kept": 1 }));
    let listed = http.get("/debug/sessions").await?.expect(200)?;
    assert_eq!(listed["sessions"][0]["keeper"]["version"], env!("CARGO_PKG_VERSION"), "{listed}");
    assert_eq!(run_wharf(&host, &["sessions", "--format", "kept"])?, "60000\n");
    let shown = run_wharf(&host, &["show", &id])?;
    assert!(shown.contains("kept\t1m without a host, up to 64M of output"), "{shown}");
    let page = MetricsPage::of(&http).await?;
    assert_eq!(page.get("wharf_absence_limit_seconds")?, 60.0);
    assert_eq!(page.get("wharf_absence_output_limit_bytes")?, f64::from(64 << 20));
    assert_eq!((page.get("wharf_agents_kept")?, page.get("wharf_agents_taken_over")?), (1.0, 1.0));
    assert!(page.get("wharf_longest_absence_seconds")? > 0.0);
    stop_after_interrupt(&host, &id, agent).await
}

#[tokio::test]
async fn stop_without_a_host_ends_the_agents_that_one_has_left() -> Result<()> {
    let mut host = scripted_host(&[])?.start_host()?;
    let (id, agent) = start_endless_turn(&host).await?;
    assert!(host.terminate()?.success());
    let refused = command_for_state(&host.state_dir(), &["stop"]).output()?;
    let notes = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(5), "the turn is not cut without a word: {notes}");
    assert!(notes.contains("1 agent goes on without one: starting a host to end"), "{notes}");
    assert!(processes::is_alive(agent));
    // The host that was started is there now.
    let stopped = run_wharf(&host, &["stop", "--force"])?;
    assert!(stopped.contains("1 turn was cut"), "{stopped}");
    assert_eq!(processes::wait_gone(&[agent], TREE_ENDS_WITHIN), Ok(()));
    let ends = log::list_events(&host, &id, "prompt_ended")?;
    assert_eq!(
        ends.last().map(|event| &event["end"]["how"]),
        Some(&serde_json::json!("host_shutdown")),
        "{ends:?}"
    );
    Ok(())
}

#[tokio::test]
async fn sigterm_leaves_kept_agents_and_sigint_ends_them() -> Result<()> {
    let mut host = scripted_host(&[])?.start_host()?;
    let (_, agent) = start_endless_turn(&host).await?;
    assert!(host.terminate()?.success());
    assert!(processes::is_alive(agent));
    host.restart()?;
    ensure!(
        shell_command("kill -INT $1").arg(host.pid().to_string()).status()?.success(),
        "no SIGINT was sent"
    );
    assert!(host.wait_exit(WAIT_LIMIT)?.success());
    assert_eq!(processes::wait_gone(&[agent], TREE_ENDS_WITHIN), Ok(()));
    Ok(())
}

/// Writes a stand-in for `systemd-run` that notes its arguments and then runs this line of shell.
fn write_systemd_run(folder: &Path, line: &str) -> Result<()> {
    let path = folder.join("systemd-run");
    fs::write(
        &path,
        format!("#!/bin/sh\necho \"$@\" >> {}\n{line}\n", folder.join("calls").display()),
    )?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

fn scoped_host(folder: &Path) -> Result<HostOptions> {
    let path = format!("{}:/usr/bin:/bin", folder.display());
    Ok(scripted_host(&[])?
        .with_variable("WHARF_KEEPER_SCOPE", "user")
        .with_variable("PATH", &path))
}

/// `systemd-run --scope` becomes the command by `exec`, and so does the stand-in.
#[tokio::test]
async fn keeper_in_a_scope_is_the_hosts_child_and_its_agent_is_taken_over() -> Result<()> {
    let folder = tempfile::tempdir()?;
    write_systemd_run(folder.path(), "while [ \"$1\" != -- ]; do shift; done; shift; exec \"$@\"")?;
    let mut host = scoped_host(folder.path())?.start_host()?;
    let (id, agent) = start_endless_turn(&host).await?;
    let calls = fs::read_to_string(folder.path().join("calls"))?;
    assert!(
        calls.starts_with("--user --scope --quiet --collect -- ") && calls.contains(" __keeper "),
        "{calls}"
    );
    assert_eq!(
        calls.lines().count(),
        1,
        "only the agent has a keeper that may outlive the host: {calls}"
    );
    host.kill()?;
    assert!(processes::is_alive(agent));
    host.restart()?;
    stop_after_interrupt(&host, &id, agent).await
}

#[tokio::test]
async fn keeper_starts_without_a_scope_if_systemd_run_fails_or_is_missing() -> Result<()> {
    let folder = tempfile::tempdir()?;
    write_systemd_run(folder.path(), "echo Failed to connect to bus >&2; exit 1")?;
    let missing = scripted_host(&[])?
        .with_variable("WHARF_KEEPER_SCOPE", "user")
        .with_variable("PATH", "/nonexistent");
    for (options, reason) in
        [(scoped_host(folder.path())?, "ended before"), (missing, "not on the PATH")]
    {
        let host = options.start_host()?;
        let id = start_kept_session(&host, &[])?;
        wait_until_idle(&RestClient::new(&host), &id).await?;
        let log = host.read_stderr();
        assert!(
            log.contains("cannot be started in a scope of systemd") && log.contains(reason),
            "{log}"
        );
        run_wharf(&host, &["stop"])?;
    }
    Ok(())
}

#[test]
fn unknown_scope_is_refused() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut command = wharf_command(&["serve", "--listen", "127.0.0.1:0"]);
    let output = command
        .env("WHARF_STATE_DIR", folder.path())
        .env("WHARF_KEEPER_SCOPE", "1")
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("WHARF_KEEPER_SCOPE"), "{said}");
    assert!(said.contains("`none`, `user`, `system`"), "{said}");
    Ok(())
}
