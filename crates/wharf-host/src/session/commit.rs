//! Append → publish → act. What is done because of a fact waits until the fact is as safe as rule 1.4 asks.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use wharf_core::{Effect, EndReason, Event, Member, Millis, Reply, Seq, StartKind, StartNo, Step, encode};
use wharf_store::AppendError;

use super::command::{Command, ReplyTo, Started, StartedTo, UpTo};
use super::cursor::Entry;
use super::handle::{CallError, Direct};
use super::in_force::in_force;
use super::task::SessionTask;
use crate::agent::introduction::{StartFailure, greet};
use crate::agent::{self, Greeted};
use crate::descriptor::Descriptor;
use crate::ids::Now;
use crate::index::Row;

/// How far the log is safe on disk; or why it will never be.
#[derive(Clone, Debug, Default)]
pub(super) struct Synced {
    upto: Seq,
    failure: Option<Arc<str>>,
}

/// Something to do once the log is far enough.
#[derive(Debug)]
pub(super) struct Waiting {
    after: Seq,
    /// On disk for good, not only written.
    sync: bool,
    act: Act,
}

#[derive(Debug)]
enum Act {
    Effect(Effect),
    Reply(ReplyTo, Reply),
    Started(StartedTo, Box<Result<Started, StartFailure>>),
    Up(UpTo, Box<Result<(), StartFailure>>),
}

impl SessionTask {
    /// Keeps a step for phase three.
    pub(super) fn take(&mut self, step: Step, now: Millis, reply: Option<ReplyTo>) {
        let sync = step.events.iter().any(Event::wants_sync);
        let after = self.session.head();
        self.fresh.extend(step.events.into_iter().map(|event| (now, event)));
        for effect in step.effects {
            self.waiting.push_back(Waiting { after, sync, act: Act::Effect(effect) });
        }
        if let Some(reply) = reply {
            self.waiting.push_back(Waiting { after, sync, act: Act::Reply(reply, step.reply) });
        }
    }

    pub(super) fn answer_start(&mut self, outcome: Result<Started, StartFailure>) {
        let up = outcome.as_ref().map(|_| ()).map_err(Clone::clone);
        let after = self.session.head();
        for to in self.start_waiters.drain(..) {
            self.waiting.push_back(Waiting { after, sync: false, act: Act::Up(to, Box::new(up.clone())) });
        }
        if let Some(to) = self.around.started.take() {
            let act = Act::Started(to, Box::new(outcome));
            self.waiting.push_back(Waiting { after, sync: false, act });
        }
    }

    /// Writes what was decided and shows it. False if it could not be written: then nothing may be done either.
    pub(super) fn append_and_publish(&mut self) -> bool {
        if self.fresh.is_empty() {
            return !self.stalled;
        }
        let (expected, bodies) = self.encoded();
        let began = Instant::now();
        match self.shared.log.append(self.around.epoch.0, expected.0, &bodies) {
            Ok(_) => {
                let metrics = &self.around.host.metrics;
                metrics.append.observe(began.elapsed());
                metrics.events.add(bodies.len() as u64);
                metrics.event_bytes.add(bodies.iter().map(|body| body.len() as u64).sum());
                if self.stalled {
                    tracing::info!(session = %self.shared.id, "there is space on the disk again: the session goes on");
                    self.shared.note_stalled(false);
                }
                self.stalled = false;
                self.publish(expected);
                true
            }
            Err(AppendError::Full(_)) => {
                if !self.stalled {
                    tracing::error!(session = %self.shared.id, "the disk is full: the session is paused until there is space");
                }
                self.stalled = true;
                self.shared.note_stalled(true);
                false
            }
            Err(error) => {
                self.give_up(&error.to_string());
                false
            }
        }
    }

    fn encoded(&self) -> (Seq, Vec<Bytes>) {
        let expected = Seq(self.session.head().0 - self.fresh.len() as u64);
        let mut buffer = Vec::with_capacity(self.fresh.len() * 512);
        let mut ends = Vec::with_capacity(self.fresh.len());
        for (at, event) in &self.fresh {
            encode(event, *at, &mut buffer);
            ends.push(buffer.len());
        }
        let whole = Bytes::from(buffer);
        let starts = std::iter::once(0).chain(ends.iter().copied());
        (expected, starts.zip(&ends).map(|(start, end)| whole.slice(start..*end)).collect())
    }

    /// Shows the appended events to every reader. A plain function: it waits for nobody.
    fn publish(&mut self, expected: Seq) {
        let mut seq = expected;
        let mut news = false;
        let mut sync = false;
        let mut ended_by_user = false;
        let epoch = self.around.epoch;
        let mut entries = Vec::with_capacity(self.fresh.len());
        for (at, event) in self.fresh.drain(..) {
            seq = seq.next();
            sync |= event.wants_sync();
            if let Event::AgentUpdated { title, .. } = &event {
                news |= title.is_some();
                self.shared.note_output(at);
            } else {
                news = true;
                self.measure.note(&event, at, &self.around.host);
            }
            if let Event::Ended(ending) = &event {
                ended_by_user |= matches!(ending.reason, EndReason::User | EndReason::Closed);
            }
            if let Event::Snapshot(_) = &event {
                self.last_snapshot = Some(seq);
            }
            entries.push(Entry { seq, epoch, at, event });
        }
        self.shared.tail.publish(entries);
        let descriptor = news.then(|| Arc::new(Descriptor::of(&self.session)));
        if news {
            self.shared.note_rest(&self.session, Now::millis());
        }
        // Both at once: who is woken by an event is not told how things were before it, and who is told how things are
        // finds the events that made them so.
        self.shared.head.send_modify(|head| {
            *head = seq;
            if let Some(descriptor) = &descriptor {
                self.shared.set_descriptor(Arc::clone(descriptor));
            }
        });
        if let Some(descriptor) = descriptor {
            self.list(descriptor);
        }
        if ended_by_user {
            // Now that everyone is told that it has ended: none comes after those that are found.
            self.around.host.end_descendants(&self.shared.id);
        }
        if sync {
            self.request_sync();
        }
    }

    fn request_sync(&self) {
        let (synced, host, began) = (self.synced.clone(), Arc::clone(&self.around.host), Instant::now());
        self.shared.log.sync(Box::new(move |result| {
            host.metrics.sync.observe(began.elapsed());
            synced.send_modify(|known| match result {
                Ok(seq) => known.upto = known.upto.max(Seq(seq)),
                Err(error) => known.failure = Some(error.to_string().into()),
            });
        }));
    }

    /// Refreshes what listings show.
    pub(super) fn describe(&self) {
        let descriptor = Arc::new(Descriptor::of(&self.session));
        self.shared.set_descriptor(Arc::clone(&descriptor));
        self.list(descriptor);
    }

    fn list(&self, descriptor: Arc<Descriptor>) {
        self.around.host.registry.note_change();
        let head = self.shared.log.head();
        self.around.host.index.put(Row {
            id: self.shared.log_id.clone(),
            seq: head.seq,
            bytes: head.bytes,
            snapshot: self.last_snapshot.map(|seq| seq.0),
            descriptor,
        });
    }

    /// Does what has waited long enough, in order.
    pub(super) fn act(&mut self) {
        let Synced { upto: synced, failure } = self.synced.borrow().clone();
        if let Some(failure) = failure {
            self.give_up(&failure);
            return;
        }
        while let Some(next) = self.waiting.front() {
            if next.sync && next.after > synced {
                return;
            }
            let Some(next) = self.waiting.pop_front() else { return };
            match next.act {
                Act::Effect(effect) => self.run_effect(effect),
                Act::Reply(to, reply) => {
                    let presence = matches!(reply, Reply::Joined(_));
                    let _ = to.send(Ok(reply));
                    if presence {
                        self.describe();
                    }
                }
                Act::Started(to, outcome) => {
                    let _ = to.send(*outcome);
                }
                Act::Up(to, outcome) => {
                    let _ = to.send(*outcome);
                }
            }
        }
    }

    fn run_effect(&mut self, effect: Effect) {
        match effect {
            Effect::StartAgent { start, how } => self.start_agent(start, how),
            Effect::StopAgent { start } => self.stop_agent(start),
            Effect::SendPrompt { prompt, frame } => {
                if let Some(agent) = &mut self.agent {
                    agent.speak(|voice| voice.prompt(prompt, &frame));
                }
            }
            Effect::SendCancel => {
                if let Some(agent) = &mut self.agent {
                    agent.speak(|voice| voice.cancel());
                }
            }
            Effect::AnswerAsk { agent_request, reply } => {
                if let Some(agent) = &mut self.agent {
                    agent.speak(|voice| voice.answer_ask(&agent_request, &reply));
                }
            }
            Effect::AnnouncePresence { member, connected } => self.announce(&member, connected),
        }
    }

    fn announce(&mut self, member: &Member, connected: bool) {
        let others: Vec<_> = self.lanes.keys().filter(|client| **client != member.sender.client).cloned().collect();
        for client in others {
            self.direct(&client, Direct::Presence { member: member.clone(), connected });
        }
        self.describe();
    }

    /// Starts the agent beside the task; the outcome comes back as a command.
    fn start_agent(&mut self, start: StartNo, how: StartKind) {
        let host = Arc::clone(&self.around.host);
        let commands = self.self_commands.clone();
        let ending = self.ending.take();
        let spare = self.around.spare.take();
        let origin = self.session.state().origin.clone();
        let agent_session = self.session.state().agent_session.as_ref().map(ToString::to_string);
        let log_id = self.shared.log_id.clone();
        let (in_force, shared) = (in_force(self.session.state()), Arc::clone(&self.shared));
        let starter = tokio::spawn(async move {
            // One agent per session, ever: the old tree goes before the new one comes.
            if let Some(ending) = ending {
                let _ = ending.await;
            }
            let outcome = async {
                let inputs = host.start_inputs(&log_id).map_err(StartFailure::new)?;
                let agent = host.agent(&origin.adapter, inputs.mode.as_deref(), &inputs.options)?;
                shared.rest_for_at_most(agent.idle_limit);
                let mut greeted: Greeted = match spare {
                    Some(greeted) => greeted,
                    None => {
                        agent.program(&inputs.env)?;
                        let launch = host.launch_of(&agent, &origin, &inputs)?;
                        let mut greeted = greet(&launch, &inputs.capabilities).await?;
                        for frame in &inputs.prelude {
                            greeted.ask(frame.bytes()).await?;
                        }
                        greeted
                    }
                };
                if agent.comes_back == Some(false) {
                    greeted.introduction.traits.load = false;
                    greeted.introduction.traits.resume = false;
                }
                let (new_frame, quiet) = (inputs.new_frame, agent.replay_quiet);
                let opening = agent::Opening { how, new_frame, agent_session, in_force, quiet };
                agent::open(greeted, &opening).await
            };
            let outcome = Box::new(outcome.await);
            let _ = commands.send(Command::AgentUp { start, outcome }).await;
        });
        self.starter = Some((start, starter));
    }

    fn stop_agent(&mut self, start: StartNo) {
        if let Some((_, starter)) = self.starter.take_if(|(number, _)| *number == start) {
            // Dropping what it holds ends the process, if there is one already.
            starter.abort();
        }
        if let Some(agent) = self.agent.take_if(|agent| agent.start == start) {
            self.shared.set_shim(0);
            let (ending, unanswered) = agent.end();
            self.ending = Some(ending);
            self.settle_relays(unanswered);
        }
        self.answer_start_now(StartFailure::new("the session was ended while its agent was starting"));
    }

    fn answer_start_now(&mut self, failure: StartFailure) {
        for to in self.start_waiters.drain(..) {
            let _ = to.send(Err(failure.clone()));
        }
        if let Some(to) = self.around.started.take() {
            let _ = to.send(Err(failure));
        }
    }

    /// The log is no longer ours or no longer works: nothing that cannot be recorded may happen.
    fn give_up(&mut self, why: &str) {
        tracing::error!(session = %self.shared.id, why, "the log cannot be written: the session is stopped");
        self.broken = true;
        for waiting in self.waiting.drain(..) {
            match waiting.act {
                Act::Reply(to, _) => {
                    let _ = to.send(Err(CallError::Storage(why.to_owned())));
                }
                Act::Started(to, _) => {
                    let _ = to.send(Err(StartFailure::new(why)));
                }
                Act::Up(to, _) => {
                    let _ = to.send(Err(StartFailure::new(why)));
                }
                Act::Effect(_) => {}
            }
        }
        self.answer_start_now(StartFailure::new(why));
    }
}
