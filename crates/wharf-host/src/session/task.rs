//! The task that owns one session: gathers inputs, lets the core decide, then acts on what the
//! journal has written.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tracing::Instrument;
use wharf_core::{
    AgentInput, Attachment, ClientId, ClientInput, Effect, EndReason, FailureText, Input,
    LifecycleInput, Refusal, Session, Step, Submission, WakeCause,
};

use super::admission::Admission;
use super::agent_connection::AgentConnection;
use super::agent_connection::AgentDelete;
use super::clients::Clients;
use super::command::{Command, DeleteCondition, ReplyTo};
use super::context::{FirstStart, TaskContext};
use super::handle::{Abilities, AgentReport, Attendance, CallError};
use super::journal::{Act, Due, Journal};
use super::shared::Shared;
use crate::agent::adoption::FoundAgent;
use crate::agent::initialize::StartFailure;
use crate::descriptor::Descriptor;
use crate::host::{Inner, StartPriority};
use crate::ids::Now;

/// Commands taken in one go, so that a flood of them cannot keep the agent's output waiting.
const COMMANDS_AT_ONCE: usize = 64;
/// A cold session's task goes to sleep after this long with nothing to do; the log has everything.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct SessionTask {
    context: Arc<TaskContext>,
    commands: mpsc::Receiver<Command>,
    journal: Journal,
    agent: AgentConnection,
    clients: Clients,
    admission: Admission,
}

/// Why the task woke.
enum Wake {
    Command(Option<Command>),
    /// The agent wrote this many bytes; zero at the end of its output.
    Agent(std::io::Result<usize>),
    Synced,
    Time,
}

impl SessionTask {
    /// Sets the session to work. `step` is what its creation or restore already decided.
    pub(crate) fn spawn(
        session: Session,
        host: Arc<Inner>,
        shared: Arc<Shared>,
        step: Step,
        mut first: FirstStart,
    ) -> mpsc::Sender<Command> {
        let (sender, commands) = mpsc::channel(256);
        let context = Arc::new(TaskContext { host, shared, commands: sender.clone() });
        let journal = Journal::new(Arc::clone(&context), session);
        let mut task = Self {
            agent: AgentConnection::new(Arc::clone(&context), &mut first, &journal),
            clients: Clients::new(Arc::clone(&context)),
            admission: Admission::new(Arc::clone(&context), first.permit.take()),
            context,
            commands,
            journal,
        };
        let span = task.context.shared.span.clone();
        let adopted = first.adopted.take();
        let silent_keeper = first.silent_keeper.take();
        let work = async move {
            let session_time =
                adopted.as_ref().and_then(|adopted| adopted.turn_status.session_time());
            // An agent that was taken over first gets the messages that an earlier host had yet to
            // send, and only then those of new decisions.
            if let Some(adopted) = adopted {
                task.agent.adopt(*adopted, &mut task.journal);
            }
            if let Some(keeper) = silent_keeper {
                task.agent.await_keeper(keeper);
                task.journal.show();
            }
            task.journal
                .take(step, session_time.unwrap_or_else(Now::millis), first.created_tx);
            task.carry_out();
            task.run().await;
        };
        tokio::spawn(work.instrument(span));
        sender
    }

    async fn run(mut self) {
        while self.journal.closed().is_none() {
            let wake = self.gather().await;
            let before = self.agent.span();
            if self.decide(wake).instrument(before.clone()).await {
                break;
            }
            // An agent that has come or gone by this decision is still its subject.
            let span = Some(self.agent.span()).filter(|span| !span.is_none()).unwrap_or(before);
            span.in_scope(|| self.carry_out());
        }
        self.disconnect_if_closed();
    }

    /// Phase one: wait for something to happen.
    async fn gather(&mut self) -> Wake {
        // A session whose log is full is being ended: until the disk has its end, its agent would
        // write on and on.
        let is_unread = self.journal.is_held() || self.admission.is_log_full();
        let wait = self.wait();
        let agent = async {
            match is_unread {
                true => std::future::pending().await,
                false => self.agent.read().await,
            }
        };
        tokio::select! {
            command = self.commands.recv() => Wake::Command(command),
            read = agent => Wake::Agent(read),
            true = self.journal.synced() => Wake::Synced,
            () = tokio::time::sleep(wait) => Wake::Time,
        }
    }

    fn wait(&self) -> Duration {
        let settings = if self.journal.is_held() { None } else { self.agent.settings_due_in() };
        self.journal
            .wait()
            .into_iter()
            .chain(settings)
            .fold(IDLE_TIMEOUT, Duration::min)
    }

    /// Phase two: let the core decide. True if the task is to end.
    async fn decide(&mut self, wake: Wake) -> bool {
        match wake {
            Wake::Command(None) => return true,
            Wake::Command(Some(command)) => {
                let mut next = Some(command);
                for room in (0..COMMANDS_AT_ONCE).rev() {
                    match next.take() {
                        Some(Command::ShutDown { done }) => {
                            self.shut_down(done).await;
                            return true;
                        }
                        Some(Command::Leave { done }) => {
                            self.leave(done).await;
                            return true;
                        }
                        Some(Command::KeeperAnswered(answer)) => self.take_keeper(answer).await,
                        Some(Command::Delete { condition: DeleteCondition::Unused, done })
                            if self.is_in_use() =>
                        {
                            let _ = done.send(None);
                        }
                        Some(Command::Delete { done, .. }) => {
                            self.delete(done).await;
                            return true;
                        }
                        Some(command) => self.obey(command),
                        None => break,
                    }
                    if room > 0 {
                        next = self.commands.try_recv().ok();
                    }
                }
            }
            Wake::Agent(Ok(1..)) => self.agent.take_lines(&mut self.journal, &mut self.clients),
            Wake::Agent(Ok(0)) => self.agent.lose(&mut self.journal, &mut self.clients),
            Wake::Agent(Err(error)) => {
                self.agent.lose_unreadable(&error, &mut self.journal, &mut self.clients)
            }
            Wake::Synced => {}
            Wake::Time if self.journal.is_held() => {}
            Wake::Time => {
                if self.agent.settings_due_in().is_some_and(|wait| wait.is_zero()) {
                    self.agent.tell_settings(&mut self.journal);
                } else if self.journal.is_deadline_over() {
                    self.journal.input(Input::TimePassed, None);
                } else if self.is_idle() {
                    return self.context.host.registry.retire_if_unused(&self.context.shared);
                }
            }
        }
        false
    }

    /// Phase three: writes and publishes the decided events, then acts (rule 1.3). Effects are
    /// carried out only once the journal has written their events. Ends a session whose log has
    /// grown to its limit, and gives back the permit of a session that is over.
    ///
    /// Phase two does parts of this where they cannot wait. For a request that can be refused, the
    /// journal appends the events so far and the events that the request proposes.
    /// [`Self::take_keeper`] and [`Self::leave`] write all decisions and act on them before the
    /// agent changes hands, also on those that wait for the disk ([`Self::finish_acts`]).
    /// [`Self::end_without_agent`] writes the end of the session and acts on it before it asks
    /// whether the session comes back.
    fn carry_out(&mut self) {
        self.journal.try_again(false);
        self.commit();
        let is_alive = |journal: &Journal| journal.state().status.is_alive();
        if is_alive(&self.journal) && !self.journal.is_stalled() && self.admission.is_log_full() {
            let session = &self.context.shared.id;
            tracing::warn!(%session, "the log has reached its limit (limits.log): the session is ended");
            self.journal
                .input(Input::Lifecycle(LifecycleInput::Kill { reason: EndReason::LogFull }), None);
            self.commit();
        }
        if !is_alive(&self.journal) {
            self.admission.release_permit();
        }
    }

    fn commit(&mut self) {
        if self.journal.flush() {
            self.act();
        }
    }

    /// Carries out the acts that need not wait for the log any more, in order.
    fn act(&mut self) {
        let Self { journal, agent, clients, .. } = self;
        while let Some(due) = journal.next_due() {
            match due {
                Due::Effect(Effect::StartAgent { start, how }, _) => {
                    agent.start(start, how, journal)
                }
                Due::Effect(Effect::StopAgent { start }, _) => agent.stop(start, journal, clients),
                Due::Effect(Effect::SendPrompt { prompt, frame }, cause) => {
                    agent.send_prompt(prompt, &frame, cause.unwrap_or(journal.head()));
                }
                Due::Effect(Effect::SendCancel, cause) => agent.send_cancel(cause),
                Due::Effect(Effect::AnswerAsk { agent_request, reply }, cause) => {
                    agent.answer_ask(&agent_request, &reply, cause);
                }
                Due::Effect(Effect::AnnouncePresence { member, connected }, _) => {
                    clients.announce(&member, connected, journal.head());
                    journal.show();
                }
                Due::PassOnPending => agent.pass_on_pending(journal, clients),
                Due::KeepAgent => agent.keep(journal),
            }
        }
        agent.note_turns(journal);
    }

    fn obey(&mut self, command: Command) {
        let Self { journal, agent, clients, .. } = self;
        match command {
            // A client waits for an answer of the agent, so the agent is at work even without a
            // turn.
            Command::Input { input, reply }
                if matches!(*input, Input::Lifecycle(LifecycleInput::Sleep { .. }))
                    && agent.is_owed() =>
            {
                let _ = reply.send(Err(CallError::Refused(Refusal::TurnInProgress)));
            }
            Command::Input { input, reply } => {
                let caller = self.caller_of(&input);
                let comes = if let Input::Client(ClientInput::Attach(attachment)) = &*input {
                    Some(attachment.sender.clone())
                } else {
                    None
                };
                self.request_for(caller, *input, reply);
                if let Some(client) = comes {
                    self.clients.ask_links_again(&client, self.journal.session());
                }
            }
            Command::WakeFor { client, reply } => {
                let caller = clients.abilities_of(&client);
                self.request_for(
                    Some(caller),
                    Input::Lifecycle(LifecycleInput::Wake { cause: WakeCause::Caller }),
                    reply,
                );
            }
            Command::ComeBack { need, reply } => {
                agent.set_need(need);
                let cause = match need {
                    StartPriority::Client => WakeCause::Caller,
                    StartPriority::Queued(_) => WakeCause::Queue,
                    StartPriority::Nobody => WakeCause::HostStart,
                };
                self.request(Input::Lifecycle(LifecycleInput::Wake { cause }), reply);
            }
            Command::ComeBackOn { client, terms, reply } => {
                let before = journal.state().start;
                let input = if client.is_some() {
                    Input::Lifecycle(LifecycleInput::Wake { cause: WakeCause::Caller })
                } else {
                    Input::Lifecycle(LifecycleInput::Resume)
                };
                let caller = client.and_then(|client| clients.abilities_of(&client));
                self.request_for(Some(caller), input, reply);
                if self.journal.state().start != before {
                    self.agent.set_terms(terms);
                }
            }
            Command::Attend { client, attendance } => self.attend(client, attendance),
            Command::Forward { forward, taken } => agent.forward(forward, taken, journal, clients),
            Command::CallAgent { frame, answer } => agent.call(&frame, answer, journal),
            Command::CancelForward { client, request } => {
                agent.cancel_forward(&client, &request, journal, clients)
            }
            Command::RelayAnswer { client, relay, frame } => {
                agent.answer_relay(&client, relay, &frame, clients)
            }
            Command::RelayLate { relay } => {
                agent.fail_relay(
                    relay,
                    "the client that serves this did not answer",
                    journal,
                    clients,
                );
            }
            Command::Served(served) => agent.answer_served(served, journal),
            Command::Turns { reply } => drop(reply.send(journal.state().turns.clone())),
            Command::IsObserver { caller, reply } => {
                let _ = reply.send(journal.session().is_observed_by(&caller));
            }
            Command::AgentReport { reply } => drop(reply.send(AgentReport::of(journal.state()))),
            Command::Clients { reply } => drop(reply.send(clients.list(journal.session()))),
            Command::Queue { reply } => {
                drop(reply.send(journal.state().queue.iter().cloned().collect()))
            }
            Command::Asks { reply } => {
                drop(reply.send(journal.state().asks.values().cloned().collect()))
            }
            Command::WaitUp { reply } => agent.wait_up(reply, journal),
            Command::AgentUp { start, outcome } => {
                agent.take_start(start, *outcome, journal, clients)
            }
            Command::AgentGone { start, exit, stderr, process } => {
                if exit.lacked_host && journal.state().start == start {
                    self.end_without_agent();
                } else {
                    let message = FailureText { reason: &exit.describe_exit(), stderr: &stderr }
                        .to_string()
                        .into();
                    journal.input(
                        Input::Agent(AgentInput::Exited { start, exit_code: exit.code, message }),
                        None,
                    );
                }
                self.journal.act_later(Act::Release(process));
            }
            Command::DeleteOther { agent_session, done } => {
                agent.delete_other(&agent_session, done)
            }
            Command::Delete { .. }
            | Command::ShutDown { .. }
            | Command::Leave { .. }
            | Command::KeeperAnswered(_) => {}
        }
    }

    /// Decides on a caller's request; an agent that is started thereby is started on the caller's
    /// behalf.
    fn request_for(&mut self, caller: Option<Option<Abilities>>, input: Input, reply: ReplyTo) {
        let before = self.journal.state().start;
        self.request(input, reply);
        let start = self.journal.state().start;
        if let Some(abilities) = caller.filter(|_| start != before) {
            self.agent.set_wanted(start, abilities);
        }
    }

    fn request(&mut self, input: Input, reply: ReplyTo) {
        if self.journal.closed().is_some() {
            return;
        }
        if self.journal.is_stalled() {
            return match self.agent.obey_unwritten(&input) {
                Some(done) => drop(reply.send(Err(CallError::NotWritten { done }))),
                None => self.journal.refuse(reply),
            };
        }
        if input.cannot_wait() {
            return self.journal.input(input, Some(reply));
        }
        match self.admission.admit(input, self.journal.state()) {
            Ok(input) => self.journal.request(input, reply),
            Err(refused) => drop(reply.send(Err(refused))),
        }
    }

    /// Returns the abilities of a caller whose input may start the agent; `None` if the input
    /// cannot start it, `Some(None)` if the caller is not an ACP client.
    fn caller_of(&self, input: &Input) -> Option<Option<Abilities>> {
        if let Input::Client(
            ClientInput::Attach(Attachment { sender, .. })
            | ClientInput::Prompt(Submission { sender, .. }),
        ) = input
        {
            return Some(self.clients.abilities_of(&sender.client));
        }
        matches!(
            input,
            Input::Lifecycle(
                LifecycleInput::Resume | LifecycleInput::Wake { cause: WakeCause::Caller }
            )
        )
        .then_some(None)
    }

    /// Notes a client's lane and abilities; with `None`, the client leaves.
    fn attend(&mut self, client: ClientId, attendance: Option<Box<Attendance>>) {
        let Self { journal, agent, clients, .. } = self;
        if let Some(attendance) = attendance {
            return clients.attend(client, *attendance);
        }
        // The client only failed to attach again: it is still attached as before.
        if journal.session().members().any(|member| member.sender.client == client) {
            return;
        }
        for relay in clients.leave(&client, agent.owes(&client), journal.session()) {
            agent.fail_relay(relay, "the client that served this went away", journal, clients);
        }
    }

    async fn shut_down(&mut self, done: oneshot::Sender<()>) {
        self.context.shared.note_stop(true);
        if self.agent.has_left_output() {
            // The session ends when the next host has taken all of that in.
            self.carry_out();
            self.finish_acts().await;
            self.agent.leave();
            let _ = done.send(());
            return;
        }
        self.kill_and_sync(EndReason::HostShutdown).await;
        self.agent.end_for_shutdown().await;
        let _ = done.send(());
    }

    /// Goes on with the agent of an earlier host whose keeper has answered, or without it.
    async fn take_keeper(&mut self, answer: Box<std::io::Result<FoundAgent>>) {
        // The takeover sends the agent the messages that, by the log, it has not got. Carry out all
        // decisions before, so that the agent does not get a message twice.
        self.carry_out();
        self.finish_acts().await;
        if self.journal.has_acts() || self.journal.is_stalled() {
            return self.agent.put_off_keeper(answer);
        }
        if !self.agent.take_keeper(*answer, &mut self.journal) {
            self.end_without_agent();
        }
        self.journal.show();
    }

    /// Ends the session of an agent that has not outlived an earlier host. Brings it back if it is
    /// to come back by itself. The end is written at once, in phase two: whether the session comes
    /// back depends on the state after it.
    fn end_without_agent(&mut self) {
        self.journal.input(Input::Lifecycle(LifecycleInput::HostRestarted), None);
        self.commit();
        let descriptor =
            Descriptor::of_session(self.journal.session(), &self.context.shared.attention);
        if let Some(need) = self.context.host.wants_back(&descriptor) {
            let (reply, _) = oneshot::channel();
            self.obey(Command::ComeBack { need, reply });
        }
    }

    /// Leaves a kept agent to its keeper, for the next host, without an event in the log. Ends any
    /// other session.
    async fn leave(&mut self, done: oneshot::Sender<()>) {
        self.context.shared.note_stop(true);
        self.carry_out();
        self.finish_acts().await;
        if self.agent.leave() {
            let _ = done.send(());
        } else {
            self.shut_down(done).await;
        }
    }

    /// Ends the session for good.
    async fn delete(&mut self, done: oneshot::Sender<Option<AgentDelete>>) {
        self.agent.delete_at_end();
        self.kill_and_sync(EndReason::User).await;
        let outcome = self.agent.end_for_deletion(&mut self.journal, &mut self.clients).await;
        let _ = done.send(Some(outcome));
    }

    async fn kill_and_sync(&mut self, reason: EndReason) {
        self.journal.input(Input::Lifecycle(LifecycleInput::Kill { reason }), None);
        self.carry_out();
        self.finish_acts().await;
        self.agent.abort_start();
    }

    /// Does what waits for the disk.
    async fn finish_acts(&mut self) {
        while self.journal.has_acts()
            && self.journal.closed().is_none()
            && !self.journal.is_stalled()
        {
            if !self.journal.synced().await {
                break;
            }
            self.act();
        }
    }

    /// Without a log no answer will come: attached clients are disconnected, and the agent is
    /// ended.
    fn disconnect_if_closed(&mut self) {
        let Some(error) = self.journal.closed() else { return };
        self.agent.fail_start(StartFailure::new(error.to_string()));
        self.clients.disconnect();
        self.agent.abandon();
    }

    /// Returns true if retention must keep the session (rule 2.12).
    fn is_in_use(&self) -> bool {
        let state = self.journal.state();
        state.status.is_alive()
            || !state.queue.is_empty()
            || !state.asks.is_empty()
            || state.archived
            || self.journal.session().members().next().is_some()
    }

    /// Returns true if the session has no agent, no attached client, and no acts or commands that
    /// wait.
    fn is_idle(&self) -> bool {
        !self.journal.state().status.is_alive()
            && self.agent.is_absent()
            && !self.journal.has_acts()
            && self.journal.session().members().next().is_none()
            && self.commands.is_empty()
    }
}
