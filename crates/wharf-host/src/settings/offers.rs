//! Reading the lists in which an agent tells its settings and the values that it offers for each.

use wharf_core::{AgentSetting, Raw, SettingSpelling};
use wharf_json::Json;

use super::to_raw;

/// The values that an agent offers, per spelling. `None`: it does not tell that spelling.
#[derive(Clone, Debug, Default)]
pub(super) struct Offers {
    pub(super) modes: Option<Vec<String>>,
    pub(super) models: Option<Vec<String>>,
    pub(super) options: Option<Vec<OptionOffer>>,
}

#[derive(Clone, Debug)]
pub(super) struct OptionOffer {
    id: Raw,
    pub(super) category: Option<String>,
    values: Vec<String>,
}

impl Offers {
    pub(super) fn find_option(&self, id: &Raw) -> Option<&OptionOffer> {
        self.options.iter().flatten().find(|offer| super::is_same_value(&offer.id, id))
    }

    /// Returns the values that are offered in the spelling of this setting.
    pub(super) fn values_of(&self, setting: &AgentSetting) -> &[String] {
        let values = match setting.of {
            SettingSpelling::Mode => self.modes.as_ref(),
            SettingSpelling::Model => self.models.as_ref(),
            SettingSpelling::Option => setting
                .id
                .as_ref()
                .and_then(|id| self.find_option(id))
                .map(|offer| &offer.values),
        };
        values.map_or(&[], Vec::as_slice)
    }

    /// Tells whether the value is offered in the spelling of this setting.
    pub(super) fn offers_value(&self, setting: &AgentSetting, value: &str) -> bool {
        self.values_of(setting).iter().any(|offered| offered == value)
    }

    /// Tells whether the agent reports this spelling at all.
    pub(super) fn reports_spelling(&self, of: SettingSpelling) -> bool {
        match of {
            SettingSpelling::Mode => self.modes.is_some(),
            SettingSpelling::Model => self.models.is_some(),
            SettingSpelling::Option => self.options.is_some(),
        }
    }
}

/// Reads `modes` or `models`: the values that are offered, and the current one. The names are those
/// of the member, its list, the id in an item of that list, and the current value.
pub(super) fn read_choice(result: Json<'_>, names: [&str; 4]) -> Option<(Vec<String>, Raw)> {
    let [member, list, id, current] = names;
    let choice = result.member(member).ok()??;
    let value = choice.member(current).ok()??;
    value.text()?;
    let items = choice.member(list).ok().flatten().into_iter().flat_map(Json::items);
    let offered = items
        .filter_map(|item| item.text_at(&[id]).ok().flatten().map(Into::into))
        .collect();
    Some((offered, to_raw(value)?))
}

/// Reads a list of config options: what each offers, and its current value. An option that cannot
/// be read is left out.
pub(super) fn read_options(list: Json<'_>) -> (Vec<OptionOffer>, Vec<AgentSetting>) {
    list.items().filter_map(read_option).unzip()
}

fn read_option(option: Json<'_>) -> Option<(OptionOffer, AgentSetting)> {
    let id = option.member("id").ok()??;
    id.text()?;
    let id = to_raw(id)?;
    let value = to_raw(option.member("currentValue").ok()??)?;
    let category: Option<String> = option.text_at(&["category"]).ok().flatten().map(Into::into);
    let setting = AgentSetting {
        of: SettingSpelling::Option,
        id: Some(id.clone()),
        category: category.as_deref().map(Into::into),
        value,
    };
    let choices = option.member("options").ok().flatten();
    let mut values = Vec::new();
    for choice in choices.into_iter().flat_map(Json::items) {
        // The choices may stand in groups.
        let group = choice.member("options").ok().flatten();
        let grouped = group.into_iter().flat_map(Json::items);
        let named = std::iter::once(choice).chain(grouped);
        values.extend(
            named
                .filter_map(|choice| choice.text_at(&["value"]).ok().flatten())
                .map(String::from),
        );
    }
    Some((OptionOffer { id, category, values }, setting))
}
