//! How much of Wharf's own work for an agent is under way at once.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// So many requests at once; most wait for a command to end.
const REQUESTS: usize = 1_024;
/// Together they may be as large as so many of the largest messages.
const LARGEST: usize = 4;
/// Sizes are counted in these.
const UNIT: usize = 1 << 10;
/// So many answers that may be large are made at once, or wait for the agent to read them.
const ANSWERS: usize = 4;

/// The places of one agent start.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    requests: Arc<Semaphore>,
    units: Arc<Semaphore>,
    answers: Arc<Semaphore>,
}

/// One request's place, until it is carried out.
#[derive(Debug)]
pub(crate) struct Place {
    _request: OwnedSemaphorePermit,
    _units: OwnedSemaphorePermit,
}

/// A place for an answer that may be large, until the agent has read it.
#[derive(Debug)]
pub(crate) struct AnswerPlace(#[expect(dead_code, reason = "held, not used")] OwnedSemaphorePermit);

impl Places {
    /// `frame` is the size of the largest message.
    pub(super) fn new(frame: usize) -> Self {
        let units = (LARGEST * frame.div_ceil(UNIT)).min(Semaphore::MAX_PERMITS);
        let of = |count| Arc::new(Semaphore::new(count));
        Self { requests: of(REQUESTS), units: of(units), answers: of(ANSWERS) }
    }

    /// A place for a request of so many bytes; `None` if the agent has too many under way.
    pub(crate) fn request(&self, bytes: usize) -> Option<Place> {
        let units = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX);
        let request = Arc::clone(&self.requests).try_acquire_owned().ok()?;
        let units = Arc::clone(&self.units).try_acquire_many_owned(units).ok()?;
        Some(Place { _request: request, _units: units })
    }

    /// A place for the answer, waited for; `None` where the answer is small.
    pub(crate) async fn answer(&self, method: &str) -> Option<AnswerPlace> {
        if !matches!(method, "fs/read_text_file" | "fs/write_text_file" | "terminal/output") {
            return None;
        }
        // The semaphore is never closed.
        Arc::clone(&self.answers).acquire_owned().await.ok().map(AnswerPlace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_bounded_by_number_and_by_bytes() {
        let places = Places::new(1 << 20);
        let largest: Vec<Place> = (0..LARGEST).map(|_| places.request(1 << 20).unwrap()).collect();
        assert!(places.request(1).is_none());
        drop(largest);
        let many: Vec<Place> = (0..REQUESTS).map(|_| places.request(1).unwrap()).collect();
        assert!(places.request(1).is_none());
        drop(many);
        assert!(places.request(1).is_some());
    }

    #[tokio::test]
    async fn large_answers_wait_for_the_ones_before_and_others_do_not() {
        let places = Places::new(1 << 20);
        let mut held = Vec::new();
        for _ in 0..ANSWERS {
            held.push(places.answer("fs/read_text_file").await);
        }
        let mut next = Box::pin(places.answer("fs/read_text_file"));
        let early = tokio::select! {
            biased;
            _ = &mut next => true,
            () = std::future::ready(()) => false,
        };
        assert!(!early, "one too many");
        assert!(places.answer("terminal/wait_for_exit").await.is_none());
        held.pop();
        assert!(next.await.is_some());
    }
}
