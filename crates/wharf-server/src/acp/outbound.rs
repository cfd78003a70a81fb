//! Event → wire: one task that merges the sessions a client watches with its answers, in order, at the client's pace.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket};
use bytes::Bytes;
use futures_util::stream::SplitSink;
use futures_util::{FutureExt, SinkExt, future};
use tokio::sync::mpsc;
use wharf_host::core::{Ask, Event, Seq};
use wharf_host::{Batch, Cursor, LaneMessage, ReadError};

use super::shown::ShownUpTo;
use super::view::{Shown, View, user_message};

/// WebSocket pings; a peer that is silent for two of these is gone (rule 3.13).
const PING: Duration = Duration::from_secs(20);

type Sink = SplitSink<WebSocket, Message>;

/// What the inbound half has for the client.
#[derive(Debug)]
pub(super) enum Out {
    Frame(Bytes),
    /// Show a session from now on.
    Join(Box<Join>),
    Close(CloseFrame),
}

/// A session to show: what is after the cursor, with an answer in between.
#[derive(Debug)]
pub(super) struct Join {
    pub(super) cursor: Cursor,
    pub(super) view: View,
    /// When everything up to here is out, `answer` follows (if there is one), then `asks`.
    pub(super) at: Seq,
    pub(super) answer: Bytes,
    pub(super) asks: Vec<Ask>,
}

/// A session being shown.
#[derive(Debug)]
struct Watched {
    cursor: Cursor,
    view: View,
    due: Option<Due>,
}

#[derive(Debug)]
struct Due {
    at: Seq,
    answer: Bytes,
    asks: Vec<Ask>,
}

/// The client cannot be written to any more.
#[derive(Debug)]
struct Closed;

#[derive(Debug)]
struct Writer {
    sink: Sink,
    watched: Vec<Watched>,
    shown: Arc<ShownUpTo>,
}

enum Wake {
    Out(Option<Out>),
    Lane,
    Events(usize, Result<Batch, ReadError>),
    Ping,
}

/// Writes until the inbound half is gone or the client is.
pub(super) async fn write(
    sink: Sink,
    mut outs: mpsc::Receiver<Out>,
    mut lane: mpsc::Receiver<LaneMessage>,
    heard: Arc<Mutex<Instant>>,
    shown: Arc<ShownUpTo>,
) {
    let mut writer = Writer { sink, watched: Vec::new(), shown };
    let mut ping = tokio::time::interval(PING);
    ping.reset();
    loop {
        let wake = tokio::select! {
            out = outs.recv() => Wake::Out(out),
            _ = lane.recv() => Wake::Lane,
            (at, batch) = next_events(&mut writer.watched) => Wake::Events(at, batch),
            _ = ping.tick() => Wake::Ping,
        };
        let result = match wake {
            Wake::Out(Some(Out::Frame(frame))) => writer.feed(frame).await,
            Wake::Out(Some(Out::Join(join))) => writer.join(*join).await,
            Wake::Out(Some(Out::Close(frame))) => {
                let _ = writer.sink.send(Message::Close(Some(frame))).await;
                return;
            }
            Wake::Out(None) => return,
            Wake::Events(at, Ok(batch)) => writer.show(at, &batch).await,
            Wake::Events(at, Err(error)) => {
                let gone = writer.watched.swap_remove(at);
                tracing::warn!(session = %gone.view.session(), %error, "a session can no longer be shown");
                Ok(())
            }
            // Presence is for clients that asked for it, which none can yet.
            Wake::Lane => Ok(()),
            Wake::Ping => {
                let silent = heard.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
                if silent > 2 * PING {
                    return;
                }
                writer.sink.feed(Message::Ping(Bytes::new())).await.map_err(|_| Closed)
            }
        };
        // More to say at once is said in the same breath: one write for many messages.
        let more = !outs.is_empty() || writer.watched.iter().any(|watched| watched.cursor.is_behind());
        if result.is_err() || (!more && writer.sink.flush().await.is_err()) {
            return;
        }
    }
}

/// The next events of any watched session. Nothing is lost when it is dropped.
async fn next_events(watched: &mut [Watched]) -> (usize, Result<Batch, ReadError>) {
    match watched {
        [] => future::pending().await,
        [one] => (0, one.cursor.next().await),
        several => {
            let reads = several.iter_mut().map(|watched| watched.cursor.next().boxed());
            let (batch, at, _) = future::select_all(reads).await;
            (at, batch)
        }
    }
}

impl Writer {
    async fn join(&mut self, join: Join) -> Result<(), Closed> {
        let Join { cursor, view, at, answer, asks } = join;
        // Attaching again replaces the attachment.
        self.watched.retain(|watched| watched.view.session() != view.session());
        let mut watched = Watched { cursor, view, due: Some(Due { at, answer, asks }) };
        let result = self.settle_due(&mut watched).await;
        self.watched.push(watched);
        result
    }

    async fn show(&mut self, at: usize, batch: &Batch) -> Result<(), Closed> {
        let mut watched = self.watched.swap_remove(at);
        let result = self.show_batch(&mut watched, batch).await;
        self.watched.push(watched);
        result
    }

    async fn show_batch(&mut self, watched: &mut Watched, batch: &Batch) -> Result<(), Closed> {
        for entry in batch.entries() {
            // The answer stands exactly where history ends.
            if watched.due.as_ref().is_some_and(|due| due.at < entry.seq) {
                self.say_due(watched).await?;
            }
            match watched.view.show(entry) {
                Shown::Nothing => {}
                Shown::Frame(frame) => self.feed(frame).await?,
                Shown::Frames(frames) => {
                    for frame in frames {
                        self.feed(frame).await?;
                    }
                }
                Shown::Prompt { content } => self.show_prompt(watched, content).await?,
            }
        }
        self.settle_due(watched).await?;
        self.shown.note(watched.view.session(), watched.cursor.position());
        Ok(())
    }

    /// A prompt's text is in an earlier event; it is read from the log where it stands.
    async fn show_prompt(&mut self, watched: &Watched, content: Seq) -> Result<(), Closed> {
        let mut there = watched.cursor.clone_at(content);
        let Ok(batch) = there.next().await else { return Ok(()) };
        let Some(entry) = batch.entries().first().filter(|entry| entry.seq == content) else { return Ok(()) };
        if let Event::PromptAccepted { frame, .. } | Event::PromptUpdated { frame, .. } = &entry.event {
            for chunk in user_message(watched.view.session(), frame) {
                self.feed(chunk).await?;
            }
        }
        Ok(())
    }

    async fn settle_due(&mut self, watched: &mut Watched) -> Result<(), Closed> {
        if watched.due.as_ref().is_some_and(|due| due.at <= watched.cursor.position()) {
            self.say_due(watched).await?;
        }
        Ok(())
    }

    async fn say_due(&mut self, watched: &mut Watched) -> Result<(), Closed> {
        let Some(due) = watched.due.take() else { return Ok(()) };
        if !due.answer.is_empty() {
            self.feed(due.answer).await?;
        }
        for ask in &due.asks {
            if let Some(request) = watched.view.ask(ask) {
                self.feed(request).await?;
            }
        }
        Ok(())
    }

    async fn feed(&mut self, frame: Bytes) -> Result<(), Closed> {
        let text = Utf8Bytes::try_from(frame).map_err(|_| Closed)?;
        self.sink.feed(Message::Text(text)).await.map_err(|_| Closed)
    }
}
