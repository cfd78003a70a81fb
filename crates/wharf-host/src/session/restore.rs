//! From a log back to a session.

use std::sync::Arc;

use wharf_core::{
    AgentEvent, Event, LostEvents, Millis, Origin, Seq, Session, SessionId, Settings, SettingsLoss,
};
use wharf_json::Json;
use wharf_store::{Log, StoreError};

use super::cursor::Entry;
use super::page_events::decode_page;

/// How much is read at once.
const RESTORE_PAGE_BYTES: usize = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub(crate) enum RestoreError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("event {seq}: {why}")]
    Newer { seq: u64, why: String },
    #[error("the log is empty")]
    Empty,
    #[error("the log is that of session {found}: was it moved or copied?")]
    OtherSession { found: SessionId },
}

/// The beginning of a session whose log has lost its first event.
#[derive(Clone, Debug)]
pub(crate) struct LostBeginning {
    pub(crate) origin: Origin,
    pub(crate) created_at: Millis,
}

/// A session as its log tells it.
#[derive(Debug)]
pub(crate) struct RestoredSession {
    pub(crate) session: Session,
    /// The events that stand for lost ones, by their last number.
    pub(crate) lost: Vec<Seq>,
}

/// Folds the log from `snapshot` on if that is where one is, else from the beginning.
/// `find_beginning` is called if the log does not tell it any more. Sums of tokens that only an old
/// snapshot has are kept.
pub(crate) fn restore(
    log: &Arc<dyn Log>,
    settings: &Settings,
    snapshot: Option<u64>,
    find_beginning: impl Fn() -> LostBeginning,
) -> Result<RestoredSession, RestoreError> {
    let from_snapshot = snapshot.and_then(|from| fold(log, settings, from, None).ok().flatten());
    if let Some(restored) = from_snapshot {
        if !restored.session.state().usage.is_outdated() {
            return Ok(restored);
        }
        // The whole log gives the sums of tokens by the present rule.
        let whole = fold(log, settings, 1, None).ok().flatten();
        return Ok(keep_outdated_sums(whole.unwrap_or(restored)));
    }
    let whole = fold(log, settings, 1, Some(&find_beginning))?.ok_or(RestoreError::Empty)?;
    Ok(keep_outdated_sums(whole))
}

fn keep_outdated_sums(mut restored: RestoredSession) -> RestoredSession {
    restored.session.keep_outdated_sums();
    restored
}

/// Returns `None` if nothing can begin there.
fn fold(
    log: &Arc<dyn Log>,
    settings: &Settings,
    from: u64,
    find_beginning: Option<&dyn Fn() -> LostBeginning>,
) -> Result<Option<RestoredSession>, RestoreError> {
    let mut reader = LogReader {
        log,
        next: from,
        page: Vec::new().into_iter(),
        failure: None,
        owner: None,
        lost: Vec::new(),
    };
    let Some(first) = reader.next() else { return reader.failure.map_or(Ok(None), Err) };
    let begins = first.2.begins_restore();
    let session = if begins {
        Session::restore(settings.clone(), std::iter::once(first).chain(&mut reader))
    } else {
        find_beginning.map(|find| {
            let LostBeginning { origin, created_at } = find();
            reader.owner = Some(origin.session.clone());
            let entries = std::iter::once(first).chain(&mut reader);
            Session::restore_without_beginning(settings.clone(), origin, created_at, entries)
        })
    };
    let LogReader { failure, lost, .. } = reader;
    failure.map_or(Ok(session.map(|session| RestoredSession { session, lost })), Err)
}

/// The log's events one after the other, a page in memory at a time.
struct LogReader<'a> {
    log: &'a Arc<dyn Log>,
    next: u64,
    page: std::vec::IntoIter<Entry>,
    failure: Option<RestoreError>,
    /// The session that the updates of the log must name, as long as nothing else in the log tells
    /// whose it is.
    owner: Option<SessionId>,
    lost: Vec<Seq>,
}

impl Iterator for LogReader<'_> {
    type Item = (Seq, Millis, Event);

    fn next(&mut self) -> Option<Self::Item> {
        let entry = match self.page.next() {
            Some(entry) => entry,
            None => self.turn_page()?,
        };
        self.next = entry.seq.0 + 1;
        if let Event::Lost(lost) = &entry.event {
            report_loss(entry.seq, lost);
            self.lost.push(entry.seq);
        } else if !self.is_of_owner(&entry.event) {
            return None;
        }
        Some((entry.seq, entry.at, entry.event))
    }
}

impl LogReader<'_> {
    fn turn_page(&mut self) -> Option<Entry> {
        let head = self.log.head().seq;
        if self.next > head {
            return None;
        }
        match self.log.read(self.next, RESTORE_PAGE_BYTES) {
            Ok(page) => match decode_page(&page, Seq(head)) {
                Ok(entries) => self.page = entries.into_iter(),
                Err(newer) => {
                    self.failure = Some(RestoreError::Newer {
                        seq: newer.seq.0,
                        why: newer.error.to_string(),
                    });
                }
            },
            Err(error) => self.failure = Some(error.into()),
        }
        self.page.next()
    }

    /// Returns false if an update of the agent names another session. One update is enough: the
    /// rest follows from it.
    fn is_of_owner(&mut self, event: &Event) -> bool {
        let Event::Agent(AgentEvent::Updated { frame, .. }) = event else { return true };
        let Some(owner) = self.owner.take() else { return true };
        let named =
            Json::parse(frame.bytes()).and_then(|frame| frame.text_at(&["params", "sessionId"]));
        match named.ok().flatten().filter(|named| **named != *owner.as_str()) {
            Some(named) => {
                self.failure = Some(RestoreError::OtherSession { found: SessionId::new(&*named) });
                false
            }
            None => true,
        }
    }
}

/// Names the events in the host's log. Not the reason, which may hold a piece of the event.
fn report_loss(last: Seq, lost: &LostEvents) {
    let may_change_settings = lost.settings != SettingsLoss::None;
    tracing::error!(
        first = lost.first.0,
        last = last.0,
        may_change_settings,
        "events of a log cannot be read and are left out"
    );
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::json;
    use wharf_core::{
        AgentTraits, ClientId, Input, LifecycleInput, PromptEnd, PromptEvent, PromptId, Raw,
        Sender, SessionEvent, StartKind, StartNo, StorageEvent, UsageMeaning, encode,
    };
    use wharf_store::{Engine, FileEngine, FileLease, FileOptions, Lease, LogId};

    use super::*;

    fn raw(value: &serde_json::Value) -> Raw {
        Raw::new(value.to_string()).unwrap()
    }

    /// Returns the events of a session with one turn of 100 input tokens.
    fn session_events() -> Vec<Event> {
        let origin = Origin {
            session: SessionId::new("sess_1"),
            adapter: "any".into(),
            workspace: "default".into(),
            cwd: "/w".into(),
            label: None,
            name: None,
            by: None,
            key: None,
            lineage: Vec::new(),
            forked_from: None,
            is_scope_lost: false,
        };
        let client = ClientId::new("cli_1");
        let sender = Sender {
            client,
            chosen: None,
            name: None,
            version: None,
            token: None,
            parent: None,
            peer: None,
        };
        let start = StartNo(1);
        let prompt = PromptId::new("prm_1");
        let traits = AgentTraits {
            usage: Some(UsageMeaning::default()),
            ..AgentTraits::default()
        };
        let frame = raw(&json!({ "params": { "prompt": [{ "type": "text", "text": "go" }] } }));
        let answer = raw(
            &json!({ "result": { "stopReason": "end_turn", "usage": { "inputTokens": 100 } } }),
        );
        let end = PromptEnd::Answered { stop_reason: "end_turn".into(), frame: answer };
        vec![
            Event::Session(SessionEvent::Created(origin)),
            Event::Agent(AgentEvent::Starting { start, how: StartKind::New }),
            Event::Agent(AgentEvent::Started {
                start,
                agent_session: "a".into(),
                traits,
                answer: raw(&json!({})),
            }),
            Event::Prompt(PromptEvent::Accepted {
                prompt: prompt.clone(),
                sender,
                frame,
                key: None,
                first: false,
            }),
            Event::Prompt(PromptEvent::TurnStarted { prompt: prompt.clone(), content: Seq(4) }),
            Event::Prompt(PromptEvent::Ended { prompt, end, failure: None }),
        ]
    }

    /// Returns the snapshot of these events as an older version made it, with wrong sums.
    fn outdated_snapshot(events: &[Event]) -> Event {
        let settings = Settings { snapshot_every: 1, ..Settings::default() };
        let entries = (1..)
            .zip(events.iter().cloned())
            .map(|(seq, event)| (Seq(seq), Millis(seq), event));
        let mut session = Session::restore(settings, entries).unwrap();
        let step = session.handle(Input::Lifecycle(LifecycleInput::HostRestarted), Millis(99));
        let Some(Event::Storage(StorageEvent::Snapshot(saved))) = step.events.last() else {
            panic!("{step:?}")
        };
        let mut value: serde_json::Value = serde_json::from_str(saved.as_str()).unwrap();
        let usage = &mut value["state"]["usage"];
        assert_eq!(usage["tokens"]["input"], 100);
        usage["tokens"]["input"] = json!(9_500);
        usage["rule"] = json!(1);
        Event::Storage(StorageEvent::Snapshot(raw(&value)))
    }

    /// Restores a log with these events from the snapshot that is its last one.
    fn restore_from_snapshot(events: &[Event]) -> Session {
        let dir = tempfile::tempdir().unwrap();
        let lease = FileLease::acquire(dir.path()).unwrap();
        let engine = FileEngine::open(FileOptions::new(dir.path())).unwrap();
        let log = engine.create(&LogId::new("default", "sess_1").unwrap()).unwrap();
        let encoded = events.iter().map(|event| {
            let mut body = Vec::new();
            encode(event, Millis(1), &mut body);
            Bytes::from(body)
        });
        log.append(lease.epoch(), 0, &encoded.collect::<Vec<_>>()).unwrap();
        let snapshot = Some(events.len() as u64);
        restore(&log, &Settings::default(), snapshot, || panic!("the log has its beginning"))
            .unwrap()
            .session
    }

    fn sums(session: &Session) -> (Option<u64>, bool, bool) {
        let usage = &session.state().usage;
        (usage.tokens.input, usage.guessed, usage.is_outdated())
    }

    #[test]
    fn sums_of_an_outdated_snapshot_are_made_again_from_the_whole_log() {
        let mut events = session_events();
        events.push(outdated_snapshot(&events));
        assert_eq!(sums(&restore_from_snapshot(&events)), (Some(100), false, false));
    }

    #[test]
    fn log_that_begins_with_an_outdated_snapshot_keeps_its_sums_as_a_guess() {
        let snapshot = outdated_snapshot(&session_events());
        assert_eq!(sums(&restore_from_snapshot(&[snapshot])), (Some(9_500), true, false));
    }
}
