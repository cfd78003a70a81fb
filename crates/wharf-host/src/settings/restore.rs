//! Restores the settings of an agent that comes back, one after the other (rule 12.12).

use wharf_core::{AgentSetting, SettingSpelling};

use super::{AgentSettings, SettingRequest, is_of_category, is_same_setting, is_same_value};

/// How often one setting is set at most. Settings may depend on each other, so that one is due
/// again after another; two that undo each other would go on for ever.
pub(super) const SETS_PER_SETTING: usize = 3;

/// The settings that were in force, compared with those that the agent reports.
#[derive(Debug)]
pub(crate) struct Restoration {
    /// The mode first, then in the order of their last change.
    wanted: Vec<AgentSetting>,
    done: Vec<AgentSetting>,
}

/// The next step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RestoreStep {
    /// No step is left: the agent has the settings that were in force.
    Done,
    Set(SettingRequest),
    /// The agent was given this value more than once and reports another one.
    NotKept(SettingRequest),
}

impl Restoration {
    pub(crate) fn new(mut wanted: Vec<AgentSetting>) -> Self {
        wanted.sort_by_key(|setting| match setting.of {
            SettingSpelling::Mode => 0,
            SettingSpelling::Option if is_of_category(setting, "mode") => 1,
            SettingSpelling::Model | SettingSpelling::Option => 2,
        });
        Self { wanted, done: Vec::new() }
    }

    /// Compares with what the agent reports now.
    pub(crate) fn next(&mut self, reported: &AgentSettings) -> RestoreStep {
        let Some(setting) = self.wanted.iter().find(|setting| self.is_due(setting, reported))
        else {
            return RestoreStep::Done;
        };
        let request = SettingRequest::of(setting);
        if self.done.iter().filter(|done| is_same_setting(done, setting)).count()
            == SETS_PER_SETTING
        {
            return RestoreStep::NotKept(request);
        }
        self.done.push(setting.clone());
        RestoreStep::Set(request)
    }

    fn is_due(&self, setting: &AgentSetting, reported: &AgentSettings) -> bool {
        if let Some(known) = reported.find_setting(setting) {
            return !is_same_value(&known.value, &setting.value)
                && !self.follows_from_newer(setting, reported);
        }
        let other = self.other_spelling(setting);
        let told = other.is_some_and(|other| reported.find_setting(other).is_some());
        if is_of_category(setting, "mode") || setting.of == SettingSpelling::Mode {
            // The mode decides over rights: set it unless the agent reports it in another spelling.
            return !told;
        }
        // An option that is missing in the agent's list does not exist any more.
        !told && !reported.offers.reports_spelling(setting.of)
    }

    /// Of two spellings of the model with values of their own, the newer one decides. If the agent
    /// has kept that, the older one is a consequence of it.
    fn follows_from_newer(&self, setting: &AgentSetting, reported: &AgentSettings) -> bool {
        let is_model = setting.of == SettingSpelling::Model || is_of_category(setting, "model");
        let Some(other) = self.other_spelling(setting).filter(|_| is_model) else { return false };
        let place =
            |of: &AgentSetting| self.wanted.iter().position(|wanted| is_same_setting(wanted, of));
        let was_kept = reported
            .find_setting(other)
            .is_some_and(|known| is_same_value(&known.value, &other.value));
        let was_set = self.done.iter().any(|done| is_same_setting(done, other));
        place(other) > place(setting) && was_kept && !was_set
    }

    /// The other spelling of a mode or model among those that were in force.
    fn other_spelling(&self, setting: &AgentSetting) -> Option<&AgentSetting> {
        let other = |wanted: &&AgentSetting| match (setting.of, setting.category.as_deref()) {
            (SettingSpelling::Mode, _) => is_of_category(wanted, "mode"),
            (SettingSpelling::Model, _) => is_of_category(wanted, "model"),
            (SettingSpelling::Option, Some("mode")) => wanted.of == SettingSpelling::Mode,
            (SettingSpelling::Option, Some("model")) => wanted.of == SettingSpelling::Model,
            (SettingSpelling::Option, _) => false,
        };
        self.wanted.iter().find(other)
    }
}
