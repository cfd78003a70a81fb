//! The scripted agent's settings: mode, model, effort and a switch. Flags set in which spellings
//! they are reported, whether a change is reported or refused, and whether they are kept in a file
//! that the next start reads.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use wharf_demo::wire;

use super::flags::{ChangeReport, Flags};

/// The values of one session.
#[derive(Debug, Clone)]
pub(super) struct ScriptedSettings {
    pub(super) mode: String,
    pub(super) model: String,
    pub(super) effort: String,
    fast: bool,
    /// The file that stores them, if there is one.
    file: Option<PathBuf>,
}

impl ScriptedSettings {
    /// Returns the values that a session begins with, or those that the file has for it.
    pub(super) fn load(flags: &Flags, session: &str) -> Self {
        let file = flags.settings.as_ref().map(|folder| folder.join(session));
        let mode = flags.first_mode.clone().unwrap_or_else(|| "ask".to_owned());
        let model = "small".to_owned();
        let effort = "low".to_owned();
        let first = Self { mode, model, effort, fast: true, file: None };
        let settings = file.as_deref().and_then(read_file).unwrap_or(first);
        Self { file, ..settings }
    }

    /// Writes the values to their file.
    pub(super) fn save(&self) {
        if let Some(file) = &self.file {
            let kept = json!({ "mode": self.mode, "model": self.model, "effort": self.effort, "fast": self.fast });
            let _ = std::fs::write(file, kept.to_string());
        }
    }

    /// Changes one value as the request says. Returns the result of the request.
    pub(super) fn apply_request(
        &mut self,
        flags: &Flags,
        method: &str,
        params: &Value,
    ) -> Result<Value, Value> {
        if flags.fixed_mode || flags.no_modes {
            return Err(wire::error_object(wire::INVALID_PARAMS, "nothing can be set"));
        }
        let (name, value) = match method {
            "session/set_mode" => ("mode", &params["modeId"]),
            "session/set_model" => ("model", &params["modelId"]),
            _ => (params["configId"].as_str().unwrap_or_default(), &params["value"]),
        };
        if let Some(fast) = value.as_bool() {
            self.fast = fast;
        } else {
            self.set_value(flags, name, value.as_str().unwrap_or_default())?;
        }
        self.save();
        Ok(if method == "session/set_config_option" {
            json!({ "configOptions": self.config_options(flags) })
        } else {
            json!({})
        })
    }

    fn set_value(&mut self, flags: &Flags, name: &str, value: &str) -> Result<(), Value> {
        let unknown =
            || wire::error_object(wire::INVALID_PARAMS, format!("there is no option {name}"));
        let place = match name {
            "mode" => &mut self.mode,
            "model" => &mut self.model,
            "effort" if flags.effort_option => &mut self.effort,
            _ => return Err(unknown()),
        };
        if flags.refuse_same && place == value {
            let mut fault =
                wire::error_object(wire::INVALID_PARAMS, format!("already in that {name}"));
            fault["data"] = json!({ "current": value });
            return Err(fault);
        }
        value.clone_into(place);
        if flags.split_models && name == "model" {
            let (model, effort) =
                value.trim_end_matches(']').split_once('[').unwrap_or((value, "low"));
            (self.model, self.effort) = (model.to_owned(), effort.to_owned());
        } else if name != "effort" {
            "low".clone_into(&mut self.effort);
        }
        Ok(())
    }

    /// Returns the updates that the agent sends by itself after this request.
    pub(super) fn change_updates(&self, flags: &Flags, method: &str) -> Vec<Value> {
        let mode = json!({ "sessionUpdate": "current_mode_update", "currentModeId": self.mode });
        let options = json!({ "sessionUpdate": "config_option_update", "configOptions": self.config_options(flags) });
        match (flags.report, method) {
            (ChangeReport::Nothing, _) => Vec::new(),
            (ChangeReport::Both, _) => vec![mode, options],
            (ChangeReport::Before | ChangeReport::After, "session/set_mode") => vec![mode],
            (ChangeReport::Before | ChangeReport::After, "session/set_config_option") => {
                vec![options]
            }
            (ChangeReport::Before | ChangeReport::After, _) => Vec::new(),
        }
    }

    /// Returns the part of the answer to new, load and resume that reports the settings.
    pub(super) fn opening_answer(&self, flags: &Flags) -> Value {
        if flags.no_modes {
            return json!({});
        }
        let modes = ["ask", "auto"].map(|id| json!({ "id": id, "name": id }));
        let mut opened = json!({
            "modes": { "currentModeId": self.mode, "availableModes": modes },
            "configOptions": self.config_options(flags),
        });
        if flags.only_options {
            opened["modes"].take();
        }
        if flags.models || flags.split_models {
            let (ids, current): (&[&str], String) = if flags.split_models {
                (
                    &["small[low]", "small[high]", "large[low]", "large[high]"],
                    format!("{}[{}]", self.model, self.effort),
                )
            } else {
                (&["small", "large"], self.model.clone())
            };
            let models: Vec<Value> =
                ids.iter().map(|id| json!({ "modelId": id, "name": id })).collect();
            opened["models"] = json!({ "currentModelId": current, "availableModels": models });
        }
        opened
    }

    /// Returns the complete list of config options.
    fn config_options(&self, flags: &Flags) -> Value {
        let mut options =
            vec![select_option("model", "Model", Some("model"), &self.model, &["small", "large"])];
        if flags.mode_option || flags.only_options {
            options.push(select_option("mode", "Mode", Some("mode"), &self.mode, &["ask", "auto"]));
        }
        if flags.effort_option {
            options.push(select_option("effort", "Effort", None, &self.effort, &["low", "high"]));
        }
        if flags.boolean_option {
            options.push(json!({ "id": "fast", "name": "Fast", "type": "boolean", "currentValue": self.fast }));
        }
        options.into()
    }
}

fn select_option(
    id: &str,
    name: &str,
    category: Option<&str>,
    current: &str,
    values: &[&str],
) -> Value {
    let choices: Vec<Value> =
        values.iter().map(|value| json!({ "value": value, "name": value })).collect();
    let mut option = json!({ "id": id, "name": name, "type": "select", "currentValue": current, "options": choices });
    if let Some(category) = category {
        option["category"] = category.into();
    }
    option
}

fn read_file(file: &Path) -> Option<ScriptedSettings> {
    let kept: Value = serde_json::from_slice(&std::fs::read(file).ok()?).ok()?;
    let text = |name: &str| kept[name].as_str().map(str::to_owned);
    let mode = text("mode")?;
    let model = text("model")?;
    let effort = text("effort")?;
    Some(ScriptedSettings { mode, model, effort, fast: kept["fast"] == true, file: None })
}
