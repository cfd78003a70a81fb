//! A session's state in one word, for a person.

use wharf_host::core::{EndReason, Status};
use wharf_host::{Descriptor, TurnWord};

use crate::look::Style;

/// The word and how it looks.
pub(crate) fn of(session: &Descriptor) -> (&'static str, Style) {
    if session.paused.is_some() {
        return ("paused", Style::Bad);
    }
    match (session.status, session.turn) {
        (Status::Starting, _) => ("starting", Style::Busy),
        (Status::Running, TurnWord::Idle) => ("idle", Style::Good),
        (Status::Running, TurnWord::Running) => ("working", Style::Busy),
        (Status::Running, TurnWord::AwaitingInput) => ("asks", Style::Wants),
        (Status::Exited | Status::Killed | Status::Error, _) if sleeps(session) => ("asleep", Style::Plain),
        (Status::Exited, _) => ("exited", Style::Faint),
        (Status::Killed, _) => ("killed", Style::Faint),
        (Status::Error, _) => ("error", Style::Bad),
    }
}

/// It has no agent now, and the next prompt brings it back (rule 2.6).
pub(crate) fn sleeps(session: &Descriptor) -> bool {
    let stays_away = matches!(session.end_reason, Some(EndReason::User | EndReason::StartFailed));
    !session.status.is_alive() && session.resumable && !stays_away
}

/// Its agent could not be brought back: a person has to see to it.
pub(crate) fn needs_care(session: &Descriptor) -> bool {
    !session.status.is_alive() && session.resumable && session.end_reason == Some(EndReason::StartFailed)
}

/// What people call it: its label, else its title.
pub(crate) fn called(session: &Descriptor) -> Option<&str> {
    session.label.as_deref().or(session.name.as_deref()).or(session.title.as_deref())
}

/// A status, turn or reason as the host writes it.
pub(crate) fn word(value: impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}
