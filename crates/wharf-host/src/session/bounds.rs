//! What a session may take: a place among those that run, and room for its log (rule 10.5).

use std::sync::Arc;

use wharf_core::{EndReason, Input};

use super::handle::CallError;
use super::task::SessionTask;

impl SessionTask {
    /// Looks at what would start an ended session before the core does. A client that only comes along is let in all the
    /// same: it reads, and nothing is started for it.
    pub(super) fn admit(&mut self, mut input: Input) -> Result<Input, CallError> {
        if !self.session.state().resumable() {
            return Ok(input);
        }
        if matches!(input, Input::Prompt(_) | Input::Resume | Input::Wake { .. }) {
            self.room()?;
        } else if let Input::Attach(attachment) = &mut input {
            attachment.wake = attachment.wake && self.room().is_ok();
        }
        Ok(input)
    }

    /// Takes a place for the agent, if the log has room for what it will say.
    fn room(&mut self) -> Result<(), CallError> {
        let limits = &self.around.host.config.limits;
        if self.is_log_full() {
            return Err(CallError::LogFull { limit: limits.log.0 });
        }
        if self.around.place.is_none() {
            let place = Arc::clone(&self.around.host.places).try_acquire_owned();
            self.around.place = Some(place.map_err(|_| CallError::TooMany { limit: limits.sessions })?);
        }
        Ok(())
    }

    fn is_log_full(&self) -> bool {
        self.shared.log.head().bytes >= self.around.host.config.limits.log.0 as u64
    }

    /// After every step: a session whose log has grown to its limit is ended, and one that is over gives its place back.
    pub(super) fn keep_bounds(&mut self) {
        if self.session.state().status.is_alive() && !self.stalled && self.is_log_full() {
            tracing::warn!(session = %self.shared.id, "the log has reached its limit (limits.log): the session is ended");
            self.input(Input::Kill { reason: EndReason::LogFull }, None);
            if self.append_and_publish() {
                self.act();
            }
        }
        if !self.session.state().status.is_alive() {
            self.around.place = None;
        }
    }
}
