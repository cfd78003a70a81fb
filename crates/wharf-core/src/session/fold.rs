//! Applies events to the durable state. Never panics: a log with a damaged record folds as far as
//! it makes sense.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::keys::Keys;
use super::reported_cost::ReportedCost;
use super::reported_usage::SessionTokens;
use super::state::{Latest, Paused, QueuedPrompt, State, Turn};
use crate::codec::{SNAPSHOT_VERSION, Saved, SavedRef};
use crate::{
    AgentEvent, AgentTraits, AskEvent, AskId, EndReason, Ending, Event, Fault, Millis, Origin,
    PromptEnd, PromptEvent, PromptId, Raw, Seq, SessionEvent, SettingsLoss, StartKind, StartNo,
    Status, StorageEvent, ToolCall, ToolCallState, UpdateKind,
};

/// The number of settled asks that are remembered, to distinguish them from unknown ones. A late
/// answer comes within seconds, so this is ample.
const MAX_SETTLED: usize = 256;
/// The number of open tool calls of a turn that are tracked; no working agent has as many.
const MAX_OPEN_TOOLS: usize = 1_000;

impl State {
    /// Returns the state after the first entry of a restore: the first event or a snapshot.
    pub fn begin(seq: Seq, at: Millis, event: &Event) -> Option<Self> {
        match event {
            Event::Session(SessionEvent::Created(origin)) => {
                Some(Self::new(origin.clone(), seq, at))
            }
            Event::Storage(StorageEvent::Snapshot(saved)) => Self::from_saved(saved, seq),
            Event::Agent(_)
            | Event::Session(
                SessionEvent::Ended(_)
                | SessionEvent::Renamed { .. }
                | SessionEvent::Labelled { .. }
                | SessionEvent::Archived { .. },
            )
            | Event::Prompt(_)
            | Event::Ask(_)
            | Event::Storage(StorageEvent::Paused { .. } | StorageEvent::Continued)
            | Event::Unknown { .. }
            | Event::Lost(_) => None,
        }
    }

    pub(super) fn new(origin: Origin, seq: Seq, at: Millis) -> Self {
        Self {
            origin,
            status: Status::Starting,
            ending: None,
            created_at: at,
            started_at: at,
            ended_at: None,
            last_output_at: None,
            start: StartNo(0),
            agent_session: None,
            traits: AgentTraits::default(),
            answer: None,
            answer_at: Seq::ZERO,
            settings: None,
            settings_loss: SettingsLoss::None,
            queue: VecDeque::new(),
            turns: Vec::new(),
            paused: None,
            asks: BTreeMap::new(),
            asked_at: BTreeMap::new(),
            outcome: None,
            usage: SessionTokens::new(),
            cost: None,
            user_title: None,
            archived: false,
            latest: Latest::default(),
            head: seq,
            snapshot: None,
            keys: Keys::default(),
            settled: VecDeque::new(),
            open_tools: Vec::new(),
            how: None,
            answered: false,
            prompted: false,
            deaths: 0,
            failed_starts: 0,
            flooded: false,
            left_source: false,
        }
    }

    pub(super) fn from_saved(saved: &Raw, seq: Seq) -> Option<Self> {
        let Saved { state } = wharf_json::read_own(saved.bytes()).ok()?;
        Some(Self { head: seq, snapshot: Some(seq), ..state })
    }

    pub(super) fn to_saved(&self) -> Option<Raw> {
        let saved = SavedRef { v: SNAPSHOT_VERSION, state: self };
        serde_json::to_vec(&saved).ok().and_then(Raw::new)
    }

    /// Applies one event. This is the only place where durable state changes.
    pub fn apply(&mut self, seq: Seq, at: Millis, event: &Event) {
        self.head = seq;
        match event {
            Event::Session(event) => self.apply_session_event(seq, at, event),
            Event::Unknown { .. } => {}
            Event::Lost(lost) => {
                self.settings_loss = self.settings_loss.and(lost.settings);
                self.turns.iter_mut().for_each(|turn| turn.may_have_ended = true);
            }
            Event::Agent(event) => self.apply_agent_event(seq, at, event),
            Event::Prompt(event) => self.apply_prompt_event(seq, at, event),
            Event::Ask(AskEvent::Opened(ask)) => {
                self.last_output_at = Some(at);
                self.asks.insert(ask.id, ask.clone());
                self.asked_at.insert(ask.id, at);
            }
            Event::Ask(AskEvent::Resolved { ask, .. }) => self.apply_resolved(*ask),
            Event::Storage(StorageEvent::Paused { why }) => {
                self.paused = Some(Paused { why: *why, since: at, seq })
            }
            Event::Storage(StorageEvent::Continued) => self.apply_continued(at),
            Event::Storage(StorageEvent::Snapshot(_)) => self.snapshot = Some(seq),
        }
    }

    fn apply_session_event(&mut self, seq: Seq, at: Millis, event: &SessionEvent) {
        match event {
            // A second creation is damage and is ignored.
            SessionEvent::Created(_) => {}
            SessionEvent::Ended(ending) => self.apply_ended(seq, at, ending),
            SessionEvent::Renamed { title, .. } => self.user_title.clone_from(title),
            SessionEvent::Labelled { label, .. } => self.origin.label.clone_from(label),
            SessionEvent::Archived { archived, .. } => self.archived = *archived,
        }
    }

    fn apply_agent_event(&mut self, seq: Seq, at: Millis, event: &AgentEvent) {
        match event {
            AgentEvent::Updated { update, frame, title, tool } => {
                if tool.as_ref().is_none_or(|tool| tool.state != ToolCallState::Cut) {
                    self.last_output_at = Some(at);
                }
                if let Some(tool) = tool {
                    self.apply_tool(tool);
                }
                self.usage.add_update(*update, frame);
                if *update == UpdateKind::UsageUpdate
                    && let Some(cost) = ReportedCost::from_frame(frame)
                {
                    self.cost = Some(cost);
                }
                if update.is_state() {
                    self.latest.apply(*update, seq, frame, title.as_ref());
                }
            }
            AgentEvent::Starting { start, how } => {
                self.note_missing_starts(start.0.saturating_sub(1));
                self.status = Status::Starting;
                self.start = *start;
                self.started_at = at;
                (self.ending, self.ended_at) = (None, None);
                self.flooded = false;
                self.how = Some(*how);
                // A new session of the agent remembers nothing.
                self.answered &= *how != StartKind::New;
                // A first start of a kind other than `New` takes over an existing conversation.
                self.prompted |= *how != StartKind::New && start.0 <= 1;
                self.left_source |= *how == StartKind::New && self.origin.forked_from.is_some();
            }
            AgentEvent::Started { start, agent_session, traits, answer } => {
                self.note_missing_starts(start.0);
                self.status = Status::Running;
                self.start = *start;
                self.agent_session = Some(agent_session.clone());
                self.traits = *traits;
                self.usage.begin_process(
                    &self.origin.adapter,
                    traits.usage,
                    self.how.unwrap_or(StartKind::New),
                );
                (self.answer, self.answer_at) = (Some(answer.clone()), seq);
                self.failed_starts = 0;
                self.note_started_outcome();
            }
            AgentEvent::StartFailed { .. } => {
                self.failed_starts = self.failed_starts.saturating_add(1)
            }
            AgentEvent::SettingsChanged { settings, are_all } => {
                self.settings = Some(settings.clone());
                if *are_all {
                    self.settings_loss = SettingsLoss::None;
                }
            }
            AgentEvent::Faulted { fault, .. } => self.flooded |= *fault == Fault::TooManyAsks,
        }
    }

    /// Starts are numbered without gaps: if the last known one is older than it should be, events
    /// are missing.
    fn note_missing_starts(&mut self, expected: u64) {
        if expected > self.start.0 {
            self.settings_loss = self.settings_loss.and(SettingsLoss::Possible);
        }
    }

    fn apply_prompt_event(&mut self, seq: Seq, at: Millis, event: &PromptEvent) {
        match event {
            PromptEvent::Accepted { prompt, sender, frame, key, first } => {
                self.prompted = true;
                if let Some(key) = key {
                    self.keys.add(key.clone(), prompt.clone(), sender, frame);
                }
                let prompt = prompt.clone();
                let sender = sender.clone();
                let frame = frame.clone();
                let key = key.clone();
                let content = seq;
                let accepted_at = at;
                let requeued = false;
                let edited_by = None;
                let queued = QueuedPrompt {
                    prompt,
                    sender,
                    frame,
                    content,
                    key,
                    accepted_at,
                    requeued,
                    edited_by,
                };
                self.queue.insert(if *first { 0 } else { self.queue.len() }, queued);
            }
            PromptEvent::Updated { prompt, frame, by, .. } => {
                if let Some(queued) = self.queue.iter_mut().find(|queued| queued.prompt == *prompt)
                {
                    queued.frame = frame.clone();
                    queued.edited_by = Some(by.clone());
                    queued.content = seq;
                }
            }
            PromptEvent::Moved { prompt, position, .. } => {
                if let Some(queued) = self.unqueue(prompt) {
                    self.queue.insert((*position).min(self.queue.len()), queued);
                }
            }
            PromptEvent::TurnStarted { prompt, .. } => {
                if let Some(queued) = self.unqueue(prompt) {
                    self.note_turn_started();
                    let QueuedPrompt {
                        prompt,
                        sender,
                        frame,
                        content,
                        key,
                        accepted_at,
                        requeued,
                        ..
                    } = queued;
                    let started_seq = seq;
                    let started_at = at;
                    let cancel = false;
                    let limit = None;
                    let held_for = Millis(0);
                    self.turns.push(Turn {
                        prompt,
                        sender,
                        frame,
                        content,
                        key,
                        accepted_at,
                        started_seq,
                        started_at,
                        cancel,
                        limit,
                        held_for,
                        requeued,
                        may_have_ended: false,
                    });
                }
            }
            PromptEvent::CancelRequested { prompt, limit, .. } => {
                if let Some(turn) = self.turns.iter_mut().find(|turn| turn.prompt == *prompt) {
                    (turn.cancel, turn.limit) = (true, *limit);
                }
            }
            PromptEvent::Ended { prompt, end, .. } => self.apply_prompt_ended(seq, at, prompt, end),
            PromptEvent::Requeued { prompt } => {
                // The cut-off turn has no outcome: the prompt gets another turn.
                if let Some(Turn { prompt, sender, frame, content, key, accepted_at, .. }) =
                    self.untrack(prompt)
                {
                    self.usage.end_turn(None);
                    let requeued = true;
                    let edited_by = None;
                    self.queue.push_front(QueuedPrompt {
                        prompt,
                        sender,
                        frame,
                        content,
                        key,
                        accepted_at,
                        requeued,
                        edited_by,
                    });
                }
            }
        }
    }

    fn apply_prompt_ended(&mut self, seq: Seq, at: Millis, prompt: &PromptId, end: &PromptEnd) {
        let said = matches!(end, PromptEnd::Answered { .. } | PromptEnd::Failed { .. });
        if said {
            self.last_output_at = Some(at);
        }
        if let PromptEnd::Answered { .. } = end {
            (self.answered, self.deaths) = (true, 0);
        }
        self.keys.end(prompt, end);
        let turn = self.untrack(prompt);
        if let PromptEnd::Answered { frame, .. } = end {
            self.usage.end_turn(Some(frame));
        } else if turn.is_some() {
            self.usage.end_turn(None);
        }
        self.note_prompt_outcome(seq, at, end, turn.as_ref());
        if turn.is_none() {
            self.unqueue(prompt);
        } else if said && self.turns.is_empty() {
            // The agent itself ends tool calls that its answer leaves open.
            self.open_tools.clear();
        }
    }

    fn apply_tool(&mut self, tool: &ToolCall) {
        let known = self.open_tools.iter().position(|open| *open == tool.id);
        match (tool.state, known) {
            (ToolCallState::Open, None) if self.open_tools.len() < MAX_OPEN_TOOLS => {
                self.open_tools.push(tool.id.clone());
            }
            (ToolCallState::Closed | ToolCallState::Cut, Some(place)) => {
                self.open_tools.remove(place);
            }
            (ToolCallState::Open | ToolCallState::Closed | ToolCallState::Cut, _) => {}
        }
    }

    fn apply_ended(&mut self, seq: Seq, at: Millis, ending: &Ending) {
        self.note_ending_outcome(seq, at, ending);
        if matches!(ending.reason, EndReason::AgentExited | EndReason::StartFailed) {
            self.last_output_at = Some(at);
        }
        if matches!(ending.reason, EndReason::AgentExited | EndReason::Unresponsive) {
            self.deaths = self.deaths.saturating_add(1);
        }
        self.failed_starts = 0;
        self.open_tools.clear();
        // The session has no agent left to pause.
        self.paused = None;
        self.status = ending.status;
        self.ending = Some(ending.clone());
        self.ended_at = Some(at);
    }

    fn apply_continued(&mut self, at: Millis) {
        let Some(Paused { since, .. }) = self.paused.take() else { return };
        for turn in &mut self.turns {
            let held = Millis(at.0.saturating_sub(since.max(turn.started_at).0));
            turn.held_for = turn.held_for.after(held);
        }
    }

    fn apply_resolved(&mut self, ask: AskId) {
        self.asks.remove(&ask);
        self.asked_at.remove(&ask);
        if self.settled.len() >= MAX_SETTLED {
            self.settled.pop_front();
        }
        self.settled.push_back(ask);
    }

    fn unqueue(&mut self, prompt: &PromptId) -> Option<QueuedPrompt> {
        let place = self.position(prompt)?;
        self.queue.remove(place)
    }

    fn untrack(&mut self, prompt: &PromptId) -> Option<Turn> {
        let place = self.turns.iter().position(|turn| turn.prompt == *prompt)?;
        Some(self.turns.remove(place))
    }
}

impl Latest {
    fn apply(&mut self, update: UpdateKind, seq: Seq, frame: &Raw, title: Option<&Arc<str>>) {
        match update {
            UpdateKind::AvailableCommandsUpdate => self.commands = Some(frame.detached()),
            UpdateKind::CurrentModeUpdate => {
                (self.mode, self.mode_at) = (Some(frame.detached()), seq)
            }
            UpdateKind::ConfigOptionUpdate => {
                (self.config, self.config_at) = (Some(frame.detached()), seq)
            }
            UpdateKind::UsageUpdate => self.usage = Some(frame.detached()),
            UpdateKind::SessionInfoUpdate => {
                if title.is_some() || self.info.is_none() {
                    self.info = Some(frame.detached());
                }
                if let Some(title) = title {
                    self.title = Some(title.clone());
                }
            }
            UpdateKind::UserMessageChunk
            | UpdateKind::AgentMessageChunk
            | UpdateKind::AgentThoughtChunk
            | UpdateKind::ToolCall
            | UpdateKind::ToolCallUpdate
            | UpdateKind::Plan
            | UpdateKind::Other => {}
        }
    }
}
