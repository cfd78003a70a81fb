//! The transient state that is not logged: attached clients, declines and deadlines.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::{
    AgentEvent, AskEvent, AskId, AskKind, ClientId, ClientIdentity, Event, Member, Millis,
    PromptEvent, PromptId, Raw, Role, Sender, Seq, SessionEvent,
};

/// The number of clients whose last turn's end is remembered. A cancel that crosses it comes within
/// seconds.
const MAX_OWN_ENDS: usize = 64;

/// The transient state. Empty after a restore: a new host has no attached clients.
#[derive(Clone, Debug, Default)]
pub(super) struct Live {
    pub(super) attached: BTreeMap<ClientId, Attached>,
    pub(super) declines: BTreeMap<AskId, Declines>,
    /// The time by which a cancelled turn has to be settled.
    pub(super) cancel_deadlines: BTreeMap<PromptId, Millis>,
    pub(super) ask_deadlines: BTreeMap<AskId, Millis>,
    /// The time at which an ask was last settled: from then on the agent is expected to send
    /// something.
    pub(super) answered_at: Option<Millis>,
    /// The time at which a failed start is retried.
    pub(super) retry_at: Option<Millis>,
    /// Since when no client is attached and no work is left.
    pub(super) idle_since: Option<Millis>,
    /// The agent of the running session has ended already, and its last output is still being taken
    /// in.
    pub(super) has_agent_ended: bool,
    /// The event that ended the last turn of each client, the newest at the back.
    own_ends: VecDeque<(ClientIdentity, Seq)>,
}

#[derive(Clone, Debug)]
pub(super) struct Attached {
    pub(super) member: Member,
    pub(super) elicits: bool,
    /// The time at which the client came.
    pub(super) since: Millis,
}

/// The clients that declined an ask, and the frame of the last decline.
#[derive(Clone, Debug)]
pub(super) struct Declines {
    pub(super) clients: BTreeSet<ClientIdentity>,
    pub(super) last: Raw,
    pub(super) last_by: Sender,
}

impl Attached {
    pub(super) fn can_answer(&self, kind: AskKind) -> bool {
        self.member.role == Role::Controller
            && match kind {
                AskKind::Permission => true,
                AskKind::Elicitation => self.elicits,
            }
    }
}

impl Live {
    pub(super) fn members(&self) -> impl Iterator<Item = &Member> {
        self.attached.values().map(|attached| &attached.member)
    }

    /// Returns the attached clients, each once, represented by its first connection.
    pub(super) fn clients(&self) -> BTreeMap<ClientIdentity, &Member> {
        let mut clients = BTreeMap::new();
        for member in self.members() {
            clients.entry(member.sender.identity()).or_insert(member);
        }
        clients
    }

    /// Returns the attached connections that can answer an ask of this kind.
    pub(super) fn answerers(&self, kind: AskKind) -> impl Iterator<Item = &Sender> {
        self.attached
            .values()
            .filter(move |attached| attached.can_answer(kind))
            .map(|attached| &attached.member.sender)
    }

    /// Returns true if another connection of the same client is attached.
    pub(super) fn has_other_connection(&self, sender: &Sender) -> bool {
        self.members().any(|member| {
            member.sender.client != sender.client && member.sender.is_same_client(sender)
        })
    }

    /// Records the event that ended a client's own turn.
    pub(super) fn note_own_end(&mut self, client: ClientIdentity, seq: Seq) {
        self.own_ends.retain(|(known, _)| *known != client);
        if self.own_ends.len() >= MAX_OWN_ENDS {
            self.own_ends.pop_front();
        }
        self.own_ends.push_back((client, seq));
    }

    /// Returns true if a turn of this client ended after `seq`.
    pub(super) fn ended_since(&self, sender: &Sender, seq: Seq) -> bool {
        let client = sender.identity();
        self.own_ends.iter().any(|(known, end)| *known == client && *end > seq)
    }

    /// Returns true if the caller only observes. A connection has the role that it attached with. A
    /// caller without an attachment (REST, or a further connection) is an observer if its client is
    /// attached as nothing else.
    pub(super) fn observes(&self, caller: &Sender) -> bool {
        let is_observer = |member: &Member| member.role == Role::Observer;
        if let Some(attached) = self.attached.get(&caller.client) {
            return is_observer(&attached.member);
        }
        let mut own =
            self.members().filter(|member| member.sender.is_same_client(caller)).peekable();
        own.peek().is_some() && own.all(is_observer)
    }

    pub(super) fn deadlines(&self) -> impl Iterator<Item = Millis> {
        self.cancel_deadlines
            .values()
            .chain(self.ask_deadlines.values())
            .chain(&self.retry_at)
            .copied()
    }

    /// Returns true if every attached client that could answer has declined, and there is at least
    /// one.
    pub(super) fn all_declined(&self, ask: AskId, kind: AskKind) -> bool {
        let Some(declines) = self.declines.get(&ask) else { return false };
        let mut answerers = self.answerers(kind).peekable();
        answerers.peek().is_some()
            && answerers.all(|sender| declines.clients.contains(&sender.identity()))
    }

    pub(super) fn decline(&mut self, ask: AskId, by: Sender, frame: Raw) {
        let client = by.identity();
        let declines = self.declines.entry(ask).or_insert_with(|| Declines {
            clients: BTreeSet::new(),
            last: frame.clone(),
            last_by: by.clone(),
        });
        declines.clients.insert(client);
        (declines.last, declines.last_by) = (frame, by);
    }

    /// Drops the declines of a client. A client that attaches again is asked again, and the session
    /// does not wait for a client that leaves.
    pub(super) fn forget_declines_of(&mut self, sender: &Sender) {
        let client = sender.identity();
        for declines in self.declines.values_mut() {
            declines.clients.remove(&client);
        }
    }

    /// Moves all deadlines by the time of a storage pause.
    pub(super) fn postpone(&mut self, by: Millis, now: Millis) {
        for deadline in self
            .cancel_deadlines
            .values_mut()
            .chain(self.ask_deadlines.values_mut())
            .chain(&mut self.retry_at)
        {
            *deadline = deadline.after(by);
        }
        self.answered_at = Some(now);
        self.idle_since = self.idle_since.map(|_| now);
    }

    /// Drops transient state that the event has ended.
    pub(super) fn note(&mut self, event: &Event, now: Millis) {
        if let Event::Ask(AskEvent::Resolved { ask, .. }) = event {
            self.answered_at = Some(now);
            self.declines.remove(ask);
            self.ask_deadlines.remove(ask);
        } else if let Event::Prompt(
            PromptEvent::Ended { prompt, .. } | PromptEvent::Requeued { prompt },
        ) = event
        {
            self.cancel_deadlines.remove(prompt);
        } else if let Event::Agent(AgentEvent::Starting { .. })
        | Event::Session(SessionEvent::Ended(_)) = event
        {
            self.retry_at = None;
        }
    }
}
