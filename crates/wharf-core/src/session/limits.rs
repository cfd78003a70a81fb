//! How long a turn may take, and how long the agent may say nothing in it (rule 2.8).

use super::turns::CancelCause;
use super::{Draft, Session};
use crate::{Millis, PromptId, TurnLimit};

/// An agent that settles no cancel is not waited for without end, even if users' cancels are.
const PATIENCE: Millis = Millis(30_000);

impl Session {
    /// When each running turn comes up against a limit, if nothing else happens. One that is to end already does not.
    pub(super) fn turn_limits(&self) -> impl Iterator<Item = (Millis, &PromptId, TurnLimit)> {
        let silent = self.silence_ends();
        self.state.turns.iter().filter(|turn| !turn.cancel).flat_map(move |turn| {
            let deadline = self.settings.turn_deadline.map(|limit| turn.started_at.after(limit).after(turn.held_for));
            let silent = silent.map(|(since, limit)| since.max(turn.started_at).after(limit));
            let ends = [(deadline, TurnLimit::Deadline), (silent, TurnLimit::NoProgress)];
            ends.into_iter().filter_map(|(end, limit)| Some((end?, &turn.prompt, limit)))
        })
    }

    /// Since when the agent has said nothing, and how long it may. An agent that waits for an answer is not silent.
    fn silence_ends(&self) -> Option<(Millis, Millis)> {
        let limit = self.settings.no_progress?;
        let heard = self.state.last_output_at.max(self.live.answered_at).unwrap_or_default();
        self.state.asks.is_empty().then_some((heard, limit))
    }

    /// Cancels the turns that have come up against a limit; the agent has `cancel_timeout` to settle them.
    pub(super) fn end_overlong_turns(&mut self, draft: &mut Draft) {
        let over = self.turn_limits().filter(|(end, ..)| *end <= draft.now);
        let (mut prompts, limits): (Vec<_>, Vec<_>) = over.map(|(_, prompt, limit)| (prompt.clone(), limit)).unzip();
        prompts.dedup();
        // The agent is told once for all of them, so they have one reason too.
        let patience = self.settings.cancel_timeout.unwrap_or(PATIENCE);
        let cause = CancelCause { limit: limits.first().copied(), ..CancelCause::default() };
        self.cancel_turns(prompts, cause, Some(patience), draft);
    }
}
