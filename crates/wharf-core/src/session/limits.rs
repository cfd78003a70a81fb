//! Limits of a turn's duration and of the agent's silence in it (rule 2.8).

use super::turns::CancelCause;
use super::{Draft, Session};
use crate::{Millis, PromptId, TurnLimit};

/// The time to settle a limit's cancel if user cancels have no timeout.
const DEFAULT_CANCEL_TIMEOUT: Millis = Millis(30_000);

impl Session {
    /// Returns the time at which each running turn reaches a limit if nothing else happens. A
    /// cancelled turn has no limit, and neither has the turn of an agent that has ended: its output
    /// is still being taken in.
    pub(super) fn turn_limits(&self) -> impl Iterator<Item = (Millis, &PromptId, TurnLimit)> {
        let silent = self.silence_ends();
        let is_limited = !self.live.has_agent_ended;
        self.state.turns.iter().filter(move |turn| is_limited && !turn.cancel).flat_map(
            move |turn| {
                let deadline = self
                    .settings
                    .turn_deadline
                    .map(|limit| turn.started_at.after(limit).after(turn.held_for));
                let silent = silent.map(|(since, limit)| since.max(turn.started_at).after(limit));
                let ends = [(deadline, TurnLimit::Deadline), (silent, TurnLimit::NoProgress)];
                ends.into_iter().filter_map(|(end, limit)| Some((end?, &turn.prompt, limit)))
            },
        )
    }

    /// Returns the time at which the first running turn has lasted too long.
    pub fn turn_deadline(&self) -> Option<Millis> {
        let deadlines = self.turn_limits().filter(|(.., limit)| *limit == TurnLimit::Deadline);
        deadlines.map(|(end, ..)| end).min()
    }

    /// Returns since when the agent is silent and how long it may be. An agent with an open ask is
    /// not silent.
    fn silence_ends(&self) -> Option<(Millis, Millis)> {
        let limit = self.settings.no_progress?;
        let heard = self.state.last_output_at.max(self.live.answered_at).unwrap_or_default();
        self.state.asks.is_empty().then_some((heard, limit))
    }

    /// Cancels the turns that have reached a limit; the agent has `cancel_timeout` to settle them.
    pub(super) fn end_overlong_turns(&mut self, draft: &mut Draft) {
        let over = self.turn_limits().filter(|(end, ..)| *end <= draft.now);
        let (mut prompts, limits): (Vec<_>, Vec<_>) =
            over.map(|(_, prompt, limit)| (prompt.clone(), limit)).unzip();
        prompts.dedup();
        // The agent gets one cancel for all of them, so they have one reason too.
        let patience = self.settings.cancel_timeout.unwrap_or(DEFAULT_CANCEL_TIMEOUT);
        let cause = CancelCause { limit: limits.first().copied(), ..CancelCause::default() };
        self.cancel_turns(prompts, cause, Some(patience), draft);
    }
}
