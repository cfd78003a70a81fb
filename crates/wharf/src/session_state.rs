//! A session's state in one word, for a person.

use wharf_api::{AttentionState, EndCause, SessionInfo, SessionStatus, TurnPhase};
use wharf_render::style::TextStyle;

pub(crate) use wharf_tui::{display_name, is_asleep};

/// Returns the word and its style. An unknown word of a newer host is returned unchanged.
pub(crate) fn state_word(session: &SessionInfo) -> (&str, TextStyle) {
    if session.paused.is_some() {
        return ("paused", TextStyle::Bad);
    }
    match (&session.status, &session.turn) {
        (SessionStatus::Starting, _) => ("starting", TextStyle::Busy),
        (SessionStatus::Running, TurnPhase::Idle) => ("idle", TextStyle::Good),
        (SessionStatus::Running, TurnPhase::Running) => ("working", TextStyle::Busy),
        (SessionStatus::Running, TurnPhase::AwaitingInput) => ("asks", TextStyle::Wants),
        (SessionStatus::Running, newer) => (newer.as_str(), TextStyle::Plain),
        (SessionStatus::Exited | SessionStatus::Killed | SessionStatus::Error, _)
            if is_asleep(session) =>
        {
            ("asleep", TextStyle::Plain)
        }
        (SessionStatus::Exited, _) => ("exited", TextStyle::Faint),
        (SessionStatus::Killed, _) => ("killed", TextStyle::Faint),
        (SessionStatus::Error, _) => ("error", TextStyle::Bad),
        (newer, _) => (newer.as_str(), TextStyle::Plain),
    }
}

/// Returns the word for a list: what the session wants from the person, else its state.
pub(crate) fn list_word(session: &SessionInfo) -> (&str, TextStyle) {
    match session.attention.as_ref().map(|attention| &attention.state) {
        Some(_) if session.paused.is_some() => state_word(session),
        Some(AttentionState::NeedsAnswer) => ("needs answer", TextStyle::Wants),
        Some(AttentionState::Failed) => ("failed", TextStyle::Bad),
        Some(AttentionState::Finished) => ("finished", TextStyle::Good),
        Some(
            AttentionState::Parked
            | AttentionState::Working
            | AttentionState::Quiet
            | AttentionState::Other(_),
        )
        | None => state_word(session),
    }
}

/// Returns true if the session could not be resumed: a person has to look at it.
pub(crate) fn has_failed_to_return(session: &SessionInfo) -> bool {
    !session.status.is_alive()
        && session.resumable
        && session.end_reason == Some(EndCause::StartFailed)
}

/// Returns how a session without an agent comes back; `None` for a session that has one.
pub(crate) fn explain_return(session: &SessionInfo) -> Option<&'static str> {
    match session {
        session if session.status.is_alive() => None,
        session if is_asleep(session) => Some("the next prompt wakes it"),
        session if has_failed_to_return(session) => Some("wharf resume tries again"),
        session if session.resumable => Some("wharf resume brings it back"),
        _ => Some("it cannot come back; its history stays"),
    }
}
