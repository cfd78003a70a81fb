//! The session and its log: lets the core decide, appends the events, publishes them, and returns
//! the effects that are due.

mod acts;
mod line_causes;
mod listing;
mod storage_pause;
mod writer;

use std::sync::Arc;
use std::time::{Duration, Instant};

pub(super) use acts::Act;
use acts::ActQueue;
use line_causes::causes_of;
pub(super) use line_causes::{OwedLine, read_owed_lines};
use storage_pause::{Retry, pause_reason, refusal};
use wharf_core::{Effect, Event, Input, Millis, PauseReason, Reply, Seq, Session, State, Step};
use wharf_store::{AppendError, StoreError};
use writer::{LogWriter, Space};

use super::clock::Clock;
use super::command::ReplyTo;
use super::context::TaskContext;
use super::handle::CallError;
use crate::agent::AgentProcess;
use crate::agent::ledger::LedgerHandle;
use crate::ids::Now;

/// The only writer of the session's log, and therefore the owner of its state: a decision that is
/// not written yet is known to no other part.
#[derive(Debug)]
pub(super) struct Journal {
    context: Arc<TaskContext>,
    session: Session,
    clock: Clock,
    writer: LogWriter,
    acts: ActQueue,
    /// Not even the reserve had space: no request is decided until the pending events are in the
    /// log.
    stalled: bool,
    retry: Retry,
    /// The error that callers get once the log is lost. When it is set, the session's task ends.
    closed: Option<CallError>,
}

/// Work for the task, now that the log is far enough.
#[derive(Debug)]
pub(super) enum Due {
    /// An effect, with the event that causes it if it is a message to the agent.
    Effect(Effect, Option<Seq>),
    PassOnPending,
    KeepAgent,
}

impl Journal {
    pub(super) fn new(context: Arc<TaskContext>, session: Session) -> Self {
        Self {
            writer: LogWriter::new(Arc::clone(&context), &session),
            context,
            session,
            clock: Clock::new(Now::millis()),
            acts: ActQueue::new(),
            stalled: false,
            retry: Retry::default(),
            closed: None,
        }
    }

    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    pub(super) fn state(&self) -> &State {
        self.session.state()
    }

    /// Returns the last event that was decided.
    pub(super) fn head(&self) -> Seq {
        self.session.head()
    }

    /// Returns the last event if all events are in the log and everything that follows from them is
    /// done.
    pub(super) fn settled_head(&self) -> Option<Seq> {
        // A log that is lost drops effects that were not carried out.
        (self.closed.is_none() && self.writer.is_empty() && self.acts.is_empty())
            .then(|| self.head())
    }

    /// Returns true while no message of the agent is read.
    pub(super) fn is_held(&self) -> bool {
        self.stalled || self.state().paused.is_some()
    }

    pub(super) fn is_stalled(&self) -> bool {
        self.stalled
    }

    /// Returns the error that callers get once the log is lost.
    pub(super) fn closed(&self) -> Option<&CallError> {
        self.closed.as_ref()
    }

    pub(super) fn has_acts(&self) -> bool {
        !self.acts.is_empty()
    }

    /// Returns how long until the core or the disk has to be asked again, if ever.
    pub(super) fn wait(&self) -> Option<Duration> {
        if self.is_held() {
            return Some(self.retry.left());
        }
        let deadline = self.session.deadline()?;
        Some(Duration::from_millis(deadline.0.saturating_sub(self.clock.now().0)))
    }

    pub(super) fn is_deadline_over(&self) -> bool {
        self.session.deadline().is_some_and(|deadline| deadline <= self.clock.now())
    }

    /// Goes on with the time of an earlier host.
    pub(super) fn set_time(&mut self, time: Millis) {
        self.clock.set(time);
    }

    pub(super) const fn clock_lead_ms(&self) -> u64 {
        self.clock.lead_ms()
    }

    /// Follows the output of another agent, which is taken in up to `offset`. Without a ledger,
    /// follows the output of no agent.
    pub(super) fn follow_output(&mut self, ledger: Option<LedgerHandle>, offset: u64) {
        self.writer.follow_output(ledger, offset);
    }

    /// Notes that the agent's output is taken in up to here.
    pub(super) fn set_output_offset(&mut self, offset: u64) {
        self.writer.set_output_offset(offset);
    }

    /// Lets the core decide on an input. The outcome is kept until it is written.
    pub(super) fn input(&mut self, input: Input, reply: Option<ReplyTo>) {
        let now = self.now();
        self.input_at(input, now, reply);
    }

    fn input_at(&mut self, input: Input, now: Millis, reply: Option<ReplyTo>) {
        let step = self.session.handle(input, now);
        self.take(step, now, reply);
    }

    /// Keeps a step that the core has decided.
    pub(super) fn take(&mut self, step: Step, now: Millis, reply: Option<ReplyTo>) {
        let sync = step.events.iter().any(Event::wants_sync);
        let after = self.head();
        let causes = causes_of(&step.effects, &step.events, after);
        if !self.writer.push(step.events, now) {
            return self.close("the session decided otherwise than it had proposed");
        }
        for (effect, cause) in step.effects.into_iter().zip(causes) {
            self.acts.push(after, sync, Act::Effect(effect, cause));
        }
        if let Some(reply) = reply {
            self.acts.push(after, sync, Act::Reply(reply, step.reply));
        }
    }

    /// Has this done once all that was decided is written.
    pub(super) fn act_later(&mut self, act: Act) {
        self.acts.push(self.head(), false, act);
    }

    /// Returns the session's time. It follows the wall clock except while a turn, a deadline or a
    /// hold is measured by it.
    fn now(&mut self) -> Millis {
        if self.state().turns.is_empty() && self.session.deadline().is_none() && !self.is_held() {
            self.clock.set(Now::millis());
        }
        self.clock.now()
    }

    /// Decides on a request that can be refused. Writes the events that the request proposes before
    /// it touches the session: if the log cannot take them, the caller gets an error and the
    /// session needs no undo.
    pub(super) fn request(&mut self, input: Input, reply: ReplyTo) {
        // Earlier decisions stand, even if this request is refused.
        if !self.flush() {
            return self.refuse(reply);
        }
        self.try_again(true);
        if !self.flush() {
            return self.refuse(reply);
        }
        let now = self.now();
        let proposed = self.session.propose(&input);
        if !proposed.is_empty() {
            if self.state().paused.is_some() {
                return self.refuse(reply);
            }
            if let Err(error) = self.writer.append_proposed(proposed, now, self.session.head()) {
                return self.refuse_unwritten(&error, reply);
            }
        }
        self.input_at(input, now, Some(reply));
    }

    /// Tells the caller that the log cannot take its request.
    pub(super) fn refuse(&self, reply: ReplyTo) {
        let why = self.state().paused.map_or(PauseReason::StorageFull, |paused| paused.why);
        let _ = reply.send(Err(refusal(why)));
    }

    fn refuse_unwritten(&mut self, error: &AppendError, reply: ReplyTo) {
        if let Some(why) = pause_reason(error) {
            let _ = reply.send(Err(refusal(why)));
            self.write_in_need(why);
        } else {
            let _ = reply.send(Err(CallError::Storage(error.to_string())));
            self.close(&error.to_string());
        }
    }

    /// Writes the decided events and shows them. Returns false if they could not be written: then
    /// the session task must not act on them either.
    pub(super) fn flush(&mut self) -> bool {
        if self.closed.is_some() {
            return false;
        }
        if self.writer.is_empty() {
            self.writer.note_eventless_lines(self.session.head());
            return !self.stalled;
        }
        let held = self.is_held();
        let Err(error) = self.write(if held { Space::Reserve } else { Space::Ordinary }) else {
            return true;
        };
        match pause_reason(&error) {
            Some(why) if self.writer.holds_all_of(&self.session) => {
                self.delete_partial_session(why);
                false
            }
            Some(_) if held => {
                self.stalled = true;
                false
            }
            Some(why) => self.write_in_need(why),
            None => {
                self.close(&error.to_string());
                false
            }
        }
    }

    /// Appends all decided events, or none if that fails, and shows them.
    fn write(&mut self, space: Space) -> Result<(), AppendError> {
        self.writer.append_pending(self.session.head(), space)?;
        self.stalled = false;
        if self.writer.publish(&self.session) {
            let host = Arc::clone(&self.context.host);
            let began = Instant::now();
            let observe = move || host.metrics.sync.observe(began.elapsed());
            self.context.shared.log.sync(self.acts.on_synced(observe));
        }
        Ok(())
    }

    /// Waits until a sync is done. Returns false if none can be any more.
    pub(super) async fn synced(&mut self) -> bool {
        self.acts.synced().await
    }

    /// Answers callers whose answer has waited long enough, and returns the next work for the task,
    /// all in order.
    pub(super) fn next_due(&mut self) -> Option<Due> {
        loop {
            let act = match self.acts.next() {
                Ok(act) => act?,
                Err(failure) => {
                    self.close(&failure);
                    return None;
                }
            };
            match act {
                Act::Effect(effect, cause) => return Some(Due::Effect(effect, cause)),
                Act::PassOnPending => return Some(Due::PassOnPending),
                Act::KeepAgent => return Some(Due::KeepAgent),
                Act::Release(process) => self.release(process),
                Act::Reply(to, reply) => {
                    let is_presence = matches!(reply, Reply::Joined(_));
                    let _ = to.send(Ok(reply));
                    if is_presence {
                        self.show();
                    }
                }
                Act::Started(to, outcome) => drop(to.send(*outcome)),
                Act::Up(to, outcome) => drop(to.send(*outcome)),
                Act::AnswerCall(to, answer) => drop(to.send(answer)),
            }
        }
    }

    /// Lets go of an agent whose end is in the log. What a keeper has left of it is removed once
    /// the log is safe from a power cut.
    fn release(&self, process: AgentProcess) {
        if !process.has_no_keeper() {
            return process.release();
        }
        let release = move |synced: Result<u64, StoreError>| {
            if synced.is_ok() {
                process.release();
            }
        };
        self.context.shared.log.sync(Box::new(release));
    }

    /// Refreshes what listings show.
    pub(super) fn show(&self) {
        self.writer.listing().show(&self.session);
    }

    /// Removes a new session for which the disk has no space. Its creators get the error, and the
    /// disk keeps no trace of it.
    fn delete_partial_session(&mut self, why: PauseReason) {
        let error = refusal(why);
        self.acts.refuse_all(&error);
        self.closed = Some(error);
        let TaskContext { host, shared, .. } = &*self.context;
        host.registry.remove(&shared.id);
        host.storage.delete_partial_session(&shared.log_id);
    }

    /// The log is no longer ours or no longer works: nothing that cannot be recorded may happen.
    fn close(&mut self, why: &str) {
        if self.closed.is_some() {
            return;
        }
        tracing::error!(session = %self.context.shared.id, why, "the log cannot be written: the session is stopped");
        let error = CallError::Storage(why.to_owned());
        self.acts.refuse_all(&error);
        self.closed = Some(error);
        self.writer.listing().show_failure(why, &self.session);
    }
}
