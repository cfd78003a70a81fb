//! The output: a session's log as lines of plain text, for REST, MCP and the shell (rules 8.3,
//! 8.4).
//!
//! [`Projector`] makes them: the same events give the same lines with the same ids, wherever
//! reading begins. [`find_latest_start`] says where it may begin.

mod piece;
mod projector;
mod start;

use std::fmt;
use std::str::FromStr;

use wharf_core::{Epoch, EventId, Seq, parse_digits};

pub use piece::MessageRun;
pub use projector::Projector;
pub use start::{LineMark, StartingPoint, find_latest_start, turn_state_after};

/// The most bytes of a line; a longer one becomes several.
const MAX_LINE_BYTES: usize = 64 * 1024;

/// Identifies a line: the `n`-th (from 1) that event `seq` completes. Written `<epoch>-<seq>.<n>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineId {
    pub epoch: Epoch,
    pub seq: Seq,
    pub n: u64,
}

impl LineId {
    /// Returns the event that completes the line.
    pub const fn event_id(self) -> EventId {
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
pub struct InvalidLineId(String);

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
pub enum OutputStream {
    Stdout,
    Stderr,
}

impl OutputStream {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// The lines that a reader wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineChoice {
    /// Secrets are shown as they are.
    pub secrets: bool,
    /// The prompts, at the start of their turns.
    pub prompts: bool,
    pub plans: bool,
}

/// The rows of AIP-46's table of output lines (rule 8.4), and those that a reader may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
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
pub struct TranscriptLine {
    pub id: LineId,
    pub text: String,
    pub stream: OutputStream,
    pub kind: LineKind,
}

#[cfg(test)]
mod tests;
