//! Prompts on their way to the host, in the order in which they were written. Each is sent until
//! the host has answered, always with the same idempotency key, so that it counts once (rules 7.5
//! and 19.8).

use std::time::Duration;

use super::SentPrompt;
use crate::api_call::ApiCall;

/// The pause before a prompt is sent again if its answer did not come.
const RETRY_PAUSE: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(crate) struct PromptOutbox {
    prompts: Vec<OutgoingPrompt>,
}

#[derive(Debug)]
pub(crate) struct OutgoingPrompt {
    pub(crate) prompt: SentPrompt,
    call: ApiCall,
    step: DeliveryStep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeliveryStep {
    /// It is sent when those of its session before it are answered.
    Waiting,
    /// The host has not answered yet.
    Sent,
    /// It is sent again then.
    RetryAt(Duration),
}

impl OutgoingPrompt {
    /// Returns true if it waits longer than a prompt that a host takes at once.
    pub(crate) const fn is_held_up(&self) -> bool {
        matches!(self.step, DeliveryStep::RetryAt(_))
    }
}

impl PromptOutbox {
    pub(crate) fn add(&mut self, prompt: SentPrompt, call: ApiCall) {
        self.prompts.push(OutgoingPrompt { prompt, call, step: DeliveryStep::Waiting });
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.prompts.is_empty()
    }

    /// Yields the prompts of a session that the host has not taken yet.
    pub(crate) fn of_session<'a>(
        &'a self,
        session: &'a str,
    ) -> impl DoubleEndedIterator<Item = &'a OutgoingPrompt> {
        self.prompts.iter().filter(move |outgoing| outgoing.prompt.session == session)
    }

    /// Returns the sessions that have prompts here.
    pub(crate) fn sessions(&self) -> Vec<String> {
        self.prompts.iter().map(|outgoing| outgoing.prompt.session.clone()).collect()
    }

    /// Removes the prompt with this key: the host has answered, or the person has taken it back.
    pub(crate) fn remove(&mut self, key: &str) -> Option<OutgoingPrompt> {
        let place = self.prompts.iter().position(|outgoing| outgoing.prompt.key == key)?;
        Some(self.prompts.remove(place))
    }

    /// Has a prompt sent again after a pause.
    pub(crate) fn retry_later(&mut self, key: &str, now: Duration) {
        for outgoing in self.prompts.iter_mut().filter(|outgoing| outgoing.prompt.key == key) {
            outgoing.step = DeliveryStep::RetryAt(now + RETRY_PAUSE);
        }
    }

    /// Has all prompts sent again that are not answered after a pause: the host answers again.
    pub(crate) fn retry_unanswered(&mut self, now: Duration) {
        for outgoing in
            self.prompts.iter_mut().filter(|outgoing| outgoing.step == DeliveryStep::Sent)
        {
            outgoing.step = DeliveryStep::RetryAt(now + RETRY_PAUSE);
        }
    }

    /// Returns the prompts that are to be sent now, and notes that they are.
    pub(crate) fn take_due(&mut self, now: Duration) -> Vec<(SentPrompt, ApiCall)> {
        let mut busy: Vec<String> = Vec::new();
        let mut due = Vec::new();
        for outgoing in &mut self.prompts {
            let session = &outgoing.prompt.session;
            if busy.contains(session) {
                continue;
            }
            busy.push(session.clone());
            let is_due = match outgoing.step {
                DeliveryStep::Waiting => true,
                DeliveryStep::Sent => false,
                DeliveryStep::RetryAt(at) => at <= now,
            };
            if is_due {
                outgoing.step = DeliveryStep::Sent;
                due.push((outgoing.prompt.clone(), outgoing.call.clone()));
            }
        }
        due
    }

    /// Returns when a prompt is to be sent again.
    pub(crate) fn next_retry(&self) -> Option<Duration> {
        let retry_at = |outgoing: &OutgoingPrompt| match outgoing.step {
            DeliveryStep::RetryAt(at) => Some(at),
            DeliveryStep::Waiting | DeliveryStep::Sent => None,
        };
        self.prompts.iter().filter_map(retry_at).min()
    }
}
