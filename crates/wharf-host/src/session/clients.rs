//! The attached clients: how the session reaches each of them past the log, which client serves the
//! agent, and which requests of the agent each client has.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use wharf_core::{ClientId, Member, Raw, Sender, Seq, Session};

use super::agent_connection::{AgentRequest, Whom};
use super::attached::Transport;
use super::close_signal::CloseReason;
use super::command::Command;
use super::context::TaskContext;
use super::handle::{Abilities, Attendance, Direct, LaneMessage, Serves};
use super::terminal_transcript::terminal_of;

/// How long a client may take over a request of the agent that it serves alone. A person may be
/// asked in between.
const SERVED_WITHIN: Duration = Duration::from_secs(300);

/// Links that are kept for clients that may come back, for each session. A person opens one at a
/// time.
const MAX_KEPT_LINKS: usize = 16;
/// A larger elicitation is not kept. A link with its message has a few hundred bytes.
const MAX_LINK_BYTES: usize = 64 << 10;

type Lanes = BTreeMap<ClientId, Attendance>;

/// A request of the agent that one client has been given.
#[derive(Debug)]
pub(super) struct Relay {
    pub(super) client: ClientId,
    pub(super) agent_request: Raw,
    /// The terminal whose output is asked for.
    pub(super) output_of: Option<String>,
    /// A link that a client was asked to open, if the client can be known again on another
    /// connection.
    link: Option<OpenLink>,
}

/// A URL elicitation. It stays its client's own over reconnects (rule 12.4).
#[derive(Debug)]
struct OpenLink {
    owner: Sender,
    frame: Bytes,
}

#[derive(Debug)]
pub(super) struct Clients {
    context: Arc<TaskContext>,
    lanes: Lanes,
    /// Clients that left while the agent owed them answers.
    departed: Lanes,
    /// The client that serves files and terminals: the last that created, loaded or resumed the
    /// session.
    server: Option<ClientId>,
    relays: HashMap<u64, Relay>,
    last_relay: u64,
}

impl Clients {
    pub(super) fn new(context: Arc<TaskContext>) -> Self {
        let lanes = Lanes::new();
        let departed = Lanes::new();
        let relays = HashMap::new();
        Self {
            context,
            lanes,
            departed,
            server: None,
            relays,
            last_relay: 0,
        }
    }

    pub(super) fn is_here(&self, client: &ClientId) -> bool {
        self.lanes.contains_key(client)
    }

    /// Returns what an attached client can do; `None` if it is not attached.
    pub(super) fn abilities_of(&self, client: &ClientId) -> Option<Abilities> {
        self.lanes.get(client).map(|attendance| attendance.abilities)
    }

    /// Returns how a client's connection came; `None` if it is not attached.
    pub(super) fn transport_of(&self, client: &ClientId) -> Option<Transport> {
        self.lanes.get(client).map(|attendance| attendance.transport)
    }

    /// Notes a client's lane and abilities.
    pub(super) fn attend(&mut self, client: ClientId, attendance: Attendance) {
        let served = self.server.as_ref().is_some_and(|server| self.is_here(server));
        if attendance.serves == Serves::Yes || (attendance.serves == Serves::Again && !served) {
            self.server = Some(client.clone());
        }
        self.departed.remove(&client);
        self.lanes.insert(client, attendance);
    }

    /// Drops a client's lane, or keeps it for the answers that the agent owes. Returns the agent's
    /// requests to this client that will get no answer. Links are not among them: they wait for the
    /// client's next connection.
    pub(super) fn leave(
        &mut self,
        client: &ClientId,
        is_owed: bool,
        session: &Session,
    ) -> Vec<u64> {
        if let Some(left) = self.lanes.remove(client).filter(|_| is_owed) {
            self.departed.insert(client.clone(), left);
        }
        let left = self.relays.iter().filter(|(_, relay)| relay.client == *client);
        let (kept, lost): (Vec<_>, Vec<_>) = left.partition(|(_, relay)| relay.link.is_some());
        let kept: Vec<u64> = kept.into_iter().map(|(id, _)| *id).collect();
        let lost = lost.into_iter().map(|(id, _)| *id).collect();
        for relay in kept {
            self.ask_link_again(relay, session);
        }
        lost
    }

    /// Asks a client that has just attached for the links that were open when its last connection
    /// ended.
    pub(super) fn ask_links_again(&mut self, client: &Sender, session: &Session) {
        let waits = |relay: &Relay| {
            !self.is_here(&relay.client)
                && relay.link.as_ref().is_some_and(|link| link.owner.is_same_client(client))
        };
        let mut waiting: Vec<u64> = self
            .relays
            .iter()
            .filter(|(_, relay)| waits(relay))
            .map(|(id, _)| *id)
            .collect();
        waiting.sort_unstable();
        for relay in waiting {
            self.ask_link_again(relay, session);
        }
    }

    /// Asks for a link on another connection of its client. While there is none it waits: until the
    /// client is back, until the agent takes it back, or until its time is over.
    fn ask_link_again(&mut self, relay: u64, session: &Session) {
        let Some(link) = self.relays.get(&relay).and_then(|open| open.link.as_ref()) else {
            return;
        };
        let able = |client: &ClientId| {
            self.lanes.get(client).is_some_and(|known| known.can("elicitation/create"))
        };
        let Some(client) = connection_of(&link.owner, session, able) else { return };
        let frame = link.frame.clone();
        if let Some(open) = self.relays.get_mut(&relay) {
            open.client = client.clone();
        }
        self.send(&client, Direct::Request { relay, frame }, session.head());
    }

    /// Forgets a client that has left: the agent owes it nothing any more.
    pub(super) fn forget_departed(&mut self, client: &ClientId) {
        self.departed.remove(client);
    }

    /// Disconnects every client: the log has failed.
    pub(super) fn disconnect(&self) {
        for attendance in self.lanes.values() {
            attendance.close.raise(CloseReason::LogFailed);
        }
    }

    /// Tells the other clients that one has come or gone.
    pub(super) fn announce(&mut self, member: &Member, connected: bool, after: Seq) {
        let others: Vec<_> = self
            .lanes
            .keys()
            .filter(|client| **client != member.sender.client)
            .cloned()
            .collect();
        for client in others {
            self.send(&client, Direct::Presence { member: member.clone(), connected }, after);
        }
    }

    /// Puts a message into a client's lane, to be delivered after that event. One whose lane is
    /// full is dropped, and its connection closes.
    pub(super) fn send(&mut self, client: &ClientId, direct: Direct, after: Seq) {
        let Some(known) = self.lanes.get(client).or_else(|| self.departed.get(client)) else {
            return;
        };
        let shared = &self.context.shared;
        let session = shared.id.clone();
        let permit = direct.count(&known.lane, shared.tail.buffers());
        let message = permit.map(|permit| LaneMessage { session, after, direct, permit });
        if message.is_none_or(|message| known.lane.try_send(message).is_err()) {
            known.close.raise(CloseReason::Unread);
            self.lanes.remove(client);
        }
    }

    /// Sends a notification of the agent that is not an event to the client whose prompt runs, else
    /// to the serving client.
    pub(super) fn send_note(&mut self, frame: Bytes, session: &Session) {
        let prompter = prompter(session, |client| self.is_here(client));
        if let Some(client) = prompter.or_else(|| self.server.clone()) {
            self.send(&client, Direct::Frame(frame), session.head());
        }
    }

    /// Returns the client that is to serve the agent's request: never more than one (rule 3.8).
    pub(super) fn choose_for(&self, request: &AgentRequest, session: &Session) -> Option<ClientId> {
        let able = |client: &ClientId| {
            self.lanes.get(client).is_some_and(|known| known.can(&request.method))
        };
        let server = || self.server.clone().filter(able);
        match &request.whom {
            Whom::Requester(client) => Some(client.clone()).filter(|client| self.is_here(client)),
            Whom::Server => server(),
            // A link is only for the client whose prompt runs: the server must not get it instead.
            Whom::Prompter if request.method == "elicitation/create" => prompter(session, able),
            Whom::Prompter => prompter(session, able).or_else(server),
        }
    }

    /// Gives a request of the agent to a client.
    pub(super) fn relay(&mut self, client: ClientId, request: AgentRequest, session: &Session) {
        self.last_relay += 1;
        let relay = self.last_relay;
        let link = self.link_of(&request, session);
        let AgentRequest { agent_request, frame, method, .. } = request;
        let output_of = if method == "terminal/output" { terminal_of(&frame) } else { None };
        self.relays
            .insert(relay, Relay { client: client.clone(), agent_request, output_of, link });
        self.send(&client, Direct::Request { relay, frame }, session.head());
        // A command may run for hours; its client's pings tell whether it is still there.
        if method != "terminal/wait_for_exit" {
            let commands = self.context.commands.clone();
            tokio::spawn(async move {
                tokio::time::sleep(SERVED_WITHIN).await;
                let _ = commands.send(Command::RelayLate { relay }).await;
            });
        }
    }

    /// Returns the link that the request asks a client to open, if it is kept for the client's next
    /// connection.
    fn link_of(&self, request: &AgentRequest, session: &Session) -> Option<OpenLink> {
        let is_link =
            request.method == "elicitation/create" && matches!(request.whom, Whom::Prompter);
        let owner = session.state().turns.last().map(|turn| &turn.sender).filter(|_| is_link)?;
        let kept = self.relays.values().filter(|open| open.link.is_some()).count();
        let fits = request.frame.len() <= MAX_LINK_BYTES && kept < MAX_KEPT_LINKS;
        (fits && owner.is_known_again())
            .then(|| OpenLink { owner: owner.clone(), frame: request.frame.clone() })
    }

    /// Takes a relayed request that its client has answered; only the client that was asked may
    /// answer.
    pub(super) fn take_answered(&mut self, client: &ClientId, relay: u64) -> Option<Relay> {
        self.relays.get(&relay).filter(|open| open.client == *client)?;
        self.relays.remove(&relay)
    }

    /// Takes a relayed request back from its client.
    pub(super) fn withdraw(&mut self, relay: u64, after: Seq) -> Option<Relay> {
        let open = self.relays.remove(&relay)?;
        self.send(&open.client, Direct::Withdraw { relay }, after);
        Some(open)
    }

    /// Takes back the relayed request that the agent knows by this id.
    pub(super) fn withdraw_request(&mut self, agent_request: &Raw, after: Seq) -> Option<Relay> {
        let found = self
            .relays
            .iter()
            .find(|(_, open)| open.agent_request == *agent_request)
            .map(|(id, _)| *id);
        self.withdraw(found?, after)
    }

    /// Takes all relayed requests back: the agent is gone, and owes clients that have left nothing.
    pub(super) fn withdraw_all(&mut self, after: Seq) {
        self.departed.clear();
        for (relay, open) in std::mem::take(&mut self.relays) {
            self.send(&open.client, Direct::Withdraw { relay }, after);
        }
    }
}

/// Returns a connection of the client whose prompt runs: the connection that sent the prompt, else
/// another connection of the same client.
fn prompter(session: &Session, fits: impl Fn(&ClientId) -> bool) -> Option<ClientId> {
    connection_of(&session.state().turns.last()?.sender, session, fits)
}

/// Returns a connection of this client: the same, else another.
fn connection_of(
    sender: &Sender,
    session: &Session,
    fits: impl Fn(&ClientId) -> bool,
) -> Option<ClientId> {
    let connections = session.members().filter(|member| member.sender.is_same_client(sender));
    let mut connections: Vec<_> = connections.map(|member| &member.sender.client).collect();
    connections.sort_by_key(|client| **client != sender.client);
    connections.into_iter().find(|client| fits(client)).cloned()
}
