//! A model of the session that a walk maintains from inputs and outputs alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use wharf_core::{
    AgentEvent, AgentInput, AskEvent, AskId, ClientInput, Effect, EndReason, Event, Input,
    LifecycleInput, PromptEnd, PromptEvent, PromptId, Raw, Reply, Seq, Session, SessionEvent,
    Settings, StartKind, StartNo, State, Status, Step, StorageEvent, ToolCall, ToolCallState,
};

pub(super) const KINDS: [&str; 23] = [
    "created",
    "agent_starting",
    "agent_started",
    "ended",
    "prompt_accepted",
    "prompt_updated",
    "prompt_moved",
    "turn_started",
    "cancel_requested",
    "prompt_ended",
    "prompt_requeued",
    "agent_updated",
    "ask_opened",
    "ask_resolved",
    "agent_faulted",
    "snapshot",
    "paused",
    "continued",
    "start_failed",
    "settings_changed",
    "renamed",
    "labelled",
    "archived",
];

#[derive(Default)]
pub(super) struct Ledger {
    prompts: BTreeMap<PromptId, Prompt>,
    /// The asks; true once resolved.
    asks: BTreeMap<AskId, bool>,
    status: Option<Status>,
    last_start: StartNo,
    /// True for a copy of another session, and once it has begun a new conversation instead.
    is_fork: bool,
    begun_anew: bool,
    /// The start whose process may exist.
    process: Option<StartNo>,
    /// True while the agent is paused.
    paused: bool,
    /// The prompts that the agent was sent and has not answered.
    pub(super) held: Vec<PromptId>,
    /// The request ids of the agent without an answer, sorted.
    waiting: Vec<Raw>,
    open_tools: BTreeSet<Arc<str>>,
    /// True while a failed start waits for its retry.
    retrying: bool,
    /// The number of starts that failed in a row.
    failed_starts: u32,
    /// The number of exits of the agent by itself since the last answered prompt.
    deaths: u32,
    /// True if the current step had such an exit.
    died: bool,
    /// True if a user killed the session and has not resumed it.
    killed_by_user: bool,
    archived: bool,
    /// True if the current submission may go to a busy agent.
    may_overlap: bool,
    pub(super) tally: [u64; KINDS.len()],
}

struct Prompt {
    life: Life,
    frame: Raw,
    /// The event that holds the frame.
    content: Seq,
    keyed: bool,
    /// The number of requests to end the running turn.
    cancels: u32,
    requeues: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Waiting,
    Running,
    Ended,
}

impl Ledger {
    /// Prepares for an input.
    pub(super) fn expect(&mut self, input: &Input, state: &State) {
        self.may_overlap = false;
        if matches!(input, Input::Lifecycle(LifecycleInput::Resume)) {
            self.killed_by_user = false;
        }
        if let Input::Client(ClientInput::Prompt(submission)) = input {
            self.may_overlap = submission.to_agent && state.traits.queues;
        } else if let Input::Client(ClientInput::SendNow { steer, .. }) = input {
            self.may_overlap = *steer && state.traits.queues;
        } else if let Input::Agent(AgentInput::Asked { agent_request, .. }) = input
            && self.status == Some(Status::Running)
        {
            self.waiting.push(agent_request.clone());
            self.waiting.sort_by(|a, b| a.bytes().cmp(b.bytes()));
        } else if let Input::Agent(AgentInput::Answered { prompt, .. }) = input {
            self.held.retain(|held| held != prompt);
        }
    }

    /// Checks a step before its events are in the log.
    pub(super) fn check(&mut self, step: &Step, head: Seq) {
        if let Reply::Refused(refusal) = &step.reply {
            assert!(
                step.events.is_empty() && step.effects.is_empty(),
                "refused ({refusal:?}) and done"
            );
        }
        if let Reply::Prompt(receipt) = &step.reply {
            assert!(
                !receipt.duplicate || step.events.is_empty(),
                "a repeated submission is no news"
            );
            assert!(self.prompts.contains_key(&receipt.prompt) || !receipt.duplicate);
        }
        self.died = false;
        let mut seq = head;
        for event in &step.events {
            seq = seq.next();
            self.check_event(event, seq);
        }
        for effect in &step.effects {
            self.check_effect(effect, step);
        }
        let starts = step
            .events
            .iter()
            .filter(|event| matches!(event, Event::Agent(AgentEvent::Starting { .. })))
            .count();
        let started = step
            .effects
            .iter()
            .filter(|effect| matches!(effect, Effect::StartAgent { .. }))
            .count();
        assert_eq!(starts, started, "each start is a fact and an effect");
        let cancels = step
            .effects
            .iter()
            .filter(|effect| matches!(effect, Effect::SendCancel))
            .count();
        assert!(cancels <= 1, "the agent is told once");
    }

    fn turn_to(&mut self, prompt: &PromptId, from: &[Life], to: Life) {
        let known = self.prompts.get_mut(prompt).unwrap();
        assert!(from.contains(&known.life), "{prompt} goes from {:?} to {to:?}", known.life);
        known.life = to;
    }

    fn running(&self) -> usize {
        self.prompts.values().filter(|prompt| prompt.life == Life::Running).count()
    }

    fn check_event(&mut self, event: &Event, seq: Seq) {
        let kind = match event {
            Event::Session(SessionEvent::Created(origin)) => {
                assert_eq!(seq, Seq(1));
                self.is_fork = origin.forked_from.is_some();
                self.status = Some(Status::Starting);
                0
            }
            Event::Agent(AgentEvent::Starting { start, how }) => {
                assert_eq!(start.0, self.last_start.0 + 1);
                assert!(!self.killed_by_user, "a start undoes a user's kill");
                let free = self.retrying || self.status.is_some_and(|status| !status.is_alive());
                let is_first = start.0 == 1;
                assert!(is_first || free, "two starts at once");
                let waits = self.prompts.values().any(|prompt| prompt.life == Life::Waiting);
                assert!(
                    is_first || *how != StartKind::New || waits || self.retrying,
                    "memory lost for nothing"
                );
                assert!(
                    *how != StartKind::Fork || (self.is_fork && !self.begun_anew),
                    "a copy of no session"
                );
                assert!(
                    !is_first || (*how == StartKind::Fork) == self.is_fork,
                    "the first start of a fork copies"
                );
                self.begun_anew |= *how == StartKind::New;
                self.retrying = false;
                (self.last_start, self.status) = (*start, Some(Status::Starting));
                1
            }
            Event::Agent(AgentEvent::Started { start, .. }) => {
                assert_eq!((self.status, self.last_start), (Some(Status::Starting), *start));
                assert!(!self.retrying, "a start that failed has succeeded");
                self.failed_starts = 0;
                self.status = Some(Status::Running);
                2
            }
            Event::Session(SessionEvent::Ended(ending)) => {
                assert_eq!(self.running(), 0, "a turn outlives its agent");
                assert!(self.asks.values().all(|resolved| *resolved), "an ask outlives its agent");
                if matches!(ending.reason, EndReason::AgentExited | EndReason::StartFailed) {
                    self.process = None;
                }
                if matches!(ending.reason, EndReason::AgentExited | EndReason::Unresponsive) {
                    (self.deaths, self.died) = (self.deaths + 1, true);
                }
                (self.retrying, self.failed_starts) = (false, 0);
                self.open_tools.clear();
                self.killed_by_user |= ending.reason == EndReason::User;
                self.paused = false;
                self.held.clear();
                self.waiting.clear();
                self.status = Some(ending.status);
                3
            }
            Event::Prompt(PromptEvent::Accepted { prompt, frame, key, .. }) => {
                let (frame, keyed) = (frame.clone(), key.is_some());
                let new = Prompt {
                    life: Life::Waiting,
                    frame,
                    content: seq,
                    keyed,
                    cancels: 0,
                    requeues: 0,
                };
                assert!(
                    self.prompts.insert(prompt.clone(), new).is_none(),
                    "{prompt} accepted twice"
                );
                4
            }
            Event::Prompt(PromptEvent::Updated { prompt, frame, .. }) => {
                self.turn_to(prompt, &[Life::Waiting], Life::Waiting);
                let known = self.prompts.get_mut(prompt).unwrap();
                (known.frame, known.content) = (frame.clone(), seq);
                5
            }
            Event::Prompt(PromptEvent::Moved { prompt, .. }) => {
                self.turn_to(prompt, &[Life::Waiting], Life::Waiting);
                6
            }
            Event::Prompt(PromptEvent::TurnStarted { prompt, content }) => {
                assert!(self.running() == 0 || self.may_overlap, "two turns at once");
                assert!(!self.paused || self.may_overlap, "a turn begins while the agent is held");
                self.turn_to(prompt, &[Life::Waiting], Life::Running);
                assert_eq!(self.prompts[prompt].content, *content);
                7
            }
            Event::Prompt(PromptEvent::CancelRequested { prompt, .. }) => {
                self.turn_to(prompt, &[Life::Running], Life::Running);
                let known = self.prompts.get_mut(prompt).unwrap();
                known.cancels += 1;
                assert_eq!(known.cancels, 1, "the agent is told once");
                8
            }
            Event::Prompt(PromptEvent::Ended { prompt, end, .. }) => {
                if matches!(end, PromptEnd::Answered { .. }) {
                    self.deaths = 0;
                }
                self.check_tools(
                    prompt,
                    matches!(end, PromptEnd::Answered { .. } | PromptEnd::Failed { .. }),
                );
                self.turn_to(prompt, &[Life::Waiting, Life::Running], Life::Ended);
                9
            }
            Event::Prompt(PromptEvent::Requeued { prompt }) => {
                self.check_tools(prompt, false);
                self.turn_to(prompt, &[Life::Running], Life::Waiting);
                let known = self.prompts.get_mut(prompt).unwrap();
                (known.requeues, known.cancels) = (known.requeues + 1, 0);
                assert_eq!(known.requeues, 1, "{prompt} is put back without end");
                10
            }
            Event::Agent(AgentEvent::Updated { tool, .. }) => {
                self.note_tool(tool.as_ref());
                11
            }
            Event::Ask(AskEvent::Opened(ask)) => {
                assert_eq!(ask.id, AskId::from(seq));
                assert_eq!(self.status, Some(Status::Running));
                assert!(self.asks.insert(ask.id, false).is_none());
                12
            }
            Event::Ask(AskEvent::Resolved { ask, .. }) => {
                assert_eq!(
                    self.asks.insert(*ask, true),
                    Some(false),
                    "ask {ask} resolved twice or never opened"
                );
                13
            }
            Event::Agent(AgentEvent::Faulted { .. }) => 14,
            Event::Storage(StorageEvent::Snapshot(_)) => 15,
            Event::Storage(StorageEvent::Paused { .. }) => {
                assert!(
                    self.status.is_some_and(Status::is_alive) && !self.paused,
                    "nobody is to be held"
                );
                self.paused = true;
                16
            }
            Event::Storage(StorageEvent::Continued) => {
                assert!(self.paused, "nobody is held");
                self.paused = false;
                17
            }
            Event::Agent(AgentEvent::StartFailed { start, .. }) => {
                assert_eq!((self.status, self.last_start), (Some(Status::Starting), *start));
                self.failed_starts += 1;
                // There is one more start if an agent that has forgotten its session is started
                // with a new one.
                assert!(!self.retrying && self.failed_starts <= 4, "a start is tried without end");
                self.retrying = true;
                self.process = None;
                18
            }
            Event::Agent(AgentEvent::SettingsChanged { .. }) => 19,
            Event::Session(SessionEvent::Renamed { .. }) => 20,
            Event::Session(SessionEvent::Labelled { .. }) => 21,
            Event::Session(SessionEvent::Archived { archived, by }) => {
                assert!(*archived != self.archived, "archived twice, or taken out of no archive");
                assert!(
                    by.is_some() || self.asks.get(&AskId(seq.0 - 1)) == Some(&false),
                    "left the archive for nothing"
                );
                self.archived = *archived;
                22
            }
            Event::Unknown { .. } | Event::Lost(_) => panic!("the session made up an event"),
        };
        self.tally[kind] += 1;
    }

    fn note_tool(&mut self, tool: Option<&ToolCall>) {
        let Some(ToolCall { id, state }) = tool else { return };
        let (open, running) = (self.open_tools.contains(id), self.running() > 0);
        match state {
            ToolCallState::Open => drop(self.open_tools.insert(id.clone())),
            ToolCallState::Closed => drop(self.open_tools.remove(id)),
            ToolCallState::Cut => {
                assert!(open && running, "a tool call is ended that was not open");
                self.open_tools.remove(id);
            }
        }
    }

    /// Checks that a turn that ends without the agent's answer leaves no tool call open.
    fn check_tools(&mut self, prompt: &PromptId, answered: bool) {
        if self.prompts[prompt].life != Life::Running {
            return;
        }
        assert!(answered || self.open_tools.is_empty(), "a tool call outlives its turn");
        if self.running() == 1 {
            self.open_tools.clear();
        }
    }

    fn check_effect(&mut self, effect: &Effect, step: &Step) {
        match effect {
            Effect::StartAgent { start, .. } => {
                assert_eq!(
                    self.process.replace(*start),
                    None,
                    "an agent is started beside another"
                );
                assert_eq!(*start, self.last_start);
            }
            Effect::StopAgent { start } => {
                // A start that a kill preceded may be stopped once more when it reports.
                assert!(self.process.take().is_none_or(|process| process == *start));
            }
            Effect::SendPrompt { prompt, frame } => {
                self.assert_agent_listens();
                let known = &self.prompts[prompt];
                assert_eq!((known.life, &known.frame), (Life::Running, frame));
                assert!(!self.held.contains(prompt), "{prompt} sent twice");
                self.held.push(prompt.clone());
            }
            Effect::SendCancel => {
                self.assert_agent_listens();
                assert!(step.events.iter().any(|event| matches!(
                    event,
                    Event::Prompt(PromptEvent::CancelRequested { .. })
                )));
            }
            Effect::AnswerAsk { agent_request, .. } => {
                self.assert_agent_listens();
                let place = self.waiting.iter().position(|waiting| waiting == agent_request);
                self.waiting.remove(
                    place.unwrap_or_else(|| panic!("request {agent_request:?} answered twice")),
                );
            }
            Effect::AnnouncePresence { .. } => {}
        }
    }

    fn assert_agent_listens(&self) {
        assert_eq!(
            self.status,
            Some(Status::Running),
            "the agent is told something while it does not run"
        );
        assert_eq!(self.process, Some(self.last_start));
    }

    /// Compares the session's state with the model after a step.
    pub(super) fn check_state(&self, session: &Session, settings: &Settings) {
        let state = session.state();
        assert_eq!(Some(state.status), self.status);
        assert_eq!(
            state.status.is_alive(),
            self.process.is_some() || self.retrying,
            "an agent is forgotten or made up"
        );
        if self.died && self.deaths >= 3 {
            assert!(state.queue.is_empty(), "a third death leaves prompts waiting");
        } else if self.died && !state.queue.is_empty() {
            assert_eq!(
                state.status,
                Status::Starting,
                "prompts wait for an agent that nobody starts"
            );
        }
        let turns = state.turns.iter().map(|turn| &turn.prompt);
        assert!(turns.eq(&self.held), "the agent holds {:?}", self.held);
        let mut open: Vec<_> = state.asks.values().map(|ask| ask.agent_request.clone()).collect();
        open.sort_by(|a, b| a.bytes().cmp(b.bytes()));
        assert_eq!(open, self.waiting, "an ask has no answer, or one too many");
        assert!(open.len() <= settings.max_asks);
        let outlived = |prompt: &PromptId| state.running(prompt).is_none_or(|turn| turn.cancel);
        let dangling = state.asks.values().find(|ask| ask.prompt.as_ref().is_some_and(outlived));
        assert_eq!(dangling, None, "an ask is open without its turn, or although that is to end");

        let stalls =
            state.status == Status::Running && state.turns.is_empty() && !state.queue.is_empty();
        assert!(!stalls || self.paused, "prompts wait for nothing");
        assert_eq!(state.paused.is_some(), self.paused);
        let stranded = !state.status.is_alive() && !state.queue.is_empty() && !state.resumable();
        assert!(!stranded, "prompts wait for an agent that cannot come back");
        self.check_attention(state);
        let (deadline, running) = (session.deadline(), state.status == Status::Running);
        assert!(
            running || self.retrying || deadline.is_none(),
            "a deadline for an agent that does not run"
        );
        assert!(
            !self.retrying || deadline.is_some() || self.paused,
            "a start is never tried again"
        );
        let cancelled =
            settings.cancel_timeout.is_some() && state.turns.iter().any(|turn| turn.cancel);
        assert!(
            !cancelled || deadline.is_some() || self.paused,
            "a cancelled turn could take forever"
        );
    }

    /// Checks the facts of the session's attention against the model.
    fn check_attention(&self, state: &State) {
        let facts = state.attention_facts();
        let open: Vec<_> = self
            .asks
            .iter()
            .filter(|(_, resolved)| !**resolved)
            .map(|(ask, _)| *ask)
            .collect();
        assert_eq!(facts.asks, open.len());
        assert_eq!(facts.first_ask.map(|ask| ask.seq.0), open.first().map(|ask| ask.0));
        assert!(facts.first_ask.is_none_or(|ask| ask.at.is_some()), "an open ask has no time");
        let waits = self.prompts.values().any(|prompt| prompt.life == Life::Waiting);
        let works = self.running() > 0 || waits || self.status == Some(Status::Starting);
        assert_eq!(facts.work.is_some(), works, "{:?}", facts.work);
        let Some(raised) = facts.raised else { return };
        assert!(raised.is_failure || (!waits && self.running() == 0), "finished with work to do");
        assert!(self.paused || self.running() == 0, "an outcome is told during the next turn");
        assert!(!self.archived || self.paused, "an archived session is told of");
        assert!(!self.killed_by_user || state.status.is_alive(), "a killed session is told of");
        assert!(raised.seq <= state.head && raised.seq > Seq::ZERO);
    }

    /// Checks the model after the session was killed.
    pub(super) fn check_end(&self) {
        assert!(
            self.prompts.values().all(|prompt| prompt.life == Life::Ended),
            "a prompt has no end"
        );
        assert!(self.asks.values().all(|resolved| *resolved), "an ask has no end");
        assert_eq!(self.process, None);
    }

    /// Models the death of the host, with which the agent dies.
    pub(super) fn lose_host(&mut self) {
        self.process = None;
        self.held.clear();
        self.waiting.clear();
    }

    /// Returns the ids that the session does not accept for a new prompt.
    pub(super) fn guarded_prompts(&self) -> Vec<PromptId> {
        let guarded = self
            .prompts
            .iter()
            .filter(|(_, prompt)| prompt.keyed || prompt.life != Life::Ended);
        guarded.map(|(prompt, _)| prompt.clone()).collect()
    }
}
