//! The layers of a configuration: defaults, `config.toml`, variables, flags. A later layer counts
//! before an earlier one, and each setting knows where it comes from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::file_stamp::FileStamp;
use super::keys::{ConfigKey, SettingValueKind};
use super::mistakes::describe_mistake;
use super::{Config, ConfigError, environment, keys};

/// Where a setting comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingOrigin {
    Default,
    File,
    /// The variable with this name.
    Environment(String),
    /// The flag with this name.
    Flag(&'static str),
}

/// One setting outside of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// The key, dotted, with the user's names in it.
    pub path: String,
    pub value: toml::Value,
    pub origin: SettingOrigin,
}

/// The sources that a configuration is loaded from, and loaded from again.
#[derive(Clone, Debug, Default)]
pub struct ConfigSources {
    /// Where `config.toml` is or would be.
    pub file: Option<PathBuf>,
    /// A file that was asked for by name has to be there.
    pub file_required: bool,
    /// Variables and flags, in the order in which they count.
    overrides: Vec<Setting>,
    /// Complaints about variables.
    warnings: Vec<String>,
}

/// The settings that are not defaults, and where each of them comes from.
#[derive(Clone, Debug, Default)]
pub struct LayeredSettings {
    table: toml::Table,
    origins: BTreeMap<String, SettingOrigin>,
}

impl ConfigSources {
    /// Sources of a file and of variables that begin with `WHARF_`.
    pub fn new(
        file: Option<PathBuf>,
        file_required: bool,
        variables: &[(String, String)],
    ) -> Result<Self, ConfigError> {
        let (overrides, warnings) =
            environment::read_variables(variables).map_err(ConfigError::Environment)?;
        Ok(Self { file, file_required, overrides, warnings })
    }

    /// Adds a flag, which counts before all else.
    pub fn add_flag(&mut self, flag: &'static str, path: &str, value: impl Into<toml::Value>) {
        self.overrides.push(Setting {
            path: path.to_owned(),
            value: value.into(),
            origin: SettingOrigin::Flag(flag),
        });
    }

    /// Loads a configuration as if the file had this text.
    pub fn load_text(&self, text: &str) -> Result<Config, ConfigError> {
        self.load_layers(Some(text.to_owned()))
    }

    /// Reads the file and puts variables and flags on top of it.
    pub fn load(&self) -> Result<Config, ConfigError> {
        // Before the file is read: a change that comes in between is noticed later.
        let file_stamp = self.file.as_deref().and_then(FileStamp::of);
        let text = match &self.file {
            Some(path) => self.read_file(path)?,
            None => None,
        };
        Ok(Config { file_stamp, ..self.load_layers(text)? })
    }

    fn load_layers(&self, text: Option<String>) -> Result<Config, ConfigError> {
        let settings = self.layer(text.as_deref()).map_err(|message| self.blame_file(message))?;
        let mut config =
            Config::from_settings(settings).map_err(|message| self.blame_file(message))?;
        config.config_dir = self.file.as_ref().and_then(|path| path.parent()).map(Path::to_owned);
        config.config_file = self
            .file
            .as_ref()
            .filter(|_| text.is_some())
            .and_then(|path| std::path::absolute(path).ok());
        config.warnings.extend(self.warnings.iter().cloned());
        config.sources = self.clone();
        Ok(config)
    }

    fn read_file(&self, path: &Path) -> Result<Option<String>, ConfigError> {
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !self.file_required => {
                Ok(None)
            }
            Err(source) => Err(ConfigError::Unreadable { path: path.to_owned(), source }),
        }
    }

    fn blame_file(&self, message: String) -> ConfigError {
        match &self.file {
            Some(path) if self.file_required || path.exists() => {
                ConfigError::Invalid { path: path.clone(), message }
            }
            _ => ConfigError::Settings(message),
        }
    }

    fn layer(&self, text: Option<&str>) -> Result<LayeredSettings, String> {
        let mut settings = LayeredSettings::default();
        if let Some(text) = text {
            let table = Config::read_table(text)?;
            let dir = self.file.as_deref().and_then(Path::parent);
            for (path, value) in flatten(&table) {
                let mut value = value.clone();
                if let (Some(key), Some(dir)) = (ConfigKey::find(&path), dir) {
                    resolve_path(key, &mut value, Some(dir));
                }
                settings.set(Setting { path, value, origin: SettingOrigin::File });
            }
        }
        for setting in &self.overrides {
            settings.set(setting.clone());
        }
        Ok(settings)
    }
}

impl LayeredSettings {
    pub(super) fn of_text(text: &str) -> Result<Self, String> {
        ConfigSources::default().layer(Some(text))
    }

    pub(super) fn table(&self) -> &toml::Table {
        &self.table
    }

    fn set(&mut self, setting: Setting) {
        insert_at(&mut self.table, &setting.path, setting.value);
        self.origins.insert(setting.path, setting.origin);
    }

    fn remove(&mut self, path: &str) {
        remove_at(&mut self.table, path);
        self.origins.remove(path);
    }

    /// Returns the settings that are not defaults.
    pub(super) fn list(&self) -> impl Iterator<Item = Setting> + '_ {
        flatten(&self.table).into_iter().map(|(path, value)| {
            let origin = self.origins.get(&path).cloned().unwrap_or(SettingOrigin::File);
            Setting { path, value: value.clone(), origin }
        })
    }

    /// Returns the setting of this key, or `None` if it has its default.
    pub(super) fn get(&self, path: &str) -> Option<Setting> {
        self.list().find(|setting| setting.path == path)
    }

    /// Gives this key the setting that it has in `other`, which may be none.
    pub(super) fn copy_from(&mut self, other: &Self, path: &str) {
        match other.get(path) {
            Some(setting) => self.set(setting),
            None => self.remove(path),
        }
    }
}

/// Returns every key of the table that is a setting, dotted, with its value. A table without
/// settings has its own entry.
pub(super) fn flatten(table: &toml::Table) -> Vec<(String, &toml::Value)> {
    fn collect<'a>(
        table: &'a toml::Table,
        above: &str,
        found: &mut Vec<(String, &'a toml::Value)>,
    ) {
        for (key, value) in table {
            let path = if above.is_empty() { key.clone() } else { format!("{above}.{key}") };
            match value
                .as_table()
                .filter(|inner| !inner.is_empty() && ConfigKey::find(&path).is_none())
            {
                Some(inner) => collect(inner, &path, found),
                None => found.push((path, value)),
            }
        }
    }
    let mut found = Vec::new();
    collect(table, "", &mut found);
    found
}

/// Sets the value of a dotted key, and makes the tables above it.
pub(super) fn insert_at(table: &mut toml::Table, path: &str, value: toml::Value) {
    let Some((first, rest)) = path.split_once('.') else {
        table.insert(path.to_owned(), value);
        return;
    };
    let inner = table.entry(first).or_insert_with(|| toml::Value::Table(toml::Table::new()));
    if !inner.is_table() {
        *inner = toml::Value::Table(toml::Table::new());
    }
    if let toml::Value::Table(inner) = inner {
        insert_at(inner, rest, value);
    }
}

fn remove_at(table: &mut toml::Table, path: &str) {
    match path.split_once('.') {
        None => {
            table.remove(path);
        }
        Some((first, rest)) => {
            if let Some(toml::Value::Table(inner)) = table.get_mut(first) {
                remove_at(inner, rest);
            }
        }
    }
}

/// Makes a relative path absolute: from `dir`, or from the current directory.
pub(super) fn resolve_path(key: &ConfigKey, value: &mut toml::Value, dir: Option<&Path>) {
    let toml::Value::String(path) = value else { return };
    if key.kind != SettingValueKind::Path {
        return;
    }
    let resolved = match dir {
        Some(dir) => Some(dir.join(&*path)),
        None => std::path::absolute(&*path).ok(),
    };
    if let Some(resolved) = resolved.as_deref().and_then(Path::to_str) {
        resolved.clone_into(path);
    }
}

impl Config {
    /// Reads the text of a file, and checks its keys and values, with the position in each
    /// complaint about a value.
    pub(super) fn read_table(text: &str) -> Result<toml::Table, String> {
        let describe = |error: toml::de::Error| describe_mistake(text, &error);
        let table: toml::Table = text.parse().map_err(describe)?;
        keys::check_keys(&table)?;
        toml::from_str::<Self>(text).map_err(describe)?;
        Ok(table)
    }
}
