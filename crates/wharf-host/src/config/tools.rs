//! `serve_tools`: to which agents the host says that their client has files and terminals (rule
//! 12.13).

use serde::{Deserialize, Deserializer, de};
use wharf_json::Json;

use crate::session::handle::Abilities;

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

impl ServeTools {
    /// Returns the `clientCapabilities` for an agent process. `recorded` are those of the client
    /// that the session was made for; `starter` is what the client can do for which the process is
    /// started, `None` if no client waits for it.
    pub(crate) fn advertise(self, recorded: &str, starter: Option<Abilities>) -> String {
        match (self, starter) {
            (Self::StandIn, None) => recorded.to_owned(),
            (Self::StandIn, Some(starter)) => with_tools(recorded, starter),
            (Self::Always, _) => with_tools(recorded, Abilities::ALL_TOOLS),
            (Self::Never, _) => with_tools(recorded, Abilities::default()),
        }
    }
}

/// Replaces `fs` and `terminal`; every other member stays as it came.
pub(crate) fn with_tools(capabilities: &str, can: Abilities) -> String {
    let fs =
        format!(r#"{{"readTextFile":{},"writeTextFile":{}}}"#, can.read_files, can.write_files);
    let terminal = can.terminals.to_string();
    let told = Json::parse(capabilities.as_bytes()).and_then(|told| {
        let told = wharf_json::set(told, &["fs"], &fs)?;
        wharf_json::set(Json::parse(told.as_bytes())?, &["terminal"], &terminal)
    });
    told.unwrap_or_else(|error| {
        tracing::error!(%error, "a client's capabilities cannot be told to the agent");
        format!(r#"{{"fs":{fs},"terminal":{terminal}}}"#)
    })
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

    fn advertise(how: ServeTools, starter: Option<Abilities>) -> serde_json::Value {
        let recorded = r#"{"fs":{"readTextFile":true},"novel":{"x":1}}"#;
        serde_json::from_str(&how.advertise(recorded, starter)).unwrap()
    }

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

    #[test]
    fn agents_are_told_of_tools_as_the_setting_and_the_client_have_them() {
        let novel = serde_json::json!({ "x": 1 });
        let told = |read, write, terminal| serde_json::json!({ "fs": { "readTextFile": read, "writeTextFile": write }, "terminal": terminal, "novel": novel });
        let writes = Abilities { write_files: true, ..Abilities::default() };
        assert_eq!(advertise(ServeTools::StandIn, Some(writes)), told(false, true, false));
        assert_eq!(advertise(ServeTools::Always, Some(writes)), told(true, true, true));
        assert_eq!(advertise(ServeTools::Never, None), told(false, false, false));
        let recorded = serde_json::json!({ "fs": { "readTextFile": true }, "novel": novel });
        assert_eq!(advertise(ServeTools::StandIn, None), recorded, "no client waits: as recorded");
    }
}
