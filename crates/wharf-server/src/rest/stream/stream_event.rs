//! Conversions from log events to stream events other than lines.

use wharf_api::{
    AskChange, AskType, OpenAsk, PauseChange, StatusChange, StreamEvent, TurnChange, TurnFailure,
    TurnStep,
};
use wharf_host::core::{
    AgentEvent, Ask, AskEvent, AskId, AskKind, AskOutcome, Event, PromptEvent, PromptId, Seq,
    SessionEvent, Status, StorageEvent,
};
use wharf_host::{Entry, SessionHandle};

use crate::use_cases::{
    describe_turn_failure, to_ask_type, to_end_cause, to_open_ask, to_session_status,
    to_storage_pause,
};

/// Returns the stream event for a log event, or `None` if there is none.
pub(super) async fn to_stream_event(handle: &SessionHandle, entry: &Entry) -> Option<StreamEvent> {
    Some(match &entry.event {
        Event::Agent(AgentEvent::Starting { .. }) => status_change(Status::Starting),
        Event::Agent(AgentEvent::Started { .. }) => status_change(Status::Running),
        Event::Session(SessionEvent::Ended(ending)) => StreamEvent::Status(StatusChange {
            status: to_session_status(ending.status),
            end_reason: Some(to_end_cause(ending.reason)),
            exit_code: ending.exit_code,
        }),
        Event::Prompt(PromptEvent::TurnStarted { prompt, .. }) => {
            turn_change(TurnStep::Started, prompt, None, None)
        }
        Event::Prompt(PromptEvent::Ended { prompt, end, failure }) => {
            let error = describe_turn_failure(end, failure.as_deref());
            turn_change(TurnStep::Ended, prompt, Some(end.stop_reason()), error)
        }
        Event::Ask(AskEvent::Opened(ask)) => StreamEvent::Ask(opened_ask(ask)),
        Event::Ask(AskEvent::Resolved { ask, outcome, .. }) => {
            let kind = read_ask_type(handle, *ask).await;
            StreamEvent::Ask(resolved_ask(*ask, kind, outcome))
        }
        Event::Storage(StorageEvent::Paused { why }) => {
            StreamEvent::Pause(PauseChange { paused: true, why: Some(to_storage_pause(*why)) })
        }
        Event::Storage(StorageEvent::Continued) => {
            StreamEvent::Pause(PauseChange { paused: false, why: None })
        }
        Event::Session(
            SessionEvent::Created(_)
            | SessionEvent::Renamed { .. }
            | SessionEvent::Labelled { .. }
            | SessionEvent::Archived { .. },
        )
        | Event::Agent(
            AgentEvent::StartFailed { .. }
            | AgentEvent::SettingsChanged { .. }
            | AgentEvent::Updated { .. }
            | AgentEvent::Faulted { .. },
        )
        | Event::Prompt(
            PromptEvent::Accepted { .. }
            | PromptEvent::Updated { .. }
            | PromptEvent::Moved { .. }
            | PromptEvent::Requeued { .. }
            | PromptEvent::CancelRequested { .. },
        )
        | Event::Storage(StorageEvent::Snapshot(_))
        | Event::Unknown { .. }
        | Event::Lost(_) => return None,
    })
}

const fn status_change(now: Status) -> StreamEvent {
    StreamEvent::Status(StatusChange {
        status: to_session_status(now),
        end_reason: None,
        exit_code: None,
    })
}

fn turn_change(
    turn: TurnStep,
    prompt: &PromptId,
    stop_reason: Option<&str>,
    error: Option<TurnFailure>,
) -> StreamEvent {
    let stop_reason = stop_reason.map(ToOwned::to_owned);
    StreamEvent::Turn(TurnChange { turn, prompt_id: prompt.to_string(), stop_reason, error })
}

fn opened_ask(ask: &Ask) -> AskChange {
    let OpenAsk { ask_id, kind, options, tool_call, params, .. } = to_open_ask(ask);
    // For a permission, the options and the tool call hold everything.
    let params = (ask.kind != AskKind::Permission).then_some(params);
    let kind = Some(kind);
    let options = Some(options);
    AskChange {
        ask_id,
        open: true,
        kind,
        options,
        tool_call,
        params,
        outcome: None,
        option_id: None,
    }
}

fn resolved_ask(ask: AskId, kind: Option<AskType>, outcome: &AskOutcome) -> AskChange {
    let option_id = match outcome {
        AskOutcome::Answered { option, .. } => option.as_deref().map(ToOwned::to_owned),
        AskOutcome::Declined { .. }
        | AskOutcome::Cancelled
        | AskOutcome::Withdrawn
        | AskOutcome::AgentGone => None,
    };
    let outcome = Some(outcome_word(outcome).to_owned());
    AskChange {
        ask_id: ask.0,
        open: false,
        kind,
        options: None,
        tool_call: None,
        params: None,
        outcome,
        option_id,
    }
}

/// Reads the kind of an ask from the event that opened it, whose number is the ask's id.
async fn read_ask_type(handle: &SessionHandle, ask: AskId) -> Option<AskType> {
    let batch = handle.cursor(Seq(ask.0.checked_sub(1)?)).next().await.ok()?;
    let Event::Ask(AskEvent::Opened(opened)) = &batch.entries().first()?.event else { return None };
    (opened.id == ask).then(|| to_ask_type(opened.kind))
}

fn outcome_word(outcome: &AskOutcome) -> &'static str {
    match outcome {
        AskOutcome::Answered { .. } => "answered",
        AskOutcome::Declined { .. } => "declined",
        AskOutcome::Cancelled => "cancelled",
        AskOutcome::Withdrawn => "withdrawn",
        AskOutcome::AgentGone => "agent_gone",
    }
}
