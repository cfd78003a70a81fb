//! A client's statement about itself at `initialize`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use wharf_host::Abilities;
use wharf_host::core::ChosenId;
use wharf_json::{Json, ReadError};

use super::capability_filter::CapabilityFilter;
use super::errors::{RpcError, unreadable_params};
use crate::use_cases::shown_name;

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
    /// Variables of its own that its agents may have (rule 8.7). Agents never see the message that
    /// they came in.
    pub(super) env: Arc<BTreeMap<String, String>>,
    /// It can have `wharf acp` run in a terminal, for logins there (rule 3.1).
    pub(super) terminal_auth: bool,
    /// It only joins sessions, which have their agents: what an agent answered to another client
    /// does for it too.
    pub(super) joins: bool,
    /// It was connected before and has its answer to `initialize`: no agent is started for another.
    pub(super) returns: bool,
    /// Where it works, if it says so: its sessions will probably be there.
    pub(super) cwd: Option<PathBuf>,
    /// The id that it gives itself.
    pub(super) chosen: Option<ChosenId>,
}

impl ClientInfo {
    /// Reads an `initialize`. An id that cannot be used is refused: without it the client would
    /// lose its prompts later.
    pub(super) fn of(initialize: &[u8]) -> Result<Self, RpcError> {
        let info = Self::read(initialize).map_err(unreadable_params)?;
        let chosen = Json::parse(initialize)
            .and_then(|request| request.seek(&["params", "_meta", "wharf", "clientId"]));
        let chosen = chosen.map_err(unreadable_params)?.and_then(Json::text);
        let chosen = chosen.map(|chosen| ChosenId::parse(&chosen)).transpose();
        let chosen =
            chosen.map_err(|error| RpcError::params(format!("_meta.wharf.clientId: {error}")))?;
        Ok(Self { chosen, ..info })
    }

    /// Reads the client's `initialize`. A member of the wrong type counts as absent; a member that
    /// occurs twice is an error.
    fn read(initialize: &[u8]) -> Result<Self, ReadError> {
        let request = Json::parse(initialize)?;
        let text = |path: &[&str]| request.seek(path).map(|value| value.and_then(Json::text));
        let is_true = |path: &[&str]| {
            request.seek(path).map(|value| value.and_then(Json::bool) == Some(true))
        };
        let wish = |name| ["params", "_meta", "wharf", name];
        let capabilities = request.seek(&["params", "clientCapabilities"])?;
        let may_login = is_true(&["params", "clientCapabilities", "auth", "terminal"])?;
        Ok(Self {
            name: text(&["params", "clientInfo", "name"])?.as_deref().and_then(shown_name),
            version: text(&["params", "clientInfo", "version"])?.as_deref().and_then(shown_name),
            capabilities: capabilities.map(Json::to_value).unwrap_or_default(),
            event_ids: is_true(&wish("eventIds"))?,
            multi_client_updates: is_true(&wish("multiClientUpdates"))?,
            env: Arc::new(request.seek(&wish("env"))?.map(variables).unwrap_or_default()),
            terminal_auth: is_true(&wish("terminalAuth"))? && may_login,
            joins: is_true(&wish("joins"))?,
            returns: is_true(&wish("returns"))?,
            cwd: text(&wish("cwd"))?.map(|cwd| PathBuf::from(cwd.as_ref())),
            chosen: None,
        })
    }

    /// Removes the capabilities of a client that serves files and terminals.
    pub(super) fn without_tools(mut self) -> Self {
        if let Some(capabilities) = self.capabilities.as_object_mut() {
            capabilities.remove("fs");
            capabilities.remove("terminal");
        }
        self
    }

    pub(super) fn understood(&self) -> CapabilityFilter {
        CapabilityFilter::of(&self.capabilities)
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

    /// Returns the capabilities that the host may name to agents of this client's sessions (rule
    /// 3.11).
    pub(super) fn for_agent(&self) -> String {
        let mut told =
            if self.capabilities.is_object() { self.capabilities.clone() } else { json!({}) };
        // A login in a terminal is for those who have one: who says so without the bridge has no
        // agent to run there.
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

/// Returns the variables of an environment without those whose value is not a string.
fn variables(env: Json<'_>) -> BTreeMap<String, String> {
    env.members()
        .filter_map(|(name, value)| Some((name.into_owned(), value.text()?.into_owned())))
        .collect()
}
