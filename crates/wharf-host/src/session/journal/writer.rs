//! Events on their way into the log and from there to the readers. The only place that appends.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use wharf_core::{
    AgentEvent, EndReason, Event, Millis, Seq, Session, SessionEvent, StorageEvent, UpdateKind,
    encode,
};
use wharf_store::AppendError;

use super::listing::Listing;
use crate::agent::ledger::{LedgerHandle, log_ledger_fault};
use crate::ids::Now;
use crate::session::context::TaskContext;
use crate::session::cursor::Entry;
use crate::session::measure::Measure;

/// Which space an append may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    Ordinary,
    Reserve,
}

#[derive(Debug)]
pub(super) struct LogWriter {
    context: Arc<TaskContext>,
    /// Decided and not yet shown. The number is how far the agent's output is taken in with the
    /// event.
    pending: Vec<(Millis, Event, u64)>,
    /// Proposed events that are in the log already: the first ones of the step that comes next.
    proposed: Vec<Event>,
    /// The number of pending events that are in the log already: those that were proposed.
    written: usize,
    output: OutputMark,
    measure: Measure,
    listing: Listing,
}

/// How far the output of the running agent is taken in.
#[derive(Debug, Default)]
struct OutputMark {
    /// The ledger of the agent, while there is one.
    ledger: Option<LedgerHandle>,
    offset: u64,
    /// How far the ledger has noted it.
    noted: u64,
}

impl OutputMark {
    /// Notes how far the output is taken in with each event from `first` on. The last one stands
    /// for all lines so far: those behind it have led to no event.
    fn note_events(&mut self, first: Seq, offsets: impl ExactSizeIterator<Item = u64>) {
        let Some(ledger) = &self.ledger else { return };
        let last = offsets.len().saturating_sub(1);
        let all = self.offset;
        let offsets = offsets.enumerate().map(|(at, offset)| if at == last { all } else { offset });
        log_ledger_fault(ledger.lock().note_reads(first, offsets));
        self.noted = all;
    }

    /// Notes lines that have led to no event.
    fn note_eventless(&mut self, head: Seq) {
        if self.noted < self.offset {
            self.note_events(head, std::iter::once(self.offset));
            self.confirm();
        }
    }

    fn confirm(&self) {
        if let Some(ledger) = &self.ledger {
            log_ledger_fault(ledger.lock().confirm_reads());
        }
    }
}

impl LogWriter {
    pub(super) fn new(context: Arc<TaskContext>, session: &Session) -> Self {
        let listing = Listing::new(Arc::clone(&context), session);
        let measure = Measure::new(session);
        let output = OutputMark::default();
        Self {
            context,
            pending: Vec::new(),
            proposed: Vec::new(),
            written: 0,
            output,
            measure,
            listing,
        }
    }

    /// Follows the output of another agent, which is taken in up to `offset`. Without a ledger,
    /// follows the output of no agent.
    pub(super) fn follow_output(&mut self, ledger: Option<LedgerHandle>, offset: u64) {
        self.output = OutputMark { ledger, offset, noted: offset };
    }

    /// Notes that the agent's output is taken in up to here: with the last event so far. The events
    /// before it in the same line stand for the line before, so that a line whose events are cut
    /// off by a crash is read again.
    pub(super) fn set_output_offset(&mut self, offset: u64) {
        self.output.offset = offset;
        if let Some((.., last)) = self.pending[self.written..].last_mut() {
            *last = offset;
        }
    }

    /// Notes lines of the agent that have led to no event. Call this only while no event is
    /// pending.
    pub(super) fn note_eventless_lines(&mut self, head: Seq) {
        self.output.note_eventless(head);
    }

    pub(super) fn listing(&self) -> &Listing {
        &self.listing
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Returns true if the pending events are all that there is of the session.
    pub(super) fn holds_all_of(&self, session: &Session) -> bool {
        session.head().0 == self.pending.len() as u64
    }

    /// Keeps the events of a step. Returns false if they do not begin with the events that were
    /// proposed and written.
    pub(super) fn push(&mut self, events: Vec<Event>, at: Millis) -> bool {
        let proposed = std::mem::take(&mut self.proposed);
        if !events.starts_with(&proposed) {
            return false;
        }
        self.written += proposed.len();
        let offset = self.output.offset;
        self.pending.extend(events.into_iter().map(|event| (at, event, offset)));
        true
    }

    /// Appends events that the session has proposed, all or none, before the session handles the
    /// request. Nothing else is pending.
    pub(super) fn append_proposed(
        &mut self,
        events: Vec<Event>,
        at: Millis,
        head: Seq,
    ) -> Result<(), AppendError> {
        let offset = self.output.offset;
        self.output.note_events(head.next(), events.iter().map(|_| offset));
        self.append(head, &encode_all(events.iter().map(|event| (at, event))), Space::Ordinary)?;
        self.output.confirm();
        self.proposed = events;
        Ok(())
    }

    /// Appends all pending events, or none of them.
    pub(super) fn append_pending(&mut self, head: Seq, space: Space) -> Result<(), AppendError> {
        let events = &self.pending[self.written..];
        if events.is_empty() {
            return Ok(());
        }
        let expected = Seq(head.0 - events.len() as u64);
        // Before the append: the log then says which of it counts.
        self.output
            .note_events(expected.next(), events.iter().map(|(_, _, offset)| *offset));
        self.append(
            expected,
            &encode_all(events.iter().map(|(at, event, _)| (*at, event))),
            space,
        )?;
        self.output.confirm();
        Ok(())
    }

    fn append(&self, expected: Seq, bodies: &[Bytes], space: Space) -> Result<(), AppendError> {
        let TaskContext { host, shared, .. } = &*self.context;
        let epoch = host.storage.epoch().0;
        let began = Instant::now();
        match space {
            Space::Ordinary => shared.log.append(epoch, expected.0, bodies)?,
            Space::Reserve => shared.log.append_from_reserve(epoch, expected.0, bodies)?,
        };
        host.metrics.append.observe(began.elapsed());
        host.metrics.events.add(bodies.len() as u64);
        host.metrics.event_bytes.add(bodies.iter().map(|body| body.len() as u64).sum());
        Ok(())
    }

    /// Shows the appended events to every reader. Returns true if at least one of them must be
    /// synced. Not async, since publishing never waits for a reader.
    pub(super) fn publish(&mut self, session: &Session) -> bool {
        let TaskContext { host, shared, .. } = &*self.context;
        let mut seq = Seq(session.head().0 - self.pending.len() as u64);
        let mut news = false;
        let mut sync = false;
        let mut ended_by_user = false;
        let epoch = host.storage.epoch();
        let mut entries = Vec::with_capacity(self.pending.len());
        self.written = 0;
        for (at, event, _) in self.pending.drain(..) {
            seq = seq.next();
            sync |= event.wants_sync();
            if let Event::Agent(AgentEvent::Updated { update, title, .. }) = &event {
                news |= title.is_some() || *update == UpdateKind::UsageUpdate;
                shared.note_output(at);
                if update.is_setting() {
                    shared.note_settings(seq);
                }
            } else {
                if let Event::Agent(
                    AgentEvent::Started { .. } | AgentEvent::SettingsChanged { .. },
                ) = &event
                {
                    shared.note_settings(seq);
                }
                news = true;
                self.measure.note(&event, at, host);
            }
            if let Event::Session(SessionEvent::Ended(ending)) = &event {
                ended_by_user |= matches!(
                    ending.reason,
                    EndReason::User | EndReason::Closed | EndReason::Finished
                );
            }
            if let Event::Storage(StorageEvent::Snapshot(_)) = &event {
                self.listing.note_snapshot(seq);
            }
            entries.push(Entry { seq, epoch, at, event });
        }
        shared.tail.publish(entries);
        let descriptor = news.then(|| Arc::new(self.listing.describe_session(session)));
        if news {
            shared.note_rest(session, Now::millis());
        }
        // Both at once: a reader that is woken by an event finds the state after it, and a reader
        // of the state finds the events that led to it.
        shared.head.send_modify(|head| {
            *head = seq;
            if let Some(descriptor) = &descriptor {
                shared.set_descriptor(Arc::clone(descriptor));
            }
        });
        if let Some(descriptor) = descriptor {
            self.listing.put_row(descriptor);
        }
        if ended_by_user {
            // All readers can see the end by now, so no further descendant can come.
            host.end_descendants(&shared.id);
        }
        sync
    }
}

fn encode_all<'a>(events: impl ExactSizeIterator<Item = (Millis, &'a Event)>) -> Vec<Bytes> {
    let mut buffer = Vec::with_capacity(events.len() * 512);
    let mut ends = Vec::with_capacity(events.len());
    for (at, event) in events {
        encode(event, at, &mut buffer);
        ends.push(buffer.len());
    }
    let whole = Bytes::from(buffer);
    let starts = std::iter::once(0).chain(ends.iter().copied());
    starts.zip(&ends).map(|(start, end)| whole.slice(start..*end)).collect()
}
