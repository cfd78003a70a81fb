//! The row at the end of a turn: its outcome, its numbers, and the reason of a failure.

use wharf_api::{RowBody, RowTurnEnd, ToolState, TurnOutcome, TurnSequel};
use wharf_core::{FailureText, OutcomeCause, OutcomeKind, PromptEnd, Raw, TurnCancel, TurnLimit};
use wharf_json::Json;

use crate::fold::FoldStep;
use crate::limits::{MAX_MESSAGE_BYTES, MAX_UNEXPLAINED_ENDS};
use crate::text_rules::{TextRules, clean_word};
use crate::turns::OpenTurn;
use crate::{RowNumber, RowStore, tools};

/// The facts of an end that do not come from the turn itself.
pub(crate) struct EndFacts<'a> {
    reason: String,
    outcome: TurnOutcome,
    answer: Option<Json<'a>>,
    message: Option<String>,
    stderr: Option<String>,
    /// True if the prompt runs again.
    requeued: bool,
}

impl<'a> EndFacts<'a> {
    pub(crate) fn cut_off(reason: &str) -> Self {
        Self::new(reason, OutcomeKind::CutOff)
    }

    /// Returns the end of a turn whose prompt is queued again.
    pub(crate) fn requeued() -> Self {
        Self { requeued: true, ..Self::cut_off("interrupted") }
    }

    /// Returns the end that the agent tells with a stop reason, in an update of v2.
    pub(crate) fn stopped(reason: &str, answer: Json<'a>) -> Self {
        let kind = OutcomeCause::of_stop_reason(reason).kind();
        Self { answer: Some(answer), ..Self::new(&clean_word(reason), kind) }
    }

    /// Returns the end of a prompt, whose turn a client or a limit may have cancelled.
    pub(crate) fn of_end(end: &'a PromptEnd, cancel: TurnCancel, texts: &TextRules) -> Self {
        let kind = OutcomeCause::of_end(end, cancel).kind();
        let mut facts = match end {
            PromptEnd::Answered { stop_reason, frame } => Self {
                answer: Json::parse(frame.bytes())
                    .and_then(|answer| answer.member("result"))
                    .ok()
                    .flatten(),
                ..Self::new(&clean_word(stop_reason), kind)
            },
            PromptEnd::Failed { frame } => read_failure(frame, kind, texts),
            PromptEnd::Cancelled
            | PromptEnd::Removed { .. }
            | PromptEnd::AgentExited
            | PromptEnd::StartFailed
            | PromptEnd::SessionEnded
            | PromptEnd::HostShutdown
            | PromptEnd::HostRestarted => Self::new(end.stop_reason(), kind),
        };
        let limit = match cancel {
            TurnCancel::ByLimit(TurnLimit::Deadline) => {
                "the turn took longer than turn.deadline allows"
            }
            TurnCancel::ByLimit(TurnLimit::NoProgress) => {
                "the agent sent nothing for as long as turn.no_progress allows"
            }
            TurnCancel::ByClient | TurnCancel::No => return facts,
        };
        facts.message = Some(limit.to_owned());
        facts
    }

    fn new(reason: &str, kind: OutcomeKind) -> Self {
        let reason = reason.to_owned();
        let outcome = to_turn_outcome(kind);
        Self {
            reason,
            outcome,
            answer: None,
            message: None,
            stderr: None,
            requeued: false,
        }
    }

    /// Returns the state that the turn's open tool calls get. `None` if they may go on.
    fn state_of_open_tools(&self) -> Option<ToolState> {
        match self.outcome {
            TurnOutcome::Cancelled => Some(ToolState::Cancelled),
            TurnOutcome::Failed | TurnOutcome::CutOff => Some(ToolState::CutOff),
            // The agent cancelled the turn by itself.
            TurnOutcome::Stopped if self.reason == "cancelled" => Some(ToolState::Cancelled),
            TurnOutcome::Done
            | TurnOutcome::Stopped
            | TurnOutcome::Refused
            | TurnOutcome::Other(_) => None,
        }
    }
}

/// Returns the outcome in the words of rows.
const fn to_turn_outcome(kind: OutcomeKind) -> TurnOutcome {
    match kind {
        OutcomeKind::Done => TurnOutcome::Done,
        OutcomeKind::Stopped => TurnOutcome::Stopped,
        OutcomeKind::Refused => TurnOutcome::Refused,
        OutcomeKind::Cancelled => TurnOutcome::Cancelled,
        OutcomeKind::Failed => TurnOutcome::Failed,
        OutcomeKind::CutOff => TurnOutcome::CutOff,
    }
}

/// Reads the agent's error answer.
fn read_failure<'a>(frame: &'a Raw, kind: OutcomeKind, texts: &TextRules) -> EndFacts<'a> {
    let error = Json::parse(frame.bytes())
        .and_then(|answer| answer.member("error"))
        .ok()
        .flatten();
    let text = |path: &[&str]| error.and_then(|error| error.text_at(path).ok().flatten());
    let said = text(&["message"])
        .map(|said| said.into_owned())
        .or_else(|| error.map(|error| error.to_string()));
    let details = text(&["data", "details"]).or_else(|| text(&["data"]));
    let stderr = text(&["data", "stderr"]);
    let message = match (said, details) {
        (Some(said), Some(details)) => format!("{said}: {details}"),
        (Some(said), None) => said,
        (None, details) => details.map_or_else(
            || "the agent answered with an error".to_owned(),
            |text| text.into_owned(),
        ),
    };
    EndFacts {
        message: Some(clean_message(&message, texts)),
        stderr: stderr.map(|stderr| clean_message(&stderr, texts)),
        ..EndFacts::new("error", kind)
    }
}

/// Returns a text for a person, redacted; of a long one the end, where the reason stands.
fn clean_message(text: &str, texts: &TextRules) -> String {
    texts.filter_end(text, MAX_MESSAGE_BYTES)
}

/// Adds the row that ends a turn, and ends its open tool calls. `duration_ms` is `None` for a turn
/// that never ran.
pub(crate) fn create_end_row(
    step: &mut FoldStep<'_, impl RowStore>,
    mut turn: OpenTurn,
    facts: EndFacts<'_>,
    duration_ms: Option<u64>,
) {
    // In v2 the agent itself tells which work goes on.
    if let Some(state) = facts.state_of_open_tools().filter(|_| !step.fold.agent.speaks_v2) {
        tools::close_tools(step, &mut turn, &state);
    }
    let lacks_reason = facts.message.is_none()
        && matches!(facts.outcome, TurnOutcome::Failed | TurnOutcome::CutOff);
    let requeued = facts.requeued;
    // A prompt that never ran has used nothing, and the running turn keeps its own.
    let usage = duration_ms.and_then(|_| step.fold.tokens.end_turn(facts.answer, &turn.cost));
    let end = RowTurnEnd {
        reason: facts.reason,
        outcome: facts.outcome,
        duration_ms,
        usage,
        context: step.fold.usage.context.clone(),
        tools: turn.tools,
        files: turn.files.to_counts(),
        message: facts.message,
        stderr: facts.stderr,
        next: requeued.then_some(TurnSequel { requeued }),
        error: None,
    };
    let summary = summarise_end(&end, &step.fold.texts);
    let row = step.create_in_turn(RowBody::TurnEnd(Box::new(end)), summary, false, turn.shown_id());
    step.fold.last_end = Some(row);
    if lacks_reason && step.fold.unexplained_ends.len() < MAX_UNEXPLAINED_ENDS {
        step.fold.unexplained_ends.push(row);
    }
}

/// Returns the end in one line.
fn summarise_end(end: &RowTurnEnd, texts: &TextRules) -> String {
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
    texts.summarise(&words)
}

/// Returns `850 ms`, `61.2 s` or `12 min`.
pub(crate) fn show_duration(millis: u64) -> String {
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..600_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        _ => format!("{} min", millis / 60_000),
    }
}

/// Completes the ends of turns with the reason that the end of the agent brought.
pub(crate) fn give_reason(step: &mut FoldStep<'_, impl RowStore>, failure: FailureText<'_>) {
    if failure.reason.is_empty() {
        return;
    }
    for row in std::mem::take(&mut step.fold.unexplained_ends) {
        complete_end(step, row, failure);
    }
}

/// Completes the end that this event has created with the failure that the event tells.
pub(crate) fn note_failure(step: &mut FoldStep<'_, impl RowStore>, failure: FailureText<'_>) {
    let Some(row) = step.fold.last_end else { return };
    let seq = step.id.seq.0;
    if step.rows.row_mut(row).is_some_and(|row| row.rev == seq) {
        // The end of the session may still tell the agent's last words.
        if !failure.stderr.is_empty() {
            step.fold.unexplained_ends.retain(|end| *end != row);
        }
        complete_end(step, row, failure);
    }
}

fn complete_end(step: &mut FoldStep<'_, impl RowStore>, row: RowNumber, failure: FailureText<'_>) {
    let texts = step.fold.texts.clone();
    step.change(row, |row| {
        if let RowBody::TurnEnd(end) = &mut row.body {
            if end.message.is_none() && !failure.reason.is_empty() {
                end.message = Some(clean_message(failure.reason, &texts));
            }
            if !failure.stderr.is_empty() {
                end.stderr = Some(clean_message(failure.stderr, &texts));
            }
            row.summary = summarise_end(end, &texts);
        }
    });
}
