//! The times at which a watched turn is cancelled, and at which the verb leaves a cancelled turn
//! that does not end.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::WatchEnd;

/// How long a cancelled turn may take to end before the verb leaves it.
const CANCEL_GRACE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct TurnDeadlines {
    time_is_up_at: Option<Instant>,
    /// For each ask that other clients may answer: how long it may stay open.
    asks: BTreeMap<u64, Instant>,
    /// The turn is being cancelled, for this reason and until then.
    stopping: Option<(WatchEnd, Instant)>,
}

/// The action that a deadline demands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DueAction {
    /// Cancel the turn, for this reason.
    Cancel(WatchEnd),
    /// Leave the turn, which was cancelled for this reason and goes on.
    Leave(WatchEnd),
}

impl TurnDeadlines {
    /// Starts the clock for a turn that may take this long.
    pub(super) fn new(timeout: Option<Duration>, now: Instant) -> Self {
        Self {
            time_is_up_at: timeout.map(|timeout| now + timeout),
            asks: BTreeMap::new(),
            stopping: None,
        }
    }

    /// Lets an ask stay open for this long.
    pub(super) fn limit_ask(&mut self, ask: u64, limit: Duration, now: Instant) {
        self.asks.insert(ask, now + limit);
    }

    /// Removes the limit of an ask that was answered or withdrawn.
    pub(super) fn forget_ask(&mut self, ask: u64) {
        self.asks.remove(&ask);
    }

    /// Starts the time that the cancelled turn has for its end.
    pub(super) fn begin_cancel(&mut self, why: WatchEnd, now: Instant) {
        self.stopping = Some((why, now + CANCEL_GRACE));
    }

    /// Returns the reason for which the turn is being cancelled, if it is.
    pub(super) fn cancel_reason(&self) -> Option<&WatchEnd> {
        self.stopping.as_ref().map(|(why, _)| why)
    }

    /// Returns the end to tell: the reason of the cancel if the cancel ended the turn, else the end
    /// as it was watched.
    pub(super) fn name_end(&self, watched: WatchEnd) -> WatchEnd {
        let is_other = match &watched {
            WatchEnd::Turn(reason) => {
                matches!(reason.as_str(), "host_shutdown" | "host_restarted" | "session_ended")
            }
            WatchEnd::Session | WatchEnd::Left | WatchEnd::Detached(_) | WatchEnd::Unread => true,
            WatchEnd::Unanswered | WatchEnd::TimedOut => false,
        };
        match self.cancel_reason() {
            Some(why) if !is_other => why.clone(),
            Some(_) | None => watched,
        }
    }

    /// Returns the next time at which something is due.
    pub(super) fn next(&self) -> Option<Instant> {
        match &self.stopping {
            Some((_, until)) => Some(*until),
            None => self.time_is_up_at.into_iter().chain(self.asks.values().copied()).min(),
        }
    }

    /// Returns the action that is due, if any.
    pub(super) fn find_due(&self, now: Instant) -> Option<DueAction> {
        if let Some((why, until)) = &self.stopping {
            return (*until <= now).then(|| DueAction::Leave(why.clone()));
        }
        if self.time_is_up_at.is_some_and(|at| at <= now) {
            return Some(DueAction::Cancel(WatchEnd::TimedOut));
        }
        let is_ask_due = self.asks.values().any(|at| *at <= now);
        is_ask_due.then_some(DueAction::Cancel(WatchEnd::Unanswered))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use super::super::DetachCause;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn open_ask_cancels_the_turn_after_its_limit_and_not_before() {
        let now = Instant::now();
        let mut deadlines = TurnDeadlines::new(None, now);
        assert_eq!((deadlines.next(), deadlines.find_due(now + 100 * MINUTE)), (None, None));
        deadlines.limit_ask(7, 10 * MINUTE, now);
        assert_eq!(deadlines.next(), Some(now + 10 * MINUTE));
        assert_eq!(deadlines.find_due(now + 9 * MINUTE), None);
        assert_eq!(
            deadlines.find_due(now + 10 * MINUTE),
            Some(DueAction::Cancel(WatchEnd::Unanswered))
        );
        deadlines.forget_ask(7);
        assert_eq!((deadlines.next(), deadlines.find_due(now + 10 * MINUTE)), (None, None));
    }

    #[test]
    fn limit_of_an_ask_stays_when_another_ask_is_answered() {
        let now = Instant::now();
        let mut deadlines = TurnDeadlines::new(None, now);
        deadlines.limit_ask(7, 10 * MINUTE, now);
        deadlines.limit_ask(8, 10 * MINUTE, now + MINUTE);
        assert_eq!(deadlines.next(), Some(now + 10 * MINUTE));
        deadlines.forget_ask(7);
        assert_eq!(deadlines.next(), Some(now + 11 * MINUTE));
    }

    #[test]
    fn cancelled_turn_is_left_after_a_grace_period_for_the_first_reason() {
        let now = Instant::now();
        let mut deadlines = TurnDeadlines::new(Some(MINUTE), now);
        deadlines.limit_ask(7, 10 * MINUTE, now);
        assert_eq!(deadlines.find_due(now + MINUTE), Some(DueAction::Cancel(WatchEnd::TimedOut)));
        deadlines.begin_cancel(WatchEnd::TimedOut, now + MINUTE);
        assert_eq!(deadlines.find_due(now + MINUTE), None);
        assert_eq!(deadlines.next(), Some(now + MINUTE + CANCEL_GRACE));
        assert_eq!(
            deadlines.find_due(now + 10 * MINUTE),
            Some(DueAction::Leave(WatchEnd::TimedOut))
        );
    }

    #[test]
    fn time_is_up_only_for_a_turn_that_has_ended_by_its_cancel() {
        let ended = |reason: &str| WatchEnd::Turn(reason.to_owned());
        let now = Instant::now();
        let mut deadlines = TurnDeadlines::new(Some(MINUTE), now);
        assert_eq!(deadlines.name_end(ended("cancelled")), ended("cancelled"));
        deadlines.begin_cancel(WatchEnd::TimedOut, now);
        // Agents answer a cancel in many ways.
        for reason in ["cancelled", "removed", "end_turn", "error", "agent_exited"] {
            assert_eq!(deadlines.name_end(ended(reason)), WatchEnd::TimedOut, "{reason}");
        }
        assert_eq!(deadlines.name_end(WatchEnd::TimedOut), WatchEnd::TimedOut);
        for other in [
            ended("host_shutdown"),
            ended("host_restarted"),
            ended("session_ended"),
            WatchEnd::Session,
            WatchEnd::Left,
            WatchEnd::Unread,
            WatchEnd::Detached(DetachCause::Asked),
        ] {
            assert_eq!(deadlines.name_end(other.clone()), other);
        }
    }
}
