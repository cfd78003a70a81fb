//! Carries messages between a client on stdin and stdout and the host, for both programs that do
//! so: `wharf acp` and `wharf mcp`. A [`StdioBridge`] decides, without any IO; [`run`] moves the
//! bytes.

mod pump;
mod stdio;
mod waiting_lines;

use std::io;
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use wharf_api::ErrorCode;
use wharf_json::rpc;

use crate::connect::ConnectError;

pub(crate) use pump::run;
#[cfg(test)]
pub(crate) use waiting_lines::MAX_WAITING_LINES;
pub(crate) use waiting_lines::WaitingLines;

/// The messages that [`run`] has to send, in order, in each direction.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct BridgeStep {
    pub(crate) to_client: Vec<Bytes>,
    pub(crate) to_host: Vec<Bytes>,
    /// Lines for stderr.
    pub(crate) notes: Vec<String>,
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DisconnectCause {
    ConnectionLost,
    /// The host refused a message that is over its limit. It would refuse the message again.
    MessageTooLarge,
}

/// The state machine between one client and the host: takes the messages of both and returns the
/// messages to send.
pub(crate) trait StdioBridge {
    /// How long the program still runs for the answers to a client that has closed stdin.
    const ANSWER_GRACE: Duration;
    /// The facts that the bridge needs about the host of each connection.
    type HostFacts;

    fn handle_connected(&mut self, facts: Self::HostFacts) -> BridgeStep;
    fn handle_disconnected(&mut self, cause: DisconnectCause) -> BridgeStep;
    /// Handles one line of the client, without its line break.
    fn handle_line(&mut self, line: Bytes) -> BridgeStep;
    /// Handles a line of the client that is over the limit; only its first bytes are known.
    fn handle_oversized_line(&mut self, head: &[u8], limit: usize) -> BridgeStep;
    fn handle_host_frame(&mut self, frame: Bytes) -> BridgeStep;
    /// Returns true if another line of the client can be handled. Otherwise stdin has to wait.
    fn has_room(&self) -> bool;
    /// Returns true if a client that has closed stdin still needs a connection, although there is
    /// none now.
    fn needs_connection(&self) -> bool;
    /// Returns true if a client that has closed stdin still waits for answers.
    fn awaits_answers(&self) -> bool;
}

/// The place at which the host serves a bridge's protocol.
pub(crate) trait HostEndpoint {
    type HostFacts;
    type Receiver: FrameReceiver;
    type Sender: FrameSender;

    async fn connect(&self) -> Result<HostConnection<Self>, ConnectError>;
}

/// An open connection to the host.
#[derive(Debug)]
pub(crate) struct HostConnection<E: HostEndpoint + ?Sized> {
    pub(crate) facts: E::HostFacts,
    pub(crate) receiver: E::Receiver,
    pub(crate) sender: E::Sender,
}

pub(crate) trait FrameReceiver {
    /// Returns the next frame of the host. A call that is dropped before it completes loses
    /// nothing.
    async fn receive_frame(&mut self) -> Result<Bytes, DisconnectCause>;
}

pub(crate) trait FrameSender: Send + 'static {
    /// Takes a frame, which may be kept in memory until the flush.
    fn feed_frame(&mut self, frame: Bytes) -> impl Future<Output = io::Result<()>> + Send;
    fn flush_frames(&mut self) -> impl Future<Output = io::Result<()>> + Send;
    /// Flushes and ends this direction of the connection.
    fn close(&mut self) -> impl Future<Output = io::Result<()>> + Send;
}

/// Makes the error response to a request that a bridge answers itself.
pub(crate) fn refusal(id: &[u8], reason: ErrorCode, message: &str) -> Bytes {
    rpc::error_response(
        id,
        rpc::error(reason.json_rpc(), message, Some(json!({ "reason": reason }))),
    )
}

pub(crate) fn describe_oversized_line(limit: usize) -> String {
    format!("a message over {limit} bytes was not read")
}
