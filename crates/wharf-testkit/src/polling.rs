//! Waits for conditions without an event, such as a line in a file, by polling up to a limit.

use std::time::{Duration, Instant};

use anyhow::Result;

/// Short against any wait of a test, long against the cost of a check.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Returns the first `Some` of `look`, or `None` at the limit.
pub async fn poll_until<T>(
    limit: Duration,
    mut look: impl FnMut() -> Result<Option<T>>,
) -> Result<Option<T>> {
    let give_up_at = Instant::now() + limit;
    loop {
        let seen = look()?;
        if seen.is_some() || Instant::now() >= give_up_at {
            return Ok(seen);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
