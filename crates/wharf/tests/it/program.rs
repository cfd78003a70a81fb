//! Starts the binary directly, for tests that cannot use the harness.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};

use anyhow::{Context, Result};
use wharf_testkit::{WAIT_LIMIT, processes};

thread_local! {
    static TEST_MARK: TestMark = TestMark::new();
}

/// Marks the processes that one test starts, and kills those that are left when its thread ends:
/// hosts, and agents that outlive them.
struct TestMark(PathBuf);

impl TestMark {
    fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let process = std::process::id();
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Self(PathBuf::from(format!("/test/{process}/{number}")))
    }
}

impl Drop for TestMark {
    fn drop(&mut self) {
        let _ = processes::kill_marked(&self.0, WAIT_LIMIT);
    }
}

/// Marks a command of the running test. A thread that has no name of a test may end before the
/// test.
fn mark_for_test(command: &mut Command) {
    let thread = std::thread::current();
    if thread.name().is_some_and(|name| !name.starts_with("tokio")) {
        TEST_MARK.with(|mark| processes::mark_command(command, &mark.0));
    }
}

/// Returns a `wharf` command with these arguments, without the user's own settings and sessions.
#[expect(clippy::disallowed_methods, reason = "all processes of these tests are started from here")]
pub(crate) fn wharf_command(arguments: &[&str]) -> Command {
    let mut command = Command::new(crate::wharf_binary());
    for name in [
        "WHARF_STATE_DIR",
        "WHARF_CONFIG",
        "WHARF_LISTEN",
        "WHARF_DEFAULT_AGENT",
        "WHARF_URL",
        "WHARF_CONTEXT",
        "XDG_CONFIG_HOME",
    ] {
        command.env_remove(name);
    }
    mark_for_test(&mut command);
    command.env("HOME", "/nonexistent").args(arguments).stdin(Stdio::null());
    command
}

/// Returns a command that runs a shell script.
#[expect(clippy::disallowed_methods, reason = "all processes of these tests are started from here")]
pub(crate) fn script_command(path: &Path) -> Command {
    let mut command = Command::new("sh");
    mark_for_test(&mut command);
    command.arg(path).stdin(Stdio::null());
    command
}

/// Returns a command that runs a line in a shell; further arguments are its `$1`, `$2` and so on.
#[expect(clippy::disallowed_methods, reason = "all processes of these tests are started from here")]
pub(crate) fn shell_command(line: &str) -> Command {
    let mut command = Command::new("sh");
    mark_for_test(&mut command);
    command.args(["-c", line, "sh"]).stdin(Stdio::null());
    command
}

/// Returns a command that runs a shell line in a terminal of its own, which closes when the command
/// is killed.
#[expect(clippy::disallowed_methods, reason = "all processes of these tests are started from here")]
pub(crate) fn terminal_command(line: &str) -> Command {
    let mut command = Command::new("script");
    mark_for_test(&mut command);
    command.args(["-qefc", line, "/dev/null"]).stdin(Stdio::null());
    command
}

/// Runs `wharf serve`, which must fail, and returns its stderr.
pub(crate) fn run_failing_serve(state_dir: &Path, arguments: &[&str]) -> Result<String> {
    let Output { status, stdout, stderr } = wharf_command(&["serve", "--json", "--state-dir"])
        .arg(state_dir)
        .args(arguments)
        .output()?;
    let stderr = String::from_utf8_lossy(&stderr).into_owned();
    anyhow::ensure!(!status.success(), "it started and ended well: {stderr}");
    anyhow::ensure!(stdout.is_empty(), "it spoke on stdout: {}", String::from_utf8_lossy(&stdout));
    Ok(stderr)
}

/// A child that is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct ChildGuard(pub(crate) Child);

impl Drop for ChildGuard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the command and returns its first line on stdout.
pub(crate) fn start_and_read_line(mut command: Command) -> Result<(ChildGuard, String)> {
    let mut child = ChildGuard(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?);
    let stdout = child.0.stdout.take().context("no stdout")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    Ok((child, line))
}

/// The lines of a running command. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Lines {
    pub(crate) guard: ChildGuard,
    lines: Receiver<String>,
}

/// Starts the command and drops its stderr.
pub(crate) fn start_and_read_lines(mut command: Command) -> Result<Lines> {
    let mut guard = ChildGuard(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?);
    let stdout = guard.0.stdout.take().context("no stdout")?;
    let (sender, lines) = sync_channel(1_000);
    std::thread::spawn(move || {
        BufReader::new(stdout)
            .lines()
            .map_while(Result::ok)
            .try_for_each(|line| sender.send(line).ok())
    });
    Ok(Lines { guard, lines })
}

impl Lines {
    /// Returns the next line.
    pub(crate) fn next(&mut self) -> Result<String> {
        self.lines.recv_timeout(WAIT_LIMIT).context("no further line")
    }

    /// Returns the next line that matches. Drops the lines before it.
    pub(crate) fn find(&mut self, is: impl Fn(&str) -> bool) -> Result<String> {
        self.read_through(is)?.pop().context("no line")
    }

    /// Returns all lines up to the next one that matches, which is the last.
    pub(crate) fn read_through(&mut self, is: impl Fn(&str) -> bool) -> Result<Vec<String>> {
        let mut read = Vec::new();
        loop {
            let line = self.next().with_context(|| format!("after {read:?}"))?;
            let is_found = is(&line);
            read.push(line);
            if is_found {
                return Ok(read);
            }
        }
    }

    /// Returns all lines up to the end of the output.
    pub(crate) fn read_rest(&mut self) -> Result<Vec<String>> {
        let mut rest = Vec::new();
        loop {
            match self.lines.recv_timeout(WAIT_LIMIT) {
                Ok(line) => rest.push(line),
                Err(RecvTimeoutError::Disconnected) => return Ok(rest),
                Err(RecvTimeoutError::Timeout) => {
                    anyhow::bail!("it does not end; so far: {rest:?}")
                }
            }
        }
    }

    /// Returns the exit code once the command has ended by itself.
    pub(crate) fn code(&mut self) -> Result<Option<i32>> {
        let status = wharf_testkit::processes::wait_exit(&mut self.guard.0, WAIT_LIMIT)?;
        Ok(status.context("it does not end")?.code())
    }
}
