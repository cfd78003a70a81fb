//! The facts of a session's attention in the form for listings: ids of events, times and texts for
//! people (rule 14.1).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use wharf_acp::{Payload, ToolUpdate};
use wharf_core::{
    AgentEvent, Ask, AskFact, AskId, AskKind, Epoch, Event, EventId, Millis, OutcomeCause,
    PauseReason, Raised, RaisedWhy, Seq, State, WorkKind,
};
use wharf_json::Json;
use wharf_store::Log;
use wharf_transcript::{read_command, show_in_one_line};

use crate::format_timestamp;

/// The events and bytes before an ask in which the tool call that it names is looked for.
const MAX_UPDATES_BACK: u64 = 256;
const MAX_BYTES_BACK: usize = 1 << 20;

/// The facts of a session's attention. The states are taken in this order: an open ask, a raised
/// outcome that a person has not seen, work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attention {
    /// The number of open asks.
    pub asks: usize,
    /// The ask that has waited longest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask: Option<AttentionAsk>,
    /// The ask that came last, if several are open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest_ask: Option<AttentionAsk>,
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

/// A finished turn or a failure. The host shows it to people until a person has seen it or a new
/// turn starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttentionRaised {
    pub is_failure: bool,
    /// `None` for a pause that the host could not write to the log, since no event stands for it
    /// then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row: Option<EventId>,
    pub since: String,
    pub why: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// How long the turn took, if a turn ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ran_for_millis: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttentionWork {
    pub why: String,
    pub since: String,
}

/// Returns the command of a tool call, else its title.
fn read_tool_subject(call: Json<'_>) -> Option<String> {
    let input = call.at(&["rawInput"]).ok().flatten();
    let command = input.and_then(|input| read_command(input).ok().flatten());
    let title = || call.text_at(&["title"]).ok().flatten().map(Into::into);
    command.or_else(title).filter(|text: &String| !text.trim().is_empty())
}

impl AttentionAsk {
    /// Returns the kind in the word of the session's attention.
    pub(crate) const fn kind_word(&self) -> &'static str {
        match self.kind {
            AskKind::Permission => "permission",
            AskKind::Elicitation => "elicitation",
        }
    }
}

impl Attention {
    /// Tells of a pause that could not even be written to the log. No event stands for it, so that
    /// no person has seen it.
    pub(crate) fn raise_pause(&mut self, why: PauseReason, now: Millis) {
        let why = pause_word(why).to_owned();
        let since = format_timestamp(now);
        self.raised = Some(AttentionRaised {
            is_failure: true,
            row: None,
            since,
            why,
            text: None,
            ran_for_millis: None,
        });
    }
}

/// Finds the ids and texts of a session's attention, and keeps them: they change seldom and are
/// shown often.
#[derive(Debug)]
pub(crate) struct AttentionSource {
    log: Arc<dyn Log>,
    own_epoch: Epoch,
    /// The last event that was in the log when it was opened; later ones are of the host's own
    /// epoch.
    opened_at: Seq,
    known: Mutex<KnownTexts>,
}

#[derive(Debug, Default)]
struct KnownTexts {
    row: Option<EventId>,
    /// The first ask and the newest, as far as they were asked for.
    asks: Vec<(AskId, Option<String>)>,
}

impl AttentionSource {
    pub(crate) fn new(log: Arc<dyn Log>, own_epoch: Epoch) -> Self {
        let opened_at = Seq(log.head().seq);
        Self { log, own_epoch, opened_at, known: Mutex::default() }
    }

    pub(crate) fn describe(&self, state: &State) -> Attention {
        let facts = state.attention_facts();
        self.lock_known().asks.retain(|(known, _)| state.asks.contains_key(known));
        let ask = facts.first_ask.and_then(|ask| self.describe_ask(ask, state));
        let newest_ask = facts.newest_ask.and_then(|ask| self.describe_ask(ask, state));
        let work = facts.work.map(|work| AttentionWork {
            why: work_word(work.kind).to_owned(),
            since: format_timestamp(work.since),
        });
        let raised = facts.raised.map(|raised| self.describe_raised(&raised));
        let quiet_since = format_timestamp(facts.quiet_since);
        Attention { asks: facts.asks, ask, newest_ask, raised, work, quiet_since }
    }

    fn describe_ask(&self, fact: AskFact, state: &State) -> Option<AttentionAsk> {
        let ask = state.asks.get(&AskId(fact.seq.0))?;
        Some(AttentionAsk {
            row: self.event_id(fact.seq),
            since: format_timestamp(fact.at.or(state.last_output_at).unwrap_or(state.created_at)),
            kind: fact.kind,
            text: self.ask_text(ask),
        })
    }

    fn describe_raised(&self, raised: &Raised) -> AttentionRaised {
        let why = match raised.why {
            RaisedWhy::Outcome(cause) => cause_word(cause),
            RaisedWhy::Paused(why) => pause_word(why),
        };
        AttentionRaised {
            is_failure: raised.is_failure,
            row: Some(self.event_id(raised.seq)),
            since: format_timestamp(raised.at),
            why: why.to_owned(),
            text: raised.text.as_deref().map(show_in_one_line),
            ran_for_millis: raised.ran_for.map(|ran_for| ran_for.0),
        }
    }

    /// Returns the id of an event. Events of earlier hosts have their epoch in the log.
    fn event_id(&self, seq: Seq) -> EventId {
        if seq > self.opened_at {
            return EventId { epoch: self.own_epoch, seq };
        }
        let mut known = self.lock_known();
        if let Some(row) = known.row.filter(|row| row.seq == seq) {
            return row;
        }
        let page = self.log.read(seq.0, 1).ok();
        let record = page
            .and_then(|page| page.records.into_iter().next())
            .filter(|record| record.seq == seq.0);
        // A damaged record keeps its number; its epoch is lost, and the lowest one counts as seen
        // by everyone.
        let row = EventId { epoch: Epoch(record.map_or(0, |record| record.epoch)), seq };
        known.row = Some(row);
        row
    }

    /// Finds the subject of an ask that only names its tool call, in the updates before it.
    fn find_told_subject(&self, ask: &Ask) -> Option<String> {
        let id = ask.tool_call.as_deref()?;
        let from = ask.id.0.saturating_sub(MAX_UPDATES_BACK);
        let page = self.log.read(from, MAX_BYTES_BACK).ok()?;
        let updates = page.records.iter().rev().filter(|record| record.seq < ask.id.0);
        updates
            .filter_map(|record| wharf_core::decode(&record.body).ok())
            .find_map(|(_, event)| {
                let Event::Agent(AgentEvent::Updated { frame, .. }) = event else { return None };
                let call = ToolUpdate::of(Payload::open(frame.as_str()).ok()?);
                let is_same = call.id().ok()?.as_deref() == Some(id);
                is_same.then(|| read_tool_subject(call.close())).flatten()
            })
    }

    fn ask_text(&self, ask: &Ask) -> Option<String> {
        let mut known = self.lock_known();
        if let Some((_, text)) = known.asks.iter().find(|(id, _)| *id == ask.id) {
            return text.clone();
        }
        let text = read_subject(ask)
            .or_else(|| self.find_told_subject(ask))
            .map(|text| show_in_one_line(&text));
        known.asks.push((ask.id, text.clone()));
        text
    }

    fn lock_known(&self) -> MutexGuard<'_, KnownTexts> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the command or the title in the agent's request, or the message of a form.
fn read_subject(ask: &Ask) -> Option<String> {
    let params = Json::parse(ask.frame.bytes()).ok()?.at(&["params"]).ok()??;
    match ask.kind {
        AskKind::Permission => read_tool_subject(params.at(&["toolCall"]).ok()??),
        AskKind::Elicitation => params.text_at(&["message"]).ok().flatten().map(Into::into),
    }
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
        // A person that ended the session is not told of it.
        OutcomeCause::Killed => "killed",
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
        Ask {
            id: AskId(1),
            kind,
            agent_request,
            frame,
            options: Vec::new(),
            tool_call: None,
            prompt: None,
        }
    }

    #[test]
    fn subject_of_an_ask_is_its_command_else_its_title() {
        let subject = |params: &str| read_subject(&ask(AskKind::Permission, params));
        let both = r#"{"toolCall":{"title":"Run it","rawInput":{"command":"rm -rf build"}}}"#;
        assert_eq!(subject(both).as_deref(), Some("rm -rf build"));
        let words = r#"{"toolCall":{"title":"Run it","rawInput":{"command":["bash","-lc","ls"]}}}"#;
        assert_eq!(subject(words).as_deref(), Some("bash -lc ls"));
        let argv = r#"{"toolCall":{"title":"Run it","rawInput":{"argv":["ls","-l"]}}}"#;
        assert_eq!(subject(argv).as_deref(), Some("ls -l"));
        for other in [
            r#"{"toolCall":{"title":"Run it"}}"#,
            r#"{"toolCall":{"title":"Run it","rawInput":{"command":7}}}"#,
        ] {
            assert_eq!(subject(other).as_deref(), Some("Run it"));
        }
        assert_eq!(subject(r#"{"toolCall":{"toolCallId":"1"}}"#), None);
        let form = ask(AskKind::Elicitation, r#"{"message":"Which one?"}"#);
        assert_eq!(read_subject(&form).as_deref(), Some("Which one?"));
    }
}
