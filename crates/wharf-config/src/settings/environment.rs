//! Settings by environment variables: `WHARF_` and the key in capitals.

use std::collections::BTreeSet;

use super::keys::{CONFIG_KEYS, ConfigKey, find_nearest, holds_secrets};
use super::layers::{Setting, SettingOrigin, flatten};
use super::mistakes::hide_value;
use super::{Config, values};

/// Variables that begin with `WHARF_` and set no key.
const OTHER_VARIABLES: [&str; 13] = [
    "WHARF_AGENT_TAG",
    "WHARF_CA",
    "WHARF_CONFIG",
    "WHARF_CONTEXT",
    "WHARF_DEMO_STATE",
    "WHARF_LOG",
    super::WEBHOOK_SECRET_VARIABLE,
    "WHARF_SESSION",
    "WHARF_KEEPER_FILES",
    "WHARF_STATE_DIR",
    "WHARF_TOKEN",
    "WHARF_URL",
    "WHARF_WITHOUT_LANDLOCK",
];
/// Sets `log_level` too, and counts before the variable that has the key's own name.
const LOG_VARIABLE: &str = "WHARF_LOG";

/// Returns the settings of these variables, and a warning for each that begins with `WHARF_` but
/// means nothing. A variable that is empty counts as absent.
pub(super) fn read_variables(
    variables: &[(String, String)],
) -> Result<(Vec<Setting>, Vec<String>), String> {
    let value_of = |name: &str| {
        variables
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    };
    let mut settings = Vec::new();
    let mut seen = BTreeSet::new();
    for key in CONFIG_KEYS {
        let name = key.variable();
        let name = if key.path == "log_level" && value_of(LOG_VARIABLE).is_some() {
            LOG_VARIABLE.to_owned()
        } else {
            name
        };
        let Some(text) = value_of(&name).filter(|_| seen.insert(name.clone())) else { continue };
        let read =
            read_variable(key, &name, text).map_err(|why| format!("the variable {name}: {why}"))?;
        settings.extend(read);
    }
    let known: Vec<String> = CONFIG_KEYS.iter().map(ConfigKey::variable).collect();
    let known: Vec<&str> = known.iter().map(String::as_str).chain(OTHER_VARIABLES).collect();
    let unknown = variables.iter().filter(|(name, _)| !known.contains(&name.as_str()));
    let warn = |(name, _): &(String, String)| {
        let hint = find_nearest(name, &known)
            .map(|near| format!("; did you mean {near}?"))
            .unwrap_or_default();
        format!("the variable {name} sets nothing{hint}")
    };
    Ok((settings, unknown.map(warn).collect()))
}

fn read_variable(key: &ConfigKey, name: &str, text: &str) -> Result<Vec<Setting>, String> {
    let origin = SettingOrigin::Environment(name.to_owned());
    let settings = if key.is_in_named_table() {
        let value = values::parse_toml(text)?;
        let toml::Value::Table(named) = value else {
            // Without the text, which may hold secrets.
            return Err("its value is not a table; write it like { name = … }".to_owned());
        };
        let mut table = toml::Table::new();
        super::layers::insert_at(&mut table, key.variable_path(), toml::Value::Table(named));
        super::keys::check_keys(&table)?;
        let leaves = flatten(&table).into_iter();
        leaves
            .map(|(path, value)| Setting { path, value: value.clone(), origin: origin.clone() })
            .collect()
    } else {
        let mut value = values::parse_value(key, text)?;
        super::layers::resolve_path(key, &mut value, None);
        vec![Setting { path: key.path.to_owned(), value, origin }]
    };
    // By itself, so that the error names the variable.
    let mut table = toml::Table::new();
    for setting in &settings {
        super::layers::insert_at(&mut table, &setting.path, setting.value.clone());
    }
    table
        .try_into::<Config>()
        .map_err(|error| match holds_secrets(key.variable_path()) {
            true => hide_value(error.message()),
            false => error.message().to_owned(),
        })?;
    Ok(settings)
}

/// Returns the variables of this process that begin with `WHARF_` and are not empty.
pub fn own_variables() -> Vec<(String, String)> {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    let mut found: Vec<(String, String)> = std::env::vars_os().filter_map(text).collect();
    found.retain(|(name, value)| name.starts_with("WHARF_") && !value.is_empty());
    found.sort_unstable();
    found
}
