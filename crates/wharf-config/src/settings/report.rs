//! Lists the settings for clients: each value with its source.

use wharf_api::{HostSetting, HostSettingList, SettingEffect, SettingSource, SettingsState};

use super::keys::{CONFIG_KEYS, ConfigKey, NO_DEFAULT};
use super::layers::{Setting, SettingOrigin};
use super::reload::ReloadState;
use super::{Config, values};

impl Config {
    /// Lists every setting of a host that is not running.
    pub fn describe_settings(&self) -> HostSettingList {
        let state = SettingsState { file: self.source_file(), ..SettingsState::default() };
        HostSettingList { state, settings: self.list_settings(&ReloadState::default()) }
    }

    /// Returns the file that the settings are read from, whether it is there or not.
    pub fn source_file(&self) -> Option<String> {
        self.sources.file.as_ref().map(|file| file.display().to_string())
    }

    /// Lists all keys in the order of the table; after a key with names that the user chooses,
    /// those that are set.
    pub fn list_settings(&self, state: &ReloadState) -> Vec<HostSetting> {
        let set: Vec<Setting> = self.settings.list().collect();
        let mut listed = Vec::new();
        for key in CONFIG_KEYS {
            let mut fitting: Vec<&Setting> = set
                .iter()
                .filter(|setting| ConfigKey::find(&setting.path) == Some(key))
                .collect();
            fitting.sort_unstable_by(|a, b| a.path.cmp(&b.path));
            if fitting.is_empty() && !key.is_in_named_table() {
                let mut setting = describe(key, key.path, None, state);
                if key.path == "listen" {
                    // Another program may have the usual port: who connects there would send it a
                    // token.
                    setting.value = Some(values::show_value(key, &self.listen_address().into()));
                }
                listed.push(setting);
            }
            listed.extend(
                fitting
                    .into_iter()
                    .map(|setting| describe(key, &setting.path, Some(setting), state)),
            );
        }
        listed
    }
}

fn describe(
    key: &'static ConfigKey,
    path: &str,
    setting: Option<&Setting>,
    state: &ReloadState,
) -> HostSetting {
    let default = Some(key.default)
        .filter(|default| *default != NO_DEFAULT)
        .map(ToOwned::to_owned);
    let value = setting.map_or(default, |setting| Some(values::show_value(key, &setting.value)));
    let (source, set_by) = match setting.map(|setting| &setting.origin) {
        None | Some(SettingOrigin::Default) => (SettingSource::Default, None),
        Some(SettingOrigin::File) => (SettingSource::File, None),
        Some(SettingOrigin::Environment(name)) => (SettingSource::Environment, Some(name.clone())),
        Some(SettingOrigin::Flag(flag)) => (SettingSource::Flag, Some((*flag).to_owned())),
    };
    let waiting = state.waiting.iter().find(|waiting| waiting.path == path);
    let waiting = waiting.map(|waiting| {
        waiting
            .setting
            .as_ref()
            .map(|setting| values::show_value(key, &setting.value))
            .unwrap_or_default()
    });
    let effect = SettingEffect::from(key.effect.as_str());
    HostSetting {
        key: path.to_owned(),
        value,
        source,
        set_by,
        variable: key.variable(),
        effect,
        waiting,
    }
}
