//! Limits on the work that Wharf itself does for an agent at once.

use crate::limits::{CountLimit, CountPermit, RequestLimit, RequestPermit};

/// Requests at once; most wait for a command to end.
const MAX_REQUESTS: usize = 1_024;
/// Together the requests may be as large as so many of the largest messages.
const MAX_LARGE_REQUESTS: usize = 4;
/// Answers that may be large and are made at once, or wait for the agent to read them.
const MAX_LARGE_ANSWERS: usize = 4;

/// The limits of one agent start.
#[derive(Clone, Debug)]
pub(crate) struct ServiceLimits {
    requests: RequestLimit,
    answers: CountLimit,
}

impl ServiceLimits {
    pub(super) fn new(max_message_bytes: usize) -> Self {
        Self {
            requests: RequestLimit::new(MAX_REQUESTS, MAX_LARGE_REQUESTS, max_message_bytes),
            answers: CountLimit::new(MAX_LARGE_ANSWERS),
        }
    }

    /// Takes a permit for a request, to be held until it is carried out. Returns `None` if the
    /// agent has too many under way.
    pub(crate) fn try_acquire_request(&self, bytes: usize) -> Option<RequestPermit> {
        self.requests.try_acquire(bytes)
    }

    /// Waits for a permit for the answer, to be held until the agent has read it. Returns `None` if
    /// the answer is small.
    pub(crate) async fn acquire_answer(&self, method: &str) -> Option<CountPermit> {
        if !matches!(method, "fs/read_text_file" | "fs/write_text_file" | "terminal/output") {
            return None;
        }
        Some(self.answers.acquire().await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::poll_once;

    #[test]
    fn requests_are_limited_by_number_and_by_size() {
        let limits = ServiceLimits::new(1 << 20);
        let take = |bytes| limits.try_acquire_request(bytes);
        let largest: Vec<RequestPermit> =
            (0..MAX_LARGE_REQUESTS).map(|_| take(1 << 20).unwrap()).collect();
        assert!(take(1).is_none());
        drop(largest);
        let many: Vec<RequestPermit> = (0..MAX_REQUESTS).map(|_| take(1).unwrap()).collect();
        assert!(take(1).is_none());
        drop(many);
        assert!(take(1).is_some());
    }

    #[tokio::test]
    async fn large_answers_wait_for_earlier_ones_and_small_answers_do_not() {
        let limits = ServiceLimits::new(1 << 20);
        let mut held = Vec::new();
        for _ in 0..MAX_LARGE_ANSWERS {
            held.push(limits.acquire_answer("fs/read_text_file").await);
        }
        let mut next = Box::pin(limits.acquire_answer("fs/read_text_file"));
        assert!(poll_once(&mut next).await.is_none(), "one too many");
        assert!(limits.acquire_answer("terminal/wait_for_exit").await.is_none());
        held.pop();
        assert!(next.await.is_some());
    }
}
