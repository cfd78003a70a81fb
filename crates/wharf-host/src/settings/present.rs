//! The settings in force as clients get them: in answers to clients that join, and by updates to
//! attached clients.

use wharf_acp::Payload;
use wharf_core::{AgentSetting, Latest, Raw, Seq, SettingSpelling, UpdateKind};
use wharf_json::Json;

use super::{AgentSettings, SettingSources, is_same_value};

/// The members `modes`, `models` and `configOptions` of an answer, with the values that are in
/// force.
pub fn current_settings<'a>(sources: impl Into<SettingSources<'a>>) -> Vec<(&'static str, String)> {
    let sources = sources.into();
    let settings = AgentSettings::from_sources(sources);
    let value =
        |of| settings.in_force.iter().find(|known| known.of == of).map(|known| &known.value);
    let answer = sources
        .answer
        .and_then(|answer| Json::parse(answer.bytes()).ok()?.member("result").ok()?);
    let mut members = Vec::new();
    let choices = [
        ("modes", "currentModeId", SettingSpelling::Mode),
        ("models", "currentModelId", SettingSpelling::Model),
    ];
    for (name, current, of) in choices {
        let told = answer.and_then(|answer| answer.member(name).ok()?);
        if let (Some(told), Some(value)) = (told, value(of))
            && let Ok(told) = wharf_json::set(told, &[current], value.as_str())
        {
            members.push((name, told));
        }
    }
    if let Some(list) = newest_list(sources) {
        members.push(("configOptions", patched_options(list, &settings.in_force)));
    }
    members
}

/// The newest list of config options that the log has.
pub(crate) fn newest_list(sources: SettingSources<'_>) -> Option<Json<'_>> {
    let SettingSources { answer, answer_at, latest, .. } = sources;
    let update = latest.config.as_ref().and_then(|update| {
        Payload::open(update.as_str()).ok()?.close().member("configOptions").ok()?
    });
    let answered = answer.and_then(|answer| {
        Json::parse(answer.bytes()).ok()?.at(&["result", "configOptions"]).ok()?
    });
    let is_newer = latest.config_at > answer_at || latest.config_at == Seq::ZERO;
    if is_newer { update.or(answered) } else { answered.or(update) }
}

/// The list with the values that are in force. Everything else stays as the agent wrote it.
pub(crate) fn patched_options(list: Json<'_>, in_force: &[AgentSetting]) -> String {
    let patched = |option: Json<'_>| {
        let id = option.member("id").ok()?.and_then(super::to_raw)?;
        let current = option.member("currentValue").ok()?.and_then(super::to_raw)?;
        let known = in_force
            .iter()
            .find(|known| known.id.as_ref().is_some_and(|known| is_same_value(known, &id)))?;
        if is_same_value(&known.value, &current) {
            return None;
        }
        wharf_json::set(option, &["currentValue"], known.value.as_str()).ok()
    };
    let mut changed = false;
    let mut options = Vec::new();
    for option in list.items() {
        let patched = patched(option);
        changed |= patched.is_some();
        options.push(patched.unwrap_or_else(|| option.raw().to_owned()));
    }
    if changed { format!("[{}]", options.join(",")) } else { list.raw().to_owned() }
}

/// Holds the settings that the clients of a session know. Does not hold models, since updates do
/// not carry them.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReportedSettings {
    mode: Option<Raw>,
    options: Vec<AgentSetting>,
}

impl ReportedSettings {
    /// Returns the settings that clients know: a client that joins gets the settings in force, and
    /// attached clients get updates.
    pub(crate) fn from_sources<'a>(sources: impl Into<SettingSources<'a>>) -> Self {
        let sources = sources.into();
        let mut told = Self::of_settings(&AgentSettings::from_sources(sources).in_force);
        let Latest { mode, config, .. } = sources.latest;
        for (kind, update) in
            [(UpdateKind::CurrentModeUpdate, mode), (UpdateKind::ConfigOptionUpdate, config)]
        {
            if let Some(update) = update {
                told.take_update(kind, update.bytes());
            }
        }
        told
    }

    /// Returns the state in which clients know all of these settings.
    pub(crate) fn of_settings(in_force: &[AgentSetting]) -> Self {
        let mode = in_force
            .iter()
            .find(|one| one.of == SettingSpelling::Mode)
            .map(|mode| mode.value.clone());
        Self { mode, options: only_options(in_force).cloned().collect() }
    }

    /// Takes settings that the agent did not have before: clients learn of them by the answers that
    /// they get.
    pub(crate) fn add_new(&mut self, in_force: &[AgentSetting]) {
        let Self { mode, options } = Self::of_settings(in_force);
        self.mode = self.mode.take().or(mode);
        if self.options.is_empty() {
            self.options = options;
        }
    }

    /// Takes an update that clients are shown.
    pub(crate) fn take_update(&mut self, kind: UpdateKind, frame: &[u8]) {
        let mut told = AgentSettings::default();
        if told.take_update(kind, frame).is_err() {
            return;
        }
        let Self { mode, options } = Self::of_settings(&told.in_force);
        if kind == UpdateKind::CurrentModeUpdate {
            self.mode = mode.or(self.mode.take());
        } else if kind == UpdateKind::ConfigOptionUpdate {
            self.options = options;
        }
    }

    /// Returns the mode in force if clients do not know it.
    pub(crate) fn missing_mode<'a>(&self, in_force: &'a [AgentSetting]) -> Option<&'a Raw> {
        let mode = &in_force.iter().find(|one| one.of == SettingSpelling::Mode)?.value;
        let is_told = self.mode.as_ref().is_some_and(|told| is_same_value(told, mode));
        (!is_told).then_some(mode)
    }

    /// Returns true if clients know other values of the options than those in force.
    pub(crate) fn lacks_options(&self, in_force: &[AgentSetting]) -> bool {
        let options: Vec<AgentSetting> = only_options(in_force).cloned().collect();
        !super::is_same_in_force(&self.options, &options)
    }
}

fn only_options(settings: &[AgentSetting]) -> impl Iterator<Item = &AgentSetting> {
    settings.iter().filter(|one| one.of == SettingSpelling::Option)
}
