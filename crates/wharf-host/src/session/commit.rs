//! Append → publish → act. What is done because of a fact waits until the fact is as safe as rule 1.4 asks.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use wharf_core::{Effect, EndReason, Event, Member, Millis, PauseReason, Reply, Seq, StartKind, StartNo, Step, encode};
use wharf_store::AppendError;

use super::close_signal::CloseReason;
use super::command::{Command, ReplyTo, Started, StartedTo, UpTo};
use super::cursor::Entry;
use super::handle::{CallError, Direct};
use super::link::AgentLink;
use super::pause::{reason, refusal};
use super::task::SessionTask;
use crate::agent::introduction::{StartFailure, greet};
use crate::agent::{self, Greeted};
use crate::descriptor::Descriptor;
use crate::host::Need;
use crate::ids::Now;
use crate::index::Row;
use crate::settings::Settings;

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
    PassOnPending,
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

    /// Has what waits for the start passed on after the first prompt.
    pub(super) fn pass_on_later(&mut self) {
        let after = self.session.head();
        self.waiting.push_back(Waiting { after, sync: false, act: Act::PassOnPending });
    }

    pub(super) fn answer_start(&mut self, outcome: Result<Started, StartFailure>) {
        if let Err(failure) = &outcome {
            self.refuse_pending(failure);
        }
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
        let held = self.is_held();
        match self.write(held) {
            Ok(()) => true,
            Err(error) => match reason(&error) {
                // A session that is not in its log yet was never made.
                Some(why) if self.is_unfounded() => {
                    self.unmake(why);
                    false
                }
                Some(_) if held => {
                    self.stalled = true;
                    false
                }
                Some(why) => self.write_in_need(why),
                None => {
                    self.give_up(&error.to_string());
                    false
                }
            },
        }
    }

    /// Appends what was decided, all or nothing, and shows it.
    pub(super) fn write(&mut self, in_need: bool) -> Result<(), AppendError> {
        let (expected, bodies) = self.encoded();
        let (log, epoch) = (&self.shared.log, self.around.epoch.0);
        let began = Instant::now();
        match in_need {
            true => log.append_from_reserve(epoch, expected.0, &bodies)?,
            false => log.append(epoch, expected.0, &bodies)?,
        };
        let metrics = &self.around.host.metrics;
        metrics.append.observe(began.elapsed());
        metrics.events.add(bodies.len() as u64);
        metrics.event_bytes.add(bodies.iter().map(|body| body.len() as u64).sum());
        self.stalled = false;
        self.publish(expected);
        Ok(())
    }

    fn is_unfounded(&self) -> bool {
        self.session.head().0 == self.fresh.len() as u64
    }

    /// There is no space for a new session: its makers are told, and nothing of it is left.
    fn unmake(&mut self, why: PauseReason) {
        self.end_waiting(&refusal(why));
        self.broken = true;
        let host = &self.around.host;
        host.registry.remove(&self.shared.id);
        host.unmake(&self.shared.log_id);
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
                Act::PassOnPending => self.pass_on_pending(),
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
        let known = self.session.state().agent_session.as_ref().filter(|_| how != StartKind::New);
        let agent_session = known.map(ToString::to_string);
        let log_id = self.shared.log_id.clone();
        let terms = std::mem::take(&mut self.terms);
        let wanted = Settings::of(self.session.state()).on_return(&terms);
        let shared = Arc::clone(&self.shared);
        let need = std::mem::replace(&mut self.need, Need::Client);
        let starter = self.wanted_start.take_if(|(wanted, _)| *wanted == start).map(|(_, abilities)| abilities);
        let starter = tokio::spawn(async move {
            // One agent per session, ever: the old tree goes before the new one comes.
            if let Some(ending) = ending {
                let _ = ending.await;
            }
            let place = host.starts.enter(need).await;
            let work = async {
                let mut inputs = host.start_inputs(&log_id)?;
                let agent = host.agent(&origin.adapter, inputs.mode.as_deref(), &inputs.options)?;
                shared.rest_for_at_most(agent.idle_limit);
                let mut greeted: Greeted = match spare {
                    Some(mut greeted) => {
                        greeted.grant_time();
                        greeted
                    }
                    None => {
                        agent.program(&inputs.env)?;
                        let launch = host.launch_of(&agent, &origin, &inputs)?;
                        let capabilities = host.capabilities_for_start(&log_id, &mut inputs, starter);
                        let cwd = Some(launch.cwd.as_path());
                        let key = host.initialize_cache.key(&agent, &inputs.env, &capabilities, cwd);
                        let mut greeted = greet(&launch, &capabilities).await?;
                        if let Some(key) = key {
                            host.initialize_cache.store(key, &greeted.introduction).await;
                        }
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
                let opening = agent::Opening { how, new_frame, agent_session, wanted, quiet };
                agent::open(greeted, &opening).await
            };
            let outcome = Box::new(place.hold(work).await);
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
            self.end_agent(agent);
        }
        self.answer_start_now(StartFailure::new("the session was ended while its agent was starting"));
    }

    pub(super) fn end_agent(&mut self, agent: AgentLink) {
        self.shared.set_shim(0);
        let unanswered = if self.deletes {
            let (deletion, unanswered) = agent.end_and_delete();
            self.deletion = Some(deletion);
            unanswered
        } else {
            let (ending, unanswered) = agent.end();
            self.ending = Some(ending);
            unanswered
        };
        self.settle_relays(unanswered);
    }

    fn answer_start_now(&mut self, failure: StartFailure) {
        self.refuse_pending(&failure);
        for to in self.start_waiters.drain(..) {
            let _ = to.send(Err(failure.clone()));
        }
        if let Some(to) = self.around.started.take() {
            let _ = to.send(Err(failure));
        }
    }

    /// The log is no longer ours or no longer works: nothing that cannot be recorded may happen. Who is attached is
    /// disconnected, since no answer will come; the session can be opened anew, and is told its end then.
    pub(super) fn give_up(&mut self, why: &str) {
        tracing::error!(session = %self.shared.id, why, "the log cannot be written: the session is stopped");
        self.broken = true;
        self.end_waiting(&CallError::Storage(why.to_owned()));
        for attendance in self.lanes.values() {
            attendance.close.raise(CloseReason::LogFailed);
        }
        let mut descriptor = Descriptor::clone(&self.shared.descriptor());
        descriptor.fail(&format!("the log could not be written: {why}"), self.session.state().way_back().is_some());
        self.shared.set_descriptor(Arc::new(descriptor));
        self.around.host.registry.let_go(&self.shared);
    }

    /// Answers everyone who waits with this.
    fn end_waiting(&mut self, error: &CallError) {
        for waiting in self.waiting.drain(..) {
            waiting.refuse(error.clone());
        }
        self.answer_start_now(StartFailure::new(error.to_string()));
    }

    /// Listings tell of a pause that could not even be written.
    pub(super) fn show_pause(&self, why: PauseReason) {
        let mut descriptor = Descriptor::clone(&self.shared.descriptor());
        descriptor.paused = Some(why);
        self.shared.set_descriptor(Arc::new(descriptor));
        self.around.host.registry.note_change();
    }
}

impl Waiting {
    /// It will not be done.
    pub(super) fn refuse(self, error: CallError) {
        match self.act {
            Act::Reply(to, _) => {
                let _ = to.send(Err(error));
            }
            Act::Started(to, _) => {
                let _ = to.send(Err(StartFailure::new(error.to_string())));
            }
            Act::Up(to, _) => {
                let _ = to.send(Err(StartFailure::new(error.to_string())));
            }
            Act::Effect(_) | Act::PassOnPending => {}
        }
    }
}
