//! The facts of a session's attention in the form for listings: ids of events, times and texts for people (rule 14.1).

use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use wharf_core::{
    Ask, AskId, AskKind, Epoch, EventId, Millis, OutcomeCause, PauseReason, Raised, RaisedWhy, Seq, State, WorkKind,
};
use wharf_json::Json;
use wharf_store::Log;

use crate::format_timestamp;
use crate::redact::redact;

/// The longest text of an ask or a failure: one line of a list.
const MAX_TEXT_CHARS: usize = 200;
/// The bytes of a command or title that are looked at. Redaction has to see more than is shown.
const MAX_READ_CHARS: usize = 4_000;

/// The facts of a session's attention. The states are taken in this order: an open ask, a raised outcome that a person has
/// not seen, work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attention {
    /// The number of open asks.
    pub asks: usize,
    /// The ask that has waited longest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask: Option<AttentionAsk>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raised: Option<AttentionRaised>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<AttentionWork>,
    /// The time since which the session is quiet if nothing else holds.
    pub quiet_since: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttentionAsk {
    pub row: EventId,
    pub since: String,
    pub kind: AskKind,
    /// The command or the title that the agent asks about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// A finished turn or a failure, which a person is told of until it is seen or a new turn starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttentionRaised {
    pub is_failure: bool,
    pub row: EventId,
    pub since: String,
    pub why: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttentionWork {
    pub why: String,
    pub since: String,
}

impl Attention {
    /// Tells of a pause that could not even be written to the log.
    pub(crate) fn raise_pause(&mut self, why: PauseReason, row: EventId, now: Millis) {
        let why = pause_word(why).to_owned();
        let (since, text) = (format_timestamp(now), None);
        self.raised = Some(AttentionRaised { is_failure: true, row, since, why, text });
    }
}

/// Finds the ids and texts of a session's attention, and keeps them: they change seldom and are shown often.
#[derive(Debug)]
pub(crate) struct AttentionSource {
    log: Arc<dyn Log>,
    own_epoch: Epoch,
    /// The last event that was in the log when it was opened; later ones are of the host's own epoch.
    opened_at: Seq,
    known: Mutex<KnownTexts>,
}

#[derive(Debug, Default)]
struct KnownTexts {
    row: Option<EventId>,
    ask: Option<(AskId, Option<String>)>,
}

impl AttentionSource {
    pub(crate) fn new(log: Arc<dyn Log>, own_epoch: Epoch) -> Self {
        let opened_at = Seq(log.head().seq);
        Self { log, own_epoch, opened_at, known: Mutex::default() }
    }

    pub(crate) fn describe(&self, state: &State) -> Attention {
        let facts = state.attention_facts();
        let ask = facts.first_ask.and_then(|first| Some((first, state.asks.get(&AskId(first.seq.0))?)));
        let ask = ask.map(|(first, ask)| AttentionAsk {
            row: self.event_id(first.seq),
            since: format_timestamp(first.at.or(state.last_output_at).unwrap_or(state.created_at)),
            kind: first.kind,
            text: self.ask_text(ask),
        });
        let work = facts
            .work
            .map(|work| AttentionWork { why: work_word(work.kind).to_owned(), since: format_timestamp(work.since) });
        let raised = facts.raised.map(|raised| self.describe_raised(&raised));
        Attention { asks: facts.asks, ask, raised, work, quiet_since: format_timestamp(facts.quiet_since) }
    }

    fn describe_raised(&self, raised: &Raised) -> AttentionRaised {
        let why = match raised.why {
            RaisedWhy::Outcome(cause) => cause_word(cause),
            RaisedWhy::Paused(why) => pause_word(why),
        };
        AttentionRaised {
            is_failure: raised.is_failure,
            row: self.event_id(raised.seq),
            since: format_timestamp(raised.at),
            why: why.to_owned(),
            text: raised.text.as_deref().map(short_line),
        }
    }

    /// Returns the id of an event. Events of earlier hosts have their epoch in the log.
    fn event_id(&self, seq: Seq) -> EventId {
        if seq > self.opened_at {
            return EventId { epoch: self.own_epoch, seq };
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(row) = known.row.filter(|row| row.seq == seq) {
            return row;
        }
        let page = self.log.read(seq.0, 1).ok();
        let record = page.and_then(|page| page.records.into_iter().next()).filter(|record| record.seq == seq.0);
        // A damaged record keeps its number; its epoch is lost, and the lowest one counts as seen by everyone.
        let row = EventId { epoch: Epoch(record.map_or(0, |record| record.epoch)), seq };
        known.row = Some(row);
        row
    }

    fn ask_text(&self, ask: &Ask) -> Option<String> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, text)) = known.ask.as_ref().filter(|(id, _)| *id == ask.id) {
            return text.clone();
        }
        let text = read_subject(ask).map(|text| short_line(&text));
        known.ask = Some((ask.id, text.clone()));
        text
    }
}

/// Returns the command or the title in the agent's request, or the message of a form.
fn read_subject(ask: &Ask) -> Option<String> {
    let params = Json::parse(ask.frame.bytes()).ok()?.at(&["params"]).ok()??;
    match ask.kind {
        AskKind::Permission => {
            let command = params.at(&["toolCall", "rawInput", "command"]).ok().flatten();
            let command = command.and_then(read_command).filter(|command| !command.trim().is_empty());
            command.or_else(|| params.text_at(&["toolCall", "title"]).ok().flatten().map(Into::into))
        }
        AskKind::Elicitation => params.text_at(&["message"]).ok().flatten().map(Into::into),
    }
}

/// Reads a command: one text, or a list of words.
fn read_command(command: Json<'_>) -> Option<String> {
    if let Some(text) = command.text() {
        return Some(text.into_owned());
    }
    let words: Vec<_> = command.items().filter_map(Json::text).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// Returns the text in one redacted line without control characters, cut off where it is too long.
fn short_line(text: &str) -> String {
    let read: String = text.chars().take(MAX_READ_CHARS).collect();
    let redacted = redact(&read);
    let plain: String = redacted.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let mut line = String::new();
    for word in plain.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if line.chars().count() > MAX_TEXT_CHARS {
        line = line.chars().take(MAX_TEXT_CHARS - 1).chain(['…']).collect();
    }
    line
}

const fn work_word(kind: WorkKind) -> &'static str {
    match kind {
        WorkKind::Turn => "turn",
        WorkKind::Starting => "starting",
        WorkKind::Queued => "queued",
    }
}

const fn pause_word(why: PauseReason) -> &'static str {
    match why {
        PauseReason::StorageFull => "storage_full",
        PauseReason::StorageReadOnly => "storage_read_only",
    }
}

const fn cause_word(cause: OutcomeCause) -> &'static str {
    match cause {
        OutcomeCause::EndTurn => "done",
        OutcomeCause::Stopped => "stopped",
        OutcomeCause::Refusal => "refused",
        OutcomeCause::Cancelled => "cancelled",
        OutcomeCause::Error => "error",
        OutcomeCause::Deadline => "deadline",
        OutcomeCause::NoProgress => "no_progress",
        OutcomeCause::AgentExited => "agent_exited",
        OutcomeCause::StartFailed => "start_failed",
        OutcomeCause::LoginNeeded => "login",
        OutcomeCause::SessionEnded => "session_ended",
        OutcomeCause::LogFull => "log_full",
        OutcomeCause::HostShutdown => "host_shutdown",
        OutcomeCause::HostRestarted => "host_restarted",
    }
}

#[cfg(test)]
mod tests {
    use wharf_core::Raw;

    use super::*;

    fn ask(kind: AskKind, params: &str) -> Ask {
        let frame = Raw::new(format!(r#"{{"id":1,"method":"ask","params":{params}}}"#)).unwrap();
        let agent_request = Raw::new("1").unwrap();
        Ask { id: AskId(1), kind, agent_request, frame, options: Vec::new(), tool_call: None, prompt: None }
    }

    #[test]
    fn subject_of_an_ask_is_its_command_else_its_title() {
        let subject = |params: &str| read_subject(&ask(AskKind::Permission, params));
        let both = r#"{"toolCall":{"title":"Run it","rawInput":{"command":"rm -rf build"}}}"#;
        assert_eq!(subject(both).as_deref(), Some("rm -rf build"));
        let words = r#"{"toolCall":{"title":"Run it","rawInput":{"command":["bash","-lc","ls"]}}}"#;
        assert_eq!(subject(words).as_deref(), Some("bash -lc ls"));
        for other in
            [r#"{"toolCall":{"title":"Run it"}}"#, r#"{"toolCall":{"title":"Run it","rawInput":{"command":7}}}"#]
        {
            assert_eq!(subject(other).as_deref(), Some("Run it"));
        }
        assert_eq!(subject(r#"{"toolCall":{"toolCallId":"1"}}"#), None);
        let form = ask(AskKind::Elicitation, r#"{"message":"Which one?"}"#);
        assert_eq!(read_subject(&form).as_deref(), Some("Which one?"));
    }

    #[test]
    fn texts_are_one_redacted_line_of_bounded_length() {
        assert_eq!(short_line(" git\tpush\n\u{1b}[1m  now "), "git push [1m now");
        assert_eq!(short_line(&"ä".repeat(500)).chars().count(), MAX_TEXT_CHARS);
        let secret = format!("TOKEN=ghp_{} git push", "x1Y2".repeat(9));
        assert!(!short_line(&secret).contains("x1Y2"), "{}", short_line(&secret));
    }
}
