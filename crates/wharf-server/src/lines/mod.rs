//! The line view: a session's log as lines of plain text, for REST, MCP and the shell (rules 8.3, 8.4).
//!
//! [`Projector`] is pure: the same events give the same lines under the same ids, whatever was read before.
//! [`Follow`] and [`last_n`] find where to begin.

mod clean;
mod paint;
mod piece;
mod projector;
mod read;
mod start;

use std::fmt;
use std::str::FromStr;

use wharf_host::core::{Epoch, Seq};

pub use paint::paint;
use projector::Projector;
pub(crate) use read::{Follow, Followed, LastLines, LinesError, MostLines, last_n};

/// A line that goes on for longer is cut here.
const LONGEST: usize = 64 * 1024;

/// Which line: the `n`-th (from 1) that event `seq` completes. Written `<epoch>-<seq>.<n>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineId {
    pub(crate) epoch: Epoch,
    pub(crate) seq: Seq,
    pub(crate) n: u64,
}

impl fmt::Display for LineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}.{}", self.epoch, self.seq, self.n)
    }
}

/// The text is no line id.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no line id; they look like 3-17.1")]
pub(crate) struct NotALineId(String);

impl FromStr for LineId {
    type Err = NotALineId;

    fn from_str(text: &str) -> Result<Self, NotALineId> {
        let parse = || {
            let (epoch, rest) = text.split_once('-')?;
            let (seq, n) = rest.split_once('.')?;
            Some(Self { epoch: Epoch(number(epoch)?), seq: Seq(number(seq)?), n: number(n)? })
        };
        parse().ok_or_else(|| NotALineId(text.chars().take(80).collect()))
    }
}

/// Digits only: `parse` alone would take a plus sign.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// Which of AIP-46's two streams a line belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// The rows of AIP-46's table of output lines (rule 8.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineKind {
    Text,
    Thought,
    Tool,
    ToolError,
    AwaitingInput,
    TurnEnd,
    Error,
}

/// One line, without colours or control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) id: LineId,
    pub(crate) text: String,
    pub(crate) stream: Stream,
    pub(crate) kind: LineKind,
}

#[cfg(test)]
mod tests;
