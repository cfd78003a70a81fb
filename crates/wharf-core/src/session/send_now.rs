//! Sending a queued prompt at once (rule 17.3).

use super::{Draft, Session};
use crate::{Event, PromptEvent, PromptId, Refusal, Reply, Sender};

impl Session {
    /// Runs a queued prompt next and interrupts the running turn for it. With `steer` the turn goes
    /// on, and the prompt is given to an agent that queues by itself.
    pub(super) fn send_now(
        &mut self,
        prompt: PromptId,
        by: Sender,
        steer: bool,
        draft: &mut Draft,
    ) -> Reply {
        if let Some(refusal) = self.not_waiting(&prompt, &by) {
            return Reply::Refused(refusal);
        }
        if steer && !self.state.turns.is_empty() {
            if !self.takes_prompt_while_busy() {
                return Reply::Refused(Refusal::CannotSteer);
            }
            if !self.has_room_for_turn() {
                return Reply::Refused(Refusal::QueueFull { limit: self.settings.max_queue });
            }
            self.start_turn(&prompt, draft);
            return Reply::Cancelled { was_busy: false, crossed: false };
        }
        if let Some(moved) = self.propose_move(&prompt, &by, 0) {
            self.record(moved, draft);
        }
        let was_busy = self.cancel_all_turns(&by, draft);
        self.wake(draft);
        self.start_next_turn(draft);
        Reply::Cancelled { was_busy, crossed: false }
    }

    /// Returns the first event of [`Session::send_now`]: the prompt's turn or its move. A prompt
    /// that is next already needs neither.
    pub(super) fn propose_send_now(
        &self,
        prompt: &PromptId,
        by: &Sender,
        steer: bool,
    ) -> Option<Event> {
        if !steer || self.state.turns.is_empty() {
            return self.propose_move(prompt, by, 0);
        }
        let queued = self.state.queue.iter().find(|queued| queued.prompt == *prompt)?;
        let goes = self.not_waiting(prompt, by).is_none()
            && self.takes_prompt_while_busy()
            && self.has_room_for_turn();
        goes.then(|| {
            PromptEvent::TurnStarted { prompt: prompt.clone(), content: queued.content }.into()
        })
    }
}
