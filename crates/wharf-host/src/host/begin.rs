//! Starting the host: take the lease, end what an earlier one left running, and bring every log to a definite state.

use std::collections::HashMap;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::Mutex;
use wharf_core::{EndReason, Epoch, Input, SessionId};
use wharf_store::{
    FileEngine, FileLease, FileOptions, Index, IndexRow, Lease, LeaseError, LogStat, SqliteIndex, StoreError,
};

use super::rate::Rate;
use super::{Host, Inner, start_file};
use crate::agent::sweep::{self, Records};
use crate::config::{Config, ResumeOnStart};
use crate::descriptor::Descriptor;
use crate::ids::{Now, random_text};
use crate::index::IndexWriter;
use crate::metrics::Metrics;
use crate::registry::{Known, Registry};
use crate::session::TailBudget;
use crate::workspaces::Workspaces;

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the state directory {path} is in use by the host with pid {pid}; stop it first, or choose another --state-dir", path = path.display())]
    Held { path: PathBuf, pid: String },
    #[error("the state directory {path} cannot be used: {why}", path = path.display())]
    StateDir { path: PathBuf, why: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Host {
    /// Brings the host up. Blocking work: called once, before anything is served.
    pub fn begin(config: Config) -> Result<Self, StartError> {
        let root = config.state_dir.clone();
        let unusable = |why: &dyn std::fmt::Display| StartError::StateDir { path: root.clone(), why: why.to_string() };
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&root).map_err(|error| unusable(&error))?;
        keep_private(&root).map_err(|error| unusable(&error))?;
        let lease = FileLease::acquire(&root).map_err(|error| match error {
            LeaseError::Held { pid, .. } => StartError::Held {
                path: root.clone(),
                pid: pid.map_or_else(|| "unknown".to_owned(), |pid| pid.to_string()),
            },
            error @ (LeaseError::EpochLost { .. } | LeaseError::Io { .. }) => unusable(&error),
        })?;
        let state_id = state_id(&root).map_err(|error| unusable(&error))?;
        let records = Records::new(root.join("run"));
        let strays = records.sweep() + sweep::kill_tagged(&state_id);
        if strays > 0 {
            tracing::info!(strays, "ended agent processes that an earlier host had left behind");
        }
        let engine = FileEngine::open(FileOptions::new(root.clone()))?;
        let index: Arc<dyn Index> = SqliteIndex::open(&root.join("index.db"))?;
        let budget = Arc::new(TailBudget::new(config.limits.tail.0, config.limits.tail_total.0));
        let workspaces = Workspaces::of(&root);
        if let Err(error) = workspaces.list() {
            tracing::warn!(%error, "the registry of workspaces cannot be read");
        }
        let places = Arc::new(tokio::sync::Semaphore::new(config.limits.sessions));
        let spare_places = Arc::new(tokio::sync::Semaphore::new(config.limits.sessions));
        let rate = Rate::new(config.limits.spawns_per_minute);
        let inner = Arc::new(Inner {
            config,
            workspaces,
            registry: Registry::default(),
            index: IndexWriter::start(Arc::clone(&index)),
            engine,
            epoch: Epoch(lease.epoch()),
            budget,
            metrics: Metrics::default(),
            records,
            badges: Arc::default(),
            url: tokio::sync::watch::Sender::new("".into()),
            state_id,
            introductions: std::sync::Mutex::default(),
            opening: Mutex::new(()),
            spawning: Mutex::new(()),
            delegating: Mutex::new(()),
            places,
            spare_places,
            rate,
            _lease: lease,
        });
        let back = inner.reconcile(&*index)?;
        let host = Self { inner };
        host.bring_back(back);
        crate::accounts::keep(&host.inner);
        Ok(host)
    }
}

/// Agents that are started at once when many sessions come back: more would only make each slower.
const BACK_AT_ONCE: usize = 4;

impl Host {
    /// Starts the agents of sessions that are to come back, a few at a time.
    fn bring_back(&self, sessions: Vec<SessionId>) {
        let places = Arc::new(tokio::sync::Semaphore::new(BACK_AT_ONCE));
        for id in sessions {
            let (host, places) = (self.clone(), Arc::clone(&places));
            tokio::spawn(async move {
                host.announced().await;
                let Ok(_place) = places.acquire().await else { return };
                let Ok(handle) = host.open(&id).await else { return };
                if handle.resume().await.is_ok()
                    && let Err(failure) = handle.up().await
                {
                    // Not the message, which holds what the agent wrote: the session tells it.
                    tracing::warn!(session = %id, code = failure.exit_code, "a session did not come back");
                }
            });
        }
    }
}

impl Inner {
    /// Makes every log known. One that the index knows whole and ended is only listed; any other is read, and if it
    /// was alive when its host died, it is given its end now (rule 2.7).
    fn reconcile(self: &Arc<Self>, index: &dyn Index) -> Result<Vec<SessionId>, StartError> {
        let mut back = Vec::new();
        let mut rows: HashMap<_, IndexRow> =
            index.all().unwrap_or_default().into_iter().map(|row| (row.id.clone(), row)).collect();
        for stat in self.engine.list()? {
            let row = rows.remove(&stat.id);
            let known = row.as_ref().and_then(|row| ended(row, &stat));
            match known {
                Some(descriptor) => {
                    let snapshot = row.and_then(|row| row.snapshot);
                    let id = SessionId::new(stat.id.name());
                    if self.wants_back(&descriptor) {
                        back.push(id.clone());
                    }
                    let (log_id, bytes, descriptor) = (stat.id, stat.bytes, Arc::new(descriptor));
                    self.registry.put(id, Known::Cold { log_id, descriptor, snapshot, bytes });
                }
                None => back.extend(self.recover(&stat, row.and_then(|row| row.snapshot))),
            }
        }
        for gone in rows.into_keys() {
            self.index.remove(gone);
        }
        Ok(back)
    }

    /// Is this one to be started again by itself?
    fn wants_back(&self, descriptor: &Descriptor) -> bool {
        let wanted = match self.config.resume_on_start {
            ResumeOnStart::None => false,
            ResumeOnStart::Queued => descriptor.queued > 0,
            ResumeOnStart::All => true,
        };
        wanted && descriptor.resumable && descriptor.end_reason != Some(EndReason::User)
    }

    /// Reads a log and ends what its host could not end. The id, if the session is to come back.
    fn recover(self: &Arc<Self>, stat: &LogStat, snapshot: Option<u64>) -> Option<SessionId> {
        match self.thaw(&stat.id, snapshot) {
            Ok((mut session, shared)) => {
                let step = session.handle(Input::HostRestarted, Now::millis());
                let descriptor = Descriptor::of(&session);
                let first = (step, self.surroundings());
                let handle = self.employ(session, shared, Some(first));
                self.wants_back(&descriptor).then(|| handle.id().clone())
            }
            Err(error) => {
                tracing::error!(log = %stat.id, %error, "this session cannot be read and is left alone");
                None
            }
        }
    }
}

/// The row's descriptor, if the row tells the whole log and the session was over.
fn ended(row: &IndexRow, stat: &LogStat) -> Option<Descriptor> {
    let descriptor = Descriptor::from_summary(&row.summary)?;
    (row.bytes == stat.bytes && !descriptor.status.is_alive()).then_some(descriptor)
}

/// A directory that was there before may be open to others; what Wharf keeps in it must not be (rule 10.6).
fn keep_private(root: &Path) -> std::io::Result<()> {
    let permissions = std::fs::metadata(root)?.permissions();
    if permissions.mode() & 0o077 != 0 {
        tracing::warn!(dir = %root.display(), "the state directory was open to others; it is now yours alone");
        std::fs::set_permissions(root, std::fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

fn state_id(root: &Path) -> std::io::Result<String> {
    let path = root.join("id");
    match std::fs::read_to_string(&path) {
        Ok(id) if id.trim().len() == 20 => Ok(id.trim().to_owned()),
        Ok(_) => Err(std::io::Error::other(format!("{} is damaged; delete it", path.display()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let id = random_text(20);
            start_file::write_private(&path, id.as_bytes())?;
            Ok(id)
        }
        Err(error) => Err(error),
    }
}
