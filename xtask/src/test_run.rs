//! `cargo xtask test` runs every test, on a machine that has only Rust and git.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use crate::output::{print_line, print_progress};
use crate::process::{capture_stdout, cargo_command, command, find_program, run_checked};

/// A program that the build or a test calls.
struct Need {
    command: &'static str,
    packages: &'static [&'static str],
    reason: &'static str,
}

/// The crate that holds the official ACP SDK.
const CONFORMANCE: &str = "wharf-conformance";

/// The required programs. All of them are in Debian.
const NEEDS: &[Need] = &[
    Need {
        command: "cc",
        packages: &["gcc", "libc6-dev"],
        reason: "SQLite is compiled from source, and Rust links with it",
    },
    Need { command: "curl", packages: &["curl"], reason: "the transcript in docs/protocol/rest.md is made with it" },
];

pub(crate) fn run(root: &Path, args: &[String]) -> Result<()> {
    let fast = match args {
        [] => false,
        [flag] if flag == "--fast" => true,
        _ => bail!("test takes no argument but --fast"),
    };
    let began = Instant::now();
    install_missing(NEEDS)?;

    print_progress("building the programs that the tests drive");
    run_checked(cargo_command(root).args(["build", "-p", "wharf", "-p", "wharf-testkit", "--bins"]))?;

    let mut stages = Vec::new();
    let mut stage = |name: &'static str, args: &[&str]| {
        print_progress(name);
        let result = run_checked(cargo_command(root).args(args));
        stages.push((name, result));
    };
    let runner: &[&str] = if has_nextest(root) { &["nextest", "run"] } else { &["test", "--no-fail-fast"] };
    // The official SDK brings a TLS stack and enables features that no user's build has, so it is built separately.
    let own: &[&str] = &["--workspace", "--exclude", CONFORMANCE];
    stage("the tests of every crate", &[runner, own].concat());
    if !fast {
        stage("the examples in the documentation", &[&["test", "--quiet", "--doc"], own].concat());
        stage("the official SDK as client and as agent", &[runner, &["-p", CONFORMANCE]].concat());
        // Debug builds walk fewer steps; this is the full number, in a build that does it in seconds.
        stage("the core's random walks, optimised", &[runner, &["--release", "-p", "wharf-core"]].concat());
    }
    report_stages(stages, began)
}

/// Prints one line at the end with either runner, and fails if a stage failed; later stages run all the same.
fn report_stages(stages: Vec<(&'static str, Result<()>)>, began: Instant) -> Result<()> {
    let total = stages.len();
    let failed: Vec<String> =
        stages.into_iter().filter_map(|(name, result)| result.err().map(|e| format!("{name} ({e:#})"))).collect();
    print_line(&format!(
        "test summary: {} of {total} stages passed in {:.0} s",
        total - failed.len(),
        began.elapsed().as_secs_f64()
    ));
    if !failed.is_empty() {
        bail!("failed: {}", failed.join("; "));
    }
    Ok(())
}

fn has_nextest(root: &Path) -> bool {
    let found = capture_stdout(cargo_command(root).args(["nextest", "--version"])).is_ok();
    if !found {
        print_progress("cargo-nextest is not installed: using cargo test");
    }
    found
}

/// Installs missing programs where that is allowed; otherwise prints the command to install them.
fn install_missing(needs: &[Need]) -> Result<()> {
    let missing: Vec<&Need> = needs.iter().filter(|need| find_program(need.command).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = missing.iter().flat_map(|need| need.packages).copied().collect();
    if !is_root() || find_program("apt-get").is_none() {
        bail!("{}", install_advice(&missing, &packages));
    }
    print_progress(&format!("installing {}", packages.join(" ")));
    run_checked(command("apt-get").args(["update", "-qq"]))?;
    run_checked(
        command("apt-get")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args(["install", "-y", "-qq", "--no-install-recommends"])
            .args(&packages),
    )
    .context("installing what the tests need")
}

fn install_advice(missing: &[&Need], packages: &[&str]) -> String {
    let mut text = String::new();
    for need in missing {
        text.push_str(&format!("missing: {} ({})\n", need.command, need.reason));
    }
    text.push_str(&format!("install with: sudo apt-get install {}", packages.join(" ")));
    text
}

fn is_root() -> bool {
    capture_stdout(command("id").arg("-u")).is_ok_and(|uid| uid.trim() == "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABSENT: Need = Need { command: "no-such-command", packages: &["one", "two"], reason: "the tests call it" };

    #[test]
    fn installed_tools_are_not_asked_for() {
        let shell = Need { command: "sh", packages: &["dash"], reason: "" };
        assert!(install_missing(&[shell]).is_ok());
    }

    #[test]
    fn the_advice_names_the_command_and_the_packages() {
        let text = install_advice(&[&ABSENT], ABSENT.packages);
        assert_eq!(text, "missing: no-such-command (the tests call it)\ninstall with: sudo apt-get install one two");
    }

    #[test]
    fn one_failed_stage_fails_the_run_and_is_named() {
        let stages = vec![("good", Ok(())), ("bad", Err(anyhow::anyhow!("exit status: 1")))];
        let error = report_stages(stages, Instant::now()).unwrap_err();
        assert_eq!(error.to_string(), "failed: bad (exit status: 1)");
    }
}
