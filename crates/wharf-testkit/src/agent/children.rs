//! Child processes that resist signals, which a host has to find and end.

use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use crate::program;

/// Runs until a signal ends it.
const IDLE_COMMAND: &str = "exec tail -f /dev/null </dev/null 2>/dev/null";

/// Starts three children and returns their pids: one in the agent's own group; one in a session of
/// its own that ignores SIGTERM; and one like it whose parent is gone already. With `hold` they
/// keep the agent's stdout open.
pub(crate) fn spawn_children(hold: bool) -> io::Result<Vec<u32>> {
    let null = if hold { "" } else { ">/dev/null" };
    let stubborn =
        format!("setsid sh -c 'trap \"\" TERM HUP INT; echo $$ >&2; {IDLE_COMMAND} {null}'");
    let script = format!("{stubborn} & ({stubborn} &); echo $$ >&2; {IDLE_COMMAND} {null}");
    let mut child = shell_command(&script)
        .stdin(Stdio::null())
        .stdout(Stdio::inherit())
        .stderr(Stdio::piped())
        .spawn()?;
    let pids = read_pids(&mut child, 3);
    // The child is not waited for: becoming a zombie, or being adopted by the host's reaper, is
    // part of the test.
    drop(child);
    pids
}

fn read_pids(child: &mut Child, count: usize) -> io::Result<Vec<u32>> {
    let stderr = child.stderr.take().ok_or_else(|| io::Error::other("no stderr"))?;
    let lines = BufReader::new(stderr).lines().take(count);
    lines.map(|line| line?.trim().parse().map_err(io::Error::other)).collect()
}

/// Starts this program again from a shell that ignores SIGTERM; the program inherits that. A
/// running process has no safe way to ignore a signal.
pub(crate) fn restart_ignoring_term(arguments: &[String]) -> io::Error {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return error,
    };
    shell_command(r#"trap "" TERM; exec "$0" "$@""#)
        .arg(program)
        .args(arguments)
        .exec()
}

/// Runs a command to its end and returns its stdout, then its stderr.
pub(crate) fn run_shell(script: &str) -> String {
    match shell_command(script).stdin(Stdio::null()).output() {
        Ok(output) => [output.stdout, output.stderr]
            .iter()
            .map(|said| String::from_utf8_lossy(said))
            .collect(),
        Err(error) => error.to_string(),
    }
}

fn shell_command(script: &str) -> Command {
    let mut command = program::new_command("sh");
    command.arg("-c").arg(script);
    command
}
