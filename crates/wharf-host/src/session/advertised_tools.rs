//! The `clientCapabilities` that an agent is told: the files and terminals that its client has or
//! that Wharf serves (rule 12.13).

use wharf_config::ServeTools;
use wharf_json::Json;

use super::handle::Abilities;

/// Returns the `clientCapabilities` for an agent process. `recorded` are those of the client that
/// the session was made for; `starter` is what the client can do for which the process is started,
/// `None` if no client waits for it.
pub(crate) fn advertise_tools(
    how: ServeTools,
    recorded: &str,
    starter: Option<Abilities>,
) -> String {
    match (how, starter) {
        (ServeTools::StandIn, None) => recorded.to_owned(),
        (ServeTools::StandIn, Some(starter)) => with_tools(recorded, starter),
        (ServeTools::Always, _) => with_tools(recorded, Abilities::ALL_TOOLS),
        (ServeTools::Never, _) => with_tools(recorded, Abilities::default()),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn advertise(how: ServeTools, starter: Option<Abilities>) -> serde_json::Value {
        let recorded = r#"{"fs":{"readTextFile":true},"novel":{"x":1}}"#;
        serde_json::from_str(&advertise_tools(how, recorded, starter)).unwrap()
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
