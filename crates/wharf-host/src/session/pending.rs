//! Messages of clients for an agent that is starting: they are passed on in their order, with the
//! prompts, when it runs.

use std::collections::VecDeque;

use tokio::sync::oneshot;
use wharf_core::ClientId;

use super::handle::{Forward, Taken};
use crate::agent::initialize::StartFailure;

/// Messages of one connection that may wait for the agent's start.
const MAX_PENDING: usize = 256;

/// A message that waits for the agent's start.
#[derive(Debug)]
struct PendingForward {
    forward: Forward,
    /// Told when it was passed on, or why it will not be.
    passed_on: PassedOnTo,
    /// A prompt was waiting when it came: the first prompt goes before it.
    is_behind_prompt: bool,
}

pub(super) type PassedOnTo = oneshot::Sender<Result<(), StartFailure>>;

#[derive(Debug, Default)]
pub(super) struct PendingForwards(VecDeque<PendingForward>);

impl PendingForwards {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keeps a message until the agent runs, unless too many of its connection wait.
    pub(super) fn push(
        &mut self,
        forward: Forward,
        taken: oneshot::Sender<Taken>,
        is_behind_prompt: bool,
    ) {
        let waiting =
            self.0.iter().filter(|pending| pending.forward.client == forward.client).count();
        if waiting >= MAX_PENDING {
            let _ = taken.send(Taken::Refused);
            return;
        }
        let (passed_on, told) = oneshot::channel();
        self.0.push_back(PendingForward { forward, passed_on, is_behind_prompt });
        let _ = taken.send(Taken::Later(told));
    }

    /// Returns true if a message of this client waits.
    pub(super) fn has_of(&self, client: &ClientId) -> bool {
        self.0.iter().any(|pending| pending.forward.client == *client)
    }

    /// Takes the next message that came before the first prompt.
    pub(super) fn next_before_prompt(&mut self) -> Option<(Forward, PassedOnTo)> {
        self.0
            .pop_front_if(|pending| !pending.is_behind_prompt)
            .map(|next| (next.forward, next.passed_on))
    }

    pub(super) fn next(&mut self) -> Option<(Forward, PassedOnTo)> {
        self.0.pop_front().map(|next| (next.forward, next.passed_on))
    }

    /// Refuses all messages: the agent did not start.
    pub(super) fn refuse_all(&mut self, failure: &StartFailure) {
        for pending in self.0.drain(..) {
            let _ = pending.passed_on.send(Err(failure.clone()));
        }
    }

    /// Takes back a request that waits, if there is one. The sender tells its caller that it waits
    /// no more.
    pub(super) fn take_back(&mut self, client: &ClientId, request: &[u8]) -> Option<PassedOnTo> {
        let is_meant = |pending: &PendingForward| {
            pending.forward.client == *client && pending.forward.request.as_deref() == Some(request)
        };
        let at = self.0.iter().position(is_meant)?;
        self.0.remove(at).map(|pending| pending.passed_on)
    }
}
