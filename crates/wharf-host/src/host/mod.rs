//! The host: every session, the agents, the log engine, and the one lease that says they are ours.

mod adapters;
mod agents;
mod begin;
mod confined;
mod create;
mod delegate;
mod forget;
mod initialize_cache;
mod modes;
mod rate;
mod spare;
mod spawn;
mod start_file;
mod starts;
mod storage;
mod workspaces;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;
use wharf_core::{EndReason, Epoch, Input, Sender, SessionId};
use wharf_store::{Engine, FileLease, LogId};

pub use begin::StartError;
pub use create::{CreateError, Created, NewSessionRequest};
pub use delegate::DelegationError;
pub use forget::Renewal;
use initialize_cache::InitializeCache;
pub use spare::Spare;
pub use spawn::{SpawnRequest, Spawned};
pub(crate) use start_file::{StartInputs, write_private};
pub(crate) use starts::{Need, Starts};
pub use storage::StorageFault;
pub use workspaces::RemovedWorkspace;

use crate::adapters::{AdapterError, Launchable};
use crate::agent::introduction::{Introduction, StartFailure};
use crate::agent::records::Records;
use crate::agent::{Badges, Launch, Wearer};
use crate::byte_budget::ByteBudget;
use crate::config::Config;
use crate::descriptor::Descriptor;
use crate::ids::{Now, random_text};
use crate::index::IndexWriter;
use crate::metrics::Metrics;
use crate::registry::{Known, Registry};
use crate::session::handle::SessionHandle;
use crate::session::{FirstStart, RestoreError, SessionTask, Shared, TailBudget, restore};
use crate::workspaces::Workspaces;

/// The daemon's engine. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Host {
    inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) config: Config,
    pub(crate) registry: Registry,
    workspaces: Workspaces,
    pub(crate) index: IndexWriter,
    engine: Arc<dyn Engine>,
    epoch: Epoch,
    pub(crate) budget: Arc<TailBudget>,
    pub(crate) metrics: Metrics,
    pub(crate) records: Records,
    badges: Arc<Badges>,
    /// Where the host is reached; empty until that is known.
    url: watch::Sender<Arc<str>>,
    /// Random, made once per state directory: the tags of its agents begin with it.
    state_id: String,
    pub(crate) initialize_cache: Arc<InitializeCache>,
    pub(crate) starts: Arc<Starts>,
    /// One cold session is brought up at a time, so that two callers get the same task.
    opening: tokio::sync::Mutex<()>,
    /// One request with a key is looked up and carried out at a time, so that its repeat finds it.
    spawning: tokio::sync::Mutex<()>,
    /// One child is counted and started at a time, so that no agent has more than it may.
    delegating: tokio::sync::Mutex<()>,
    /// Places for sessions with a running agent (`limits.sessions`).
    pub(crate) places: Arc<tokio::sync::Semaphore>,
    /// The same for agents that were started before there is a session for them.
    spare_places: Arc<tokio::sync::Semaphore>,
    rate: rate::Rate,
    /// Held for as long as the host lives.
    lease: FileLease,
    /// Logs that were there at the start and could not be read.
    unreadable: Mutex<HashMap<SessionId, UnreadableLog>>,
    /// The newest probe of the storage.
    probed: tokio::sync::Mutex<Option<storage::Probe>>,
}

/// A log that this host cannot read, and leaves alone.
#[derive(Clone, Debug)]
struct UnreadableLog {
    log_id: LogId,
    why: String,
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("no session {0}")]
    Unknown(SessionId),
    #[error("session {id} cannot be read: {why}")]
    Unreadable { id: SessionId, why: String },
}

impl Host {
    pub fn config(&self) -> &Config {
        &self.inner.config
    }

    /// The budget for bytes on their way to and from clients.
    pub fn buffers(&self) -> &Arc<ByteBudget> {
        &self.inner.budget.buffers
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }

    /// Every session in short.
    pub fn descriptors(&self) -> Vec<Arc<Descriptor>> {
        self.inner.registry.descriptors()
    }

    /// One session in short, without waking it.
    pub fn descriptor(&self, id: &SessionId) -> Option<Arc<Descriptor>> {
        self.inner.registry.get(id).map(|known| known.descriptor())
    }

    /// Changes whenever a session comes, goes or changes in a way that its descriptor shows; what an agent says alone
    /// does not count.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.registry.changes()
    }

    /// The session that an amux client means by this name (rule 9.1): the newest of that name, unless it is over for
    /// good or a user killed it. Then the name is free for a new one. What is not in the caller's sight does not count.
    pub fn named(&self, name: &str, in_sight: impl Fn(&Descriptor) -> bool) -> Option<Arc<Descriptor>> {
        let mut known = self.descriptors();
        known.retain(|known| known.name.as_deref() == Some(name) && in_sight(known));
        // Not by id alone: one that an agent was started with may be older than its session.
        let newest = known.into_iter().max_by(|a, b| (&a.started_at, &a.id).cmp(&(&b.started_at, &b.id)))?;
        let comes_back = newest.resumable && newest.end_reason != Some(EndReason::User);
        (newest.status.is_alive() || comes_back).then_some(newest)
    }

    /// The session's handle; a cold one's log is read first, its agent is not started.
    pub async fn open(&self, id: &SessionId) -> Result<SessionHandle, OpenError> {
        if let Some(Known::Live(handle)) = self.inner.registry.get(id) {
            return Ok(handle);
        }
        let _one = self.inner.opening.lock().await;
        match self.inner.registry.get(id) {
            None => Err(self.why_not_open(id, |_| true)),
            Some(Known::Live(handle)) => Ok(handle),
            Some(Known::Cold { log_id, snapshot, .. }) => {
                let inner = Arc::clone(&self.inner);
                let read = tokio::task::spawn_blocking(move || inner.thaw(&log_id, snapshot));
                let thawed = read.await.map_err(|e| e.to_string()).and_then(|thawed| thawed.map_err(|e| e.to_string()));
                let (mut session, shared) = thawed.map_err(|why| OpenError::Unreadable { id: id.clone(), why })?;
                // The log failed while its agent ran, which was ended then.
                let step = session.state().status.is_alive().then(|| {
                    let message = "the log could not be written".into();
                    let start = session.state().start;
                    session.handle(Input::AgentExited { start, exit_code: None, message }, Now::millis())
                });
                Ok(self.inner.spawn_task(session, shared, step.unwrap_or_default(), FirstStart::default()))
            }
        }
    }

    /// Returns true if this caller is attached to the session as an observer and not as a controller, on whichever
    /// connection. Nobody is attached to a session that is not loaded, or whose task is gone.
    pub async fn is_observer(&self, id: &SessionId, caller: Sender) -> bool {
        match self.inner.registry.get(id) {
            Some(Known::Live(handle)) => handle.is_observed_by(caller).await.unwrap_or(false),
            Some(Known::Cold { .. }) | None => false,
        }
    }

    /// Says why a session that is not listed cannot be opened: its log could not be read at the start, or there is none.
    /// `in_sight` is asked whether the caller may know of sessions of this bucket.
    pub fn why_not_open(&self, id: &SessionId, in_sight: impl Fn(&str) -> bool) -> OpenError {
        match self.inner.unreadable().get(id) {
            Some(log) if in_sight(log.log_id.bucket()) => {
                OpenError::Unreadable { id: id.clone(), why: log.why.clone() }
            }
            Some(_) | None => OpenError::Unknown(id.clone()),
        }
    }

    /// Returns the answer of the adapter's agent to `initialize`: from the cache, or by starting an agent, which is then
    /// handed over.
    pub async fn introduce(
        &self,
        adapter: &str,
        capabilities: &str,
        cwd: Option<&Path>,
        env: &BTreeMap<String, String>,
    ) -> Result<(Introduction, Option<Spare>), StartFailure> {
        let agent = self.inner.agent(adapter, None, &BTreeMap::new())?;
        let passed = self.inner.config.adapters().environment(&agent, env);
        agent.program(&passed)?;
        let told = self.inner.config.serve_tools.advertise(capabilities, None);
        let cache = &self.inner.initialize_cache;
        if let Some(known) = cache.key(&agent, &passed, &told, cwd).and_then(|key| cache.find(&key)) {
            return Ok((known, None));
        }
        let spare = self.spare(adapter, capabilities, cwd, env).await?;
        Ok((spare.greeted.introduction.clone(), Some(spare)))
    }

    /// Returns an answer that the adapter's agent gave to some client; starts nothing. Only the program counts that the
    /// host itself would find: one that a caller brought along by its `PATH` speaks for that caller alone.
    pub fn introduced(&self, adapter: &str) -> Option<Introduction> {
        self.inner.introduced(adapter)
    }

    /// The roots of the process trees of a session: its agent's, and its terminals'.
    pub fn processes_of(&self, id: &SessionId) -> Vec<u32> {
        match self.inner.registry.get(id) {
            Some(Known::Live(handle)) => handle.shared.shims(),
            Some(Known::Cold { .. }) | None => Vec::new(),
        }
    }

    /// No new work, agents ended, logs synced.
    pub async fn shut_down(&self) {
        let waits: Vec<_> = self
            .inner
            .registry
            .live()
            .into_iter()
            .map(|handle| tokio::spawn(async move { handle.shut_down().await }))
            .collect();
        for wait in waits {
            let _ = wait.await;
        }
        // Agents without a session, and what was started meanwhile. Each of them has its deadline.
        self.inner.records.end_all().await;
        let inner = Arc::clone(&self.inner);
        let _ = tokio::task::spawn_blocking(move || inner.index.finish()).await;
    }
}

impl Inner {
    fn unreadable(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, UnreadableLog>> {
        self.unreadable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn introduced(&self, adapter: &str) -> Option<Introduction> {
        let agent = self.agent(adapter, None, &BTreeMap::new()).ok()?;
        let cache = &self.initialize_cache;
        cache.find_any(&cache.key(&agent, &BTreeMap::new(), "", None)?)
    }

    /// The adapter's agent, in this mode with these options.
    pub(crate) fn agent(
        &self,
        adapter: &str,
        mode: Option<&str>,
        options: &BTreeMap<String, serde_json::Value>,
    ) -> Result<Launchable, AdapterError> {
        self.config.adapters().find(adapter, mode, options)
    }

    /// How to start the agent of a session (or of none) in `cwd`, without a sandbox, with what it gets of its caller's
    /// environment. What the adapter itself sets counts before that: a mode may be made of it.
    pub(crate) fn launch(
        &self,
        agent: &Launchable,
        session: Option<&SessionId>,
        cwd: impl AsRef<Path>,
        env: &BTreeMap<String, String>,
    ) -> Launch {
        let mut env = env.clone();
        env.extend(agent.env.clone());
        let badges = || Arc::clone(&self.badges);
        let wearer = session.map(|session| Wearer { badges: badges(), session: session.clone() });
        if wearer.is_some() {
            env.extend(self.ways_here());
        }
        Launch {
            wearer,
            program: self.config.program.clone(),
            command: agent.command.clone(),
            env,
            cwd: cwd.as_ref().to_owned(),
            sandbox: None,
            tag: format!("{}.{}", self.state_id, random_text(12)),
            records: self.records.clone(),
            frame_limit: self.config.limits.frame.0,
            timeout: self.config.start_timeout.std(),
        }
    }

    /// Reads a cold session.
    fn thaw(&self, log_id: &LogId, snapshot: Option<u64>) -> Result<(wharf_core::Session, Arc<Shared>), RestoreError> {
        let log = self.engine.open(log_id)?;
        let mended = log.mended();
        if mended.torn_bytes > 0 {
            tracing::warn!(log = %log_id, bytes = mended.torn_bytes, "a record that was cut off by a crash was removed");
        }
        let session = restore(&log, &self.config.core_settings(), snapshot)?;
        let id = session.state().origin.session.clone();
        if id.as_str() != log_id.name() {
            return Err(RestoreError::OtherSession { found: id });
        }
        let descriptor = Descriptor::of(&session);
        let budget = Arc::clone(&self.budget);
        let shared = Shared::new(id, log_id.clone(), log, budget, session.head(), descriptor);
        Ok((session, Arc::new(shared)))
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Deletes what there is of a session that could not be made.
    pub(crate) fn delete_partial_session(&self, log_id: &LogId) {
        if let Err(error) = self.engine.remove(log_id) {
            tracing::warn!(log = %log_id, %error, "a session that could not be made is left behind");
        }
    }

    /// Gives a session its task and makes it known.
    fn spawn_task(
        self: &Arc<Self>,
        session: wharf_core::Session,
        shared: Arc<Shared>,
        step: wharf_core::Step,
        first: FirstStart,
    ) -> SessionHandle {
        let commands = SessionTask::spawn(session, Arc::clone(self), Arc::clone(&shared), step, first);
        let handle = SessionHandle { shared, commands };
        self.registry.put(handle.id().clone(), Known::Live(handle.clone()));
        handle
    }
}
