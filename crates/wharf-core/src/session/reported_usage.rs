//! Usage that the agent reports in its answers to prompts, in sum and for the newest turn (chapter
//! 15 of the specification).

use serde::{Deserialize, Serialize};
use wharf_json::Json;

use super::silent_meaning::{FoundSums, SilentMeaning};
use crate::{ExaminedAgent, Raw, StartKind, TokenSource, TokenSpan, UpdateKind, UsageMeaning};

/// The names of the counts in a report.
struct TokenNames {
    input: &'static str,
    output: &'static str,
    thought: &'static str,
    cached_read: &'static str,
    cached_write: &'static str,
    total: &'static str,
}

const ACP_NAMES: TokenNames = TokenNames {
    input: "inputTokens",
    output: "outputTokens",
    thought: "thoughtTokens",
    cached_read: "cachedReadTokens",
    cached_write: "cachedWriteTokens",
    total: "totalTokens",
};

const QUOTA_NAMES: TokenNames = TokenNames {
    input: "input_tokens",
    output: "output_tokens",
    thought: "thought_tokens",
    cached_read: "cached_tokens",
    cached_write: "cached_write_tokens",
    total: "total_tokens",
};

const OPENAI_NAMES: TokenNames = TokenNames {
    input: "promptTokens",
    output: "completionTokens",
    thought: "thoughtsTokens",
    cached_read: "cachedTokens",
    cached_write: "cachedWriteTokens",
    total: "totalTokens",
};

/// Tokens as an agent counts them. `None`: the agent did not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReportedTokens {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thought: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_read: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_write: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

/// The usage of a session's turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionTokens {
    /// The number of turns with reported usage.
    pub turns: u64,
    /// The sum of these turns.
    pub tokens: ReportedTokens,
    /// The newest of these turns.
    pub last_turn: ReportedTokens,
    /// True if a turn used more than its report says: the agent reports the last call only.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
    /// True if the log does not say what the numbers mean, and the adapter's name decided.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub guessed: bool,
    /// The number of [`COUNTING_RULE`] by which the sums were made.
    rule: u32,
    #[serde(skip_serializing_if = "TokenSeries::is_new")]
    series: TokenSeries,
}

/// Rises when the same log gives other sums: older snapshots are then folded again from the log's
/// beginning.
pub const COUNTING_RULE: u32 = 3;

/// Turns the numbers that an agent reports into those of single turns (rule 15.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TokenSeries {
    #[serde(skip_serializing_if = "Option::is_none")]
    meaning: Option<UsageMeaning>,
    /// The last running sum of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    counted: Option<ReportedTokens>,
    /// True until the first running sum of a fork, which covers its source.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    skips_next: bool,
    /// Tokens of the chunks since the end of the last turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    of_chunks: Option<ReportedTokens>,
    /// The search for running sums, if nothing tells what the numbers mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    silent: Option<SilentMeaning>,
}

/// The tokens of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnTokens {
    pub tokens: ReportedTokens,
    /// The tokens that earlier turns were counted too much, as this one has shown.
    pub excess: ReportedTokens,
}

impl ReportedTokens {
    /// Reads the usage in the result of an answer to `session/prompt`. Returns `None` if it reports
    /// none that can be read.
    fn from_result(result: Json<'_>, source: TokenSource) -> Option<Self> {
        match source {
            TokenSource::Answer => Self::read(result.at(&["usage"]).ok()??, &ACP_NAMES),
            TokenSource::Quota => {
                Self::read(result.at(&["_meta", "quota", "token_count"]).ok()??, &QUOTA_NAMES)
            }
            TokenSource::Chunk => None,
        }
    }

    fn read(usage: Json<'_>, names: &TokenNames) -> Option<Self> {
        let count = |name: &str| usage.last_member(name)?.integer()?.try_into().ok();
        let usage = Self {
            input: count(names.input),
            output: count(names.output),
            thought: count(names.thought),
            cached_read: count(names.cached_read),
            cached_write: count(names.cached_write),
            total: count(names.total),
        };
        (usage != Self::default()).then_some(usage)
    }

    fn counts(self) -> [Option<u64>; 6] {
        let Self { input, output, thought, cached_read, cached_write, total } = self;
        [input, output, thought, cached_read, cached_write, total]
    }

    pub(super) fn is_zero(self) -> bool {
        self.counts().into_iter().flatten().all(|count| count == 0)
    }

    /// Returns true if one of the counts is lower than before.
    pub(super) fn is_below(self, before: Self) -> bool {
        self.counts()
            .into_iter()
            .zip(before.counts())
            .any(|(now, before)| now.is_some() && now < before)
    }

    /// Returns the counts less those of before. A count that was not reported before counts from
    /// zero.
    pub(super) fn minus(self, before: Self) -> Self {
        let less = |now: Option<u64>, before: Option<u64>| {
            now.map(|now| now.saturating_sub(before.unwrap_or(0)))
        };
        Self {
            input: less(self.input, before.input),
            output: less(self.output, before.output),
            thought: less(self.thought, before.thought),
            cached_read: less(self.cached_read, before.cached_read),
            cached_write: less(self.cached_write, before.cached_write),
            total: less(self.total, before.total),
        }
    }

    /// Returns these counts, and those of before where one is not reported.
    pub(super) fn or(self, before: Self) -> Self {
        Self {
            input: self.input.or(before.input),
            output: self.output.or(before.output),
            thought: self.thought.or(before.thought),
            cached_read: self.cached_read.or(before.cached_read),
            cached_write: self.cached_write.or(before.cached_write),
            total: self.total.or(before.total),
        }
    }

    /// Adds the other counts. A count that neither has stays unknown.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (None, None) => None,
            (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
        };
        Self {
            input: sum(self.input, other.input),
            output: sum(self.output, other.output),
            thought: sum(self.thought, other.thought),
            cached_read: sum(self.cached_read, other.cached_read),
            cached_write: sum(self.cached_write, other.cached_write),
            total: sum(self.total, other.total),
        }
    }
}

impl TokenSeries {
    /// Notes that an agent runs. `meaning` is `None` if the log does not say it.
    pub fn begin_process(&mut self, adapter: &str, meaning: Option<UsageMeaning>, how: StartKind) {
        let known = meaning.or_else(|| ExaminedAgent::find(adapter).map(|agent| agent.meaning));
        let meaning = known.unwrap_or_else(|| self.search_running_sums());
        if known.is_some() {
            self.silent = None;
        }
        self.meaning = Some(meaning);
        self.of_chunks = None;
        match meaning.tokens {
            TokenSpan::Process => self.counted = None,
            TokenSpan::Session if how == StartKind::New => {
                (self.counted, self.skips_next) = (None, false)
            }
            // A fork can come back before its first answer.
            TokenSpan::Session => self.skips_next |= how == StartKind::Fork,
            TokenSpan::Turn | TokenSpan::LastCall | TokenSpan::None => {}
        }
    }

    /// Returns the meaning of the numbers of an unknown agent, as far as the numbers themselves
    /// show it.
    fn search_running_sums(&mut self) -> UsageMeaning {
        let silent = self.silent.get_or_insert_default();
        silent.begin_process();
        let tokens = if silent.are_running_sums() { TokenSpan::Process } else { TokenSpan::Turn };
        UsageMeaning { tokens, source: TokenSource::Answer }
    }

    fn reads_chunks(&self) -> bool {
        self.meaning.is_some_and(|meaning| meaning.source == TokenSource::Chunk)
    }

    /// Returns true if a turn used more than the agent reports of it.
    pub fn is_at_least(&self) -> bool {
        self.meaning.is_some_and(|meaning| meaning.tokens == TokenSpan::LastCall)
    }

    /// Takes an update of the agent.
    pub fn add_update(&mut self, kind: UpdateKind, frame: &Raw) {
        if kind == UpdateKind::AgentMessageChunk && self.reads_chunks() {
            self.add_chunk(frame);
        }
        if let Some(silent) = self.silent.as_mut().filter(|silent| silent.is_open()) {
            silent.add_update(kind, frame);
        }
    }

    /// Takes a message chunk of an agent that reports each call of the model.
    fn add_chunk(&mut self, frame: &Raw) {
        let reported = || {
            let usage = Json::parse(frame.bytes())
                .ok()?
                .at(&["params", "update", "_meta", "usage"])
                .ok()??;
            ReportedTokens::read(usage, &ACP_NAMES)
                .or_else(|| ReportedTokens::read(usage, &OPENAI_NAMES))
        };
        if let Some(reported) = reported() {
            self.of_chunks = Some(self.of_chunks.unwrap_or_default().plus(reported));
        }
    }

    /// Returns the tokens of a turn that ran and has ended. `result` is that of its answer, `None`
    /// if it has none: its chunks count all the same.
    pub fn take_turn(&mut self, result: Option<Json<'_>>) -> Option<TurnTokens> {
        let meaning = self.meaning.unwrap_or_default();
        let of_chunks = self.of_chunks.take();
        if meaning.source == TokenSource::Chunk {
            return of_chunks
                .filter(|_| meaning.tokens != TokenSpan::None)
                .map(TurnTokens::of_turn);
        }
        let Some(reported) = result.and_then(|result| read_turn(result, meaning.source)) else {
            if let Some(silent) = &mut self.silent {
                silent.skip_turn();
            }
            return None;
        };
        let silent = self.silent.as_mut().filter(|silent| silent.is_open());
        if let Some(FoundSums { before, excess }) =
            silent.and_then(|silent| silent.take_turn(reported))
        {
            self.meaning = Some(UsageMeaning { tokens: TokenSpan::Process, ..meaning });
            self.counted = before;
            return self.take_running_sum(reported).map(|tokens| TurnTokens { tokens, excess });
        }
        let tokens = match meaning.tokens {
            TokenSpan::Turn | TokenSpan::LastCall => Some(reported),
            TokenSpan::Session | TokenSpan::Process => self.take_running_sum(reported),
            TokenSpan::None => None,
        };
        tokens.map(TurnTokens::of_turn)
    }

    fn take_running_sum(&mut self, reported: ReportedTokens) -> Option<ReportedTokens> {
        let before = self.counted.unwrap_or_default();
        if std::mem::take(&mut self.skips_next) {
            self.counted = Some(reported.or(before));
            return None;
        }
        if reported.is_below(before) {
            self.counted = Some(reported);
            return Some(reported);
        }
        self.counted = Some(reported.or(before));
        Some(reported.minus(before))
    }

    fn is_new(&self) -> bool {
        *self == Self::default()
    }
}

impl TurnTokens {
    fn of_turn(tokens: ReportedTokens) -> Self {
        Self { tokens, ..Self::default() }
    }
}

/// Reads the numbers in the result of an answer. Returns `None` if it has none, or zeros of a
/// cancelled turn: the next running sum covers what that one used.
fn read_turn(result: Json<'_>, source: TokenSource) -> Option<ReportedTokens> {
    let reported = ReportedTokens::from_result(result, source)?;
    let is_cancelled = result
        .text_at(&["stopReason"])
        .ok()
        .flatten()
        .is_some_and(|reason| reason == "cancelled");
    (!is_cancelled || !reported.is_zero()).then_some(reported)
}

impl SessionTokens {
    pub(super) fn new() -> Self {
        Self { rule: COUNTING_RULE, ..Self::default() }
    }

    /// Returns the number of the rule by which the sums were made.
    pub const fn rule(&self) -> u32 {
        self.rule
    }

    /// Returns true if the log gives other sums today.
    pub const fn is_outdated(&self) -> bool {
        self.rule < COUNTING_RULE
    }

    pub(super) fn mark_as_current(&mut self) {
        self.guessed |= self.is_outdated() && self.turns > 0;
        self.rule = COUNTING_RULE;
    }

    pub(super) fn begin_process(
        &mut self,
        adapter: &str,
        meaning: Option<UsageMeaning>,
        how: StartKind,
    ) {
        self.guessed |= meaning.is_none();
        self.series.begin_process(adapter, meaning, how);
    }

    pub(super) fn add_update(&mut self, kind: UpdateKind, frame: &Raw) {
        self.series.add_update(kind, frame);
    }

    /// Counts a turn that ran. `answer` is the agent's, `None` if it gave none.
    pub(super) fn end_turn(&mut self, answer: Option<&Raw>) {
        let result = answer.and_then(|answer| {
            Json::parse(answer.bytes())
                .and_then(|answer| answer.at(&["result"]))
                .ok()
                .flatten()
        });
        let Some(TurnTokens { tokens, excess }) = self.series.take_turn(result) else { return };
        self.turns = self.turns.saturating_add(1);
        self.tokens = self.tokens.minus(excess).plus(tokens);
        self.last_turn = tokens;
        self.at_least |= self.series.is_at_least();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROCESS: UsageMeaning =
        UsageMeaning { tokens: TokenSpan::Process, source: TokenSource::Answer };
    const SESSION: UsageMeaning =
        UsageMeaning { tokens: TokenSpan::Session, source: TokenSource::Answer };

    fn raw(text: &str) -> Raw {
        Raw::new_checked_before(text.to_owned().into())
    }

    fn answer(input: u64, output: u64) -> Raw {
        let usage = format!(r#"{{"inputTokens":{input},"outputTokens":{output}}}"#);
        raw(&format!(r#"{{"result":{{"stopReason":"end_turn","usage":{usage}}}}}"#))
    }

    fn started(meaning: UsageMeaning) -> SessionTokens {
        let mut usage = SessionTokens::new();
        usage.begin_process("any", Some(meaning), StartKind::New);
        usage
    }

    fn sums(usage: &SessionTokens) -> (u64, Option<u64>, Option<u64>) {
        (usage.turns, usage.tokens.input, usage.tokens.output)
    }

    #[test]
    fn running_sums_of_a_process_count_once_and_begin_again_with_the_next_process() {
        let mut usage = started(PROCESS);
        [(100, 7), (250, 9), (250, 9)]
            .into_iter()
            .for_each(|(input, output)| usage.end_turn(Some(&answer(input, output))));
        assert_eq!(sums(&usage), (3, Some(250), Some(9)));
        usage.begin_process("any", Some(PROCESS), StartKind::Load);
        usage.end_turn(Some(&answer(300, 20)));
        assert_eq!(sums(&usage), (4, Some(550), Some(29)));
        assert_eq!((usage.last_turn.input, usage.guessed), (Some(300), false));
    }

    #[test]
    fn running_sums_of_a_session_go_on_with_the_next_process_until_one_falls() {
        let mut usage = started(SESSION);
        usage.end_turn(Some(&answer(100, 10)));
        usage.begin_process("any", Some(SESSION), StartKind::Load);
        usage.end_turn(Some(&answer(160, 12)));
        assert_eq!(sums(&usage), (2, Some(160), Some(12)));
        // The output fell: all counters began again.
        usage.end_turn(Some(&answer(170, 5)));
        assert_eq!(sums(&usage), (3, Some(330), Some(17)));
    }

    #[test]
    fn first_running_sum_of_a_fork_is_that_of_its_source() {
        let mut usage = SessionTokens::new();
        usage.begin_process("any", Some(SESSION), StartKind::Fork);
        usage.end_turn(Some(&answer(1_000, 100)));
        assert_eq!(sums(&usage), (0, None, None));
        usage.end_turn(Some(&answer(1_030, 101)));
        assert_eq!(sums(&usage), (1, Some(30), Some(1)));
    }

    #[test]
    fn fork_that_comes_back_before_its_first_answer_does_not_count_its_source() {
        let mut usage = SessionTokens::new();
        usage.begin_process("any", Some(SESSION), StartKind::Fork);
        usage.begin_process("any", Some(SESSION), StartKind::Load);
        usage.end_turn(Some(&answer(1_000, 100)));
        assert_eq!(sums(&usage), (0, None, None));
        usage.end_turn(Some(&answer(1_030, 101)));
        assert_eq!(sums(&usage), (1, Some(30), Some(1)));
        // A new session of the agent has no source.
        usage.begin_process("any", Some(SESSION), StartKind::Fork);
        usage.begin_process("any", Some(SESSION), StartKind::New);
        usage.end_turn(Some(&answer(7, 1)));
        assert_eq!(sums(&usage), (2, Some(37), Some(2)));
    }

    #[test]
    fn zeros_of_a_cancelled_turn_reset_no_running_sum() {
        let mut usage = started(PROCESS);
        usage.end_turn(Some(&answer(100, 7)));
        let zeros =
            r#"{"result":{"stopReason":"cancelled","usage":{"inputTokens":0,"outputTokens":0}}}"#;
        usage.end_turn(Some(&raw(zeros)));
        usage.end_turn(Some(&answer(180, 8)));
        assert_eq!(sums(&usage), (2, Some(180), Some(8)));
    }

    #[test]
    fn calls_of_the_model_in_chunks_add_up_for_their_turn() {
        let mut usage =
            started(UsageMeaning { tokens: TokenSpan::Turn, source: TokenSource::Chunk });
        for (names, input) in
            [(["inputTokens", "outputTokens"], 100), (["promptTokens", "completionTokens"], 140)]
        {
            let counts = format!(r#"{{"{}":{input},"{}":1}}"#, names[0], names[1]);
            let frame =
                raw(&format!(r#"{{"params":{{"update":{{"_meta":{{"usage":{counts}}}}}}}}}"#));
            usage.add_update(UpdateKind::AgentMessageChunk, &frame);
        }
        usage.end_turn(Some(&raw(r#"{"result":{"stopReason":"end_turn"}}"#)));
        assert_eq!(sums(&usage), (1, Some(240), Some(2)));
        usage.end_turn(Some(&raw(r#"{"result":{"stopReason":"end_turn"}}"#)));
        assert_eq!(sums(&usage), (1, Some(240), Some(2)));
    }

    #[test]
    fn log_without_a_meaning_is_counted_by_the_adapter_and_marked() {
        let mut usage = SessionTokens::new();
        usage.begin_process("hermes", None, StartKind::New);
        [(100, 7), (200, 9)]
            .into_iter()
            .for_each(|(input, output)| usage.end_turn(Some(&answer(input, output))));
        assert_eq!((sums(&usage), usage.guessed), ((2, Some(200), Some(9)), true));

        let mut usage = SessionTokens::new();
        usage.begin_process("gemini", None, StartKind::New);
        let quota = r#"{"quota":{"token_count":{"input_tokens":5,"output_tokens":6}}}"#;
        usage.end_turn(Some(&raw(&format!(
            r#"{{"result":{{"stopReason":"end_turn","_meta":{quota}}}}}"#
        ))));
        assert_eq!(sums(&usage), (1, Some(5), Some(6)));
    }

    #[test]
    fn sums_of_last_calls_are_lower_bounds() {
        let mut usage =
            started(UsageMeaning { tokens: TokenSpan::LastCall, source: TokenSource::Answer });
        [(100, 7), (120, 9)]
            .into_iter()
            .for_each(|(input, output)| usage.end_turn(Some(&answer(input, output))));
        assert_eq!((sums(&usage), usage.at_least), ((2, Some(220), Some(16)), true));
    }
}
