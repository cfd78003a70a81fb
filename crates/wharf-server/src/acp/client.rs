//! What a client said of itself at `initialize`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use wharf_host::core::ChosenId;
use wharf_host::{Abilities, frame};

use super::errors::RpcError;
use super::understood::Understood;
use crate::calls::shown_name;

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
    /// It can have `wharf acp` run in a terminal, and so do logins there (rule 3.1).
    pub(super) terminal_auth: bool,
    /// Where it works, if it says so: its sessions will probably be there.
    pub(super) cwd: Option<PathBuf>,
    /// The id that it gives itself.
    pub(super) chosen: Option<ChosenId>,
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
    /// Reads an `initialize`. An id that cannot be used is refused: without it the client would lose its prompts later.
    pub(super) fn of(initialize: &[u8]) -> Result<Self, RpcError> {
        let params = frame::peek::<Initialize>(initialize).unwrap_or_default().params;
        let (name, version) = params.client_info.map_or((None, None), |info| (info.name, info.version));
        let wishes = &params.meta["wharf"];
        let terminal_auth = wishes["terminalAuth"] == true && params.client_capabilities["auth"]["terminal"] == true;
        let chosen = wishes["clientId"].as_str().map(ChosenId::parse).transpose();
        let chosen = chosen.map_err(|error| RpcError::params(format!("_meta.wharf.clientId: {error}")))?;
        Ok(Self {
            name: name.as_deref().and_then(shown_name),
            version: version.as_deref().and_then(shown_name),
            capabilities: params.client_capabilities,
            event_ids: wishes["eventIds"] == true,
            multi_client_updates: wishes["multiClientUpdates"] == true,
            env: Arc::new(serde_json::from_value(wishes["env"].clone()).unwrap_or_default()),
            terminal_auth,
            cwd: wishes["cwd"].as_str().map(PathBuf::from),
            chosen,
        })
    }

    /// The same of a client that serves neither files nor terminals.
    pub(super) fn without_tools(mut self) -> Self {
        if let Some(capabilities) = self.capabilities.as_object_mut() {
            capabilities.remove("fs");
            capabilities.remove("terminal");
        }
        self
    }

    pub(super) fn understood(&self) -> Understood {
        Understood::of(&self.capabilities)
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

    /// Returns the capabilities that agents of this client's sessions may be told of (rule 3.11).
    pub(super) fn for_agent(&self) -> String {
        let mut told = if self.capabilities.is_object() { self.capabilities.clone() } else { json!({}) };
        // A login in a terminal is for those who have one: who says so without the bridge has no agent to run there.
        if !self.terminal_auth
            && let Some(auth) = told.get_mut("auth").and_then(Value::as_object_mut)
        {
            auth.remove("terminal");
        }
        // Sessions that no client has opened cannot be relayed (rule 3.1).
        if let Some(told) = told.as_object_mut() {
            told.remove("subagents");
        }
        told.to_string()
    }
}
