//! A confined agent against the host itself: limits, priorities and file modes, which Landlock does
//! not cover.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use wharf_testkit::client::TestClient;
use wharf_testkit::host::TestHost;
use wharf_testkit::pauses::PauseWatch;
use wharf_testkit::{WAIT_LIMIT, polling};

use crate::sandbox::{SandboxDirectories, has_landlock};
use crate::{open_session, prompt_for_text, scripted_host};

/// The time within which a changed mode has to be restored.
const REPAIRED_WITHIN: Duration = Duration::from_secs(1);

async fn open_confined_session(
    yard: &SandboxDirectories,
) -> Result<(TestHost, TestClient, String)> {
    let host = yard.options(&[])?.start_host()?;
    let (client, session) = yard.open(&host).await?;
    Ok((host, client, session))
}

/// Runs one shell command of the agent. Returns `done` or its error message.
async fn run_shell_command(client: &TestClient, session: &str, command: &str) -> Result<String> {
    prompt_for_text(client, session, &format!("sh {command} 2>&1 >/dev/null && echo done")).await
}

#[tokio::test]
async fn confined_agent_cannot_change_limits_and_priorities_of_other_processes() -> Result<()> {
    if !has_landlock() {
        return Ok(());
    }
    let yard = SandboxDirectories::new()?;
    let (host, client, session) = open_confined_session(&yard).await?;
    let keeper =
        prompt_for_text(&client, &session, r"sh sed -n 's/^PPid:\t//p' /proc/$PPID/status").await?;
    for victim in [host.pid().to_string(), keeper.trim().to_owned()] {
        for attack in [
            format!("prlimit --pid {victim} --nofile=64:64"),
            format!("prlimit --pid {victim} --cpu=1:1"),
            format!("renice -n 19 -p {victim}"),
            format!("renice -n 19 -g $(cut -d' ' -f5 /proc/{victim}/stat)"),
            format!("taskset -p 1 {victim}"),
            format!("chrt --idle -p 0 {victim}"),
            format!("ionice -c 3 -p {victim}"),
        ] {
            let said = run_shell_command(&client, &session, &attack).await?;
            assert!(said.contains("Operation not permitted"), "{attack}: {said}");
        }
    }
    // This addresses all processes of the user at once.
    let said = run_shell_command(&client, &session, "renice -n 19 -u $(id -u)").await?;
    assert!(said.contains("Operation not permitted"), "{said}");
    let limits = fs::read_to_string(format!("/proc/{}/limits", host.pid()))?;
    assert!(!limits.contains("Max open files            64"), "{limits}");
    Ok(())
}

#[tokio::test]
async fn confined_agent_sets_its_own_limits_and_priorities() -> Result<()> {
    if !has_landlock() {
        return Ok(());
    }
    let yard = SandboxDirectories::new()?;
    let (_host, client, session) = open_confined_session(&yard).await?;
    for deed in [
        "prlimit --nofile=100:100 true",
        "sh -c 'ulimit -n 100'",
        "nice -n 5 true",
        "taskset 1 true",
        "chrt --idle 0 true",
        "ionice -c 3 true",
        // Reading is harmless.
        "prlimit --pid 1",
        "taskset -p 1",
    ] {
        assert_eq!(run_shell_command(&client, &session, deed).await?, "done\n", "{deed}");
    }
    Ok(())
}

fn file_mode(path: &Path) -> Result<u32> {
    Ok(fs::symlink_metadata(path)?.permissions().mode() & 0o777)
}

async fn assert_repaired(path: &Path, wanted: u32) -> Result<()> {
    let pauses = PauseWatch::start();
    let repaired = polling::poll_until(WAIT_LIMIT, || {
        Ok(Some(()).filter(|()| file_mode(path).ok() == Some(wanted)))
    })
    .await?;
    repaired.with_context(|| {
        format!("{} still has mode {:o}", path.display(), file_mode(path).unwrap_or_default())
    })?;
    pauses.expect_within(REPAIRED_WITHIN, &format!("repairing the mode of {}", path.display()))
}

#[tokio::test]
async fn modes_of_secrets_and_state_that_a_confined_agent_changes_are_put_back_within_a_second()
-> Result<()> {
    if !has_landlock() {
        return Ok(());
    }
    let yard = SandboxDirectories::new()?;
    let (host, client, session) = open_confined_session(&yard).await?;
    let state = host.state_dir();
    let own = state.join("workspaces/default/sessions").join(&session);
    for (path, changed, wanted) in [
        (state.join("token"), "0644", 0o600),
        (state.join("tokens.json"), "0666", 0o600),
        (state.clone(), "0755", 0o700),
        (state.clone(), "0", 0o700),
        (state.join("workspaces"), "0", 0o700),
        (own.join("start.json"), "0644", 0o600),
        (own.join("log"), "0", 0o700),
        (own.clone(), "0755", 0o700),
    ] {
        if !path.exists() {
            assert!(path.ends_with("tokens.json"), "{}", path.display());
            continue;
        }
        // The prompt's own answer takes some time, in which the mode may have been restored
        // already.
        let said = prompt_for_text(
            &client,
            &session,
            &format!("sh chmod {changed} {} && echo changed", path.display()),
        )
        .await?;
        assert_eq!(said, "changed\n", "{}", path.display());
        assert_repaired(&path, wanted).await?;
    }
    let stderr = host.read_stderr();
    let line = stderr
        .lines()
        .find(|line| line.contains("mode") && line.contains("/token"))
        .context("not told")?;
    assert!(line.contains(&session) && line.contains("644"), "{line}");
    Ok(())
}

#[tokio::test]
async fn modes_that_were_changed_while_no_host_ran_are_put_back_at_the_start() -> Result<()> {
    let mut host = scripted_host(&[])?.start_host()?;
    let (client, session) = open_session(&host).await?;
    assert_eq!(prompt_for_text(&client, &session, "echo before").await?, "before");
    // The session has ended in order: after the start it is cold, and the watch over live ones does
    // not look at it.
    host.terminate()?;
    let state = host.state_dir();
    let own = state.join("workspaces/default/sessions").join(&session);
    let deep = [
        own.join("start.json"),
        own.join("log"),
        own.clone(),
        state.join("workspaces"),
        state.join("token"),
    ];
    for path in &deep {
        fs::set_permissions(
            path,
            fs::Permissions::from_mode(if path.is_dir() { 0o755 } else { 0o644 }),
        )?;
    }
    fs::set_permissions(&state, fs::Permissions::from_mode(0o755))?;
    host.restart()?;
    for path in &deep {
        assert_eq!(
            file_mode(path)?,
            if path.is_dir() { 0o700 } else { 0o600 },
            "{}",
            path.display()
        );
    }
    assert_eq!(file_mode(&state)?, 0o700);
    Ok(())
}
