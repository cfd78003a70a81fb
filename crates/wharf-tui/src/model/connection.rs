//! The connection to the host, as the stream of all sessions shows it.

use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HostPresence {
    /// The first connection is being made; the host may be starting.
    Connecting {
        since: Duration,
    },
    Connected,
    /// The host is gone. The shell tries again.
    Lost {
        reason: String,
        retry_at: Option<Duration>,
    },
}

impl HostPresence {
    pub(crate) const fn is_connected(&self) -> bool {
        matches!(self, Self::Connected)
    }
}
