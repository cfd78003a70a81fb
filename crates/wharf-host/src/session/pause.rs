//! A log that cannot be written for a while: the agent is held, what can wait is refused without a trace, and what ends
//! things is written out of the reserve (rule 10.5).

use std::time::Duration;

use tokio::time::Instant;
use wharf_core::{Input, PauseReason, Session};
use wharf_store::AppendError;

use super::command::ReplyTo;
use super::handle::CallError;
use super::task::SessionTask;

/// How soon the disk is tried again: at first, and after many failures. The engine looks at it less often than sessions
/// ask.
const SOONEST: Duration = Duration::from_millis(250);
const LATEST: Duration = Duration::from_secs(2);

/// When the disk is tried again.
#[derive(Debug)]
pub(super) struct Retry {
    at: Instant,
    wait: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self { at: Instant::now() + SOONEST, wait: SOONEST }
    }
}

impl Retry {
    fn postpone(&mut self) {
        self.wait = (self.wait * 2).min(LATEST);
        self.at = Instant::now() + self.wait;
    }

    pub(super) fn left(&self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }
}

/// How things were before an input, in case what it led to cannot be written.
pub(super) struct Before {
    session: Session,
    waiting: usize,
}

impl SessionTask {
    /// Is the agent not to be heard now?
    pub(super) fn is_held(&self) -> bool {
        self.stalled || self.session.state().paused.is_some()
    }

    /// What a caller wants. If it cannot be written it has never been: the caller is told, and nothing is left of it.
    pub(super) fn wish(&mut self, input: Input, reply: ReplyTo) {
        if self.broken {
            return;
        }
        if self.stalled {
            return self.refuse_while_stalled(&input, reply);
        }
        if cannot_wait(&input) {
            return self.input(input, Some(reply));
        }
        let input = match self.admit(input) {
            Ok(input) => input,
            Err(refused) => return drop(reply.send(Err(refused))),
        };
        // What was decided before is not to be undone with it.
        if !self.append_and_publish() {
            return self.refuse(reply);
        }
        self.try_again(true);
        let before = self.before();
        self.input(input, Some(reply));
        if self.fresh.is_empty() {
            return;
        }
        if let Some(paused) = self.session.state().paused {
            return self.undo(before, paused.why);
        }
        match self.write(false) {
            Ok(()) => {}
            Err(error) => match reason(&error) {
                Some(why) => {
                    self.undo(before, why);
                    self.pause(why);
                }
                None => self.give_up(&error.to_string()),
            },
        }
    }

    /// Kill and cancel reach the agent even when nothing at all can be written; who asked for it is told just that.
    fn refuse_while_stalled(&mut self, input: &Input, reply: ReplyTo) {
        let done = match (input, &mut self.agent) {
            (Input::Kill { .. }, Some(agent)) => {
                agent.process.end();
                "the agent was ended"
            }
            (Input::Cancel { .. } | Input::Interrupt { .. }, Some(agent)) => {
                agent.speak(|voice| voice.cancel());
                "the agent was told to end its turn"
            }
            _ => return self.refuse(reply),
        };
        let _ = reply.send(Err(CallError::NotWritten { done }));
    }

    fn refuse(&self, reply: ReplyTo) {
        let why = self.session.state().paused.map_or(PauseReason::StorageFull, |paused| paused.why);
        let _ = reply.send(Err(refusal(why)));
    }

    pub(super) fn before(&self) -> Before {
        Before { session: self.session.clone(), waiting: self.waiting.len() }
    }

    /// As if the last input had never been.
    fn undo(&mut self, before: Before, why: PauseReason) {
        self.session = before.session;
        self.fresh.clear();
        for waiting in self.waiting.split_off(before.waiting) {
            waiting.refuse(refusal(why));
        }
    }

    /// What was decided could not be written as usual: it is, with the pause, out of the reserve. False if that is not
    /// possible either; then it is kept in memory, and shown to nobody.
    pub(super) fn write_in_need(&mut self, why: PauseReason) -> bool {
        if !self.is_held() {
            tracing::error!(session = %self.shared.id, ?why, "the log cannot be written: the session is paused");
            self.retry = Retry::default();
            self.input(Input::StorageFailed { why }, None);
        }
        if self.fresh.is_empty() {
            return !self.stalled;
        }
        match self.write(true) {
            Ok(()) => true,
            Err(error) if reason(&error).is_some() => {
                self.stalled = true;
                self.show_pause(why);
                false
            }
            Err(error) => {
                self.give_up(&error.to_string());
                false
            }
        }
    }

    fn pause(&mut self, why: PauseReason) {
        self.write_in_need(why);
    }

    /// Goes on if there is space again: when that is due, or `now` because someone asks.
    pub(super) fn try_again(&mut self, now: bool) {
        if !self.is_held() || !(now || self.retry.left().is_zero()) {
            return;
        }
        if self.stalled && !self.append_and_publish() {
            self.retry.postpone();
            return;
        }
        let before = self.before();
        self.input(Input::StorageBack, None);
        if self.fresh.is_empty() {
            return;
        }
        let why = before.session.state().paused.map_or(PauseReason::StorageFull, |paused| paused.why);
        match self.write(false) {
            Ok(()) => tracing::info!(session = %self.shared.id, "the log can be written again: the session goes on"),
            Err(error) if reason(&error).is_some() => {
                self.undo(before, why);
                if !now {
                    self.retry.postpone();
                }
            }
            Err(error) => self.give_up(&error.to_string()),
        }
    }
}

/// What must be written even on a full disk: it ends things, or the agent waits for it. All of it is small.
const fn cannot_wait(input: &Input) -> bool {
    matches!(
        input,
        Input::Kill { .. }
            | Input::Cancel { .. }
            | Input::Interrupt { .. }
            | Input::CancelPrompt { .. }
            | Input::RemovePrompt { .. }
            | Input::Answer { .. }
            | Input::Decline { .. }
            | Input::Detach { .. }
    )
}

/// Why a log cannot be written, if that may pass.
pub(super) const fn reason(error: &AppendError) -> Option<PauseReason> {
    match error {
        AppendError::Full(_) => Some(PauseReason::StorageFull),
        AppendError::ReadOnly(_) => Some(PauseReason::StorageReadOnly),
        AppendError::Conflict { .. } | AppendError::StaleEpoch { .. } | AppendError::Store(_) => None,
    }
}

pub(super) fn refusal(why: PauseReason) -> CallError {
    match why {
        PauseReason::StorageFull => CallError::StorageFull,
        PauseReason::StorageReadOnly => CallError::Storage("the file system is read-only".to_owned()),
    }
}
