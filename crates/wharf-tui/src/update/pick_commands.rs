//! Choices of lists: settings of the agent, earlier prompts, questions, hits of a search.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use wharf_api::{SearchPage, SettingChoice, SettingOption, SettingsChange};

use crate::api_call::{change_settings, kill_session, search_rows};
use crate::input::StreamId;
use crate::model::{
    CallPurpose, Overlay, PaneFocus, PickAction, PickItem, PickList, PickSource, TuiState,
};
use crate::rows::RowPlace;

/// The delay between the last key and the beginning of a search.
const SEARCH_DELAY: Duration = Duration::from_millis(150);
/// A requested mode counts as the current mode for this time, since the agent reports the change
/// later.
const MODE_REQUEST_TIME: Duration = Duration::from_secs(3);

impl TuiState {
    pub(super) fn run_pick_action(&mut self, action: PickAction) {
        match action {
            PickAction::Nothing => {}
            PickAction::TakePrompt(text) => {
                if let Some(open) = &mut self.open {
                    open.composer.set_text(&text);
                    self.focus_session();
                    self.note_draft();
                }
            }
            PickAction::SetMode(mode) => {
                self.change_setting(SettingsChange { mode: Some(mode), ..Default::default() })
            }
            PickAction::SetModel(model) => {
                self.change_setting(SettingsChange { model: Some(model), ..Default::default() });
            }
            PickAction::SetOption { id, value } => {
                let options = Some(BTreeMap::from([(id, value)]));
                self.change_setting(SettingsChange { options, ..Default::default() });
            }
            PickAction::KillSession(session) => {
                if self.require_host() {
                    self.call(kill_session(&session), CallPurpose::Change { failed: "not killed" });
                }
            }
            PickAction::SendNow => {
                if let Some(open) = &mut self.open {
                    open.composing.is_send_now_confirmed = true;
                }
                self.send_now();
            }
            PickAction::OpenRow { session, row } => self.open_at_row(&session, &row),
        }
    }

    fn change_setting(&mut self, change: SettingsChange) {
        if self.options.is_readonly || !self.require_host() {
            return;
        }
        let Some(session) = self.open.as_ref().map(|open| open.id.clone()) else { return };
        self.call(change_settings(&session, &change), CallPurpose::Change { failed: "not set" });
    }

    /// Requests the mode after the current one (Shift-Tab). If a request of the last press still
    /// counts, goes on from the requested mode.
    pub(super) fn set_next_mode(&mut self) {
        let now = self.now.elapsed;
        let requested = self.open.as_ref().and_then(|open| open.requested_mode.as_ref());
        let requested = requested.filter(|(_, until)| now < *until).map(|(mode, _)| mode.as_str());
        let settings = self.open.as_ref().and_then(|open| open.rows.state()?.settings.as_deref());
        let Some(modes) = settings
            .and_then(|settings| settings.modes.as_ref())
            .filter(|modes| modes.all.len() > 1)
        else {
            self.tell("this agent has no other mode");
            return;
        };
        let from = requested.unwrap_or(&modes.current);
        let place = modes.all.iter().position(|mode| mode.id == from).map_or(0, |place| place + 1);
        let Some(next) = modes.all.get(place % modes.all.len()) else { return };
        let id = next.id.clone();
        let name = next.name.clone();
        if self.options.is_readonly || !self.require_host() {
            return;
        }
        let Some(open) = &mut self.open else { return };
        open.requested_mode = Some((id.clone(), now + MODE_REQUEST_TIME));
        let change = SettingsChange { mode: Some(id), ..Default::default() };
        let call = change_settings(&open.id, &change);
        let stream = open.stream;
        self.call(call, CallPurpose::NextMode { stream });
        self.tell(format!("mode: {name}"));
    }

    /// Forgets the mode that the host refused: the next press goes on from the current one.
    pub(super) fn fail_next_mode(&mut self, stream: StreamId, reason: &str) {
        if let Some(open) = self.open.as_mut().filter(|open| open.stream == stream) {
            open.requested_mode = None;
        }
        self.tell_error(format!("not set: {reason}"));
    }

    /// Opens the list of all modes, models and options.
    pub(super) fn open_settings(&mut self) {
        let settings = self.open.as_ref().and_then(|open| open.rows.state()?.settings.as_deref());
        let Some(settings) = settings else {
            self.tell("the agent has told no settings yet");
            return;
        };
        let mut items = Vec::new();
        push_choice(&mut items, "Mode", settings.modes.as_ref(), PickAction::SetMode);
        push_choice(&mut items, "Model", settings.models.as_ref(), PickAction::SetModel);
        // A mode or a model may be among the options as well.
        let is_own = |option: &&SettingOption| match option.category.as_deref() {
            Some("mode") => settings.modes.is_none(),
            Some("model") => settings.models.is_none(),
            Some(_) | None => true,
        };
        settings
            .options
            .iter()
            .filter(is_own)
            .for_each(|option| push_option(&mut items, option));
        let mut list = PickList::new("Mode, model and options", items);
        list.note = "this agent has no such setting".to_owned();
        self.overlays.push(Overlay::PickList(list));
    }

    pub(super) fn open_search(&mut self) {
        self.overlays.push(Overlay::PickList(PickList::search()));
    }

    /// Notes that the query of a search has changed.
    pub(super) fn note_query(&mut self) {
        let now = self.now.elapsed;
        let Some(Overlay::PickList(list)) = self.overlays.last_mut() else { return };
        list.selected = 0;
        if let PickSource::Search { due } = &mut list.source {
            *due = Some(now + SEARCH_DELAY);
        }
    }

    /// Returns when the search is to begin.
    pub(super) fn search_at(&self) -> Option<Duration> {
        let Some(Overlay::PickList(list)) = self.overlays.last() else { return None };
        match list.source {
            PickSource::Search { due } => due,
            PickSource::Fixed | PickSource::Question => None,
        }
    }

    /// Begins the search whose time has come.
    pub(super) fn start_due_search(&mut self) {
        if self.search_at().is_none_or(|at| at > self.now.elapsed) {
            return;
        }
        let Some(Overlay::PickList(list)) = self.overlays.last_mut() else { return };
        list.source = PickSource::Search { due: None };
        let query = list.query.text().trim().to_owned();
        if query.is_empty() {
            list.items.clear();
            return;
        }
        if self.require_host() {
            self.call(search_rows(&query), CallPurpose::Search { query });
        }
    }

    /// Shows the hits of a search, if the person has not changed the query.
    pub(super) fn show_hits(&mut self, query: &str, page: SearchPage) {
        let names: Vec<PickItem> = page.hits.into_iter().map(|hit| self.hit_item(hit)).collect();
        let Some(Overlay::PickList(list)) = self.overlays.last_mut() else { return };
        if !matches!(list.source, PickSource::Search { .. }) || list.query.text().trim() != query {
            return;
        }
        list.items = names;
        list.selected = 0;
        list.note = match page.pending {
            0 => format!("no row of any session has all words of “{query}”; fewer words find more"),
            count => {
                format!("nothing found yet for “{query}”; {count} sessions are still being read")
            }
        };
    }

    fn hit_item(&self, hit: wharf_api::SearchHit) -> PickItem {
        let snippet: String = hit.snippet.iter().map(|part| part.text.as_str()).collect();
        let age = wharf_render::text::parse_millis(&hit.at)
            .map(|at| wharf_render::text::format_age(at, self.now.unix_millis))
            .unwrap_or_default();
        let title = hit.title.clone().unwrap_or_else(|| hit.workspace_slug.clone());
        PickItem {
            label: if snippet.trim().is_empty() { hit.summary } else { snippet },
            detail: format!("{title} · {age}"),
            action: PickAction::OpenRow { session: hit.session, row: hit.row },
        }
    }

    /// Opens a session at one of its rows.
    fn open_at_row(&mut self, session: &str, row: &str) {
        self.overlays.clear();
        self.open_session(session);
        if let Some(open) = &mut self.open {
            open.view.seek = Some(RowPlace::of_id(row));
        }
        self.focus = PaneFocus::Transcript;
        self.seek_row();
    }
}

fn push_choice(
    items: &mut Vec<PickItem>,
    name: &str,
    choice: Option<&SettingChoice>,
    action: impl Fn(String) -> PickAction,
) {
    for value in choice.iter().flat_map(|choice| &choice.all) {
        let is_current = choice.is_some_and(|choice| choice.current == value.id);
        items.push(PickItem {
            label: setting_label(name, &value.name, is_current),
            detail: value.description.clone().unwrap_or_default(),
            action: action(value.id.clone()),
        });
    }
}

fn push_option(items: &mut Vec<PickItem>, option: &SettingOption) {
    let mut push = |name: &str, detail: Option<&String>, value: Value| {
        items.push(PickItem {
            label: setting_label(&option.name, name, option.current == value),
            detail: detail.or(option.description.as_ref()).cloned().unwrap_or_default(),
            action: PickAction::SetOption { id: option.id.clone(), value },
        });
    };
    if option.kind == "boolean" {
        push("on", None, Value::from(true));
        push("off", None, Value::from(false));
    }
    for value in &option.all {
        push(&value.name, value.description.as_ref(), Value::from(value.id.as_str()));
    }
}

fn setting_label(setting: &str, value: &str, is_current: bool) -> String {
    let mark = if is_current { "●" } else { "○" };
    format!("{mark} {setting}: {value}")
}
