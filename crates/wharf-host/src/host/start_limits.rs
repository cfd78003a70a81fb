//! Limits on starts of agents: permits for running sessions and for agents without one, the queue
//! of starts, and the rate of each token.

use std::sync::Arc;
use std::time::{Duration, Instant};

use wharf_config::Limits;
use wharf_core::Millis;

use crate::limits::{CountLimit, CountPermit, PriorityLimit, PriorityPermit, RateLimit, Refill};

/// A start that takes longer waits for something rather than works: its permit goes to the next.
const MAX_START_HOLD: Duration = Duration::from_secs(10);
/// Programs that are asked for their version at once, whichever clients want to know.
const MAX_VERSION_CHECKS: usize = 4;

/// The order in which agents are started: the first of these first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StartPriority {
    /// A caller waits for the agent.
    Client,
    /// A prompt has waited since then.
    Queued(Millis),
    /// The agent is to be there in case a client comes.
    Nobody,
}

#[derive(Debug)]
pub(crate) struct StartLimits {
    /// Agents that are started at once (`limits.starts`): more at once would only make each of them
    /// slower.
    starts: PriorityLimit<StartPriority>,
    /// Sessions with a running agent (`limits.sessions`).
    sessions: CountLimit,
    /// The same for agents that were started before there is a session for them.
    spares: CountLimit,
    /// New sessions of each token (`limits.spawns_per_minute`); `None` is our own user.
    spawns: RateLimit<Option<Arc<str>>>,
    version_checks: CountLimit,
}

/// The right to start an agent, given back when dropped.
#[derive(Debug)]
pub(crate) struct StartPermit {
    permit: PriorityPermit<StartPriority>,
    until: tokio::time::Instant,
}

impl StartLimits {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            starts: PriorityLimit::new(limits.starts),
            sessions: CountLimit::new(limits.sessions),
            spares: CountLimit::new(limits.sessions),
            spawns: RateLimit::new(limits.spawns_per_minute as usize, Refill::Gradual),
            version_checks: CountLimit::new(MAX_VERSION_CHECKS),
        }
    }

    /// Waits until an agent may be started.
    pub(crate) async fn acquire_start(&self, priority: StartPriority) -> StartPermit {
        let permit = self.starts.acquire(priority).await;
        StartPermit { permit, until: tokio::time::Instant::now() + MAX_START_HOLD }
    }

    /// Takes a permit for a session with a running agent. Returns `None` if none is left.
    pub(crate) fn take_session(&self) -> Option<CountPermit> {
        self.sessions.try_acquire()
    }

    /// Takes a permit for an agent without a session. Returns `None` if none is left.
    pub(super) fn take_spare(&self) -> Option<CountPermit> {
        self.spares.try_acquire()
    }

    /// Counts a new session of this token. The error is the time until the token may have one.
    pub(super) fn take_spawn(&self, token: Option<Arc<str>>) -> Result<(), Duration> {
        self.spawns.take(token, Instant::now()).map_err(|exceeded| exceeded.retry_after)
    }

    /// Waits until a program may be asked for its version.
    pub(super) async fn acquire_version_check(&self) -> CountPermit {
        self.version_checks.acquire().await
    }
}

impl StartPermit {
    /// Runs the work, and gives the permit back when the work is done or takes too long.
    pub(crate) async fn hold<T>(self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = tokio::time::sleep_until(self.until) => {}
        }
        drop(self.permit);
        work.await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_caller_comes_before_waiting_prompt_before_nobody() {
        let late = StartPriority::Queued(Millis(20));
        let early = StartPriority::Queued(Millis(10));
        let mut priorities = [StartPriority::Nobody, late, early, StartPriority::Client];
        priorities.sort();
        assert_eq!(priorities, [StartPriority::Client, early, late, StartPriority::Nobody]);
    }

    #[tokio::test]
    async fn start_that_hangs_keeps_no_other_from_starting() {
        let limits = StartLimits::new(&Limits { starts: 1, ..Limits::default() });
        let mut permit = limits.acquire_start(StartPriority::Client).await;
        permit.until = tokio::time::Instant::now();
        let mut hangs = std::pin::pin!(permit.hold(std::future::pending::<()>()));
        tokio::select! {
            () = &mut hangs => {}
            _next = limits.acquire_start(StartPriority::Client) => {}
        }
    }
}
