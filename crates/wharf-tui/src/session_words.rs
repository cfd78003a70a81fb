//! A session in words, for all clients of this program.

use wharf_api::{EndCause, SessionInfo, SessionStatus};

/// Returns true if the session has no agent now and the next prompt resumes it (rule 2.6). A
/// session whose work is done is not asleep, though a prompt resumes it too.
pub fn is_asleep(session: &SessionInfo) -> bool {
    let stays_away = matches!(
        session.end_reason,
        Some(EndCause::User | EndCause::Finished | EndCause::StartFailed)
    );
    !session.status.is_alive() && session.resumable && !stays_away
}

/// Returns true if the agent of the session failed and the next prompt does not simply bring it
/// back.
pub(crate) fn has_failed(session: &SessionInfo) -> bool {
    let is_failed = matches!(session.status, SessionStatus::Error | SessionStatus::Exited);
    let is_over =
        matches!(session.end_reason, Some(EndCause::Finished | EndCause::Closed | EndCause::User));
    is_failed && !is_over && !is_asleep(session)
}

/// Returns true if a person ended the session: it comes back only when it is resumed.
pub(crate) fn is_killed_by_person(session: &SessionInfo) -> bool {
    session.status == SessionStatus::Killed && !is_asleep(session)
}

/// Returns the label, else the name, else the title.
pub fn display_name(session: &SessionInfo) -> Option<&str> {
    session
        .label
        .as_deref()
        .or(session.name.as_deref())
        .or(session.title.as_deref())
}
