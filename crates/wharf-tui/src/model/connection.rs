//! The connection to the host, as the stream of all sessions shows it.

use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HostPresence {
    /// The first connection is being made; the host may be starting.
    Connecting {
        since: Duration,
    },
    Connected,
    /// Nothing comes from the host although something should have. The connection may still stand.
    Silent,
    /// The host has announced that it stops. The connection still stands.
    Stopping,
    /// The connection is gone. The shell tries again.
    Lost {
        loss: HostLoss,
        /// The reason of the last attempt that failed.
        reason: String,
        /// The last attempt reached a host, which refused the stream.
        is_refused: bool,
        retry_at: Option<Duration>,
    },
}

/// The way in which a lost host may come back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HostLoss {
    /// This client may not start it: it is on another machine, or the person said so.
    Unreachable,
    /// It runs, but refuses the stream.
    Refusing,
    /// It died, and is being started again. `starts` counts the starts since the last connection.
    Starting { starts: u32 },
    /// It was started again, and the stream has not connected to it yet.
    Started { starts: u32 },
    /// It could not be started, for this reason. It is not started over and over.
    StartFailed(String),
    /// It announced that it stops, and stays stopped until the person starts it again.
    Stopped,
}

impl HostPresence {
    pub(crate) const fn is_connected(&self) -> bool {
        matches!(self, Self::Connected)
    }
}
