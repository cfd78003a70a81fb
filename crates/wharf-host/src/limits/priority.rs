//! A limit on how many of something there are at once, with a queue in order of priority.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Holds a number of permits. A free permit goes to the waiting caller with the lowest `P`; among
/// callers with the same `P`, to the caller that came first. Clones share the permits.
#[derive(Clone, Debug)]
pub(crate) struct PriorityLimit<P: Copy + Ord> {
    state: Arc<Mutex<State<P>>>,
}

#[derive(Debug)]
struct State<P> {
    free: usize,
    waiting: BTreeMap<(P, u64), oneshot::Sender<()>>,
    next_number: u64,
}

/// One permit, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct PriorityPermit<P: Copy + Ord> {
    limit: PriorityLimit<P>,
}

/// A caller in the queue; leaves it when dropped.
struct Waiter<P: Copy + Ord> {
    limit: PriorityLimit<P>,
    key: (P, u64),
    is_admitted: bool,
}

impl<P: Copy + Ord> PriorityLimit<P> {
    /// Makes a limit of `max` permits, but at least one.
    pub(crate) fn new(max: usize) -> Self {
        let state = State { free: max.max(1), waiting: BTreeMap::new(), next_number: 0 };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Waits for a permit.
    pub(crate) async fn acquire(&self, priority: P) -> PriorityPermit<P> {
        if let Some((mut waiter, admitted)) = self.enqueue(priority) {
            // The sender is only dropped by being used.
            waiter.is_admitted = admitted.await.is_ok();
        }
        PriorityPermit { limit: self.clone() }
    }

    /// Takes a free permit and returns `None`, or joins the queue.
    fn enqueue(&self, priority: P) -> Option<(Waiter<P>, oneshot::Receiver<()>)> {
        let mut state = self.lock();
        if state.free > 0 {
            state.free -= 1;
            return None;
        }
        let key = (priority, state.next_number);
        state.next_number += 1;
        let (admit, admitted) = oneshot::channel();
        state.waiting.insert(key, admit);
        Some((Waiter { limit: self.clone(), key, is_admitted: false }, admitted))
    }

    /// Gives a permit to the next caller in the queue, or makes it free.
    fn release(&self) {
        let mut state = self.lock();
        while let Some((_, next)) = state.waiting.pop_first() {
            if next.send(()).is_ok() {
                return;
            }
        }
        state.free += 1;
    }

    fn lock(&self) -> MutexGuard<'_, State<P>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P: Copy + Ord> Drop for PriorityPermit<P> {
    fn drop(&mut self) {
        self.limit.release();
    }
}

impl<P: Copy + Ord> Drop for Waiter<P> {
    fn drop(&mut self) {
        if self.is_admitted {
            return;
        }
        let removed = self.limit.lock().waiting.remove(&self.key);
        // If the waiter is not in the queue any more, it was admitted in the moment in which it
        // left.
        if removed.is_none() {
            self.limit.release();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::poll_once;
    use super::*;

    #[tokio::test]
    async fn permits_are_given_in_order_of_priority_then_of_arrival() {
        let limit = PriorityLimit::new(1);
        let held = limit.acquire(9).await;
        let mut last = Box::pin(limit.acquire(3));
        let mut second = Box::pin(limit.acquire(2));
        let mut third = Box::pin(limit.acquire(2));
        let mut first = Box::pin(limit.acquire(1));
        for _ in 0..2 {
            assert!(poll_once(&mut last).await.is_none());
            assert!(poll_once(&mut second).await.is_none());
            assert!(poll_once(&mut third).await.is_none());
            assert!(poll_once(&mut first).await.is_none());
        }
        drop(held);
        let permit = poll_once(&mut first).await.unwrap();
        assert!(poll_once(&mut second).await.is_none());
        drop(permit);
        assert!(poll_once(&mut third).await.is_none());
        drop(poll_once(&mut second).await.unwrap());
        drop(poll_once(&mut third).await.unwrap());
        drop(poll_once(&mut last).await.unwrap());
        assert_eq!(limit.lock().free, 1);
    }

    #[tokio::test]
    async fn leaving_the_queue_releases_the_permit() {
        let limit = PriorityLimit::new(1);
        let held = limit.acquire(1).await;
        {
            let mut leaves = Box::pin(limit.acquire(1));
            assert!(poll_once(&mut leaves).await.is_none());
        }
        {
            let mut admitted = Box::pin(limit.acquire(1));
            assert!(poll_once(&mut admitted).await.is_none());
            drop(held);
            // This caller is given the permit, and leaves before it knows.
        }
        assert!(limit.lock().waiting.is_empty());
        let mut next = Box::pin(limit.acquire(2));
        assert!(poll_once(&mut next).await.is_some());
    }
}
