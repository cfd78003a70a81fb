//! Children of client verbs: `wharf acp` for a login, an agent's own login in this terminal, and
//! this program again without a terminal.

use std::ffi::OsString;
use std::io::Write;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, bail};
use tokio::process::Child;

use super::DETACH_COMMAND;

/// How often a process without a terminal is started. The signal that a closing terminal sends may
/// end it before it has left the terminal.
const START_ATTEMPTS: u32 = 5;

/// Starts a command whose stdin and stdout this program uses. It is killed when the child is
/// dropped.
#[expect(clippy::disallowed_methods, reason = "children of client verbs are started from here")]
pub(crate) fn start_acp_child(command: &[String]) -> anyhow::Result<Child> {
    let (program, arguments) = command.split_first().context("there is no command")?;
    let mut command = tokio::process::Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    command.spawn().with_context(|| format!("running {program}"))
}

/// Runs a command in this terminal and waits until it has ended.
#[expect(clippy::disallowed_methods, reason = "children of client verbs are started from here")]
pub(crate) fn run_in_terminal(
    command: &[String],
    env: &[(String, String)],
) -> anyhow::Result<ExitStatus> {
    let (program, arguments) = command.split_first().context("there is no command")?;
    let status = Command::new(program)
        .args(arguments)
        .envs(env.iter().map(|(name, value)| (name, value)))
        .status();
    status.with_context(|| format!("running {program}; is it installed and on the PATH?"))
}

/// Starts this program with these arguments in a session of its own, without a terminal. It reads
/// `input` from its stdin.
pub(crate) fn start_detached(arguments: &[OsString], input: Option<&str>) -> anyhow::Result<()> {
    for _ in 0..START_ATTEMPTS {
        if try_start_detached(arguments, input)? {
            return Ok(());
        }
    }
    bail!("no process could be started that goes on without this terminal")
}

/// Tries it once. Returns false if the new process ended before it had left the terminal.
#[expect(clippy::disallowed_methods, reason = "children of client verbs are started from here")]
fn try_start_detached(arguments: &[OsString], input: Option<&str>) -> anyhow::Result<bool> {
    let program = std::env::current_exe().context("finding this program")?;
    let mut command = Command::new(program);
    command.arg(DETACH_COMMAND).args(arguments).current_dir("/");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command
        .spawn()
        .context("starting a process that goes on without this terminal")?;
    if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
        // A process that has ended reads nothing; its exit code tells.
        let _ = stdin.write_all(input.as_bytes());
    }
    let ended = child
        .wait_with_output()
        .context("waiting for a process that goes on without this terminal")?;
    Ok(ended.status.success())
}
