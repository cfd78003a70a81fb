//! One session that a client watches: how far it was shown, and which messages wait for the cursor,
//! the client or its stream.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant as Moment;
use wharf_host::core::{AgentEvent, Ask, Event, PromptEvent, Seq, SessionId};
use wharf_host::{Batch, Cursor, Entry, LaneMessage, ReadError};

use super::out_frame::OutFrame;
use super::outbound::Join;
use super::view::View;
use super::wire::Gate;

/// How long answers wait for a session's stream that has no reader before they go out on the
/// connection's. A client that lost its stream is back within this time; it then gets everything in
/// order.
pub(super) const UNREAD_STREAM_WAIT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Subscription {
    pub(super) cursor: Cursor,
    pub(super) view: View,
    pub(super) answer: Option<(Seq, OutFrame)>,
    pub(super) asks: Option<(Seq, Vec<Ask>)>,
    pub(super) hold: Option<Duration>,
    /// Nothing goes out before this, unless the client says that it is ready.
    pub(super) held_until: Option<Moment>,
    /// Messages that have to wait for the cursor.
    pub(super) later: VecDeque<LaneMessage>,
    /// It goes on from an event that the client named, so a resume does not move it ahead.
    pub(super) rejoined: bool,
    /// It came with no wish for the past.
    pub(super) only_news: bool,
    /// Events up to here were shown before this subscription began.
    skipped: Seq,
    /// Looks for the ends of the client's prompts while the session's stream has no reader, or
    /// after the client left.
    scout: Option<Cursor>,
    left: Option<Left>,
    joined_at: Moment,
}

/// Marks a session that the client has left, or watches again by another subscription: only answers
/// to the client's prompts go out.
#[derive(Clone, Copy, Debug)]
struct Left {
    /// From here on another view has them.
    until: Option<Seq>,
}

/// The one of a session's two readers that has something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SubscriptionReader {
    Cursor,
    Scout,
}

impl Subscription {
    pub(super) fn new(join: Join) -> Self {
        let Join { cursor, view, answer, asks, hold, only_news } = join;
        Self {
            cursor: cursor.following(),
            view,
            answer,
            asks: Some(asks),
            hold,
            held_until: None,
            later: VecDeque::new(),
            rejoined: false,
            only_news,
            skipped: Seq::ZERO,
            scout: None,
            left: None,
            joined_at: Moment::now(),
        }
    }

    /// Everything up to here has been shown to the client before it left.
    pub(super) fn skip_to(&mut self, seq: Seq) {
        if !self.is_past(seq) {
            self.skipped = seq;
            self.view.pass_as_history(seq);
        }
    }

    /// Returns true if the client has had this event before. Answers and withdrawals of requests
    /// are given all the same.
    pub(super) fn skips(&self, entry: &Entry) -> bool {
        entry.seq <= self.skipped
            && matches!(
                entry.event,
                Event::Agent(AgentEvent::Updated { .. })
                    | Event::Prompt(PromptEvent::TurnStarted { .. })
            )
    }

    /// Goes on where it is, with the answer and the open asks of another join in their place.
    pub(super) fn join_again(&mut self, new: Self) {
        self.view.take_wishes(&new.view);
        // The answer says how far the client is, so it waits for the events before that.
        let head = new.cursor.position();
        self.answer = new.answer.map(|(at, answer)| (at.max(head), answer));
        self.hold = new.hold;
        self.asks = new.asks.map(|(at, mut asks)| {
            // An ask that the cursor has still to reach goes out when the cursor reaches it, and an
            // ask that was resolved meanwhile does not go out at all.
            asks.retain(|ask| {
                self.is_past(Seq(ask.id.0)) && (!self.is_past(at) || self.view.knows_open(ask))
            });
            (at, asks)
        });
    }

    pub(super) fn session(&self) -> &SessionId {
        self.view.session()
    }

    pub(super) fn has_news(&self, gate: Gate) -> bool {
        gate.lets_through()
            && self.held_until.is_none()
            && self.left.is_none()
            && self.cursor.is_behind()
    }

    /// Stops showing the session; from `until` on, another view shows it. Returns true while this
    /// subscription still has to answer prompts of the client.
    pub(super) fn leave(&mut self, until: Option<Seq>) -> bool {
        (self.left, self.rejoined, self.held_until) = (Some(Left { until }), false, None);
        self.scout.get_or_insert_with(|| self.cursor.clone());
        self.is_owed()
    }

    pub(super) fn has_left(&self) -> bool {
        self.left.is_some()
    }

    /// Returns true if there is anything to look for after the client left.
    pub(super) fn is_owed(&self) -> bool {
        let until = self.left.and_then(|left| left.until);
        let reached = until
            .is_some_and(|until| self.scout.as_ref().is_none_or(|scout| scout.position() >= until));
        self.view.owes() && !reached
    }

    /// Returns true if the end of a prompt in this event is for another view to tell.
    pub(super) fn is_past_leaving(&self, seq: Seq) -> bool {
        self.left.and_then(|left| left.until).is_some_and(|until| seq > until)
    }

    /// Returns the next events, if any may be read now.
    pub(super) fn reading(
        &mut self,
        gate: Gate,
    ) -> Option<(SubscriptionReader, impl Future<Output = Result<Batch, ReadError>> + Send)> {
        match &mut self.scout {
            Some(scout) => Some((SubscriptionReader::Scout, scout.next())),
            None if gate.lets_through() && self.held_until.is_none() => {
                Some((SubscriptionReader::Cursor, self.cursor.next()))
            }
            None => None,
        }
    }

    /// Where something stands between two events: the answer, or the open asks.
    pub(super) fn pause(&self) -> Option<Seq> {
        self.answer
            .as_ref()
            .map(|(at, _)| *at)
            .or_else(|| self.asks.as_ref().map(|(at, _)| *at))
    }

    /// Returns true if everything up to `seq` has gone out.
    pub(super) fn is_past(&self, seq: Seq) -> bool {
        self.cursor.position() >= seq
    }

    /// Returns the answer if it is time for it: when everything before it is out, or when the
    /// session lacks a stream for the messages before it.
    pub(super) fn answer_due(&mut self, gate: Gate) -> Option<OutFrame> {
        let first = match gate {
            Gate::Closed { since: None } => true,
            Gate::Closed { since: Some(since) } => Moment::now() >= since + UNREAD_STREAM_WAIT,
            Gate::Line | Gate::Open | Gate::Full => false,
        };
        let position = self.cursor.position();
        self.answer
            .take_if(|(at, _)| first || *at <= position)
            .map(|(_, answer)| answer)
    }

    /// When to look at it again, if nothing comes before.
    pub(super) fn due(&self, gate: Gate) -> Option<Moment> {
        let away = self.away(gate).filter(|_| self.scout.is_none());
        let queue = self.view.queue_due(Moment::now()).filter(|_| self.may_tell_queue(gate));
        [self.held_until, away, queue].into_iter().flatten().min()
    }

    /// Does the work that is due by now. Returns true if there was any.
    pub(super) fn come_due(&mut self, gate: Gate, now: Moment) -> bool {
        let released = self.held_until.take_if(|until| *until <= now).is_some();
        let sent_out = self.scout.is_none() && self.away(gate).is_some_and(|at| at <= now);
        if sent_out {
            self.scout = Some(self.cursor.clone());
        }
        released
            || sent_out
            || (self.may_tell_queue(gate) && self.view.queue_due(now).is_some_and(|at| at <= now))
    }

    /// Returns true if the client is up to date enough for an update of the queue.
    pub(super) fn may_tell_queue(&self, gate: Gate) -> bool {
        let is_free = self.answer.is_none() && self.held_until.is_none() && self.left.is_none();
        is_free && gate.lets_through() && self.is_past(self.view.history())
    }

    /// The gate may have changed. A stream of its own says that the client has the session (rule
    /// 6.1).
    pub(super) fn gate_changed(&mut self, gate: Gate) -> bool {
        if gate.is_own() && self.left.is_none() {
            self.held_until = None;
            self.scout = None;
        }
        gate.lets_through() && self.left.is_none()
    }

    fn away(&self, gate: Gate) -> Option<Moment> {
        match gate {
            Gate::Closed { since } => Some(since.unwrap_or(self.joined_at) + UNREAD_STREAM_WAIT),
            Gate::Line | Gate::Open | Gate::Full => None,
        }
    }
}
