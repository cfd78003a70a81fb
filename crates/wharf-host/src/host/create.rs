//! A new session: its log first, then its agent.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rustix::io::Errno;
use serde_json::Value;
use tokio::sync::oneshot;
use wharf_config::{
    AdapterError, DirectoryScope, MAX_LABEL_BYTES, WorkspaceError, explain_unfit_directory,
};
use wharf_core::{
    AgentSetting, ForkSource, NewSession, Origin, Raw, Sender, Seq, Session, SessionId, SpawnKey,
};
use wharf_store::{LogId, StoreError};

use super::{
    DelegationError, Host, Inner, LabelInUse, PrestartedAgent, StartInputs, sandbox_profile,
};
use crate::agent::initialize::StartFailure;
use crate::attention::AttentionSource;
use crate::descriptor::Descriptor;
use crate::ids::{Now, new_session_id};
use crate::limits::CountPermit;
use crate::sandbox::SandboxError;
use crate::session::handle::{CallError, SessionHandle};
use crate::session::{FirstStart, Shared};

#[derive(Debug)]
pub struct NewSessionRequest {
    pub adapter: String,
    pub cwd: PathBuf,
    /// The bucket, as the registry of workspaces gave it; `None`: by `cwd`.
    pub bucket: Option<String>,
    pub label: Option<String>,
    /// The name by which amux clients find it (rule 9.1).
    pub name: Option<Arc<str>>,
    pub sender: Option<Sender>,
    /// The `session/new` request as it goes to the agent.
    pub frame: Raw,
    /// The JSON of the client's `clientCapabilities`, as far as the host may pass them on to its
    /// agents; `serve_tools` decides on files and terminals.
    pub capabilities: String,
    /// An agent that has been greeted already, with this `env`.
    pub spare: Option<PrestartedAgent>,
    /// Requests that a fresh agent is to be sent before its session: a login that succeeded before.
    pub prelude: Vec<Bytes>,
    /// A mode and options of the adapter's manifest.
    pub mode: Option<String>,
    pub options: BTreeMap<String, Value>,
    /// Variables of the caller; the agent gets those that the adapter or the configuration names.
    pub env: BTreeMap<String, String>,
    /// Which directories the caller may name.
    pub directory_scope: DirectoryScope,
    pub key: Option<SpawnKey>,
    /// The sessions whose agents led to this one; see [`Host::spawn`].
    pub lineage: Vec<SessionId>,
    /// The caller waits for the agent: a first start that fails is not tried again, but told.
    pub caller_waits: bool,
    /// The session is a copy of another one.
    pub fork: Option<ForkStart>,
}

/// The beginning of a session that is a copy of another one (rule 17.10).
#[derive(Debug)]
pub struct ForkStart {
    pub source: ForkSource,
    pub title: Option<String>,
    /// The settings of the source, which the copy's agent is given: a copy has no more rights than
    /// its source had.
    pub settings: Vec<AgentSetting>,
}

/// A session whose agent is up.
#[derive(Debug)]
pub struct Created {
    pub handle: SessionHandle,
    /// The event that says so: a client of this session has seen everything up to here.
    pub seq: Seq,
    /// The agent's answer to `session/new`.
    pub answer: Raw,
}

#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    #[error(transparent)]
    Adapter(#[from] AdapterError),
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error("{path} {why}; give the session an existing cwd", path = path.display(), why = explain_unfit_directory(path))]
    Cwd { path: PathBuf },
    #[error("{path} is in no registered workspace that this token covers; it may only name directories inside one. See: wharf workspace list", path = path.display())]
    CwdNotAllowed { path: PathBuf },
    #[error(transparent)]
    Delegation(#[from] DelegationError),
    #[error("the label is {bytes} bytes long; shorten it to 1 KiB")]
    Label { bytes: usize },
    #[error(transparent)]
    LabelInUse(#[from] LabelInUse),
    #[error("the key was used for another request; use a new one")]
    KeyReused { session: String },
    #[error("{limit} sessions are running (limits.sessions); end one first")]
    TooMany { limit: usize },
    #[error(
        "this token may start {per_minute} sessions a minute (limits.spawns_per_minute); try again in {} s",
        .retry_after.as_secs() + 1
    )]
    TooFast { per_minute: u32, retry_after: Duration },
    #[error("the disk is full: no session can be made until there is space")]
    StorageFull,
    #[error(
        "the host has no file descriptors left (Too many open files): raise its limit (`ulimit -n`) or end sessions"
    )]
    NoFileDescriptors,
    #[error("the session's log cannot be made: {0}")]
    Storage(String),
    #[error("{failure}")]
    Start { session: String, failure: Box<StartFailure> },
}

/// A session in the making.
pub(super) struct Begun {
    pub(super) handle: SessionHandle,
    /// Tells when the session is in its log, safe on disk.
    pub(super) created: oneshot::Receiver<Result<wharf_core::Reply, CallError>>,
    /// Tells when the agent is up, or why not.
    started: oneshot::Receiver<Result<crate::session::Started, StartFailure>>,
}

impl Host {
    /// Creates a session and waits until its agent is up.
    pub async fn create(&self, request: NewSessionRequest) -> Result<Created, CreateError> {
        let Begun { handle, started, created } = self.begin_session(request)?;
        let session = handle.id().to_string();
        if let Ok(Err(error)) = created.await {
            return Err(not_created(error));
        }
        match started.await {
            Ok(Ok(started)) => Ok(Created { handle, seq: started.seq, answer: started.answer }),
            Ok(Err(failure)) => Err(CreateError::Start { session, failure: Box::new(failure) }),
            Err(_) => Err(CreateError::Start {
                session,
                failure: Box::new(StartFailure::new("the session was stopped")),
            }),
        }
    }

    /// Checks what can be checked before anything is made; then the log, and the agent's start.
    pub(super) fn begin_session(
        &self,
        mut request: NewSessionRequest,
    ) -> Result<Begun, CreateError> {
        let inner = &self.inner;
        let agent = inner.agent(&request.adapter, request.mode.as_deref(), &request.options)?;
        request.env = inner.config.adapters().passed_environment(&agent, &request.env);
        agent.find_program(&request.env)?;
        let bytes = request.label.as_ref().map_or(0, String::len);
        if bytes > MAX_LABEL_BYTES {
            return Err(CreateError::Label { bytes });
        }
        // As text: so it is logged and sent.
        if !request.cwd.is_absolute() || !request.cwd.is_dir() || request.cwd.to_str().is_none() {
            return Err(CreateError::Cwd { path: request.cwd });
        }
        let more = sandbox_profile::named(
            &agent,
            request.frame.bytes(),
            request.directory_scope != DirectoryScope::Anywhere,
        )?;
        if request.directory_scope != DirectoryScope::Anywhere {
            inner.allow(&request.directory_scope, std::slice::from_ref(&request.cwd))?;
            inner.allow(&request.directory_scope, &more)?;
        }
        let real = sandbox_profile::reals(&request.cwd, &more);
        let roots = sandbox_profile::roots(&request.cwd, more, &real);
        let sandbox = sandbox_profile::make_profile(&inner.config, &agent, roots)?;
        // An agent that waits was given its rights when it was started.
        request.spare = request.spare.filter(|spare| spare.sandbox == sandbox);
        // Else a workspace inside of it would have the session, out of its starter's sight.
        request.bucket = request
            .directory_scope
            .only_workspace()
            .map(ToOwned::to_owned)
            .or(request.bucket);
        let limits = &inner.config.limits;
        let permit = inner
            .start_limits
            .take_session()
            .ok_or(CreateError::TooMany { limit: limits.sessions })?;
        let token = request.sender.as_ref().and_then(|sender| sender.token.clone());
        let per_minute = limits.spawns_per_minute;
        let fast = |retry_after| CreateError::TooFast { per_minute, retry_after };
        inner.start_limits.take_spawn(token).map_err(fast)?;
        self.create_log_and_task(request, real, permit)
    }

    /// The log, the private file and the task.
    fn create_log_and_task(
        &self,
        request: NewSessionRequest,
        real: BTreeMap<PathBuf, PathBuf>,
        permit: CountPermit,
    ) -> Result<Begun, CreateError> {
        let inner = &self.inner;
        let id = request
            .spare
            .as_ref()
            .map_or_else(new_session_id, |spare| spare.session.clone());
        let bucket = request.bucket.unwrap_or_else(|| inner.workspaces.bucket_of(&request.cwd));
        let log_id = LogId::new(&bucket, id.as_str())
            .ok_or_else(|| CreateError::Storage("bad session id".to_owned()))?;
        let log = inner.storage.engine().create(&log_id).map_err(not_stored)?;
        let origin = Origin {
            session: id.clone(),
            adapter: request.adapter.into(),
            workspace: bucket.into(),
            cwd: request.cwd.display().to_string().into(),
            label: request.label.map(Into::into),
            name: request.name,
            by: request.sender,
            key: request.key,
            lineage: request.lineage,
            forked_from: request.fork.as_ref().map(|fork| fork.source.clone()),
            is_scope_lost: false,
        };
        let inputs = StartInputs {
            version: 1,
            capabilities: request.capabilities,
            prelude: request.prelude.iter().filter_map(|frame| Raw::new(frame.clone())).collect(),
            new_frame: request.frame,
            mode: request.mode,
            options: request.options,
            env: request.env,
            real,
            origin: Some(origin.clone()),
        };
        if let Err(error) = inner.keep_start_inputs(&log_id, &inputs) {
            drop(log);
            let _ = inner.storage.engine().remove(&log_id);
            return Err(io_error(&error, &error));
        }
        let mut new = NewSession::new(origin, inner.config.core_settings());
        if let Some(fork) = request.fork {
            (new.title, new.agent_settings) = (fork.title.map(Into::into), Some(fork.settings));
        }
        let (session, step) = Session::create(new, Now::millis());
        let attention = AttentionSource::new(Arc::clone(&log), inner.storage.epoch());
        let described = (Descriptor::of_session(&session, &attention), attention);
        let shared = Shared::new(id, log_id, log, Arc::clone(&inner.budget), Seq::ZERO, described);
        let ((started_tx, started), (created_tx, created)) =
            (oneshot::channel(), oneshot::channel());
        let first = FirstStart {
            adopted: None,
            silent_keeper: None,
            permit: Some(permit),
            spare: request.spare.map(|spare| spare.greeted),
            started_tx: Some(started_tx),
            created_tx: Some(created_tx),
            caller_waits: request.caller_waits,
        };
        let handle = inner.spawn_task(session, Arc::new(shared), step, first);
        Ok(Begun { handle, created, started })
    }
}

impl Inner {
    /// May these be named by a caller with this ground?
    pub(super) fn allow(
        &self,
        ground: &DirectoryScope,
        directories: &[PathBuf],
    ) -> Result<(), CreateError> {
        // An unreadable registry of workspaces covers no directory, and its reader reports the
        // error.
        self.workspaces.list_in_scope(ground)?;
        match directories
            .iter()
            .find(|path| !path.is_absolute() || !self.workspaces.allows_path(ground, path))
        {
            Some(path) => Err(CreateError::CwdNotAllowed { path: path.clone() }),
            None => Ok(()),
        }
    }
}

/// Why a session did not get into its log.
pub(super) fn not_created(error: CallError) -> CreateError {
    match error {
        CallError::StorageFull => CreateError::StorageFull,
        error @ (CallError::Refused(_)
        | CallError::TooMany { .. }
        | CallError::LogFull { .. }
        | CallError::Storage(_)
        | CallError::NotWritten { .. }
        | CallError::Left
        | CallError::Gone) => CreateError::Storage(error.to_string()),
    }
}

fn not_stored(error: StoreError) -> CreateError {
    match &error {
        StoreError::Io { source, .. } => io_error(source, &error),
        StoreError::NotFound(_)
        | StoreError::Exists(_)
        | StoreError::Newer { .. }
        | StoreError::Index(_)
        | StoreError::Recreated => CreateError::Storage(error.to_string()),
    }
}

fn io_error(source: &std::io::Error, told: &dyn std::fmt::Display) -> CreateError {
    if matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) {
        return CreateError::StorageFull;
    }
    if [Errno::MFILE, Errno::NFILE]
        .map(|errno| Some(errno.raw_os_error()))
        .contains(&source.raw_os_error())
    {
        return CreateError::NoFileDescriptors;
    }
    CreateError::Storage(told.to_string())
}
