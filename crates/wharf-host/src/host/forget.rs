//! Forgetting a session: the one way to delete a user's history (rule 2.5).

use std::collections::BTreeMap;
use std::sync::Arc;

use wharf_config::DirectoryScope;
use wharf_core::{Origin, SessionId, State, Status};
use wharf_store::LogId;

use super::storage::UnreadableLog;
use super::{CreateError, Host, Inner, OpenError, StartInputs, StartPriority};
use crate::agent::initialize::{StartFailure, launch_and_initialize};
use crate::registry::KnownSession;
use crate::session::{AgentDelete, DeleteCondition};

/// The start parameters that a client sends again when it brings a session back.
#[derive(Clone, Debug)]
pub struct Renewal<'a> {
    /// Its `session/load` or `session/resume`.
    pub frame: &'a [u8],
    /// Its environment, of which the agent gets what the adapter names.
    pub env: &'a BTreeMap<String, String>,
    /// Which directories it may name.
    pub directory_scope: DirectoryScope,
}

impl Host {
    /// Ends the session if it runs, has its agent delete its own copy, and deletes the log and the
    /// files beside it. Returns `None` if there was no such session.
    pub async fn forget(&self, id: &SessionId) -> Result<Option<AgentDelete>, OpenError> {
        self.forget_when(id, DeleteCondition::Always).await
    }

    /// Does the same for a session that is not in use. Returns `None` also if the session is in
    /// use: its task decides that, so that a session which comes into use at this moment is kept
    /// (rule 2.12).
    pub(super) async fn forget_unused(
        &self,
        id: &SessionId,
    ) -> Result<Option<AgentDelete>, OpenError> {
        self.forget_when(id, DeleteCondition::Unused).await
    }

    async fn forget_when(
        &self,
        id: &SessionId,
        condition: DeleteCondition,
    ) -> Result<Option<AgentDelete>, OpenError> {
        // An unreadable session can be forgotten all the same, but the agent's copy of it is not
        // known.
        let mut agent = AgentDelete::Failed;
        let log_id = loop {
            match self.open(id).await {
                Ok(handle) => match handle.delete(condition).await {
                    Some(outcome) => agent = outcome,
                    None => return Ok(None),
                },
                Err(OpenError::Unknown(_)) => return Ok(None),
                Err(OpenError::Unreadable { .. }) => {}
            }
            if let Some(log_id) = self.take_ended(id).await {
                break log_id;
            }
        };
        self.inner.transcripts.remove(id, &log_id).await;
        let engine = Arc::clone(self.inner.storage.engine());
        let doomed = log_id.clone();
        let removed = tokio::task::spawn_blocking(move || engine.remove(&doomed)).await;
        let why = match removed {
            Ok(Ok(())) => return Ok(Some(agent)),
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        // Its remains can be deleted later.
        self.inner
            .storage
            .unreadable()
            .insert(id.clone(), UnreadableLog { log_id, why: why.clone() });
        Err(OpenError::Unreadable { id: id.clone(), why })
    }

    /// Takes a session that has no task off the list, so that it is not opened any more. Returns
    /// `None` if it has a task, because a caller opened it meanwhile. Does not wait for anything
    /// under the lock, since other callers need the lock to open their sessions.
    async fn take_ended(&self, id: &SessionId) -> Option<LogId> {
        let _one = self.inner.locks.opening.lock().await;
        let log_id = match self.inner.registry.get(id) {
            None => self.inner.storage.unreadable().remove(id)?.log_id,
            Some(KnownSession::Live(handle)) if !handle.is_closed() => return None,
            Some(known) => {
                if let KnownSession::Live(handle) = &known {
                    handle.shared.note_stop(false);
                }
                known.log_id().clone()
            }
        };
        self.inner.registry.remove(id);
        self.inner.index.remove(log_id.clone());
        self.inner.people.forget_session(id);
        self.inner.agents.logs().remove(id);
        Some(log_id)
    }

    /// Takes over start parameters that a client sends again for a session that is not running.
    /// Fails if the client may not name these directories.
    pub fn renew(&self, id: &SessionId, renewal: &Renewal<'_>) -> Result<(), CreateError> {
        let (log_id, known) = match self.inner.registry.get(id) {
            Some(KnownSession::Live(handle)) if handle.descriptor().status.is_alive() => {
                return Ok(());
            }
            Some(KnownSession::Live(handle)) => (handle.shared.log_id.clone(), handle.descriptor()),
            Some(KnownSession::Cold { log_id, descriptor, .. }) => (log_id, descriptor),
            None => return Ok(()),
        };
        if renewal.directory_scope != DirectoryScope::Anywhere {
            self.inner
                .allow(&renewal.directory_scope, &StartInputs::directories(renewal.frame)?)?;
        }
        let agent = self.inner.agent(&known.adapter_slug, None, &BTreeMap::new());
        let env = agent
            .map(|agent| self.inner.config.adapters().passed_environment(&agent, renewal.env))
            .unwrap_or_default();
        if let Err(error) = self.inner.renew_start_inputs(&log_id, renewal.frame, env) {
            tracing::warn!(session = %id, error, "the start parameters cannot be renewed");
        }
        Ok(())
    }

    /// Live sessions of an adapter.
    pub fn running(&self, adapter: &str) -> Vec<crate::SessionHandle> {
        let live = self.inner.registry.live_sessions().into_iter();
        live.filter(|handle| handle.descriptor().adapter_slug == adapter).collect()
    }
}

/// How long a process may take that is started only to delete a session: real agents take up to
/// twenty seconds to start.
const COLD_DELETE_WITHIN: std::time::Duration = std::time::Duration::from_secs(30);

impl Inner {
    /// Has an agent delete its own copy of a session that does not run. Asks any process of that
    /// adapter, else starts a process for it (rule 12.7).
    pub(crate) async fn delete_agent_copy(&self, log_id: &LogId, state: &State) -> AgentDelete {
        let Some(agent_session) = &state.agent_session else { return AgentDelete::NotNeeded };
        let work = async {
            for handle in self.registry.live_sessions() {
                let known = handle.descriptor();
                let fits =
                    known.status == Status::Running && known.adapter_slug == *state.origin.adapter;
                if fits && let Some(outcome) = handle.delete_other(Arc::clone(agent_session)).await
                {
                    return outcome;
                }
            }
            self.delete_by_new_process(log_id, &state.origin, agent_session)
                .await
                .unwrap_or(AgentDelete::Failed)
        };
        tokio::time::timeout(COLD_DELETE_WITHIN, work)
            .await
            .unwrap_or(AgentDelete::Failed)
    }

    async fn delete_by_new_process(
        &self,
        log_id: &LogId,
        origin: &Origin,
        agent_session: &str,
    ) -> Result<AgentDelete, StartFailure> {
        if self.introduced(&origin.adapter).is_some_and(|known| !known.traits.delete) {
            return Ok(AgentDelete::NotNeeded);
        }
        let inputs = self.start_inputs(log_id)?;
        let agent = self.agent(&origin.adapter, inputs.mode.as_deref(), &inputs.options)?;
        agent.find_program(&inputs.env)?;
        let launch = self.launch_of(&agent, origin, &inputs)?;
        let _start = self.start_limits.acquire_start(StartPriority::Client).await;
        let mut greeted = launch_and_initialize(&launch, &inputs.capabilities).await?;
        if !greeted.initialize_response.traits.delete {
            return Ok(AgentDelete::NotNeeded);
        }
        for frame in &inputs.prelude {
            greeted.forward_request(frame.bytes()).await?;
        }
        greeted.delete_session(agent_session).await?;
        Ok(AgentDelete::Done)
    }
}
