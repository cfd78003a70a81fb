//! The storage pause: the agent is paused while the log cannot be written, and deadlines move by
//! that time (rule 10.5).

use super::{Draft, Session};
use crate::{Millis, PauseReason, StorageEvent};

impl Session {
    /// Records that the agent is paused from now on. A session without an agent has nothing to
    /// pause.
    pub(super) fn pause(&mut self, why: PauseReason, draft: &mut Draft) {
        if self.state.status.is_alive() && self.state.paused.is_none() {
            self.record(StorageEvent::Paused { why }, draft);
        }
    }

    pub(super) fn go_on(&mut self, draft: &mut Draft) {
        let Some(paused) = self.state.paused else { return };
        self.record(StorageEvent::Continued, draft);
        let held = Millis(draft.now.0.saturating_sub(paused.since.0));
        self.live.postpone(held, draft.now);
    }
}
