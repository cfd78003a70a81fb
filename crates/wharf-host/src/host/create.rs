//! A new session: its log first, then its agent.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot;
use wharf_core::{NewSession, Origin, Raw, Sender, Seq, Session};
use wharf_store::LogId;

use super::{Host, Spare, StartInputs};
use crate::agent::introduction::StartFailure;
use crate::config::ConfigError;
use crate::descriptor::Descriptor;
use crate::ids::{Now, new_session_id};
use crate::session::handle::SessionHandle;
use crate::session::{Shared, Surroundings};

/// The bucket of sessions that belong to no registered workspace.
const DEFAULT_WORKSPACE: &str = "default";

#[derive(Debug)]
pub struct NewSessionRequest {
    pub adapter: String,
    pub cwd: PathBuf,
    pub label: Option<String>,
    /// The name by which amux clients find it (rule 9.1).
    pub name: Option<Arc<str>>,
    pub sender: Option<Sender>,
    /// The `session/new` request as it goes to the agent.
    pub frame: Raw,
    /// The JSON of `clientCapabilities` that the agent is told.
    pub capabilities: String,
    /// An agent that has been greeted already.
    pub spare: Option<Spare>,
    /// Requests that a fresh agent is to be sent before its session: a login that succeeded before.
    pub prelude: Vec<Bytes>,
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
    Adapter(#[from] ConfigError),
    #[error("{path} is not an absolute path to a directory; give the session an existing cwd", path = path.display())]
    Cwd { path: PathBuf },
    #[error("{limit} sessions are running (limits.sessions); end one first")]
    TooMany { limit: usize },
    #[error("the session's log cannot be made: {0}")]
    Storage(String),
    #[error("{}", .failure.message)]
    Start { session: String, failure: StartFailure },
}

/// Tells when the agent is up, or why not.
type Starting = oneshot::Receiver<Result<crate::session::Started, StartFailure>>;

impl Host {
    /// Creates a session and waits until its agent is up.
    pub async fn create(&self, request: NewSessionRequest) -> Result<Created, CreateError> {
        let (handle, started) = self.begin_session(request)?;
        let session = handle.id().to_string();
        match started.await {
            Ok(Ok(started)) => Ok(Created { handle, seq: started.seq, answer: started.answer }),
            Ok(Err(failure)) => Err(CreateError::Start { session, failure }),
            Err(_) => Err(CreateError::Start { session, failure: StartFailure::new("the session was stopped") }),
        }
    }

    /// Checks what can be checked before anything is made; then the log, and the agent's start.
    pub(super) fn begin_session(&self, request: NewSessionRequest) -> Result<(SessionHandle, Starting), CreateError> {
        self.inner.config.agent(&request.adapter)?;
        if !request.cwd.is_absolute() || !request.cwd.is_dir() {
            return Err(CreateError::Cwd { path: request.cwd });
        }
        let limit = self.inner.config.limits.sessions;
        let alive = self.inner.registry.descriptors().iter().filter(|known| known.status.is_alive()).count();
        if alive >= limit {
            return Err(CreateError::TooMany { limit });
        }
        self.found(request)
    }

    /// The log, the private file and the task.
    fn found(&self, request: NewSessionRequest) -> Result<(SessionHandle, Starting), CreateError> {
        let inner = &self.inner;
        let id = new_session_id();
        let storage = |error: &dyn std::fmt::Display| CreateError::Storage(error.to_string());
        let log_id = LogId::new(DEFAULT_WORKSPACE, id.as_str()).ok_or_else(|| storage(&"bad session id"))?;
        let log = inner.engine.create(&log_id).map_err(|error| storage(&error))?;
        let inputs = StartInputs {
            version: 1,
            capabilities: request.capabilities,
            prelude: request.prelude.iter().filter_map(|frame| Raw::new(frame.clone())).collect(),
            new_frame: request.frame,
        };
        inner.keep_start_inputs(&log_id, &inputs).map_err(|error| storage(&error))?;
        let origin = Origin {
            session: id.clone(),
            adapter: request.adapter.into(),
            workspace: DEFAULT_WORKSPACE.into(),
            cwd: request.cwd.display().to_string().into(),
            label: request.label.map(Into::into),
            name: request.name,
            by: request.sender,
        };
        let (session, step) =
            Session::create(NewSession { origin, settings: inner.config.core_settings() }, Now::millis());
        let descriptor = Descriptor::of(&session);
        let shared = Shared::new(id, log_id, log, Arc::clone(&inner.budget), Seq::ZERO, descriptor);
        let (started, wait) = oneshot::channel();
        let spare = request.spare.map(|spare| spare.greeted);
        let around = Surroundings { spare, started: Some(started), ..inner.surroundings() };
        Ok((inner.employ(session, Arc::new(shared), Some((step, around))), wait))
    }
}
