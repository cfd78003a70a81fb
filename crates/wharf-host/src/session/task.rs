//! The task that owns one session: gather what happened, let the core decide, then append → publish → act.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use wharf_core::{
    Attachment, ClientId, EndReason, Epoch, Event, Fault, Input, Millis, Refusal, Seq, Session, StartNo, Status, Step,
    Submission, UpdateKind, WakeCause,
};

use super::clock::Clock;
use super::command::{Command, ReplyTo, Started, StartedTo, UpTo};
use super::commit::{Synced, Waiting};
use super::handle::{Abilities, AgentReport, CallError, Lanes};
use super::hear::{Ear, Heard};
use super::in_force::SettingNews;
use super::link::{AgentDelete, AgentLink};
use super::measure::Measure;
use super::pause::Retry;
use super::pending::PendingForward;
use super::relay::Relays;
use super::screens::Screens;
use super::shared::Shared;
use crate::agent::introduction::StartFailure;
use crate::agent::{Greeted, Opened};
use crate::frame::Line;
use crate::host::{Inner, Need};
use crate::ids::Now;
use crate::settings::{ReturnTerms, ToldSettings};

/// Commands taken in one go, so that a flood of them cannot keep the agent's output waiting.
const COMMANDS_AT_ONCE: usize = 64;
/// A cold session's task goes to sleep after this long with nothing to do; the log has everything.
const IDLE: Duration = Duration::from_secs(30);

/// What the task needs besides the session.
#[derive(Debug)]
pub(crate) struct Surroundings {
    pub(crate) host: Arc<Inner>,
    pub(crate) epoch: Epoch,
    /// Its place among the sessions with a running agent, while it is one.
    pub(crate) place: Option<OwnedSemaphorePermit>,
    /// An agent that was greeted already, for the first start.
    pub(crate) spare: Option<Greeted>,
    /// Who waits for the first start.
    pub(crate) started: Option<StartedTo>,
    /// Who waits for the first step to be in the log.
    pub(crate) founded: Option<ReplyTo>,
    /// The session's creator waits for the first start: if it fails, it is not tried again.
    pub(crate) caller_waits: bool,
}

#[derive(Debug)]
pub(crate) struct SessionTask {
    pub(super) session: Session,
    pub(super) shared: Arc<Shared>,
    pub(super) around: Surroundings,
    pub(super) commands: mpsc::Receiver<Command>,
    /// For our own starters and watchers.
    pub(super) self_commands: mpsc::Sender<Command>,
    pub(super) lanes: Lanes,
    pub(super) relays: Relays,
    pub(super) screens: Screens,

    pub(super) start_waiters: Vec<UpTo>,
    /// Messages for the agent that wait for its start.
    pub(super) pending: VecDeque<PendingForward>,
    ear: Ear,
    pub(super) agent: Option<AgentLink>,
    pub(super) starter: Option<(StartNo, JoinHandle<()>)>,
    /// How much the next start is needed.
    pub(super) need: Need,
    /// The start that a caller waits for, and what that caller can do if it is an ACP client.
    pub(super) wanted_start: Option<(StartNo, Option<Abilities>)>,
    /// The settings of the next start.
    pub(super) terms: ReturnTerms,
    pub(super) news: SettingNews,
    /// The last agent on its way out; the next start waits for it.
    pub(super) ending: Option<JoinHandle<()>>,
    /// The session is being deleted: its agent is to delete it too before it ends, and what became of that.
    pub(super) deletes: bool,
    pub(super) deletion: Option<JoinHandle<AgentDelete>>,
    /// Decided and not yet in the log.
    pub(super) fresh: Vec<(Millis, Event)>,
    pub(super) waiting: VecDeque<Waiting>,
    pub(super) synced: watch::Sender<Synced>,
    synced_news: watch::Receiver<Synced>,
    /// Not even the reserve had space: nothing is decided until what was decided is in the log.
    pub(super) stalled: bool,
    pub(super) retry: Retry,
    clock: Clock,
    /// The log is lost to us; the task ends.
    pub(super) broken: bool,
    pub(super) last_snapshot: Option<Seq>,
    pub(super) measure: Measure,
}

/// Why the task woke.
enum Wake {
    Command(Option<Command>),
    /// The agent wrote something (or nothing: its end).
    Agent(std::io::Result<usize>),
    Synced,
    Time,
}

impl SessionTask {
    /// Sets the session to work. `first` is what its creation or restore already decided.
    pub(crate) fn spawn(
        session: Session,
        shared: Arc<Shared>,
        around: Surroundings,
        first: Step,
    ) -> mpsc::Sender<Command> {
        let (sender, commands) = mpsc::channel(256);
        let (synced, synced_news) = watch::channel(Synced::default());
        let ear = Ear::new(shared.id.as_str());
        let mut task = Self {
            last_snapshot: session.state().snapshot,
            measure: Measure::new(&session),
            news: SettingNews::new(ToldSettings::of(session.state())),
            session,
            shared,
            around,
            commands,
            self_commands: sender.clone(),
            lanes: Lanes::new(),
            relays: Relays::default(),
            screens: Screens::default(),

            start_waiters: Vec::new(),
            pending: VecDeque::new(),
            ear,
            agent: None,
            starter: None,
            need: Need::Client,
            wanted_start: None,
            terms: ReturnTerms::default(),
            ending: None,
            deletes: false,
            deletion: None,
            fresh: Vec::new(),
            waiting: VecDeque::new(),
            synced,
            synced_news,
            stalled: false,
            retry: Retry::default(),
            clock: Clock::new(Now::millis()),
            broken: false,
        };
        tokio::spawn(async move {
            let founded = task.around.founded.take();
            task.take(first, Now::millis(), founded);
            task.carry_out();
            task.run().await;
        });
        sender
    }

    async fn run(mut self) {
        while !self.broken {
            let wake = self.gather().await;
            if self.decide(wake).await {
                return;
            }
            self.carry_out();
        }
        if let Some(agent) = self.agent.take() {
            agent.end();
        }
    }

    /// Phase one: wait for something to happen.
    async fn gather(&mut self) -> Wake {
        let (wait, held) = (self.wait(), self.is_held());
        let agent = async {
            match &mut self.agent {
                Some(link) if !held => link.reader.fill().await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            command = self.commands.recv() => Wake::Command(command),
            read = agent => Wake::Agent(read),
            Ok(()) = self.synced_news.changed() => Wake::Synced,
            () = tokio::time::sleep(wait) => Wake::Time,
        }
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
                        Some(Command::Delete { done }) => {
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
            Wake::Agent(Ok(1..)) => self.hear(),
            Wake::Agent(Ok(0) | Err(_)) => self.lost(),
            Wake::Synced => {}
            Wake::Time => {
                if !self.is_held() && self.news.wait().is_some_and(|wait| wait.is_zero()) {
                    self.tell_settings();
                } else if self.session.deadline().is_some_and(|deadline| deadline <= self.clock.now()) {
                    self.input(Input::TimePassed, None);
                } else if !self.is_held() && self.is_idle() {
                    return self.around.host.registry.retire(&self.shared);
                }
            }
        }
        false
    }

    /// Phase three: append → publish → act, in this order and nowhere else (rule 1.3).
    fn carry_out(&mut self) {
        self.try_again(false);
        if self.append_and_publish() {
            self.act();
        }
        self.keep_bounds();
    }

    /// The core's answer to one input, kept for phase three.
    pub(super) fn input(&mut self, input: Input, reply: Option<ReplyTo>) {
        let now = self.now();
        let step = self.session.handle(input, now);
        self.take(step, now, reply);
    }

    /// The session's time. It follows the wall clock only while nothing is measured by it.
    fn now(&mut self) -> Millis {
        if self.session.state().turns.is_empty() && self.session.deadline().is_none() && !self.is_held() {
            self.clock.set(Now::millis());
        }
        self.clock.now()
    }

    fn obey(&mut self, command: Command) {
        match command {
            // A client waits for the agent: that is work too, although it is no turn.
            Command::Input { input, reply } if matches!(*input, Input::Sleep { .. }) && self.owes_an_answer() => {
                let _ = reply.send(Err(CallError::Refused(Refusal::TurnInProgress)));
            }
            Command::Input { input, reply } => {
                let caller = self.caller_of(&input);
                let comes =
                    if let Input::Attach(attachment) = &*input { Some(attachment.sender.clone()) } else { None };
                self.wish_of(caller, *input, reply);
                if let Some(client) = comes {
                    self.ask_links_again(&client);
                }
            }
            Command::WakeFor { client, reply } => {
                self.wish_of(Some(self.abilities_of(&client)), Input::Wake { cause: WakeCause::Caller }, reply);
            }
            Command::Attend { client, attendance } => self.attend(client, attendance.map(|known| *known)),
            Command::Forward { forward, taken } => self.forward(forward, taken),
            Command::CancelForward { client, request } => self.cancel_forward(&client, &request),
            Command::RelayAnswer { client, relay, frame } => self.relay_answered(&client, relay, &frame),
            Command::RelayLate { relay } => self.fail_relay(relay, "the client that serves this did not answer"),
            Command::Served { start, frame, ended, place } => {
                if ended.is_some() && self.agent.as_ref().is_some_and(|agent| agent.start == start) {
                    self.tell_screens(ended.as_deref());
                }
                if let Some(agent) = self.agent.as_mut().filter(|agent| agent.start == start) {
                    agent.speak(|voice| voice.say_served(frame, place));
                }
            }
            Command::Turns { reply } => {
                let _ = reply.send(self.session.state().turns.clone());
            }
            Command::IsObserver { caller, reply } => {
                let _ = reply.send(self.session.is_observed_by(&caller));
            }
            Command::AgentReport { reply } => {
                let _ = reply.send(AgentReport::of(self.session.state()));
            }
            Command::Queue { reply } => {
                let _ = reply.send(self.session.state().queue.iter().cloned().collect());
            }
            Command::Asks { reply } => {
                let _ = reply.send(self.session.state().asks.values().cloned().collect());
            }
            Command::ComeBack { need, reply } => {
                self.need = need;
                let cause = match need {
                    Need::Client => WakeCause::Caller,
                    Need::Queued(_) => WakeCause::Queue,
                    Need::Nobody => WakeCause::HostStart,
                };
                self.wish(Input::Wake { cause }, reply);
            }
            Command::ComeBackOn { client, terms, reply } => {
                let before = self.session.state().start;
                match client {
                    Some(client) => {
                        let abilities = self.abilities_of(&client);
                        self.wish_of(Some(abilities), Input::Wake { cause: WakeCause::Caller }, reply);
                    }
                    None => self.wish_of(Some(None), Input::Resume, reply),
                }
                if self.session.state().start != before {
                    self.terms = terms;
                }
            }
            Command::WaitUp { reply } => self.wait_up(reply),
            Command::AgentUp { start, outcome } => self.agent_up(start, *outcome),
            Command::AgentGone { start, exit, stderr } => {
                let mut message = exit.describe();
                if !stderr.is_empty() {
                    message = format!("{message}\nstderr: {stderr}");
                }
                self.input(Input::AgentExited { start, exit_code: exit.code, message: message.into() }, None);
            }
            Command::DeleteOther { agent_session, done } => {
                if let Some(agent) = &mut self.agent {
                    agent.delete_other(&agent_session, done);
                }
            }
            Command::Delete { .. } | Command::ShutDown { .. } => {}
        }
    }

    /// Does what a caller wishes; an agent that is started thereby is started on the caller's behalf.
    fn wish_of(&mut self, caller: Option<Option<Abilities>>, input: Input, reply: ReplyTo) {
        let before = self.session.state().start;
        self.wish(input, reply);
        let start = self.session.state().start;
        if let Some(abilities) = caller.filter(|_| start != before) {
            self.wanted_start = Some((start, abilities));
        }
    }

    /// Returns what the caller of an input can do that may start the agent: `Some(None)` for one that is no ACP client.
    fn caller_of(&self, input: &Input) -> Option<Option<Abilities>> {
        if let Input::Attach(Attachment { sender, .. }) | Input::Prompt(Submission { sender, .. }) = input {
            return Some(self.abilities_of(&sender.client));
        }
        matches!(input, Input::Resume | Input::Wake { cause: WakeCause::Caller }).then_some(None)
    }

    fn abilities_of(&self, client: &ClientId) -> Option<Abilities> {
        self.lanes.get(client).map(|attendance| attendance.abilities)
    }

    fn agent_up(&mut self, start: StartNo, outcome: Result<Opened, StartFailure>) {
        if self.starter.as_ref().is_some_and(|(number, _)| *number == start) {
            self.starter = None;
        }
        match outcome {
            // A kill came first, or a later start: this one has no session any more.
            Ok(opened) if !self.expects(start) => {
                self.ending = Some(AgentLink::new(start, opened).end().0);
            }
            Ok(mut opened) => {
                let (early, settings) = (std::mem::take(&mut opened.early), std::mem::take(&mut opened.settings));
                let (traits, answer) = (opened.traits, opened.answer.clone());
                let agent_session = opened.agent_session.as_str().into();
                let link = AgentLink::new(start, opened);
                let origin = &self.session.state().origin;
                self.equip(self.around.host.tools(&self.shared.log_id, origin, link.process.pid()));
                self.shared.set_shim(link.process.shim());
                self.agent = Some(link);
                self.screens = Screens::default();
                self.pass_on_before_prompt();
                self.input(Input::AgentStarted { start, agent_session, traits, answer: answer.clone() }, None);
                self.pass_on_later();
                self.answer_start(Ok(Started { seq: self.session.head(), answer }));
                for (fault, detail) in early.faults {
                    self.fault(fault, detail);
                }
                for frame in early.frames {
                    self.hear_line(&frame);
                }
                self.settings_opened(&settings);
                // What came in the same breath as the answer is in the reader already: no further wake would tell.
                self.hear();
            }
            Err(failure) => {
                let (cause, exit_code) = (failure.cause, failure.exit_code);
                let message = failure.message.as_str().into();
                let is_awaited = self.around.caller_waits;
                self.input(Input::StartFailed { start, cause, is_awaited, exit_code, message }, None);
                // Callers that wait for the agent wait on while it is tried again.
                if self.session.state().status != Status::Starting {
                    self.answer_start(Err(failure));
                }
            }
        }
    }

    fn wait_up(&mut self, reply: UpTo) {
        match self.session.state().status {
            Status::Starting => self.start_waiters.push(reply),
            Status::Running => {
                let _ = reply.send(Ok(()));
            }
            Status::Exited | Status::Killed | Status::Error => {
                let ending = self.session.state().ending.as_ref();
                let message = ending.and_then(|ending| ending.message.as_deref()).unwrap_or("the session has ended");
                let _ = reply.send(Err(StartFailure::new(message)));
            }
        }
    }

    fn expects(&self, start: StartNo) -> bool {
        let state = self.session.state();
        state.start == start && state.status == Status::Starting
    }

    /// Takes every whole line that was read.
    fn hear(&mut self) {
        loop {
            let Some(AgentLink { reader, voice, .. }) = &mut self.agent else { return };
            let Some(line) = reader.next_line() else { return };
            let heard = self.ear.hear(line, voice);
            self.take_in(heard);
        }
    }

    fn take_in(&mut self, heard: Heard) {
        match heard {
            Heard::Nothing => {}
            Heard::Input(Input::AgentUpdated {
                update: update @ (UpdateKind::ToolCall | UpdateKind::ToolCallUpdate),
                frame,
                title,
                tool,
            }) => {
                self.input(Input::AgentUpdated { update, frame: frame.clone(), title, tool }, None);
                self.tool_call_shown(&frame);
            }
            Heard::Input(Input::AgentUpdated {
                update: update @ (UpdateKind::CurrentModeUpdate | UpdateKind::ConfigOptionUpdate),
                frame,
                ..
            }) => self.settings_reported(update, frame),
            Heard::Input(input) => {
                if matches!(input, Input::AgentAnswered { .. }) {
                    self.tell_screens(None);
                }
                self.input(input, None);
            }
            Heard::Fault(fault, detail) => self.fault(fault, detail),
            Heard::Malformed { kind, detail, failed } => {
                self.fault(kind, detail);
                failed.into_iter().for_each(|failed| self.take_in(failed));
            }
            Heard::Answer { to, frame, ok } => self.answered(&to, frame, ok),
            Heard::Request(request) => self.requested(request),
            Heard::Withdrawn { agent_request } => self.withdrawn(agent_request),
            Heard::Note(frame) => self.noted(frame),
        }
    }

    fn hear_line(&mut self, frame: &[u8]) {
        let Some(link) = &mut self.agent else { return };
        let heard = self.ear.hear(Line::Frame(frame), &mut link.voice);
        self.take_in(heard);
    }

    pub(super) fn fault(&mut self, fault: Fault, detail: String) {
        let admitted = match &mut self.agent {
            Some(link) => link.admit_fault(fault, detail),
            None => Some((fault, detail)),
        };
        if let Some((fault, detail)) = admitted {
            self.input(Input::AgentFaulted { fault, detail: detail.into() }, None);
        }
    }

    /// The agent closed its output: whatever it does now, it is of no use. Its tree is ended and awaited.
    fn lost(&mut self) {
        let Some(mut link) = self.agent.take() else { return };
        self.shared.set_shim(0);
        let remainder = link.reader.remainder();
        if remainder > 0 {
            let detail = format!("the output ended in the middle of a line of {remainder} bytes");
            self.input(Input::AgentFaulted { fault: Fault::Malformed, detail: detail.into() }, None);
        }
        self.tell_screens(None);
        let commands = self.self_commands.clone();
        let AgentLink { start, mut process, stderr, voice, .. } = link;
        self.settle_relays(voice.into_unanswered());
        self.ending = Some(tokio::spawn(async move {
            process.end();
            let exit = process.gone().await;
            let _ = commands.send(Command::AgentGone { start, exit, stderr: stderr.text() }).await;
        }));
    }

    async fn shut_down(&mut self, done: oneshot::Sender<()>) {
        self.kill_and_sync(EndReason::HostShutdown).await;
        if let Some(agent) = self.agent.take() {
            self.ending = Some(agent.end().0);
        }
        if let Some(ending) = self.ending.take() {
            let _ = ending.await;
        }
        let _ = done.send(());
    }

    /// Ends the session for good: the agent deletes its own copy, on the process that runs, else on another one.
    async fn delete(&mut self, done: oneshot::Sender<AgentDelete>) {
        self.deletes = true;
        self.kill_and_sync(EndReason::User).await;
        if let Some(agent) = self.agent.take() {
            self.end_agent(agent);
        }
        if let Some(ending) = self.ending.take() {
            let _ = ending.await;
        }
        let outcome = match self.deletion.take() {
            Some(deletion) => deletion.await.unwrap_or(AgentDelete::Failed),
            None => self.around.host.delete_agent_copy(&self.shared.log_id, self.session.state()).await,
        };
        let _ = done.send(outcome);
    }

    async fn kill_and_sync(&mut self, reason: EndReason) {
        self.input(Input::Kill { reason }, None);
        self.carry_out();
        // The kill's effects wait for the disk like any other.
        while !self.waiting.is_empty() && !self.broken && !self.stalled {
            if self.synced_news.changed().await.is_err() {
                break;
            }
            self.act();
        }
        if let Some((_, starter)) = self.starter.take() {
            starter.abort();
        }
    }

    fn wait(&self) -> Duration {
        if self.is_held() {
            return self.retry.left();
        }
        let deadline = self.session.deadline();
        let deadline = deadline.map(|deadline| Duration::from_millis(deadline.0.saturating_sub(self.clock.now().0)));
        deadline.into_iter().chain(self.news.wait()).fold(IDLE, Duration::min)
    }

    fn owes_an_answer(&self) -> bool {
        self.agent.as_ref().is_some_and(|agent| agent.voice.is_owed())
    }

    /// Nothing runs, nobody is attached, nothing is owed.
    fn is_idle(&self) -> bool {
        !self.session.state().status.is_alive()
            && self.agent.is_none()
            && self.starter.is_none()
            && self.ending.as_ref().is_none_or(JoinHandle::is_finished)
            && self.waiting.is_empty()
            && self.session.members().next().is_none()
            && self.commands.is_empty()
    }
}
