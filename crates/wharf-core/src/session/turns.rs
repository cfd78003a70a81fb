//! Prompts, the queue, turns and cancels (rules 7.1 to 7.5).

use std::sync::Arc;

use super::{Draft, Session};
use crate::{
    AskReply, CancelScope, Effect, Event, FailureText, Millis, Overlap, PromptEnd, PromptEvent,
    PromptId, PromptReceipt, Raw, Refusal, Reply, Sender, Status, Submission, TurnLimit,
};

/// The cause of a cancel: a client, with the reason that it gave, or a limit.
#[derive(Debug, Default)]
pub(super) struct CancelCause<'a> {
    pub(super) by: Option<&'a Sender>,
    pub(super) limit: Option<TurnLimit>,
    pub(super) reason: Option<Arc<str>>,
}

impl<'a> CancelCause<'a> {
    fn by(client: &'a Sender) -> Self {
        Self { by: Some(client), ..Self::default() }
    }
}

impl Session {
    pub(super) fn take_prompt(&mut self, submission: Submission, draft: &mut Draft) -> Reply {
        if let Some(reply) = self.reply_without_taking(&submission) {
            return reply;
        }
        let hands_over = self.hands_over(&submission);
        let Submission { prompt, sender, frame, key, overlap, .. } = submission;
        let first = overlap == Overlap::Interrupt;
        let accepted = (prompt.clone(), sender.clone());
        self.record(PromptEvent::Accepted { prompt, sender, frame, key, first }, draft);
        let (prompt, sender) = accepted;
        if hands_over {
            self.start_turn(&prompt, draft);
        } else if first {
            let running = self.state.turns.iter().map(|turn| turn.prompt.clone()).collect();
            self.cancel_turns(
                running,
                CancelCause::by(&sender),
                self.settings.cancel_timeout,
                draft,
            );
        }
        self.wake(draft);
        self.start_next_turn(draft);
        self.receipt(prompt, false)
    }

    /// Returns the events that take the prompt, if it is taken: its acceptance and, if its turn
    /// begins at once, that.
    pub(super) fn propose_prompt(&self, submission: &Submission) -> Vec<Event> {
        if self.reply_without_taking(submission).is_some() {
            return Vec::new();
        }
        let starts =
            self.starts_at_once(self.hands_over(submission)) && self.state.paused.is_none();
        let content = self.state.head.next();
        let Submission { prompt, sender, frame, key, overlap, .. } = submission.clone();
        let started = starts.then(|| PromptEvent::TurnStarted { prompt: prompt.clone(), content });
        let first = overlap == Overlap::Interrupt;
        let accepted = PromptEvent::Accepted { prompt, sender, frame, key, first };
        std::iter::once(accepted).chain(started).map(Event::from).collect()
    }

    /// Returns true if the agent runs and has not ended without a host.
    fn takes_prompts(&self) -> bool {
        self.state.status == Status::Running && !self.live.has_agent_ended
    }

    /// Returns true if the turn of a new prompt begins with its acceptance.
    fn starts_at_once(&self, hands_over: bool) -> bool {
        let state = &self.state;
        let is_free = state.turns.is_empty() && state.queue.is_empty();
        hands_over || (self.takes_prompts() && is_free)
    }

    /// Returns the reply to a prompt that is not taken: a refusal, or the receipt of the prompt
    /// that it repeats.
    fn reply_without_taking(&self, submission: &Submission) -> Option<Reply> {
        if self.live.observes(&submission.sender) {
            return Some(Reply::Refused(Refusal::Observer));
        }
        let known = submission
            .key
            .as_deref()
            .and_then(|key| self.state.keys.get(key, &submission.sender));
        if let Some(known) = known {
            if !known.says(&submission.frame) {
                return Some(Reply::Refused(Refusal::KeyReused(known.prompt.clone())));
            }
            return Some(self.receipt(known.prompt.clone(), true));
        }
        self.why_not(submission, self.hands_over(submission)).map(Reply::Refused)
    }

    fn receipt(&self, prompt: PromptId, duplicate: bool) -> Reply {
        let position = self.state.position(&prompt);
        let end = if duplicate { self.state.prompt_end(&prompt).cloned() } else { None };
        Reply::Prompt(PromptReceipt { prompt, position, duplicate, end })
    }

    /// Returns true if the prompt may be sent to a working agent. It may not if a turn is
    /// cancelled, since the agent might drop this prompt as well.
    fn hands_over(&self, submission: &Submission) -> bool {
        let state = &self.state;
        submission.to_agent
            && submission.overlap == Overlap::Queue
            && !state.turns.is_empty()
            && self.takes_prompt_while_busy()
    }

    /// Returns true if the agent queues prompts by itself and no running turn is cancelled.
    pub(super) fn takes_prompt_while_busy(&self) -> bool {
        let state = &self.state;
        state.traits.queues && self.takes_prompts() && !state.turns.iter().any(|turn| turn.cancel)
    }

    fn why_not(&self, submission: &Submission, hands_over: bool) -> Option<Refusal> {
        let state = &self.state;
        let prompt = &submission.prompt;
        if state.position(prompt).is_some()
            || state.running(prompt).is_some()
            || state.keys.find(prompt).is_some()
        {
            return Some(Refusal::PromptIdTaken(prompt.clone()));
        }
        if !state.status.is_alive() && state.killed_by_user() {
            return Some(Refusal::Killed);
        }
        if !state.status.is_alive() && !state.resumable() {
            return Some(Refusal::NotResumable);
        }
        let busy = !state.turns.is_empty() || !state.queue.is_empty();
        if submission.overlap == Overlap::Refuse && busy {
            return Some(Refusal::TurnInProgress);
        }
        let limit = self.settings.max_queue;
        let is_full = match hands_over {
            true => !self.has_room_for_turn(),
            false => !self.starts_at_once(false) && state.queue.len() >= limit,
        };
        is_full.then_some(Refusal::QueueFull { limit })
    }

    /// Returns true if the agent may get one more prompt while it works. Those that it has count as
    /// a queue.
    pub(super) fn has_room_for_turn(&self) -> bool {
        self.state.turns.len() <= self.settings.max_queue.max(1)
    }

    /// Sends the next queued prompt to the agent if it is idle.
    pub(super) fn start_next_turn(&mut self, draft: &mut Draft) {
        if !self.takes_prompts() || !self.state.turns.is_empty() || self.state.paused.is_some() {
            return;
        }
        if let Some(next) = self.state.queue.front() {
            let prompt = next.prompt.clone();
            self.start_turn(&prompt, draft);
        }
    }

    pub(super) fn start_turn(&mut self, prompt: &PromptId, draft: &mut Draft) {
        let Some(queued) = self.state.queue.iter().find(|queued| queued.prompt == *prompt) else {
            return;
        };
        self.record(
            PromptEvent::TurnStarted { prompt: prompt.clone(), content: queued.content },
            draft,
        );
        if let Some(turn) = self.state.running(prompt) {
            draft
                .act(Effect::SendPrompt { prompt: turn.prompt.clone(), frame: turn.frame.clone() });
        }
    }

    /// Records the agent's answer. A late answer to a prompt that has ended changes nothing.
    pub(super) fn agent_answered(
        &mut self,
        prompt: PromptId,
        stop_reason: Option<Arc<str>>,
        frame: Raw,
        stderr: Option<&str>,
        draft: &mut Draft,
    ) {
        if self.state.running(&prompt).is_none() {
            return;
        }
        self.cancel_asks_of(&prompt, None, draft);
        let (end, failure) = match stop_reason {
            Some(stop_reason) => (PromptEnd::Answered { stop_reason, frame }, None),
            None => {
                let stderr = stderr.filter(|stderr| !stderr.is_empty());
                let failure =
                    stderr.map(|stderr| FailureText { reason: "", stderr }.to_string().into());
                (PromptEnd::Failed { frame }, failure)
            }
        };
        self.record(PromptEvent::Ended { prompt, end, failure }, draft);
    }

    /// Handles `session/cancel` (rule 7.4): ends the caller's own prompts. If there are none,
    /// cancels another client's turn that the caller has been shown, unless the cancel was meant
    /// for its own turn that has just ended.
    pub(super) fn cancel(&mut self, by: Sender, scope: CancelScope, draft: &mut Draft) -> Reply {
        if self.live.observes(&by) {
            return Reply::Refused(Refusal::Observer);
        }
        let state = &self.state;
        let waits = state.queue.iter().any(|queued| queued.sender.is_same_client(&by));
        let doomed = state
            .queue
            .iter()
            .filter(|queued| scope.clear_queue || queued.sender.is_same_client(&by));
        let doomed: Vec<_> = doomed.map(|queued| queued.prompt.clone()).collect();
        // The caller's own prompt is meant in any state: a moment earlier it would have been
        // removed from the queue.
        let own = state.turns.iter().filter(|turn| turn.sender.is_same_client(&by));
        let own: Vec<_> = own.map(|turn| turn.prompt.clone()).collect();
        let shown = state.turns.iter().filter(|turn| turn.started_seq <= scope.seen);
        let shown: Vec<_> = shown.map(|turn| turn.prompt.clone()).collect();
        let crossed = own.is_empty()
            && !waits
            && !shown.is_empty()
            && self.live.ended_since(&by, scope.settled);
        let meant = match () {
            () if !own.is_empty() => own,
            () if waits || crossed => Vec::new(),
            () => shown,
        };

        for prompt in doomed {
            self.record(
                PromptEvent::Ended { prompt, end: PromptEnd::Cancelled, failure: None },
                draft,
            );
        }
        let was_busy = !meant.is_empty();
        self.cancel_turns(meant, CancelCause::by(&by), self.settings.cancel_timeout, draft);
        Reply::Cancelled { was_busy, crossed }
    }

    /// Ends the running turn, whoever sent its prompt. With `force` the agent is not waited for.
    pub(super) fn interrupt(&mut self, by: Sender, force: bool, draft: &mut Draft) -> Reply {
        if self.live.observes(&by) {
            return Reply::Refused(Refusal::Observer);
        }
        let was_busy = self.cancel_all_turns(&by, draft);
        if force && was_busy {
            self.end_turns_by_force(draft);
        }
        Reply::Cancelled { was_busy, crossed: false }
    }

    /// Asks the agent to end all running turns. Returns true if there are any.
    pub(super) fn cancel_all_turns(&mut self, by: &Sender, draft: &mut Draft) -> bool {
        let running: Vec<_> = self.state.turns.iter().map(|turn| turn.prompt.clone()).collect();
        let was_busy = !running.is_empty();
        self.cancel_turns(running, CancelCause::by(by), self.settings.cancel_timeout, draft);
        was_busy
    }

    /// Asks the agent to end these turns, for a client or because of a limit. A turn that is
    /// already cancelled is not requested again. The agent has to settle them within `patience`.
    pub(super) fn cancel_turns(
        &mut self,
        mut prompts: Vec<PromptId>,
        cause: CancelCause<'_>,
        patience: Option<Millis>,
        draft: &mut Draft,
    ) {
        prompts.retain(|prompt| self.state.running(prompt).is_some_and(|turn| !turn.cancel));
        if prompts.is_empty() {
            return;
        }
        draft.act(Effect::SendCancel);
        let CancelCause { by, limit, reason } = cause;
        for prompt in prompts {
            let asked_by = by.cloned();
            let reason = reason.clone();
            self.record(
                PromptEvent::CancelRequested {
                    prompt: prompt.clone(),
                    by: asked_by,
                    limit,
                    reason,
                },
                draft,
            );
            self.cancel_asks_of(&prompt, by, draft);
            if let Some(wait) = patience.filter(|_| !self.live.has_agent_ended) {
                self.live.cancel_deadlines.insert(prompt, draft.now.after(wait));
            }
        }
    }

    fn cancel_asks_of(&mut self, prompt: &PromptId, by: Option<&Sender>, draft: &mut Draft) {
        let open = self.state.asks.values().filter(|ask| ask.prompt.as_ref() == Some(prompt));
        let open: Vec<_> = open.map(|ask| ask.id).collect();
        for ask in open {
            self.settle_ask(
                ask,
                crate::AskOutcome::Cancelled,
                AskReply::Cancelled,
                by.cloned(),
                draft,
            );
        }
    }

    pub(super) fn cancel_prompt(
        &mut self,
        prompt: PromptId,
        by: Sender,
        reason: Option<Arc<str>>,
        draft: &mut Draft,
    ) -> Reply {
        match self.not_waiting(&prompt, &by) {
            None => self.remove_prompt(prompt, by, draft),
            Some(Refusal::AlreadyStarted(prompt)) => {
                let cause = CancelCause { reason, ..CancelCause::by(&by) };
                self.cancel_turns(vec![prompt], cause, self.settings.cancel_timeout, draft);
                Reply::Done
            }
            Some(refusal) => Reply::Refused(refusal),
        }
    }

    pub(super) fn remove_prompt(
        &mut self,
        prompt: PromptId,
        by: Sender,
        draft: &mut Draft,
    ) -> Reply {
        if let Some(refusal) = self.not_waiting(&prompt, &by) {
            return Reply::Refused(refusal);
        }
        self.record(
            PromptEvent::Ended {
                prompt,
                end: PromptEnd::Removed { by: Some(by) },
                failure: None,
            },
            draft,
        );
        Reply::Done
    }

    pub(super) fn update_prompt(
        &mut self,
        prompt: PromptId,
        by: Sender,
        frame: Raw,
        draft: &mut Draft,
    ) -> Reply {
        if let Some(refusal) = self.not_waiting(&prompt, &by) {
            return Reply::Refused(refusal);
        }
        let sender = self.sender_of(&prompt);
        self.record(PromptEvent::Updated { prompt, by, frame, sender }, draft);
        Reply::Done
    }

    pub(super) fn propose_update(
        &self,
        prompt: &PromptId,
        by: &Sender,
        frame: &Raw,
    ) -> Option<Event> {
        if self.not_waiting(prompt, by).is_some() {
            return None;
        }
        let sender = self.sender_of(prompt);
        Some(Event::Prompt(PromptEvent::Updated {
            prompt: prompt.clone(),
            by: by.clone(),
            frame: frame.clone(),
            sender,
        }))
    }

    fn sender_of(&self, prompt: &PromptId) -> Option<Sender> {
        self.state
            .queue
            .iter()
            .find(|queued| queued.prompt == *prompt)
            .map(|queued| queued.sender.clone())
    }

    pub(super) fn move_prompt(
        &mut self,
        prompt: PromptId,
        by: Sender,
        position: usize,
        draft: &mut Draft,
    ) -> Reply {
        if let Some(refusal) = self.not_waiting(&prompt, &by) {
            return Reply::Refused(refusal);
        }
        if let Some(moved) = self.propose_move(&prompt, &by, position) {
            self.record(moved, draft);
        }
        Reply::Done
    }

    pub(super) fn propose_move(
        &self,
        prompt: &PromptId,
        by: &Sender,
        position: usize,
    ) -> Option<Event> {
        let position = position.min(self.state.queue.len().saturating_sub(1));
        let moves =
            self.not_waiting(prompt, by).is_none() && self.state.position(prompt) != Some(position);
        moves.then(|| {
            Event::Prompt(PromptEvent::Moved { prompt: prompt.clone(), by: by.clone(), position })
        })
    }

    pub(super) fn not_waiting(&self, prompt: &PromptId, by: &Sender) -> Option<Refusal> {
        if self.live.observes(by) {
            Some(Refusal::Observer)
        } else if self.state.position(prompt).is_some() {
            None
        } else if self.state.running(prompt).is_some() {
            Some(Refusal::AlreadyStarted(prompt.clone()))
        } else {
            Some(Refusal::UnknownPrompt(prompt.clone()))
        }
    }

    pub(super) fn end_turns(
        &mut self,
        end: &PromptEnd,
        failure: Option<&Arc<str>>,
        draft: &mut Draft,
    ) {
        while let Some(turn) = self.state.turns.first() {
            let prompt = turn.prompt.clone();
            self.record(
                PromptEvent::Ended { prompt, end: end.clone(), failure: failure.cloned() },
                draft,
            );
        }
    }

    /// Ends the queued prompts. The end of each prompt carries the reason of the failure; only the
    /// end of the session carries the agent's stderr.
    pub(super) fn end_queue(&mut self, end: &PromptEnd, failure: Option<&str>, draft: &mut Draft) {
        let reason: Option<Arc<str>> =
            failure.map(|failure| FailureText::parse(failure).reason.into());
        while let Some(queued) = self.state.queue.front() {
            let prompt = queued.prompt.clone();
            self.record(
                PromptEvent::Ended { prompt, end: end.clone(), failure: reason.clone() },
                draft,
            );
        }
    }
}
