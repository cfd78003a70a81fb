//! Exit codes, and errors with an exit code. The table in `docs/cli.md` lists this enum.

use std::fmt;
use std::process::ExitCode;

use wharf_api::ErrorCode;

/// How a verb ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    Ok = 0,
    /// Anything that has no code of its own.
    Error = 1,
    /// The arguments are wrong, or an abbreviation fits several sessions.
    Usage = 2,
    /// No host is running, and none was started or the start failed.
    NoHost = 3,
    /// There is no such session, ask, prompt, workspace or adapter.
    NotFound = 4,
    /// The host refused the call: busy, full, not allowed, not in this state.
    Refused = 5,
    /// The host has another version.
    Version = 6,
    /// The turn ended with `refusal`.
    Refusal = 10,
    /// The turn ended with `max_tokens` or `max_turn_requests`.
    Limit = 11,
    /// The turn was cancelled, its session killed, or the host stopped.
    Cancelled = 12,
    /// The agent failed: it did not start, answered with an error, or is gone.
    Agent = 13,
    /// An ask stayed open: `--on-ask fail`, or the time for an answer ran out.
    Unanswered = 14,
    /// The time of `--timeout` ran out.
    TimedOut = 15,
    /// A second Ctrl-C.
    Interrupted = 130,
}

impl Exit {
    #[cfg(test)]
    pub(crate) const ALL: [Self; 14] = [
        Self::Ok,
        Self::Error,
        Self::Usage,
        Self::NoHost,
        Self::NotFound,
        Self::Refused,
        Self::Version,
        Self::Refusal,
        Self::Limit,
        Self::Cancelled,
        Self::Agent,
        Self::Unanswered,
        Self::TimedOut,
        Self::Interrupted,
    ];

    /// Returns the meaning of the code in one sentence.
    #[cfg(test)]
    pub(crate) const fn meaning(self) -> &'static str {
        match self {
            Self::Ok => "success; where a turn is awaited: it ended with `end_turn`",
            Self::Error => "an error that has no code of its own",
            Self::Usage => "invalid arguments, or a name that fits several things",
            Self::NoHost => "no host runs, and none was started",
            Self::NotFound => {
                "there is no such session, ask, prompt, workspace or agent, or the agent is not installed"
            }
            Self::Refused => {
                "the host refused the call: busy, at a limit, not allowed, or not possible in this state"
            }
            Self::Version => "the host is of another version",
            Self::Refusal => "the turn ended with `refusal`",
            Self::Limit => "the turn ended with `max_tokens` or `max_turn_requests`",
            Self::Cancelled => "the turn was cancelled, its session killed, or the host stopped",
            Self::Agent => "the agent failed: it did not start, answered with an error, or is gone",
            Self::Unanswered => "an ask was not answered (`--on-ask`), and the turn was cancelled",
            Self::TimedOut => "the time of `--timeout` was up, and the turn was cancelled",
            Self::Interrupted => "a second Ctrl-C, or the terminal is gone",
        }
    }

    /// Returns the exit code for the end of a turn.
    pub(crate) fn of_stop_reason(reason: &str) -> Self {
        match reason {
            "end_turn" => Self::Ok,
            "refusal" => Self::Refusal,
            "max_tokens" | "max_turn_requests" => Self::Limit,
            "cancelled" | "removed" | "session_ended" | "host_shutdown" | "host_restarted" => {
                Self::Cancelled
            }
            _ => Self::Agent,
        }
    }

    /// Returns the exit code for the host's refusal.
    pub(crate) fn of_problem(status: u16, code: ErrorCode) -> Self {
        match (status, code) {
            (404, _)
            | (
                _,
                ErrorCode::UNKNOWN_ADAPTER
                | ErrorCode::UNKNOWN_WORKSPACE
                | ErrorCode::UNKNOWN_MODE
                | ErrorCode::ADAPTER_NOT_INSTALLED,
            ) => Self::NotFound,
            (
                _,
                ErrorCode::SANDBOX_NOT_SUPPORTED
                | ErrorCode::SANDBOX_IMPOSSIBLE
                | ErrorCode::FORK_NOT_SUPPORTED,
            ) => Self::Refused,
            (_, ErrorCode::AGENT_REFUSED | ErrorCode::AGENT_EXITED | ErrorCode::AGENT_TIMEOUT) => {
                Self::Agent
            }
            (401 | 403 | 409 | 429 | 503 | 507, _) => Self::Refused,
            (_, ErrorCode::START_FAILED) => Self::Agent,
            (400 | 422, _) => Self::Usage,
            _ => Self::Error,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// An error with its exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    /// The code of the host's refusal, if it is one.
    code: Option<ErrorCode>,
    /// Its HTTP status.
    status: Option<u16>,
    /// The session that the refusal is about, as its problem names it.
    session: Option<String>,
    words: String,
}

impl Failure {
    pub(crate) fn new(exit: Exit, words: impl Into<String>) -> Self {
        Self {
            exit,
            code: None,
            status: None,
            session: None,
            words: words.into(),
        }
    }

    /// Creates the error for a refusal of the host.
    pub(crate) fn refusal(status: u16, code: ErrorCode, words: String) -> Self {
        let exit = Exit::of_problem(status, code);
        Self {
            exit,
            code: Some(code),
            status: Some(status),
            session: None,
            words,
        }
    }

    /// Returns the error with the session that the refusal is about.
    pub(crate) fn about_session(self, session: Option<String>) -> Self {
        Self { session, ..self }
    }

    fn of(error: &anyhow::Error) -> Option<&Self> {
        error.chain().find_map(|cause| cause.downcast_ref::<Self>())
    }

    /// Returns the exit code for this error.
    pub(crate) fn exit_of(error: &anyhow::Error) -> Exit {
        Self::of(error).map_or(Exit::Error, |failure| failure.exit)
    }

    /// Returns true if the same call will fail again: the caller has no right to it, or its subject
    /// does not exist.
    pub(crate) fn is_lasting(error: &anyhow::Error) -> bool {
        Self::of(error).is_some_and(|failure| matches!(failure.status, Some(401 | 403 | 404)))
    }

    /// Returns the id of the session that the host's refusal names.
    pub(crate) fn session_of(error: &anyhow::Error) -> Option<&str> {
        Self::of(error).and_then(|failure| failure.session.as_deref())
    }

    /// Returns the error code of the host's refusal; `None` if the error is not a refusal.
    pub(crate) fn code_of(error: &anyhow::Error) -> Option<ErrorCode> {
        Self::of(error).and_then(|failure| failure.code)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_that_did_not_end_well_is_no_success() {
        for reason in
            ["refusal", "max_tokens", "max_turn_requests", "cancelled", "agent_exited", "novel"]
        {
            assert_ne!(Exit::of_stop_reason(reason), Exit::Ok, "{reason}");
        }
        assert_eq!(Exit::of_stop_reason("end_turn"), Exit::Ok);
    }

    /// A turn that its host cut off is not the agent's failure.
    #[test]
    fn turn_that_ended_with_its_host_was_cancelled() {
        let ends = ["cancelled", "session_ended", "host_shutdown", "host_restarted"];
        assert_eq!(ends.map(Exit::of_stop_reason), [Exit::Cancelled; 4]);
        assert_eq!(Exit::of_stop_reason("agent_exited"), Exit::Agent);
    }

    #[test]
    fn an_error_keeps_its_code_under_a_context() {
        let error = anyhow::Error::from(Failure::new(Exit::NoHost, "nobody")).context("asking");
        assert_eq!(Failure::exit_of(&error), Exit::NoHost);
        assert_eq!(Failure::exit_of(&anyhow::anyhow!("other")), Exit::Error);
    }

    #[test]
    fn every_code_is_documented() {
        let page = include_str!("../../../docs/cli.md");
        for exit in Exit::ALL {
            assert!(
                page.contains(&format!("| {} |", exit as u8)),
                "{exit:?} is not in docs/cli.md"
            );
        }
    }
}
