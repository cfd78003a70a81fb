//! A log that cannot be written for a while: the agent is held, requests that can wait are refused,
//! and those that end things are written out of the reserve (rule 10.5).

use std::time::Duration;

use tokio::time::Instant;
use wharf_core::{Input, PauseReason, StorageInput};
use wharf_store::AppendError;

use super::Journal;
use super::writer::Space;
use crate::session::handle::CallError;

/// How soon the disk is tried again: at first, and after many failures. The engine looks at it less
/// often than sessions ask.
const FIRST_RETRY: Duration = Duration::from_millis(250);
const LAST_RETRY: Duration = Duration::from_secs(2);

/// When the disk is tried again.
#[derive(Debug)]
pub(super) struct Retry {
    at: Instant,
    wait: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self { at: Instant::now() + FIRST_RETRY, wait: FIRST_RETRY }
    }
}

impl Retry {
    fn postpone(&mut self) {
        self.wait = (self.wait * 2).min(LAST_RETRY);
        self.at = Instant::now() + self.wait;
    }

    pub(super) fn left(&self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }
}

impl Journal {
    /// Writes the decided events and the pause out of the reserve, since the log had no room for
    /// them. Returns false if that is not possible either; then the events stay in memory, and
    /// readers do not see them.
    pub(super) fn write_in_need(&mut self, why: PauseReason) -> bool {
        if !self.is_held() {
            tracing::error!(session = %self.context.shared.id, ?why, "the log cannot be written: the session is paused");
            self.retry = Retry::default();
            self.input(Input::Storage(StorageInput::Failed { why }), None);
        }
        if self.writer.is_empty() {
            return !self.stalled;
        }
        match self.write(Space::Reserve) {
            Ok(()) => true,
            Err(error) if pause_reason(&error).is_some() => {
                self.stalled = true;
                self.writer.listing().show_pause(why);
                false
            }
            Err(error) => {
                self.close(&error.to_string());
                false
            }
        }
    }

    /// Goes on if there is space again: when that is due, or `now` because a caller asks.
    pub(in crate::session) fn try_again(&mut self, now: bool) {
        if !self.is_held() || !(now || self.retry.left().is_zero()) || self.closed.is_some() {
            return;
        }
        if !self.flush() {
            self.retry.postpone();
            return;
        }
        let at = self.now();
        let proposed = self.session.propose(&Input::Storage(StorageInput::Back));
        if proposed.is_empty() {
            return;
        }
        match self.writer.append_proposed(proposed, at, self.session.head()) {
            Ok(()) => {
                tracing::info!(session = %self.context.shared.id, "the log can be written again: the session goes on");
                self.input_at(Input::Storage(StorageInput::Back), at, None);
            }
            Err(error) if pause_reason(&error).is_some() => {
                if !now {
                    self.retry.postpone();
                }
            }
            Err(error) => self.close(&error.to_string()),
        }
    }
}

/// Returns why a log cannot be written, if that may pass.
pub(super) const fn pause_reason(error: &AppendError) -> Option<PauseReason> {
    match error {
        AppendError::Full(_) => Some(PauseReason::StorageFull),
        AppendError::ReadOnly(_) => Some(PauseReason::StorageReadOnly),
        AppendError::Conflict { .. } | AppendError::StaleEpoch { .. } | AppendError::Store(_) => {
            None
        }
    }
}

pub(super) fn refusal(why: PauseReason) -> CallError {
    match why {
        PauseReason::StorageFull => CallError::StorageFull,
        PauseReason::StorageReadOnly => {
            CallError::Storage("the file system is read-only".to_owned())
        }
    }
}
