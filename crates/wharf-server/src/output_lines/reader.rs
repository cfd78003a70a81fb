//! Reads the lines of a session's log: from a known line on, or the last ones.

use std::collections::VecDeque;
use std::sync::Arc;

use wharf_host::core::{AgentEvent, Event, Seq};
use wharf_host::{Batch, ByteBudget, BytePermit, Cursor, Entry, ReadError, SessionHandle};
use wharf_transcript::lines::{LineChoice, LineId, Projector, TranscriptLine};

use super::starting_point::{ScanLimit, find_start, had_turn_begun};
use crate::use_cases::prompt_text;

/// How many events are read for the last lines at first; then four times as many, and so on.
const FIRST_WINDOW_EVENTS: u64 = 256;
/// How much of the log is read for the last lines at most.
const MAX_SCAN: ScanLimit = ScanLimit { events: 50_000, bytes: 32 * 1024 * 1024 };

/// The cost of a line besides its text: its id and names in the stream, and its share of the
/// allocator.
const LINE_OVERHEAD_BYTES: usize = 128;

#[derive(Debug, thiserror::Error)]
pub(crate) enum TranscriptError {
    #[error("the log has no event {0}; start again without it")]
    UnknownEvent(LineId),
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Reads lines and follows the session as it goes on.
#[derive(Debug)]
pub(crate) struct TranscriptReader {
    handle: SessionHandle,
    cursor: Cursor,
    projector: Projector,
    /// Lines up to this one are not returned: the reader has them, or they are read only to begin
    /// the next line.
    seen: (Seq, u64),
    /// Counts the lines of large batches, if the caller stores them.
    buffers: Option<Arc<ByteBudget>>,
}

/// A batch of events and its new lines. The first events may lie before the reader's position: a
/// line that ends after the position can begin there.
#[derive(Debug)]
pub(crate) struct TranscriptBatch {
    pub(crate) batch: Batch,
    pub(crate) lines: Vec<TranscriptLine>,
    /// Counts the lines until the caller has passed them on.
    pub(crate) permit: Option<BytePermit>,
}

impl TranscriptReader {
    /// Opens a reader of all lines after `after`, or of all lines if it is `None`.
    pub(crate) async fn open(
        handle: &SessionHandle,
        after: Option<LineId>,
        choice: LineChoice,
    ) -> Result<Self, TranscriptError> {
        match after {
            None => Ok(Self::start_at(handle, (Seq(1), 0), choice, ScanLimit::NO_LIMIT).await?),
            Some(id) if handle.holds_event(id.event_id()).await? => {
                Ok(Self::start_at(handle, (id.seq, id.n), choice, ScanLimit::NO_LIMIT).await?)
            }
            Some(id) => Err(TranscriptError::UnknownEvent(id)),
        }
    }

    /// Opens a reader of the lines that events after `after` complete.
    pub(crate) async fn after_event(
        handle: &SessionHandle,
        after: Seq,
        choice: LineChoice,
    ) -> Result<Self, ReadError> {
        Self::start_at(handle, (after.next(), 0), choice, ScanLimit::NO_LIMIT).await
    }

    /// Opens a reader of the lines after line `seen.1` of event `seen.0`.
    async fn start_at(
        handle: &SessionHandle,
        seen: (Seq, u64),
        choice: LineChoice,
        most: ScanLimit,
    ) -> Result<Self, ReadError> {
        let start = find_start(handle, seen.0, most).await?;
        let mut projector = Projector::new().with_choice(choice);
        if start.mid_line {
            projector = projector.mid_line();
        }
        let cursor = handle.cursor(start.after).following();
        Ok(Self {
            handle: handle.clone(),
            cursor,
            projector,
            seen,
            buffers: None,
        })
    }

    /// Makes the reader wait for room in the budget before it creates the lines of a large batch.
    #[must_use]
    pub(crate) fn with_budget(mut self, buffers: &Arc<ByteBudget>) -> Self {
        self.buffers = Some(Arc::clone(buffers));
        self
    }

    /// Returns the last event that was read.
    pub(crate) fn position(&self) -> Seq {
        self.cursor.position()
    }

    /// Waits until there are new events.
    pub(crate) async fn wait_for_events(&mut self) {
        self.cursor.news().await;
    }

    /// Waits for the next events. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Result<TranscriptBatch, ReadError> {
        // Both are stored back only when the batch is complete: if this future is dropped, the
        // batch is read again.
        let mut cursor = self.cursor.clone();
        let mut projector = self.projector.clone();
        let (batch, permit) = self.read_batch(&mut cursor).await?;
        let mut lines = Vec::new();
        for entry in batch.entries() {
            if let Some(prompt) = projector.find_unknown_turn(&entry.event) {
                let begun = had_turn_begun(&self.handle, prompt, entry.seq).await?;
                projector.set_turn_begun(prompt.clone(), begun);
            }
            if let Some(content) = projector.find_wanted_prompt(&entry.event) {
                projector.set_prompt_text(read_prompt_text(&self.handle, content).await?);
            }
            projector.feed(entry.id(), &entry.event, &mut lines);
        }
        let seen = self.seen;
        lines.retain(|line| (line.id.seq, line.id.n) > seen);
        (self.cursor, self.projector) = (cursor, projector);
        Ok(TranscriptBatch { batch, lines, permit })
    }

    /// Reads the next events and reserves room for their lines. While it waits for room it holds no
    /// events; they are read again afterwards.
    async fn read_batch(
        &self,
        cursor: &mut Cursor,
    ) -> Result<(Batch, Option<BytePermit>), ReadError> {
        let next = cursor.position().next();
        let mut permit = None;
        loop {
            let batch = cursor.next().await?;
            let bytes = estimate_line_bytes(&batch);
            let Some(buffers) =
                self.buffers.as_ref().filter(|_| bytes > ByteBudget::UNCOUNTED_BYTES)
            else {
                return Ok((batch, None));
            };
            permit = permit.or_else(|| buffers.try_reserve_out(bytes));
            if permit.is_some() {
                return Ok((batch, permit));
            }
            drop(batch);
            cursor.go_to(next);
            permit = Some(buffers.reserve_out(bytes).await);
        }
    }
}

/// Returns the text of the prompt that this event holds.
async fn read_prompt_text(handle: &SessionHandle, content: Seq) -> Result<String, ReadError> {
    let batch = handle.cursor(Seq(content.0.saturating_sub(1))).next().await?;
    let held = batch.entries().first().and_then(|entry| entry.event.prompt_content());
    Ok(held.map(|(frame, _)| prompt_text(frame)).unwrap_or_default())
}

/// Returns about how many bytes the lines of these events take as events of a stream.
fn estimate_line_bytes(batch: &Batch) -> usize {
    let bytes = |entry: &Entry| {
        let mut bytes = entry.weight();
        if let Event::Agent(AgentEvent::Updated { frame, .. }) = &entry.event
            && bytes > ByteBudget::UNCOUNTED_BYTES
        {
            let breaks = frame.bytes().windows(2).filter(|pair| *pair == b"\\n").count();
            bytes += breaks * LINE_OVERHEAD_BYTES;
        }
        bytes
    };
    batch.entries().iter().map(bytes).sum()
}

/// The last lines. `truncated` is true if there may be older ones in a part of the log that was not
/// read.
#[derive(Debug)]
pub(crate) struct LastLines {
    pub(crate) lines: Vec<TranscriptLine>,
    pub(crate) truncated: bool,
}

/// The most lines, and the most bytes of their text together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineLimit {
    pub(crate) lines: usize,
    pub(crate) bytes: usize,
}

/// Reads the last lines from the end of the log, in growing windows up to [`MAX_SCAN`].
pub(crate) async fn read_last_lines(
    handle: &SessionHandle,
    most: LineLimit,
    choice: LineChoice,
) -> Result<LastLines, ReadError> {
    let head = handle.head();
    let mut window = FIRST_WINDOW_EVENTS.max(most.lines as u64);
    let mut found: Option<LineBuffer> = None;
    loop {
        let after = Seq(head.0.saturating_sub(window));
        let mut follow =
            TranscriptReader::start_at(handle, (after.next(), 0), choice, MAX_SCAN).await?;
        let mut last = LineBuffer::default();
        let mut bytes = 0;
        while follow.position() < head {
            let TranscriptBatch { batch, lines, .. } = follow.next().await?;
            bytes += batch.entries().iter().map(Entry::weight).sum::<usize>();
            if bytes >= MAX_SCAN.bytes
                && let Some(found) = found
            {
                return Ok(LastLines { lines: found.lines.into(), truncated: true });
            }
            last.extend(lines.into_iter().filter(|line| line.id.seq <= head), most);
        }
        let whole = after == Seq::ZERO || last.full;
        if whole || MAX_SCAN.is_reached(window, bytes) {
            return Ok(LastLines { lines: last.lines.into(), truncated: !whole || last.cut });
        }
        found = Some(last);
        window = (window * 4).min(MAX_SCAN.events);
    }
}

/// Keeps the newest of the lines that were added.
#[derive(Debug, Default)]
struct LineBuffer {
    lines: VecDeque<TranscriptLine>,
    bytes: usize,
    /// True if older lines were dropped or the number of lines was reached.
    full: bool,
    /// True if lines were dropped because of their bytes, so that fewer remain than were asked for.
    cut: bool,
}

impl LineBuffer {
    fn extend(&mut self, lines: impl Iterator<Item = TranscriptLine>, most: LineLimit) {
        for line in lines {
            self.bytes += line.text.len();
            self.lines.push_back(line);
            self.full |= self.lines.len() >= most.lines;
            while self.lines.len() > most.lines || self.bytes > most.bytes {
                self.cut = self.lines.len() <= most.lines;
                let Some(old) = self.lines.pop_front() else { break };
                self.bytes -= old.text.len();
                self.full = true;
            }
        }
    }
}
