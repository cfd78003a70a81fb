//! The agent's settings that are in force: noted as facts, and told to clients in every spelling
//! (rules 12.9, 12.12).

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::time::Instant;
use wharf_core::{AgentInput, AgentSetting, Fault, Input, Raw, UpdateKind};
use wharf_json::{Json, rpc};

use super::link::{AgentLink, log_fault};
use crate::session::journal::Journal;
use crate::settings::{
    AgentSettings, ReportedSettings, SettingRequest, is_same_in_force, newest_list, patched_options,
};

/// How long the agent may take to report a change itself before the session reports it to clients
/// in the agent's stead.
const REPORT_WAIT: Duration = Duration::from_millis(250);

/// The settings of a session as its clients know them.
#[derive(Debug)]
pub(super) struct SettingAnnouncements {
    told: ReportedSettings,
    /// When to send clients the settings that they do not know yet.
    due: Option<Instant>,
    /// The newest list of config options, if it is not in the log: it came in an answer.
    list: Option<Raw>,
}

impl SettingAnnouncements {
    pub(super) fn new(told: ReportedSettings) -> Self {
        Self { told, due: None, list: None }
    }

    /// Returns the time until clients must get settings that they do not know; `None` if no update
    /// is due.
    pub(super) fn wait(&self) -> Option<Duration> {
        self.due.map(|due| due.saturating_duration_since(Instant::now()))
    }

    /// Takes an update in which the agent reports its mode or config options.
    pub(super) fn take_report(
        &mut self,
        update: UpdateKind,
        frame: Raw,
        mut link: Option<&mut AgentLink>,
        journal: &mut Journal,
    ) {
        let before = AgentSettings::from_sources(journal.state());
        let mut settings = before.clone();
        let taken = settings.take_update(update, frame.bytes());
        self.told.take_update(update, frame.bytes());
        if update == UpdateKind::ConfigOptionUpdate {
            self.list = None;
        }
        journal.input(
            Input::Agent(AgentInput::Updated { update, frame, title: None, tool: None }),
            None,
        );
        if let Err(error) = taken {
            let detail = format!("a {} that cannot be read: {error}", update.tag());
            log_fault(link.as_deref_mut(), Fault::Malformed, detail, journal);
        }
        let has_agent = link.is_some();
        if let Some(link) = link {
            link.note_reported(&settings);
        }
        self.note(before.in_force(), settings.in_force(), has_agent, journal);
    }

    /// Takes the agent's agreement to a client's request for a setting.
    pub(super) fn take_agreement(
        &mut self,
        request: &SettingRequest,
        was_reported: bool,
        answer: &Bytes,
        journal: &mut Journal,
    ) {
        let before = AgentSettings::from_sources(journal.state());
        let mut settings = before.clone();
        match Json::parse(answer).and_then(|answer| answer.at(&["result", "configOptions"])) {
            Ok(Some(list)) => {
                settings.take_options(list);
                self.list = Raw::new(list.raw().to_owned());
            }
            // The agent has reported this value since the request. Its last report is newer than
            // the requested value and stays in force.
            Ok(None) | Err(_) if was_reported => {}
            Ok(None) | Err(_) => settings.take_set(request),
        }
        self.note(before.in_force(), settings.in_force(), true, journal);
    }

    /// Takes the settings that an agent has which has just started.
    pub(super) fn take_opened(&mut self, settings: &[AgentSetting], journal: &mut Journal) {
        let before = AgentSettings::from_sources(journal.state());
        self.told.add_new(settings);
        if !journal.state().settings_loss.is_none() {
            // From here on the settings are known again, whichever were lost.
            let settings = settings.to_vec();
            journal
                .input(Input::Agent(AgentInput::SettingsChanged { settings, are_all: true }), None);
            return self.schedule(true, journal);
        }
        self.note(before.in_force(), settings, true, journal);
    }

    /// Makes it an event if other settings are in force than before, and has clients told.
    fn note(
        &mut self,
        before: &[AgentSetting],
        settings: &[AgentSetting],
        has_agent: bool,
        journal: &mut Journal,
    ) {
        if !is_same_in_force(before, settings) {
            let settings = settings.to_vec();
            journal.input(
                Input::Agent(AgentInput::SettingsChanged { settings, are_all: false }),
                None,
            );
        }
        self.schedule(has_agent, journal);
    }

    /// Schedules updates for clients that do not know the settings in force, unless the agent
    /// reports the settings before [`REPORT_WAIT`] is over.
    fn schedule(&mut self, has_agent: bool, journal: &Journal) {
        let settings = AgentSettings::from_sources(journal.state());
        let Self { told, due, list } = self;
        let missing = told.missing_mode(settings.in_force()).is_some()
            || told.lacks_options(settings.in_force());
        if missing && has_agent {
            due.get_or_insert_with(|| Instant::now() + REPORT_WAIT);
        } else {
            (*due, *list) = (None, None);
        }
    }

    /// Tells clients what the agent has not reported itself, in each spelling that they do not know
    /// yet.
    pub(super) fn tell(&mut self, journal: &mut Journal) {
        let state = journal.state();
        let settings = AgentSettings::from_sources(state);
        let in_force = settings.in_force();
        let mut updates = Vec::new();
        if let Some(mode) = self.told.missing_mode(in_force) {
            let body = format!(
                r#"{{"sessionUpdate":"current_mode_update","currentModeId":{}}}"#,
                mode.as_str()
            );
            updates.push((UpdateKind::CurrentModeUpdate, body));
        }
        if self.told.lacks_options(in_force) {
            let answered = self.list.as_ref().and_then(|list| Json::parse(list.bytes()).ok());
            if let Some(list) = answered.or_else(|| newest_list(state.into())) {
                let options = patched_options(list, in_force);
                let body = format!(
                    r#"{{"sessionUpdate":"config_option_update","configOptions":{options}}}"#
                );
                updates.push((UpdateKind::ConfigOptionUpdate, body));
            }
        }
        *self = Self::new(ReportedSettings::of_settings(in_force));
        let session = Value::from(state.origin.session.as_str());
        for (update, body) in updates {
            let params = format!(r#"{{"sessionId":{session},"update":{body}}}"#);
            if let Some(frame) = Raw::new(rpc::notification("session/update", params)) {
                journal.input(
                    Input::Agent(AgentInput::Updated { update, frame, title: None, tool: None }),
                    None,
                );
            }
        }
    }
}
