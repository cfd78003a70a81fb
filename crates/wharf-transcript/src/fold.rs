//! The fold: takes the events of a log in their order and keeps the rows (rule 13.2).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wharf_acp::AgentUpdate;
use wharf_api::{RowBody, TranscriptRow};
use wharf_core::{
    AgentEvent, AskEvent, Epoch, Event, EventId, FailureText, Millis, PromptEvent, Seq,
    SessionEvent, StorageEvent,
};
use wharf_json::ReadError;

use crate::asks::PendingAsk;
use crate::loss_digest::LossDigest;
use crate::messages::{TextKind, TextRun};
use crate::notices::SettingValues;
use crate::prompts::WaitingPrompt;
use crate::row_size::fit_row;
use crate::text_rules::{Secrets, TextRules};
use crate::tool_streams::OpenToolTexts;
use crate::turns::OpenTurn;
use crate::usage::{ReportedUsage, TokenCounter};
use crate::{
    RowKey, RowNumber, RowStore, asks, format_timestamp, messages, notices, plans, prompts, tools,
    turn_end, turns, usage,
};

/// The state between two events: all that the rows of later events depend on, besides the rows
/// themselves. It is small, so that it can be stored as a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fold {
    /// The epoch and seq of the last event.
    position: Option<(u64, u64)>,
    rows: u64,
    pub(crate) texts: TextRules,
    pub(crate) agent: AgentFacts,
    /// The message or thought that the next chunk may continue.
    pub(crate) run: Option<TextRun>,
    /// The accepted prompts whose turn has not begun, by their ids.
    pub(crate) waiting: BTreeMap<String, WaitingPrompt>,
    /// The running turns in the order of their start: as many as the core has.
    pub(crate) turns: Vec<OpenTurn>,
    /// The open asks by their ids.
    pub(crate) asks: BTreeMap<u64, PendingAsk>,
    /// The newest plan.
    pub(crate) plan: Option<RowNumber>,
    /// The end of the newest turn that has ended.
    pub(crate) last_end: Option<RowNumber>,
    /// The ends of turns that may still learn the reason of their failure.
    pub(crate) unexplained_ends: Vec<RowNumber>,
    pub(crate) settings: SettingValues,
    pub(crate) usage: ReportedUsage,
    /// The tokens that the agent reports.
    pub(crate) tokens: TokenCounter,
    /// The texts of tool calls that come piece by piece.
    pub(crate) tool_texts: OpenToolTexts,
    /// The background work that the agent reported last.
    pub(crate) background: u64,
    /// The lost events among those that were folded.
    #[serde(default, skip_serializing_if = "LossDigest::is_empty")]
    losses: LossDigest,
}

/// Facts about the session and its present agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AgentFacts {
    /// The number of the agent's start.
    pub(crate) start: u64,
    /// True if the agent can be brought back.
    pub(crate) can_return: bool,
    /// True if the agent has sent an update that only ACP v2 has.
    pub(crate) speaks_v2: bool,
    /// True if the session began as a copy of another one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_fork: bool,
}

/// A change of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowChange {
    /// The row is new or has changed; `from` is its revision before, 0 if it is new.
    Row { number: RowNumber, from: u64 },
    /// A text part of the row has grown at its end; that of a part that is cut is its tail.
    Append { number: RowNumber, from: u64, part: usize, text: String, is_tail: bool },
}

impl RowChange {
    pub const fn number(&self) -> RowNumber {
        match self {
            Self::Row { number, .. } | Self::Append { number, .. } => *number,
        }
    }
}

impl Fold {
    pub fn new(secrets: Secrets) -> Self {
        Self { texts: TextRules::new(secrets), ..Self::default() }
    }

    /// Takes the next event. Changes of rows are added to `changes`, at most one for each row.
    pub fn apply(
        &mut self,
        id: EventId,
        at: Millis,
        event: &Event,
        rows: &mut impl RowStore,
        changes: &mut Vec<RowChange>,
    ) {
        self.position = Some((id.epoch.0, id.seq.0));
        let first_change = changes.len();
        let step = &mut FoldStep { fold: self, rows, changes, first_change, id, at, created: 0 };
        match event {
            Event::Session(event) => apply_session(step, event),
            Event::Agent(event) => apply_agent(step, event),
            Event::Prompt(event) => apply_prompt(step, event),
            Event::Ask(AskEvent::Opened(ask)) => asks::open_ask(step, ask),
            Event::Ask(AskEvent::Resolved { ask, outcome, by }) => {
                asks::resolve_ask(step, *ask, outcome, by.as_ref())
            }
            Event::Storage(StorageEvent::Paused { why }) => notices::storage_paused(step, *why),
            Event::Storage(StorageEvent::Continued) => notices::storage_continued(step),
            Event::Lost(lost) => {
                step.fold.losses.add(lost.first, id.seq);
                notices::events_lost(step, lost);
            }
            Event::Storage(StorageEvent::Snapshot(_)) | Event::Unknown { .. } => {}
        }
    }

    /// Returns the id of the last event, `None` before the first one.
    pub fn position(&self) -> Option<EventId> {
        self.position.map(|(epoch, seq)| EventId { epoch: Epoch(epoch), seq: Seq(seq) })
    }

    pub const fn row_count(&self) -> u64 {
        self.rows
    }

    /// Returns the lost events among those that were folded. If the log has lost others, the rows
    /// are no longer its rows.
    pub const fn losses(&self) -> LossDigest {
        self.losses
    }

    /// Returns the rows of the open asks, the oldest first.
    pub fn open_asks(&self) -> Vec<RowNumber> {
        self.asks.values().map(|ask| ask.row).collect()
    }

    /// Returns the row of the newest plan.
    pub const fn plan(&self) -> Option<RowNumber> {
        self.plan
    }
}

fn apply_session(step: &mut FoldStep<'_, impl RowStore>, event: &SessionEvent) {
    match event {
        SessionEvent::Created(origin) => {
            step.fold.texts.cwd = origin.cwd.to_string();
            step.fold.tokens.adapter = origin.adapter.to_string();
            if let Some(source) = &origin.forked_from {
                step.fold.agent.is_fork = true;
                notices::forked(step, source);
            }
        }
        SessionEvent::Ended(ending) => {
            turns::note_agent_end(step, ending.reason);
            notices::session_ended(step, ending);
        }
        // The name, labels and archiving of a session do not belong to its conversation.
        SessionEvent::Renamed { .. }
        | SessionEvent::Labelled { .. }
        | SessionEvent::Archived { .. } => {}
    }
}

fn apply_agent(step: &mut FoldStep<'_, impl RowStore>, event: &AgentEvent) {
    match event {
        AgentEvent::Starting { how, .. } => step.fold.tokens.how = Some(*how),
        AgentEvent::Started { start, traits, .. } => {
            turns::note_agent_start(step);
            step.fold.tokens.begin_process(traits.usage);
            step.fold.agent.start = start.0;
            step.fold.agent.can_return = traits.way_back().is_some();
            notices::agent_started(step);
        }
        AgentEvent::StartFailed { message, retry_in, .. } => {
            notices::start_failed(step, message.as_deref(), *retry_in);
        }
        AgentEvent::Updated { update, frame, tool, .. } => {
            step.fold.tokens.add_update(*update, frame);
            let applied = AgentUpdate::open(*update, frame.as_str())
                .and_then(|opened| apply_update(step, opened, tool.as_ref()));
            if let Err(error) = applied {
                notices::unreadable(step, &error);
            }
        }
        AgentEvent::SettingsChanged { settings, .. } => notices::settings_changed(step, settings),
        AgentEvent::Faulted { fault, detail } => notices::protocol_fault(step, *fault, detail),
    }
}

fn apply_update(
    step: &mut FoldStep<'_, impl RowStore>,
    update: AgentUpdate<'_>,
    tool: Option<&wharf_core::ToolCall>,
) -> Result<(), ReadError> {
    step.fold.agent.speaks_v2 |= update.is_v2();
    match update {
        AgentUpdate::UserMessageChunk(chunk) => prompts::user_chunk(step, chunk.close()),
        AgentUpdate::AgentMessageChunk(chunk) => {
            messages::append_chunk(step, TextKind::Message, chunk)
        }
        AgentUpdate::AgentThoughtChunk(chunk) => {
            messages::append_chunk(step, TextKind::Thought, chunk)
        }
        AgentUpdate::ToolCall(call) => tools::tool_call(step, call.close(), tool),
        AgentUpdate::ToolCallUpdate(call) => tools::tool_call_update(step, call.close(), tool),
        AgentUpdate::Plan(plan) => plans::set_plan(step, plan.close()),
        AgentUpdate::Usage(usage) => usage::session_usage(step, usage.close()),
        AgentUpdate::AvailableCommands(_)
        | AgentUpdate::CurrentMode(_)
        | AgentUpdate::ConfigOptions(_)
        | AgentUpdate::SessionInfo(_) => Ok(()),
        AgentUpdate::AgentMessage(message) => {
            messages::replace_message(step, TextKind::Message, message.close())
        }
        AgentUpdate::AgentThought(thought) => {
            messages::replace_message(step, TextKind::Thought, thought.close())
        }
        AgentUpdate::UserMessage(message) => prompts::user_message(step, message.close()),
        AgentUpdate::State(state) => turns::state_update(step, state.close()),
        AgentUpdate::ToolCallContentChunk(chunk) => tools::append_content(step, chunk.close()),
        AgentUpdate::PlanUpdate(plan) => plans::update_plan(step, plan.close()),
        AgentUpdate::PlanRemoved(_) => {
            // Its row stays, but it is no longer the plan of the session.
            step.fold.plan = None;
            Ok(())
        }
        AgentUpdate::Subagent(subagent) => tools::subagent_update(step, subagent.close()),
        AgentUpdate::Notice(notice) => notices::agent_notice(step, notice.close()),
        AgentUpdate::Compaction(compaction) => notices::compaction(step, compaction.close()),
        AgentUpdate::CompactionSummaryChunk(payload)
        | AgentUpdate::SessionMessage(payload)
        | AgentUpdate::SessionMessageChunk(payload)
        | AgentUpdate::Unknown(payload) => {
            notices::other_update(step, &payload.tag()?.unwrap_or_default());
            Ok(())
        }
    }
}

fn apply_prompt(step: &mut FoldStep<'_, impl RowStore>, event: &PromptEvent) {
    match event {
        PromptEvent::Accepted { prompt, sender, frame, .. } => {
            prompts::accept(step, prompt, sender, frame)
        }
        PromptEvent::Updated { prompt, by, frame, .. } => prompts::edit(step, prompt, by, frame),
        PromptEvent::Moved { .. } => {}
        PromptEvent::TurnStarted { prompt, .. } => turns::begin_turn(step, prompt),
        PromptEvent::CancelRequested { prompt, limit, .. } => {
            turns::note_cancel(step, prompt, *limit)
        }
        PromptEvent::Ended { prompt, end, failure } => {
            turns::end_prompt(step, prompt, end);
            if let Some(failure) = failure {
                turn_end::note_failure(step, FailureText::parse(failure));
            }
        }
        PromptEvent::Requeued { prompt } => turns::requeue(step, prompt),
    }
}

/// One event on its way into the rows.
pub(crate) struct FoldStep<'a, S> {
    pub(crate) fold: &'a mut Fold,
    pub(crate) rows: &'a mut S,
    changes: &'a mut Vec<RowChange>,
    first_change: usize,
    pub(crate) id: EventId,
    pub(crate) at: Millis,
    /// The rows that this event has created.
    created: u32,
}

impl<S: RowStore> FoldStep<'_, S> {
    /// Returns the time of the event as text.
    pub(crate) fn time(&self) -> String {
        format_timestamp(self.at)
    }

    /// Adds a row at the end of the transcript, to the newest turn.
    pub(crate) fn create(&mut self, body: RowBody, summary: String, open: bool) -> RowNumber {
        let turn = self.fold.newest_turn().and_then(OpenTurn::shown_id);
        self.create_in_turn(body, summary, open, turn)
    }

    /// Adds a row of a turn at the end of the transcript.
    pub(crate) fn create_in_turn(
        &mut self,
        body: RowBody,
        summary: String,
        open: bool,
        turn: Option<String>,
    ) -> RowNumber {
        self.created += 1;
        let id = match self.created {
            1 => self.id.to_string(),
            n => format!("{}.{n}", self.id),
        };
        self.fold.rows += 1;
        let number = RowNumber(self.fold.rows);
        let at = self.time();
        self.rows.set_key(RowKey::Id(id.clone()), number);
        let mut row = TranscriptRow {
            id,
            rev: self.id.seq.0,
            changed_at: at.clone(),
            at,
            turn,
            parent: None,
            open,
            summary,
            body,
        };
        let whole_texts = fit_row(&mut row);
        self.rows.push(number, row);
        self.keep_texts(number, whole_texts);
        self.changes.push(RowChange::Row { number, from: 0 });
        number
    }

    /// Changes a row, and its revision with it. Returns false if there is no such row.
    pub(crate) fn change(
        &mut self,
        number: RowNumber,
        with: impl FnOnce(&mut TranscriptRow),
    ) -> bool {
        let seq = self.id.seq.0;
        let at = self.at;
        let Some(row) = self.rows.row_mut(number) else { return false };
        let from = row.rev;
        with(row);
        touch(row, seq, at);
        let whole_texts = fit_row(row);
        self.keep_texts(number, whole_texts);
        self.note_change(number, from);
        true
    }

    /// Keeps the texts that a row had no room for.
    fn keep_texts(&mut self, number: RowNumber, whole_texts: Option<Vec<(String, String)>>) {
        for (part, text) in whole_texts.into_iter().flatten() {
            self.rows.set_whole_text(number, &part, &text);
        }
    }

    /// Notes that a row has changed as a whole in this event.
    fn note_change(&mut self, number: RowNumber, from: u64) {
        let noted = self.changes[self.first_change..]
            .iter_mut()
            .find(|change| change.number() == number);
        match noted {
            Some(RowChange::Row { .. }) => {}
            Some(append @ RowChange::Append { .. }) => {
                let RowChange::Append { from, .. } = *append else { return };
                *append = RowChange::Row { number, from };
            }
            None => self.changes.push(RowChange::Row { number, from }),
        }
    }

    /// Notes that the text of a row has grown, after `row_mut` has changed it.
    pub(crate) fn note_append(
        &mut self,
        number: RowNumber,
        part: usize,
        text: String,
        is_tail: bool,
    ) {
        let seq = self.id.seq.0;
        let at = self.at;
        let Some(row) = self.rows.row_mut(number) else { return };
        let from = row.rev;
        touch(row, seq, at);
        let whole_texts = fit_row(row);
        let is_changed = whole_texts.is_some();
        self.keep_texts(number, whole_texts);
        if is_changed
            || self.changes[self.first_change..].iter().any(|change| change.number() == number)
        {
            self.note_change(number, from);
        } else {
            self.changes.push(RowChange::Append { number, from, part, text, is_tail });
        }
    }
}

fn touch(row: &mut TranscriptRow, seq: u64, at: Millis) {
    row.rev = seq;
    let at = format_timestamp(at);
    if row.changed_at != at {
        row.changed_at = at;
    }
}
