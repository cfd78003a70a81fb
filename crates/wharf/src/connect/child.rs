//! Children of client verbs: `wharf acp` for a login, and an agent's own login in this terminal.

use std::process::{Command, ExitStatus, Stdio};

use anyhow::Context;
use tokio::process::Child;

/// Starts a command whose stdin and stdout this program uses. It is killed when the child is dropped.
#[expect(clippy::disallowed_methods, reason = "children of client verbs are started from here")]
pub(crate) fn start_acp_child(command: &[String]) -> anyhow::Result<Child> {
    let (program, arguments) = command.split_first().context("there is no command")?;
    let mut command = tokio::process::Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    command.spawn().with_context(|| format!("running {program}"))
}

/// Runs a command in this terminal and waits until it has ended.
#[expect(clippy::disallowed_methods, reason = "children of client verbs are started from here")]
pub(crate) fn run_in_terminal(command: &[String], env: &[(String, String)]) -> anyhow::Result<ExitStatus> {
    let (program, arguments) = command.split_first().context("there is no command")?;
    let status = Command::new(program).args(arguments).envs(env.iter().map(|(name, value)| (name, value))).status();
    status.with_context(|| format!("running {program}; is it installed and on the PATH?"))
}
