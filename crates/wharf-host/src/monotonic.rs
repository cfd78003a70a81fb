//! The monotonic clock, as a number that another process of the same machine understands.

use rustix::time::{ClockId, clock_gettime};

/// Returns the milliseconds of a clock that stands still while the machine sleeps. All processes
/// since the last boot read the same.
pub(crate) fn monotonic_millis() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec);
    let nanos = u64::try_from(time.tv_nsec);
    seconds.unwrap_or_default() * 1_000 + nanos.unwrap_or_default() / 1_000_000
}
