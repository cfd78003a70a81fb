//! Waiting for what has no event to wait on, such as a line in a file: looks again and again, up to a limit.

use std::time::{Duration, Instant};

use anyhow::Result;

/// Short against any wait that a test makes, long against the cost of a look.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The first `Some` that `look` gives; `None` at the limit.
pub async fn until<T>(limit: Duration, mut look: impl FnMut() -> Result<Option<T>>) -> Result<Option<T>> {
    let give_up_at = Instant::now() + limit;
    loop {
        let seen = look()?;
        if seen.is_some() || Instant::now() >= give_up_at {
            return Ok(seen);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
