//! A session's state in one word, for a person.

use wharf_api::{EndCause, SessionInfo, SessionStatus, TurnPhase};

use crate::look::Style;

/// Returns the word and how it looks. A word of a newer host is shown as it is.
pub(crate) fn of(session: &SessionInfo) -> (&str, Style) {
    if session.paused.is_some() {
        return ("paused", Style::Bad);
    }
    match (&session.status, &session.turn) {
        (SessionStatus::Starting, _) => ("starting", Style::Busy),
        (SessionStatus::Running, TurnPhase::Idle) => ("idle", Style::Good),
        (SessionStatus::Running, TurnPhase::Running) => ("working", Style::Busy),
        (SessionStatus::Running, TurnPhase::AwaitingInput) => ("asks", Style::Wants),
        (SessionStatus::Running, newer) => (newer.as_str(), Style::Plain),
        (SessionStatus::Exited | SessionStatus::Killed | SessionStatus::Error, _) if sleeps(session) => {
            ("asleep", Style::Plain)
        }
        (SessionStatus::Exited, _) => ("exited", Style::Faint),
        (SessionStatus::Killed, _) => ("killed", Style::Faint),
        (SessionStatus::Error, _) => ("error", Style::Bad),
        (newer, _) => (newer.as_str(), Style::Plain),
    }
}

/// It has no agent now, and the next prompt brings it back (rule 2.6).
pub(crate) fn sleeps(session: &SessionInfo) -> bool {
    let stays_away = matches!(session.end_reason, Some(EndCause::User | EndCause::StartFailed));
    !session.status.is_alive() && session.resumable && !stays_away
}

/// Its agent could not be brought back: a person has to see to it.
pub(crate) fn needs_care(session: &SessionInfo) -> bool {
    !session.status.is_alive() && session.resumable && session.end_reason == Some(EndCause::StartFailed)
}

/// What people call it: its label, else its title.
pub(crate) fn called(session: &SessionInfo) -> Option<&str> {
    session.label.as_deref().or(session.name.as_deref()).or(session.title.as_deref())
}
