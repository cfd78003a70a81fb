//! Carries bytes between stdin, stdout and the host's socket, as [`Bridge`] decides.
//!
//! Neither direction waits for the other, so a client and a host that both write without reading do not block each other.

use std::collections::VecDeque;
use std::pin::pin;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{FutureExt, SinkExt, StreamExt};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::oneshot;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{self, Message, Utf8Bytes};

use super::host_connection::{HostConnector, HostLink};
use super::stdio::{self, Input};
use super::{Bridge, BridgeStep, DisconnectCause};
use crate::connect::HostStream;
use crate::{connect, output};

/// How long the bridge still runs for the answers to a client that has closed stdin, and for the last messages to the host.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(1);
/// After a connection that ended sooner, the bridge waits before it connects again: the cause may still be there.
const MIN_CONNECTION_TIME: Duration = Duration::from_millis(200);
/// The most frames that wait for the task that writes to the host's socket.
const MAX_QUEUED_FRAMES: usize = 16;
/// The bytes that are collected for one write to stdout: as many as a pipe holds.
const OUTPUT_BLOCK_BYTES: usize = 64 * 1024;

type Socket = WebSocketStream<HostStream>;
type HostMessage = Option<Result<Message, tungstenite::Error>>;

#[derive(Debug)]
struct Pump {
    bridge: Bridge,
    lines: Receiver<Input>,
    /// The time at which stdin ended.
    ended_at: Option<Instant>,
    out: Sender<Vec<u8>>,
    to_client: Vec<u8>,
    to_host: VecDeque<Bytes>,
}

/// Why [`Pump::exchange_frames`] returned.
enum End {
    Lost(DisconnectCause),
    Done,
}

/// Serves the client on stdin and stdout until stdin ends.
pub(crate) async fn run(bridge: Bridge, mut connector: HostConnector) -> anyhow::Result<()> {
    let lines = stdio::read_lines(std::io::stdin());
    let (out, written) = stdio::write_blocks(std::io::stdout());
    let (to_client, to_host) = (Vec::new(), VecDeque::new());
    let mut pump = Pump { bridge, lines, ended_at: None, out, to_client, to_host };
    let result = pump.serve_client(&mut connector).await;
    finish_output(pump, written).await;
    result
}

/// Writes the remaining output, for [`SHUTDOWN_GRACE`] at most.
async fn finish_output(mut pump: Pump, written: oneshot::Receiver<()>) {
    let rest = std::mem::take(&mut pump.to_client);
    let last = async {
        if !rest.is_empty() {
            let _ = pump.out.send(rest).await;
        }
        drop(pump);
        let _ = written.await;
    };
    let _ = tokio::time::timeout(SHUTDOWN_GRACE, last).await;
}

impl Pump {
    async fn serve_client(&mut self, connector: &mut HostConnector) -> anyhow::Result<()> {
        let mut before = false;
        let mut link = self.read_client_during(connector.connect_first()).await;
        loop {
            let Some(connected) = link else { return Ok(()) };
            let connected = connected?;
            if std::mem::replace(&mut before, true) {
                output::print_note("wharf acp: connected again");
            }
            let since = Instant::now();
            match self.exchange_frames(connected).await {
                End::Done => return Ok(()),
                End::Lost(lost) => {
                    self.to_host.clear();
                    let step = self.bridge.handle_disconnected(lost);
                    self.apply_step(step);
                }
            }
            output::print_note("wharf acp: the connection to the host is lost; looking for it again");
            let too_soon = MIN_CONNECTION_TIME.saturating_sub(since.elapsed());
            link = self
                .read_client_during(async {
                    tokio::time::sleep(too_soon).await;
                    connector.reconnect().await
                })
                .await;
        }
    }

    /// Waits for a connection and reads the client's lines meanwhile. Returns `None` if the client has closed stdin and no line
    /// waits.
    async fn read_client_during<T>(&mut self, link: impl Future<Output = T>) -> Option<T> {
        let mut link = pin!(link);
        loop {
            if self.ended_at.is_some() && !self.bridge.is_waiting() {
                return None;
            }
            let (out, reads, writes) = (self.out.clone(), self.may_read(), !self.to_client.is_empty());
            tokio::select! {
                // Polled first, so that a failed connection is reported even if stdin has ended.
                biased;
                link = &mut link => return Some(link),
                line = self.lines.recv(), if reads => self.take_client_input(line),
                permit = out.reserve(), if writes => match permit {
                    Ok(permit) => permit.send(std::mem::take(&mut self.to_client)),
                    Err(_) => return None,
                },
            }
        }
    }

    async fn exchange_frames(&mut self, link: HostLink) -> End {
        let HostLink { socket, host, wanted } = link;
        let environment = wanted.map(|wanted| connect::forwarded_environment(&wanted)).unwrap_or_default();
        self.bridge.handle_environment(environment);
        let (sink, mut frames) = socket.split();
        let (to_socket, outgoing) = mpsc::channel(MAX_QUEUED_FRAMES);
        let mut sending = tokio::spawn(send_frames(sink, outgoing));
        // The grace period of a client that has closed stdin begins with the connection.
        self.ended_at = self.ended_at.map(|_| Instant::now());
        let step = self.bridge.handle_connected(host);
        self.apply_step(step);
        let end = loop {
            if self.is_done() {
                break End::Done;
            }
            let reads = self.to_host.is_empty() && self.may_read();
            let (out, writes) = (self.out.clone(), !self.to_client.is_empty());
            tokio::select! {
                frame = frames.next(), if !writes => {
                    if let Err(lost) = self.take_host_frames(frame, &mut frames) {
                        break End::Lost(lost);
                    }
                }
                line = self.lines.recv(), if reads => self.take_client_input(line),
                permit = to_socket.reserve(), if !self.to_host.is_empty() => match permit {
                    Ok(permit) => permit.send(self.to_host.pop_front().unwrap_or_default()),
                    // The socket is not writable any more. Frames that arrived before can still be read.
                    Err(_) => self.to_host.clear(),
                },
                permit = out.reserve(), if writes => match permit {
                    Ok(permit) => permit.send(std::mem::take(&mut self.to_client)),
                    Err(_) => break End::Done,
                },
                () = wait_for_grace_period(self.ended_at) => break End::Done,
            }
        };
        drop(to_socket);
        if matches!(end, End::Done) {
            // The writing task sends the remaining frames and closes the connection.
            let _ = tokio::time::timeout(SHUTDOWN_GRACE, &mut sending).await;
        }
        sending.abort();
        end
    }

    /// Takes a frame of the host and all that have arrived with it, so that they are written to stdout at once.
    fn take_host_frames(&mut self, first: HostMessage, more: &mut SplitStream<Socket>) -> Result<(), DisconnectCause> {
        let mut next = Some(first);
        while let Some(message) = next {
            if let Some(frame) = read_host_message(message)? {
                let step = self.bridge.handle_frame(frame);
                self.apply_step(step);
            }
            next = if self.to_client.len() < OUTPUT_BLOCK_BYTES { more.next().now_or_never() } else { None };
        }
        Ok(())
    }

    /// Returns true if stdin has ended and the client has all answers that it waits for.
    fn is_done(&self) -> bool {
        self.ended_at.is_some()
            && self.to_client.is_empty()
            && self.to_host.is_empty()
            && !self.bridge.has_unanswered_requests()
    }

    fn may_read(&self) -> bool {
        self.ended_at.is_none() && self.bridge.has_room()
    }

    fn take_client_input(&mut self, line: Option<Input>) {
        let step = match line {
            Some(Input::Line(line)) => self.bridge.handle_line(line),
            Some(Input::Oversized { head }) => self.bridge.handle_oversized_line(&head, stdio::MAX_LINE_BYTES),
            None => {
                self.ended_at = Some(Instant::now());
                return;
            }
        };
        self.apply_step(step);
    }

    fn apply_step(&mut self, step: BridgeStep) {
        for frame in step.to_client {
            self.to_client.extend_from_slice(&frame);
            self.to_client.push(b'\n');
        }
        self.to_host.extend(step.to_host);
        for note in step.notes {
            output::print_note(&format!("wharf acp: {note}"));
        }
    }
}

/// Completes [`SHUTDOWN_GRACE`] after the end of stdin; never if stdin is open.
async fn wait_for_grace_period(ended_at: Option<Instant>) {
    match ended_at {
        Some(at) => tokio::time::sleep(SHUTDOWN_GRACE.saturating_sub(at.elapsed())).await,
        None => std::future::pending().await,
    }
}

/// Writes frames to the host, with one flush for frames that wait together, then closes the connection.
async fn send_frames(mut sink: SplitSink<Socket, Message>, mut frames: Receiver<Bytes>) {
    while let Some(frame) = frames.recv().await {
        let Ok(text) = Utf8Bytes::try_from(frame) else { continue };
        let sent = sink.feed(Message::Text(text)).await;
        if sent.is_err() || (frames.is_empty() && sink.flush().await.is_err()) {
            return;
        }
    }
    let _ = sink.close().await;
}

/// Returns the frame that a message holds, if any, or why the connection ended.
fn read_host_message(message: HostMessage) -> Result<Option<Bytes>, DisconnectCause> {
    match message {
        Some(Ok(Message::Text(text))) => Ok(Some(text.into())),
        Some(Ok(Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => Ok(None),
        Some(Ok(Message::Close(Some(goodbye)))) if goodbye.code == CloseCode::Size => {
            Err(DisconnectCause::MessageTooLarge)
        }
        Some(Ok(Message::Close(_)) | Err(_)) | None => Err(DisconnectCause::ConnectionLost),
    }
}
