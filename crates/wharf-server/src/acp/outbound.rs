//! Event → wire: one task that merges the sessions a client watches with its answers, in order, at
//! the client's pace.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{FutureExt, future};
use tokio::time::Instant as Moment;
use wharf_host::core::{Ask, ClientId, Seq, SessionId};
use wharf_host::{Batch, ByteBudget, Cursor, LaneMessage, ReadError};

use super::out_frame::OutFrame;
use super::outbox::Outlet;
use super::shown::ShownUpTo;
use super::subscription::{Subscription, SubscriptionReader};
use super::view::View;
use super::wire::{Closed, FrameOrigin, Gate, HEARTBEAT_EVERY, Wire};

/// A message of the inbound half for the writer.
#[derive(Debug)]
pub(super) enum Out {
    /// An answer, and the session that the request named.
    Answer {
        session: Option<SessionId>,
        frame: OutFrame,
    },
    /// Show a session from now on.
    Join(Box<Join>),
    /// The same because of a message that only implies it: a session that is shown already stays as
    /// it is.
    Implied(Box<Join>),
    /// The same for a client that comes back with the last event that it had.
    Rejoin(Box<Join>),
    /// Show a session that is shown already from no later than after this event.
    Back {
        session: SessionId,
        after: Seq,
    },
    /// The client has the session, so the host no longer holds its messages back (rule 6.1).
    Ready(SessionId),
    /// Show it no longer.
    Leave(SessionId),
    Close {
        code: u16,
        reason: &'static str,
    },
}

/// Describes a session to show: the events after the cursor, with an answer in between.
#[derive(Debug)]
pub(super) struct Join {
    pub(super) cursor: Cursor,
    pub(super) view: View,
    /// Comes when everything up to here is out.
    pub(super) answer: Option<(Seq, OutFrame)>,
    /// Come when everything up to here is out, after the answer.
    pub(super) asks: (Seq, Vec<Ask>),
    /// How long to wait for `session/ready` after the answer.
    pub(super) hold: Option<Duration>,
    /// True if the client does not want the past: a session that is shown already goes on where it
    /// is.
    pub(super) only_news: bool,
}

#[derive(Debug)]
pub(super) struct Writer<W> {
    pub(super) wire: W,
    pub(super) watched: Vec<Subscription>,
    pub(super) shown: Arc<ShownUpTo>,
    pub(super) client: ClientId,
    /// Messages past the log for sessions whose join is still on its way: a client is attached
    /// before it is shown.
    pub(super) early: Vec<LaneMessage>,
    pub(super) buffers: Arc<ByteBudget>,
}

enum Wake {
    Out(Option<Out>),
    Lane(LaneMessage),
    Events(usize, SubscriptionReader, Result<Batch, ReadError>),
    Due,
    Changed,
    Tick,
}

/// Writes until the inbound half is gone or the client is.
pub(super) async fn write<W: Wire>(wire: W, outlet: Outlet) {
    let Outlet { mut outs, mut lane, shown, client, buffers } = outlet;
    let mut writer = Writer {
        wire,
        watched: Vec::new(),
        shown,
        client,
        early: Vec::new(),
        buffers,
    };
    let mut tick = tokio::time::interval(HEARTBEAT_EVERY);
    tick.reset();
    loop {
        let wake = tokio::select! {
            out = outs.recv() => Wake::Out(out),
            Some(message) = lane.recv() => Wake::Lane(message),
            () = moment(writer.due()) => Wake::Due,
            (at, reader, batch) = next_events(&mut writer.watched, &writer.wire) => Wake::Events(at, reader, batch),
            () = writer.wire.changed() => Wake::Changed,
            _ = tick.tick() => Wake::Tick,
        };
        let result = match wake {
            Wake::Out(Some(out)) => writer.take(out).await,
            Wake::Out(None) => return,
            Wake::Events(at, SubscriptionReader::Cursor, Ok(batch)) => {
                writer.show(at, &batch).await
            }
            Wake::Events(at, SubscriptionReader::Scout, Ok(batch)) => {
                writer.answer_prompts(at, &batch).await
            }
            Wake::Events(at, _, Err(error)) => writer.give_up(at, &error).await,
            Wake::Lane(message) => writer.direct(message).await,
            Wake::Due => {
                let now = Moment::now();
                writer.revisit(|watched, gate| watched.come_due(gate, now)).await
            }
            Wake::Changed => writer.revisit(Subscription::gate_changed).await,
            Wake::Tick => writer.wire.tick().await,
        };
        // More to say at once is said in the same breath: one write for many messages.
        let more = !outs.is_empty() || writer.has_news();
        if result.is_err() || (!more && writer.wire.flush().await.is_err()) {
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

/// Waits for the next events of any session that may be read. Dropping the future loses no events.
async fn next_events<W: Wire>(
    watched: &mut [Subscription],
    wire: &W,
) -> (usize, SubscriptionReader, Result<Batch, ReadError>) {
    if let [one] = watched {
        let gate = wire.gate(one.session());
        return match one.reading(gate) {
            Some((reader, reading)) => (0, reader, reading.await),
            None => future::pending().await,
        };
    }
    let mut readings = Vec::with_capacity(watched.len());
    for (at, watched) in watched.iter_mut().enumerate() {
        let gate = wire.gate(watched.session());
        if let Some((reader, reading)) = watched.reading(gate) {
            readings.push(reading.map(move |batch| (at, reader, batch)).boxed());
        }
    }
    if readings.is_empty() {
        return future::pending().await;
    }
    future::select_all(readings).await.0
}

impl<W: Wire> Writer<W> {
    fn has_news(&self) -> bool {
        self.watched
            .iter()
            .any(|watched| watched.has_news(self.wire.gate(watched.session())))
    }

    fn due(&self) -> Option<Moment> {
        self.watched
            .iter()
            .filter_map(|watched| watched.due(self.wire.gate(watched.session())))
            .min()
    }

    async fn take(&mut self, out: Out) -> Result<(), Closed> {
        match out {
            Out::Answer { session, frame } => {
                self.wire
                    .feed(
                        session.as_ref().map_or(FrameOrigin::Connection, FrameOrigin::Answer),
                        frame,
                    )
                    .await
            }
            Out::Join(join) => self.join(Subscription::new(*join)).await,
            Out::Implied(join) if self.find(join.view.session()).is_some() => Ok(()),
            Out::Implied(join) => self.join(Subscription::new(*join)).await,
            Out::Rejoin(join) => {
                let mut watched = Subscription::new(*join);
                watched.rejoined = true;
                self.join(watched).await
            }
            Out::Back { session, after } => {
                if let Some(at) = self.find(&session)
                    && let watched = &mut self.watched[at]
                    && watched.is_past(after)
                {
                    watched.cursor.go_to(after.next());
                    watched.rejoined = true;
                }
                Ok(())
            }
            Out::Ready(session) => {
                self.revisit(|watched, _| {
                    *watched.session() == session && watched.held_until.take().is_some()
                })
                .await
            }
            Out::Leave(session) => {
                let left = self.watched.extract_if(.., |watched| *watched.session() == session);
                for watched in left.collect::<Vec<_>>() {
                    self.part(watched, None).await?;
                }
                self.early.retain(|message| message.session != session);
                Ok(())
            }
            Out::Close { code, reason } => {
                self.wire.close(code, reason).await;
                Err(Closed)
            }
        }
    }

    async fn join(&mut self, mut new: Subscription) -> Result<(), Closed> {
        let session = new.session().clone();
        let early: Vec<LaneMessage> =
            self.early.extract_if(.., |message| message.session == session).collect();
        if let Some(at) = self
            .find(&session)
            .filter(|at| new.only_news && self.watched[*at].answer.is_none())
        {
            let mut old = self.watched.swap_remove(at);
            old.join_again(new);
            old.later.extend(early);
            let result = self.settle(&mut old).await;
            self.watched.push(old);
            return result;
        }
        // Attaching again replaces the attachment. What a client that came back has still to get
        // stays to be shown.
        if let Some(at) = self.find(new.session()) {
            let mut old = self.watched.swap_remove(at);
            new.later = std::mem::take(&mut old.later);
            if old.rejoined && new.is_past(old.cursor.position()) {
                new.cursor = old.cursor.clone();
            }
            self.part(old, Some(new.cursor.position())).await?;
        }
        if new.only_news
            && let Some(shown) = self.shown.get(&session)
        {
            new.skip_to(shown);
        }
        new.later.extend(early);
        self.shown
            .join(&session, new.cursor.position(), new.view.history(), Instant::now());
        let result = self.settle(&mut new).await;
        self.watched.push(new);
        result
    }

    /// Returns the place of a session that the client watches.
    pub(super) fn find(&self, session: &SessionId) -> Option<usize> {
        self.watched
            .iter()
            .position(|watched| !watched.has_left() && watched.session() == session)
    }

    /// Shows a session no longer. Still answers the request that joined it, and prompts that end
    /// before `until`, where another view takes over.
    async fn part(&mut self, mut old: Subscription, until: Option<Seq>) -> Result<(), Closed> {
        if let Some((_, answer)) = old.answer.take() {
            self.wire.feed(FrameOrigin::Answer(old.session()), answer).await?;
        }
        let later = std::mem::take(&mut old.later);
        if old.leave(until) {
            self.watched.push(old);
        }
        for message in later {
            self.direct(message).await?;
        }
        Ok(())
    }

    /// Looks again at sessions for which something has changed, and sends the messages that were
    /// only waiting for that.
    async fn revisit(
        &mut self,
        changed: impl Fn(&mut Subscription, Gate) -> bool,
    ) -> Result<(), Closed> {
        for at in 0..self.watched.len() {
            let gate = self.wire.gate(self.watched[at].session());
            if !changed(&mut self.watched[at], gate) {
                continue;
            }
            let mut watched = self.watched.swap_remove(at);
            let result = self.settle(&mut watched).await;
            self.watched.push(watched);
            let last = self.watched.len() - 1;
            self.watched.swap(at, last);
            result?;
        }
        Ok(())
    }
}
