//! The service: its description, its removal and its status.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::json;

use super::{systemd, unit_file};
use crate::exit::{Exit, Failure};
use crate::format::table::join_with_tabs;
use crate::global::GlobalOptions;
use crate::output;

/// The content of the service's file.
#[derive(Debug)]
pub(super) struct ServiceSpec {
    pub(super) name: String,
    pub(super) program: PathBuf,
    pub(super) state_dir: PathBuf,
    /// Where the configuration is or will be: the service has other variables than this shell, and
    /// would look elsewhere.
    pub(super) config: PathBuf,
    /// Where agents are found.
    pub(super) path: String,
    /// For the user, after the installation.
    pub(super) notes: Vec<String>,
}

impl ServiceSpec {
    pub(super) fn of_this_program(global: &GlobalOptions, name: &str) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("finding this program")?;
        let mut notes = Vec::new();
        if program.components().any(|part| part.as_os_str() == "target") {
            notes.push(format!(
                "the service runs {}, which the next build replaces; install wharf first (cargo install) to avoid that",
                program.display()
            ));
        }
        let variables: Vec<String> =
            wharf_config::own_variables().into_iter().map(|(name, _)| name).collect();
        let keys = wharf_config::CONFIG_KEYS.iter().map(wharf_config::ConfigKey::variable);
        let mut ignored: Vec<String> = keys.filter(|name| variables.contains(name)).collect();
        ignored.dedup();
        if !ignored.is_empty() {
            notes.push(format!("the service does not get {}, which this shell has; put the values into the configuration: wharf config set", ignored.join(", ")));
        }
        Ok(Self {
            name: name.to_owned(),
            program,
            state_dir: global.state_dir()?,
            config: std::path::absolute(global.config_path()?)
                .context("finding the configuration file")?,
            path: std::env::var("PATH").unwrap_or_default(),
            notes,
        })
    }

    /// Returns the program and its arguments.
    pub(super) fn command(&self) -> Vec<String> {
        std::iter::once(self.program.display().to_string())
            .chain(self.arguments())
            .collect()
    }

    /// Returns the arguments of the program.
    pub(super) fn arguments(&self) -> Vec<String> {
        let shown = |path: &Path| path.display().to_string();
        let mut words = vec!["serve".to_owned(), "--json".to_owned()];
        words.extend(["--started-as".to_owned(), format!("service:{}", self.name)]);
        words.extend(["--state-dir".to_owned(), shown(&self.state_dir)]);
        words.extend(["--config".to_owned(), shown(&self.config)]);
        words
    }
}

/// The state of an installed service.
#[derive(Debug, Default)]
pub(super) struct ServiceState {
    pub(super) running: bool,
    /// Each as its name and value.
    pub(super) facts: Vec<(&'static str, String)>,
}

pub(super) fn uninstall(global: &GlobalOptions, name: &str) -> anyhow::Result<Exit> {
    let path = systemd::file_path(name)?;
    if !path.exists() {
        output::print_note(&format!("there is no service {name}"));
        return Ok(Exit::Ok);
    }
    if !unit_file::is_ours(&path) {
        let words = format!("{} was not written by wharf; it stays", path.display());
        return Err(Failure::new(Exit::Refused, words).into());
    }
    systemd::disable(name)?;
    std::fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))?;
    output::print_line(&format!("removed {}; every session is on disk", path.display()));
    super::super::stop::print_kept_agents(global)?;
    Ok(Exit::Ok)
}

/// Prints the state of the service. Returns the exit code 0 if it runs, 3 if it is installed but
/// does not run, 4 if it is not installed.
pub(super) fn print_status(
    global: &GlobalOptions,
    name: &str,
    as_json: bool,
) -> anyhow::Result<Exit> {
    let path = systemd::file_path(name)?;
    let installed = path.exists();
    let state = if installed { systemd::read_state(name)? } else { ServiceState::default() };
    let exit = match (installed, state.running) {
        (true, true) => Exit::Ok,
        (true, false) => Exit::NoHost,
        (false, _) => Exit::NotFound,
    };
    let ours = unit_file::is_ours(&path);
    if as_json {
        let facts: serde_json::Map<String, serde_json::Value> = state
            .facts
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.as_str().into()))
            .collect();
        let object = json!({ "name": name, "installed": installed, "ours": ours, "running": state.running, "file": path, "facts": facts });
        output::print_line(&object.to_string());
        return Ok(exit);
    }
    let word = match (installed, ours, state.running) {
        (false, ..) => "not installed; install it: wharf service install",
        (true, false, _) => "installed, but not written by wharf",
        (true, true, true) => "running",
        (true, true, false) => "installed, not running",
    };
    let screen = global.screen();
    let mut rows = vec![("service", word.to_owned())];
    if installed {
        rows.push(("file", path.display().to_string()));
    }
    rows.extend(state.facts);
    for (name, value) in rows {
        output::print_line(&if screen.terminal {
            format!("{name:<8}  {value}")
        } else {
            join_with_tabs([name, &value])
        });
    }
    Ok(exit)
}
