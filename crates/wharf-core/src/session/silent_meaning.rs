//! Finds out whether an agent whose manifest says nothing about its numbers reports running sums
//! (rule 15.1).

use serde::{Deserialize, Serialize};
use wharf_json::Json;

use super::reported_usage::ReportedTokens;
use crate::{Raw, UpdateKind};

/// The answers of one process after which sums that always rise are suspected.
const MIN_SUSPECTED_ANSWERS: u32 = 5;

/// The signs in the answers of an agent so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct SilentMeaning {
    verdict: Verdict,
    /// The last answer of this process.
    last: Option<ReportedTokens>,
    /// The number of answers of this process.
    answers: u32,
    /// The bytes of text, thoughts and tool inputs in the running turn.
    output_bytes: u64,
    /// True if the running turn has text.
    has_text: bool,
    /// True if the output tokens did not rise in a turn with text.
    has_stalled: bool,
    /// True if a turn without output had the numbers of the turn before.
    has_repeated: bool,
    /// True if a turn had more output tokens than its output has bytes.
    has_exceeded: bool,
    /// The tokens that were counted too often if the numbers are running sums.
    excess: ReportedTokens,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    #[default]
    Open,
    PerTurn,
    RunningSums,
}

/// Running sums that were taken for the numbers of turns until now.
pub(super) struct FoundSums {
    /// The running sum at the end of the turn before, in the same process.
    pub(super) before: Option<ReportedTokens>,
    /// The tokens that were counted too often.
    pub(super) excess: ReportedTokens,
}

impl SilentMeaning {
    /// Notes that a process of the agent has started.
    pub(super) fn begin_process(&mut self) {
        (self.last, self.answers, self.output_bytes, self.has_text) = (None, 0, 0, false);
    }

    pub(super) fn is_open(&self) -> bool {
        self.verdict == Verdict::Open
    }

    pub(super) fn are_running_sums(&self) -> bool {
        self.verdict == Verdict::RunningSums
    }

    /// Takes an update of the running turn.
    pub(super) fn add_update(&mut self, kind: UpdateKind, frame: &Raw) {
        let bytes = count_output_bytes(kind, frame);
        self.output_bytes = self.output_bytes.saturating_add(bytes);
        self.has_text |= bytes > 0 && kind == UpdateKind::AgentMessageChunk;
    }

    /// Forgets the output of a turn that has ended without numbers.
    pub(super) fn skip_turn(&mut self) {
        (self.output_bytes, self.has_text) = (0, false);
    }

    /// Takes the numbers of a turn. Returns the sums so far once they are found to be running ones.
    pub(super) fn take_turn(&mut self, reported: ReportedTokens) -> Option<FoundSums> {
        let output_bytes = std::mem::take(&mut self.output_bytes);
        let has_text = std::mem::take(&mut self.has_text);
        self.answers = self.answers.saturating_add(1);
        let before = self.last.replace(reported.or(self.last.unwrap_or_default()));
        // The first numbers of a process are those of its turn, whatever they mean.
        let earlier = before?;
        if reported.is_below(earlier) {
            self.verdict = Verdict::PerTurn;
            return None;
        }
        self.has_stalled |= has_text && reported.output <= earlier.output;
        if output_bytes == 0 {
            self.has_repeated |= reported == earlier && !reported.is_zero();
        } else {
            self.has_exceeded |= reported.output > Some(output_bytes);
        }
        if self.has_signs() {
            self.verdict = Verdict::RunningSums;
            return Some(FoundSums { before, excess: self.excess });
        }
        let own = reported.minus(earlier);
        self.excess = self.excess.plus(reported.minus(own));
        None
    }

    /// Returns true if both strong signs were seen, or one of them and output that always rises.
    fn has_signs(&self) -> bool {
        let is_suspected = self.answers >= MIN_SUSPECTED_ANSWERS && !self.has_stalled;
        match (self.has_repeated, self.has_exceeded) {
            (true, true) => true,
            (true, false) | (false, true) => is_suspected,
            (false, false) => false,
        }
    }
}

/// Returns the bytes of text, thoughts and tool inputs in an update; rather too many than too few.
fn count_output_bytes(kind: UpdateKind, frame: &Raw) -> u64 {
    let length_at = |path: &[&str]| {
        Json::checked_before(frame.as_str())
            .first_at(path)
            .map(|value| value.raw().len())
    };
    let bytes = match kind {
        UpdateKind::AgentMessageChunk | UpdateKind::AgentThoughtChunk => {
            let text = length_at(&["params", "update", "content", "text"])
                .map(|length| length.saturating_sub(2));
            text.or_else(|| length_at(&["params", "update", "content"])).unwrap_or(0)
        }
        UpdateKind::ToolCall => length_at(&["params", "update", "rawInput"]).unwrap_or(frame.len()),
        UpdateKind::ToolCallUpdate => length_at(&["params", "update", "rawInput"]).unwrap_or(0),
        UpdateKind::Plan | UpdateKind::Other => frame.len(),
        UpdateKind::UserMessageChunk
        | UpdateKind::AvailableCommandsUpdate
        | UpdateKind::CurrentModeUpdate
        | UpdateKind::ConfigOptionUpdate
        | UpdateKind::SessionInfoUpdate
        | UpdateKind::UsageUpdate => 0,
    };
    bytes as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ExaminedAgent, SessionTokens, StartKind, UsageMeaning};

    fn raw(text: &str) -> Raw {
        Raw::new_checked_before(text.to_owned().into())
    }

    /// Runs a turn with this text, whose answer reports these tokens.
    fn run_turn(usage: &mut SessionTokens, text: &str, (input, output): (u64, u64)) {
        if !text.is_empty() {
            let update = format!(r#"{{"content":{{"type":"text","text":"{text}"}}}}"#);
            let frame = raw(&format!(r#"{{"params":{{"update":{update}}}}}"#));
            usage.add_update(UpdateKind::AgentMessageChunk, &frame);
        }
        let tokens = format!(r#"{{"inputTokens":{input},"outputTokens":{output}}}"#);
        usage.end_turn(Some(&raw(&format!(
            r#"{{"result":{{"stopReason":"end_turn","usage":{tokens}}}}}"#
        ))));
    }

    /// Returns the tokens of a session whose agent is unknown.
    fn started() -> SessionTokens {
        let mut usage = SessionTokens::new();
        usage.begin_process("unknown", None, StartKind::New);
        usage
    }

    fn sums(usage: &SessionTokens) -> (u64, Option<u64>, Option<u64>) {
        (usage.turns, usage.tokens.input, usage.tokens.output)
    }

    #[test]
    fn both_strong_signs_show_running_sums_from_the_start_of_the_series() {
        let mut usage = started();
        run_turn(&mut usage, "a short answer", (100, 5));
        // More tokens than bytes.
        run_turn(&mut usage, "ok", (220, 9));
        assert_eq!(sums(&usage), (2, Some(320), Some(14)));
        // The same numbers without output.
        run_turn(&mut usage, "", (220, 9));
        assert_eq!((sums(&usage), usage.guessed), ((3, Some(220), Some(9)), true));
        run_turn(&mut usage, "more", (300, 12));
        assert_eq!((sums(&usage), usage.last_turn.input), ((4, Some(300), Some(12)), Some(80)));
        // The next process counts from zero.
        usage.begin_process("unknown", None, StartKind::Load);
        run_turn(&mut usage, "again", (90, 4));
        assert_eq!(sums(&usage), (5, Some(390), Some(16)));
    }

    #[test]
    fn output_that_always_rises_and_one_strong_sign_show_running_sums() {
        let mut usage = started();
        for turn in 1..=4 {
            run_turn(&mut usage, "a longer answer with many words", (100 * turn, 10 * turn));
        }
        assert_eq!(sums(&usage), (4, Some(1_000), Some(100)));
        run_turn(&mut usage, "short", (500, 50));
        assert_eq!(sums(&usage), (5, Some(500), Some(50)));
    }

    #[test]
    fn numbers_that_fall_or_only_rise_are_those_of_turns() {
        let mut usage = started();
        let long = "a longer answer with many words";
        for turn in 1..=8 {
            run_turn(&mut usage, long, (100 * turn, 2 * turn));
        }
        assert_eq!(sums(&usage), (8, Some(3_600), Some(72)));
        // A falling number decides it for good: later signs count no more.
        run_turn(&mut usage, long, (50, 3));
        for _ in 0..6 {
            run_turn(&mut usage, "x", (60, 9));
            run_turn(&mut usage, "", (60, 9));
        }
        assert_eq!(sums(&usage), (21, Some(3_650 + 720), Some(75 + 108)));
    }

    #[test]
    fn repeat_of_an_answer_without_output_is_one_sign_only() {
        let mut usage = started();
        run_turn(&mut usage, "some words", (100, 3));
        run_turn(&mut usage, "", (100, 3));
        assert_eq!(sums(&usage), (2, Some(200), Some(6)));
    }

    #[test]
    fn stated_and_known_meanings_are_not_examined() {
        for (adapter, meaning) in [("claude", None), ("unknown", Some(UsageMeaning::default()))] {
            let mut usage = SessionTokens::new();
            usage.begin_process(adapter, meaning, StartKind::New);
            for _ in 0..3 {
                run_turn(&mut usage, "x", (100, 9));
                run_turn(&mut usage, "", (100, 9));
            }
            assert_eq!(
                (sums(&usage), usage.guessed),
                ((6, Some(600), Some(54)), meaning.is_none()),
                "{adapter}"
            );
        }
    }

    #[test]
    fn agents_are_known_by_the_names_of_their_programs_too() {
        for (name, other) in [
            ("hermes", "hermes-agent"),
            ("vibe", "mistral-vibe"),
            ("copilot", "copilot-cli"),
            ("gemini", "gemini-cli"),
            ("qwen", "qwen-code"),
            ("claude", "claude-agent-acp"),
            ("claude", "claude-acp"),
            ("codex", "codex-acp"),
        ] {
            let known = ExaminedAgent::find(name);
            assert_eq!((known.is_some(), ExaminedAgent::find(other)), (true, known), "{other}");
        }
        for unknown in ["unknown", "github-copilot", ""] {
            assert_eq!(ExaminedAgent::find(unknown), None, "{unknown}");
        }
    }
}
