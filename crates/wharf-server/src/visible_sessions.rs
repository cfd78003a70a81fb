//! The host's sessions that one caller may see. Surfaces reach sessions through this module alone,
//! so that a session that a token does not cover does not exist for its holder (rule 10.2).

use std::sync::Arc;

use wharf_host::core::SessionId;
use wharf_host::{AgentDelete, CreateError, Descriptor, Host, OpenError, Renewal, SessionHandle};

use crate::App;
use crate::auth::{Identity, Scope};

#[derive(Clone, Debug)]
pub(crate) struct VisibleSessions {
    host: Host,
    scope: Scope,
    is_admin: bool,
}

impl App {
    pub(crate) fn visible_to(&self, identity: &Identity) -> VisibleSessions {
        VisibleSessions {
            host: self.host.clone(),
            scope: identity.scope.clone(),
            is_admin: identity.is_admin(),
        }
    }
}

impl VisibleSessions {
    /// Returns the descriptors of all visible sessions.
    pub(crate) fn descriptors(&self) -> Vec<Arc<Descriptor>> {
        let mut known = self.host.descriptors();
        let lasts = self.is_scope_alive();
        known.retain(|known| lasts && self.covers(known));
        known
    }

    /// Returns true if the caller may know of this session. One whose scope is unknown is for
    /// admins alone.
    fn covers(&self, known: &Descriptor) -> bool {
        self.scope.covers(known) && (self.is_admin || !known.is_scope_lost())
    }

    /// Returns false if the scope is an agent's and the agent's process has ended. Its connection
    /// may outlive it in the hands of another process.
    fn is_scope_alive(&self) -> bool {
        match &self.scope {
            Scope::Session(badge) => self.host.is_agent_token_live(badge),
            Scope::Host | Scope::Workspace(_) => true,
        }
    }

    /// Returns true if the caller sees this session.
    pub(crate) fn sees(&self, known: &Descriptor) -> bool {
        self.is_scope_alive() && self.covers(known)
    }

    /// Returns the descriptor of one session, without waking the session.
    pub(crate) fn descriptor(&self, id: &SessionId) -> Option<Arc<Descriptor>> {
        self.host
            .descriptor(id)
            .filter(|known| self.is_scope_alive() && self.covers(known))
    }

    /// Returns the session's handle, without waking its agent.
    pub(crate) async fn open(&self, id: &SessionId) -> Result<SessionHandle, OpenError> {
        match self.descriptor(id) {
            Some(_) => self.host.open(id).await,
            None => Err(self.why_not_open(id)),
        }
    }

    /// Returns the reason why a session without a visible descriptor cannot be opened.
    pub(crate) fn why_not_open(&self, id: &SessionId) -> OpenError {
        self.host.why_not_open(id, |bucket| match &self.scope {
            Scope::Host => true,
            Scope::Workspace(slug) => bucket == &**slug,
            Scope::Session(_) => false,
        })
    }

    /// Calls [`Host::renew`]. A session that is not visible is left as it is; opening it fails as
    /// unknown.
    pub(crate) fn renew_session(
        &self,
        id: &SessionId,
        renewal: &Renewal<'_>,
    ) -> Result<(), CreateError> {
        self.descriptor(id).map_or(Ok(()), |_| self.host.renew(id, renewal))
    }

    /// Calls [`Host::forget`]. Returns `None` if no such session is visible.
    pub(crate) async fn forget_session(
        &self,
        id: &SessionId,
    ) -> Result<Option<AgentDelete>, OpenError> {
        match self.descriptor(id) {
            Some(_) => self.host.forget(id).await,
            None if matches!(self.why_not_open(id), OpenError::Unreadable { .. }) => {
                self.host.forget(id).await
            }
            None => Ok(None),
        }
    }

    /// Returns the session that an amux client means by this name.
    pub(crate) fn find_by_name(&self, name: &str) -> Option<Arc<Descriptor>> {
        let lasts = self.is_scope_alive();
        self.host.named(name, |known| lasts && self.covers(known))
    }

    /// Returns the receiver of [`Host::changes`]. It also changes for sessions that are not
    /// visible.
    pub(crate) fn changes(&self) -> tokio::sync::watch::Receiver<u64> {
        self.host.changes()
    }
}
