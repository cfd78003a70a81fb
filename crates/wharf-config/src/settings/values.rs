//! Values of settings as text: in variables, and as `wharf config set` takes and shows them.

use super::keys::{ConfigKey, SettingValueKind};

/// Shown instead of a value that may be a secret.
const HIDDEN_VALUE: &str = "(set)";

/// Reads the value of a key. Strings need no quotes; a list is written as TOML, or as words with
/// commas between them.
pub fn parse_value(key: &ConfigKey, text: &str) -> Result<toml::Value, String> {
    match key.kind {
        SettingValueKind::Text | SettingValueKind::Path => Ok(toml::Value::String(unquote(text))),
        SettingValueKind::Count => {
            text.trim().parse().map(toml::Value::Integer).map_err(|_| {
                format!("{text:?} is not a number for {}; write digits only", key.path)
            })
        }
        SettingValueKind::Switch => text
            .trim()
            .parse()
            .map(toml::Value::Boolean)
            .map_err(|_| format!("{text:?} is no value for {}; write true or false", key.path)),
        SettingValueKind::ListOrAll if unquote(text) == "*" => {
            Ok(toml::Value::String("*".to_owned()))
        }
        SettingValueKind::List | SettingValueKind::ListOrAll => parse_list(key, text),
    }
}

fn parse_list(key: &ConfigKey, text: &str) -> Result<toml::Value, String> {
    if text.trim_start().starts_with('[') {
        return parse_toml(text)
            .map_err(|error| format!("{text:?} is not a list for {}: {error}", key.path));
    }
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    Ok(toml::Value::Array(words.map(|word| toml::Value::String(word.to_owned())).collect()))
}

/// Reads one value in the syntax of TOML.
pub(super) fn parse_toml(text: &str) -> Result<toml::Value, String> {
    let table: toml::Table =
        format!("value = {text}").parse().map_err(|error: toml::de::Error| {
            // The position would be that in the text made here.
            error.message().to_owned()
        })?;
    table
        .into_iter()
        .map(|(_, value)| value)
        .next()
        .ok_or_else(|| "there is no value".to_owned())
}

fn unquote(text: &str) -> String {
    let quoted = text.len() > 1 && text.starts_with('"') && text.ends_with('"');
    match quoted.then(|| parse_toml(text)) {
        Some(Ok(toml::Value::String(inner))) => inner,
        _ => text.to_owned(),
    }
}

/// Returns the value as TOML, or a placeholder if it may be a secret.
pub(crate) fn show_value(key: &ConfigKey, value: &toml::Value) -> String {
    if key.secret { HIDDEN_VALUE.to_owned() } else { value.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(path: &str, text: &str) -> Result<toml::Value, String> {
        parse_value(ConfigKey::find(path).unwrap(), text)
    }

    #[test]
    fn values_are_read_by_the_kind_of_their_key() {
        let words =
            |words: &[&str]| toml::Value::Array(words.iter().map(|word| (*word).into()).collect());
        assert_eq!(parsed("ask_timeout", "5m"), Ok("5m".into()));
        assert_eq!(parsed("ask_timeout", "\"5m\""), Ok("5m".into()));
        assert_eq!(parsed("limits.queue", "7"), Ok(7.into()));
        assert_eq!(parsed("redact_output", "false"), Ok(false.into()));
        assert_eq!(parsed("hosts", "a.example, b.example"), Ok(words(&["a.example", "b.example"])));
        assert_eq!(parsed("agents.mine.command", "[\"a b\", \"c,d\"]"), Ok(words(&["a b", "c,d"])));
        assert_eq!(parsed("hosts", ""), Ok(words(&[])));
        assert_eq!(parsed("delegation.allow.claude", "*"), Ok("*".into()));
        assert_eq!(parsed("delegation.allow.claude", "codex"), Ok(words(&["codex"])));
    }

    #[test]
    fn value_of_another_kind_is_refused_with_its_key() {
        for (path, text) in
            [("limits.queue", "many"), ("redact_output", "yes"), ("hosts", "[\"a\"")]
        {
            let error = parsed(path, text).unwrap_err();
            assert!(error.contains(path), "{error}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let key = ConfigKey::find("agents.mine.env.API_KEY").unwrap();
        assert_eq!(show_value(key, &"hush".into()), "(set)");
        assert_eq!(show_value(ConfigKey::find("listen").unwrap(), &"x:1".into()), "\"x:1\"");
    }
}
