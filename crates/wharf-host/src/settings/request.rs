//! A request that sets one setting.

use bytes::Bytes;
use wharf_core::{AgentSetting, Raw, SettingSpelling};
use wharf_json::rpc;
use wharf_json::{Json, ReadError};

use super::to_raw;

const SPELLINGS: [SettingSpelling; 3] =
    [SettingSpelling::Mode, SettingSpelling::Model, SettingSpelling::Option];

/// Returns the method that sets a setting of this spelling, and the member of its parameters that
/// holds the value.
const fn method_and_member(of: SettingSpelling) -> (&'static str, &'static str) {
    match of {
        SettingSpelling::Mode => ("session/set_mode", "modeId"),
        SettingSpelling::Model => ("session/set_model", "modelId"),
        SettingSpelling::Option => ("session/set_config_option", "value"),
    }
}

/// Returns true for a method whose success changes a setting.
pub fn is_setting_method(method: &str) -> bool {
    SPELLINGS.into_iter().any(|of| method_and_member(of).0 == method)
}

/// The setting and the value that a `session/set_mode`, `set_model` or `set_config_option` asks
/// for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SettingRequest {
    pub(super) of: SettingSpelling,
    /// The id of the config option.
    pub(super) option: Option<Raw>,
    pub(super) value: Raw,
}

impl SettingRequest {
    /// Reads a client's request. `Ok(None)`: it sets nothing.
    pub(crate) fn read(method: &str, frame: &[u8]) -> Result<Option<Self>, ReadError> {
        let Some(of) = SPELLINGS.into_iter().find(|of| method_and_member(*of).0 == method) else {
            return Ok(None);
        };
        let name = method_and_member(of).1;
        let Some(params) = Json::parse(frame)?.member("params")? else { return Ok(None) };
        let option = params
            .member("configId")?
            .and_then(to_raw)
            .filter(|_| of == SettingSpelling::Option);
        let Some(value) = params.member(name)?.and_then(to_raw) else { return Ok(None) };
        Ok((option.is_some() || of != SettingSpelling::Option).then_some(Self {
            of,
            option,
            value,
        }))
    }

    pub(super) fn of(setting: &AgentSetting) -> Self {
        Self {
            of: setting.of,
            option: setting.id.clone(),
            value: setting.value.clone(),
        }
    }

    pub(crate) fn method(&self) -> &'static str {
        method_and_member(self.of).0
    }

    /// The setting and its value, for a person.
    pub(crate) fn describe(&self) -> String {
        let value = self.value.as_str();
        match (&self.option, self.of) {
            (Some(option), _) => format!("option {} = {value}", option.as_str()),
            (None, SettingSpelling::Model) => format!("model {value}"),
            (None, SettingSpelling::Mode | SettingSpelling::Option) => format!("mode {value}"),
        }
    }

    /// The request to the agent, with the values as the agent spelled them.
    pub(crate) fn frame(&self, session: &str, id: u64) -> Bytes {
        let session = serde_json::Value::from(session);
        let method = self.method();
        let value = self.value.as_str();
        let setting = match (&self.option, self.of) {
            (Some(option), _) => {
                let kind =
                    if matches!(value, "true" | "false") { r#","type":"boolean""# } else { "" };
                format!(r#""configId":{},"value":{value}{kind}"#, option.as_str())
            }
            (None, SettingSpelling::Model) => format!(r#""modelId":{value}"#),
            (None, SettingSpelling::Mode | SettingSpelling::Option) => {
                format!(r#""modeId":{value}"#)
            }
        };
        let params = format!(r#"{{"sessionId":{session},{setting}}}"#);
        rpc::request(id, method, params)
    }
}
