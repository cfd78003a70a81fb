//! The binary started by hand, where the harness would be in the way.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use anyhow::{Context, Result};

/// `wharf` with these arguments, away from the user's own settings and sessions.
#[expect(clippy::disallowed_methods, reason = "all processes of these tests are started from here")]
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(crate::wharf());
    for name in ["WHARF_STATE_DIR", "WHARF_CONFIG", "WHARF_LISTEN", "WHARF_DEFAULT_AGENT", "XDG_CONFIG_HOME"] {
        command.env_remove(name);
    }
    command.env("HOME", "/nonexistent").args(arguments).stdin(Stdio::null());
    command
}

/// A shell script.
#[expect(clippy::disallowed_methods, reason = "all processes of these tests are started from here")]
pub(crate) fn script(path: &Path) -> Command {
    let mut command = Command::new("sh");
    command.arg(path).stdin(Stdio::null());
    command
}

/// Runs `wharf serve` to its end, which is to be an error; returns what it wrote to stderr.
pub(crate) fn refusal(state_dir: &Path, arguments: &[&str]) -> Result<String> {
    let Output { status, stdout, stderr } =
        command(&["serve", "--json", "--state-dir"]).arg(state_dir).args(arguments).output()?;
    let stderr = String::from_utf8_lossy(&stderr).into_owned();
    anyhow::ensure!(!status.success(), "it started and ended well: {stderr}");
    anyhow::ensure!(stdout.is_empty(), "it spoke on stdout: {}", String::from_utf8_lossy(&stdout));
    Ok(stderr)
}

/// A child that is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Guard(pub(crate) Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts it and waits for its first line on stdout.
pub(crate) fn first_line(mut command: Command) -> Result<(Guard, String)> {
    let mut child = Guard(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?);
    let stdout = child.0.stdout.take().context("no stdout")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    Ok((child, line))
}
