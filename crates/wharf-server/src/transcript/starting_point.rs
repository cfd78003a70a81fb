//! Finds the event at which a reader of lines must begin to make the same lines as a reader from
//! the first event.

use wharf_host::core::{Event, PromptId, PromptStep, Seq};
use wharf_host::redact::MAX_KEY_LINES;
use wharf_host::{Entry, ReadError, SessionHandle};

use super::line_piece::{LinePiece, MessageRun, TurnBegun};

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

/// An event after which a projector can begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StartingPoint {
    pub(super) after: Seq,
    /// True if the first text after it is the rest of a line that began earlier.
    pub(super) mid_line: bool,
}

/// The effect of one event on lines, as far as it matters for the starting point.
#[derive(Debug)]
pub(super) enum LineMark {
    Nothing,
    Break,
    Text { run: MessageRun, breaks: usize },
}

impl LineMark {
    pub(super) fn from_event(event: &Event) -> Self {
        match LinePiece::from_event(event) {
            // It is not known here whether this event ended a line; starting earlier is always
            // right.
            LinePiece::Nothing
            | LinePiece::Gap
            | LinePiece::End { whether: TurnBegun::IfSeen, .. } => Self::Nothing,
            LinePiece::Break(_) | LinePiece::End { whether: TurnBegun::Certain, .. } => Self::Break,
            LinePiece::Text(chunk) => {
                let breaks = chunk.text.text.bytes().filter(|byte| *byte == b'\n').count();
                Self::Text { run: chunk.run, breaks }
            }
        }
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
        if let Some(start) = latest_start(&marks) {
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

/// Returns the latest starting point among these events: after an event that ends a line, between
/// two messages, or inside a message after so many lines that a block of a private key that began
/// earlier must have ended.
pub(super) fn latest_start(marks: &[(Seq, LineMark)]) -> Option<StartingPoint> {
    let mut later: Option<&MessageRun> = None;
    let mut lines = 0;
    for (seq, mark) in marks.iter().rev() {
        match mark {
            LineMark::Nothing => {}
            LineMark::Break => return Some(StartingPoint { after: *seq, mid_line: false }),
            LineMark::Text { run, .. } if later.is_some_and(|later| later != run) => {
                return Some(StartingPoint { after: *seq, mid_line: false });
            }
            LineMark::Text { run, breaks } => {
                lines += breaks;
                // The first of them ends a line whose beginning is unknown.
                if lines > MAX_KEY_LINES + 1 {
                    return Some(StartingPoint { after: Seq(seq.0 - 1), mid_line: true });
                }
                later = Some(run);
            }
        }
    }
    None
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

/// Returns whether the prompt's turn has begun after this event, or `None` if the event does not
/// say.
pub(super) fn turn_state_after(event: &Event, of: &PromptId) -> Option<bool> {
    match event.prompt_step().filter(|(prompt, _)| *prompt == of)?.1 {
        PromptStep::TurnStarted { .. } => Some(true),
        PromptStep::Accepted | PromptStep::Requeued => Some(false),
        PromptStep::Ended(_) => None,
    }
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
