//! The reason of a failed turn, in the types of the contract.

use wharf_api::TurnFailure;
use wharf_host::core::{FailureText, PromptEnd, Raw};
use wharf_json::Json;

/// Returns the reason why a turn failed; `None` if the agent answered or the turn was cancelled.
pub(crate) fn describe_turn_failure(end: &PromptEnd, failure: Option<&str>) -> Option<TurnFailure> {
    let FailureText { reason, stderr } = FailureText::parse(failure.unwrap_or_default());
    let message = match end {
        PromptEnd::Failed { frame } => read_error_message(frame),
        PromptEnd::AgentExited | PromptEnd::StartFailed if !reason.is_empty() => reason.to_owned(),
        PromptEnd::AgentExited => "the agent exited".to_owned(),
        PromptEnd::StartFailed => "the agent could not be started".to_owned(),
        PromptEnd::Answered { .. }
        | PromptEnd::Cancelled
        | PromptEnd::Removed { .. }
        | PromptEnd::SessionEnded
        | PromptEnd::HostShutdown
        | PromptEnd::HostRestarted => return None,
    };
    Some(TurnFailure {
        message,
        stderr: (!stderr.is_empty()).then(|| stderr.to_owned()),
    })
}

fn read_error_message(frame: &Raw) -> String {
    let message =
        Json::parse(frame.bytes()).and_then(|answer| answer.text_at(&["error", "message"]));
    message
        .ok()
        .flatten()
        .map_or_else(|| "the agent answered with an error".to_owned(), std::borrow::Cow::into_owned)
}
