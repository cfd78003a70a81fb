//! The facts of a session that decide whether it wants something from a person (chapter 14 of the
//! specification). They are the same for every person; each person's marks are kept elsewhere.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use wharf_json::Json;

use super::outcome::{OutcomeCause, OutcomeKind};
use super::state::{State, Turn};
use crate::{
    Ask, AskKind, EndReason, Ending, FailureText, Millis, PauseReason, PromptEnd, Raw, Seq,
    StartNo, Status,
};

/// The longest text of a failure that is kept with the state. A reader shortens it further after
/// redaction.
const MAX_TEXT_CHARS: usize = 1_000;

/// The end of the newest turn, or the later death or failed start of the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastOutcome {
    pub cause: OutcomeCause,
    /// The event that ended the turn, or the session if no turn ended with it.
    pub seq: Seq,
    pub at: Millis,
    /// True once a later turn has started.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    superseded: bool,
    /// The start of the agent in which it happened: a death belongs to the turns that it cut off.
    start: StartNo,
    /// The failure in words for a person, as the agent or the host gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<Arc<str>>,
    /// How long the turn took; `None` if no turn ended, and in snapshots of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ran_for: Option<Millis>,
}

/// The facts of a session's attention. The states are taken in this order: an open ask, a raised
/// outcome that a person has not seen, work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttentionFacts {
    pub asks: usize,
    /// The ask that has waited longest.
    pub first_ask: Option<AskFact>,
    /// The ask that came last, if several are open.
    pub newest_ask: Option<AskFact>,
    pub raised: Option<Raised>,
    pub work: Option<Work>,
    /// The time since which the session is quiet if nothing else holds.
    pub quiet_since: Millis,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskFact {
    pub seq: Seq,
    /// `None` for an ask in a snapshot of an older version.
    pub at: Option<Millis>,
    pub kind: AskKind,
}

/// Holds an outcome or a pause that is shown to a person until the person has seen it or a new turn
/// starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raised {
    pub is_failure: bool,
    pub why: RaisedWhy,
    pub seq: Seq,
    pub at: Millis,
    pub text: Option<Arc<str>>,
    /// How long the turn took, if a turn ended.
    pub ran_for: Option<Millis>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaisedWhy {
    Outcome(OutcomeCause),
    Paused(PauseReason),
}

/// Work that is under way or waits for the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    pub kind: WorkKind,
    pub since: Millis,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkKind {
    Turn,
    Starting,
    Queued,
}

impl State {
    /// Returns the facts that decide the session's attention.
    pub fn attention_facts(&self) -> AttentionFacts {
        let to_fact = |ask: &Ask| AskFact {
            seq: Seq(ask.id.0),
            at: self.asked_at.get(&ask.id).copied(),
            kind: ask.kind,
        };
        let first_ask = self.asks.values().next().map(to_fact);
        let newest_ask =
            self.asks.values().next_back().map(to_fact).filter(|_| self.asks.len() > 1);
        let ended = self.outcome.as_ref().map(|outcome| outcome.at);
        let quiet_since = ended.max(self.ended_at).unwrap_or(self.created_at);
        let raised = self.raised();
        let work = self.work();
        AttentionFacts {
            asks: self.asks.len(),
            first_ask,
            newest_ask,
            raised,
            work,
            quiet_since,
        }
    }

    /// Returns the newest outcome in one word.
    pub fn last_outcome(&self) -> Option<OutcomeKind> {
        self.outcome.as_ref().map(|outcome| outcome.cause.kind())
    }

    fn raised(&self) -> Option<Raised> {
        // A person that ends the session knows its state, and an archived session is out of
        // everybody's way.
        if self.archived || (!self.status.is_alive() && self.ended_by_person()) {
            return None;
        }
        if let Some(paused) = &self.paused {
            let why = RaisedWhy::Paused(paused.why);
            let seq = paused.seq;
            let at = paused.since;
            return Some(Raised { is_failure: true, why, seq, at, text: None, ran_for: None });
        }
        if !self.turns.is_empty() {
            return None;
        }
        let outcome = self.outcome.as_ref().filter(|outcome| !outcome.superseded)?;
        let is_failure = match outcome.cause.kind() {
            // The person that ended the session knows of the turn, also once the session is back.
            _ if outcome.cause == OutcomeCause::Killed => return None,
            OutcomeKind::Failed | OutcomeKind::Refused | OutcomeKind::CutOff => true,
            OutcomeKind::Done | OutcomeKind::Stopped if self.queue.is_empty() => false,
            OutcomeKind::Done | OutcomeKind::Stopped | OutcomeKind::Cancelled => return None,
        };
        let why = RaisedWhy::Outcome(outcome.cause);
        let text = outcome.text.clone();
        Some(Raised {
            is_failure,
            why,
            seq: outcome.seq,
            at: outcome.at,
            text,
            ran_for: outcome.ran_for,
        })
    }

    fn work(&self) -> Option<Work> {
        if let Some(turn) = self.turns.first() {
            Some(Work { kind: WorkKind::Turn, since: turn.started_at })
        } else if self.status == Status::Starting {
            Some(Work { kind: WorkKind::Starting, since: self.started_at })
        } else {
            let since = self.queue.iter().map(|queued| queued.accepted_at).min()?;
            Some(Work { kind: WorkKind::Queued, since })
        }
    }

    fn ended_by_person(&self) -> bool {
        self.ending.as_ref().is_some_and(|ending| {
            matches!(ending.reason, EndReason::User | EndReason::Closed | EndReason::Finished)
        })
    }

    /// Notes the end of a prompt. `turn` is its turn, if it had one.
    pub(super) fn note_prompt_outcome(
        &mut self,
        seq: Seq,
        at: Millis,
        end: &PromptEnd,
        turn: Option<&Turn>,
    ) {
        let cause = OutcomeCause::of_end(end, turn.map(Turn::cancelled).unwrap_or_default());
        // A prompt without a turn counts only if it was to have one.
        if turn.is_none() && matches!(cause, OutcomeCause::Cancelled | OutcomeCause::SessionEnded) {
            return;
        }
        let text = if let PromptEnd::Failed { frame } = end { error_text(frame) } else { None };
        let ran_for = turn.map(|turn| Millis(at.0.saturating_sub(turn.started_at.0)));
        self.outcome = Some(LastOutcome {
            cause,
            seq,
            at,
            superseded: false,
            start: self.start,
            text,
            ran_for,
        });
    }

    /// Notes that a turn has started: earlier outcomes are past.
    pub(super) fn note_turn_started(&mut self) {
        if let Some(outcome) = &mut self.outcome {
            outcome.superseded = true;
        }
    }

    /// Notes the end of the session: it explains the end of the turns that it cut off, or is an
    /// outcome of its own.
    pub(super) fn note_ending_outcome(&mut self, seq: Seq, at: Millis, ending: &Ending) {
        let before = self
            .outcome
            .as_ref()
            .filter(|outcome| outcome.start == self.start && !outcome.superseded)
            .map(|outcome| outcome.cause);
        let text = ending
            .message
            .as_deref()
            .and_then(|message| first_line(FailureText::parse(message).reason));
        let (cause, belongs) = match ending.reason {
            EndReason::StartFailed => {
                let cause = if ending.needs_login {
                    OutcomeCause::LoginNeeded
                } else {
                    OutcomeCause::StartFailed
                };
                (cause, before == Some(OutcomeCause::StartFailed))
            }
            EndReason::LogFull => {
                (OutcomeCause::LogFull, before == Some(OutcomeCause::SessionEnded))
            }
            EndReason::AgentExited | EndReason::Unresponsive
                if before == Some(OutcomeCause::AgentExited) =>
            {
                (OutcomeCause::AgentExited, true)
            }
            EndReason::AgentExited | EndReason::Unresponsive
                if self.way_back().is_none() && self.queue.is_empty() =>
            {
                (OutcomeCause::AgentExited, false)
            }
            EndReason::User | EndReason::Closed | EndReason::Finished
                if before == Some(OutcomeCause::SessionEnded) =>
            {
                (OutcomeCause::Killed, true)
            }
            EndReason::AgentExited
            | EndReason::Unresponsive
            | EndReason::User
            | EndReason::Closed
            | EndReason::Finished
            | EndReason::Idle
            | EndReason::Memory
            | EndReason::HostShutdown
            | EndReason::HostRestarted => return,
        };
        if belongs && let Some(outcome) = &mut self.outcome {
            (outcome.cause, outcome.text) = (cause, text.or(outcome.text.take()));
        } else {
            let start = self.start;
            let ran_for = None;
            self.outcome =
                Some(LastOutcome { cause, seq, at, superseded: false, start, text, ran_for });
        }
    }

    /// Forgets a failed start once the agent runs.
    pub(super) fn note_started_outcome(&mut self) {
        let is_of_start = |outcome: &LastOutcome| {
            matches!(outcome.cause, OutcomeCause::StartFailed | OutcomeCause::LoginNeeded)
        };
        if self.outcome.as_ref().is_some_and(is_of_start) {
            self.outcome = None;
        }
    }
}

/// Returns the message of a JSON-RPC error.
fn error_text(frame: &Raw) -> Option<Arc<str>> {
    let message = Json::parse(frame.bytes()).ok()?.text_at(&["error", "message"]).ok()??;
    first_line(&message)
}

fn first_line(text: &str) -> Option<Arc<str>> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().take(MAX_TEXT_CHARS).collect::<String>().into())
}
