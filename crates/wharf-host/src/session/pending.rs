//! Messages of clients for an agent that is starting: they are passed on in their order, with the prompts, when it runs.

use bytes::Bytes;
use tokio::sync::oneshot;
use wharf_core::{ClientId, Status};

use super::handle::{Direct, Forward, Taken};
use super::task::SessionTask;
use super::voice::error;
use crate::agent::introduction::StartFailure;

/// Messages of one connection that may wait for the agent's start.
const MAX_PENDING: usize = 256;

/// A message that waits for the agent's start.
#[derive(Debug)]
pub(super) struct PendingForward {
    forward: Forward,
    /// Told when it was passed on, or why it will not be.
    passed_on: oneshot::Sender<Result<(), StartFailure>>,
    /// A prompt was waiting when it came: the first prompt goes before it.
    is_behind_prompt: bool,
}

impl SessionTask {
    /// Returns true if a message has to wait: for the start, or behind others that do.
    pub(super) fn must_wait(&self) -> bool {
        self.session.state().status == Status::Starting || !self.pending.is_empty()
    }

    pub(super) fn hold_back(&mut self, forward: Forward, taken: oneshot::Sender<Taken>) {
        let waiting = self.pending.iter().filter(|pending| pending.forward.client == forward.client).count();
        if waiting >= MAX_PENDING {
            let _ = taken.send(Taken::Refused);
            return;
        }
        let (passed_on, told) = oneshot::channel();
        let is_behind_prompt = !self.session.state().queue.is_empty() || !self.session.state().turns.is_empty();
        self.pending.push_back(PendingForward { forward, passed_on, is_behind_prompt });
        let _ = taken.send(Taken::Later(told));
    }

    /// Does a message of this client wait?
    pub(super) fn holds_back(&self, client: &ClientId) -> bool {
        self.pending.iter().any(|pending| pending.forward.client == *client)
    }

    /// Passes on what came before the first prompt. The rest follows that prompt.
    pub(super) fn pass_on_before_prompt(&mut self) {
        while self.pending.front().is_some_and(|pending| !pending.is_behind_prompt) {
            self.pass_on_next();
        }
    }

    /// Passes on all that waits.
    pub(super) fn pass_on_pending(&mut self) {
        while !self.pending.is_empty() {
            self.pass_on_next();
        }
    }

    fn pass_on_next(&mut self) {
        if let Some(PendingForward { forward, passed_on, .. }) = self.pending.pop_front() {
            self.pass_on(forward);
            let _ = passed_on.send(Ok(()));
        }
    }

    /// The agent did not start: what waited for it is refused.
    pub(super) fn refuse_pending(&mut self, failure: &StartFailure) {
        for pending in self.pending.drain(..) {
            let _ = pending.passed_on.send(Err(failure.clone()));
        }
    }

    /// Takes back a request that waits. Returns false if there is none.
    pub(super) fn cancel_pending(&mut self, client: &ClientId, request: &[u8]) -> bool {
        let is_meant = |pending: &PendingForward| {
            pending.forward.client == *client && pending.forward.request.as_deref() == Some(request)
        };
        let Some(at) = self.pending.iter().position(is_meant) else { return false };
        if let Some(pending) = self.pending.remove(at) {
            let frame: Bytes = error(&String::from_utf8_lossy(request), -32800, "request cancelled");
            self.direct(client, Direct::Frame(frame));
            let _ = pending.passed_on.send(Ok(()));
        }
        true
    }
}
