//! The session and its decisions.
//!
//! [`Session::handle`] reads the state and records events; [`State::apply`] changes the state.
//! Attached clients and deadlines are not facts and are kept apart, in `Live`.

mod asks;
mod attention;
mod decide;
mod describe;
mod fold;
mod join;
mod keys;
mod life;
mod limits;
mod live;
mod notice;
mod outcome;
mod pause;
mod reported_cost;
mod reported_usage;
mod send_now;
mod silent_meaning;
mod state;
mod turns;

use std::sync::Arc;

pub use attention::{AskFact, AttentionFacts, LastOutcome, Raised, RaisedWhy, Work, WorkKind};
use live::Live;
pub use outcome::{OutcomeCause, OutcomeKind, TurnCancel};
pub use reported_cost::ReportedCost;
pub use reported_usage::{COUNTING_RULE, ReportedTokens, SessionTokens, TokenSeries, TurnTokens};
pub use state::{Latest, Paused, QueuedPrompt, State, Turn, TurnState};

use crate::{
    AgentEvent, AgentTraits, Effect, Event, Input, Member, Millis, NewSession, Origin, PromptEvent,
    Reply, Sender, Seq, SessionEvent, Settings, SettingsLoss, Status, Step, StorageEvent,
};

/// One conversation, as a value. It decides; the host that owns it does the rest.
///
/// # Contract
///
/// - **Order of calls.** A session begins with [`Session::create`] or with [`Session::restore`].
///   From then on, [`Session::handle`] is called with one input after another. In a new host, an
///   input after a restore says what became of the agent.
///   [`HostRestarted`](crate::LifecycleInput::HostRestarted) if it is gone: running turns and open
///   asks end. [`AgentAdopted`](crate::LifecycleInput::AgentAdopted) if the host has taken it over:
///   asks and the queue stay as they are, and deadlines begin again. Turns stay, too, unless the
///   log has lost events and the agent is known to be idle: then they end. The first of these two
///   is the first input, unless the agent's keeper does not answer yet: then others may come before
///   it, and the agent's messages come after it. `HostRestarted` follows `AgentAdopted` for an
///   agent that has ended without a host. A host that opens a session again after its log had
///   failed gives [`Exited`](crate::AgentInput::Exited) first: it has ended the agent. What the log
///   has lost of the agent is noted before all of these ([`Session::recall_agent`]). The host
///   appends the events of each [`Step`] in the order of the steps, then publishes them, then runs
///   the effects and sends the reply. The effects and the reply of a step with an event for which
///   [`Event::wants_sync`] is true wait until the log is synced.
/// - **Append.** One owner per session calls `handle` and appends to the log. It appends only
///   events of this session: [`Session::head`] counts them, so that event N of the log is the Nth
///   that was decided. A step's events are applied to the state when `handle` returns. If they
///   cannot be appended, the session is ahead of its log and may not be shown. [`Session::propose`]
///   avoids this for requests that can be refused: the host appends the proposed events first, and
///   `handle` with the same input and the same time then returns a step that begins with them.
/// - **Time.** Every call gets the time of the host. It is stored with the events. The session
///   compares times but reads no clock: time may stand still between two calls and, between two
///   hosts, go back. Within one host it must not go back while [`Session::deadline`] is set.
/// - **Deadline.** The host calls `handle` with [`Input::TimePassed`] once the deadline has passed.
///   A late call is fine; an early or unneeded one changes nothing. Every call can move the
///   deadline, so it is read again after each.
#[derive(Clone, Debug)]
pub struct Session {
    settings: Settings,
    state: State,
    live: Live,
}

/// A step that is being built.
struct Draft {
    now: Millis,
    events: Vec<Event>,
    effects: Vec<Effect>,
}

impl Draft {
    fn new(now: Millis) -> Self {
        Self { now, events: Vec::new(), effects: Vec::new() }
    }

    fn act(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    fn finish(self, reply: Reply) -> Step {
        Step { events: self.events, effects: self.effects, reply }
    }
}

impl Session {
    /// Creates a session that starts its first agent.
    pub fn create(new: NewSession, now: Millis) -> (Self, Step) {
        let NewSession { origin, settings, title, agent_settings } = new;
        let mut draft = Draft::new(now);
        let state = State::new(origin.clone(), Seq::ZERO.next(), now);
        let by = origin.by.clone();
        draft.events.push(Event::Session(SessionEvent::Created(origin)));
        let mut session = Self { settings, state, live: Live::default() };
        if title.is_some() {
            session.record(SessionEvent::Renamed { title, by }, &mut draft);
        }
        if let Some(settings) = agent_settings {
            session.record(AgentEvent::SettingsChanged { settings, are_all: false }, &mut draft);
        }
        session.start_agent(session.state.first_way(), &mut draft);
        (session, draft.finish(Reply::Done))
    }

    /// Restores a session from its log. The entries begin with the first event or with any
    /// snapshot; otherwise returns `None`.
    pub fn restore(
        settings: Settings,
        entries: impl IntoIterator<Item = (Seq, Millis, Event)>,
    ) -> Option<Self> {
        let mut entries = entries.into_iter();
        let (seq, at, first) = entries.next()?;
        let state = State::begin(seq, at, &first)?;
        Some(Self::restore_after(settings, state, entries))
    }

    /// Restores a session whose first event is lost. A snapshot among the entries knows more than
    /// `origin`, and replaces it.
    pub fn restore_without_beginning(
        settings: Settings,
        origin: Origin,
        created_at: Millis,
        entries: impl IntoIterator<Item = (Seq, Millis, Event)>,
    ) -> Self {
        Self::restore_after(settings, State::new(origin, Seq::ZERO, created_at), entries)
    }

    fn restore_after(
        settings: Settings,
        mut state: State,
        entries: impl IntoIterator<Item = (Seq, Millis, Event)>,
    ) -> Self {
        for (seq, at, event) in entries {
            // A snapshot equals the state of its predecessors, unless one of them is damaged: then
            // the snapshot is right.
            if let Event::Storage(StorageEvent::Snapshot(saved)) = &event
                && let Some(saved) = State::from_saved(saved, seq)
            {
                let (usage, cost) = if saved.usage.is_outdated() {
                    (state.usage, state.cost)
                } else {
                    (saved.usage, saved.cost.clone())
                };
                state = State { usage, cost, ..saved };
            } else {
                state.apply(seq, at, &event);
            }
        }
        Self { settings, state, live: Live::default() }
    }

    /// Notes the agent's session and traits from a source beside the log, if the log has lost the
    /// end of the agent's start. The settings of that start are unknown then.
    pub fn recall_agent(&mut self, agent_session: Arc<str>, traits: AgentTraits) {
        self.state.agent_session = Some(agent_session);
        self.state.traits = traits;
        self.state.settings_loss = self.state.settings_loss.and(SettingsLoss::Possible);
    }

    /// Notes that the last start of the agent has succeeded, although the log has lost that: the
    /// agent is there.
    pub const fn recall_running_agent(&mut self) {
        if matches!(self.state.status, Status::Starting) {
            self.state.status = Status::Running;
        }
    }

    /// Takes sums that were made by an older rule for the best ones, since the log begins with
    /// them.
    pub fn keep_outdated_sums(&mut self) {
        if self.state.usage.is_outdated() && self.state.cost.is_none() {
            // It was not kept besides.
            self.state.cost = self.state.latest.usage.as_ref().and_then(ReportedCost::from_frame);
        }
        self.state.usage.mark_as_current();
    }

    /// Decides the result of an input. The step's events are already applied to the state.
    pub fn handle(&mut self, input: Input, now: Millis) -> Step {
        let mut draft = Draft::new(now);
        let reply = self.decide(input, &mut draft);
        self.start_next_turn(&mut draft);
        self.watch_idleness(now);
        self.take_snapshot(&mut draft);
        draft.finish(reply)
    }

    pub fn state(&self) -> &State {
        &self.state
    }

    pub fn head(&self) -> Seq {
        self.state.head
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the attached clients, one member per connection.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.live.members()
    }

    /// Returns the attached clients, one member per connection, each with the time at which its
    /// client came.
    pub fn attached(&self) -> impl Iterator<Item = (&Member, Millis)> {
        self.live.attached.values().map(|attached| (&attached.member, attached.since))
    }

    /// Returns true if this caller only observes the session.
    pub fn is_observed_by(&self, caller: &Sender) -> bool {
        self.live.observes(caller)
    }

    /// Returns the time at which [`Input::TimePassed`] is due if nothing else happens.
    pub fn deadline(&self) -> Option<Millis> {
        // No deadline is due while the agent is paused.
        if self.state.paused.is_some() {
            return None;
        }
        let idle = self.idle_deadline();
        let turns = self.turn_limits().map(|(end, ..)| end);
        idle.into_iter().chain(self.live.deadlines()).chain(turns).min()
    }

    /// Records the event and applies it.
    fn record(&mut self, event: impl Into<Event>, draft: &mut Draft) {
        let event = event.into();
        let seq = self.state.head.next();
        if let Event::Prompt(PromptEvent::Ended { prompt, .. }) = &event
            && let Some(turn) = self.state.running(prompt)
        {
            self.live.note_own_end(turn.sender.identity(), seq);
        }
        self.state.apply(seq, draft.now, &event);
        self.live.note(&event, draft.now);
        draft.events.push(event);
    }

    /// Ends the step with a snapshot if one is due: at the first idle moment, but not too late
    /// either, since a turn can run for days.
    fn take_snapshot(&mut self, draft: &mut Draft) {
        let every = self.settings.snapshot_every.max(1);
        let passed = self.state.head.0.saturating_sub(self.state.snapshot.unwrap_or_default().0);
        let wait = if self.state.turns.is_empty() { every } else { every.saturating_mul(4) };
        if draft.events.is_empty() || passed < wait || self.state.paused.is_some() {
            return;
        }
        if let Some(saved) = self.state.to_saved() {
            self.record(StorageEvent::Snapshot(saved), draft);
        }
    }
}
