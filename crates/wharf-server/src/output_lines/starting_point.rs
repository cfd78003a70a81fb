//! Finds the event at which a reader of lines must begin to make the same lines as a reader from
//! the first event.

use wharf_host::core::{PromptId, Seq};
use wharf_host::{Entry, ReadError, SessionHandle};
use wharf_transcript::lines::{LineMark, StartingPoint, find_latest_start, turn_state_after};

/// How many events are read at first; then four times as many, and so on.
const FIRST_WINDOW_EVENTS: u64 = 64;

/// How much of a log is read for one answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScanLimit {
    pub(super) events: u64,
    pub(super) bytes: usize,
}

impl ScanLimit {
    /// For readers that must not miss anything.
    pub(super) const NO_LIMIT: Self = Self { events: u64::MAX, bytes: usize::MAX };

    pub(super) const fn is_reached(self, events: u64, bytes: usize) -> bool {
        events >= self.events || bytes >= self.bytes
    }
}

/// Finds the event after which to begin so that every line of `seq` and of later events is right.
/// If there is none within `most` before `seq`, returns the oldest event that was read.
pub(super) async fn find_start(
    handle: &SessionHandle,
    seq: Seq,
    most: ScanLimit,
) -> Result<StartingPoint, ReadError> {
    let mut window = FIRST_WINDOW_EVENTS;
    loop {
        let first = Seq(seq.0.saturating_sub(window).max(1));
        let mut marks = Vec::new();
        let mut bytes = 0;
        for_each_entry(handle, first, seq, |entry| {
            bytes += entry.weight();
            marks.push((entry.seq, LineMark::from_event(&entry.event)));
        })
        .await?;
        if let Some(start) = find_latest_start(&marks) {
            return Ok(start);
        }
        if first.0 <= 1 {
            return Ok(StartingPoint { after: Seq::ZERO, mid_line: false });
        }
        if most.is_reached(window, bytes) {
            return Ok(StartingPoint { after: Seq(first.0 - 1), mid_line: true });
        }
        window = (window * 4).min(most.events);
    }
}

/// Returns true if the turn of `prompt` had begun when the prompt ended at `seq`.
pub(super) async fn had_turn_begun(
    handle: &SessionHandle,
    prompt: &PromptId,
    seq: Seq,
) -> Result<bool, ReadError> {
    let mut window = FIRST_WINDOW_EVENTS;
    let mut end = seq;
    while end.0 > 1 {
        let first = Seq(end.0.saturating_sub(window).max(1));
        let mut begun = None;
        for_each_entry(handle, first, end, |entry| {
            begun = turn_state_after(&entry.event, prompt).or(begun)
        })
        .await?;
        if let Some(begun) = begun {
            return Ok(begun);
        }
        end = first;
        window *= 4;
    }
    Ok(false)
}

/// Calls `with` for each event from `first` to before `end`, reading a page at a time.
async fn for_each_entry(
    handle: &SessionHandle,
    first: Seq,
    end: Seq,
    mut with: impl FnMut(&Entry),
) -> Result<(), ReadError> {
    let mut cursor = handle.cursor(Seq(first.0.saturating_sub(1)));
    let last = Seq(end.0.saturating_sub(1)).min(handle.head());
    while cursor.position() < last {
        let batch = cursor.next().await?;
        batch.entries().iter().filter(|entry| entry.seq <= last).for_each(&mut with);
    }
    Ok(())
}
