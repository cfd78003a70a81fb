//! A user unit of systemd.

use std::path::PathBuf;

use anyhow::Context;

use super::service_spec::{ServiceSpec, ServiceState};
use super::unit_file::{MARK, state_dir_mark};
use crate::connect::{ManagerOutput, run_manager};
use crate::exit::{Exit, Failure};
use crate::output;

/// Says why the unit is as it is; `{…}` is filled in.
const UNIT: &str = "\
# {mark}; `wharf service uninstall` removes it.
# {state_dir}
[Unit]
Description=Wharf, the session host for coding agents

[Service]
Type=exec
ExecStart={command}
ExecReload=/bin/kill -HUP $MAINPID
Environment={path}
# Each agent's keeper gets a scope of its own (systemd-run --user --scope), outside of this unit.
Environment=WHARF_KEEPER_SCOPE=user
# `wharf stop` ends the host with success, and it stays stopped; a crash does not.
Restart=on-failure
RestartSec=2
# SIGTERM goes to the host alone: agents go on with their keepers, and the next host takes them over. `wharf stop` ends them.
KillMode=process
# Agents that are not kept get time to end, and logs to be synced.
TimeoutStopSec=90

[Install]
WantedBy=default.target
";

pub(super) fn file_path(name: &str) -> anyhow::Result<PathBuf> {
    let config = std::env::var_os("XDG_CONFIG_HOME")
        .filter(|dir| !dir.is_empty())
        .map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".config"));
    let config = config.or_else(home).context("finding the home directory; set HOME")?;
    Ok(config.join("systemd/user").join(format!("{name}.service")))
}

pub(super) fn file_text(spec: &ServiceSpec) -> String {
    let command: Vec<String> = spec.command().iter().map(|word| quote(word, true)).collect();
    UNIT.replace("{mark}", MARK)
        .replace("{state_dir}", &state_dir_mark(spec))
        .replace("{command}", &command.join(" "))
        .replace("{path}", &quote(&format!("PATH={}", spec.path), false))
}

/// Refuses a machine without systemd, and says what to do instead.
pub(super) fn check_available(spec: &ServiceSpec) -> anyhow::Result<()> {
    match systemctl(&["show-environment"])? {
        Some(output) if output.success => Ok(()),
        Some(output) => Err(unavailable(
            &format!("systemd does not answer for this user: {}", output.stderr),
            spec,
        )),
        None => Err(unavailable("this machine has no systemd", spec)),
    }
}

/// Starts the service now, and from now on by itself.
pub(super) fn enable(name: &str) -> anyhow::Result<()> {
    run_systemctl(&["daemon-reload"])?;
    run_systemctl(&["enable", &unit(name)])?;
    // Also with a new file: `enable --now` would leave a unit that runs as it is.
    run_systemctl(&["restart", &unit(name)])
}

pub(super) fn disable(name: &str) -> anyhow::Result<()> {
    run_systemctl(&["disable", "--now", &unit(name)])?;
    run_systemctl(&["daemon-reload"])
}

pub(super) fn restart(name: &str) -> anyhow::Result<()> {
    run_systemctl(&["restart", &unit(name)])
}

/// Says whether the service outlives the login; `wanted` makes it so.
pub(super) fn explain_linger(wanted: bool) -> anyhow::Result<()> {
    if wanted {
        return match run_manager("loginctl", &["enable-linger"])? {
            Some(output) if output.success => {
                output::print_line("it keeps running after you log out, and starts at boot");
                Ok(())
            }
            Some(output) => {
                Err(anyhow::anyhow!("loginctl enable-linger failed: {}", output.stderr))
            }
            None => Err(anyhow::anyhow!(
                "this machine has no loginctl; ask its administrator to enable lingering for you"
            )),
        };
    }
    if lingers()? != Some(true) {
        output::print_note(
            "it runs while you are logged in; to keep it running after you log out, and to start it at boot: loginctl enable-linger",
        );
    }
    Ok(())
}

pub(super) fn read_state(name: &str) -> anyhow::Result<ServiceState> {
    let asked = ["show", &unit(name), "--property=ActiveState,SubState,UnitFileState,MainPID"];
    let Some(output) = systemctl(&asked)? else {
        return Ok(ServiceState {
            running: false,
            facts: vec![("manager", "this machine has no systemd".to_owned())],
        });
    };
    let value = |key: &str| {
        let mut lines = output.stdout.lines().filter_map(|line| line.split_once('='));
        lines
            .find(|(name, _)| *name == key)
            .map(|(_, value)| value.to_owned())
            .filter(|value| !value.is_empty())
    };
    let active = value("ActiveState").unwrap_or_else(|| "unknown".to_owned());
    let mut facts =
        vec![("state", format!("{active} ({})", value("SubState").unwrap_or_default()))];
    facts.extend(value("UnitFileState").map(|state| ("at login", state)));
    facts.extend(value("MainPID").filter(|pid| pid != "0").map(|pid| ("pid", pid)));
    let linger = match lingers()? {
        Some(true) => "yes: it runs also while you are not logged in",
        Some(false) => "no: it ends when you log out; change that with: loginctl enable-linger",
        None => "unknown",
    };
    facts.push(("linger", linger.to_owned()));
    facts.push(("log", log_command(name)));
    Ok(ServiceState { running: active == "active", facts })
}

fn unit(name: &str) -> String {
    format!("{name}.service")
}

/// Returns the command that shows the log of the service.
pub(super) fn log_command(name: &str) -> String {
    format!("journalctl --user -u {}", unit(name))
}

fn systemctl(arguments: &[&str]) -> anyhow::Result<Option<ManagerOutput>> {
    run_manager("systemctl", &[&["--user"], arguments].concat())
}

fn run_systemctl(arguments: &[&str]) -> anyhow::Result<()> {
    let said = format!("systemctl --user {}", arguments.join(" "));
    match systemctl(arguments)? {
        Some(output) if output.success => Ok(()),
        Some(output) => Err(anyhow::anyhow!("{said} failed: {}", output.stderr)),
        None => Err(anyhow::anyhow!("{said} failed: this machine has no systemctl")),
    }
}

/// Tells whether services of this user run without a login. `None` if that is unknown.
fn lingers() -> anyhow::Result<Option<bool>> {
    let uid = rustix::process::getuid().as_raw().to_string();
    let output = run_manager("loginctl", &["show-user", &uid, "--property=Linger"])?;
    Ok(output
        .filter(|output| output.success)
        .map(|output| output.stdout.trim() == "Linger=yes"))
}

fn unavailable(why: &str, spec: &ServiceSpec) -> anyhow::Error {
    let words = format!(
        "{why}; nothing was installed. Have your own init run this command as your user: {}\n`wharf service install --print` prints a unit to start from; without any of that, a verb starts the host in the background when it needs one",
        shell_words::join(spec.command())
    );
    Failure::new(Exit::Refused, words).into()
}

/// Quotes a word for a unit file. `%` begins a specifier everywhere, `$` a variable in a command.
fn quote(word: &str, in_command: bool) -> String {
    let mut quoted = String::from('"');
    for c in word.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '%' => quoted.push_str("%%"),
            '$' if in_command => quoted.push_str("$$"),
            '\n' => quoted.push_str("\\n"),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_systemd() {
        assert_eq!(quote("/a b/100%$x\"\\", true), "\"/a b/100%%$$x\\\"\\\\\"");
        assert_eq!(quote("PATH=$x", false), "\"PATH=$x\"");
    }
}
