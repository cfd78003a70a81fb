//! What a client said of itself at `initialize`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use wharf_host::{Abilities, frame};

/// Name, abilities and wishes.
#[derive(Clone, Debug, Default)]
pub(super) struct ClientInfo {
    pub(super) name: Option<Arc<str>>,
    pub(super) version: Option<Arc<str>>,
    capabilities: Value,
    /// It wants `_meta.wharf.eventId` in every frame that comes from a log (rule 1.5).
    pub(super) event_ids: bool,
    /// It understands the updates of rule 4.5.
    pub(super) multi_client_updates: bool,
    /// Variables of its own that its agents may have (rule 8.7). Agents never see the message that they came in.
    pub(super) env: Arc<BTreeMap<String, String>>,
}

#[derive(Default, Deserialize)]
struct Initialize {
    params: Params,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Params {
    client_info: Option<Info>,
    client_capabilities: Value,
    #[serde(rename = "_meta")]
    meta: Value,
}

#[derive(Deserialize)]
struct Info {
    name: Option<String>,
    version: Option<String>,
}

impl ClientInfo {
    pub(super) fn of(initialize: &[u8]) -> Self {
        let params = frame::peek::<Initialize>(initialize).unwrap_or_default().params;
        let (name, version) = params.client_info.map_or((None, None), |info| (info.name, info.version));
        let wishes = &params.meta["wharf"];
        Self {
            name: name.map(Into::into),
            version: version.map(Into::into),
            capabilities: params.client_capabilities,
            event_ids: wishes["eventIds"] == true,
            multi_client_updates: wishes["multiClientUpdates"] == true,
            env: Arc::new(serde_json::from_value(wishes["env"].clone()).unwrap_or_default()),
        }
    }

    pub(super) fn abilities(&self) -> Abilities {
        let can = &self.capabilities;
        let has = |value: &Value| !(value.is_null() || *value == false);
        Abilities {
            read_files: can["fs"]["readTextFile"] == true,
            write_files: can["fs"]["writeTextFile"] == true,
            terminals: can["terminal"] == true,
            forms: has(&can["elicitation"]["form"]),
            links: has(&can["elicitation"]["url"]),
        }
    }

    /// What an agent of this client's sessions is told: what Wharf serves itself, and of the rest what this client
    /// has (rule 3.11).
    pub(super) fn for_agent(&self, serve_tools: bool) -> String {
        let mut told = if self.capabilities.is_object() { self.capabilities.clone() } else { json!({}) };
        if serve_tools {
            told["fs"] = json!({ "readTextFile": true, "writeTextFile": true });
            told["terminal"] = true.into();
        } else {
            // Without Wharf behind it, a client's service could end with the client, in the middle of a turn.
            told["fs"] = json!({ "readTextFile": false, "writeTextFile": false });
            told["terminal"] = false.into();
        }
        // A terminal login needs a terminal, which is the bridge's to offer.
        if let Some(auth) = told.get_mut("auth").and_then(Value::as_object_mut) {
            auth.remove("terminal");
        }
        told.to_string()
    }
}
