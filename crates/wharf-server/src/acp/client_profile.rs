//! The client of a connection: its identity, its role, and its statement about itself.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use wharf_host::core::{ClientId, Peer, Role, Sender};
use wharf_host::new_client_id;

use super::client_info::ClientInfo;
use super::connection::ConnectionOptions;
use super::view::Wishes;
use crate::auth::Identity;
use crate::use_cases::Caller;

#[derive(Debug)]
pub(super) struct ClientProfile {
    identity: Identity,
    id: ClientId,
    peer: Option<Peer>,
    peer_name: Option<Arc<str>>,
    observes: bool,
    without_tools: bool,
    /// Set by the first `initialize`.
    info: OnceLock<ClientInfo>,
}

impl ClientProfile {
    pub(super) fn new(identity: Identity, options: &mut ConnectionOptions) -> Self {
        Self {
            identity,
            id: new_client_id(),
            peer: options.peer.take(),
            peer_name: options.peer_name.take(),
            observes: options.observes,
            without_tools: options.without_tools,
            info: OnceLock::new(),
        }
    }

    pub(super) fn id(&self) -> &ClientId {
        &self.id
    }

    pub(super) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Notes what the client says of itself. Only its first statement counts.
    pub(super) fn introduce(&self, info: ClientInfo) {
        let _ = self.info.set(info);
    }

    /// Returns the client's statement about itself, as far as it counts on this connection.
    pub(super) fn info(&self) -> ClientInfo {
        let info = self.info.get().cloned().unwrap_or_default();
        if self.without_tools { info.without_tools() } else { info }
    }

    /// Returns the sender that is recorded with the client's actions.
    pub(super) fn sender(&self) -> Sender {
        let info = self.info.get().cloned().unwrap_or_default();
        let client = self.id.clone();
        let chosen = info.chosen;
        let token = self.identity.token.clone();
        let name = self.peer_name.clone().or(info.name);
        let parent = self.identity.agent_session().cloned();
        Sender {
            client,
            chosen,
            name,
            version: info.version,
            token,
            parent,
            peer: self.peer.clone(),
        }
    }

    /// Returns the most that the token allows, and no more than the client asked for.
    pub(super) fn role(&self) -> Role {
        if self.observes { Role::Observer } else { self.identity.role() }
    }

    /// Returns the client as the use cases know it.
    pub(super) fn caller(&self) -> Caller {
        Caller::for_connection(self.identity.clone(), self.role(), self.sender())
    }

    /// Returns the part of the client's environment that its agents get.
    pub(super) fn env(&self) -> BTreeMap<String, String> {
        self.caller().allowed_env(BTreeMap::clone(&self.info().env))
    }

    /// Returns how the client wants to see sessions.
    pub(super) fn wishes(&self) -> Wishes {
        let info = self.info();
        let multi = info.multi_client_updates;
        let forms = info.abilities().forms;
        Wishes {
            role: self.role(),
            multi,
            event_ids: info.event_ids,
            forms,
            understood: info.understood(),
        }
    }
}
