//! The changes that a reload of the configuration makes, and those that have to wait for a restart.

use std::collections::BTreeSet;

use super::keys::{ChangeEffect, ConfigKey};
use super::layers::Setting;
use super::{Config, ConfigError};

/// The keys that a reload concerns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReloadReport {
    /// The keys that have a new value.
    pub changed: Vec<String>,
    /// The keys whose change waits for a restart.
    pub waiting: Vec<String>,
}

/// The outcome of the last reload.
#[derive(Debug, Default)]
pub struct ReloadState {
    pub waiting: Vec<WaitingSetting>,
    /// Why the sources cannot be used as they are.
    pub fault: Option<String>,
}

/// A change that waits for a restart.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitingSetting {
    pub path: String,
    /// `None` if the key will have its default.
    pub setting: Option<Setting>,
}

/// The configuration after a reload, and what the reload has done.
#[derive(Debug)]
pub struct Reloaded {
    pub config: Config,
    pub report: ReloadReport,
    pub waiting: Vec<WaitingSetting>,
}

impl Config {
    /// Loads the sources of this configuration again. Settings that need a restart keep their
    /// value.
    pub fn load_again(&self) -> Result<Reloaded, ConfigError> {
        let fresh = self.sources.load()?;
        let mut settings = fresh.settings.clone();
        let mut report = ReloadReport::default();
        let mut waiting = Vec::new();
        let both = self.settings.list().chain(fresh.settings.list()).map(|setting| setting.path);
        for path in both.collect::<BTreeSet<String>>() {
            let old = self.settings.get(&path);
            let new = fresh.settings.get(&path);
            if old.as_ref().map(|old| &old.value) == new.as_ref().map(|new| &new.value) {
                continue;
            }
            if ConfigKey::find(&path).is_some_and(|key| key.effect == ChangeEffect::Restart) {
                settings.copy_from(&self.settings, &path);
                report.waiting.push(path.clone());
                waiting.push(WaitingSetting { path, setting: new });
            } else {
                report.changed.push(path);
            }
        }
        let config = Self::from_settings(settings).map_err(ConfigError::Settings)?;
        let config = Self {
            state_dir: self.state_dir.clone(),
            program: self.program.clone(),
            config_dir: fresh.config_dir,
            config_file: fresh.config_file,
            file_stamp: fresh.file_stamp,
            serves: self.serves,
            process: self.process.clone(),
            log_file: self.log_file.clone(),
            insecure_no_tls: self.insecure_no_tls,
            takes_free_port: self.takes_free_port,
            sources: fresh.sources,
            ..config
        };
        config.check_agents()?;
        Ok(Reloaded { config, report, waiting })
    }
}
