//! `serve_tools`: to which agents the host says that their client has files and terminals (rule
//! 12.13).

use serde::{Deserialize, Deserializer, de};

/// Decides to which agents the host says that their client has files and terminals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServeTools {
    /// Agents whose client has them. Wharf stands in once that client is gone.
    #[default]
    StandIn,
    /// All agents. Wharf serves what the client does not.
    Always,
    /// No agent, and Wharf serves nothing.
    Never,
}

impl<'de> Deserialize<'de> for ServeTools {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Old(bool),
            Word(String),
        }
        match Written::deserialize(from).map_err(|_| de::Error::custom(EXPECTED_VALUES))? {
            Written::Old(true) => Ok(Self::Always),
            Written::Old(false) => Ok(Self::Never),
            Written::Word(word) => match word.as_str() {
                "stand-in" => Ok(Self::StandIn),
                "always" => Ok(Self::Always),
                "never" => Ok(Self::Never),
                _ => Err(de::Error::custom(EXPECTED_VALUES)),
            },
        }
    }
}

const EXPECTED_VALUES: &str = "serve_tools: write \"stand-in\", \"always\" or \"never\"";

/// Returns the warning about a `true` or `false` of older versions.
pub(super) fn warn_of_old_value(table: &toml::Table) -> Option<String> {
    let old = table.get("serve_tools")?.as_bool()?;
    let new = if old { "always" } else { "never" };
    Some(format!(
        "serve_tools = {old} is the old spelling of serve_tools = \"{new}\"; the default is \"stand-in\" now"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    #[test]
    fn the_old_values_mean_always_and_never_and_warn() {
        for (text, how, warns) in [
            ("", ServeTools::StandIn, None),
            ("serve_tools = \"stand-in\"", ServeTools::StandIn, None),
            ("serve_tools = \"always\"", ServeTools::Always, None),
            ("serve_tools = \"never\"", ServeTools::Never, None),
            ("serve_tools = true", ServeTools::Always, Some("\"always\"")),
            ("serve_tools = false", ServeTools::Never, Some("\"never\"")),
        ] {
            let config = Config::parse(text).unwrap();
            assert_eq!(config.serve_tools, how, "{text}");
            assert_eq!(
                config.warnings.len(),
                usize::from(warns.is_some()),
                "{text}: {:?}",
                config.warnings
            );
            assert!(
                warns.is_none_or(|word| config.warnings[0].contains(word)),
                "{:?}",
                config.warnings
            );
        }
        for text in ["serve_tools = \"no\"", "serve_tools = 1"] {
            assert!(
                Config::parse(text)
                    .unwrap_err()
                    .contains("\"stand-in\", \"always\" or \"never\""),
                "{text}"
            );
        }
    }
}
