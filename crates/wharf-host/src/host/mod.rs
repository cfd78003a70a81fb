//! The host: every session, the agents, the log engine, and the one lease that says they are ours.

mod adapters;
mod agents;
mod create;
mod delegate;
mod files;
mod forget;
mod fork;
mod initialize_cache;
mod labels;
mod live_config;
mod lost_beginning;
mod modes;
#[cfg(test)]
mod open_tests;
mod people;
mod prestarted_agent;
mod recount;
mod sandbox_profile;
mod spawn;
mod start_file;
mod start_limits;
mod startup;
mod storage;
mod sweep;
mod uploads;
mod workspaces;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::watch;
use wharf_api::{HostSettingList, SettingsState, TurnCount};
use wharf_config::{AdapterError, Config, ConfigError, Launchable, ReloadReport, Workspaces};
use wharf_core::{EndReason, Input, LifecycleInput, Sender, SessionId};
use wharf_store::LogId;

use agents::AgentProcesses;
pub use create::{CreateError, Created, ForkStart, NewSessionRequest};
pub use delegate::DelegationError;
pub use forget::Renewal;
pub use fork::{ForkClient, ForkError, ForkRequest};
pub use labels::{DescribeError, LabelInUse, LabelPolicy, Sees};
use live_config::LiveConfig;
pub use prestarted_agent::PrestartedAgent;
pub use sandbox_profile::check_sandbox;
pub use spawn::{SpawnRequest, Spawned, SpawnedAs};
pub(crate) use start_file::StartInputs;
use start_limits::StartLimits;
pub(crate) use start_limits::StartPriority;
pub use startup::StartError;
pub(crate) use startup::{Takeover, warn_of_put_off_output};
use storage::Storage;
pub use storage::StorageFault;
pub use uploads::{Upload, UploadError};
pub use workspaces::RemovedWorkspace;

use crate::agent::KeeperDescription;
use crate::agent::Launch;
use crate::agent::agent_log::AgentLog;
use crate::agent::initialize::{InitializeResponse, StartFailure};
use crate::attention::AttentionSource;
use crate::descriptor::{Descriptor, TurnWord};
use crate::ids::Now;
use crate::index::IndexWriter;
use crate::limits::ByteBudget;
use crate::metrics::Metrics;
use crate::people::People;
use crate::registry::{KnownSession, Registry};
use crate::session::advertised_tools::advertise_tools;
use crate::session::handle::SessionHandle;
use crate::session::{
    FirstStart, RestoreError, RestoredSession, SessionTask, Shared, TailBudget, restore,
};
use crate::transcript::{SessionTranscript, TranscriptFailure, Transcripts};

/// The daemon's engine. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Host {
    inner: Arc<Inner>,
}

/// The parts of the host, each with its own fields.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) config: LiveConfig,
    pub(crate) registry: Registry,
    pub(crate) index: IndexWriter,
    pub(crate) storage: Storage,
    pub(crate) transcripts: Transcripts,
    pub(crate) agents: AgentProcesses,
    pub(crate) start_limits: StartLimits,
    pub(crate) metrics: Metrics,
    pub(crate) people: People,
    /// Devices have subscribed to push messages.
    pub(crate) has_push_devices: tokio::sync::watch::Sender<bool>,
    /// The bound for the newest events in memory, and for bytes on their way to clients.
    pub(crate) budget: Arc<TailBudget>,
    workspaces: Workspaces,
    locks: StepLocks,
}

/// Steps that are taken one at a time.
#[derive(Debug, Default)]
struct StepLocks {
    /// One cold session is brought up at a time, so that two callers get the same task. The
    /// thread that brings it up holds the lock, since its caller may give up meanwhile.
    opening: Arc<tokio::sync::Mutex<()>>,
    /// One request with a key is looked up and carried out at a time, so that its repeat finds it.
    spawning: tokio::sync::Mutex<()>,
    /// One child is counted and started at a time, so that no agent has more than it may.
    delegating: tokio::sync::Mutex<()>,
    /// One label that shall name one session is given at a time.
    labelling: tokio::sync::Mutex<()>,
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

    /// Loads the settings again, as far as they can change while the host runs (rule 11.2).
    pub fn reload_config(&self) -> Result<ReloadReport, ConfigError> {
        self.inner.config.reload()
    }

    /// Changes whenever a setting has.
    pub fn config_changes(&self) -> watch::Receiver<()> {
        self.inner.config.watch_changes()
    }

    /// Lists the settings, with the source of each.
    pub fn describe_settings(&self) -> HostSettingList {
        self.inner.config.describe()
    }

    /// Describes the configuration file, and which changes wait for a restart.
    pub fn settings_state(&self) -> SettingsState {
        self.inner.config.describe_state()
    }

    /// The budget for bytes on their way to and from clients.
    pub fn buffers(&self) -> &Arc<ByteBudget> {
        &self.inner.budget.buffers
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }

    pub(crate) const fn shared_inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    pub(crate) const fn from_inner(inner: Arc<Inner>) -> Self {
        Self { inner }
    }

    /// Returns the transcript of a session.
    pub fn transcript(&self, handle: SessionHandle) -> SessionTranscript {
        SessionTranscript::open(&self.inner.transcripts, handle)
    }

    /// Makes a transcript of a session that shows secrets.
    pub async fn unredacted_transcript(
        &self,
        handle: SessionHandle,
    ) -> Result<SessionTranscript, TranscriptFailure> {
        SessionTranscript::open_unredacted(&self.inner.transcripts, handle).await
    }

    /// Returns the log of a session's agents, an empty one if none of them has run since the host
    /// started.
    pub fn agent_log(&self, id: &SessionId) -> Arc<AgentLog> {
        self.inner.agents.logs().get_or_create(id)
    }

    /// Every session in short.
    pub fn descriptors(&self) -> Vec<Arc<Descriptor>> {
        self.inner.registry.list_descriptors()
    }

    /// One session in short, without waking it.
    pub fn descriptor(&self, id: &SessionId) -> Option<Arc<Descriptor>> {
        self.inner.registry.get(id).map(|known| known.descriptor())
    }

    /// Changes whenever a session comes, goes or changes in a way that its descriptor shows; what
    /// an agent says alone does not count.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.registry.watch_changes()
    }

    /// Returns the session that an amux client means by this name (rule 9.1): the newest session of
    /// that name, unless it is over for good or a user killed it. Then the name is free for a new
    /// session. Sessions outside of the caller's sight do not count.
    pub fn named(
        &self,
        name: &str,
        in_sight: impl Fn(&Descriptor) -> bool,
    ) -> Option<Arc<Descriptor>> {
        let mut known = self.descriptors();
        known.retain(|known| known.name.as_deref() == Some(name) && in_sight(known));
        // The id alone does not decide: the id of a session that got a prestarted agent may be
        // older than the session.
        let newest = known
            .into_iter()
            .max_by(|a, b| (&a.started_at, &a.id).cmp(&(&b.started_at, &b.id)))?;
        let comes_back = newest.resumable && newest.end_reason != Some(EndReason::User);
        (newest.status.is_alive() || comes_back).then_some(newest)
    }

    /// The session's handle; a cold one's log is read first, its agent is not started.
    pub async fn open(&self, id: &SessionId) -> Result<SessionHandle, OpenError> {
        if let Some(KnownSession::Live(handle)) = self.inner.registry.get(id) {
            return Ok(handle);
        }
        let one = Arc::clone(&self.inner.locks.opening).lock_owned().await;
        match self.inner.registry.get(id) {
            None => Err(self.why_not_open(id, |_| true)),
            Some(KnownSession::Live(handle)) => Ok(handle),
            Some(KnownSession::Cold { log_id, snapshot, descriptor, has_log_failed, .. }) => {
                let inner = Arc::clone(&self.inner);
                let opening = move || {
                    let _one = one;
                    let loaded = inner.load_from_log(&log_id, snapshot, Some(&descriptor));
                    let (mut session, shared) = loaded.map_err(|error| error.to_string())?;
                    if has_log_failed && session.state().status.is_alive() {
                        return inner
                            .reopen_after_failure(session, shared)
                            .map_err(|error| error.to_string());
                    }
                    // Changes nothing, unless the log has lost the end of a turn, or that of the
                    // session.
                    let step = session
                        .handle(Input::Lifecycle(LifecycleInput::HostRestarted), Now::millis());
                    Ok(inner.spawn_task(session, shared, step, FirstStart::default()))
                };
                let opened = tokio::task::spawn_blocking(opening).await;
                let opened = opened.unwrap_or_else(|error| Err(error.to_string()));
                opened.map_err(|why| OpenError::Unreadable { id: id.clone(), why })
            }
        }
    }

    /// Returns true if this caller is attached to the session as an observer and not as a
    /// controller, on whichever connection. Returns false for a session that is not loaded, or
    /// whose task is gone: no caller is attached to it.
    pub async fn is_observer(&self, id: &SessionId, caller: Sender) -> bool {
        match self.inner.registry.get(id) {
            Some(KnownSession::Live(handle)) => {
                handle.is_observed_by(caller).await.unwrap_or(false)
            }
            Some(KnownSession::Cold { .. }) | None => false,
        }
    }

    /// Says why a session that is not listed cannot be opened: its log could not be read at the
    /// start, or there is none. `in_sight` is asked whether the caller may know of sessions of this
    /// bucket.
    pub fn why_not_open(&self, id: &SessionId, in_sight: impl Fn(&str) -> bool) -> OpenError {
        match self.inner.storage.unreadable().get(id) {
            Some(log) if in_sight(log.log_id.bucket()) => {
                OpenError::Unreadable { id: id.clone(), why: log.why.clone() }
            }
            Some(_) | None => OpenError::Unknown(id.clone()),
        }
    }

    /// Returns the answer of the adapter's agent to `initialize`: from the cache, or by starting an
    /// agent, which is then handed over.
    pub async fn introduce(
        &self,
        adapter: &str,
        capabilities: &str,
        cwd: Option<&Path>,
        env: &BTreeMap<String, String>,
    ) -> Result<(InitializeResponse, Option<PrestartedAgent>), StartFailure> {
        let agent = self.inner.agent(adapter, None, &BTreeMap::new())?;
        let passed = self.inner.config.adapters().passed_environment(&agent, env);
        agent.find_program(&passed)?;
        let told = advertise_tools(self.inner.config.serve_tools, capabilities, None);
        let cache = self.inner.agents.initialize_cache();
        if let Some(known) = cache.key(&agent, &passed, &told, cwd).and_then(|key| cache.find(&key))
        {
            return Ok((known, None));
        }
        let spare = self.spare(adapter, capabilities, cwd, env).await?;
        Ok((spare.greeted.initialize_response.clone(), Some(spare)))
    }

    /// Returns an answer that the adapter's agent gave to some client; starts nothing. Only the
    /// program counts that the host itself would find: a program that a caller brought along by its
    /// `PATH` speaks for that caller alone.
    pub fn introduced(&self, adapter: &str) -> Option<InitializeResponse> {
        self.inner.introduced(adapter)
    }

    /// The roots of the process trees of a session: its agent's, and its terminals'.
    pub fn processes_of(&self, id: &SessionId) -> Vec<u32> {
        match self.inner.registry.get(id) {
            Some(KnownSession::Live(handle)) => handle.shared.keepers(),
            Some(KnownSession::Cold { .. }) | None => Vec::new(),
        }
    }

    /// Waits until the process trees with these roots are gone. Each has its deadline (rule 2.2).
    pub async fn wait_for_trees(&self, roots: &[u32]) {
        let records = self.inner.agents.records();
        let mut count = records.watch_count();
        loop {
            count.mark_unchanged();
            let is_gone =
                !records.running_keepers().iter().any(|keeper| roots.contains(&keeper.pid));
            if is_gone || count.changed().await.is_err() {
                return;
            }
        }
    }

    /// No new work, agents ended, logs synced.
    pub async fn shut_down(&self) {
        self.stop_sessions(|handle| async move { handle.shut_down().await }).await;
        // Ends agents without a session, and agents that were started meanwhile. Each of them has
        // its deadline.
        self.inner.agents.records().end_all().await;
        self.finish_files().await;
    }

    /// No new work, agents left to their keepers for the next host, logs synced. Agents that are
    /// not kept are ended.
    pub async fn leave(&self) {
        self.stop_sessions(|handle| async move { handle.leave().await }).await;
        self.inner.agents.records().end_all_but_kept().await;
        self.finish_files().await;
    }

    /// Returns how many turns run, and how many of their agents can outlive this host.
    pub fn running_turns(&self) -> TurnCount {
        let mut live = self.inner.registry.live_sessions();
        live.retain(|handle| handle.shared.descriptor().turn != TurnWord::Idle);
        let records = self.inner.agents.records();
        let is_kept = |handle: &&SessionHandle| {
            handle.shared.keepers().iter().any(|keeper| records.is_kept(*keeper))
        };
        TurnCount {
            running: live.len(),
            kept: live.iter().filter(is_kept).count(),
        }
    }

    /// Describes the keeper of a session's agent; `None` if the agent ends with the host.
    pub fn describe_keeper(&self, id: &SessionId) -> Option<KeeperDescription> {
        let records = self.inner.agents.records();
        self.processes_of(id)
            .into_iter()
            .find_map(|keeper| records.describe_keeper(keeper))
    }

    async fn stop_sessions<F: Future<Output = ()> + Send + 'static>(
        &self,
        stop: impl Fn(SessionHandle) -> F,
    ) {
        let live = self.inner.registry.live_sessions();
        let waits: Vec<_> = live.into_iter().map(|handle| tokio::spawn(stop(handle))).collect();
        for wait in waits {
            let _ = wait.await;
        }
    }

    async fn finish_files(&self) {
        self.inner.transcripts.finish().await;
        let inner = Arc::clone(&self.inner);
        let finish = move || {
            inner.index.finish();
            inner.people.finish();
        };
        let _ = tokio::task::spawn_blocking(finish).await;
    }
}

impl Inner {
    pub(super) fn introduced(&self, adapter: &str) -> Option<InitializeResponse> {
        let agent = self.agent(adapter, None, &BTreeMap::new()).ok()?;
        let cache = self.agents.initialize_cache();
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

    /// Returns how to start the agent of a session (or an agent without a session) in `cwd`,
    /// without a sandbox. `env` is the part of its caller's environment that the agent gets. The
    /// variables of the adapter override it, since a mode may consist of them.
    pub(crate) fn launch(
        &self,
        agent: &Launchable,
        session: Option<&SessionId>,
        cwd: impl AsRef<Path>,
        env: &BTreeMap<String, String>,
    ) -> Launch {
        let mut env = env.clone();
        env.extend(agent.env.clone());
        let wearer = session.map(|session| self.agents.wearer(session));
        if wearer.is_some() {
            env.extend(self.agents.ways_here(&self.config.state_dir));
        }
        let log = session.map(|session| self.agents.logs().get_or_create(session));
        let launch = self.launch_command(agent.command.clone(), env, cwd.as_ref().to_owned());
        let is_kept = session.is_some() && self.config.keeper.enabled;
        Launch { token_issuer: wearer, log, is_kept, ..launch }
    }

    /// How to start a command of the host's own, which belongs to no session.
    pub(crate) fn launch_command(
        &self,
        command: Vec<String>,
        env: BTreeMap<String, String>,
        cwd: PathBuf,
    ) -> Launch {
        Launch {
            log: None,
            token_issuer: None,
            program: self.config.program.clone(),
            command,
            env,
            cwd,
            sandbox: None,
            tag: self.agents.new_tag(),
            records: self.agents.records().clone(),
            is_kept: false,
            scope: self.config.keeper.scope,
            frame_limit: self.config.limits.frame.0,
            timeout: self.config.start_timeout.to_std(),
        }
    }

    /// Reads a cold session.
    fn load_from_log(
        &self,
        log_id: &LogId,
        snapshot: Option<u64>,
        known: Option<&Descriptor>,
    ) -> Result<(wharf_core::Session, Arc<Shared>), RestoreError> {
        let log = self.storage.engine().open(log_id)?;
        let mended = log.mended();
        if mended.torn_bytes > 0 {
            tracing::warn!(log = %log_id, bytes = mended.torn_bytes, "a record that was cut off by a crash was removed");
        }
        let settings = self.config.core_settings();
        let find_beginning = || self.find_beginning(log_id, known);
        let RestoredSession { mut session, lost } =
            restore(&log, &settings, snapshot, find_beginning)?;
        let id = session.state().origin.session.clone();
        if id.as_str() != log_id.name() {
            return Err(RestoreError::OtherSession { found: id });
        }
        if !lost.is_empty() {
            self.recall_agent(&mut session, known);
        }
        let attention = AttentionSource::new(Arc::clone(&log), self.storage.epoch());
        let descriptor = Descriptor::of_session(&session, &attention);
        let budget = Arc::clone(&self.budget);
        let shared =
            Shared::new(id, log_id.clone(), log, budget, session.head(), (descriptor, attention));
        for seq in lost {
            shared.note_lost(seq);
        }
        Ok((session, Arc::new(shared)))
    }

    /// Gives a session its task and makes it known.
    fn spawn_task(
        self: &Arc<Self>,
        session: wharf_core::Session,
        shared: Arc<Shared>,
        step: wharf_core::Step,
        first: FirstStart,
    ) -> SessionHandle {
        let commands =
            SessionTask::spawn(session, Arc::clone(self), Arc::clone(&shared), step, first);
        let handle = SessionHandle { shared, commands };
        self.registry.put(handle.id().clone(), KnownSession::Live(handle.clone()));
        handle
    }
}
