//! The status machine: starts, exits, kills, restarts (rules 2.4 to 2.7).

use std::sync::Arc;

use super::{Draft, Session, Turn};
use crate::{
    AgentEvent, Effect, EndReason, Ending, Millis, OnRestart, PromptEnd, PromptEvent, Refusal,
    Reply, SessionEvent, StartFault, StartKind, StartNo, Status, WakeCause,
};

/// The number of deaths of an agent without an answered prompt between them that ends the queue,
/// which would otherwise be used up one by one.
const MAX_DEATHS: u32 = 3;

impl Session {
    /// Starts the agent. Callers make sure that no start is under way.
    pub(super) fn start_agent(&mut self, how: StartKind, draft: &mut Draft) {
        let start = StartNo(self.state.start.0 + 1);
        self.record(AgentEvent::Starting { start, how }, draft);
        draft.act(Effect::StartAgent { start, how });
    }

    /// Starts an ended session's agent again if possible; a living session is unchanged.
    pub(super) fn wake(&mut self, draft: &mut Draft) {
        if !self.state.status.is_alive()
            && let Some(how) = self.state.way_back()
        {
            self.start_agent(how, draft);
        }
    }

    /// Returns how the agent is started for queued prompts: with a new session if it has nothing
    /// that it could remember, or if it cannot bring a session back (rule 12.5). A fork has its
    /// source's conversation from the start.
    fn way_on(&self) -> StartKind {
        let remembers = self.state.answered || self.state.is_copy();
        self.state
            .way_back()
            .filter(|_| remembers)
            .unwrap_or_else(|| self.state.first_way())
    }

    /// Brings the session back for those who need it.
    pub(super) fn wake_if_allowed(&mut self, cause: WakeCause, draft: &mut Draft) -> Reply {
        let way = self.way_to_wake(cause);
        self.start_on(way, draft)
    }

    fn was_closed(&self) -> bool {
        let reason = self.state.ending.as_ref().map(|ending| ending.reason);
        matches!(reason, Some(EndReason::Closed | EndReason::Finished))
    }

    pub(super) fn resume(&mut self, draft: &mut Draft) -> Reply {
        let way = self.way_to_resume();
        self.start_on(way, draft)
    }

    fn start_on(&mut self, way: Result<StartKind, Refusal>, draft: &mut Draft) -> Reply {
        match way {
            Ok(how) => {
                self.start_agent(how, draft);
                Reply::Done
            }
            Err(refusal) => Reply::Refused(refusal),
        }
    }

    /// Returns how to start the agent for the party that needs it. Fails if a user killed the
    /// session: a kill takes precedence over a start. A closed session does not come back because a
    /// host starts, and no session comes back for queued prompts if its queue is empty by now.
    pub(super) fn way_to_wake(&self, cause: WakeCause) -> Result<StartKind, Refusal> {
        if !self.state.status.is_alive() && self.state.killed_by_user() {
            return Err(Refusal::Killed);
        }
        match cause {
            WakeCause::Queue if self.state.queue.is_empty() => Err(Refusal::NotResumable),
            WakeCause::Queue if self.state.resumable() => Ok(self.way_on()),
            WakeCause::HostStart if self.was_closed() => Err(Refusal::NotResumable),
            WakeCause::Queue | WakeCause::Caller | WakeCause::HostStart => self.way_to_resume(),
        }
    }

    /// Returns how the agent of an ended session is started again.
    pub(super) fn way_to_resume(&self) -> Result<StartKind, Refusal> {
        if self.state.status.is_alive() {
            return Err(Refusal::AlreadyRunning);
        }
        self.state.way_back().ok_or(Refusal::NotResumable)
    }

    pub(super) fn agent_started(&mut self, started: AgentEvent, start: StartNo, draft: &mut Draft) {
        if start != self.state.start || self.live.retry_at.is_some() {
            return;
        }
        self.live.has_agent_ended = false;
        match self.state.status {
            Status::Starting => {
                let forgets =
                    self.state.agent_session.is_some() && self.state.how == Some(StartKind::New);
                self.record(started, draft);
                if forgets {
                    self.tell_of_lost_memory(draft);
                }
            }
            Status::Running => {}
            // A kill takes precedence even over a start that has already succeeded.
            Status::Exited | Status::Killed | Status::Error => {
                draft.act(Effect::StopAgent { start })
            }
        }
    }

    pub(super) fn start_failed(
        &mut self,
        start: StartNo,
        (cause, is_awaited): (StartFault, bool),
        exit_code: Option<i32>,
        message: Arc<str>,
        draft: &mut Draft,
    ) {
        if start != self.state.start
            || self.state.status != Status::Starting
            || self.live.retry_at.is_some()
        {
            return;
        }
        if let Some((how, retry_in)) = self.next_try(cause, is_awaited) {
            let message = worth_telling(message);
            self.record(AgentEvent::StartFailed { start, exit_code, message, retry_in }, draft);
            if retry_in.is_zero() {
                self.start_agent(how, draft);
            } else {
                self.live.retry_at = Some(draft.now.after(retry_in));
            }
            return;
        }
        let status = Status::Error;
        let reason = EndReason::StartFailed;
        let message = worth_telling(message);
        self.end_queue(&PromptEnd::StartFailed, message.as_deref(), draft);
        let needs_login = cause == StartFault::LoginNeeded;
        self.end(
            Ending { status, reason, exit_code, message, needs_login },
            &PromptEnd::StartFailed,
            draft,
        );
    }

    /// Returns how and after which delay to try the start again, or `None` to give up. The session
    /// tries again only while prompts wait for the agent. If the caller that creates the session
    /// waits for the first start, it gets the failure at once and can try again itself.
    fn next_try(&self, cause: StartFault, is_awaited: bool) -> Option<(StartKind, Millis)> {
        let is_first = self.state.agent_session.is_none();
        if self.state.queue.is_empty() || (is_first && is_awaited) {
            return None;
        }
        let how = self.state.how.unwrap_or_else(|| self.state.first_way());
        match cause {
            StartFault::NotInstalled
            | StartFault::LoginNeeded
            | StartFault::SettingRefused
            | StartFault::Impossible => None,
            // The source is gone: a new conversation would be no copy of it.
            StartFault::SessionUnknown if how == StartKind::Fork => None,
            StartFault::SessionUnknown if how != StartKind::New => {
                let nothing_to_lose = !self.state.answered || self.state.deaths > 0;
                nothing_to_lose.then(|| (self.state.first_way(), Millis(0)))
            }
            StartFault::SessionUnknown | StartFault::Other => {
                let wait = self.settings.start_retries.get(self.state.failed_starts as usize)?;
                Some((how, Millis(wait.0.max(1))))
            }
        }
    }

    fn try_start_again(&mut self, draft: &mut Draft) {
        if self.live.retry_at.is_some_and(|at| at <= draft.now) {
            self.start_agent(self.state.how.unwrap_or_else(|| self.state.first_way()), draft);
        }
    }

    pub(super) fn agent_exited(
        &mut self,
        start: StartNo,
        exit_code: Option<i32>,
        message: Arc<str>,
        draft: &mut Draft,
    ) {
        if start != self.state.start {
            return;
        }
        match self.state.status {
            Status::Starting => {
                return self.start_failed(
                    start,
                    (StartFault::Other, false),
                    exit_code,
                    message,
                    draft,
                );
            }
            Status::Running => {}
            Status::Exited | Status::Killed | Status::Error => return,
        }
        let status = if exit_code.is_some() { Status::Exited } else { Status::Error };
        let reason = EndReason::AgentExited;
        let message = worth_telling(message);
        self.end_by_death(Ending { status, reason, exit_code, message, needs_login: false }, draft);
        self.go_on_with_queue(draft);
    }

    /// Ends the session because its agent is gone. An interrupted turn is queued again once if the
    /// settings say so.
    fn end_by_death(&mut self, ending: Ending, draft: &mut Draft) {
        self.abandon_asks(draft);
        self.fail_open_tools(draft);
        if self.settings.on_restart == OnRestart::Requeue && self.state.deaths + 1 < MAX_DEATHS {
            self.requeue_turns(draft);
        }
        self.end_turns(&PromptEnd::AgentExited, ending.message.as_ref(), draft);
        self.record(SessionEvent::Ended(ending), draft);
    }

    /// Starts the agent again for the queued prompts, or ends them after too many deaths.
    fn go_on_with_queue(&mut self, draft: &mut Draft) {
        if self.state.deaths >= MAX_DEATHS {
            let message = self.state.ending.as_ref().and_then(|ending| ending.message.clone());
            self.end_queue(&PromptEnd::AgentExited, message.as_deref(), draft);
        } else if !self.state.queue.is_empty() {
            self.start_agent(self.way_on(), draft);
        }
    }

    /// Ends the turns and asks of the agent, then the session.
    fn end(&mut self, ending: Ending, turns: &PromptEnd, draft: &mut Draft) {
        self.abandon_asks(draft);
        self.fail_open_tools(draft);
        self.end_turns(turns, ending.message.as_ref(), draft);
        self.record(SessionEvent::Ended(ending), draft);
    }

    pub(super) fn kill(&mut self, reason: EndReason, draft: &mut Draft) {
        let (end, spares_queue) = match reason {
            EndReason::HostShutdown => (PromptEnd::HostShutdown, self.state.way_back().is_some()),
            EndReason::HostRestarted => (PromptEnd::HostRestarted, self.state.way_back().is_some()),
            EndReason::User
            | EndReason::Closed
            | EndReason::Finished
            | EndReason::Idle
            | EndReason::Memory
            | EndReason::LogFull
            | EndReason::AgentExited
            | EndReason::StartFailed
            | EndReason::Unresponsive => (PromptEnd::SessionEnded, false),
        };
        let was_alive = self.state.status.is_alive();
        let start = self.state.start;
        // An ended session is killed or closed again only to keep it from coming back by itself.
        let is_new = match reason {
            EndReason::User => !self.state.killed_by_user(),
            EndReason::Closed | EndReason::Finished => {
                !self.state.killed_by_user() && !self.was_closed()
            }
            EndReason::Idle
            | EndReason::Memory
            | EndReason::LogFull
            | EndReason::AgentExited
            | EndReason::StartFailed
            | EndReason::Unresponsive
            | EndReason::HostShutdown
            | EndReason::HostRestarted => false,
        };
        let again = is_new && self.state.resumable();
        if was_alive || again {
            self.abandon_asks(draft);
            self.fail_open_tools(draft);
            self.end_turns(&end, None, draft);
        }
        if !spares_queue {
            self.end_queue(&end, None, draft);
        }
        if was_alive || again {
            let status =
                if reason == EndReason::Finished { Status::Exited } else { Status::Killed };
            self.record(
                SessionEvent::Ended(Ending {
                    status,
                    reason,
                    exit_code: None,
                    message: None,
                    needs_login: false,
                }),
                draft,
            );
        }
        if was_alive {
            draft.act(Effect::StopAgent { start });
        }
    }

    /// Ends the agent of an idle session; the next caller that needs the agent wakes the session
    /// (rule 2.6). Refuses if the session works, and if its conversation could not come back, so
    /// that no conversation is lost. For lack of work (`Idle`), also refuses while a controller is
    /// attached.
    pub(super) fn sleep(&mut self, reason: EndReason, why: Arc<str>, draft: &mut Draft) -> Reply {
        if let Some(refusal) = self.why_not_sleep(reason) {
            return Reply::Refused(refusal);
        }
        let start = self.state.start;
        self.record(SessionEvent::Ended(Self::sleep_ending(reason, why)), draft);
        draft.act(Effect::StopAgent { start });
        Reply::Done
    }

    pub(super) fn why_not_sleep(&self, reason: EndReason) -> Option<Refusal> {
        if !self.state.is_idle() || (reason == EndReason::Idle && self.has_controller()) {
            return Some(Refusal::TurnInProgress);
        }
        // A session that was never prompted has nothing that could be lost (rule 2.13).
        let is_unused = reason == EndReason::Idle && self.state.is_unused();
        (self.state.way_back().is_none() && !is_unused).then_some(Refusal::NotResumable)
    }

    /// Ends a session whose agent is gone, after a restart of the host or once its keeper has
    /// answered (rule 2.7).
    pub(super) fn host_restarted(&mut self, draft: &mut Draft) {
        let comes_back = self.state.way_back().is_some();
        self.abandon_asks(draft);
        self.fail_open_tools(draft);
        // In a session that has ended, a turn is open only because the log has lost its end (rule
        // 1.8).
        if comes_back
            && self.state.status.is_alive()
            && self.settings.on_restart == OnRestart::Requeue
        {
            self.requeue_turns(draft);
        }
        self.end_turns(&PromptEnd::HostRestarted, None, draft);
        if !comes_back {
            self.end_queue(&PromptEnd::HostRestarted, None, draft);
        }
        if self.state.status.is_alive() {
            let status = Status::Killed;
            let reason = EndReason::HostRestarted;
            self.record(
                SessionEvent::Ended(Ending {
                    status,
                    reason,
                    exit_code: None,
                    message: None,
                    needs_login: false,
                }),
                draft,
            );
        }
    }

    /// Goes on with the agent that the previous host left running (rule 2.14). All logged state
    /// stays as it was; deadlines are not logged and begin again. The time without a host does not
    /// count as the agent's silence. An agent that has ended gets no further prompt.
    pub(super) fn agent_adopted(&mut self, is_idle: bool, has_ended: bool, draft: &mut Draft) {
        if self.state.status != Status::Running {
            return;
        }
        if is_idle {
            self.fail_open_tools(draft);
            self.end_turns(&PromptEnd::HostRestarted, None, draft);
        }
        self.live.has_agent_ended = has_ended;
        self.live.answered_at = Some(draft.now);
        if let Some(wait) = self.settings.ask_timeout {
            let deadline = draft.now.after(wait);
            self.live.ask_deadlines = self.state.asks.keys().map(|ask| (*ask, deadline)).collect();
        }
        // An agent that has ended cannot be late: the rest of its output is read to its end.
        self.live.cancel_deadlines.clear();
        if let Some(wait) = self.settings.cancel_timeout.filter(|_| !has_ended) {
            let deadline = draft.now.after(wait);
            let cancelled = self.state.turns.iter().filter(|turn| turn.cancel);
            self.live.cancel_deadlines =
                cancelled.map(|turn| (turn.prompt.clone(), deadline)).collect();
        }
    }

    /// Queues the running turns again in their order, except those that were requeued before and
    /// those that may have ended. A cancelled turn is not requeued, since its end was requested.
    fn requeue_turns(&mut self, draft: &mut Draft) {
        let may_run_again = |turn: &&Turn| !turn.requeued && !turn.may_have_ended;
        let running = self.state.turns.iter().filter(|turn| turn.cancel || may_run_again(turn));
        let running: Vec<_> = running.map(|turn| (turn.prompt.clone(), turn.cancel)).collect();
        for (prompt, cancel) in running.into_iter().rev() {
            let event = if cancel {
                PromptEvent::Ended { prompt, end: PromptEnd::Cancelled, failure: None }
            } else {
                PromptEvent::Requeued { prompt }
            };
            self.record(event, draft);
        }
    }

    pub(super) fn time_passed(&mut self, draft: &mut Draft) {
        if self.state.paused.is_some() {
            return;
        }
        if self.idle_deadline().is_some_and(|deadline| deadline <= draft.now) {
            self.kill(EndReason::Idle, draft);
        }
        self.try_start_again(draft);
        if self.live.cancel_deadlines.values().any(|deadline| *deadline <= draft.now) {
            self.end_unresponsive("the agent did not end a cancelled turn in time", draft);
        }
        // This comes last: an agent that is being stopped gets no further messages.
        self.end_overlong_turns(draft);
        self.expire_asks(draft);
    }

    /// Ends the cancelled turns with their agent, without waiting for it (rule 17.4). While the log
    /// cannot be written, that waits until it can be: the agent could not be brought back before.
    pub(super) fn end_turns_by_force(&mut self, draft: &mut Draft) {
        if self.state.paused.is_none() {
            // An agent that is stopped gets no further messages.
            draft.effects.clear();
            return self.end_unresponsive("a client ended the turn by force", draft);
        }
        for turn in &self.state.turns {
            self.live.cancel_deadlines.insert(turn.prompt.clone(), draft.now);
        }
    }

    /// Kills an agent that did not settle cancelled turns and brings it back at once (rule 7.4).
    fn end_unresponsive(&mut self, why: &str, draft: &mut Draft) {
        let start = self.state.start;
        let cancelled = self.state.turns.iter().filter(|turn| turn.cancel);
        let cancelled: Vec<_> = cancelled.map(|turn| turn.prompt.clone()).collect();
        self.abandon_asks(draft);
        self.fail_open_tools(draft);
        for prompt in cancelled {
            self.record(
                PromptEvent::Ended { prompt, end: PromptEnd::Cancelled, failure: None },
                draft,
            );
        }
        let status = Status::Killed;
        let reason = EndReason::Unresponsive;
        let message = Some(why.into());
        self.end_by_death(
            Ending { status, reason, exit_code: None, message, needs_login: false },
            draft,
        );
        draft.act(Effect::StopAgent { start });
        self.go_on_with_queue(draft);
        self.wake(draft);
    }
}

pub(super) fn worth_telling(message: Arc<str>) -> Option<Arc<str>> {
    (!message.is_empty()).then_some(message)
}
