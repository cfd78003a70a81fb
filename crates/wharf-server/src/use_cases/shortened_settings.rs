//! Shortens the settings of an agent to a bound, so that they can go out beside rows: some agents
//! have thousands of commands or models.

use wharf_api::{AgentCommandInfo, ChoiceValue, SessionSettingsInfo, SettingChoice, SettingOption};

/// The bytes of all texts together, with an allowance for the JSON around them.
const MAX_SETTINGS_BYTES: usize = 64 << 10;
/// The JSON around the texts of one entry: names of members, quotes, commas.
const ENTRY_BYTES: usize = 80;
const MAX_DESCRIPTION_CHARS: usize = 200;
/// A longer id or name cannot be cut, so its entry is left out.
const MAX_NAME_BYTES: usize = 1024;

/// Counts the bytes that are left, and notes that something was left out.
struct SettingsBudget {
    left: usize,
    shortened: bool,
}

impl SettingsBudget {
    /// Returns true if there is room for an entry with these texts.
    fn take(&mut self, names: &[&str], description: Option<&String>) -> bool {
        // A text may double in size as JSON.
        let texts = names
            .iter()
            .map(|name| name.len())
            .chain(description.map(String::len))
            .sum::<usize>();
        let size = ENTRY_BYTES + 2 * texts;
        let fits = size <= self.left && names.iter().all(|name| name.len() <= MAX_NAME_BYTES);
        if fits {
            self.left -= size;
        }
        self.shortened |= !fits;
        fits
    }

    fn shorten_text(&mut self, text: &mut Option<String>) {
        let cut = text
            .as_ref()
            .and_then(|text| text.char_indices().nth(MAX_DESCRIPTION_CHARS))
            .map(|(at, _)| at);
        if let (Some(text), Some(cut)) = (text, cut) {
            text.truncate(cut);
            text.push('…');
            self.shortened = true;
        }
    }

    fn keep_values(&mut self, values: &mut Vec<ChoiceValue>) {
        values.retain_mut(|value| {
            self.shorten_text(&mut value.description);
            let group = value.group.as_deref().unwrap_or_default();
            self.take(&[&value.id, &value.name, group], value.description.as_ref())
        });
    }

    fn keep_choice(&mut self, choice: &mut Option<SettingChoice>) {
        if let Some(SettingChoice { current, all }) = choice {
            if self.take(&[current], None) {
                self.keep_values(all);
            } else {
                *choice = None;
            }
        }
    }

    fn keep_options(&mut self, options: &mut Vec<SettingOption>) {
        options.retain_mut(|option| {
            self.shorten_text(&mut option.description);
            let category = option.category.clone().unwrap_or_default();
            let current = option.current.to_string();
            let names = [option.id.as_str(), &option.name, &category, &option.kind, &current];
            self.take(&names, option.description.as_ref())
        });
        options.iter_mut().for_each(|option| self.keep_values(&mut option.all));
    }

    fn keep_commands(&mut self, commands: &mut Vec<AgentCommandInfo>) {
        commands.retain_mut(|command| {
            self.shorten_text(&mut command.description);
            self.shorten_text(&mut command.hint);
            let hint = command.hint.as_deref().unwrap_or_default();
            self.take(&[&command.name, hint], command.description.as_ref())
        });
    }
}

/// Returns settings of at most 64 KiB. Modes come first, since they are few; then commands, models
/// and options.
pub(super) fn shorten_settings(mut settings: SessionSettingsInfo) -> SessionSettingsInfo {
    let mut budget = SettingsBudget { left: MAX_SETTINGS_BYTES, shortened: false };
    budget.keep_choice(&mut settings.modes);
    budget.keep_commands(&mut settings.commands);
    budget.keep_choice(&mut settings.models);
    budget.keep_options(&mut settings.options);
    settings.shortened = budget.shortened;
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(commands: usize, description: &str) -> SessionSettingsInfo {
        let value = |n: usize| ChoiceValue {
            id: format!("v{n}"),
            name: format!("V{n}"),
            description: None,
            group: None,
        };
        let command = |n: usize| {
            let name = format!("c{n}");
            let description = Some(description.to_owned());
            AgentCommandInfo { name, description, hint: None }
        };
        SessionSettingsInfo {
            id: "s".to_owned(),
            modes: Some(SettingChoice {
                current: "v1".to_owned(),
                all: (0..3).map(value).collect(),
            }),
            models: Some(SettingChoice {
                current: "v9".to_owned(),
                all: (0..10).map(value).collect(),
            }),
            options: Vec::new(),
            commands: (0..commands).map(command).collect(),
            accepts: None,
            shortened: false,
        }
    }

    #[test]
    fn ordinary_settings_stay_as_they_are() {
        let ordinary = settings(40, "does this and that");
        assert_eq!(shorten_settings(ordinary.clone()), ordinary);
    }

    #[test]
    fn thousands_of_commands_leave_the_modes_and_stay_within_the_bound() {
        let shortened = shorten_settings(settings(5_000, &"\"ä\" ".repeat(1_000)));
        let size = serde_json::to_string(&shortened).unwrap().len();
        assert!(size <= MAX_SETTINGS_BYTES, "{size} bytes");
        assert!(
            shortened.shortened && shortened.commands.len() > 20,
            "{} commands",
            shortened.commands.len()
        );
        assert_eq!(shortened.modes, settings(0, "").modes);
        let description = shortened.commands[0].description.clone().unwrap();
        assert_eq!(description.chars().count(), MAX_DESCRIPTION_CHARS + 1);
    }
}
