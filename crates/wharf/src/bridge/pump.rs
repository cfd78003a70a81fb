//! Carries bytes between stdin, stdout and the host's socket, as [`Bridge`] says.
//!
//! Neither way waits for the other: a client that writes while it does not read, and a host that does the same, get on.

use std::collections::VecDeque;
use std::pin::pin;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{FutureExt, SinkExt, StreamExt};
use tokio::net::UnixStream;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::oneshot;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{self, Message, Utf8Bytes};

use super::dial::{Dial, Link};
use super::stdio::{self, Input};
use super::{Bridge, Lost, Step};
use crate::{connect, output};

/// What is owed to a client that has closed stdin may take this long; and so may the last words to the host.
const LINGER: Duration = Duration::from_secs(1);
/// A connection that ends sooner is not tried again at once: whatever ends it may do so again.
const SHORT: Duration = Duration::from_millis(200);
/// Frames on their way to the host's socket.
const FRAMES: usize = 16;
/// What is written at once: as much as a pipe holds.
const BLOCK: usize = 64 * 1024;

type Socket = WebSocketStream<UnixStream>;
type Heard = Option<Result<Message, tungstenite::Error>>;

#[derive(Debug)]
struct Pump {
    bridge: Bridge,
    lines: Receiver<Input>,
    /// Stdin is at its end since then.
    ended_at: Option<Instant>,
    out: Sender<Vec<u8>>,
    to_client: Vec<u8>,
    to_host: VecDeque<Bytes>,
}

/// How a connection ended, or the bridge's work with it.
enum End {
    Lost(Lost),
    Done,
}

/// Serves the client on stdin and stdout until stdin ends.
pub(crate) async fn run(bridge: Bridge, mut dial: Dial) -> anyhow::Result<()> {
    let lines = stdio::read(std::io::stdin());
    let (out, written) = stdio::write(std::io::stdout());
    let (to_client, to_host) = (Vec::new(), VecDeque::new());
    let mut pump = Pump { bridge, lines, ended_at: None, out, to_client, to_host };
    let result = pump.serve(&mut dial).await;
    finish(pump, written).await;
    result
}

/// What is still to be written gets a moment.
async fn finish(mut pump: Pump, written: oneshot::Receiver<()>) {
    let rest = std::mem::take(&mut pump.to_client);
    let last = async {
        if !rest.is_empty() {
            let _ = pump.out.send(rest).await;
        }
        drop(pump);
        let _ = written.await;
    };
    let _ = tokio::time::timeout(LINGER, last).await;
}

impl Pump {
    async fn serve(&mut self, dial: &mut Dial) -> anyhow::Result<()> {
        let mut before = false;
        let mut link = self.while_waiting(dial.first()).await;
        loop {
            let Some(connected) = link else { return Ok(()) };
            let connected = connected?;
            if std::mem::replace(&mut before, true) {
                output::print_note("wharf acp: connected again");
            }
            let since = Instant::now();
            match self.talk(connected).await {
                End::Done => return Ok(()),
                End::Lost(lost) => {
                    self.to_host.clear();
                    let step = self.bridge.handle_disconnected(lost);
                    self.take(step);
                }
            }
            output::print_note("wharf acp: the connection to the host is lost; looking for it again");
            let too_soon = SHORT.saturating_sub(since.elapsed());
            link = self
                .while_waiting(async {
                    tokio::time::sleep(too_soon).await;
                    dial.again().await
                })
                .await;
        }
    }

    /// Lets the client speak while there is no host; `None` if it has closed stdin and nothing is left to do.
    async fn while_waiting<T>(&mut self, link: impl Future<Output = T>) -> Option<T> {
        let mut link = pin!(link);
        loop {
            if self.ended_at.is_some() && !self.bridge.is_waiting() {
                return None;
            }
            let (out, reads, writes) = (self.out.clone(), self.may_read(), !self.to_client.is_empty());
            tokio::select! {
                // First: that there is no host at all is to be said also to one who has nothing to say.
                biased;
                link = &mut link => return Some(link),
                line = self.lines.recv(), if reads => self.heard(line),
                permit = out.reserve(), if writes => match permit {
                    Ok(permit) => permit.send(std::mem::take(&mut self.to_client)),
                    Err(_) => return None,
                },
            }
        }
    }

    async fn talk(&mut self, link: Link) -> End {
        let Link { socket, host, wanted } = link;
        self.bridge.handle_environment(connect::forwarded_environment(&wanted));
        let (sink, mut frames) = socket.split();
        let (to_socket, outgoing) = mpsc::channel(FRAMES);
        let mut sending = tokio::spawn(send(sink, outgoing));
        // The moment of a client that has closed stdin begins when it can be served.
        self.ended_at = self.ended_at.map(|_| Instant::now());
        let step = self.bridge.handle_connected(host);
        self.take(step);
        let end = loop {
            if self.is_done() {
                break End::Done;
            }
            let reads = self.to_host.is_empty() && self.may_read();
            let (out, writes) = (self.out.clone(), !self.to_client.is_empty());
            tokio::select! {
                frame = frames.next(), if !writes => {
                    if let Err(lost) = self.hear_host(frame, &mut frames) {
                        break End::Lost(lost);
                    }
                }
                line = self.lines.recv(), if reads => self.heard(line),
                permit = to_socket.reserve(), if !self.to_host.is_empty() => match permit {
                    Ok(permit) => permit.send(self.to_host.pop_front().unwrap_or_default()),
                    // Not writable any more; what was sent to us before that is still to be read.
                    Err(_) => self.to_host.clear(),
                },
                permit = out.reserve(), if writes => match permit {
                    Ok(permit) => permit.send(std::mem::take(&mut self.to_client)),
                    Err(_) => break End::Done,
                },
                () = linger(self.ended_at) => break End::Done,
            }
        };
        drop(to_socket);
        if matches!(end, End::Done) {
            // The host is told what there was to tell, and that we leave.
            let _ = tokio::time::timeout(LINGER, &mut sending).await;
        }
        sending.abort();
        end
    }

    /// Takes a frame of the host, and those that have come with it: they are written in one breath.
    fn hear_host(&mut self, first: Heard, more: &mut SplitStream<Socket>) -> Result<(), Lost> {
        let mut next = Some(first);
        while let Some(message) = next {
            if let Some(frame) = heard_from_host(message)? {
                let step = self.bridge.handle_frame(frame);
                self.take(step);
            }
            next = if self.to_client.len() < BLOCK { more.next().now_or_never() } else { None };
        }
        Ok(())
    }

    /// The client has said its last word and has been told all that it waits for.
    fn is_done(&self) -> bool {
        self.ended_at.is_some() && self.to_client.is_empty() && self.to_host.is_empty() && !self.bridge.owes()
    }

    fn may_read(&self) -> bool {
        self.ended_at.is_none() && self.bridge.has_room()
    }

    fn heard(&mut self, line: Option<Input>) {
        let step = match line {
            Some(Input::Line(line)) => self.bridge.handle_line(line),
            Some(Input::Oversized { head }) => self.bridge.handle_oversized_line(&head, stdio::LINE),
            None => {
                self.ended_at = Some(Instant::now());
                return;
            }
        };
        self.take(step);
    }

    fn take(&mut self, step: Step) {
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

/// Done when a client that has closed stdin has been given its moment.
async fn linger(ended_at: Option<Instant>) {
    match ended_at {
        Some(at) => tokio::time::sleep(LINGER.saturating_sub(at.elapsed())).await,
        None => std::future::pending().await,
    }
}

/// Writes frames to the host; many in one breath if they come so. Then says goodbye.
async fn send(mut sink: SplitSink<Socket, Message>, mut frames: Receiver<Bytes>) {
    while let Some(frame) = frames.recv().await {
        let Ok(text) = Utf8Bytes::try_from(frame) else { continue };
        let sent = sink.feed(Message::Text(text)).await;
        if sent.is_err() || (frames.is_empty() && sink.flush().await.is_err()) {
            return;
        }
    }
    let _ = sink.close().await;
}

/// The frame if it is one, or how the connection ended.
fn heard_from_host(message: Heard) -> Result<Option<Bytes>, Lost> {
    match message {
        Some(Ok(Message::Text(text))) => Ok(Some(text.into())),
        Some(Ok(Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => Ok(None),
        Some(Ok(Message::Close(Some(goodbye)))) if goodbye.code == CloseCode::Size => Err(Lost::TooBig),
        Some(Ok(Message::Close(_)) | Err(_)) | None => Err(Lost::Gone),
    }
}
