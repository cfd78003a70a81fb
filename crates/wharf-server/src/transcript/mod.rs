//! The transcript: a session's log as lines of plain text, for REST, MCP and the shell (rules 8.3,
//! 8.4).
//!
//! [`Projector`] is pure: the same events give the same lines with the same ids, regardless of
//! where reading began. [`Follow`] and [`last_n`] find where to begin.

mod colours;
mod line_piece;
mod projector;
mod reader;
mod starting_point;

use std::fmt;
use std::str::FromStr;

use wharf_host::core::{Epoch, EventId, Seq, parse_digits};

pub use colours::paint_line;
use projector::Projector;
pub(crate) use reader::{
    LastLines, LineLimit, TranscriptBatch, TranscriptError, TranscriptReader, read_last_lines,
};

/// The most bytes of a line; a longer one becomes several.
const MAX_LINE_BYTES: usize = 64 * 1024;

/// Identifies a line: the `n`-th (from 1) that event `seq` completes. Written `<epoch>-<seq>.<n>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineId {
    pub(crate) epoch: Epoch,
    pub(crate) seq: Seq,
    pub(crate) n: u64,
}

impl LineId {
    /// Returns the event that completes the line.
    pub(crate) const fn event_id(self) -> EventId {
        EventId { epoch: self.epoch, seq: self.seq }
    }
}

impl fmt::Display for LineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.event_id(), self.n)
    }
}

/// The error for text that is not a line id.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a line id; a line id looks like 3-17.1")]
pub(crate) struct InvalidLineId(String);

impl FromStr for LineId {
    type Err = InvalidLineId;

    fn from_str(text: &str) -> Result<Self, InvalidLineId> {
        let parse = || {
            let (event, n) = text.split_once('.')?;
            let EventId { epoch, seq } = event.parse().ok()?;
            Some(Self { epoch, seq, n: parse_digits(n)? })
        };
        parse().ok_or_else(|| InvalidLineId(text.chars().take(80).collect()))
    }
}

/// The stream of AIP-46 that a line belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputStream {
    Stdout,
    Stderr,
}

impl OutputStream {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// The lines that a reader wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LineChoice {
    /// Secrets are shown as they are.
    pub(crate) secrets: bool,
    /// The prompts, at the start of their turns.
    pub(crate) prompts: bool,
    pub(crate) plans: bool,
}

/// The rows of AIP-46's table of output lines (rule 8.4), and those that a reader may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineKind {
    Text,
    Thought,
    Tool,
    ToolError,
    AwaitingInput,
    TurnEnd,
    Error,
    Prompt,
    Plan,
}

/// One line, without colours or control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TranscriptLine {
    pub(crate) id: LineId,
    pub(crate) text: String,
    pub(crate) stream: OutputStream,
    pub(crate) kind: LineKind,
}

#[cfg(test)]
mod tests;
