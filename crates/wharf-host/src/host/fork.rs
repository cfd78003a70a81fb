//! A session that begins as a copy of another one: its agent is asked for the copy by
//! `session/fork` (rule 17.10).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde_json::json;
use wharf_config::DirectoryScope;
use wharf_core::{ForkSource, Raw, Sender, Seq, SpawnKey};
use wharf_json::{Json, ReadError, rpc};

use super::labels::{LabelClaim, LabelPolicy, LabelWish, Sees};
use super::spawn::{Spawned, SpawnedAs};
use super::{
    CreateError, Created, ForkStart, Host, NewSessionRequest, PrestartedAgent, StartInputs,
};
use crate::session::cursor::Entry;
use crate::session::handle::{CallError, SessionHandle};
use crate::settings::{AgentSettings, are_settings_lost};

/// Why a session cannot be copied.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    #[error(
        "the agent {adapter} cannot copy a session (it does not offer `sessionCapabilities.fork`)"
    )]
    NotSupported { adapter: String },
    #[error("the session's agent has not started yet: there is nothing to copy")]
    NothingToCopy,
    #[error(
        "the log has lost the settings of the session's agent: bring it back first, with `wharf resume`"
    )]
    SettingsLost,
    #[error("a turn is running: wait for its end, or interrupt it, then fork")]
    TurnInProgress,
    #[error("cwd: a fork works in the directory of its source, {cwd}")]
    OtherDirectory { cwd: String },
    #[error("the parameters of session/fork cannot be read: {0}")]
    Parameters(ReadError),
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Create(#[from] CreateError),
}

/// A caller's wishes for a copy, and how it is recorded.
#[derive(Debug)]
pub struct ForkRequest {
    pub title: Option<String>,
    pub label: Option<String>,
    /// A copy never continues another session.
    pub on_label: LabelPolicy,
    pub sender: Sender,
    /// Which directories the caller may name: the source's must be among them.
    pub directory_scope: DirectoryScope,
    /// A repeated request with the same key (of the same token) is the same session.
    pub key: Option<String>,
    /// Whether the caller goes on to wait for the agent. Then it learns at once if the agent does
    /// not start.
    pub caller_waits: bool,
}

/// The part of a copy that an ACP client brings; otherwise that of the source is used.
#[derive(Debug)]
pub struct ForkClient {
    /// Its `session/fork` request.
    pub frame: Bytes,
    /// The JSON of its `clientCapabilities`, as the host passes them on to its agents.
    pub capabilities: String,
    pub env: BTreeMap<String, String>,
    /// An agent that has been greeted already, with this `env`.
    pub spare: Option<PrestartedAgent>,
    /// Requests that a fresh agent is to be sent before its session: a login that succeeded before.
    pub prelude: Vec<Bytes>,
}

impl Host {
    /// Begins a copy of a session and returns as soon as it is in its log; its agent may still be
    /// starting. `sees` tells which sessions the caller sees.
    pub async fn fork(
        &self,
        source: &SessionHandle,
        request: ForkRequest,
        sees: Sees<'_>,
    ) -> Result<Spawned, ForkError> {
        let key = request.spawn_key(source);
        let mut one_key = None;
        if let Some(known) = &key {
            // Held until the session can be found: a repeat that comes at the same time waits here.
            let one = self.inner.locks.spawning.lock().await;
            if let Some(id) =
                self.spawned_with(Some(&request.sender), &request.directory_scope, known)?
            {
                drop(one);
                return Ok(self.find_spawned(&id, SpawnedAs::Repeat).await?);
            }
            one_key = Some(one);
        }
        let sender = request.sender.clone();
        let label = request.label.clone();
        let source_known = source.descriptor();
        let wish = LabelWish {
            label: label.as_deref(),
            on_label: request.on_label,
            workspace: &source_known.workspace_slug,
            session: None,
            adapter: None,
        };
        let claim = self.claim_label(wish, sees).await.map_err(CreateError::from)?;
        let new = self.plan_fork(source, request, None, key).await?;
        let begun = self.begin_session(new)?;
        drop(one_key);
        let mut spawned = begun.wait_until_logged(Vec::new()).await?;
        if let LabelClaim::Granted(granted) = claim
            && let Err(error) = self.take_from_losers(&granted, &sender).await
        {
            spawned.warnings.push(format!("another session keeps the label, too: {error}"));
        }
        Ok(spawned)
    }

    /// Makes a copy of a session for an ACP client, whose request names its parameters. Returns
    /// when the agent has answered.
    pub async fn fork_for_client(
        &self,
        source: &SessionHandle,
        request: ForkRequest,
        client: ForkClient,
    ) -> Result<Created, ForkError> {
        let new = self.plan_fork(source, request, Some(client), None).await?;
        Ok(self.create(new).await?)
    }

    /// Checks that the session can be copied now, and returns how.
    async fn plan_fork(
        &self,
        source: &SessionHandle,
        request: ForkRequest,
        client: Option<ForkClient>,
        key: Option<SpawnKey>,
    ) -> Result<NewSessionRequest, ForkError> {
        let report = source.agent_report().await?;
        let known = source.descriptor();
        let Some(agent_session) = report.agent_session.clone() else {
            return Err(ForkError::NothingToCopy);
        };
        if !report.traits.fork {
            return Err(ForkError::NotSupported { adapter: known.adapter_slug.clone() });
        }
        if report.has_turn {
            return Err(ForkError::TurnInProgress);
        }
        let event = read_event(source, report.head).await?;
        if are_settings_lost(report.settings_loss, &report) {
            return Err(ForkError::SettingsLost);
        }
        let settings = AgentSettings::from_sources(&report).into_in_force();
        let inputs = self.inner.start_inputs(&source.shared.log_id);
        let session = source.id().clone();
        let inputs = inputs.map_err(|failure| CreateError::Start {
            session: session.to_string(),
            failure: Box::new(failure),
        })?;
        let fork = ForkStart {
            source: ForkSource { session, event: event.id(), agent_session },
            title: request.title,
            settings,
        };
        let parts =
            start_parts(inputs, client, &known.cwd, self.inner.capabilities_without_client())?;
        Ok(NewSessionRequest {
            adapter: known.adapter_slug.clone(),
            cwd: PathBuf::from(&known.cwd),
            bucket: Some(known.workspace_slug.clone()),
            label: request.label,
            name: None,
            sender: Some(request.sender),
            frame: parts.frame,
            capabilities: parts.capabilities,
            spare: parts.spare,
            prelude: parts.prelude,
            mode: parts.mode,
            options: parts.options,
            env: parts.env,
            directory_scope: request.directory_scope,
            key,
            lineage: Vec::new(),
            caller_waits: request.caller_waits,
            fork: Some(fork),
        })
    }
}

/// The event of this number.
async fn read_event(source: &SessionHandle, seq: Seq) -> Result<Entry, ForkError> {
    let unreadable = |error: &dyn std::fmt::Display| {
        CreateError::Storage(format!("the source cannot be read: {error}"))
    };
    let batch = source
        .cursor(Seq(seq.0.saturating_sub(1)))
        .next()
        .await
        .map_err(|error| unreadable(&error))?;
    let event = batch.entries().first().filter(|entry| entry.seq == seq).cloned();
    Ok(event.ok_or_else(|| unreadable(&"its last event is missing"))?)
}

/// The parameters of the start that come from the source, or from the client that asks.
struct StartParts {
    frame: Raw,
    capabilities: String,
    spare: Option<PrestartedAgent>,
    prelude: Vec<Bytes>,
    mode: Option<String>,
    options: BTreeMap<String, serde_json::Value>,
    env: BTreeMap<String, String>,
}

/// Takes the start parameters of the source over. A client brings its own parameters, capabilities
/// and environment.
fn start_parts(
    inputs: StartInputs,
    client: Option<ForkClient>,
    cwd: &str,
    capabilities: String,
) -> Result<StartParts, ForkError> {
    let StartInputs { prelude, new_frame, mode, options, env, .. } = inputs;
    let prelude = prelude.into_iter().map(|frame| frame.bytes().clone()).collect();
    let Some(client) = client else {
        return Ok(StartParts {
            frame: new_frame,
            capabilities,
            spare: None,
            prelude,
            mode,
            options,
            env,
        });
    };
    let frame = to_new_frame(&client.frame, cwd)?;
    let ForkClient { capabilities, env: own, spare, prelude: logins, .. } = client;
    // The agent that waits was started without the mode and options of the source.
    let spare = spare.filter(|_| mode.is_none() && options.is_empty());
    let prelude = if logins.is_empty() { prelude } else { logins };
    let env = env.into_iter().chain(own).collect();
    Ok(StartParts { frame, capabilities, spare, prelude, mode, options, env })
}

/// Returns the `session/new` request with the parameters of a `session/fork`: the form in which
/// start parameters are kept. The agent gets them with its own id of the source.
fn to_new_frame(fork: &[u8], cwd: &str) -> Result<Raw, ForkError> {
    let params = || {
        let params = Json::parse(fork)?
            .member("params")?
            .ok_or_else(|| ReadError::Missing("params".to_owned()))?;
        let named = params.member("cwd")?.and_then(Json::text);
        Ok((
            wharf_json::remove(params, &["sessionId"])?.into_owned(),
            named.map(|named| named.into_owned()),
        ))
    };
    let (params, named) = params().map_err(ForkError::Parameters)?;
    // Agents keep their sessions by directory.
    if named.is_none_or(|named| Path::new(&named) != Path::new(cwd)) {
        return Err(ForkError::OtherDirectory { cwd: cwd.to_owned() });
    }
    let frame = rpc::request(rpc::PLACEHOLDER_ID, "session/new", params);
    Raw::new(frame)
        .ok_or_else(|| ForkError::Parameters(ReadError::Missing("one line of UTF-8".to_owned())))
}

impl ForkRequest {
    fn spawn_key(&self, source: &SessionHandle) -> Option<SpawnKey> {
        let key = self.key.as_deref()?;
        // Digests of older logs are of the label alone.
        let label = match self.on_label {
            LabelPolicy::Share => json!(self.label),
            other @ (LabelPolicy::Refuse | LabelPolicy::Take | LabelPolicy::Continue) => {
                json!([self.label, other.as_str()])
            }
        };
        let asked = json!(["fork", source.id().as_str(), self.title, label]);
        let digest = blake3::hash(asked.to_string().as_bytes()).to_hex();
        Some(SpawnKey { key: key.into(), digest: digest.as_str()[..32].into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_a_fork_are_kept_byte_for_byte_without_the_source() {
        let fork = br#"{"jsonrpc":"2.0","id":7,"method":"session/fork","params":{"sessionId":"sess_1","cwd":"/w","mcpServers":[{"n":1.50}],"_meta":{"x":1e400}}}"#;
        let frame = to_new_frame(fork, "/w").unwrap();
        let params = Json::parse(frame.bytes()).unwrap().member("params").unwrap().unwrap();
        assert_eq!(params.raw(), r#"{"cwd":"/w","mcpServers":[{"n":1.50}],"_meta":{"x":1e400}}"#);
        assert!(frame.as_str().contains(r#""method":"session/new""#), "{}", frame.as_str());
    }

    #[test]
    fn fork_in_another_directory_or_in_none_is_refused() {
        for params in [r#"{"cwd":"/other"}"#, "{}", r#"{"cwd":7}"#] {
            let fork = format!(r#"{{"id":7,"params":{params}}}"#);
            assert!(
                matches!(
                    to_new_frame(fork.as_bytes(), "/w"),
                    Err(ForkError::OtherDirectory { .. })
                ),
                "{params}"
            );
        }
        assert!(matches!(to_new_frame(br#"{"id":7}"#, "/w"), Err(ForkError::Parameters(_))));
    }
}
