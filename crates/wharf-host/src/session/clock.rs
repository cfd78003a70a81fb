//! The time of one session: the wall clock's, except that setting that clock makes no deadline pass
//! or move.

use std::time::{Duration, Instant};

use wharf_core::Millis;

use crate::monotonic::monotonic_millis;

/// Wall time as of `since`, and the monotonic clock from there on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    wall: Millis,
    since: Instant,
    lead_ms: u64,
}

impl Clock {
    pub(super) fn new(wall: Millis) -> Self {
        Self {
            wall,
            since: Instant::now(),
            lead_ms: wall.0.saturating_sub(monotonic_millis()),
        }
    }

    /// Sets the time to `wall`. Call this only while no interval is measured by this clock.
    pub(super) fn set(&mut self, wall: Millis) {
        *self = Self::new(wall);
    }

    pub(super) fn now(&self) -> Millis {
        self.after(self.since.elapsed())
    }

    /// Returns how far this time is ahead of the [monotonic clock](monotonic_millis), by which the
    /// next host can go on with it.
    pub(super) const fn lead_ms(&self) -> u64 {
        self.lead_ms
    }

    fn after(&self, elapsed: Duration) -> Millis {
        self.wall.after(Millis(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use wharf_core::{
        Event, Input, LifecycleInput, NewSession, Origin, Session, SessionId, Settings,
    };

    use super::*;

    #[test]
    fn it_goes_on_from_where_it_was_set_whatever_the_wall_clock_does() {
        let mut clock = Clock::new(Millis(1_000));
        assert_eq!(clock.after(Duration::from_millis(250)), Millis(1_250));
        assert!((1_000..60_000).contains(&clock.now().0), "no wall clock is asked");
        clock.set(Millis(7));
        assert_eq!(clock.after(Duration::from_secs(1)), Millis(1_007));
    }

    #[test]
    fn a_wall_clock_that_was_set_back_between_two_runs_costs_no_event() -> Result<(), String> {
        let text = "x";
        let origin = Origin {
            lineage: Vec::new(),
            forked_from: None,
            is_scope_lost: false,
            session: SessionId::new("sess_1"),
            adapter: text.into(),
            workspace: text.into(),
            cwd: text.into(),
            label: None,
            name: None,
            by: None,
            key: None,
        };
        let new = NewSession::new(origin, Settings::default());
        let (before, first) = Session::create(new, Millis(9_000_000));
        let logged: Vec<Event> = first.events;
        let entries = logged.into_iter().enumerate();
        let entries =
            entries.map(|(at, event)| (wharf_core::Seq(at as u64 + 1), Millis(9_000_000), event));
        let mut after = Session::restore(Settings::default(), entries).ok_or("no session")?;
        let step = after.handle(Input::Lifecycle(LifecycleInput::HostRestarted), Millis(5));
        assert_eq!(step.events.len(), 1, "{step:?}");
        assert_eq!(after.head(), before.head().next());
        assert_eq!(after.state().ended_at, Some(Millis(5)));
        Ok(())
    }

    #[test]
    fn next_host_can_go_on_with_it() {
        let wall = monotonic_millis() + 5_000;
        let clock = Clock::new(Millis(wall));
        let continued = Clock::new(Millis(monotonic_millis() + clock.lead_ms()));
        assert!((wall..wall + 60_000).contains(&continued.now().0));
    }
}
