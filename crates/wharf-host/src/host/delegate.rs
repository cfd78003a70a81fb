//! Decides which sessions an agent may start, before the host creates anything, and ends or wakes
//! these children later.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use wharf_config::{Children, SpawnLocation};
use wharf_core::{EndReason, Refusal, SessionId};

use super::{CreateError, Host, Inner, SpawnRequest};
use crate::descriptor::Descriptor;
use crate::session::handle::{CallError, SessionHandle};

/// Says why an agent may not have this child. The host has not created anything.
#[derive(Debug, thiserror::Error)]
pub enum DelegationError {
    #[error(
        "an agent of {parent:?} may not start one of {child:?}; the operator of this host allows it with [delegation] allow"
    )]
    Adapter { parent: String, child: String },
    #[error("an agent may not choose the {0} of the agents that it starts; leave that out")]
    Choice(&'static str),
    #[error("the session {0} has ended; only the agent of one that runs may start others")]
    Ended(SessionId),
    #[error("{path} is not inside {parent}, the directory of the session that starts it; give a directory inside, or none", path = path.display(), parent = parent.display())]
    Outside { path: PathBuf, parent: PathBuf },
    #[error(
        "a session here may be {limit} deep (delegation.max_depth), and this one would be deeper"
    )]
    TooDeep { limit: usize },
    #[error(
        "{limit} children of this session are alive already (delegation.max_children); end one first"
    )]
    TooMany { limit: usize },
}

impl DelegationError {
    /// The word of AIP-46 that programs can rely on.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Adapter { .. } | Self::Choice(_) | Self::Ended(_) => "delegation_denied",
            Self::Outside { .. } => "cwd_outside_parent",
            Self::TooDeep { .. } => "max_depth_exceeded",
            Self::TooMany { .. } => "child_quota_exceeded",
        }
    }
}

/// Says where a child runs and which sessions it descends from.
pub(super) struct Child {
    pub(super) place: SpawnLocation,
    pub(super) directories: Vec<PathBuf>,
    pub(super) lineage: Vec<SessionId>,
}

impl Inner {
    /// Decides on a child. The caller holds `delegating` until the child can be counted.
    pub(super) fn child(
        &self,
        parent: &SessionId,
        wanted: &SpawnRequest,
    ) -> Result<Child, CreateError> {
        let known = self.registry.get(parent).map(|known| known.descriptor());
        let Some(above) = known.filter(|above| above.status.is_alive()) else {
            return Err(DelegationError::Ended(parent.clone()).into());
        };
        let settings = &self.config.delegation;
        if !settings.allows(&above.adapter_slug, &wanted.adapter) {
            let parent = above.adapter_slug.clone();
            let child = wanted.adapter.clone();
            return Err(DelegationError::Adapter { parent, child }.into());
        }
        plain(wanted)?;
        if above.depth + 1 > settings.max_depth {
            return Err(DelegationError::TooDeep { limit: settings.max_depth }.into());
        }
        let root = self.root_of(&above, parent)?;
        let place = place(&above, &root, wanted)?;
        let directories: Result<_, _> =
            wanted.additional_directories.iter().map(|dir| inside(&root, dir)).collect();
        self.room_for(parent, None)?;
        let mut lineage = above.lineage.clone();
        lineage.push(parent.clone());
        Ok(Child { place, directories: directories?, lineage })
    }

    /// The parent's directory, links resolved, as it was when its session was made. If it leads
    /// elsewhere by now, an agent may have put a link there to let a child out.
    fn root_of(&self, above: &Descriptor, parent: &SessionId) -> Result<PathBuf, CreateError> {
        let named = PathBuf::from(&above.cwd);
        let outside = || DelegationError::Outside { path: named.clone(), parent: named.clone() };
        let log_id = self
            .registry
            .get(parent)
            .map(|known| known.log_id().clone())
            .ok_or_else(outside)?;
        let inputs = self
            .start_inputs(&log_id)
            .map_err(|failure| CreateError::Storage(failure.message))?;
        let was = inputs.real.get(&named).ok_or_else(outside)?;
        let is = named.canonicalize().map_err(|_| outside())?;
        if is == *was { Ok(is) } else { Err(outside().into()) }
    }

    /// Fails if `parent` has `max_children` living children. `besides` is not counted, since it may
    /// be one of them.
    fn room_for(
        &self,
        parent: &SessionId,
        besides: Option<&SessionId>,
    ) -> Result<(), DelegationError> {
        let limit = self.config.delegation.max_children;
        let all = self.registry.list_descriptors();
        let mut alive: Vec<&Arc<Descriptor>> =
            all.iter().filter(|known| known.status.is_alive()).collect();
        alive.retain(|known| known.parent_session_id.as_deref() == Some(parent.as_str()));
        alive.retain(|known| besides.is_none_or(|besides| known.id != besides.as_str()));
        if alive.len() >= limit { Err(DelegationError::TooMany { limit }) } else { Ok(()) }
    }

    /// A user ended the session: so do those that its agent led to, unless they are to be kept.
    pub(crate) fn end_descendants(self: &Arc<Self>, of: &SessionId) {
        if self.config.delegation.children == Children::Keep
            || self.config.delegation.allow.is_empty()
        {
            return;
        }
        let inner = Arc::clone(self);
        let of = of.clone();
        tokio::spawn(async move {
            // While this lock is held, every child that is starting is registered and no new child
            // can start.
            let _one = inner.locks.delegating.lock().await;
            let mut below = inner.registry.list_descriptors();
            // A child whose prompts wait would be brought back for them.
            below.retain(|known| {
                known.descends_from(&of) && (known.status.is_alive() || known.queued > 0)
            });
            let host = Host { inner: Arc::clone(&inner) };
            for known in below {
                if let Ok(handle) = host.open(&SessionId::new(known.id.as_str())).await {
                    let _ = handle.kill(EndReason::Closed).await;
                }
            }
        });
    }
}

impl Host {
    /// Brings a child back, for its parent, if it sleeps and there is room for it. A child that was
    /// killed stays dead.
    pub async fn wake_child(
        &self,
        parent: &SessionId,
        child: &SessionHandle,
    ) -> Result<(), CreateError> {
        let _one = self.inner.locks.delegating.lock().await;
        let known = child.descriptor();
        if known.status.is_alive() || known.end_reason == Some(EndReason::User) || !known.resumable
        {
            return Ok(());
        }
        // A deeper one counts where it was started.
        let above = known
            .parent_session_id
            .as_deref()
            .map_or_else(|| parent.clone(), SessionId::new);
        self.inner.room_for(&above, Some(child.id()))?;
        match child.wake().await {
            Ok(())
            | Err(CallError::Refused(
                Refusal::AlreadyRunning | Refusal::NotResumable | Refusal::Killed,
            )) => Ok(()),
            Err(CallError::StorageFull) => Err(CreateError::StorageFull),
            Err(error) => Err(CreateError::Storage(error.to_string())),
        }
    }
}

/// A child runs as the operator set its adapter up: a mode, an option or a server of the parent's
/// choice could give it rights that the parent does not have.
fn plain(wanted: &SpawnRequest) -> Result<(), DelegationError> {
    let chosen = [
        ("mode", wanted.mode.is_some()),
        ("options", !wanted.options.is_empty()),
        ("MCP servers", !wanted.mcp_servers.is_empty()),
    ];
    chosen
        .iter()
        .find(|(_, chosen)| *chosen)
        .map_or(Ok(()), |(what, _)| Err(DelegationError::Choice(what)))
}

/// The parent's directory, or one inside; always the parent's workspace.
fn place(
    above: &Descriptor,
    root: &Path,
    wanted: &SpawnRequest,
) -> Result<SpawnLocation, CreateError> {
    if let Some(slug) = wanted.workspace.as_ref().filter(|slug| **slug != above.workspace_slug) {
        let path = wanted.cwd.clone().unwrap_or_else(|| format!("the workspace {slug:?}").into());
        return Err(DelegationError::Outside { path, parent: PathBuf::from(&above.cwd) }.into());
    }
    let cwd = wanted.cwd.as_deref().unwrap_or(root);
    Ok(SpawnLocation {
        cwd: inside(root, cwd)?,
        bucket: above.workspace_slug.clone(),
        warnings: Vec::new(),
    })
}

/// The directory itself, links resolved: what a name leads to later does not count.
fn inside(root: &Path, path: &Path) -> Result<PathBuf, CreateError> {
    let invalid = || CreateError::Cwd { path: path.to_owned() };
    let real = Some(path)
        .filter(|path| path.is_absolute())
        .and_then(|path| path.canonicalize().ok());
    let real = real.filter(|real| real.is_dir()).ok_or_else(invalid)?;
    if real.starts_with(root) {
        return Ok(real);
    }
    Err(DelegationError::Outside { path: path.to_owned(), parent: root.to_owned() }.into())
}
