//! Limits on starts of agents: permits for running sessions and for agents without one, the queue of starts, and the rate of
//! each token.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::rate::Rate;
use super::start_queue::{StartPermit, StartPriority, StartQueue};
use crate::config::Limits;

#[derive(Debug)]
pub(crate) struct StartPermits {
    queue: Arc<StartQueue>,
    /// For sessions with a running agent (`limits.sessions`).
    sessions: Arc<Semaphore>,
    /// The same for agents that were started before there is a session for them.
    spares: Arc<Semaphore>,
    rate: Rate,
}

impl StartPermits {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            queue: StartQueue::new(limits.starts),
            sessions: Arc::new(Semaphore::new(limits.sessions)),
            spares: Arc::new(Semaphore::new(limits.sessions)),
            rate: Rate::new(limits.spawns_per_minute),
        }
    }

    /// Waits until an agent may be started.
    pub(crate) async fn enter_queue(&self, need: StartPriority) -> StartPermit {
        self.queue.enter(need).await
    }

    /// Takes a permit for a session with a running agent; `None` if there is none left.
    pub(crate) fn take_session(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.sessions).try_acquire_owned().ok()
    }

    /// Takes a permit for an agent without a session; `None` if there is none left.
    pub(super) fn take_spare(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.spares).try_acquire_owned().ok()
    }

    /// Counts a new session of this token. The error: how long until the token may have one.
    pub(super) fn take_rate(&self, token: Option<Arc<str>>) -> Result<(), Duration> {
        self.rate.take(token, Instant::now())
    }
}
