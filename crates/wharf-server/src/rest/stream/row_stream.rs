//! The event stream of one session's rows, for one reader (rule 13.5).
//!
//! Changes are sent in batches. Only the last event of a batch has an id, which stands for the
//! whole log up to that point: a reader that reconnects has either all of a batch or takes it
//! again.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, Interval, MissedTickBehavior};
use wharf_api::{FOLD_NUMBER, RowStreamEvent, StreamReset};
use wharf_host::core::{EventId, Seq, SessionId};
use wharf_host::{ByteBudget, Cursor, RowUpdate, RowUpdates, SessionTranscript};

use super::event_feed::EventFeed;
use super::format_event;
use super::ready_events::ReadyEvents;
use super::session_list_stream::has_same_state;
use crate::App;
use crate::fault::Fault;
use crate::use_cases::{
    self, AttentionView, Caller, FoldedState, MarkedState, StateMarks, find_state_change,
    transcript_fault,
};
use crate::visible_sessions::VisibleSessions;

/// Batches that come faster are sent together: 20 a second look fluent.
const MIN_BATCH_INTERVAL: Duration = Duration::from_millis(50);
/// So many new events are folded before the next batch is due.
const FOLD_AHEAD_EVENTS: u64 = 256;
/// How often the stream reports the output of running commands.
const OUTPUT_INTERVAL: Duration = Duration::from_secs(1);
/// How often the stream shows that it lives, also while there is traffic.
const BEAT_INTERVAL: Duration = Duration::from_secs(10);

pub(super) struct RowStream {
    app: App,
    visible: VisibleSessions,
    attention: AttentionView,
    /// True if a session has changed since `attention` was made: it looks over all of them.
    is_attention_stale: bool,
    session: SessionId,
    transcript: SessionTranscript,
    cursor: Cursor,
    changes: watch::Receiver<u64>,
    /// How often the rows were made again.
    remakes: watch::Receiver<u64>,
    /// The same when the rows that the reader has were read.
    known_remakes: u64,
    /// The last event that the reader has received all changes of; `None` before its page.
    position: Option<EventId>,
    /// Why the reader has to begin again, if it has to.
    reset: Option<&'static str>,
    /// The state as the reader knows it.
    told: Option<MarkedState>,
    /// Ticks while a command runs whose output may have grown: nothing else tells of that.
    output_tick: Interval,
    /// True if the stream may report output again.
    is_output_due: bool,
    ready: ReadyEvents,
    buffers: Arc<ByteBudget>,
    beat: Interval,
    sent_at: Instant,
    is_over: bool,
    /// Holds the end of the host up until the stream has ended.
    _unfinished: watch::Receiver<()>,
}

/// Events that were made, with the state that the reader has once it took them.
struct Batch {
    events: Vec<String>,
    position: Option<EventId>,
    /// How far the log was read.
    read_to: Seq,
    told: Option<MarkedState>,
    /// How often the rows were made again before these were read.
    remakes: u64,
}

/// A position that a reader gives.
enum Resume {
    At(EventId),
    /// Its rows are of another fold.
    OtherFold,
}

impl RowStream {
    /// Opens the stream after that position, or with a page.
    pub(super) async fn open(
        app: &App,
        caller: &Caller,
        id: &str,
        after: Option<&str>,
    ) -> Result<Self, Fault> {
        let resume = after.map(parse_position).transpose()?;
        let transcript = use_cases::open_transcript(app, caller, id).await?;
        let remakes = transcript.remakes();
        let known_remakes = *remakes.borrow();
        let mut position = None;
        let mut reset = None;
        match resume {
            None => {}
            Some(Resume::OtherFold) => reset = Some("fold_changed"),
            Some(Resume::At(event)) => {
                let is_held = transcript.holds_event(event).await;
                if is_held.map_err(|failure| transcript_fault(app, id, &failure))? {
                    position = Some(event);
                } else {
                    reset = Some("log_cut");
                }
            }
        }
        let visible = app.visible_to(&caller.identity);
        let buffers = Arc::clone(app.host.buffers());
        Ok(Self {
            changes: visible.changes(),
            remakes,
            known_remakes,
            attention: AttentionView::new(app, &caller.identity),
            is_attention_stale: false,
            visible,
            session: transcript.handle().id().clone(),
            cursor: follow_log(&transcript, position.map_or(Seq::ZERO, |position| position.seq)),
            transcript,
            position,
            reset,
            told: None,
            output_tick: start_interval(OUTPUT_INTERVAL),
            is_output_due: false,
            ready: ReadyEvents::new(&buffers),
            buffers,
            beat: start_interval(BEAT_INTERVAL),
            sent_at: Instant::now(),
            is_over: false,
            _unfinished: app.stream_readers.subscribe(),
            app: app.clone(),
        })
    }

    /// Returns the last event that the reader has received all changes of, once it has taken the
    /// events that are ready.
    pub(super) fn position(&self) -> Option<EventId> {
        self.position
    }

    /// Returns true if the reader has taken all events that are ready.
    pub(super) fn is_drained(&self) -> bool {
        self.ready.is_empty()
    }

    /// Makes the next batch and counts its bytes. Without room for a large one it is dropped and
    /// made again later: a reader that waits for room must hold no bytes.
    async fn send_batch(&mut self) -> Result<(), Fault> {
        let mut batch = self.make_batch().await?;
        let size = |batch: &Batch| batch.events.iter().map(String::len).sum::<usize>();
        let mut permit = None;
        if size(&batch) > ByteBudget::UNCOUNTED_BYTES {
            permit = self.buffers.try_reserve_out(size(&batch));
            if permit.is_none() {
                let bytes = size(&batch);
                drop(batch);
                permit = Some(self.buffers.reserve_out(bytes).await);
                batch = self.make_batch().await?;
            }
        }
        if std::mem::take(&mut self.is_output_due) {
            self.output_tick.reset();
        }
        self.reset = None;
        self.position = batch.position;
        self.cursor.go_to(batch.read_to.next());
        self.told = batch.told.or(self.told.take());
        self.known_remakes = batch.remakes;
        self.ready.extend(batch.events, permit);
        self.sent_at = Instant::now();
        Ok(())
    }

    async fn make_batch(&mut self) -> Result<Batch, Fault> {
        self.refresh_attention();
        let Some(position) = self.position else { return self.make_page(self.reset).await };
        let changes = self.transcript.changes_after(position.seq).await;
        let changes = changes
            .map_err(|failure| transcript_fault(&self.app, self.session.as_str(), &failure))?;
        if self.has_remade_rows() {
            return self.make_page(Some("rows_remade")).await;
        }
        let RowUpdates { as_of, updates, read_to, open_asks, plan } = changes;
        let Some(updates) = updates else { return self.make_page(Some("too_far_behind")).await };
        let mut events: Vec<RowStreamEvent> = updates
            .into_iter()
            .map(|update| match update {
                RowUpdate::Whole(row) => RowStreamEvent::Row(row),
                RowUpdate::Grown(grown) => RowStreamEvent::Append(grown),
                RowUpdate::TailGrown(grown) => RowStreamEvent::Tail(grown),
            })
            .collect();
        let folded = FoldedState { asks: open_asks, plan };
        let told = self.told.as_ref();
        let state = use_cases::read_state(
            &self.app,
            &self.attention,
            &self.transcript,
            folded,
            told,
            self.is_output_due,
        )
        .await;
        let mut now = state?;
        let is_session_new = told.is_none_or(|told| {
            !has_same_state(&told.descriptor, &now.descriptor)
                || told.state.session.attention != now.state.session.attention
        });
        let change = find_state_change(told.map(|told| &told.state), &now.state, is_session_new);
        events.extend(change.map(RowStreamEvent::State));
        let moved = as_of != Some(position);
        let id = as_of.filter(|_| moved).map(to_stream_id);
        // Small differences that are not told add up until they are.
        if let Some(told) = told.filter(|_| !is_session_new) {
            now.descriptor = Arc::clone(&told.descriptor);
        }
        let told = Some(now);
        Ok(Batch {
            events: format_batch(&events, id.as_deref()),
            position: as_of.or(Some(position)),
            read_to,
            told,
            remakes: self.known_remakes,
        })
    }

    /// Makes the page that a reader begins with, after a reset if its position is of no use.
    async fn make_page(&self, reset: Option<&'static str>) -> Result<Batch, Fault> {
        let read_to = self.transcript.handle().head();
        let remakes = *self.remakes.borrow();
        let (page, told) =
            use_cases::read_newest_rows(&self.app, &self.attention, &self.transcript).await?;
        let position: Option<EventId> = page.as_of.parse().ok();
        let mut events = Vec::new();
        events.extend(reset.map(|why| RowStreamEvent::Reset(StreamReset { why: why.to_owned() })));
        events.push(RowStreamEvent::Page(Box::new(page)));
        let id = position.map(to_stream_id);
        Ok(Batch {
            events: format_batch(&events, id.as_deref()),
            position,
            read_to,
            told: Some(told),
            remakes,
        })
    }

    /// Goes on with a session whose task has ended: by a stop of the host, by the session's
    /// deletion, or because its log failed.
    async fn go_on(&mut self) {
        match self.visible.open(&self.session).await {
            Ok(handle) if handle.is_closed() && handle.is_stopped() => self.send_last_batch().await,
            Ok(handle) if handle.is_closed() => self.await_deletion().await,
            Ok(handle) => {
                self.transcript = self.app.host.transcript(handle);
                // The marks of another task cannot be compared, so the stream sends the whole
                // state.
                self.told = None;
                self.cursor = follow_log(&self.transcript, self.cursor.position());
            }
            Err(_) => {
                if self.visible.descriptor(&self.session).is_none() {
                    self.ready.extend(format_batch(&[RowStreamEvent::Gone], None), None);
                }
                self.is_over = true;
            }
        }
    }

    /// Waits for the next change among the sessions: one whose task has ended for its deletion is
    /// about to leave the list. The stream ends if nothing changes; its reader comes back.
    async fn await_deletion(&mut self) {
        let changed = tokio::time::timeout(BEAT_INTERVAL, self.changes.changed()).await;
        self.is_over = !matches!(changed, Ok(Ok(())));
    }

    /// Sends what the session's task has done before it ended, and ends the stream.
    async fn send_last_batch(&mut self) {
        self.is_over = true;
        if self.has_news()
            && let Err(fault) = self.send_batch().await
        {
            tracing::debug!(session = %self.session, detail = fault.detail(), "a stream of rows ends without its last batch");
        }
    }

    /// Looks over the sessions again if one of them has changed.
    fn refresh_attention(&mut self) {
        self.is_attention_stale |= self.changes.has_changed().unwrap_or(false);
        self.changes.borrow_and_update();
        if std::mem::take(&mut self.is_attention_stale) {
            self.attention.refresh(&self.visible.descriptors());
        }
    }

    /// Returns true if the rows were made again since the reader got its own.
    fn has_remade_rows(&self) -> bool {
        *self.remakes.borrow() != self.known_remakes
    }

    /// Returns true if there may be something to tell. Changes of other sessions wake the stream,
    /// too.
    fn has_news(&mut self) -> bool {
        let Some(told) = &self.told else { return true };
        let now = self.transcript.handle().descriptor();
        let has_queue = now.queued > 0 || !told.state.queue.is_empty();
        let mut marks = StateMarks::read(self.transcript.handle());
        if !self.is_output_due {
            marks = marks.without_growth(&told.marks);
        }
        if self.cursor.is_behind()
            || self.has_remade_rows()
            || has_queue
            || told.marks != marks
            || !has_same_state(&told.descriptor, &now)
        {
            return true;
        }
        self.refresh_attention();
        let Some(told) = &self.told else { return true };
        told.state.session.attention != Some(self.attention.attention_of(&now))
    }

    fn send_beat(&self) {
        let beat = RowStreamEvent::Beat(use_cases::stream_beat(self.position));
        let id = self.position.map(to_stream_id);
        self.ready.extend(format_batch(&[beat], id.as_deref()), None);
    }

    /// Waits until `due`. Events that come in great numbers meanwhile are folded at once: they are
    /// still in memory.
    async fn fold_until(&self, due: Instant) {
        let mut ahead = self.cursor.clone_at(Seq(self.cursor.position().0 + FOLD_AHEAD_EVENTS));
        // News that are there at once never time out.
        while Instant::now() < due && tokio::time::timeout_at(due, ahead.news()).await.is_ok() {
            match self.transcript.fold_news().await {
                Ok(folded) => ahead.go_to(Seq(folded.0 + FOLD_AHEAD_EVENTS)),
                // The batch meets the failure again and reports it.
                Err(_) => return tokio::time::sleep_until(due).await,
            }
        }
    }

    /// Waits for something to tell, and makes its events.
    async fn wait_for_events(&mut self) {
        let handle = self.transcript.handle().clone();
        let has_running = self.told.as_ref().is_some_and(|told| told.marks.has_running());
        tokio::select! {
            biased;
            _ = self.beat.tick(), if self.position.is_some() => return self.send_beat(),
            () = handle.closed() => return self.go_on().await,
            // The page, or the state of a reader that comes back: the log does not tell how it
            // changed meanwhile.
            () = async {}, if self.told.is_none() => {}
            _ = self.output_tick.tick(), if has_running => self.is_output_due = true,
            () = self.cursor.news() => {}
            () = await_remake(&mut self.remakes, self.known_remakes) => {}
            changed = self.changes.changed() => {
                self.is_attention_stale = true;
                self.is_over = changed.is_err();
            }
        }
        if self.position.is_some() {
            if !self.has_news() {
                return;
            }
            tokio::select! {
                () = self.fold_until(self.sent_at + MIN_BATCH_INTERVAL) => {}
                // The last batch of a session need not wait.
                () = handle.closed() => {}
            }
        }
        if let Err(fault) = self.send_batch().await {
            // A session that is being deleted fails first and is gone then.
            if handle.is_closed() {
                return self.go_on().await;
            }
            tracing::warn!(session = %self.session, detail = fault.detail(), "a stream of rows ends");
            self.is_over = true;
        }
    }
}

impl EventFeed for RowStream {
    fn ready(&self) -> &ReadyEvents {
        &self.ready
    }

    fn is_over(&self) -> bool {
        self.is_over
    }

    async fn fill(&mut self) {
        self.wait_for_events().await;
    }
}

/// Waits until the rows were made again more often than that.
async fn await_remake(remakes: &mut watch::Receiver<u64>, known: u64) {
    if remakes.wait_for(|remakes| *remakes != known).await.is_err() {
        std::future::pending().await
    }
}

/// Returns an interval whose first tick comes after one period, and that never ticks faster to
/// catch up.
fn start_interval(period: Duration) -> Interval {
    let mut interval = tokio::time::interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval.reset();
    interval
}

fn follow_log(transcript: &SessionTranscript, after: Seq) -> Cursor {
    transcript.handle().cursor(after).following()
}

/// Returns the texts of events, of which the last one has the id.
fn format_batch(events: &[RowStreamEvent], id: Option<&str>) -> Vec<String> {
    let last = events.len().saturating_sub(1);
    let format = |(n, event): (usize, &RowStreamEvent)| {
        format_event(event.name(), id.filter(|_| n == last), event)
    };
    events.iter().enumerate().map(format).collect()
}

/// Returns a position as the stream names it. It carries the number of the fold, so that the host
/// can reset a reader whose rows are of another fold.
fn to_stream_id(position: EventId) -> String {
    use_cases::to_cursor(&position.to_string())
}

/// Reads a position: the id of an event of the stream, or `asOf` of a page, which is taken for one
/// of this fold.
fn parse_position(after: &str) -> Result<Resume, Fault> {
    let (fold, event) = match after.strip_prefix('f').and_then(|rest| rest.split_once('.')) {
        Some((fold, event)) => (wharf_host::core::parse_digits(fold), event),
        None => (Some(FOLD_NUMBER), after),
    };
    match (fold, event.parse::<EventId>()) {
        (Some(FOLD_NUMBER), Ok(event)) => Ok(Resume::At(event)),
        (Some(_), Ok(_)) => Ok(Resume::OtherFold),
        (None, _) | (_, Err(_)) => Err(use_cases::unknown_position(after)),
    }
}
