//! The host's sessions as one caller sees them. Surfaces reach sessions through it alone, so that what a token does not
//! cover is for its holder as if it were not there (rule 10.2).

use std::sync::Arc;

use wharf_host::core::SessionId;
use wharf_host::{AgentDelete, CreateError, Descriptor, Host, OpenError, Renewal, SessionHandle};

use crate::App;
use crate::auth::{Identity, Scope};

#[derive(Clone, Debug)]
pub(crate) struct VisibleSessions {
    host: Host,
    scope: Scope,
}

impl App {
    pub(crate) fn visible_to(&self, identity: &Identity) -> VisibleSessions {
        VisibleSessions { host: self.host.clone(), scope: identity.scope.clone() }
    }
}

impl VisibleSessions {
    /// Every session in sight, in short.
    pub(crate) fn descriptors(&self) -> Vec<Arc<Descriptor>> {
        let mut known = self.host.descriptors();
        let lasts = self.is_scope_alive();
        known.retain(|known| lasts && self.scope.covers(known));
        known
    }

    /// What an agent covers it covers while its process lives, whoever holds its connection after that.
    fn is_scope_alive(&self) -> bool {
        match &self.scope {
            Scope::Session(badge) => self.host.is_agent_token_live(badge),
            Scope::Host | Scope::Workspace(_) => true,
        }
    }

    /// One session in short, without waking it.
    pub(crate) fn descriptor(&self, id: &SessionId) -> Option<Arc<Descriptor>> {
        self.host.descriptor(id).filter(|known| self.is_scope_alive() && self.scope.covers(known))
    }

    /// The session's handle; its agent is not woken.
    pub(crate) async fn open(&self, id: &SessionId) -> Result<SessionHandle, OpenError> {
        match self.descriptor(id) {
            Some(_) => self.host.open(id).await,
            None => Err(self.why_not_open(id)),
        }
    }

    /// Why a session that has no descriptor in sight cannot be opened.
    pub(crate) fn why_not_open(&self, id: &SessionId) -> OpenError {
        self.host.why_not_open(id, |bucket| match &self.scope {
            Scope::Host => true,
            Scope::Workspace(slug) => bucket == &**slug,
            Scope::Session(_) => false,
        })
    }

    /// See [`Host::renew`]. One out of sight is left as it is; who goes on to open it is told that there is none.
    pub(crate) fn renew_session(&self, id: &SessionId, renewal: &Renewal<'_>) -> Result<(), CreateError> {
        self.descriptor(id).map_or(Ok(()), |_| self.host.renew(id, renewal))
    }

    /// See [`Host::forget`]. `None` if there was no such session in sight.
    pub(crate) async fn forget_session(&self, id: &SessionId) -> Result<Option<AgentDelete>, OpenError> {
        match self.descriptor(id) {
            Some(_) => self.host.forget(id).await,
            None if matches!(self.why_not_open(id), OpenError::Unreadable { .. }) => self.host.forget(id).await,
            None => Ok(None),
        }
    }

    /// The session that an amux client means by this name.
    pub(crate) fn find_by_name(&self, name: &str) -> Option<Arc<Descriptor>> {
        let lasts = self.is_scope_alive();
        self.host.named(name, |known| lasts && self.scope.covers(known))
    }

    /// See [`Host::changes`]. It also changes for sessions out of sight.
    pub(crate) fn changes(&self) -> tokio::sync::watch::Receiver<u64> {
        self.host.changes()
    }
}
