//! The transport of a connection's messages: one socket for all, or a stream for each session.

use tokio::time::Instant as Moment;
use wharf_host::core::{Epoch, Seq, SessionId};

use super::out_frame::OutFrame;

/// The client cannot be written to any more.
#[derive(Debug)]
pub(super) struct Closed;

/// The origin of a message. Where there are streams, it decides the stream and the message's id
/// there.
#[derive(Clone, Copy, Debug)]
pub(super) enum FrameOrigin<'a> {
    /// Of no session: answers to requests that named none.
    Connection,
    /// The answer to a request that named this session.
    Answer(&'a SessionId),
    /// Made of an event of the session's log.
    Event { session: &'a SessionId, epoch: Epoch, seq: Seq, last: bool, again: Again },
    /// Of the session, but not in its log; or shown only now.
    Beside(&'a SessionId),
}

/// Whether the log alone can give a message again, the same as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    FromLog,
    /// It depends on what this client had sent or been asked at that moment.
    Never,
}

/// Whether messages of a session can go out now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    /// There is one line for everything, and the writer waits in it.
    Line,
    /// The session's stream has a reader.
    Open,
    /// The session's stream has a reader, for which too many messages wait already.
    Full,
    /// The session's stream has had no reader since then; `None`: it never had one.
    Closed { since: Option<Moment> },
}

impl Gate {
    pub(super) fn lets_through(self) -> bool {
        matches!(self, Self::Line | Self::Open)
    }

    /// Returns true if the client has opened a stream for this session's messages alone.
    pub(super) fn is_own(self) -> bool {
        matches!(self, Self::Open | Self::Full)
    }
}

pub(super) trait Wire: Send {
    fn gate(&self, session: &SessionId) -> Gate;

    /// Done when a gate may have changed.
    fn changed(&self) -> impl Future<Output = ()> + Send;

    /// Takes a message. It may stay with us until `flush`.
    fn feed(
        &mut self,
        origin: FrameOrigin<'_>,
        frame: OutFrame,
    ) -> impl Future<Output = Result<(), Closed>> + Send;

    fn flush(&mut self) -> impl Future<Output = Result<(), Closed>> + Send;

    /// Checks every [`HEARTBEAT_EVERY`] whether the peer is still there.
    fn tick(&mut self) -> impl Future<Output = Result<(), Closed>> + Send;

    fn close(&mut self, code: u16, reason: &'static str) -> impl Future<Output = ()> + Send;
}

/// How often a sign of life goes out; a peer that is silent for two of these is gone (rule 3.13).
pub(super) const HEARTBEAT_EVERY: std::time::Duration = std::time::Duration::from_secs(20);
