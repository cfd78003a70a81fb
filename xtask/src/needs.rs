//! The programs that the build and the tests call, and how they get onto the machine.

use anyhow::{Context as _, Result, bail};

use crate::output::print_progress;
use crate::process::{capture_stdout, command, find_program, run_checked};

/// A program that the build or a test calls.
#[derive(Debug)]
pub(crate) struct Need {
    pub(crate) command: &'static str,
    /// Arguments with which the program succeeds if all of it is there; empty if its presence is
    /// enough.
    pub(crate) probe: &'static [&'static str],
    pub(crate) packages: &'static [&'static str],
    pub(crate) reason: &'static str,
}

impl Need {
    fn is_met(&self) -> bool {
        let is_there = find_program(self.command).is_some();
        is_there
            && (self.probe.is_empty()
                || capture_stdout(command(self.command).args(self.probe)).is_ok())
    }
}

/// Installs missing programs where that is allowed; otherwise prints the command to install them.
pub(crate) fn install_missing(needs: &[Need]) -> Result<()> {
    let missing = list_missing(needs);
    if missing.is_empty() {
        return Ok(());
    }
    if !is_root() || find_program("apt-get").is_none() {
        bail!("{}", describe_missing(&missing));
    }
    let packages = list_packages(&missing);
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

pub(crate) fn list_missing(needs: &[Need]) -> Vec<&Need> {
    needs.iter().filter(|need| !need.is_met()).collect()
}

/// Says what is missing, and how to install it.
pub(crate) fn describe_missing(missing: &[&Need]) -> String {
    let mut text = String::new();
    for need in missing {
        text.push_str(&format!("missing: {} ({})\n", need.command, need.reason));
    }
    text.push_str(&format!(
        "install with: sudo apt-get install {}",
        list_packages(missing).join(" ")
    ));
    text
}

fn list_packages(missing: &[&Need]) -> Vec<&'static str> {
    missing.iter().flat_map(|need| need.packages).copied().collect()
}

fn is_root() -> bool {
    capture_stdout(command("id").arg("-u")).is_ok_and(|uid| uid.trim() == "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABSENT: Need = Need {
        command: "no-such-command",
        probe: &[],
        packages: &["one", "two"],
        reason: "the tests call it",
    };

    #[test]
    fn installed_tools_are_not_asked_for() {
        let shell = Need {
            command: "sh",
            probe: &["-c", "exit 0"],
            packages: &["dash"],
            reason: "",
        };
        assert!(list_missing(&[shell]).is_empty());
    }

    #[test]
    fn program_without_its_parts_is_missing() {
        let shell = Need {
            command: "sh",
            probe: &["-c", "exit 1"],
            packages: &["dash"],
            reason: "",
        };
        assert_eq!(list_missing(&[shell]).len(), 1);
    }

    #[test]
    fn the_advice_names_the_command_and_the_packages() {
        let text = describe_missing(&[&ABSENT]);
        assert_eq!(
            text,
            "missing: no-such-command (the tests call it)\ninstall with: sudo apt-get install one two"
        );
    }
}
