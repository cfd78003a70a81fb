//! Carries lines between stdin, stdout and the host's socket, as [`McpBridge`] decides. Neither direction waits for the other.

use std::pin::pin;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, WriteHalf};
use tokio::sync::mpsc::{self, Receiver, Sender};

use super::{McpBridge, McpConnector, McpStep};
use crate::bridge::stdio::{self, Input};
use crate::connect::HostStream;
use crate::output;

/// How long the program still runs for the answers to a client that has closed stdin: enough for the start of an agent.
const ANSWER_GRACE: Duration = Duration::from_secs(5);
/// How long the last lines to both sides may take.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(1);
/// After a connection that ended sooner, the program waits before it connects again: the cause may still be there.
const MIN_CONNECTION_TIME: Duration = Duration::from_millis(200);
/// The most blocks that wait for the task that writes to the host's socket.
const MAX_QUEUED_BLOCKS: usize = 16;

struct Pump {
    bridge: McpBridge,
    lines: Receiver<Input>,
    /// The time at which stdin ended.
    ended_at: Option<Instant>,
    out: Sender<Vec<u8>>,
    to_client: Vec<u8>,
    to_host: Vec<u8>,
}

/// Why [`Pump::exchange_lines`] returned.
enum End {
    HostLost,
    ClientDone,
}

/// Serves the client on stdin and stdout until stdin ends.
pub(crate) async fn run(bridge: McpBridge, mut connector: McpConnector) -> anyhow::Result<()> {
    let lines = stdio::read_lines(std::io::stdin());
    let (out, written) = stdio::write_blocks(std::io::stdout());
    let mut pump = Pump { bridge, lines, ended_at: None, out, to_client: Vec::new(), to_host: Vec::new() };
    let result = pump.serve_client(&mut connector).await;
    let rest = std::mem::take(&mut pump.to_client);
    let last = async {
        if !rest.is_empty() {
            let _ = pump.out.send(rest).await;
        }
        drop(pump);
        let _ = written.await;
    };
    let _ = tokio::time::timeout(SHUTDOWN_GRACE, last).await;
    result
}

impl Pump {
    async fn serve_client(&mut self, connector: &mut McpConnector) -> anyhow::Result<()> {
        let mut connected = self.read_client_during(connector.connect_first()).await;
        loop {
            let Some(stream) = connected else { return Ok(()) };
            let since = Instant::now();
            match self.exchange_lines(stream?).await {
                End::ClientDone => return Ok(()),
                End::HostLost => self.bridge.handle_disconnected(),
            }
            self.to_host.clear();
            output::print_note("wharf mcp: the connection to the host is lost; looking for it again");
            let pause = MIN_CONNECTION_TIME.saturating_sub(since.elapsed());
            let again = async {
                tokio::time::sleep(pause).await;
                connector.reconnect().await
            };
            connected = self.read_client_during(again).await;
            if matches!(connected, Some(Ok(_))) {
                output::print_note("wharf mcp: connected again");
            }
        }
    }

    /// Waits for a connection and reads the client's lines meanwhile. Returns `None` if the client has closed stdin and waits
    /// for no answer.
    async fn read_client_during<T>(&mut self, connecting: impl Future<Output = T>) -> Option<T> {
        let mut connecting = pin!(connecting);
        loop {
            if self.ended_at.is_some() && !self.bridge.has_open_requests() {
                return None;
            }
            let (out, reads, writes) = (self.out.clone(), self.may_read(), !self.to_client.is_empty());
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

    async fn exchange_lines(&mut self, stream: HostStream) -> End {
        let (read, write) = tokio::io::split(stream);
        let mut from_host = BufReader::with_capacity(64 * 1024, read);
        let (to_socket, outgoing) = mpsc::channel(MAX_QUEUED_BLOCKS);
        let mut sending = tokio::spawn(send_blocks(write, outgoing));
        // The grace period of a client that has closed stdin begins with the connection.
        self.ended_at = self.ended_at.map(|_| Instant::now());
        let step = self.bridge.handle_connected();
        self.apply_step(step);
        let mut line = Vec::new();
        let end = loop {
            if self.is_done() {
                break End::ClientDone;
            }
            let reads = self.to_host.is_empty() && self.may_read();
            let (out, writes) = (self.out.clone(), !self.to_client.is_empty());
            tokio::select! {
                // `line` keeps what has arrived of a line if another branch is faster.
                read = from_host.read_until(b'\n', &mut line), if !writes => {
                    if !self.take_host_line(read, &mut line) {
                        break End::HostLost;
                    }
                }
                input = self.lines.recv(), if reads => self.take_client_input(input),
                permit = to_socket.reserve(), if !self.to_host.is_empty() => match permit {
                    Ok(permit) => permit.send(std::mem::take(&mut self.to_host)),
                    // The socket is not writable any more. Lines that arrived before can still be read.
                    Err(_) => self.to_host.clear(),
                },
                permit = out.reserve(), if writes => match permit {
                    Ok(permit) => permit.send(std::mem::take(&mut self.to_client)),
                    Err(_) => break End::ClientDone,
                },
                () = wait_for_grace_period(self.ended_at) => break End::ClientDone,
            }
        };
        drop(to_socket);
        if matches!(end, End::ClientDone) {
            let _ = tokio::time::timeout(SHUTDOWN_GRACE, &mut sending).await;
        }
        sending.abort();
        end
    }

    /// Takes a whole line of the host. Returns false if the connection has ended; the beginning of a line that was cut off by
    /// that is dropped, since its request is open still.
    fn take_host_line(&mut self, read: std::io::Result<usize>, line: &mut Vec<u8>) -> bool {
        if !read.is_ok_and(|read| read > 0) || line.last() != Some(&b'\n') {
            return false;
        }
        line.truncate(line.trim_ascii_end().len());
        if !line.is_empty() {
            let step = self.bridge.handle_host_line(std::mem::take(line).into());
            self.apply_step(step);
        }
        true
    }

    /// Returns true if stdin has ended and the client has all answers that it waits for.
    fn is_done(&self) -> bool {
        let is_sent = self.to_client.is_empty() && self.to_host.is_empty();
        self.ended_at.is_some() && is_sent && !self.bridge.has_open_requests()
    }

    fn may_read(&self) -> bool {
        self.ended_at.is_none() && self.bridge.has_room()
    }

    fn take_client_input(&mut self, input: Option<Input>) {
        let step = match input {
            Some(Input::Line(line)) => self.bridge.handle_line(line),
            Some(Input::Oversized { head }) => self.bridge.handle_oversized_line(&head, stdio::MAX_LINE_BYTES),
            None => {
                self.ended_at = Some(Instant::now());
                return;
            }
        };
        self.apply_step(step);
    }

    fn apply_step(&mut self, step: McpStep) {
        for (lines, block) in [(step.to_client, &mut self.to_client), (step.to_host, &mut self.to_host)] {
            for line in lines {
                block.extend_from_slice(&line);
                block.push(b'\n');
            }
        }
    }
}

/// Completes [`ANSWER_GRACE`] after the end of stdin; never if stdin is open.
async fn wait_for_grace_period(ended_at: Option<Instant>) {
    match ended_at {
        Some(at) => tokio::time::sleep(ANSWER_GRACE.saturating_sub(at.elapsed())).await,
        None => std::future::pending().await,
    }
}

/// Writes blocks to the host until the sender is dropped, then ends this direction.
async fn send_blocks(mut socket: WriteHalf<HostStream>, mut blocks: Receiver<Vec<u8>>) {
    while let Some(block) = blocks.recv().await {
        if socket.write_all(&block).await.is_err() {
            return;
        }
    }
    let _ = socket.shutdown().await;
}
