//! Turns: the row of the prompt at their beginning and the row of their end.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use wharf_api::{FileChangeCount, RowBody, RowTurnEnd, ToolCount, ToolState, TurnOutcome, TurnSequel, UsageCost};
use wharf_core::{FailureText, Millis, PromptEnd, PromptId, Raw, Sender, TurnLimit};
use wharf_json::{Json, ReadError};

use crate::fold::FoldStep;
use crate::limits::{MAX_MESSAGE_BYTES, MAX_WORD_BYTES};
use crate::messages::end_run;
use crate::plain_text::{clean_line, summarise};
use crate::prompts::{self, WaitingPrompt};
use crate::text_filter::filter_text;
use crate::usage::read_turn_usage;
use crate::{RowKey, RowNumber, RowStore, notices, tools};

/// The running turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct OpenTurn {
    /// Empty for a turn that the agent began by itself.
    pub(crate) prompt_id: String,
    /// The row of its prompt; of a turn without a prompt the first row that follows.
    pub(crate) row: RowNumber,
    started_at: u64,
    /// The prompt again, if the turn is cut off and repeated.
    prompt: WaitingPrompt,
    /// The prompt's text, and the echo of it that has come; `None` once the echo differs.
    pub(crate) plain: String,
    pub(crate) echo: Option<String>,
    pub(crate) plan: Option<RowNumber>,
    pub(crate) tools: ToolCount,
    pub(crate) open_tools: BTreeSet<RowNumber>,
    pub(crate) files: Vec<FileChangeCount>,
    cancel: Option<CancelCause>,
    cost_before: Option<UsageCost>,
}

/// Why a turn was cancelled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum CancelCause {
    Client,
    Deadline,
    NoProgress,
}

/// The newest turn's end, which may still learn the reason of a failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LastEnd {
    pub(crate) row: RowNumber,
    pub(crate) lacks_reason: bool,
}

/// Begins the turn of a prompt.
pub(crate) fn begin_turn(step: &mut FoldStep<'_, impl RowStore>, prompt: &PromptId) {
    end_run(step);
    let waiting = step.fold.waiting.remove(prompt.as_str()).unwrap_or_default();
    step.fold.turn = Some(new_turn(step, prompt.to_string(), waiting.clone()));
    let row = prompts::create_row(step, &waiting);
    step.rows.set_key(RowKey::Turn { prompt: prompt.to_string() }, row);
    if let Some(turn) = &mut step.fold.turn {
        turn.row = row;
    }
}

fn new_turn(step: &FoldStep<'_, impl RowStore>, prompt_id: String, mut prompt: WaitingPrompt) -> OpenTurn {
    OpenTurn {
        prompt_id,
        row: RowNumber(step.fold.row_count() + 1),
        started_at: step.at.0,
        plain: std::mem::take(&mut prompt.plain),
        prompt,
        echo: Some(String::new()),
        plan: None,
        tools: ToolCount::default(),
        open_tools: BTreeSet::new(),
        files: Vec::new(),
        cancel: None,
        cost_before: step.fold.usage.cost.clone(),
    }
}

/// Notes who wanted the running turn to end.
pub(crate) fn note_cancel(
    step: &mut FoldStep<'_, impl RowStore>,
    prompt: &PromptId,
    by: Option<&Sender>,
    limit: Option<TurnLimit>,
) {
    let Some(turn) = step.fold.turn.as_mut().filter(|turn| turn.prompt_id == prompt.as_str()) else { return };
    turn.cancel = Some(match limit {
        Some(TurnLimit::Deadline) => CancelCause::Deadline,
        Some(TurnLimit::NoProgress) => CancelCause::NoProgress,
        None => CancelCause::Client,
    });
    let _ = by;
}

/// Ends a prompt: the running turn, or a prompt whose turn never began.
pub(crate) fn end_prompt(step: &mut FoldStep<'_, impl RowStore>, prompt: &PromptId, end: &PromptEnd) {
    let has_turn = step.fold.turn.as_ref().is_some_and(|turn| turn.prompt_id == prompt.as_str());
    if !has_turn {
        let Some(waiting) = step.fold.waiting.remove(prompt.as_str()) else { return };
        if matches!(end, PromptEnd::Removed { .. }) {
            return;
        }
        end_run(step);
        // Both rows belong to the prompt's turn, which is over with this event.
        let running = step.fold.turn.replace(new_turn(step, prompt.to_string(), waiting.clone()));
        let row = prompts::create_row(step, &waiting);
        step.rows.set_key(RowKey::Turn { prompt: prompt.to_string() }, row);
        create_end(step, end, None);
        step.fold.turn = running;
        return;
    }
    end_run(step);
    let started_at = step.fold.turn.as_ref().map(|turn| Millis(turn.started_at));
    create_end(step, end, started_at);
    step.fold.turn = None;
}

/// Ends a turn that a crash cut off, and puts its prompt back into the queue.
pub(crate) fn requeue(step: &mut FoldStep<'_, impl RowStore>, prompt: &PromptId) {
    if step.fold.turn.as_ref().is_none_or(|turn| turn.prompt_id != prompt.as_str()) {
        return;
    }
    end_run(step);
    let started_at = step.fold.turn.as_ref().map(|turn| Millis(turn.started_at));
    create_end_row(step, EndFacts::new("interrupted", TurnOutcome::CutOff), started_at, true);
    if let Some(mut turn) = step.fold.turn.take() {
        turn.prompt.content.again = true;
        turn.prompt.plain = turn.plain;
        step.fold.waiting.insert(prompt.to_string(), turn.prompt);
    }
}

/// The facts of an end that do not come from the turn itself.
struct EndFacts<'a> {
    reason: String,
    outcome: TurnOutcome,
    answer: Option<Json<'a>>,
    message: Option<String>,
    stderr: Option<String>,
}

impl EndFacts<'_> {
    fn new(reason: &str, outcome: TurnOutcome) -> Self {
        Self { reason: reason.to_owned(), outcome, answer: None, message: None, stderr: None }
    }
}

fn create_end(step: &mut FoldStep<'_, impl RowStore>, end: &PromptEnd, started_at: Option<Millis>) {
    let cancel = step.fold.turn.as_ref().and_then(|turn| turn.cancel.clone());
    let mut facts = match end {
        PromptEnd::Answered { stop_reason, frame } => EndFacts {
            answer: Json::parse(frame.bytes()).and_then(|answer| answer.member("result")).ok().flatten(),
            ..EndFacts::new(&clean_line(stop_reason, MAX_WORD_BYTES), outcome_of(stop_reason))
        },
        PromptEnd::Failed { frame } => failed_facts(frame),
        PromptEnd::Cancelled | PromptEnd::Removed { .. } => EndFacts::new("cancelled", TurnOutcome::Cancelled),
        PromptEnd::AgentExited => EndFacts::new("agent_exited", TurnOutcome::Failed),
        PromptEnd::StartFailed => EndFacts::new("start_failed", TurnOutcome::Failed),
        PromptEnd::SessionEnded => EndFacts::new("session_ended", TurnOutcome::CutOff),
        PromptEnd::HostShutdown => EndFacts::new("host_shutdown", TurnOutcome::CutOff),
        PromptEnd::HostRestarted => EndFacts::new("host_restarted", TurnOutcome::CutOff),
    };
    if facts.outcome == TurnOutcome::Cancelled {
        let limit = match cancel {
            Some(CancelCause::Deadline) => Some("the turn took longer than turn.deadline allows"),
            Some(CancelCause::NoProgress) => Some("the agent sent nothing for as long as turn.no_progress allows"),
            Some(CancelCause::Client) | None => None,
        };
        if let Some(limit) = limit {
            (facts.outcome, facts.message) = (TurnOutcome::Failed, Some(limit.to_owned()));
        }
    }
    create_end_row(step, facts, started_at, false);
}

/// Returns the outcome that a stop reason of ACP means. A word that Wharf does not know is an end of the agent's own choice.
fn outcome_of(stop_reason: &str) -> TurnOutcome {
    match stop_reason {
        "end_turn" => TurnOutcome::Done,
        "refusal" => TurnOutcome::Refused,
        "cancelled" => TurnOutcome::Cancelled,
        "error" => TurnOutcome::Failed,
        _ => TurnOutcome::Stopped,
    }
}

/// Reads the agent's error answer.
fn failed_facts(frame: &Raw) -> EndFacts<'_> {
    let error = Json::parse(frame.bytes()).and_then(|answer| answer.member("error")).ok().flatten();
    let text = |path: &[&str]| error.and_then(|error| error.text_at(path).ok().flatten());
    let said = text(&["message"]).map(|said| said.into_owned()).or_else(|| error.map(|error| error.to_string()));
    let details = text(&["data", "details"]).or_else(|| text(&["data"]));
    let stderr = text(&["data", "stderr"]);
    let message = match (said, details) {
        (Some(said), Some(details)) => format!("{said}: {details}"),
        (Some(said), None) => said,
        (None, details) => {
            details.map_or_else(|| "the agent answered with an error".to_owned(), |text| text.into_owned())
        }
    };
    EndFacts {
        message: Some(clean_message(&message)),
        stderr: stderr.map(|stderr| clean_message(&stderr)),
        ..EndFacts::new("error", TurnOutcome::Failed)
    }
}

/// Returns a text for a person, redacted; of a long one the end, where the reason stands.
fn clean_message(text: &str) -> String {
    let start = text.ceil_char_boundary(text.len().saturating_sub(MAX_MESSAGE_BYTES));
    filter_text(&text[start..])
}

fn create_end_row(
    step: &mut FoldStep<'_, impl RowStore>,
    facts: EndFacts<'_>,
    started_at: Option<Millis>,
    requeued: bool,
) {
    match facts.outcome {
        // In v2 the agent itself tells which work goes on.
        _ if step.fold.agent.speaks_v2 => {}
        TurnOutcome::Cancelled => tools::close_tools(step, &ToolState::Cancelled),
        TurnOutcome::Failed | TurnOutcome::CutOff => tools::close_tools(step, &ToolState::CutOff),
        TurnOutcome::Done | TurnOutcome::Stopped | TurnOutcome::Refused | TurnOutcome::Other(_) => {}
    }
    let Some(turn) = &step.fold.turn else { return };
    let duration_ms = started_at.map(|started| step.at.0.saturating_sub(started.0));
    let usage = read_turn_usage(facts.answer, turn.cost_before.as_ref(), step.fold.usage.cost.as_ref());
    let lacks_reason = facts.message.is_none() && matches!(facts.outcome, TurnOutcome::Failed | TurnOutcome::CutOff);
    let end = RowTurnEnd {
        reason: facts.reason,
        outcome: facts.outcome,
        duration_ms,
        usage,
        context: step.fold.usage.context.clone(),
        tools: turn.tools,
        files: turn.files.clone(),
        message: facts.message,
        stderr: facts.stderr,
        next: requeued.then_some(TurnSequel { requeued }),
        error: None,
    };
    let summary = summarise_end(&end);
    let row = step.create(RowBody::TurnEnd(Box::new(end)), summary, false);
    step.fold.last_end = Some(LastEnd { row, lacks_reason });
}

/// Returns the end in one line.
fn summarise_end(end: &RowTurnEnd) -> String {
    let reason = end.reason.replace('_', " ");
    let mut words = match end.outcome {
        TurnOutcome::Done => "Finished".to_owned(),
        TurnOutcome::Stopped => format!("Stopped ({reason})"),
        TurnOutcome::Refused => "Refused by the agent".to_owned(),
        TurnOutcome::Cancelled => "Cancelled".to_owned(),
        TurnOutcome::CutOff => format!("Cut off ({reason})"),
        TurnOutcome::Failed | TurnOutcome::Other(_) => format!("Failed ({reason})"),
    };
    if let Some(message) = &end.message {
        words.push_str(": ");
        words.push_str(message);
    } else if let Some(millis) = end.duration_ms {
        words.push_str(&format!(" in {}", show_duration(millis)));
    }
    if end.next.as_ref().is_some_and(|next| next.requeued) {
        words.push_str(", to be repeated");
    }
    summarise(&words)
}

/// Returns `850 ms`, `61.2 s` or `12 min`.
pub(crate) fn show_duration(millis: u64) -> String {
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..600_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        _ => format!("{} min", millis / 60_000),
    }
}

/// Completes the end of the newest turn with the reason that the end of the agent brought.
pub(crate) fn give_reason(step: &mut FoldStep<'_, impl RowStore>, failure: FailureText<'_>) {
    if step.fold.last_end.as_ref().is_some_and(|end| end.lacks_reason && !failure.reason.is_empty()) {
        complete_end(step, failure);
    }
}

/// Completes the end that this event has created with the failure that the event tells.
pub(crate) fn note_failure(step: &mut FoldStep<'_, impl RowStore>, failure: FailureText<'_>) {
    let Some(row) = step.fold.last_end.as_ref().map(|end| end.row) else { return };
    let seq = step.id.seq.0;
    if step.rows.row_mut(row).is_some_and(|row| row.rev == seq) {
        complete_end(step, failure);
    }
}

fn complete_end(step: &mut FoldStep<'_, impl RowStore>, failure: FailureText<'_>) {
    let Some(end) = &mut step.fold.last_end else { return };
    end.lacks_reason = false;
    let row = end.row;
    step.change(row, |row| {
        if let RowBody::TurnEnd(end) = &mut row.body {
            if end.message.is_none() && !failure.reason.is_empty() {
                end.message = Some(clean_message(failure.reason));
            }
            if !failure.stderr.is_empty() {
                end.stderr = Some(clean_message(failure.stderr));
            }
            row.summary = summarise_end(end);
        }
    });
}

/// Takes the state of v2: turns without a prompt, and work in the background.
pub(crate) fn state_update(step: &mut FoldStep<'_, impl RowStore>, update: Json<'_>) -> Result<(), ReadError> {
    let state = update.text_at(&["state"])?.unwrap_or_default();
    let background = update.member("background")?.map_or(0, |work| work.items().count() as u64);
    match &*state {
        "running" if step.fold.turn.is_none() => {
            end_run(step);
            step.fold.turn = Some(new_turn(step, String::new(), WaitingPrompt::default()));
        }
        "idle" if step.fold.turn.as_ref().is_some_and(|turn| turn.prompt_id.is_empty()) => {
            end_run(step);
            let reason = update.text_at(&["stopReason"])?.unwrap_or("end_turn".into());
            let started_at = step.fold.turn.as_ref().map(|turn| Millis(turn.started_at));
            let facts = EndFacts {
                answer: Some(update),
                ..EndFacts::new(&clean_line(&reason, MAX_WORD_BYTES), outcome_of(&reason))
            };
            create_end_row(step, facts, started_at, false);
            step.fold.turn = None;
        }
        _ => {}
    }
    if std::mem::replace(&mut step.fold.background, background) != background {
        notices::background_work(step, background);
    }
    Ok(())
}
