//! A session for a caller that speaks no ACP: Wharf writes the `session/new` itself.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};
use wharf_config::{DirectoryScope, FormAnswerersWord, SpawnLocation};
use wharf_core::{Raw, Sender, SessionId, SpawnKey};
use wharf_json::rpc;

use super::create::{Begun, not_created};
use super::labels::{LabelClaim, LabelPolicy, LabelWish, Sees};
use super::{CreateError, Host, Inner, NewSessionRequest};
use crate::session::advertised_tools::with_tools;
use crate::session::handle::{Abilities, SessionHandle};

/// The `SpawnAgentRequest` of AIP-46, with Wharf's own fields besides.
#[derive(Clone, Debug, Default)]
pub struct SpawnRequest {
    pub adapter: String,
    pub workspace: Option<String>,
    /// Wins over `workspace`.
    pub cwd: Option<PathBuf>,
    pub label: Option<String>,
    pub on_label: LabelPolicy,
    /// A mode and options of the adapter's manifest.
    pub mode: Option<String>,
    pub options: BTreeMap<String, Value>,
    /// Variables of the caller; those that the adapter or the configuration names are passed on.
    pub env: BTreeMap<String, String>,
    pub mcp_servers: Vec<Value>,
    pub additional_directories: Vec<PathBuf>,
    pub sender: Option<Sender>,
    /// A repeated request with the same key (of the same token) is the same session.
    pub key: Option<String>,
    /// A further part that a repeat must have in common with the first request: its prompt.
    pub key_covers: Option<String>,
    /// Which directories the caller may name, and which workspaces it knows of.
    pub directory_scope: DirectoryScope,
    /// The session whose agent asks: it may do so only as `[delegation]` says.
    pub parent: Option<SessionId>,
    /// Whether the caller goes on to wait for the agent. Then it learns at once if the agent does
    /// not start.
    pub caller_waits: bool,
}

/// A session that exists; its agent may still be starting ([`SessionHandle::up`] waits for it).
#[derive(Debug)]
pub struct Spawned {
    pub handle: SessionHandle,
    pub warnings: Vec<String>,
    pub spawned_as: SpawnedAs,
}

/// How a request got its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpawnedAs {
    New,
    /// The key was known: it is the session of an earlier request.
    Repeat,
    /// It had the label already ([`LabelPolicy::Continue`]).
    LabelHolder,
}

/// Where a new session works, and who is above it.
struct SpawnPlan {
    place: SpawnLocation,
    lineage: Vec<SessionId>,
}

impl Host {
    /// Creates a session and returns as soon as it is in its log. `sees` tells which sessions the
    /// caller sees.
    pub async fn spawn(
        &self,
        mut request: SpawnRequest,
        sees: Sees<'_>,
    ) -> Result<Spawned, CreateError> {
        // Held until a child is known, so that the next one is counted with it.
        let one_child = if request.parent.is_some() {
            Some(self.inner.locks.delegating.lock().await)
        } else {
            None
        };
        let key = request.spawn_key();
        let mut one_key = None;
        if let Some(key) = &key {
            // Held until the session can be found: a repeat that comes at the same time waits here.
            let one = self.inner.locks.spawning.lock().await;
            if let Some(id) =
                self.spawned_with(request.sender.as_ref(), &request.directory_scope, key)?
            {
                drop(one);
                return self.find_spawned(&id, SpawnedAs::Repeat).await;
            }
            one_key = Some(one);
        }
        let sender = request.sender.clone();
        let plan = self.plan_spawn(&mut request)?;
        let label = request.label.clone();
        let adapter = request.adapter.clone();
        let wish = LabelWish {
            label: label.as_deref(),
            on_label: request.on_label,
            workspace: &plan.place.bucket,
            session: None,
            adapter: Some(&adapter),
        };
        let granted = match self.claim_label(wish, sees).await? {
            LabelClaim::Granted(granted) => granted,
            LabelClaim::Continued(id) => {
                return self.find_spawned(&id, SpawnedAs::LabelHolder).await;
            }
        };
        let warnings = plan.place.warnings.clone();
        let begun = self.begin_spawn(request, plan, key)?;
        drop(one_key);
        drop(one_child);
        let mut spawned = begun.wait_until_logged(warnings).await?;
        if let Some(sender) = sender
            && let Err(error) = self.take_from_losers(&granted, &sender).await
        {
            spawned.warnings.push(format!("another session keeps the label, too: {error}"));
        }
        Ok(spawned)
    }

    /// Returns a session that is there already.
    pub(super) async fn find_spawned(
        &self,
        id: &SessionId,
        spawned_as: SpawnedAs,
    ) -> Result<Spawned, CreateError> {
        let handle =
            self.open(id).await.map_err(|error| CreateError::Storage(error.to_string()))?;
        Ok(Spawned { handle, warnings: Vec::new(), spawned_as })
    }

    /// Decides where the session works. A child gets the rights of one.
    fn plan_spawn(&self, request: &mut SpawnRequest) -> Result<SpawnPlan, CreateError> {
        match &request.parent {
            Some(parent) => {
                let child = self.inner.child(parent, request)?;
                // A child may be wherever its parent is, whether or not a workspace is registered
                // there. It does not get its parent's environment.
                (request.directory_scope, request.additional_directories) =
                    (DirectoryScope::Anywhere, child.directories);
                request.env.clear();
                Ok(SpawnPlan { place: child.place, lineage: child.lineage })
            }
            None => {
                let cwd = request.cwd.as_deref();
                let slug = request.workspace.as_deref();
                let place =
                    self.inner.workspaces.resolve_in_scope(&request.directory_scope, cwd, slug)?;
                Ok(SpawnPlan { place, lineage: Vec::new() })
            }
        }
    }

    fn begin_spawn(
        &self,
        request: SpawnRequest,
        plan: SpawnPlan,
        key: Option<SpawnKey>,
    ) -> Result<Begun, CreateError> {
        let SpawnPlan { place, lineage } = plan;
        // Only text can go to the agent.
        let text = |path: &PathBuf| {
            path.to_str()
                .map(ToOwned::to_owned)
                .ok_or(CreateError::Cwd { path: path.clone() })
        };
        if let Some(path) = request
            .additional_directories
            .iter()
            .find(|path| !path.is_absolute() || !path.is_dir())
        {
            return Err(CreateError::Cwd { path: path.clone() });
        }
        let more: Vec<String> =
            request.additional_directories.iter().map(text).collect::<Result<_, _>>()?;
        let cwd = text(&place.cwd)?;
        let params =
            json!({ "cwd": cwd, "mcpServers": request.mcp_servers, "additionalDirectories": more });
        let frame = rpc::request(rpc::PLACEHOLDER_ID, "session/new", params);
        let frame = Raw::new(frame).ok_or_else(|| CreateError::Cwd { path: place.cwd.clone() })?;
        let capabilities = self.inner.capabilities_without_client();
        self.begin_session(NewSessionRequest {
            adapter: request.adapter,
            cwd: place.cwd,
            bucket: Some(place.bucket),
            label: request.label,
            name: None,
            sender: request.sender,
            frame,
            capabilities,
            spare: None,
            prelude: Vec::new(),
            mode: request.mode,
            options: request.options,
            env: request.env,
            directory_scope: request.directory_scope,
            key,
            lineage,
            caller_waits: request.caller_waits,
            fork: None,
        })
    }

    /// The session that was made with this key, if any.
    pub(super) fn spawned_with(
        &self,
        sender: Option<&Sender>,
        scope: &DirectoryScope,
        key: &SpawnKey,
    ) -> Result<Option<SessionId>, CreateError> {
        let token = sender.and_then(|sender| sender.token.as_deref());
        // A session that its caller cannot see is never the answer.
        let in_sight = |slug: &str| scope.only_workspace().is_none_or(|only| only == slug);
        let known =
            self.descriptors()
                .into_iter()
                .filter(|known| in_sight(&known.workspace_slug))
                .find(|known| {
                    known.spawned.as_ref().is_some_and(|with| {
                        with.token.as_deref() == token && with.key.key == key.key
                    })
                });
        let Some(known) = known else { return Ok(None) };
        if known.spawned.as_ref().is_some_and(|with| with.key.digest != key.digest) {
            return Err(CreateError::KeyReused { session: known.id.clone() });
        }
        Ok(Some(SessionId::new(known.id.as_str())))
    }
}

impl Inner {
    /// Returns the `clientCapabilities` of a session that no ACP client asks for.
    pub(super) fn capabilities_without_client(&self) -> String {
        let told = match self.config.forms {
            FormAnswerersWord::Clients => "{}",
            FormAnswerersWord::Anyone => r#"{"elicitation":{"form":{}}}"#,
        };
        with_tools(told, Abilities::default())
    }
}

impl Begun {
    /// Returns when the session is in its log.
    pub(super) async fn wait_until_logged(
        self,
        warnings: Vec<String>,
    ) -> Result<Spawned, CreateError> {
        match self.created.await {
            Ok(Ok(_)) => Ok(Spawned { handle: self.handle, warnings, spawned_as: SpawnedAs::New }),
            Ok(Err(error)) => Err(not_created(error)),
            Err(_) => Err(CreateError::Storage("the host is stopping".to_owned())),
        }
    }
}

impl SpawnRequest {
    fn spawn_key(&self) -> Option<SpawnKey> {
        let key = self.key.as_deref()?;
        // Values of variables may be secrets: not even a digest of them goes into the log. Of
        // servers the names do.
        let servers: Vec<&Value> = self.mcp_servers.iter().map(|server| &server["name"]).collect();
        let variables: Vec<&String> = self.env.keys().collect();
        let cwd = self.cwd.as_ref().map(|cwd| cwd.to_string_lossy());
        let more: Vec<_> =
            self.additional_directories.iter().map(|dir| dir.to_string_lossy()).collect();
        let place = json!([self.workspace, cwd, more]);
        let manner = json!([self.adapter, self.mode, self.options, variables, servers]);
        // Digests of older logs are of the label alone.
        let label = match self.on_label {
            LabelPolicy::Share => json!(self.label),
            other @ (LabelPolicy::Refuse | LabelPolicy::Take | LabelPolicy::Continue) => {
                json!([self.label, other.as_str()])
            }
        };
        let asked = json!([place, manner, label, self.key_covers]);
        let digest = blake3::hash(asked.to_string().as_bytes()).to_hex();
        Some(SpawnKey { key: key.into(), digest: digest.as_str()[..32].into() })
    }
}
