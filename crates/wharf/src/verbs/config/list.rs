//! `wharf config list` and `get`: the settings that are in force, and the values that a host would
//! have that is started here.

use serde_json::{Value, json};
use wharf_api::{HostSetting, HostSettingList, SettingSource};
use wharf_render::style::{Screen, TextStyle};
use wharf_render::text::{display_width, truncate_to_columns};

use crate::client::{HostCall, HostClient};
use crate::exit::{Exit, Failure};
use crate::format::table::{COLUMN_GAP, TextTable, join_with_tabs, plain_cell, styled_cell};
use crate::global::GlobalOptions;
use crate::output;

/// The least of a value that is shown, however long the keys are.
const MIN_VALUE_WIDTH: usize = 12;

/// The settings of the host, and those of a host that is started here.
pub(crate) struct SettingsView {
    /// Of the running host; without one, of a host that is started here.
    pub(crate) current: HostSettingList,
    /// `None` if no host runs, or if it is on another machine.
    here: Option<HostSettingList>,
    running: bool,
}

impl SettingsView {
    /// Asks the running host. Without one, loads the settings as a host would.
    async fn load(global: &GlobalOptions) -> anyhow::Result<Self> {
        match global.connect_running_client().await {
            Ok(client) => Self::of_host(global, &client).await,
            Err(error) if Failure::exit_of(&error) == Exit::NoHost && !global.is_remote()? => {
                let current = super::super::serve::load_config(global)?.describe_settings();
                Ok(Self { current, here: None, running: false })
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn of_host(
        global: &GlobalOptions,
        client: &HostClient,
    ) -> anyhow::Result<Self> {
        let current = client.fetch_json(&HostCall::get("/host/settings")).await?;
        // A mistake in the file is left for the host to report.
        let here = if global.is_remote()? {
            None
        } else {
            super::super::serve::load_config(global)
                .ok()
                .map(|config| config.describe_settings())
        };
        Ok(Self { current, here, running: true })
    }

    /// Returns this setting of a host that is started here, if its value is another one.
    fn differs_here(&self, setting: &HostSetting) -> Option<String> {
        let here = self.here.as_ref()?.settings.iter().find(|here| here.key == setting.key);
        match here {
            Some(here) if here.value == setting.value => None,
            Some(here) => Some(format!(
                "{} ({})",
                here.value.as_deref().unwrap_or("unset"),
                describe_source(here)
            )),
            None => Some("unset".to_owned()),
        }
    }

    /// Returns the variables of the host's start that are not set here, or to something else.
    pub(crate) fn stale_variables(&self) -> Vec<String> {
        let by_variable = self
            .current
            .settings
            .iter()
            .filter(|setting| setting.source == SettingSource::Environment);
        let stale = by_variable.filter(|setting| self.differs_here(setting).is_some());
        let mut names: Vec<String> = stale.filter_map(|setting| setting.set_by.clone()).collect();
        names.dedup();
        names
    }

    /// Returns a note about a setting: a change that waits, or another value here.
    fn note(&self, setting: &HostSetting) -> String {
        let shown = |value: &str| {
            if value.is_empty() { "the default".to_owned() } else { value.to_owned() }
        };
        match (&setting.waiting, self.differs_here(setting)) {
            (Some(waiting), _) => format!("waits for a restart: {}", shown(waiting)),
            (None, Some(here)) => format!("here: {here}"),
            (None, None) => String::new(),
        }
    }
}

fn describe_source(setting: &HostSetting) -> String {
    match &setting.set_by {
        Some(name) => format!("{} {name}", setting.source),
        None => setting.source.to_string(),
    }
}

pub(super) async fn list_settings(
    global: &GlobalOptions,
    changed: bool,
    as_json: bool,
) -> anyhow::Result<Exit> {
    let mut view = SettingsView::load(global).await?;
    if changed {
        let notes: Vec<bool> = view
            .current
            .settings
            .iter()
            .map(|setting| !view.note(setting).is_empty())
            .collect();
        let mut noted = notes.into_iter();
        view.current.settings.retain(|setting| {
            noted.next().unwrap_or(false) || setting.source != SettingSource::Default
        });
    }
    if as_json {
        output::print_line(&to_json(&view)?.to_string());
        return Ok(Exit::Ok);
    }
    let screen = global.screen();
    format_settings(screen, &view).iter().for_each(|line| output::print_line(line));
    if screen.terminal {
        output::print_note(if view.running {
            "these are the settings of the running host"
        } else {
            "no host is running; one that is started here would have these settings"
        });
    }
    if let Some(fault) = &view.current.state.fault {
        output::print_note(&format!("the file cannot be used as it is now: {fault}"));
    }
    let stale = view.stale_variables();
    if !stale.is_empty() {
        let names = stale.join(", ");
        output::print_note(&format!(
            "the host was started with variables that are not so here: {names}; wharf restart uses those of this shell"
        ));
    }
    Ok(Exit::Ok)
}

fn to_json(view: &SettingsView) -> anyhow::Result<Value> {
    let mut object = serde_json::to_value(&view.current)?;
    object["running"] = view.running.into();
    object["staleVariables"] = json!(view.stale_variables());
    if let Some(listed) = object["settings"].as_array_mut() {
        for (shown, setting) in listed.iter_mut().zip(&view.current.settings) {
            if let Some(here) = view.differs_here(setting) {
                shown["here"] = here.into();
            }
        }
    }
    Ok(object)
}

fn format_settings(screen: Screen, view: &SettingsView) -> Vec<String> {
    if !screen.terminal {
        let plain = |setting: &HostSetting| {
            join_with_tabs([
                setting.key.as_str(),
                setting.value.as_deref().unwrap_or_default(),
                setting.source.as_str(),
                setting.set_by.as_deref().unwrap_or_default(),
                &setting.variable,
                setting.effect.as_str(),
                &view.note(setting),
            ])
        };
        return view.current.settings.iter().map(plain).collect();
    }
    let value_width = value_width(screen, &view.current.settings);
    let mut table = TextTable::new(&["KEY", "VALUE", "SOURCE", "NOTE"]);
    for setting in &view.current.settings {
        let is_default = setting.source == SettingSource::Default;
        table.add_row([
            styled_cell(
                if is_default { TextStyle::Plain } else { TextStyle::Strong },
                &setting.key,
            ),
            plain_cell(truncate_to_columns(setting.value.as_deref().unwrap_or("–"), value_width)),
            styled_cell(
                if is_default { TextStyle::Faint } else { TextStyle::Plain },
                describe_source(setting),
            ),
            styled_cell(TextStyle::Wants, view.note(setting)),
        ]);
    }
    table.to_lines(screen)
}

/// Returns the columns that a value may take, so that a row with its key and source fits into one
/// line.
fn value_width(screen: Screen, settings: &[HostSetting]) -> usize {
    let widest =
        |width: fn(&HostSetting) -> usize| settings.iter().map(width).max().unwrap_or_default();
    let key = widest(|setting| display_width(&setting.key));
    let source = widest(|setting| display_width(&describe_source(setting)));
    screen.width.saturating_sub(key + source + 2 * COLUMN_GAP).max(MIN_VALUE_WIDTH)
}

pub(super) async fn print_setting(
    global: &GlobalOptions,
    key: &str,
    as_json: bool,
) -> anyhow::Result<Exit> {
    if wharf_config::ConfigKey::find(key).is_none() {
        return Err(Failure::new(Exit::NotFound, wharf_config::unknown_key(key)).into());
    }
    let view = SettingsView::load(global).await?;
    let found = view.current.settings.iter().find(|setting| setting.key == key);
    if as_json {
        let found =
            found.ok_or_else(|| Failure::new(Exit::NotFound, format!("{key} is not set")))?;
        output::print_line(&serde_json::to_string(found)?);
        return Ok(Exit::Ok);
    }
    match found.and_then(|setting| setting.value.as_deref()) {
        Some(value) => output::print_line(&without_quotes(value)),
        None => {
            return Err(Failure::new(
                Exit::NotFound,
                format!("{key} is not set and has no default"),
            )
            .into());
        }
    }
    if let Some(note) = found.map(|setting| view.note(setting)).filter(|note| !note.is_empty()) {
        output::print_note(&note);
    }
    Ok(Exit::Ok)
}

/// Returns a text as it is meant, and any other value as TOML.
fn without_quotes(value: &str) -> String {
    match value.parse::<toml_edit::Value>() {
        Ok(toml_edit::Value::String(text)) => text.into_value(),
        Ok(_) | Err(_) => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_value_makes_no_row_longer_than_the_screen() {
        let long = format!("[{}]", vec!["\"a.example\""; 40].join(", "));
        let text = format!("ask_timeout = \"1h\"\nhosts = {long}\n");
        let current = wharf_config::Config::parse(&text).unwrap().describe_settings();
        let view = SettingsView { current, here: None, running: false };
        let lines = format_settings(Screen { width: 80, ..Screen::TERMINAL }, &view);
        let wide: Vec<&String> = lines.iter().filter(|line| display_width(line) > 80).collect();
        assert_eq!(wide, Vec::<&String>::new());
        assert!(lines.iter().any(|line| line.starts_with("ask_timeout ")
            && line.contains("\"1h\"")
            && line.ends_with("file")));
        assert!(lines.iter().any(|line| line.starts_with("hosts ")
            && line.contains('…')
            && line.ends_with("file")));
    }
}
