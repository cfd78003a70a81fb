//! `--filter KEY=VALUE`: selects sessions of the list.

use std::str::FromStr;

use wharf_api::{AttentionState, SessionInfo, SessionStatus, TurnPhase};
use wharf_config::Duration;
use wharf_host::parse_timestamp;
use wharf_render::text::quote;

use crate::format::times;

/// The keys, as an error and the completions name them.
pub(crate) const FILTER_KEYS: [&str; 10] = [
    "attention",
    "turn",
    "status",
    "agent",
    "workspace",
    "label",
    "archived",
    "alive",
    "since",
    "before",
];

/// One condition on sessions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SessionFilter {
    Attention(AttentionState),
    Turn(TurnPhase),
    Status(SessionStatus),
    Agent(String),
    Workspace(String),
    Label(String),
    Archived(bool),
    Alive(bool),
    /// Active at or after this time (milliseconds since 1970).
    Since(u64),
    /// Started before this time.
    Before(u64),
}

impl FromStr for SessionFilter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text} is not like KEY=VALUE; the keys are: {}",
                FILTER_KEYS.join(", "),
                text = quote(text)
            )
        };
        let (key, value) = text.split_once('=').ok_or_else(wrong)?;
        match key {
            "attention" => known_word(value, AttentionState::WORDS)
                .map(|word| Self::Attention((&*word).into())),
            "turn" => known_word(value, TurnPhase::WORDS).map(|word| Self::Turn((&*word).into())),
            "status" => {
                known_word(value, SessionStatus::WORDS).map(|word| Self::Status((&*word).into()))
            }
            "agent" => Ok(Self::Agent(value.to_owned())),
            "workspace" => Ok(Self::Workspace(value.to_owned())),
            "label" => Ok(Self::Label(value.to_owned())),
            "archived" => value
                .parse()
                .map(Self::Archived)
                .map_err(|_| format!("{value} is neither true nor false", value = quote(value))),
            "alive" => value
                .parse()
                .map(Self::Alive)
                .map_err(|_| format!("{value} is neither true nor false", value = quote(value))),
            "since" => read_time(value).map(Self::Since),
            "before" => read_time(value).map(Self::Before),
            _ => Err(wrong()),
        }
    }
}

/// Returns a word of the contract; `needs-answer` is as good as `needs_answer`.
fn known_word(value: &str, words: &[&str]) -> Result<String, String> {
    let word = value.replace('-', "_");
    if words.contains(&word.as_str()) {
        return Ok(word);
    }
    Err(format!("{value} is none of: {}", words.join(", "), value = quote(value)))
}

/// Reads a time: `2026-11-17T09:30:00Z`, or how long ago, such as `2d`.
fn read_time(value: &str) -> Result<u64, String> {
    if let Some(at) = parse_timestamp(value) {
        return Ok(at.0);
    }
    let ago = value.parse::<Duration>().ok().and_then(Duration::to_millis);
    let ago = ago.ok_or_else(|| {
        format!(
            "{value} is neither a time (2026-11-17T09:30:00Z) nor a duration (90m, 2d)",
            value = quote(value)
        )
    })?;
    Ok(times::now_millis().saturating_sub(ago.0))
}

impl SessionFilter {
    /// Returns true if the filter is about sessions that the list leaves out by default.
    pub(super) const fn includes_ended(&self) -> bool {
        matches!(self, Self::Status(_) | Self::Alive(_) | Self::Archived(true))
    }

    pub(super) fn matches(&self, session: &SessionInfo) -> bool {
        match self {
            Self::Attention(state) => {
                session.attention.as_ref().is_some_and(|attention| attention.state == *state)
            }
            Self::Turn(turn) => session.turn == *turn,
            Self::Status(status) => session.status == *status,
            Self::Agent(agent) => session.adapter_slug == *agent,
            Self::Workspace(slug) => session.workspace_slug == *slug,
            Self::Label(label) => session.label.as_ref() == Some(label),
            Self::Archived(archived) => session.archived == *archived,
            Self::Alive(alive) => session.status.is_alive() == *alive,
            Self::Since(at) => times::last_activity(session) >= *at,
            Self::Before(at) => parse_timestamp(&session.started_at).unwrap_or_default().0 < *at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_read_and_wrong_ones_name_the_choices() {
        let read = |text: &str| text.parse::<SessionFilter>();
        assert_eq!(
            read("attention=needs-answer"),
            Ok(SessionFilter::Attention(AttentionState::NeedsAnswer))
        );
        assert_eq!(read("label=a=b"), Ok(SessionFilter::Label("a=b".to_owned())));
        assert_eq!(read("before=1970-01-01T00:00:01Z"), Ok(SessionFilter::Before(1_000)));
        let Ok(SessionFilter::Since(at)) = read("since=1h") else { panic!("no time") };
        assert!(times::now_millis() - at >= 3_600_000);
        for (wrong, choice) in [
            ("agent", "attention, turn"),
            ("x=y", "workspace"),
            ("turn=busy", "awaiting_input"),
            ("since=soon", "2d"),
        ] {
            assert!(read(wrong).is_err_and(|why| why.contains(choice)), "{wrong}");
        }
    }
}
