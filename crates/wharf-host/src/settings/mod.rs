//! The agent's settings: which of them are in force, in which spellings the agent has them, and
//! which values it offers.
//!
//! An agent tells its settings in up to three spellings: `modes`, `models` and `configOptions`. A
//! mode (or model) may have two of them. In force is the newest value that was set or reported, per
//! spelling; two spellings of one setting change together if the new value is offered in both (rule
//! 12.12).

mod choose;
mod loss;
mod offers;
mod present;
mod request;
mod restore;
#[cfg(test)]
mod tests;

use wharf_acp::{AgentUpdate, Payload};
use wharf_core::{AgentSetting, Joined, Latest, Raw, Seq, SettingSpelling, State, UpdateKind};
use wharf_json::{Json, ReadError};

use crate::session::handle::AgentReport;

pub use choose::{ChosenSetting, NotOffered, setting_request};
pub(crate) use loss::{are_settings_lost, check_terms_after_loss};
use offers::Offers;
pub use present::current_settings;
pub(crate) use present::{ReportedSettings, newest_list, patched_options};
pub(crate) use request::SettingRequest;
pub use request::is_setting_method;
pub(crate) use restore::{Restoration, RestoreStep};

/// Holds the facts of a session's log from which its settings are read.
#[derive(Clone, Copy, Debug)]
pub struct SettingSources<'a> {
    answer: Option<&'a Raw>,
    answer_at: Seq,
    latest: &'a Latest,
    settings: Option<&'a [AgentSetting]>,
}

impl<'a> From<&'a State> for SettingSources<'a> {
    fn from(state: &'a State) -> Self {
        let State { answer, answer_at, latest, settings, .. } = state;
        Self {
            answer: answer.as_ref(),
            answer_at: *answer_at,
            latest,
            settings: settings.as_deref(),
        }
    }
}

impl<'a> From<&'a AgentReport> for SettingSources<'a> {
    fn from(report: &'a AgentReport) -> Self {
        let AgentReport { answer, answer_at, latest, settings, .. } = report;
        Self {
            answer: answer.as_ref(),
            answer_at: *answer_at,
            latest,
            settings: settings.as_deref(),
        }
    }
}

impl<'a> From<&'a Joined> for SettingSources<'a> {
    fn from(joined: &'a Joined) -> Self {
        let Joined { answer, answer_at, latest, settings, .. } = joined;
        Self {
            answer: answer.as_ref(),
            answer_at: *answer_at,
            latest,
            settings: settings.as_deref(),
        }
    }
}

/// The settings that an agent is given on its return besides those in force (rule 12.12).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReturnTerms {
    /// The mode that is in force from then on, instead of the former one.
    pub session_mode: Option<String>,
    /// If true, the host sets only `session_mode`, and otherwise the agent's own settings are in
    /// force.
    pub accept_agent_settings: bool,
}

/// Holds the settings in force, the last changed at the end, and the settings that the agent
/// offers.
#[derive(Clone, Debug, Default)]
pub(crate) struct AgentSettings {
    offers: Offers,
    in_force: Vec<AgentSetting>,
}

impl AgentSettings {
    /// The settings of a session. A log without a fact about them tells them by the agent's answer
    /// and updates alone.
    pub(crate) fn from_sources<'a>(sources: impl Into<SettingSources<'a>>) -> Self {
        let SettingSources { answer, answer_at, latest, settings } = sources.into();
        let mut known = Self::default();
        if let Some(answer) = answer {
            known.take_answer(answer.bytes());
        }
        let mut updates = [
            (
                UpdateKind::ConfigOptionUpdate,
                latest.config.as_ref(),
                latest.config_at,
                known.offers.options.is_some(),
            ),
            (
                UpdateKind::CurrentModeUpdate,
                latest.mode.as_ref(),
                latest.mode_at,
                known.offers.modes.is_some(),
            ),
        ];
        updates.sort_by_key(|(_, _, at, _)| *at);
        for (kind, update, at, answered) in updates {
            // The answer is newer where it tells the same; logs of old versions do not say when it
            // came.
            if let Some(update) = update.filter(|_| at > answer_at || at == Seq::ZERO || !answered)
            {
                let _ = known.take_update(kind, update.bytes());
            }
        }
        if let Some(settings) = settings {
            known.in_force = settings.to_vec();
        }
        known
    }

    pub(crate) fn in_force(&self) -> &[AgentSetting] {
        &self.in_force
    }

    pub(crate) fn into_in_force(self) -> Vec<AgentSetting> {
        self.in_force
    }

    /// Takes the answer to `session/new`, `load` or `resume`. Takes each spelling as it stands,
    /// even if two of them contradict each other. A spelling that cannot be read counts as missing.
    pub(crate) fn take_answer(&mut self, frame: &[u8]) {
        let report = Json::parse(frame).and_then(|frame| frame.member("result"));
        let Some(result) = report.ok().flatten() else { return };
        if let Some((offered, value)) =
            offers::read_choice(result, ["modes", "availableModes", "id", "currentModeId"])
        {
            self.offers.modes = Some(offered);
            self.put_setting(mode_setting(value));
        }
        if let Some((offered, value)) =
            offers::read_choice(result, ["models", "availableModels", "modelId", "currentModelId"])
        {
            self.offers.models = Some(offered);
            self.put_setting(model_setting(value));
        }
        if let Ok(Some(list)) = result.member("configOptions") {
            for option in self.take_list(list) {
                self.put_setting(option);
            }
        }
    }

    /// Takes an update by which the agent reports settings.
    pub(crate) fn take_update(&mut self, kind: UpdateKind, frame: &[u8]) -> Result<(), ReadError> {
        let update = Payload::open_bytes(frame)?.of_kind(kind);
        if let AgentUpdate::CurrentMode(mode) = update {
            let mode = mode.close();
            mode.text_at(&["currentModeId"])?
                .ok_or_else(|| ReadError::Missing("currentModeId".into()))?;
            if let Some(value) = mode.member("currentModeId")?.and_then(to_raw) {
                self.change_setting(mode_setting(value));
            }
        } else if let AgentUpdate::ConfigOptions(options) = update
            && let Some(list) = options.close().member("configOptions")?
        {
            self.take_options(list);
        }
        Ok(())
    }

    /// Takes the complete list of config options.
    pub(crate) fn take_options(&mut self, list: Json<'_>) {
        for option in self.take_list(list) {
            self.change_setting(option);
        }
    }

    /// Takes what a list offers, and returns the settings that it tells. Those that it does not
    /// tell are gone.
    fn take_list(&mut self, list: Json<'_>) -> Vec<AgentSetting> {
        let (offers, told) = offers::read_options(list);
        self.offers.options = Some(offers);
        self.in_force.retain(|known| {
            known.of != SettingSpelling::Option
                || told.iter().any(|told| is_same_setting(known, told))
        });
        told
    }

    /// Takes a value that the agent agreed to.
    pub(crate) fn take_set(&mut self, request: &SettingRequest) {
        self.change_setting(self.setting_of(request));
    }

    fn setting_of(&self, request: &SettingRequest) -> AgentSetting {
        let value = request.value.clone();
        match &request.option {
            None if request.of == SettingSpelling::Model => model_setting(value),
            None => mode_setting(value),
            Some(id) => {
                let category = self
                    .offers
                    .find_option(id)
                    .and_then(|offer| offer.category.as_deref().map(Into::into));
                AgentSetting {
                    of: SettingSpelling::Option,
                    id: Some(id.clone()),
                    category,
                    value,
                }
            }
        }
    }

    /// Tells whether the requested value is in force.
    pub(crate) fn is_in_force(&self, request: &SettingRequest) -> bool {
        let setting = self.setting_of(request);
        self.find_setting(&setting)
            .is_some_and(|known| is_same_value(&known.value, &setting.value))
    }

    /// The settings that the agent must have when it comes back on these terms.
    pub(crate) fn on_return(mut self, terms: &ReturnTerms) -> Vec<AgentSetting> {
        if let Some(mode) = &terms.session_mode {
            self.choose_mode(mode);
        }
        if terms.accept_agent_settings {
            self.in_force.retain(|known| {
                let is_mode = known.of == SettingSpelling::Mode || is_of_category(known, "mode");
                is_mode && terms.session_mode.is_some()
            });
        }
        self.in_force
    }

    /// Makes this mode the one in force, in the spellings that the session has.
    fn choose_mode(&mut self, mode_id: &str) {
        let Some(value) = Raw::new(serde_json::Value::from(mode_id).to_string()) else { return };
        let option = self.in_force.iter().find(|known| is_of_category(known, "mode")).cloned();
        let has_modes = self.in_force.iter().any(|known| known.of == SettingSpelling::Mode);
        match option {
            Some(option) if !has_modes => self.change_setting(AgentSetting { value, ..option }),
            Some(_) | None => self.change_setting(mode_setting(value)),
        }
    }

    fn find_setting(&self, setting: &AgentSetting) -> Option<&AgentSetting> {
        self.in_force.iter().find(|known| is_same_setting(known, setting))
    }

    /// A change of one spelling is a change of the other, if that offers the value too.
    fn change_setting(&mut self, setting: AgentSetting) {
        if self
            .find_setting(&setting)
            .is_some_and(|known| is_same_value(&known.value, &setting.value))
        {
            return;
        }
        let other = self.other_spelling(&setting).filter(|other| {
            let value = text_of(&setting.value);
            value.is_some_and(|value| {
                self.offers.offers_value(&setting, &value)
                    && self.offers.offers_value(other, &value)
            })
        });
        if let Some(other) = other {
            self.put_setting(AgentSetting { value: setting.value.clone(), ..other });
        }
        self.put_setting(setting);
    }

    /// The other spelling of a mode or model, if the agent has it.
    fn other_spelling(&self, setting: &AgentSetting) -> Option<AgentSetting> {
        let category = |name: &str| self.in_force.iter().find(|known| is_of_category(known, name));
        let spelled = |of: SettingSpelling| self.in_force.iter().find(|known| known.of == of);
        let found = match (setting.of, setting.category.as_deref()) {
            (SettingSpelling::Mode, _) => category("mode"),
            (SettingSpelling::Model, _) => category("model"),
            (SettingSpelling::Option, Some("mode")) => spelled(SettingSpelling::Mode),
            (SettingSpelling::Option, Some("model")) => spelled(SettingSpelling::Model),
            (SettingSpelling::Option, _) => None,
        };
        found.cloned()
    }

    fn put_setting(&mut self, setting: AgentSetting) {
        let place = self.in_force.iter().position(|known| is_same_setting(known, &setting));
        match place {
            Some(place) if is_same_value(&self.in_force[place].value, &setting.value) => {}
            Some(place) => {
                self.in_force.remove(place);
                self.in_force.push(setting);
            }
            None => self.in_force.push(setting),
        }
    }
}

fn mode_setting(value: Raw) -> AgentSetting {
    AgentSetting { of: SettingSpelling::Mode, id: None, category: None, value }
}

fn model_setting(value: Raw) -> AgentSetting {
    AgentSetting { of: SettingSpelling::Model, id: None, category: None, value }
}

fn to_raw(json: Json<'_>) -> Option<Raw> {
    Raw::new(json.raw().to_owned())
}

/// The string that a value is. `None` for other values.
fn text_of(value: &Raw) -> Option<String> {
    Json::parse(value.bytes()).ok()?.text().map(Into::into)
}

fn is_of_category(setting: &AgentSetting, category: &str) -> bool {
    setting.of == SettingSpelling::Option && setting.category.as_deref() == Some(category)
}

/// Tells whether both name the same setting, in the same spelling.
fn is_same_setting(one: &AgentSetting, other: &AgentSetting) -> bool {
    one.of == other.of
        && match (&one.id, &other.id) {
            (Some(one), Some(other)) => is_same_value(one, other),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        }
}

/// Compares two values; strings may be escaped in several ways.
pub(crate) fn is_same_value(one: &Raw, other: &Raw) -> bool {
    one == other
        || matches!((text_of(one), text_of(other)), (Some(one), Some(other)) if one == other)
}

/// Tells whether both lists have the same settings and values, in any order and however strings are
/// escaped.
pub(crate) fn is_same_in_force(one: &[AgentSetting], other: &[AgentSetting]) -> bool {
    let has = |known: &AgentSetting| {
        other
            .iter()
            .any(|other| is_same_setting(known, other) && is_same_value(&known.value, &other.value))
    };
    one.len() == other.len() && one.iter().all(has)
}
