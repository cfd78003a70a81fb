//! The start parameters of a session's agent, kept in a private file beside the log: they may hold
//! secrets, so it is never in the log (rule 2.6).

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use wharf_config::{ServeTools, write_private};
use wharf_core::{Origin, Raw};
use wharf_json::{Json, ReadError};
use wharf_store::LogId;

use super::{CreateError, Inner};
use crate::agent::initialize::StartFailure;
use crate::agent_services::{FilesAndTerminals, Roots};
use crate::sandbox::resolve_links;
use crate::session::advertised_tools::{advertise_tools, with_tools};
use crate::session::handle::Abilities;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StartInputs {
    pub(crate) version: u32,
    /// The JSON of `clientCapabilities` of the client that the session was made for; `fs` and
    /// `terminal` are those of the client for which its agent was started last.
    pub(crate) capabilities: String,
    /// Requests before the session: logins. They may hold secrets too.
    #[serde(default)]
    pub(crate) prelude: Vec<Raw>,
    /// The `session/new` request: cwd, directories, MCP servers with their secrets.
    pub(crate) new_frame: Raw,
    /// The adapter's mode and options, as they were chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mode: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) options: BTreeMap<String, Value>,
    /// The part of its caller's environment that the agent got.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) env: BTreeMap<String, String>,
    /// The session's directories with links resolved, as of the time when they were named.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) real: BTreeMap<PathBuf, PathBuf>,
    /// The session's first event, in case that the log loses it. Older versions did not keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) origin: Option<Origin>,
}

impl StartInputs {
    /// Returns the directories besides cwd that the `session/new` names.
    ///
    /// Fails if the list cannot be read, since it must not count as empty then. Reads only this
    /// member, however odd or deep the rest is, and refuses a request that has the member twice.
    pub(crate) fn directories(frame: &[u8]) -> Result<Vec<PathBuf>, CreateError> {
        #[derive(Deserialize)]
        struct Request {
            params: Params,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Params {
            #[serde(default)]
            additional_directories: Option<Vec<PathBuf>>,
        }
        let request: Result<Request, _> = wharf_acp::peek(frame);
        let request =
            request.map_err(|_| CreateError::Cwd { path: "additionalDirectories".into() })?;
        Ok(request.params.additional_directories.unwrap_or_default())
    }
}

impl Inner {
    pub(crate) fn session_dir(&self, log_id: &LogId) -> PathBuf {
        self.config
            .state_dir
            .join("workspaces")
            .join(log_id.bucket())
            .join("sessions")
            .join(log_id.name())
    }

    pub(crate) fn start_inputs(&self, log_id: &LogId) -> Result<StartInputs, StartFailure> {
        let path = self.session_dir(log_id).join("start.json");
        let text = std::fs::read(&path).map_err(|error| {
            let message = format!("cannot read {}: {error}", path.display());
            if error.kind() == std::io::ErrorKind::NotFound {
                StartFailure::impossible(message)
            } else {
                StartFailure::new(message)
            }
        })?;
        wharf_json::read_own(&text).map_err(|error| {
            StartFailure::impossible(format!("{} is damaged: {error}", path.display()))
        })
    }

    pub(crate) fn keep_start_inputs(
        &self,
        log_id: &LogId,
        inputs: &StartInputs,
    ) -> std::io::Result<()> {
        let text = serde_json::to_vec(inputs).map_err(std::io::Error::other)?;
        write_private(&self.session_dir(log_id).join("start.json"), &text)
    }
}

impl Inner {
    /// Returns the `clientCapabilities` for an agent that is started now, and records those that a
    /// client brings. `starter` says whether a caller waits for the start, and which abilities the
    /// caller has if it is an ACP client.
    pub(crate) fn capabilities_for_start(
        &self,
        log_id: &LogId,
        inputs: &mut StartInputs,
        starter: Option<Option<Abilities>>,
    ) -> String {
        if let Some(Some(client)) = starter {
            let renewed = with_tools(&inputs.capabilities, client);
            if renewed != inputs.capabilities {
                inputs.capabilities = renewed;
                if let Err(error) = self.keep_start_inputs(log_id, inputs) {
                    tracing::warn!(log = %log_id, %error, "the client's files and terminals cannot be recorded");
                }
            }
        }
        let starter = starter.map(Option::unwrap_or_default);
        advertise_tools(self.config.serve_tools, &inputs.capabilities, starter)
    }

    /// Takes over the MCP servers, directories and variables that a client sends when it brings the
    /// session back. An empty list changes nothing, since clients that do not know the list send an
    /// empty one.
    pub(crate) fn renew_start_inputs(
        &self,
        log_id: &LogId,
        frame: &[u8],
        env: BTreeMap<String, String>,
    ) -> Result<(), String> {
        let mut inputs = self.start_inputs(log_id).map_err(|failure| failure.message)?;
        let mut kept = inputs.new_frame.as_str().to_owned();
        let mut changed = false;
        for member in ["mcpServers", "additionalDirectories"] {
            if let Some(new) = renewed(frame, &kept, member).map_err(|error| error.to_string())? {
                kept = new;
                changed = true;
            }
        }
        for (name, value) in env {
            changed |= inputs.env.get(&name) != Some(&value);
            inputs.env.insert(name, value);
        }
        if changed && let Some(frame) = Raw::new(wharf_acp::one_line(kept.into())) {
            for named in Self::directories_of(&frame) {
                inputs.real.entry(named.clone()).or_insert_with(|| resolve_links(&named));
            }
            inputs.new_frame = frame;
            self.keep_start_inputs(log_id, &inputs).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    pub(crate) fn directories_of(frame: &Raw) -> Vec<PathBuf> {
        StartInputs::directories(frame.bytes()).unwrap_or_default()
    }

    /// Wharf's own files and terminals for a session's agent, which has this pid.
    pub(crate) fn tools(
        &self,
        log_id: &LogId,
        origin: &Origin,
        agent_pid: u32,
    ) -> Option<FilesAndTerminals> {
        if self.config.serve_tools == ServeTools::Never {
            return None;
        }
        let inputs = self.start_inputs(log_id).ok()?;
        let more = Self::directories_of(&inputs.new_frame);
        let agent = self.agent(&origin.adapter, inputs.mode.as_deref(), &inputs.options).ok()?;
        let launch = self.launch_of(&agent, origin, &inputs).ok()?;
        let roots =
            Roots::new(PathBuf::from(&*origin.cwd), more).with_sandbox(launch.sandbox.clone());
        Some(FilesAndTerminals::new(roots, launch, agent_pid))
    }
}

/// Returns the kept `session/new` with the list that the client sends again, and every other byte
/// unchanged. Returns `None` if the client's list says nothing new.
fn renewed(given: &[u8], kept: &str, member: &str) -> Result<Option<String>, ReadError> {
    let path = ["params", member];
    let Some(new) = Json::parse(given)?.at(&path)?.filter(|list| list.items().next().is_some())
    else {
        return Ok(None);
    };
    let kept = Json::parse(kept.as_bytes())?;
    if kept.at(&path)?.is_some_and(|old| old.to_value() == new.to_value()) {
        return Ok(None);
    }
    wharf_json::set(kept, &path, new.raw()).map(Some)
}
