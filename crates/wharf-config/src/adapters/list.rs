//! Lists the adapters for a person: which are installed, and what the others lack.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::info::{AdapterInfo, AdapterSource};
use super::manifest::{Manifest, ManifestAuth};
use super::{AdapterEntry, Adapters, DEMO_AGENT, VersionCheck, program, search_path};

impl Adapters<'_> {
    /// Every adapter, by slug. No program is started.
    pub fn list(&self) -> Vec<AdapterInfo> {
        self.list_with_checks().into_iter().map(|(info, _)| info).collect()
    }

    /// The same, each with how to ask its program for a version.
    pub fn list_with_checks(&self) -> Vec<(AdapterInfo, Option<VersionCheck>)> {
        let with_check = |(slug, entry): (String, AdapterEntry)| {
            let check = match &entry {
                AdapterEntry::Manifest(manifest, _) => Some(manifest.version_check.clone()),
                AdapterEntry::Command(_) | AdapterEntry::Bad(_) => None,
            };
            (self.describe_entry(slug, entry), check)
        };
        self.all_entries().into_iter().map(with_check).collect()
    }

    fn describe_entry(&self, slug: String, entry: AdapterEntry) -> AdapterInfo {
        let default = slug == self.config.default_agent;
        let blank = AdapterInfo {
            name: slug.clone(),
            slug,
            description: String::new(),
            version: String::new(),
            source: AdapterSource::Config,
            path: None,
            command: Vec::new(),
            protocol: "acp".to_owned(),
            installed: false,
            bin_path: None,
            bin_version: None,
            version_ok: None,
            install_hint: None,
            login_hint: None,
            variables: self.config.env_passthrough.clone(),
            missing: Vec::new(),
            modes: Vec::new(),
            options: Vec::new(),
            capabilities: BTreeMap::new(),
            default,
            known: None,
        };
        match entry {
            AdapterEntry::Command(agent) => {
                let is_demo = blank.slug == DEMO_AGENT
                    && self.config.agents.get(DEMO_AGENT).is_none_or(|own| own.command.is_empty());
                let (source, description) = if is_demo {
                    (
                        AdapterSource::BuiltIn,
                        "The demo agent that comes with Wharf: no model, no network.".to_owned(),
                    )
                } else {
                    (AdapterSource::Config, String::new())
                };
                with_program_path(
                    AdapterInfo { source, description, command: agent.command, ..blank },
                    &agent.env,
                )
            }
            AdapterEntry::Manifest(manifest, source) => {
                describe_manifest(&manifest, AdapterInfo { source, ..blank })
            }
            AdapterEntry::Bad(error) => AdapterInfo {
                source: AdapterSource::Manifest,
                path: Some(error.path.clone()),
                protocol: String::new(),
                missing: vec![format!(
                    "its manifest cannot be used: {}: {}",
                    error.field, error.why
                )],
                ..blank
            },
        }
    }
}

fn describe_manifest(manifest: &Manifest, blank: AdapterInfo) -> AdapterInfo {
    let mut command = vec![manifest.bin.clone()];
    command.extend(manifest.bin_args.iter().cloned());
    let mut info = with_program_path(
        AdapterInfo {
            name: manifest.name.clone(),
            description: manifest.description.clone(),
            version: manifest.version.clone(),
            path: (blank.source != AdapterSource::BuiltIn).then(|| manifest.path.clone()),
            command,
            protocol: manifest.protocol.to_owned(),
            install_hint: manifest.install_hint(),
            login_hint: manifest.auth.login.clone(),
            variables: [manifest.variable_names(), blank.variables].concat(),
            modes: manifest.modes.iter().map(super::patch::ManifestMode::to_info).collect(),
            options: manifest.options.iter().map(super::patch::ManifestOption::to_info).collect(),
            capabilities: manifest.capabilities.clone(),
            ..blank
        },
        &manifest.env,
    );
    if manifest.protocol != "acp" {
        info.missing.push(format!(
            "it speaks {:?}, and Wharf starts agents that speak \"acp\"",
            manifest.protocol
        ));
    }
    if info.installed && !manifest.auth.has_login() {
        let variable = manifest
            .auth
            .variables
            .first()
            .map(|name| format!(", or set {name}"))
            .unwrap_or_default();
        info.missing
            .push(format!("no login was found; run: wharf login {}{variable}", info.slug));
    }
    info.missing.extend(manifest.warnings.iter().cloned());
    info
}

/// Adds the path of the program if it is installed, else a note that it is missing.
fn with_program_path(mut info: AdapterInfo, env: &BTreeMap<String, String>) -> AdapterInfo {
    let bin = info.command.first().cloned().unwrap_or_default();
    info.bin_path = program::find_program(&bin, &search_path(env, &BTreeMap::new()));
    info.installed = info.bin_path.is_some();
    if !info.installed {
        info.missing.push(format!("there is no `{bin}` on the PATH"));
    }
    info
}

impl ManifestAuth {
    /// Tells whether there is a sign of a login. A manifest that names none needs none.
    fn has_login(&self) -> bool {
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        let there = |path: &String| match path.strip_prefix("~/") {
            Some(below) => home.join(below).exists(),
            None => PathBuf::from(path).exists(),
        };
        self.variables.is_empty()
            || self.variables.iter().any(|name| std::env::var_os(name).is_some())
            || self.paths.iter().any(there)
    }
}
