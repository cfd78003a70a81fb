//! A limit on how many of something there are at once.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A number of permits. Clones share them.
#[derive(Clone, Debug)]
pub struct CountLimit {
    permits: Arc<Semaphore>,
    max: usize,
}

/// One or more permits of a [`CountLimit`], given back when this is dropped.
#[derive(Debug)]
pub struct CountPermit {
    /// Always there: the semaphore is never closed.
    _permit: Option<OwnedSemaphorePermit>,
}

impl CountLimit {
    pub fn new(max: usize) -> Self {
        let max = max.min(Semaphore::MAX_PERMITS);
        Self { permits: Arc::new(Semaphore::new(max)), max }
    }

    pub fn max(&self) -> usize {
        self.max
    }

    pub fn in_use(&self) -> usize {
        self.max.saturating_sub(self.permits.available_permits())
    }

    /// Returns `None` if no permit is left.
    pub fn try_acquire(&self) -> Option<CountPermit> {
        self.try_acquire_many(1)
    }

    /// Takes `count` permits together. Returns `None` if fewer are left.
    pub fn try_acquire_many(&self, count: usize) -> Option<CountPermit> {
        let count = u32::try_from(count).ok()?;
        let permit = Arc::clone(&self.permits).try_acquire_many_owned(count).ok()?;
        Some(CountPermit { _permit: Some(permit) })
    }

    /// Waits for a permit. Callers get one in the order in which they came.
    pub async fn acquire(&self) -> CountPermit {
        CountPermit {
            _permit: Arc::clone(&self.permits).acquire_owned().await.ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::poll_once;
    use super::*;

    #[test]
    fn permit_is_released_on_drop() {
        let limit = CountLimit::new(3);
        let two = limit.try_acquire_many(2).unwrap();
        let one = limit.try_acquire().unwrap();
        assert!(limit.try_acquire().is_none());
        assert_eq!((limit.in_use(), limit.max()), (3, 3));
        drop(two);
        assert!(limit.try_acquire_many(3).is_none(), "one is still held");
        drop(one);
        assert!(limit.try_acquire_many(3).is_some());
        assert_eq!(limit.in_use(), 0);
    }

    #[tokio::test]
    async fn canceled_wait_keeps_no_permit() {
        let limit = CountLimit::new(1);
        let held = limit.try_acquire().unwrap();
        let mut canceled = Box::pin(limit.acquire());
        let mut next = Box::pin(limit.acquire());
        assert!(poll_once(&mut canceled).await.is_none());
        assert!(poll_once(&mut next).await.is_none());
        drop(held);
        // The permit is assigned to the first waiter, which goes away without having seen it.
        drop(canceled);
        assert!(poll_once(&mut next).await.is_some());
        assert_eq!(limit.in_use(), 0);
    }
}
