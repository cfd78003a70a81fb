//! How many agents are started at once, and who is next: more at once would only make each of them slower.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio::time::{Duration, Instant};
use wharf_core::Millis;

/// A start that has taken so long waits rather than works: its place is given to the next.
const LONGEST: Duration = Duration::from_secs(10);

/// How much a start is needed: the first of these first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StartPriority {
    /// Somebody waits for it.
    Client,
    /// A prompt has waited since then.
    Queued(Millis),
    /// It is to be there in case somebody comes.
    Nobody,
}

#[derive(Debug)]
pub(crate) struct StartQueue {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    free: usize,
    /// In the order of need, then of their coming.
    waiting: BTreeMap<(StartPriority, u64), oneshot::Sender<()>>,
    next: u64,
}

/// The right to start an agent, given back when dropped.
#[derive(Debug)]
pub(crate) struct StartPermit {
    starts: Arc<StartQueue>,
    until: Instant,
}

/// In the queue; leaves it when dropped.
struct Waiter {
    starts: Arc<StartQueue>,
    key: (StartPriority, u64),
    admitted: bool,
}

impl StartQueue {
    pub(crate) fn new(at_once: usize) -> Arc<Self> {
        let state = State { free: at_once.max(1), waiting: BTreeMap::new(), next: 0 };
        Arc::new(Self { state: Mutex::new(state) })
    }

    /// Waits for a place.
    pub(crate) async fn enter(self: &Arc<Self>, need: StartPriority) -> StartPermit {
        let queued = {
            let mut state = self.lock();
            if state.free > 0 {
                state.free -= 1;
                None
            } else {
                let key = (need, state.next);
                state.next += 1;
                let (admit, admitted) = oneshot::channel();
                state.waiting.insert(key, admit);
                Some((Waiter { starts: Arc::clone(self), key, admitted: false }, admitted))
            }
        };
        if let Some((mut waiter, admitted)) = queued {
            // The sender is only dropped by being used.
            waiter.admitted = admitted.await.is_ok();
        }
        StartPermit { starts: Arc::clone(self), until: Instant::now() + LONGEST }
    }

    fn leave(&self) {
        let mut state = self.lock();
        while let Some((_, next)) = state.waiting.pop_first() {
            if next.send(()).is_ok() {
                return;
            }
        }
        state.free += 1;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StartPermit {
    /// Does the work in this place, and without it from when it takes too long.
    pub(crate) async fn hold<T>(self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = tokio::time::sleep_until(self.until) => {}
        }
        drop(self);
        work.await
    }
}

impl Drop for StartPermit {
    fn drop(&mut self) {
        self.starts.leave();
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if self.admitted {
            return;
        }
        let removed = self.starts.lock().waiting.remove(&self.key);
        // It was admitted in the moment in which it left.
        if removed.is_none() {
            self.starts.leave();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    use super::*;

    /// Polls it once.
    async fn poll_once<T>(future: &mut std::pin::Pin<&mut impl Future<Output = T>>) -> Option<T> {
        poll_fn(|context| match future.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    #[tokio::test]
    async fn places_are_given_in_the_order_of_need() {
        let starts = StartQueue::new(1);
        let first = starts.enter(StartPriority::Nobody).await;
        let mut nobody = pin!(starts.enter(StartPriority::Nobody));
        let mut late = pin!(starts.enter(StartPriority::Queued(Millis(20))));
        let mut early = pin!(starts.enter(StartPriority::Queued(Millis(10))));
        let mut client = pin!(starts.enter(StartPriority::Client));
        for _ in 0..2 {
            assert!(poll_once(&mut nobody).await.is_none());
            assert!(poll_once(&mut late).await.is_none());
            assert!(poll_once(&mut early).await.is_none());
            assert!(poll_once(&mut client).await.is_none());
        }
        drop(first);
        let place = poll_once(&mut client).await.unwrap();
        assert!(poll_once(&mut early).await.is_none());
        drop(place);
        assert!(poll_once(&mut late).await.is_none());
        drop(poll_once(&mut early).await.unwrap());
        drop(poll_once(&mut late).await.unwrap());
        drop(poll_once(&mut nobody).await.unwrap());
    }

    #[tokio::test]
    async fn who_leaves_the_queue_takes_no_place_with_him() {
        let starts = StartQueue::new(1);
        let first = starts.enter(StartPriority::Client).await;
        {
            let mut leaves = pin!(starts.enter(StartPriority::Client));
            assert!(poll_once(&mut leaves).await.is_none());
        }
        {
            let mut admitted = pin!(starts.enter(StartPriority::Client));
            assert!(poll_once(&mut admitted).await.is_none());
            drop(first);
            // Given the place, and gone before it knew.
        }
        let mut next = pin!(starts.enter(StartPriority::Nobody));
        assert!(poll_once(&mut next).await.is_some());
    }

    #[tokio::test]
    async fn a_start_that_hangs_keeps_nobody_from_starting() {
        let starts = StartQueue::new(1);
        let mut place = starts.enter(StartPriority::Client).await;
        place.until = Instant::now();
        let mut hangs = pin!(place.hold(std::future::pending::<()>()));
        tokio::select! {
            () = &mut hangs => {}
            _next = starts.enter(StartPriority::Client) => {}
        }
    }
}
