//! Event → wire: one task that merges the sessions a client watches with its answers, in order, at the client's pace.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket};
use bytes::Bytes;
use futures_util::stream::SplitSink;
use futures_util::{FutureExt, SinkExt, future};
use tokio::sync::mpsc;
use tokio::time::Instant as Moment;
use wharf_host::core::{Ask, Event, Seq, SessionId};
use wharf_host::{Batch, Cursor, Direct, Entry, LaneMessage, ReadError};

use super::event_id::{event_id, with_event_id};
use super::ledger::What;
use super::shown::ShownUpTo;
use super::updates;
use super::view::{Shown, View};

/// WebSocket pings; a peer that is silent for two of these is gone (rule 3.13).
const PING: Duration = Duration::from_secs(20);

type Sink = SplitSink<WebSocket, Message>;

/// What the inbound half has for the client.
#[derive(Debug)]
pub(super) enum Out {
    Frame(Bytes),
    /// Show a session from now on.
    Join(Box<Join>),
    /// The client has the session: nothing is held back any more (rule 6.1).
    Ready(SessionId),
    /// Show it no longer.
    Leave(SessionId),
    Close(CloseFrame),
}

/// A session to show: what is after the cursor, with an answer in between.
#[derive(Debug)]
pub(super) struct Join {
    pub(super) cursor: Cursor,
    pub(super) view: View,
    /// Comes when everything up to here is out.
    pub(super) answer: Option<(Seq, Bytes)>,
    /// Come when everything up to here is out, after the answer.
    pub(super) asks: (Seq, Vec<Ask>),
    /// How long to wait for `session/ready` after the answer.
    pub(super) hold: Option<Duration>,
}

/// A session being shown.
#[derive(Debug)]
struct Watched {
    cursor: Cursor,
    view: View,
    answer: Option<(Seq, Bytes)>,
    asks: Option<(Seq, Vec<Ask>)>,
    hold: Option<Duration>,
    /// Nothing goes out before this, unless the client says that it is ready.
    held_until: Option<Moment>,
    /// What has to wait for the cursor.
    later: VecDeque<LaneMessage>,
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
    Lane(LaneMessage),
    Events(usize, Result<Batch, ReadError>),
    Release,
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
        let release = writer.watched.iter().filter_map(|watched| watched.held_until).min();
        let wake = tokio::select! {
            out = outs.recv() => Wake::Out(out),
            Some(message) = lane.recv() => Wake::Lane(message),
            (at, batch) = next_events(&mut writer.watched) => Wake::Events(at, batch),
            () = moment(release) => Wake::Release,
            _ = ping.tick() => Wake::Ping,
        };
        let result = match wake {
            Wake::Out(Some(Out::Close(frame))) => {
                let _ = writer.sink.send(Message::Close(Some(frame))).await;
                return;
            }
            Wake::Out(Some(out)) => writer.take(out).await,
            Wake::Out(None) => return,
            Wake::Events(at, Ok(batch)) => writer.show(at, &batch).await,
            Wake::Events(at, Err(error)) => {
                let gone = writer.watched.swap_remove(at);
                tracing::warn!(session = %gone.view.session(), %error, "a session can no longer be shown");
                Ok(())
            }
            Wake::Lane(message) => writer.direct(message).await,
            Wake::Release => {
                writer.release(|watched| watched.held_until.is_some_and(|until| until <= Moment::now())).await
            }
            Wake::Ping => {
                let silent = heard.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
                if silent > 2 * PING {
                    return;
                }
                writer.sink.feed(Message::Ping(Bytes::new())).await.map_err(|_| Closed)
            }
        };
        // More to say at once is said in the same breath: one write for many messages.
        let more = !outs.is_empty() || writer.watched.iter().any(Watched::has_news);
        if result.is_err() || (!more && writer.sink.flush().await.is_err()) {
            return;
        }
    }
}

async fn moment(at: Option<Moment>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => future::pending().await,
    }
}

/// The next events of any session that is not held back. Nothing is lost when it is dropped.
async fn next_events(watched: &mut [Watched]) -> (usize, Result<Batch, ReadError>) {
    match watched {
        [one] if one.held_until.is_none() => (0, one.cursor.next().await),
        several => {
            let free = several.iter_mut().enumerate().filter(|(_, watched)| watched.held_until.is_none());
            let reads: Vec<_> =
                free.map(|(at, watched)| watched.cursor.next().map(move |batch| (at, batch)).boxed()).collect();
            if reads.is_empty() {
                return future::pending().await;
            }
            future::select_all(reads).await.0
        }
    }
}

impl Watched {
    fn has_news(&self) -> bool {
        self.held_until.is_none() && self.cursor.is_behind()
    }

    /// Where something stands between two events: the answer, or the open asks.
    fn pause(&self) -> Option<Seq> {
        self.answer.as_ref().map(|(at, _)| *at).or_else(|| self.asks.as_ref().map(|(at, _)| *at))
    }

    /// Has everything up to `seq` gone out?
    fn is_past(&self, seq: Seq) -> bool {
        self.cursor.position() >= seq
    }
}

impl Writer {
    async fn take(&mut self, out: Out) -> Result<(), Closed> {
        match out {
            Out::Frame(frame) => self.feed(frame).await,
            Out::Join(join) => self.join(*join).await,
            Out::Ready(session) => self.release(|watched| *watched.view.session() == session).await,
            Out::Leave(session) => {
                self.watched.retain(|watched| *watched.view.session() != session);
                Ok(())
            }
            Out::Close(_) => Err(Closed),
        }
    }

    async fn join(&mut self, join: Join) -> Result<(), Closed> {
        let Join { cursor, view, answer, asks, hold } = join;
        // Attaching again replaces the attachment.
        self.watched.retain(|watched| watched.view.session() != view.session());
        let asks = Some(asks);
        let mut watched = Watched { cursor, view, answer, asks, hold, held_until: None, later: VecDeque::new() };
        let result = self.settle(&mut watched).await;
        self.watched.push(watched);
        result
    }

    /// Lets go what was held back.
    async fn release(&mut self, which: impl Fn(&Watched) -> bool) -> Result<(), Closed> {
        for at in 0..self.watched.len() {
            if which(&self.watched[at]) && self.watched[at].held_until.take().is_some() {
                let mut watched = self.watched.swap_remove(at);
                let result = self.settle(&mut watched).await;
                self.watched.push(watched);
                let last = self.watched.len() - 1;
                self.watched.swap(at, last);
                result?;
            }
        }
        Ok(())
    }

    async fn show(&mut self, at: usize, batch: &Batch) -> Result<(), Closed> {
        let mut watched = self.watched.swap_remove(at);
        let result = self.show_batch(&mut watched, batch).await;
        self.watched.push(watched);
        result
    }

    async fn show_batch(&mut self, watched: &mut Watched, batch: &Batch) -> Result<(), Closed> {
        let pause = watched.pause();
        for entry in batch.entries() {
            if pause.is_some_and(|at| entry.seq > at) {
                // What comes here goes out first; the rest of the batch is read again after it.
                watched.cursor = watched.cursor.clone_at(entry.seq);
                break;
            }
            match watched.view.show(entry) {
                Shown::Nothing => {}
                Shown::Frame(frame) => self.feed_event(watched, entry, frame).await?,
                Shown::Frames(frames) => {
                    for frame in frames {
                        self.feed_event(watched, entry, frame).await?;
                    }
                }
                Shown::Prompt { content } => self.show_prompt(watched, entry, content).await?,
            }
        }
        self.settle(watched).await?;
        self.shown.note(watched.view.session(), watched.cursor.position());
        Ok(())
    }

    /// A prompt's text is in an earlier event; it is read from the log where it stands.
    async fn show_prompt(&mut self, watched: &Watched, entry: &Entry, content: Seq) -> Result<(), Closed> {
        let mut there = watched.cursor.clone_at(content);
        let Ok(batch) = there.next().await else { return Ok(()) };
        let Some(found) = batch.entries().first().filter(|found| found.seq == content) else { return Ok(()) };
        if let Event::PromptAccepted { frame, sender, .. } | Event::PromptUpdated { frame, by: sender, .. } =
            &found.event
        {
            for chunk in watched.view.prompt(frame, sender, entry.seq) {
                self.feed_event(watched, entry, chunk).await?;
            }
        }
        Ok(())
    }

    /// Says what was only waiting for the cursor: the answer, then open asks, then what came past the log.
    async fn settle(&mut self, watched: &mut Watched) -> Result<(), Closed> {
        if let Some((_, answer)) = watched.answer.take_if(|(at, _)| *at <= watched.cursor.position()) {
            self.feed(answer).await?;
            watched.held_until = watched.hold.map(|hold| Moment::now() + hold);
        }
        if watched.answer.is_some() || watched.held_until.is_some() {
            return Ok(());
        }
        if let Some((_, asks)) = watched.asks.take_if(|(at, _)| *at <= watched.cursor.position()) {
            for ask in &asks {
                if let Some(request) = watched.view.ask(ask) {
                    self.feed(request).await?;
                }
            }
        }
        while watched.later.front().is_some_and(|message| watched.is_past(message.after)) {
            if let Some(message) = watched.later.pop_front() {
                self.say(&watched.view, message.direct).await?;
            }
        }
        Ok(())
    }

    /// A message past the log, in its order with the log.
    async fn direct(&mut self, message: LaneMessage) -> Result<(), Closed> {
        let at = self.watched.iter().position(|watched| *watched.view.session() == message.session);
        let Some(at) = at else {
            // Answers reach a client also after it left the session.
            return match message.direct {
                Direct::Frame(frame) => self.feed(frame).await,
                Direct::Presence { .. } | Direct::Request { .. } | Direct::Withdraw { .. } => Ok(()),
            };
        };
        let mut watched = self.watched.swap_remove(at);
        watched.later.push_back(message);
        let result = self.settle(&mut watched).await;
        self.watched.push(watched);
        result
    }

    async fn say(&mut self, view: &View, direct: Direct) -> Result<(), Closed> {
        let frame = match direct {
            Direct::Frame(frame) => {
                view.settle_forward(&frame);
                Some(frame)
            }
            Direct::Request { relay, frame } => view.request(&frame, What::Relay(relay)),
            Direct::Withdraw { relay } => view.withdraw(relay),
            Direct::Presence { member, connected } => {
                view.wants_presence().then(|| updates::presence(view.session(), &member, connected))
            }
        };
        match frame {
            Some(frame) => self.feed(frame).await,
            None => Ok(()),
        }
    }

    async fn feed_event(&mut self, watched: &Watched, entry: &Entry, frame: Bytes) -> Result<(), Closed> {
        if watched.view.event_ids {
            return self.feed(with_event_id(&frame, &event_id(entry))).await;
        }
        self.feed(frame).await
    }

    async fn feed(&mut self, frame: Bytes) -> Result<(), Closed> {
        let text = Utf8Bytes::try_from(frame).map_err(|_| Closed)?;
        self.sink.feed(Message::Text(text)).await.map_err(|_| Closed)
    }
}
