//! Starts other programs; the only module of xtask that does.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::output::print_line;

#[expect(
    clippy::disallowed_methods,
    reason = "the one place of this crate where commands are made"
)]
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    Command::new(program)
}

/// Returns a command for the running cargo, in the repo's root.
pub(crate) fn cargo_command(root: &Path) -> Command {
    let mut cargo = command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root);
    // `cargo xtask` sets these, and build scripts would run again because they differ from those of
    // a plain `cargo build`.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CARGO_MANIFEST_")
            || name.to_string_lossy().starts_with("CARGO_PKG_")
        {
            cargo.env_remove(name);
        }
    }
    cargo
}

/// Runs a command with the inherited stdin, stdout and stderr. Any exit code but 0 is an error.
pub(crate) fn run_checked(command: &mut Command) -> Result<()> {
    let shown = describe_command(command);
    let status = command.status().with_context(|| format!("starting {shown}"))?;
    if !status.success() {
        bail!("{shown}: {status}");
    }
    Ok(())
}

/// Runs a command with the inherited stdin, stdout and stderr, and returns how it ended.
pub(crate) fn run_command(command: &mut Command) -> Result<ExitStatus> {
    command
        .status()
        .with_context(|| format!("starting {}", describe_command(command)))
}

/// Runs a command whose stdout is printed line by line as it comes. Returns how it ended, and its
/// stdout.
pub(crate) fn run_and_copy_stdout(command: &mut Command) -> Result<(ExitStatus, String)> {
    let shown = describe_command(command);
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting {shown}"))?;
    let stdout = child.stdout.take().context("the command has no stdout")?;
    let mut text = String::new();
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line.with_context(|| format!("reading the output of {shown}"))?;
        let line = String::from_utf8_lossy(&line);
        print_line(&line);
        text.push_str(&line);
        text.push('\n');
    }
    let status = child.wait().with_context(|| format!("waiting for {shown}"))?;
    Ok((status, text))
}

/// Runs a command and returns its stdout.
pub(crate) fn capture_stdout(command: &mut Command) -> Result<String> {
    let shown = describe_command(command);
    let output = command.output().with_context(|| format!("starting {shown}"))?;
    if !output.status.success() {
        bail!("{shown}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("reading the output of {shown}"))
}

/// Returns the path of `name` on the search path.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
}

pub(crate) fn describe_command(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let mut text = program.to_string_lossy().into_owned();
    for arg in command.get_args() {
        text.push(' ');
        text.push_str(&arg.to_string_lossy());
    }
    text
}
