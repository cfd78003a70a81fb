//! The clients that are attached to a session, for a listing.

use std::collections::BTreeMap;

use tokio::sync::oneshot;
use wharf_core::{Member, Millis, Session};

use super::clients::Clients;
use super::command::Command;
use super::handle::{CallError, SessionHandle};

/// The way by which a client is connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    #[default]
    WebSocket,
    Http,
    /// A WebSocket that is bound to one session.
    Amux,
}

/// A client that is attached to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachedClient {
    pub member: Member,
    /// The time at which it came.
    pub since: Millis,
    pub transport: Option<Transport>,
    /// How many connections it has to this session.
    pub connections: usize,
}

impl SessionHandle {
    /// Returns the attached clients in the order in which they came, without the session's own
    /// agent.
    pub async fn clients(&self) -> Result<Vec<AttachedClient>, CallError> {
        let (reply, wait) = oneshot::channel();
        self.send(Command::Clients { reply }).await?;
        wait.await.map_err(|_| CallError::Gone)
    }
}

impl Clients {
    pub(super) fn list(&self, session: &Session) -> Vec<AttachedClient> {
        let own = Some(&session.state().origin.session);
        let mut listed: BTreeMap<_, AttachedClient> = BTreeMap::new();
        for (member, since) in
            session.attached().filter(|(member, _)| member.sender.parent.as_ref() != own)
        {
            let transport = self.transport_of(&member.sender.client);
            let client =
                || AttachedClient { member: member.clone(), since, transport, connections: 0 };
            let known = listed.entry(member.sender.identity()).or_insert_with(client);
            known.connections += 1;
            known.since = known.since.min(since);
        }
        let mut listed: Vec<_> = listed.into_values().collect();
        listed.sort_by_key(|client| client.since);
        listed
    }
}
