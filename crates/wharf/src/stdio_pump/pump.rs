//! Moves bytes between stdin, stdout and the host, as a [`StdioBridge`] decides.
//!
//! Neither direction waits for the other, so a client and a host that both write without reading do
//! not block each other.

use std::collections::VecDeque;
use std::pin::pin;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::oneshot;

use super::stdio::{self, Input};
use super::{
    BridgeStep, DisconnectCause, FrameReceiver, FrameSender, HostConnection, HostEndpoint,
    StdioBridge,
};
use crate::connect::HostLocator;
use crate::output;

/// How long the last bytes to the client and to the host may take.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(1);
/// After a connection that ended sooner, the pump waits before it connects again: the cause may
/// still be there.
const MIN_CONNECTION_TIME: Duration = Duration::from_millis(200);
/// The most frames that wait for the task that writes to the host.
const MAX_QUEUED_FRAMES: usize = 16;
/// The bytes that are collected for one write to stdout: as many as a pipe holds.
const OUTPUT_BLOCK_BYTES: usize = 64 * 1024;

#[derive(Debug)]
struct Pump<B> {
    bridge: B,
    /// The command in notes: `wharf acp`.
    program: &'static str,
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
pub(crate) async fn run<B, E>(
    bridge: B,
    mut locator: HostLocator,
    endpoint: E,
) -> anyhow::Result<()>
where
    B: StdioBridge,
    E: HostEndpoint<HostFacts = B::HostFacts>,
{
    let lines = stdio::read_lines(std::io::stdin());
    let (out, written) = stdio::write_blocks(std::io::stdout());
    let program = locator.program();
    let to_client = Vec::new();
    let to_host = VecDeque::new();
    let mut pump = Pump {
        bridge,
        program,
        lines,
        ended_at: None,
        out,
        to_client,
        to_host,
    };
    let result = pump.serve_client(&mut locator, &endpoint).await;
    finish_output(pump, written).await;
    result
}

/// Writes the remaining output, for [`SHUTDOWN_GRACE`] at most.
async fn finish_output<B>(mut pump: Pump<B>, written: oneshot::Receiver<()>) {
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

impl<B: StdioBridge> Pump<B> {
    async fn serve_client<E>(
        &mut self,
        locator: &mut HostLocator,
        endpoint: &E,
    ) -> anyhow::Result<()>
    where
        E: HostEndpoint<HostFacts = B::HostFacts>,
    {
        let mut connected = self
            .read_client_during(locator.connect_first(async || endpoint.connect().await))
            .await;
        while let Some(connection) = connected {
            let connection = connection?;
            let since = Instant::now();
            let End::Lost(cause) = self.exchange_frames(connection).await else { break };
            self.to_host.clear();
            let step = self.bridge.handle_disconnected(cause);
            self.apply_step(step);
            self.print_note("the connection to the host is lost; looking for it again");
            let too_soon = MIN_CONNECTION_TIME.saturating_sub(since.elapsed());
            let reconnecting = async {
                tokio::time::sleep(too_soon).await;
                locator.reconnect(async || endpoint.connect().await).await
            };
            connected = self.read_client_during(reconnecting).await;
            if matches!(connected, Some(Ok(_))) {
                self.print_note("connected again");
            }
        }
        Ok(())
    }

    /// Waits for a connection and reads the client's lines meanwhile. Returns `None` if the client
    /// has closed stdin and needs no connection.
    async fn read_client_during<T>(&mut self, connecting: impl Future<Output = T>) -> Option<T> {
        let mut connecting = pin!(connecting);
        loop {
            if self.ended_at.is_some() && !self.bridge.needs_connection() {
                return None;
            }
            let out = self.out.clone();
            let reads = self.may_read();
            let writes = !self.to_client.is_empty();
            tokio::select! {
                // Polled first, so that a failed connection is reported even if stdin has ended.
                biased;
                connected = &mut connecting => return Some(connected),
                line = self.lines.recv(), if reads => self.take_client_input(line),
                permit = out.reserve(), if writes => match permit {
                    Ok(permit) => permit.send(std::mem::take(&mut self.to_client)),
                    Err(_) => return None,
                },
            }
        }
    }

    async fn exchange_frames<E>(&mut self, connection: HostConnection<E>) -> End
    where
        E: HostEndpoint<HostFacts = B::HostFacts>,
    {
        let HostConnection { facts, mut receiver, sender } = connection;
        let (to_sender, outgoing) = mpsc::channel(MAX_QUEUED_FRAMES);
        let mut sending = tokio::spawn(send_frames(sender, outgoing));
        // The grace period of a client that has closed stdin begins with the connection.
        self.ended_at = self.ended_at.map(|_| Instant::now());
        let step = self.bridge.handle_connected(facts);
        self.apply_step(step);
        let end = self.exchange_until_end(&mut receiver, &to_sender).await;
        drop(to_sender);
        if matches!(end, End::Done) {
            // The writing task sends the remaining frames and closes the connection.
            let _ = tokio::time::timeout(SHUTDOWN_GRACE, &mut sending).await;
        }
        sending.abort();
        end
    }

    async fn exchange_until_end(
        &mut self,
        receiver: &mut impl FrameReceiver,
        to_sender: &Sender<Bytes>,
    ) -> End {
        loop {
            if self.is_done() {
                return End::Done;
            }
            let reads = self.to_host.is_empty() && self.may_read();
            let out = self.out.clone();
            let writes = !self.to_client.is_empty();
            tokio::select! {
                frame = receiver.receive_frame(), if !writes => {
                    if let Err(cause) = self.take_host_frames(frame, receiver) {
                        return End::Lost(cause);
                    }
                }
                line = self.lines.recv(), if reads => self.take_client_input(line),
                permit = to_sender.reserve(), if !self.to_host.is_empty() => match permit {
                    Ok(permit) => permit.send(self.to_host.pop_front().unwrap_or_default()),
                    // The host does not read any more. Frames that arrived before can still be
                    // read.
                    Err(_) => self.to_host.clear(),
                },
                permit = out.reserve(), if writes => match permit {
                    Ok(permit) => permit.send(std::mem::take(&mut self.to_client)),
                    Err(_) => return End::Done,
                },
                () = wait_after(self.ended_at, B::ANSWER_GRACE) => return End::Done,
            }
        }
    }

    /// Takes a frame of the host and all that have arrived with it, so that they are written to
    /// stdout at once.
    fn take_host_frames(
        &mut self,
        first: Result<Bytes, DisconnectCause>,
        more: &mut impl FrameReceiver,
    ) -> Result<(), DisconnectCause> {
        let mut next = Some(first);
        while let Some(frame) = next {
            let step = self.bridge.handle_host_frame(frame?);
            self.apply_step(step);
            next = if self.to_client.len() < OUTPUT_BLOCK_BYTES {
                more.receive_frame().now_or_never()
            } else {
                None
            };
        }
        Ok(())
    }

    /// Returns true if stdin has ended and the client has all answers that it waits for.
    fn is_done(&self) -> bool {
        let is_all_sent = self.to_client.is_empty() && self.to_host.is_empty();
        self.ended_at.is_some() && is_all_sent && !self.bridge.awaits_answers()
    }

    fn may_read(&self) -> bool {
        self.ended_at.is_none() && self.bridge.has_room()
    }

    fn take_client_input(&mut self, line: Option<Input>) {
        let step = match line {
            Some(Input::Line(line)) => self.bridge.handle_line(line),
            Some(Input::Oversized { head }) => {
                self.bridge.handle_oversized_line(&head, stdio::MAX_LINE_BYTES)
            }
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
            self.print_note(&note);
        }
    }

    fn print_note(&self, note: &str) {
        output::print_note(&format!("{}: {note}", self.program));
    }
}

/// Completes this long after the end of stdin; never if stdin is open.
async fn wait_after(ended_at: Option<Instant>, grace: Duration) {
    match ended_at {
        Some(at) => tokio::time::sleep(grace.saturating_sub(at.elapsed())).await,
        None => std::future::pending().await,
    }
}

/// Writes frames to the host, with one flush for frames that wait together, then closes the
/// connection.
async fn send_frames(mut sender: impl FrameSender, mut frames: Receiver<Bytes>) {
    while let Some(frame) = frames.recv().await {
        let fed = sender.feed_frame(frame).await;
        if fed.is_err() || (frames.is_empty() && sender.flush_frames().await.is_err()) {
            return;
        }
    }
    let _ = sender.close().await;
}
