//! What a connection's messages go out by: one socket for all, or a stream for each session.

use tokio::time::Instant as Moment;
use wharf_host::core::{Epoch, Seq, SessionId};

use super::out_frame::OutFrame;

/// The client cannot be written to any more.
#[derive(Debug)]
pub(super) struct Closed;

/// What a message is. Where there are streams, this says which one it belongs to and what it is called there.
#[derive(Clone, Copy, Debug)]
pub(super) enum Origin<'a> {
    /// Of no session: answers to requests that named none.
    Connection,
    /// The answer to a request that named this session.
    Answer(&'a SessionId),
    /// Made of an event of the session's log.
    Event { session: &'a SessionId, epoch: Epoch, seq: Seq, last: bool, again: Again },
    /// Of the session, but not in its log; or shown only now.
    Beside(&'a SessionId),
}

/// Can the log alone give a message again, the same as it was?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    FromLog,
    /// It depends on what this client had sent or been asked at that moment.
    Never,
}

/// Can messages of a session go out now?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    /// There is one line for everything, and the writer waits in it.
    Line,
    /// The session's stream has a reader.
    Open,
    /// It has, and the reader is not done with what it was given.
    Full,
    /// Nobody reads the session's stream, since then; `None`: nobody ever did.
    Closed { since: Option<Moment> },
}

impl Gate {
    pub(super) fn lets_through(self) -> bool {
        matches!(self, Self::Line | Self::Open)
    }

    /// Has the client opened a way for this session's messages alone?
    pub(super) fn is_own(self) -> bool {
        matches!(self, Self::Open | Self::Full)
    }
}

pub(super) trait Wire: Send {
    fn gate(&self, session: &SessionId) -> Gate;

    /// Done when a gate may have changed.
    fn changed(&self) -> impl Future<Output = ()> + Send;

    /// Takes a message. It may stay with us until `flush`.
    fn feed(&mut self, origin: Origin<'_>, frame: OutFrame) -> impl Future<Output = Result<(), Closed>> + Send;

    fn flush(&mut self) -> impl Future<Output = Result<(), Closed>> + Send;

    /// Called every [`TICK`]: is the peer still there?
    fn tick(&mut self) -> impl Future<Output = Result<(), Closed>> + Send;

    fn close(&mut self, code: u16, reason: &'static str) -> impl Future<Output = ()> + Send;
}

/// How often a sign of life goes out; a peer that is silent for two of these is gone (rule 3.13).
pub(super) const TICK: std::time::Duration = std::time::Duration::from_secs(20);
