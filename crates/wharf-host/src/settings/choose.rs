//! A setting that a caller without ACP chooses, as the request that sets it in the agent's own
//! spelling.

use bytes::Bytes;
use serde_json::Value;
use wharf_core::{AgentSetting, Raw, SettingSpelling};

use super::{
    AgentSettings, SettingRequest, SettingSources, is_of_category, is_same_setting, mode_setting,
    model_setting,
};

/// A setting and the value that it is to have.
#[derive(Clone, Debug, PartialEq)]
pub enum ChosenSetting {
    Mode(String),
    Model(String),
    Option { id: String, value: Value },
}

/// The agent has no such setting, or does not offer this value for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotOffered {
    /// The names of the settings of this kind that there are.
    Setting {
        known: Vec<String>,
    },
    Value {
        offered: Vec<String>,
    },
}

/// Returns the request that sets this in the agent: `session/set_mode`, `set_model` or
/// `set_config_option`. A mode or model that the agent tells as an option only is set as that
/// option. The ids in the frame are placeholders.
pub fn setting_request<'a>(
    sources: impl Into<SettingSources<'a>>,
    chosen: &ChosenSetting,
) -> Result<Bytes, NotOffered> {
    let settings = AgentSettings::from_sources(sources);
    let setting = settings.find_chosen(chosen)?;
    let offered = settings.offers.values_of(&setting);
    let value = super::text_of(&setting.value);
    // A switch has no list of values: the agent decides.
    if !offered.is_empty() && value.is_none_or(|value| !offered.contains(&value)) {
        return Err(NotOffered::Value { offered: offered.to_vec() });
    }
    Ok(SettingRequest::of(&setting).frame("", 0))
}

impl AgentSettings {
    /// Returns the setting with the chosen value, in the spelling that the agent has for it.
    fn find_chosen(&self, chosen: &ChosenSetting) -> Result<AgentSetting, NotOffered> {
        let (wanted, category) = match chosen {
            ChosenSetting::Mode(mode) => {
                (mode_setting(to_json(&Value::from(mode.as_str()))?), Some("mode"))
            }
            ChosenSetting::Model(model) => {
                (model_setting(to_json(&Value::from(model.as_str()))?), Some("model"))
            }
            ChosenSetting::Option { id, value } => {
                let id = Some(to_json(&Value::from(id.as_str()))?);
                (
                    AgentSetting {
                        of: SettingSpelling::Option,
                        id,
                        category: None,
                        value: to_json(value)?,
                    },
                    None,
                )
            }
        };
        let as_option = || {
            self.in_force
                .iter()
                .find(|known| category.is_some_and(|name| is_of_category(known, name)))
        };
        let known = self
            .in_force
            .iter()
            .find(|known| is_same_setting(known, &wanted))
            .or_else(as_option);
        let known = known
            .ok_or_else(|| NotOffered::Setting { known: self.option_names(category.is_none()) })?;
        Ok(AgentSetting { value: wanted.value, ..known.clone() })
    }

    fn option_names(&self, is_option: bool) -> Vec<String> {
        let ids = self.in_force.iter().filter_map(|known| known.id.as_ref().filter(|_| is_option));
        ids.filter_map(super::text_of).collect()
    }
}

fn to_json(value: &Value) -> Result<Raw, NotOffered> {
    Raw::new(value.to_string()).ok_or(NotOffered::Setting { known: Vec::new() })
}
