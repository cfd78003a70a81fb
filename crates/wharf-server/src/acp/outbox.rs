//! The way out for the inbound half of a connection: messages for the task that writes to the
//! client.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;
use wharf_host::core::{ClientId, Seq, SessionId};
use wharf_host::{
    Abilities, Attendance, ByteBudget, CloseSignal, Direct, Lane, LaneMessage, Serves, Transport,
};

use super::out_frame::OutFrame;
use super::outbound::Out;
use super::shown::ShownUpTo;

/// Answers and joins on their way out. The inbound half waits when the client does not take them.
const OUTS_CAPACITY: usize = 64;
/// Presence and the like; a connection that lets this many pile up is not reading.
const LANE_CAPACITY: usize = 256;
/// The close code of a connection that was given more than it reads.
pub(super) const OVERLOADED_CLOSE_CODE: u16 = 1013;

/// The sending ends of a connection's queues.
#[derive(Debug)]
pub(super) struct ClientOutbox {
    outs: mpsc::Sender<Out>,
    /// For messages that have to keep their order with a session's log.
    lane: Lane,
    /// Raised when the connection has to close.
    close: Arc<CloseSignal>,
    buffers: Arc<ByteBudget>,
}

/// The receiving ends, for the task that writes.
#[derive(Debug)]
pub(super) struct Outlet {
    pub(super) outs: mpsc::Receiver<Out>,
    pub(super) lane: mpsc::Receiver<LaneMessage>,
    pub(super) shown: Arc<ShownUpTo>,
    pub(super) client: ClientId,
    pub(super) buffers: Arc<ByteBudget>,
}

impl ClientOutbox {
    pub(super) fn new(
        client: &ClientId,
        shown: Arc<ShownUpTo>,
        buffers: &Arc<ByteBudget>,
    ) -> (Self, Outlet) {
        let (outs, outs_out) = mpsc::channel(OUTS_CAPACITY);
        let (lane, lane_out) = mpsc::channel(LANE_CAPACITY);
        let buffers = Arc::clone(buffers);
        let outlet = Outlet {
            outs: outs_out,
            lane: lane_out,
            shown,
            client: client.clone(),
            buffers: Arc::clone(&buffers),
        };
        (Self { outs, lane, close: Arc::default(), buffers }, outlet)
    }

    /// Hands a message to the writer; it is dropped if the writer is gone.
    pub(super) async fn send(&self, out: Out) {
        let _ = self.outs.send(out).await;
    }

    /// The same; fails if the writer is gone.
    pub(super) async fn try_send(&self, out: Out) -> Result<(), ()> {
        self.outs.send(out).await.map_err(|_| ())
    }

    /// Sends an answer to a request that named this session, or none.
    pub(super) async fn answer(&self, session: Option<SessionId>, frame: Bytes) {
        self.send(Out::Answer { session, frame: self.count(frame) }).await;
    }

    /// Sends a frame in its order with the session's log: when everything up to `after` is out.
    pub(super) async fn send_after(&self, session: &SessionId, frame: Bytes, after: Seq) {
        let message = LaneMessage {
            session: session.clone(),
            after,
            direct: Direct::Frame(frame),
            permit: None,
        };
        let _ = self.lane.send(message).await;
    }

    /// Closes the connection when everything before is out.
    pub(super) async fn close(&self, code: u16, reason: &'static str) {
        self.send(Out::Close { code, reason }).await;
    }

    /// The same, unless the queue is full.
    pub(super) fn try_close(&self, code: u16, reason: &'static str) {
        let _ = self.outs.try_send(Out::Close { code, reason });
    }

    /// Returns an answer that is counted if it is large.
    pub(super) fn count(&self, frame: Bytes) -> OutFrame {
        let is_large = frame.len() > ByteBudget::UNCOUNTED_BYTES;
        let permit = is_large.then(|| Arc::new(self.buffers.charge_out(frame.len())));
        OutFrame::from(frame).counted_by(permit)
    }

    /// Returns the signal that is raised when the connection has to close.
    pub(super) fn close_signal(&self) -> &Arc<CloseSignal> {
        &self.close
    }

    /// Returns how a session reaches this connection.
    pub(super) fn attendance(
        &self,
        serves: Serves,
        abilities: Abilities,
        transport: Transport,
    ) -> Attendance {
        Attendance {
            lane: self.lane.clone(),
            close: Arc::clone(&self.close),
            serves,
            abilities,
            transport,
        }
    }

    /// Returns a sender for other connections, which does not keep the writer waiting.
    pub(super) fn weak_sender(&self) -> mpsc::WeakSender<Out> {
        self.outs.downgrade()
    }
}
