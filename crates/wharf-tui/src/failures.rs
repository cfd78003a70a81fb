//! Why a turn or a start failed, in words that say what to do (rule 19.9). The page has the same in
//! `failures.js`.

use wharf_api::{
    EndCause, NoticeLevel, NoticeTopic, RowNotice, RowTurnEnd, SessionInfo, TurnOutcome,
};

/// The code by which agents say that a login is needed (ACP).
const AUTH_REQUIRED_CODE: i64 = -32000;
const LOGIN_PHRASES: &[&str] = &[
    "authentication required",
    "not logged in",
    "not signed in",
    "login required",
    "login is required",
    "log in required",
    "please run /login",
    "please log in",
    "please sign in",
    "invalid api key",
    "401 unauthorized",
];
const LIMIT_PHRASES: &[&str] = &[
    "usage limit",
    "rate limit",
    "spending limit",
    "too many requests",
    "credit balance",
    "insufficient credit",
    "insufficient funds",
    "insufficient balance",
    "insufficient quota",
];

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The agent wants a login.
    Login,
    /// The agent has reached a limit of its provider.
    Limit,
    /// The agent did not start.
    Start,
    /// The agent ended in mid-turn.
    Crash,
    /// The agent answered with another error.
    Error,
}

impl FailureKind {
    /// Returns the kind of a turn's failure; `None` if the turn ended in another way.
    pub fn of_turn(end: &RowTurnEnd) -> Option<Self> {
        let is_failure = end.outcome == TurnOutcome::Failed
            && matches!(end.reason.as_str(), "error" | "start_failed" | "agent_exited");
        if !is_failure {
            return None;
        }
        let code = end.error.as_ref().and_then(|error| error["code"].as_i64());
        if code == Some(AUTH_REQUIRED_CODE) {
            return Some(Self::Login);
        }
        let of_words = Self::of_words(end.message.as_deref().unwrap_or_default());
        Some(of_words.unwrap_or(match end.reason.as_str() {
            "start_failed" => Self::Start,
            "agent_exited" => Self::Crash,
            _ => Self::Error,
        }))
    }

    /// Returns the kind of the failure that ended the agent of a session.
    pub fn of_session(session: &SessionInfo) -> Self {
        let why = session.attention.as_ref().and_then(|attention| attention.why.as_deref());
        if why == Some("login") {
            return Self::Login;
        }
        let of_words = Self::of_words(session.message.as_deref().unwrap_or_default());
        let otherwise = if session.end_reason == Some(EndCause::StartFailed) {
            Self::Start
        } else {
            Self::Crash
        };
        of_words.unwrap_or(otherwise)
    }

    fn of_words(text: &str) -> Option<Self> {
        let text = text.to_lowercase();
        let names = |phrases: &[&str]| phrases.iter().any(|phrase| begins_word(&text, phrase));
        if text.contains(&format!("({AUTH_REQUIRED_CODE})")) || names(LOGIN_PHRASES) {
            Some(Self::Login)
        } else if names(LIMIT_PHRASES)
            || text.split(|c: char| !c.is_alphanumeric()).any(|word| word == "quota")
        {
            Some(Self::Limit)
        } else {
            None
        }
    }
}

/// Returns true if the text has the phrase at the beginning of a word.
fn begins_word(text: &str, phrase: &str) -> bool {
    let is_at_start =
        |at: usize| text.get(..at).is_none_or(|before| !before.ends_with(char::is_alphanumeric));
    text.match_indices(phrase).any(|(at, _)| is_at_start(at))
}

/// Returns the command that signs an agent in, on the machine of the host.
pub fn login_command(agent: &str) -> String {
    format!("wharf login {agent}")
}

/// Returns true for a notice that the agent has ended with a failure.
pub(crate) fn is_failed_end(notice: &RowNotice) -> bool {
    notice.what == NoticeTopic::Ended && notice.level == NoticeLevel::Error
}

/// Returns true for a notice that says again how the turn before it failed.
pub(crate) fn repeats_failure(notice: &RowNotice, before: &RowTurnEnd) -> bool {
    is_failed_end(notice) && FailureKind::of_turn(before).is_some() && before.reason != "error"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_agents_tell_logins_and_limits_from_other_failures() {
        let login = [
            "Authentication required",
            "Error: not logged in",
            "no (-32000)",
            "HTTP 401 Unauthorized",
        ];
        assert!(login.iter().all(|text| FailureKind::of_words(text) == Some(FailureKind::Login)));
        let limit = ["Claude usage limit reached", "429 Too Many Requests", "the quota is used up"];
        assert!(limit.iter().all(|text| FailureKind::of_words(text) == Some(FailureKind::Limit)));
        let other = ["quotation marks are missing", "the file is not there", ""];
        assert!(other.iter().all(|text| FailureKind::of_words(text).is_none()));
    }
}
