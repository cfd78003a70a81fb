//! Adapters: which agents there are and how each is started. The configuration comes first, then
//! the user's manifests, then those that come with Wharf.

mod built_in;
mod environment;
mod error;
mod folder;
mod import;
mod info;
mod install;
mod list;
mod manifest;
mod node;
mod patch;
mod program;
mod range;
mod sandbox;
#[cfg(test)]
mod tests;
mod usage_report;
mod version;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use serde_json::Value;
use wharf_core::{ExaminedAgent, Millis};

pub use environment::is_always_passed;
pub(crate) use environment::is_variable_name;
pub use error::{AdapterError, ManifestError};
pub use import::{ImportError, ImportReport, import_registry};
pub use info::{AdapterInfo, AdapterSource, KnownAgent, ModeInfo, OptionInfo};
#[cfg(any(test, fuzzing))]
pub(crate) use manifest::Manifest as AnyManifest;
pub use version::VersionCheck;

use crate::settings::{AgentCommand, Config, QueueBy, SandboxSettings, find_nearest};
use folder::FoundManifest;
use manifest::Manifest;
pub use usage_report::UsageReport;

/// Longer than any agent that was seen took between its answer and its replay.
const DEFAULT_REPLAY_QUIET: std::time::Duration = std::time::Duration::from_millis(250);
/// The agent that comes with Wharf.
const DEMO_AGENT: &str = "demo";

/// An agent that could be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launchable {
    pub adapter: String,
    pub command: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub queue: QueueBy,
    pub replay_quiet: std::time::Duration,
    /// Variables of a caller that it gets, besides those that every agent gets.
    pub variables: Vec<String>,
    /// Whether its ended sessions may come back; `None` if the agent decides.
    pub comes_back: Option<bool>,
    /// How long its sessions may have nothing to do before they are put to sleep; `None`: for ever.
    pub idle_limit: Option<Millis>,
    pub install: Option<String>,
    /// `None` if the meaning of the agent's token counts is not known.
    pub usage: Option<UsageReport>,
    pub sandbox: SandboxSettings,
}

/// The adapters of a configuration.
#[derive(Clone, Copy, Debug)]
pub struct Adapters<'a> {
    config: &'a Config,
}

/// Returns the usage report of an agent whose settings or manifest state none, by the name of its
/// adapter: that of the built-in manifest, else that of an examined agent. The demo agent counts by
/// turn.
fn find_usage_report(adapter: &str) -> Option<UsageReport> {
    if adapter == DEMO_AGENT {
        return Some(UsageReport::default());
    }
    let examined = ExaminedAgent::find(adapter);
    let slug = examined.map_or(adapter, |agent| agent.name);
    match built_in::all_manifests().iter().find(|manifest| manifest.id == slug) {
        Some(manifest) => manifest.usage.clone(),
        None => examined.map(|agent| UsageReport::of_all_versions(agent.meaning)),
    }
}

/// Where an adapter was found.
enum AdapterEntry {
    Command(AgentCommand),
    Manifest(Box<Manifest>, AdapterSource),
    Bad(ManifestError),
}

impl Config {
    pub fn adapters(&self) -> Adapters<'_> {
        Adapters { config: self }
    }
}

impl Adapters<'_> {
    /// Returns how to start the agent called `slug` in this mode with these options.
    /// [`Launchable::find_program`] tells whether its program is installed.
    pub fn find(
        &self,
        slug: &str,
        mode: Option<&str>,
        options: &BTreeMap<String, Value>,
    ) -> Result<Launchable, AdapterError> {
        match self.find_entry(slug) {
            Some(AdapterEntry::Command(agent)) => self.launch_by_config(slug, agent, mode, options),
            Some(AdapterEntry::Manifest(manifest, _)) => {
                self.launch_by_manifest(&manifest, mode, options)
            }
            Some(AdapterEntry::Bad(error)) => Err(error.into()),
            None => Err(self.unknown_agent(slug)),
        }
    }

    /// Returns the variables of a caller that the agent gets.
    pub fn passed_environment(
        &self,
        agent: &Launchable,
        given: &BTreeMap<String, String>,
    ) -> BTreeMap<String, String> {
        environment::select_passed(given, &self.variable_names(agent))
    }

    /// The names of variables that callers are to send for this agent, besides those that every
    /// agent gets.
    pub fn variable_names(&self, agent: &Launchable) -> Vec<String> {
        agent.variables.iter().chain(&self.config.env_passthrough).cloned().collect()
    }

    fn find_entry(&self, slug: &str) -> Option<AdapterEntry> {
        if let Some(agent) = self.find_command(slug) {
            return Some(AdapterEntry::Command(agent));
        }
        for dir in self.manifest_dirs() {
            for found in folder::read_manifests(&dir) {
                match found {
                    FoundManifest::Good(manifest) if manifest.id == slug => {
                        return Some(manifest_entry(manifest));
                    }
                    // A bad manifest is reported; it does not fall back to another one of that
                    // name.
                    FoundManifest::Bad { folder, error } if folder == slug => {
                        return Some(AdapterEntry::Bad(error));
                    }
                    FoundManifest::Good(_) | FoundManifest::Bad { .. } => {}
                }
            }
        }
        let built_in = built_in::all_manifests().iter().find(|manifest| manifest.id == slug)?;
        Some(AdapterEntry::Manifest(Box::new(built_in.clone()), AdapterSource::BuiltIn))
    }

    /// Every adapter, each name once, sorted.
    fn all_entries(&self) -> BTreeMap<String, AdapterEntry> {
        let mut entries = BTreeMap::new();
        for name in self.config.agents.keys().map(String::as_str).chain([DEMO_AGENT]) {
            if let Some(agent) = self.find_command(name) {
                entries.insert(name.to_owned(), AdapterEntry::Command(agent));
            }
        }
        for found in self.manifest_dirs().iter().flat_map(|dir| folder::read_manifests(dir)) {
            match found {
                FoundManifest::Good(manifest) => {
                    entries.entry(manifest.id.clone()).or_insert_with(|| manifest_entry(manifest));
                }
                FoundManifest::Bad { folder, error } => {
                    entries.entry(folder).or_insert(AdapterEntry::Bad(error));
                }
            }
        }
        for manifest in built_in::all_manifests() {
            let built_in =
                || AdapterEntry::Manifest(Box::new(manifest.clone()), AdapterSource::BuiltIn);
            entries.entry(manifest.id.clone()).or_insert_with(built_in);
        }
        entries
    }

    fn find_command(&self, name: &str) -> Option<AgentCommand> {
        if let Some(agent) = self.config.agents.get(name).filter(|agent| !agent.command.is_empty())
        {
            return Some(agent.clone());
        }
        (name == DEMO_AGENT).then(|| {
            let command = vec![self.config.program.display().to_string(), "demo-agent".to_owned()];
            let state = self.demo_state().display().to_string();
            let env = BTreeMap::from([("WHARF_DEMO_STATE".to_owned(), state)]);
            AgentCommand { command, env, ..AgentCommand::default() }
        })
    }

    /// Where the demo agent keeps its sessions: the one place in the state directory that is an
    /// agent's own.
    pub fn demo_state(&self) -> PathBuf {
        self.config.state_dir.join("demo-agent")
    }

    /// The directories of the user's manifests.
    pub fn manifest_dirs(&self) -> Vec<PathBuf> {
        let own = self.config.config_dir.as_ref().map(|dir| dir.join("adapters"));
        own.into_iter().chain(self.config.adapters.clone()).collect()
    }

    fn launch_by_config(
        &self,
        slug: &str,
        agent: AgentCommand,
        mode: Option<&str>,
        options: &BTreeMap<String, Value>,
    ) -> Result<Launchable, AdapterError> {
        let adapter = slug.to_owned();
        let sandbox = self.sandbox_settings(slug, None);
        if let Some(mode) = mode {
            return Err(AdapterError::UnknownMode {
                adapter,
                mode: mode.to_owned(),
                known: patch::join_or_none(&[]),
            });
        }
        if let Some(option) = options.keys().next() {
            let why = "there is no option of that name; known: none".to_owned();
            return Err(AdapterError::Option { adapter, option: option.clone(), why });
        }
        let usage = find_usage_report(&adapter);
        Ok(Launchable {
            adapter,
            command: agent.command,
            env: agent.env,
            queue: agent.queue,
            replay_quiet: agent
                .replay_quiet
                .and_then(crate::settings::Duration::to_std)
                .unwrap_or(DEFAULT_REPLAY_QUIET),
            variables: Vec::new(),
            comes_back: None,
            idle_limit: None,
            install: None,
            usage,
            sandbox,
        })
    }

    fn launch_by_manifest(
        &self,
        manifest: &Manifest,
        mode: Option<&str>,
        options: &BTreeMap<String, Value>,
    ) -> Result<Launchable, AdapterError> {
        if manifest.protocol != "acp" {
            let adapter = manifest.id.clone();
            let protocol = manifest.protocol.to_owned();
            return Err(AdapterError::Protocol { adapter, protocol });
        }
        let patch::PatchedCommand { command, env } = manifest.patch_command(mode, options)?;
        Ok(Launchable {
            adapter: manifest.id.clone(),
            command,
            env,
            queue: QueueBy::default(),
            replay_quiet: DEFAULT_REPLAY_QUIET,
            variables: manifest.variable_names(),
            comes_back: manifest.comes_back(),
            idle_limit: manifest.idle_limit,
            install: manifest.install_hint(),
            usage: manifest.usage.clone().or_else(|| find_usage_report(&manifest.id)),
            sandbox: self.sandbox_settings(&manifest.id, Some(&manifest.sandbox)),
        })
    }

    /// Returns the sandbox settings of this adapter. Its own setting decides; without one,
    /// `[sandbox]` or its manifest can ask for the sandbox.
    fn sandbox_settings(&self, slug: &str, manifest: Option<&SandboxSettings>) -> SandboxSettings {
        let general = manifest.map_or_else(
            || self.config.sandbox.clone(),
            |stated| self.config.sandbox.merged_with(stated),
        );
        let Some(own) = self.config.agents.get(slug).map(|agent| &agent.sandbox) else {
            return general;
        };
        SandboxSettings { mode: own.mode.or(general.mode), ..general.merged_with(own) }
    }

    fn unknown_agent(&self, slug: &str) -> AdapterError {
        let entries = self.all_entries();
        let known: Vec<&str> = entries.keys().map(String::as_str).collect();
        let hint = find_nearest(slug, &known)
            .map(|near| format!("; did you mean {near:?}?"))
            .unwrap_or_default();
        let name = slug.chars().take(100).collect();
        AdapterError::Unknown { name, hint, known: known.join(", ") }
    }
}

fn manifest_entry(manifest: Box<Manifest>) -> AdapterEntry {
    let source = if manifest.imported { AdapterSource::Registry } else { AdapterSource::Manifest };
    AdapterEntry::Manifest(manifest, source)
}

impl Launchable {
    /// Returns the program that would be run. `env` are the variables that the agent gets of its
    /// caller, which may set `PATH`.
    pub fn find_program(&self, env: &BTreeMap<String, String>) -> Result<PathBuf, AdapterError> {
        let bin = self.command.first().map(String::as_str).unwrap_or_default();
        // Such a path is meant from the session's directory.
        if bin.contains('/') && !bin.starts_with('/') {
            return Ok(PathBuf::from(bin));
        }
        program::find_program(bin, &search_path(&self.env, env)).ok_or_else(|| {
            AdapterError::NotInstalled {
                adapter: self.adapter.clone(),
                bin: bin.to_owned(),
                install: self.install.clone(),
            }
        })
    }
}

fn search_path(own: &BTreeMap<String, String>, given: &BTreeMap<String, String>) -> OsString {
    let set = own.get("PATH").or_else(|| given.get("PATH"));
    set.map(OsString::from).or_else(|| std::env::var_os("PATH")).unwrap_or_default()
}
