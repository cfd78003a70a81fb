//! Starting the host: take the lease, end what an earlier one left running, and bring every log to
//! a definite state.

use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use wharf_config::{Config, ResumeOnStart, Workspaces};
use wharf_core::{AgentInput, EndReason, Input, LifecycleInput, Seq, Session, SessionId, Status};
use wharf_store::{
    Engine, FileEngine, FileLease, FileOptions, Index, IndexRow, Lease, LeaseError, Log, LogId,
    LogStat, LostEpoch, SqliteIndex, StoreError,
};
use wharf_transcript::Secrets;

use super::agents::AgentProcesses;
use super::initialize_cache::InitializeCache;
use super::live_config::{LiveConfig, watch_file};
use super::start_limits::StartLimits;
use super::storage::{Storage, UnreadableLog};
use super::{Host, Inner, StartPriority, StepLocks, modes};
use crate::SessionHandle;
use crate::agent::adoption::{
    AdoptedAgent, AdoptionContext, FoundAgent, LeftAgent, SilentKeeper, ask_keepers,
};
use crate::agent::agent_log::AgentLogs;
use crate::agent::agent_token::TokenGuard;
use crate::agent::directory_identity::DirectoryIdentity;
use crate::agent::ended_agent::{find_ended_agents, find_ended_agents_of, may_pass};
use crate::agent::process_records::{LeftTree, ProcessRecords};
use crate::agent::process_table::is_below;
use crate::descriptor::Descriptor;
use crate::ids::Now;
use crate::index::{IndexWriter, SessionRow};
use crate::metrics::Metrics;
use crate::people::People;
use crate::registry::{KnownSession, Registry};
use crate::session::handle::CallError;
use crate::session::{FirstStart, RestoreError, Shared, TailBudget};
use crate::transcript::{Transcripts, catch_up_in_background};

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the state directory {path} is in use by the host with pid {pid}; stop it first, or choose another --state-dir", path = path.display())]
    Held { path: PathBuf, pid: String },
    #[error("the state directory {path} cannot be used: {why}", path = path.display())]
    StateDir { path: PathBuf, why: String },
    #[error(
        "this program runs inside the agent of session {session}, which has no host; start the host outside of agents"
    )]
    InsideAgent { session: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Host {
    /// Brings the host up. Blocking work: called once, before anything is served.
    pub fn start(config: Config) -> Result<Self, StartError> {
        Self::start_on(config, None)
    }

    /// The same with another engine than files, for tests.
    #[doc(hidden)]
    pub fn start_on(config: Config, engine: Option<Arc<dyn Engine>>) -> Result<Self, StartError> {
        let root = config.state_dir.clone();
        let unusable = |why: &dyn std::fmt::Display| StartError::StateDir {
            path: root.clone(),
            why: why.to_string(),
        };
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&root)
            .map_err(|error| unusable(&error))?;
        modes::repair_at_start(&root).map_err(|error| unusable(&error))?;
        let lease = lease(&root).map_err(|error| match error {
            LeaseError::Held { pid, .. } => StartError::Held {
                path: root.clone(),
                pid: pid.map_or_else(|| "unknown".to_owned(), |pid| pid.to_string()),
            },
            error @ (LeaseError::LastEpoch { .. } | LeaseError::Io { .. }) => unusable(&error),
        })?;
        let identity =
            DirectoryIdentity::load_or_create(&root).map_err(|error| unusable(&error))?;
        let state_id = identity.id.clone();
        let records = ProcessRecords::new(root.join("run"), identity);
        // A directory that cannot be listed is not taken for an empty one: sessions would end
        // without their agents' last output.
        let left = records.take_left_trees().map_err(|error| unusable(&error))?;
        if let Some(tree) = left.iter().find(|tree| is_below(std::process::id(), tree.keeper_pid()))
        {
            return Err(StartError::InsideAgent { session: tree.kept.session.clone() });
        }
        let mut agents = ask_keepers(left, &records);
        records.remove_unfinished_outputs().map_err(|error| unusable(&error))?;
        // This comes after the keepers: a keeper that ends meanwhile leaves its output first.
        agents.extend(find_ended_agents(&records).map_err(|error| unusable(&error))?);
        let engine = match engine {
            Some(engine) => engine,
            None => files(&root, config.limits.reserve.0 as u64)?,
        };
        let index = index(&root)?;
        let budget = Arc::new(TailBudget::new(&config.limits));
        let workspaces = Workspaces::of(&root);
        if let Err(error) = workspaces.list() {
            tracing::warn!(%error, "the registry of workspaces cannot be read");
        }
        let initialize_cache =
            Arc::new(InitializeCache::load(root.join("initialize.json"), &state_id));
        let secrets = if config.redact_output { Secrets::Hidden } else { Secrets::Shown };
        let logs = AgentLogs::new(config.redact_output);
        let inner = Arc::new(Inner {
            start_limits: StartLimits::new(&config.limits),
            config: LiveConfig::new(config),
            workspaces,
            registry: Registry::default(),
            index: IndexWriter::start(Arc::clone(&index)),
            storage: Storage::new(engine, lease),
            transcripts: Transcripts::open(&root, secrets)?,
            agents: AgentProcesses::new(records, state_id, initialize_cache, logs),
            metrics: Metrics::default(),
            people: People::load(root.join("people.json")),
            has_push_devices: tokio::sync::watch::Sender::new(false),
            budget,
            locks: StepLocks::default(),
        });
        let back = inner.reconcile(&*index, agents)?;
        inner.people.retain_sessions(|id| {
            inner.registry.get(id).is_some() || inner.storage.unreadable().contains_key(id)
        });
        let host = Self { inner };
        host.bring_back(back);
        host.recount_tokens();
        crate::usage::track_usage(&host.inner);
        super::sweep::sweep_sessions(&host.inner);
        catch_up_in_background(&host.inner);
        modes::watch(&host.inner);
        watch_file(&host.inner);
        Ok(host)
    }
}

/// Takes the lease. On a full disk the reserve is given up for it: who cannot start the host cannot
/// end anything.
fn lease(root: &Path) -> Result<FileLease, LeaseError> {
    let lease = acquire_lease(root)?;
    if let Some(LostEpoch { found, kept_as }) = lease.lost_epoch() {
        let kept_as = kept_as.as_deref().map(|path| path.display().to_string());
        tracing::error!(dir = %root.display(), found, epoch = lease.epoch(), kept_as,
            "the file `epoch` was missing or damaged: event ids go on far above the largest one that was found");
    }
    Ok(lease)
}

fn acquire_lease(root: &Path) -> Result<FileLease, LeaseError> {
    let acquire = || FileLease::acquire_with(root, &|| find_indexed_epoch(root));
    match acquire() {
        Err(LeaseError::Io { source, .. })
            if source.kind() == ErrorKind::StorageFull && FileEngine::give_up_reserve(root) =>
        {
            tracing::warn!(dir = %root.display(), "the disk is full: what was kept for that is used");
            acquire()
        }
        acquired => acquired,
    }
}

/// Returns the largest epoch of the events that the index names, 0 if there is none.
fn find_indexed_epoch(root: &Path) -> u64 {
    let path = root.join("index.db");
    if !path.exists() {
        return 0;
    }
    let rows = SqliteIndex::open(&path).and_then(|index| index.all()).unwrap_or_default();
    let known = rows.iter().filter_map(|row| Descriptor::from_summary(&row.summary));
    known.filter_map(|known| known.largest_epoch()).max().unwrap_or(0)
}

fn files(root: &Path, reserve: u64) -> Result<Arc<dyn Engine>, StoreError> {
    let engine = FileEngine::open(FileOptions { reserve, ..FileOptions::new(root) })?;
    if let Some(why) = engine.why_no_reserve() {
        tracing::warn!(dir = %root.display(), why, "no space can be kept for a full disk here");
    } else if !engine.has_space() {
        tracing::error!(dir = %root.display(), "the disk is full: prompts and new sessions are refused until there is space");
    }
    Ok(engine)
}

/// The index is derived: where it cannot be kept in a file, memory will do.
fn index(root: &Path) -> Result<Arc<dyn Index>, StoreError> {
    match SqliteIndex::open(&root.join("index.db")) {
        Ok(index) => Ok(index),
        Err(error) => {
            tracing::warn!(%error, "the index cannot be used; listings are made from the logs, which takes longer");
            Ok(SqliteIndex::in_memory()?)
        }
    }
}

impl Host {
    /// Starts the agents of sessions that are to come back, those that are needed most first. One
    /// place is left for clients, who do not wait for all of these.
    fn bring_back(&self, mut sessions: Vec<(StartPriority, SessionId)>) {
        sessions.sort();
        let at_once = self
            .inner
            .config
            .limits
            .starts
            .saturating_sub(1)
            .clamp(1, sessions.len().max(1));
        let sessions = Arc::new(std::sync::Mutex::new(VecDeque::from(sessions)));
        for _ in 0..at_once {
            let host = self.clone();
            let sessions = Arc::clone(&sessions);
            tokio::spawn(async move {
                host.announced().await;
                let next = || sessions.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                while let Some((need, id)) = next() {
                    host.bring_one_back(&id, need).await;
                }
            });
        }
    }

    async fn bring_one_back(&self, id: &SessionId, need: StartPriority) {
        let Ok(handle) = self.open(id).await else { return };
        loop {
            match handle.come_back(need).await {
                Ok(()) => break,
                Err(CallError::StorageFull) => tokio::time::sleep(RETURN_RETRY_AFTER).await,
                Err(
                    error @ (CallError::TooMany { .. }
                    | CallError::LogFull { .. }
                    | CallError::Storage(_)),
                ) => {
                    handle.span().in_scope(
                        || tracing::warn!(session = %id, %error, "a session did not come back"),
                    );
                    return;
                }
                // Another caller was faster, or the session is gone.
                Err(
                    CallError::Refused(_)
                    | CallError::NotWritten { .. }
                    | CallError::Left
                    | CallError::Gone,
                ) => return,
            }
        }
        // A start that hangs ends by its own timeout.
        if let Ok(Err(failure)) = tokio::time::timeout(WATCHED_FOR, handle.up()).await {
            // Not the message, which holds what the agent wrote: the session tells it.
            handle
                .span()
                .in_scope(|| tracing::warn!(session = %id, code = failure.exit_code, "a session did not come back"));
        }
    }
}

/// How soon a session that could not come back for want of space is tried again.
const RETURN_RETRY_AFTER: std::time::Duration = std::time::Duration::from_secs(2);
/// How long the next one waits for a session that comes back.
const WATCHED_FOR: std::time::Duration = std::time::Duration::from_secs(10);

impl Inner {
    /// Makes every log known. If the index knows a log whole and ended, the host only lists it. The
    /// host reads any other log, and if its session was alive when its host died, the session gets
    /// its end now (rule 2.7), unless this host can take its agent over.
    fn reconcile(
        self: &Arc<Self>,
        index: &dyn Index,
        agents: Vec<LeftAgent>,
    ) -> Result<Vec<(StartPriority, SessionId)>, StartError> {
        let mut back = Vec::new();
        let mut fresh = Vec::new();
        let mut by_session: HashMap<_, Vec<LeftAgent>> = HashMap::new();
        // The logs of sessions that are only listed.
        let mut logs: HashMap<SessionId, LogId> = HashMap::new();
        for agent in agents {
            by_session
                .entry(SessionId::new(agent.tree().kept.session.as_str()))
                .or_default()
                .push(agent);
        }
        let mut rows: HashMap<_, IndexRow> = index
            .all()
            .unwrap_or_default()
            .into_iter()
            .map(|row| (row.id.clone(), row))
            .collect();
        for stat in self.storage.engine().list()? {
            let row = rows.remove(&stat.id);
            crate::ids::sort_ids_after(&SessionId::new(stat.id.name()));
            let known = row.as_ref().and_then(|row| ended(row, &stat));
            match known {
                Some(descriptor) => {
                    let snapshot = row.and_then(|row| row.snapshot);
                    let id = SessionId::new(stat.id.name());
                    back.extend(self.wants_back(&descriptor).map(|need| (need, id.clone())));
                    let log_id = stat.id;
                    if by_session.contains_key(&id) {
                        logs.insert(id.clone(), log_id.clone());
                    }
                    let bytes = stat.bytes;
                    let descriptor = Arc::new(descriptor);
                    self.registry.put(
                        id,
                        KnownSession::Cold {
                            log_id,
                            descriptor,
                            snapshot,
                            bytes,
                            has_log_failed: false,
                        },
                    );
                }
                None => {
                    let agents =
                        by_session.remove(&SessionId::new(stat.id.name())).unwrap_or_default();
                    back.extend(self.recover(&stat, row.as_ref(), agents, &mut fresh));
                }
            }
        }
        for (id, agents) in by_session {
            // A session without a log is gone.
            let log = logs.get(&id).map(|log_id| self.storage.engine().open(log_id)).transpose();
            for agent in agents {
                match &log {
                    Ok(log) => self.end_left_agent(agent, log.as_deref()),
                    Err(error) => {
                        tracing::error!(session = %id, %error, "what is left of an agent waits, since its log cannot be opened")
                    }
                }
            }
        }
        self.index.put_all(fresh);
        for gone in rows.into_keys() {
            self.index.remove(gone);
        }
        Ok(back)
    }

    /// Is this one to be started again by itself, and how much is that needed?
    pub(crate) fn wants_back(&self, descriptor: &Descriptor) -> Option<StartPriority> {
        let queued = (descriptor.queued > 0)
            .then(|| StartPriority::Queued(descriptor.queued_since.unwrap_or_default()));
        let need = match self.config.resume_on_start {
            ResumeOnStart::None => None,
            ResumeOnStart::Queued => queued,
            ResumeOnStart::All => Some(queued.unwrap_or(StartPriority::Nobody)),
        };
        let was_ended = matches!(
            descriptor.end_reason,
            Some(EndReason::User | EndReason::Closed | EndReason::Finished)
        );
        need.filter(|_| descriptor.resumable && !was_ended)
    }

    /// Reads a log and ends what its host could not end. The id, if the session is to come back.
    fn recover(
        self: &Arc<Self>,
        stat: &LogStat,
        row: Option<&IndexRow>,
        mut agents: Vec<LeftAgent>,
        rows: &mut Vec<SessionRow>,
    ) -> Option<(StartPriority, SessionId)> {
        let snapshot = row.and_then(|row| row.snapshot);
        let known = row.and_then(|row| Descriptor::from_summary(&row.summary));
        match self.load_from_log(&stat.id, snapshot, known.as_ref()) {
            Ok((mut session, shared)) => {
                let start = session.state().start.0;
                let has_session = session.state().agent_session.is_some();
                // An agent is kept once the log holds the end of its start: there, the log has lost
                // that.
                if shared.has_losses()
                    && has_session
                    && agents.iter().any(|agent| agent.tree().kept.start == start)
                {
                    session.recall_running_agent();
                    shared.set_descriptor(Arc::new(Descriptor::of_session(
                        &session,
                        &shared.attention,
                    )));
                }
                if let Some(first) = self.find_agent(agents, &session, &shared) {
                    self.spawn_with_agent(session, shared, first);
                    return None;
                }
                let step =
                    session.handle(Input::Lifecycle(LifecycleInput::HostRestarted), Now::millis());
                let descriptor = Descriptor::of_session(&session, &shared.attention);
                let need = self.wants_back(&descriptor).map(|need| (need, shared.id.clone()));
                if step.events.is_empty() {
                    rows.push(self.list(&shared, descriptor, session.state().snapshot));
                } else {
                    self.spawn_task(session, shared, step, FirstStart::default());
                }
                need
            }
            Err(RestoreError::Empty) if self.was_never_begun(&stat.id) => {
                agents.into_iter().for_each(|agent| self.end_left_agent(agent, None));
                tracing::info!(log = %stat.id, "the host ended while this session was made; what there was of it is gone");
                self.storage.delete_partial_session(&stat.id);
                None
            }
            Err(error) => {
                tracing::error!(log = %stat.id, %error, "this session cannot be read and is left alone");
                // Output on the disk waits until somebody has repaired the log.
                agents.retain(|agent| {
                    !matches!(
                        agent,
                        LeftAgent::Found(FoundAgent::Ended(_)) | LeftAgent::Unopened(_)
                    )
                });
                agents.into_iter().for_each(|agent| self.end_left_agent(agent, None));
                let unreadable = UnreadableLog { log_id: stat.id.clone(), why: error.to_string() };
                self.storage.unreadable().insert(SessionId::new(stat.id.name()), unreadable);
                None
            }
        }
    }
}

/// The outcome of taking an agent over.
#[derive(Debug)]
pub(crate) enum Takeover {
    Done(Box<AdoptedAgent>),
    /// The agent has ended. Its output is on the disk and can be taken in later.
    PutOff {
        tree: LeftTree,
        why: io::Error,
    },
    Failed,
}

impl Inner {
    /// Ends an agent of an earlier host that no session needs. Its output stays until the log, if
    /// there is one, is on the disk: a power cut may take the end of the log away.
    fn end_left_agent(&self, agent: LeftAgent, log: Option<&dyn Log>) {
        let session = agent.tree().kept.session.clone();
        match agent {
            LeftAgent::Found(FoundAgent::Ended(ended)) => {
                if let Some(Err(error)) = log.map(sync_log) {
                    tracing::warn!(session, %error, "the output of an agent that has ended stays until its log can be synced");
                    return;
                }
                tracing::info!(
                    session,
                    "removed the output of an agent that has ended: its session is over or has another one"
                );
                return ended.remove();
            }
            LeftAgent::Unopened(_) => return,
            LeftAgent::Found(FoundAgent::Kept(_)) | LeftAgent::Silent(_) => {}
        }
        tracing::info!(
            session,
            "ended an agent that an earlier host had left behind: its session is over or has another one"
        );
        self.agents.records().end_left_tree(agent.tree());
    }

    /// Finds the running agent of a session and takes it over, now or when its keeper answers.
    /// Returns `None` if there is none. All other agents are ended.
    pub(super) fn find_agent(
        &self,
        agents: Vec<LeftAgent>,
        session: &Session,
        shared: &Shared,
    ) -> Option<FirstStart> {
        let state = session.state();
        let is_wanted = |agent: &LeftAgent| {
            state.status == Status::Running && state.start.0 == agent.tree().kept.start
        };
        let (mut wanted, others): (Vec<_>, Vec<_>) = agents.into_iter().partition(is_wanted);
        let log = Some(&*shared.log);
        others.into_iter().for_each(|agent| self.end_left_agent(agent, log));
        // A keeper that has left the output meanwhile was perhaps silent before. The output is all
        // that there is then.
        wanted.sort_by_key(|agent| {
            matches!(agent, LeftAgent::Found(FoundAgent::Ended(_)) | LeftAgent::Unopened(_))
        });
        let agent = wanted.pop()?;
        for other in wanted {
            match other {
                LeftAgent::Found(FoundAgent::Ended(_)) | LeftAgent::Unopened(_) => {
                    tracing::warn!(session = %shared.id, "the output of an agent is on the disk twice");
                }
                LeftAgent::Found(FoundAgent::Kept(_)) | LeftAgent::Silent(_) => {
                    self.end_left_agent(other, log)
                }
            }
        }
        let mut first = FirstStart::default();
        match agent {
            LeftAgent::Found(agent) => {
                match take_over_left_agent(self, agent, session.head(), shared) {
                    Takeover::Done(adopted) => first.adopted = Some(adopted),
                    Takeover::PutOff { tree, why } => {
                        warn_of_put_off_output(&shared.id, &why);
                        first.silent_keeper = Some(SilentKeeper::of_left_output(tree, 0));
                    }
                    Takeover::Failed => return None,
                }
            }
            LeftAgent::Silent(tree) => {
                let records = self.agents.records();
                first.silent_keeper = Some(SilentKeeper::new(tree, records, self.agents.tokens()));
            }
            LeftAgent::Unopened(tree) => {
                first.silent_keeper = Some(SilentKeeper::of_left_output(tree, 0))
            }
        }
        // Its agent runs already: without a permit it is over the limit, and new sessions are
        // refused.
        first.permit = self.start_limits.take_session();
        Some(first)
    }

    /// Goes on with a session whose agent an earlier host has left.
    fn spawn_with_agent(
        self: &Arc<Self>,
        mut session: Session,
        shared: Arc<Shared>,
        first: FirstStart,
    ) -> SessionHandle {
        let adopted = first.adopted.as_ref();
        let session_time = adopted.and_then(|adopted| adopted.turn_status.session_time());
        let now = session_time.unwrap_or_else(Now::millis);
        // The keeper knows whether a turn runs, if the log does not tell it any more.
        let is_idle =
            shared.has_losses() && adopted.is_some_and(|agent| !agent.turn_status.is_running);
        let is_keeper_gone =
            first.silent_keeper.as_ref().is_some_and(|keeper| keeper.presence.is_gone());
        let has_ended = is_keeper_gone || adopted.is_some_and(|agent| agent.has_ended);
        let step = session
            .handle(Input::Lifecycle(LifecycleInput::AgentAdopted { is_idle, has_ended }), now);
        self.spawn_task(session, shared, step, first)
    }

    /// Opens a session whose log could not be written any more. Output of its agent that a keeper
    /// has left is taken in; any other agent was ended when the log failed.
    pub(super) fn reopen_after_failure(
        self: &Arc<Self>,
        mut session: Session,
        shared: Arc<Shared>,
    ) -> io::Result<SessionHandle> {
        let agents = find_ended_agents_of(&shared.id, self.agents.records())?;
        if let Some(first) = self.find_agent(agents, &session, &shared) {
            return Ok(self.spawn_with_agent(session, shared, first));
        }
        // The descriptor says `error` since then.
        let message = "the log could not be written".into();
        let start = session.state().start;
        let ended = Input::Agent(AgentInput::Exited { start, exit_code: None, message });
        let step = session.handle(ended, Now::millis());
        Ok(self.spawn_task(session, shared, step, FirstStart::default()))
    }

    /// Takes an agent over. An agent that cannot be taken over is ended.
    ///
    /// If the agent has ended, all of the log that an earlier host has written is on the disk: the
    /// ledger on the disk must not be ahead of it, since a power cut may take the log's end away.
    pub(crate) fn adopt_agent(
        &self,
        agent: FoundAgent,
        token: Option<TokenGuard>,
        head: Seq,
        shared: &Shared,
    ) -> Takeover {
        let tree = agent.tree().clone();
        let context = AdoptionContext {
            records: self.agents.records(),
            tokens: self.agents.tokens(),
            log: self.agents.logs().get_or_create(&shared.id),
            frame_limit: self.config.limits.frame.0,
        };
        let kept = match &agent {
            FoundAgent::Kept(keeper) => Some((keeper.absence, keeper.version.clone())),
            FoundAgent::Ended(_) => None,
        };
        match (agent.adopt(head, &context, token), kept) {
            (Ok(adopted), Some((absence, keeper_version))) => {
                self.metrics.note_takeover(absence);
                tracing::info!(session = %shared.id, ?absence, keeper_version, "took over the agent of an earlier host");
                Takeover::Done(Box::new(adopted))
            }
            (Ok(adopted), None) => {
                tracing::info!(session = %shared.id, "takes in the output of an agent that has ended without a host");
                Takeover::Done(Box::new(adopted))
            }
            (Err(why), None) if may_pass(&why) => Takeover::PutOff { tree, why },
            (Err(error), None) => {
                tracing::error!(session = %shared.id, %error, "the output of an agent that has ended cannot be taken in");
                Takeover::Failed
            }
            (Err(error), Some(_)) => {
                tracing::warn!(session = %shared.id, %error, "an agent cannot be taken over and is ended");
                self.agents.records().end_left_tree(&tree);
                self.agents.records().remove(tree.keeper_pid());
                Takeover::Failed
            }
        }
    }

    /// Returns true if a session has only an empty log, so that no client has heard of it. Any
    /// trace of damage would be beside that log.
    fn was_never_begun(&self, log_id: &LogId) -> bool {
        let files = std::fs::read_dir(self.session_dir(log_id).join("log")).map(Iterator::count);
        let empty = |log: Arc<dyn Log>| log.head().seq == 0 && log.mended().torn_bytes == 0;
        files.is_ok_and(|count| count == 1) && self.storage.engine().open(log_id).is_ok_and(empty)
    }

    /// Makes a session known that needs no task, since it has had its end. Returns its row for the
    /// index.
    pub(super) fn list(
        &self,
        shared: &Shared,
        descriptor: Descriptor,
        snapshot: Option<Seq>,
    ) -> SessionRow {
        let log_id = shared.log_id.clone();
        let descriptor = Arc::new(descriptor);
        let head = shared.log.head();
        let snapshot = snapshot.map(|seq| seq.0);
        let cold = KnownSession::Cold {
            log_id: log_id.clone(),
            descriptor: Arc::clone(&descriptor),
            snapshot,
            bytes: head.bytes,
            has_log_failed: false,
        };
        self.registry.put(shared.id.clone(), cold);
        SessionRow {
            id: log_id,
            seq: head.seq,
            bytes: head.bytes,
            snapshot,
            descriptor,
        }
    }
}

/// Takes an agent over that an earlier host has left. Blocks until the log is on the disk, if the
/// agent has ended.
fn take_over_left_agent(host: &Inner, agent: FoundAgent, head: Seq, shared: &Shared) -> Takeover {
    if matches!(agent, FoundAgent::Ended(_))
        && let Err(why) = sync_log(&*shared.log)
    {
        return Takeover::PutOff { tree: agent.tree().clone(), why };
    }
    host.adopt_agent(agent, None, head, shared)
}

/// Says once why the output of an agent that has ended waits on the disk. It is tried again without
/// a word.
pub(crate) fn warn_of_put_off_output(session: &SessionId, why: &io::Error) {
    tracing::warn!(%session, %why, "the output of an agent that has ended cannot be taken in yet");
}

/// Waits until all of a log is on the disk.
fn sync_log(log: &dyn Log) -> io::Result<()> {
    let (done, synced) = std::sync::mpsc::sync_channel(1);
    log.sync(Box::new(move |result| drop(done.send(result.map(drop)))));
    synced.recv().map_err(io::Error::other)?.map_err(io::Error::other)
}

/// The row's descriptor, if the row tells the whole log and the session was over.
fn ended(row: &IndexRow, stat: &LogStat) -> Option<Descriptor> {
    let descriptor = Descriptor::from_summary(&row.summary)?;
    (row.bytes == stat.bytes && !descriptor.status.is_alive()).then_some(descriptor)
}
