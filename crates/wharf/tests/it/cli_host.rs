//! Client verbs and the host process: it is started on demand, stopped on request, and its version
//! is checked before use.

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use wharf_testkit::http::RestClient;
use wharf_testkit::{WAIT_LIMIT, processes};

use crate::program::wharf_command;
use crate::rest::caller_with_role;
use crate::scripted_host;

/// Returns a `wharf` command for a state directory that no host has used.
pub(crate) fn command_for_state(state: &Path, arguments: &[&str]) -> Command {
    let mut command = wharf_command(arguments);
    command
        .env("WHARF_STATE_DIR", state)
        .env("WHARF_LISTEN", "127.0.0.1:0")
        .env("HOME", state);
    processes::mark_command(&mut command, state);
    command
}

fn host_status(state: &Path) -> Result<Value> {
    let output = command_for_state(state, &["status", "--json"]).output()?;
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Stops the host of a state directory, with its agents, when the test ends, passed or failed.
pub(crate) struct StopHostOnDrop<'a>(pub(crate) &'a Path);

impl Drop for StopHostOnDrop<'_> {
    fn drop(&mut self) {
        let _ = command_for_state(self.0, &["stop", "--force"]).output();
        let _ = processes::kill_marked(self.0, WAIT_LIMIT);
    }
}

#[test]
fn a_host_is_started_when_one_is_needed_and_stop_leaves_nothing_running() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let state = folder.path().join("state");
    let _stopped = StopHostOnDrop(&state);
    let ran = command_for_state(&state, &["run", "demo", "--keep", "echo hello"]).output()?;
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    ensure!(
        ran.status.success() && out.starts_with("hello\n") && err.contains("started one"),
        "{out}{err}"
    );
    let host = host_status(&state)?;
    let pid = host["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).context("no pid")?;
    assert_eq!((&host["running"], &host["sessions"]["live"]), (&json!(true), &json!(1)), "{host}");
    assert_eq!(host["version"], env!("CARGO_PKG_VERSION"));
    let tree = processes::list_descendants(pid);
    assert!(!tree.is_empty(), "there is no agent");

    let stopped = command_for_state(&state, &["stop"]).output()?;
    assert!(stopped.status.success(), "{stopped:?}");
    assert!(!processes::is_alive(pid), "stop returned before the host was gone");
    assert_eq!(processes::wait_gone(&tree, WAIT_LIMIT), Ok(()));
    assert!(!state.join("wharf.sock").exists());
    let again = command_for_state(&state, &["stop"]).output()?;
    assert!(
        again.status.success()
            && String::from_utf8_lossy(&again.stderr).contains("no host was running")
    );
    assert_eq!(command_for_state(&state, &["status"]).output()?.status.code(), Some(3));
    Ok(())
}

#[test]
fn verbs_that_come_at_once_share_one_host() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let state = folder.path().join("state");
    let _stopped = StopHostOnDrop(&state);
    let mut children = Vec::new();
    for _ in 0..4 {
        let mut verb = command_for_state(&state, &["run", "demo", "echo hello"]);
        children.push(
            verb.stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::piped())
                .spawn()?,
        );
    }
    for child in children {
        let Output { status, stdout, stderr } = child.wait_with_output()?;
        ensure!(
            status.success() && stdout.starts_with(b"hello\n"),
            "{}",
            String::from_utf8_lossy(&stderr)
        );
    }
    assert_eq!(host_status(&state)?["sessions"]["total"], 4);
    Ok(())
}

#[test]
fn no_host_is_started_when_autostart_is_off() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let state = folder.path().join("state");
    for verb in [
        &["run", "demo", "x"][..],
        &["sessions"],
        &["show", "x"],
        &["prompt", "x", "y"],
        &["output"],
        &["interrupt"],
        &["kill", "x"],
        &["resume"],
        &["forget", "x", "--yes"],
        &["kill", "--all", "--yes"],
        &["prune", "--older-than", "1d", "--yes"],
        &["rename", "x", "y"],
        &["label", "x", "y"],
        &["archive", "x"],
        &["set"],
        &["fork"],
        &["login", "demo"],
        &["asks"],
        &["logs", "x"],
        &["search", "x"],
        &["export"],
        &["usage"],
        &["changes"],
        &["answer", "x", "y"],
        &["queue"],
        &["workspace", "list"],
        &["agents"],
    ] {
        let output = command_for_state(&state, &[verb, &["--no-start"]].concat()).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{verb:?} {said}");
        assert!(output.stdout.is_empty() && said.contains("wharf serve"), "{verb:?} {said}");
    }
    assert!(!state.exists(), "something was made");
    Ok(())
}

#[test]
fn failed_start_in_the_background_is_told_by_its_own_lines_of_the_log() -> Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("host.log"), format!("{}\nsecond\n", "x".repeat(3_000)))?;
    std::fs::write(folder.path().join("config.toml"), "listen = 3\n")?;
    let output = command_for_state(folder.path(), &["sessions", "--config"])
        .arg(folder.path().join("config.toml"))
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{said}");
    let (_, shown) = said.split_once("ends with:\n").with_context(|| said.clone())?;
    assert!(shown.starts_with("error: ") && shown.contains("line 1, column 10: listen"), "{said}");
    Ok(())
}

#[test]
fn a_host_of_another_version_is_not_used_but_can_be_looked_at() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let listener = UnixListener::bind(folder.path().join("wharf.sock"))?;
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(
                b"HTTP/1.1 200 OK\r\nwharf-version: 99.1.0\r\ncontent-length: 3\r\n\r\nok\n",
            );
        }
    });
    let output = command_for_state(folder.path(), &["sessions"]).output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(6), "{said}");
    assert!(
        said.contains("99.1.0")
            && said.contains(env!("CARGO_PKG_VERSION"))
            && said.contains("wharf restart"),
        "{said}"
    );
    assert_eq!(host_status(folder.path())?["version"], "99.1.0");
    Ok(())
}

#[tokio::test]
async fn only_an_admin_stops_the_host() -> Result<()> {
    let mut host = scripted_host(&[])?.start_host()?;
    for (role, code) in [("observer", "observer"), ("controller", "admin_only")] {
        let refused =
            caller_with_role(&host, role)?.post("/stop", &json!({})).await?.expect(403)?;
        assert_eq!(refused["code"], code, "{role}");
    }
    let answer = RestClient::new(&host).post("/stop", &json!({})).await?;
    assert_eq!(answer.header("wharf-version"), Some(env!("CARGO_PKG_VERSION")));
    assert_eq!(answer.expect(202)?["pid"], host.pid());
    assert!(host.wait_exit(WAIT_LIMIT)?.success());
    Ok(())
}

#[test]
fn manual_pages_and_scripts_know_every_verb() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let pages = folder.path().join("man");
    let written = wharf_command(&["man"]).arg(&pages).output()?;
    assert!(written.status.success(), "{written:?}");
    for verb in ["run", "sessions", "answer", "workspace", "stop", "serve"] {
        let page = std::fs::read_to_string(pages.join(format!("wharf-{verb}.1")))?;
        assert!(page.contains(".TH"), "{verb}");
        // The scripts of bash, zsh and fish ask for the verbs: see cli_completion.
        for shell in ["elvish", "powershell"] {
            let script = wharf_command(&["completions", shell]).output()?;
            assert!(
                script.status.success() && String::from_utf8_lossy(&script.stdout).contains(verb),
                "{shell} {verb}"
            );
        }
    }
    let page = wharf_command(&["man"]).output()?;
    assert!(String::from_utf8_lossy(&page.stdout).contains(".TH wharf 1"));
    Ok(())
}
