//! Tells a connection that it has to close, and why.

use std::sync::OnceLock;

use tokio::sync::Notify;

/// Why a connection has to close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The client does not read: the bounded way to it is full.
    Unread,
    /// The log of a session that the client attends cannot be written: answers that it waits for
    /// will not come.
    LogFailed,
}

/// Given to a connection once. The first reason counts.
#[derive(Debug, Default)]
pub struct CloseSignal {
    reason: OnceLock<CloseReason>,
    raised: Notify,
}

impl CloseSignal {
    /// Asks the connection to close.
    pub fn raise(&self, reason: CloseReason) {
        let _ = self.reason.set(reason);
        self.raised.notify_one();
    }

    /// Waits until the connection has to close. Only one task may wait.
    pub async fn raised(&self) -> CloseReason {
        loop {
            if let Some(reason) = self.reason.get() {
                return *reason;
            }
            self.raised.notified().await;
        }
    }
}
