//! The event at which a reader of lines must begin to make the same lines as a reader from the
//! first event.

use wharf_core::{Event, PromptId, PromptStep, Seq};

use super::piece::{LinePiece, MessageRun, TurnBegun};
use crate::redact::MAX_KEY_LINES;

/// An event after which a projector can begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartingPoint {
    pub after: Seq,
    /// True if the first text after it is the rest of a line that began earlier.
    pub mid_line: bool,
}

/// The effect of one event on lines, as far as it matters for the starting point.
#[derive(Debug)]
pub enum LineMark {
    Nothing,
    Break,
    Text { run: MessageRun, breaks: usize },
}

impl LineMark {
    pub fn from_event(event: &Event) -> Self {
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

/// Returns the latest starting point among these events: after an event that ends a line, between
/// two messages, or inside a message after so many lines that a block of a private key that began
/// earlier must have ended.
pub fn find_latest_start(marks: &[(Seq, LineMark)]) -> Option<StartingPoint> {
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

/// Returns whether the prompt's turn has begun after this event, or `None` if the event does not
/// say.
pub fn turn_state_after(event: &Event, of: &PromptId) -> Option<bool> {
    match event.prompt_step().filter(|(prompt, _)| *prompt == of)?.1 {
        PromptStep::TurnStarted { .. } => Some(true),
        PromptStep::Accepted | PromptStep::Requeued => Some(false),
        PromptStep::Ended(_) => None,
    }
}
