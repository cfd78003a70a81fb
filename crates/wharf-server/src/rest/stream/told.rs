//! What an event of the log tells a stream's reader besides lines.

use serde_json::{Value, json};
use wharf_host::core::{AskId, AskKind, AskOutcome, Event, Seq, Status};
use wharf_host::{Entry, SessionHandle};

use crate::acp::stop_reason;
use crate::use_cases::{AskWord, OpenAsk};

/// The name and the data of a server-sent event.
pub(super) struct Told {
    pub(super) name: &'static str,
    pub(super) data: Value,
}

/// What there is to tell of this event, if anything.
pub(super) async fn told(handle: &SessionHandle, entry: &Entry) -> Option<Told> {
    let (name, data) = match &entry.event {
        Event::AgentStarting { .. } => ("status", json!({ "status": Status::Starting })),
        Event::AgentStarted { .. } => ("status", json!({ "status": Status::Running })),
        Event::Ended(ending) => {
            let mut data = json!({ "status": ending.status, "endReason": ending.reason });
            if let Some(code) = ending.exit_code {
                data["exitCode"] = code.into();
            }
            ("status", data)
        }
        Event::TurnStarted { prompt, .. } => ("turn", json!({ "turn": "started", "promptId": prompt })),
        Event::PromptEnded { prompt, end } => {
            ("turn", json!({ "turn": "ended", "promptId": prompt, "stopReason": stop_reason(end) }))
        }
        Event::AskOpened(ask) => {
            let mut data = serde_json::to_value(OpenAsk::of(ask)).unwrap_or_default();
            data["open"] = true.into();
            // Of a permission the options and the tool call say it all.
            if let Some(members) = data.as_object_mut().filter(|_| ask.kind == AskKind::Permission) {
                members.remove("params");
            }
            ("ask", data)
        }
        Event::AskResolved { ask, outcome, .. } => {
            let mut data = json!({ "askId": ask, "open": false, "outcome": word(outcome) });
            if let Some(kind) = kind_of(handle, *ask).await {
                data["kind"] = serde_json::to_value(kind).unwrap_or_default();
            }
            if let AskOutcome::Answered { option: Some(option), .. } = outcome {
                data["optionId"] = (&**option).into();
            }
            ("ask", data)
        }
        Event::Paused { why } => ("pause", json!({ "paused": true, "why": why })),
        Event::Continued => ("pause", json!({ "paused": false })),
        Event::Created(_)
        | Event::StartFailed { .. }
        | Event::SettingsChanged { .. }
        | Event::PromptAccepted { .. }
        | Event::PromptUpdated { .. }
        | Event::PromptMoved { .. }
        | Event::PromptRequeued { .. }
        | Event::CancelRequested { .. }
        | Event::AgentUpdated { .. }
        | Event::AgentFaulted { .. }
        | Event::Snapshot(_)
        | Event::Unknown { .. } => return None,
    };
    Some(Told { name, data })
}

/// An ask is named by the event that opened it, which says what kind it is.
async fn kind_of(handle: &SessionHandle, ask: AskId) -> Option<AskWord> {
    let batch = handle.cursor(Seq(ask.0.checked_sub(1)?)).next().await.ok()?;
    let Event::AskOpened(opened) = &batch.entries().first()?.event else { return None };
    (opened.id == ask).then(|| opened.kind.into())
}

fn word(outcome: &AskOutcome) -> &'static str {
    match outcome {
        AskOutcome::Answered { .. } => "answered",
        AskOutcome::Declined { .. } => "declined",
        AskOutcome::Cancelled => "cancelled",
        AskOutcome::Withdrawn => "withdrawn",
        AskOutcome::AgentGone => "agent_gone",
    }
}
