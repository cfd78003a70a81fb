//! Finds the programs under test. This is the only module of the crate that starts processes.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Returns the `wharf` binary: `WHARF_BIN`, or the one built beside the running test.
pub fn find_wharf() -> Result<PathBuf> {
    locate_program("WHARF_BIN", "wharf", "wharf")
}

/// Returns the scripted agent: `WHARF_SCRIPTED_AGENT_BIN`, or the one built beside the running
/// test.
pub fn find_scripted_agent() -> Result<PathBuf> {
    locate_program("WHARF_SCRIPTED_AGENT_BIN", "wharf-scripted-agent", "wharf-testkit")
}

/// Returns the path of a program that cargo has built beside the running one,
/// `target/<profile>/NAME`.
pub fn find_beside(name: &str) -> Result<PathBuf> {
    let running = std::env::current_exe().context("finding the running program")?;
    let mut folder = running.parent().unwrap_or(Path::new("."));
    if folder.ends_with("deps") {
        folder = folder.parent().unwrap_or(folder);
    }
    Ok(folder.join(name))
}

fn locate_program(variable: &str, name: &str, package: &str) -> Result<PathBuf> {
    let path = match std::env::var_os(variable) {
        Some(path) => PathBuf::from(path),
        None => find_beside(name)?,
    };
    if !path.is_file() {
        let release = if path.components().any(|part| part.as_os_str() == "release") {
            " --release"
        } else {
            ""
        };
        bail!(
            "no program at {}; build it first: cargo build{release} -p {package} --bins (or set {variable})",
            path.display()
        );
    }
    Ok(path)
}

#[expect(
    clippy::disallowed_methods,
    reason = "all processes of the test tools are started from here"
)]
pub(crate) fn new_command(program: impl AsRef<OsStr>) -> Command {
    Command::new(program)
}
