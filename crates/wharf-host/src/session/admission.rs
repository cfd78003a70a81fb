//! The permit to run an agent, and room for the log (rule 10.5).

use std::sync::Arc;

use wharf_core::{ClientInput, Input, LifecycleInput, State};

use super::context::TaskContext;
use super::handle::CallError;
use crate::limits::CountPermit;

#[derive(Debug)]
pub(super) struct Admission {
    context: Arc<TaskContext>,
    /// The session's permit among those with a running agent, while it has one.
    permit: Option<CountPermit>,
}

impl Admission {
    pub(super) fn new(context: Arc<TaskContext>, permit: Option<CountPermit>) -> Self {
        Self { context, permit }
    }

    /// Checks a request that would start the agent of an ended session before the core decides on
    /// it. A client that only attaches is let in all the same: it reads, and no agent is started
    /// for it.
    pub(super) fn admit(&mut self, mut input: Input, state: &State) -> Result<Input, CallError> {
        if !state.resumable() {
            return Ok(input);
        }
        if matches!(
            input,
            Input::Client(ClientInput::Prompt(_) | ClientInput::SendNow { .. })
                | Input::Lifecycle(LifecycleInput::Resume | LifecycleInput::Wake { .. })
        ) {
            self.take_permit()?;
        } else if let Input::Client(ClientInput::Attach(attachment)) = &mut input {
            attachment.wake = attachment.wake && self.take_permit().is_ok();
        }
        Ok(input)
    }

    /// Takes a permit for the agent, unless the session holds one. Fails if the log has no room for
    /// the agent's output, or if all permits are taken.
    fn take_permit(&mut self) -> Result<(), CallError> {
        let host = &self.context.host;
        let limits = &host.config.limits;
        if self.is_log_full() {
            return Err(CallError::LogFull { limit: limits.log.0 });
        }
        if self.permit.is_none() {
            let permit = host.start_limits.take_session();
            self.permit = Some(permit.ok_or(CallError::TooMany { limit: limits.sessions })?);
        }
        Ok(())
    }

    pub(super) fn is_log_full(&self) -> bool {
        self.context.shared.log.head().bytes >= self.context.host.config.limits.log.0 as u64
    }

    /// Gives the permit back.
    pub(super) fn release_permit(&mut self) {
        self.permit = None;
    }
}
