//! The options of verbs that watch a turn: its format, its asks, its time.

use std::time::Duration;

use clap::{Args, ValueEnum};
use wharf_render::style::Screen;

use super::AskPolicy;

/// How long an ask may stay open without a terminal if the caller has not chosen how to handle
/// asks: long enough for a person who is notified, and not for ever.
const UNATTENDED_ASK_LIMIT: Duration = Duration::from_secs(600);

/// How asks are answered. Without an option, the person at the terminal is asked; without a
/// terminal, an ask stays open for ten minutes at most.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct AskFlags {
    /// Refuse whatever the agent asks permission for.
    #[arg(long, conflicts_with_all = ["allow", "on_ask"])]
    deny: bool,
    /// Allow whatever the agent asks permission for, each time once. It then does as it likes.
    #[arg(long, conflicts_with = "on_ask")]
    allow: bool,
    /// How an ask is handled where nobody can be asked [default: wait, at most 10 minutes; then
    /// exit code 14].
    #[arg(long, value_name = "WHAT")]
    on_ask: Option<OnAsk>,
    /// Cancel the turn after this time, such as 90s or 10m, and exit with code 15.
    #[arg(long, value_name = "DURATION")]
    timeout: Option<wharf_config::Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnAsk {
    /// Wait for the answer of another client, as long as it takes.
    Wait,
    /// Refuse it, as --deny does.
    Reject,
    /// Cancel the turn and exit with code 14.
    Fail,
}

impl AskFlags {
    /// Returns how asks are answered, for a verb with or without a person at its terminal.
    pub(crate) fn ask_policy(self, is_person_present: bool) -> AskPolicy {
        match (self.deny, self.allow, self.on_ask) {
            (true, _, _) | (_, _, Some(OnAsk::Reject)) => AskPolicy::Deny,
            (_, true, _) if is_person_present => AskPolicy::Allow(None),
            (_, true, _) => AskPolicy::Allow(Some(UNATTENDED_ASK_LIMIT)),
            (_, _, Some(OnAsk::Fail)) => AskPolicy::Fail,
            (_, _, _) if is_person_present => AskPolicy::Person,
            (_, _, Some(OnAsk::Wait)) => AskPolicy::Others(None),
            (_, _, None) => AskPolicy::Others(Some(UNATTENDED_ASK_LIMIT)),
        }
    }

    /// Returns the time that the turn may take.
    pub(crate) fn timeout(self) -> Option<Duration> {
        self.timeout.and_then(wharf_config::Duration::to_std)
    }

    /// Returns true if an option was given that only a watched turn has a use for.
    pub(crate) fn is_given(self) -> bool {
        self.deny || self.allow || self.on_ask.is_some() || self.timeout.is_some()
    }
}

/// The format of a watched turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnFormat {
    /// The output of the session as lines, for a pipe.
    Lines,
    /// Rows for a person, as they grow.
    Live,
    /// The text of the answer alone.
    Text,
    /// One object at the end.
    Json,
    /// The events of the rows as they come, one per line, and the object at the end.
    StreamJson,
}

#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct FormatFlags {
    /// Print one JSON object at the end: the turn with its text, stop reason and usage, and the
    /// session.
    #[arg(long, conflicts_with_all = ["stream_json", "text"])]
    pub(crate) json: bool,
    /// Print rows and their changes as they come, one JSON object per line.
    #[arg(long, conflicts_with = "text")]
    stream_json: bool,
    /// Print the text of the answer only.
    #[arg(long)]
    text: bool,
}

impl FormatFlags {
    pub(crate) const fn choose(self, screen: Screen) -> TurnFormat {
        match (self.json, self.stream_json, self.text, screen.terminal) {
            (true, _, _, _) => TurnFormat::Json,
            (_, true, _, _) => TurnFormat::StreamJson,
            (_, _, true, _) => TurnFormat::Text,
            (_, _, _, true) => TurnFormat::Live,
            (_, _, _, false) => TurnFormat::Lines,
        }
    }

    /// Returns true if a format was given that only a watched turn has.
    pub(crate) const fn is_given(self) -> bool {
        self.stream_json || self.text
    }
}

impl TurnFormat {
    /// Returns true if the session's rows are followed, not its lines.
    pub(crate) const fn follows_rows(self) -> bool {
        !matches!(self, Self::Lines)
    }

    /// Returns true for output that a program reads: notes about the session are left out.
    pub(crate) const fn is_for_program(self) -> bool {
        matches!(self, Self::Text | Self::Json | Self::StreamJson)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct OnlyAskFlags {
        #[command(flatten)]
        asks: AskFlags,
    }

    fn policy(arguments: &[&str], is_person_present: bool) -> AskPolicy {
        let arguments = std::iter::once(&"wharf").chain(arguments);
        OnlyAskFlags::try_parse_from(arguments)
            .unwrap()
            .asks
            .ask_policy(is_person_present)
    }

    #[test]
    fn ask_without_options_is_put_to_the_person_or_waits_ten_minutes() {
        assert_eq!(policy(&[], true), AskPolicy::Person);
        assert_eq!(policy(&[], false), AskPolicy::Others(Some(Duration::from_secs(10 * 60))));
    }

    #[test]
    fn options_say_how_asks_are_answered() {
        for (arguments, with_person, without_person) in [
            (&["--on-ask", "wait"][..], AskPolicy::Person, AskPolicy::Others(None)),
            (&["--on-ask", "reject"], AskPolicy::Deny, AskPolicy::Deny),
            (&["--on-ask", "fail"], AskPolicy::Fail, AskPolicy::Fail),
            (&["--deny"], AskPolicy::Deny, AskPolicy::Deny),
            (&["--allow"], AskPolicy::Allow(None), AskPolicy::Allow(Some(UNATTENDED_ASK_LIMIT))),
        ] {
            assert_eq!(policy(arguments, true), with_person, "{arguments:?}");
            assert_eq!(policy(arguments, false), without_person, "{arguments:?}");
        }
    }
}
