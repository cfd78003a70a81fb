//! The time, as the shell tells it with each input.

use std::time::Duration;

/// An instant. Deadlines are compared with `elapsed`, which never goes back; `unix_millis` is for
/// the ages of things.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// The time since the client started.
    pub elapsed: Duration,
    /// Milliseconds since 1970, by the clock of this machine.
    pub unix_millis: u64,
}
