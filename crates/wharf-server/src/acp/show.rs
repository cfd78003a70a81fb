//! The frames that go out for the events of a watched session, and for its messages past the log.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use tokio::time::Instant as Moment;
use wharf_acp::FrameKind;
use wharf_host::core::{Event, PromptEvent, Seq};
use wharf_host::{Batch, ByteBudget, Direct, Entry, LaneMessage, ReadError};

use super::event_id::with_event_id;
use super::out_frame::OutFrame;
use super::outbound::Writer;
use super::outbox::OVERLOADED_CLOSE_CODE;
use super::pending_requests::What;
use super::subscription::Subscription;
use super::view::{Shown, View};
use super::wire::{Again, Closed, FrameOrigin, Gate, Wire};

/// With more messages past the log waiting in one session, the client is not reading, or has left a
/// stream unread for too long.
const MAX_WAITING_MESSAGES: usize = 1024;

impl<W: Wire> Writer<W> {
    pub(super) async fn show(&mut self, at: usize, batch: &Batch) -> Result<(), Closed> {
        let mut watched = self.watched.swap_remove(at);
        let result = self.show_batch(&mut watched, batch).await;
        self.watched.push(watched);
        result
    }

    async fn show_batch(
        &mut self,
        watched: &mut Subscription,
        batch: &Batch,
    ) -> Result<(), Closed> {
        let pause = watched.pause();
        for entry in batch.entries() {
            if pause.is_some_and(|at| entry.seq > at) {
                // The answer or the asks that stand here go out first; the rest of the batch is
                // read again after them.
                watched.cursor.go_to(entry.seq);
                break;
            }
            match watched.view.show(entry) {
                _ if watched.skips(entry) => {}
                Shown::Nothing => {}
                Shown::Frame(frame) => {
                    self.feed_event(watched, (batch, entry), frame, true).await?
                }
                Shown::Frames(frames) => self.feed_events(watched, (batch, entry), frames).await?,
                Shown::Prompt { content } => {
                    self.show_prompt(watched, (batch, entry), content).await?
                }
            }
        }
        self.settle(watched).await?;
        self.shown.note(watched.session(), watched.cursor.position(), Instant::now());
        Ok(())
    }

    /// A prompt's text is in an earlier event; it is read from the log where it stands.
    async fn show_prompt(
        &mut self,
        watched: &mut Subscription,
        shown: At<'_>,
        content: Seq,
    ) -> Result<(), Closed> {
        let (_, entry) = shown;
        let mut there = watched.cursor.clone_at(content);
        let Ok(batch) = there.next().await else { return Ok(()) };
        let Some(found) = batch.entries().first().filter(|found| found.seq == content) else {
            return Ok(());
        };
        if let Some((frame, sender)) = found.event.prompt_content() {
            // A prompt of its own that was answered on another stream before it came here.
            let own = matches!(found.event, Event::Prompt(PromptEvent::Accepted { .. }))
                && sender.client == self.client;
            let mut frames = watched.view.turn_started(entry, frame, sender);
            if !(own && watched.view.is_live(entry.seq)) || watched.view.hears_own_turns() {
                frames.extend(watched.view.prompt(frame, sender, entry.seq));
            }
            self.feed_events(watched, shown, frames).await?;
        }
        Ok(())
    }

    /// Answers the client's prompts that have ended, while the rest waits for somebody to read the
    /// session's stream or is not watched any more.
    pub(super) async fn answer_prompts(&mut self, at: usize, batch: &Batch) -> Result<(), Closed> {
        let watched = &self.watched[at];
        for entry in batch.entries().iter().filter(|entry| !watched.is_past_leaving(entry.seq)) {
            if let Event::Prompt(PromptEvent::Ended { prompt, end, failure }) = &entry.event {
                for answer in watched.view.answers(prompt, end, failure.as_deref()) {
                    self.wire.feed(FrameOrigin::Answer(watched.session()), answer.into()).await?;
                }
            }
        }
        if watched.has_left() && !watched.is_owed() {
            self.watched.swap_remove(at);
        }
        Ok(())
    }

    /// A session cannot be read any more. Its prompts are answered, since nothing else will answer
    /// them (rule 7.6).
    pub(super) async fn give_up(&mut self, at: usize, error: &ReadError) -> Result<(), Closed> {
        let gone = self.watched.swap_remove(at);
        if !gone.has_left() {
            tracing::warn!(session = %gone.session(), %error, "a session can no longer be shown");
        }
        for answer in gone.view.answer_all() {
            self.wire.feed(FrameOrigin::Answer(gone.session()), answer.into()).await?;
        }
        Ok(())
    }

    /// Sends the messages that were only waiting for the cursor: the answer, then open asks, then
    /// messages past the log.
    pub(super) async fn settle(&mut self, watched: &mut Subscription) -> Result<(), Closed> {
        if watched.has_left() {
            return Ok(());
        }
        let gate = self.wire.gate(watched.session());
        if let Some(answer) = watched.answer_due(gate) {
            self.wire.feed(FrameOrigin::Answer(watched.session()), answer).await?;
            watched.held_until =
                watched.hold.filter(|_| !gate.is_own()).map(|hold| Moment::now() + hold);
        }
        if watched.answer.is_some() || watched.held_until.is_some() || !gate.lets_through() {
            return Ok(());
        }
        if let Some((_, asks)) = watched.asks.take_if(|(at, _)| *at <= watched.cursor.position()) {
            for ask in &asks {
                if let Some(request) = watched.view.ask(ask) {
                    self.wire.feed(FrameOrigin::Beside(watched.session()), request.into()).await?;
                }
            }
        }
        while watched.later.front().is_some_and(|message| watched.is_past(message.after)) {
            if let Some(message) = watched.later.pop_front() {
                self.say(&watched.view, message).await?;
            }
        }
        if watched.may_tell_queue(gate)
            && let Some(update) = watched.view.take_queue_update(Moment::now())
        {
            self.wire.feed(FrameOrigin::Beside(watched.session()), update.into()).await?;
        }
        Ok(())
    }

    /// Takes a message past the log, which keeps its order with the log.
    pub(super) async fn direct(&mut self, message: LaneMessage) -> Result<(), Closed> {
        let Some(at) = self.find(&message.session) else {
            // Answers reach a client also after it left the session. Anything else is for a session
            // whose join is on its way.
            if let Direct::Frame(frame) = &message.direct
                && is_answer(frame)
            {
                let frame = OutFrame::from(frame.clone()).counted_by(message.permit.clone());
                return self.wire.feed(FrameOrigin::Answer(&message.session), frame).await;
            }
            self.early.push(message);
            return self.bounded(self.early.len()).await;
        };
        if let (Gate::Closed { .. }, Direct::Frame(frame)) =
            (self.wire.gate(&message.session), &message.direct)
            && is_answer(frame)
        {
            let frame = OutFrame::from(self.watched[at].view.passed(frame.clone()))
                .counted_by(message.permit.clone());
            return self.wire.feed(FrameOrigin::Answer(&message.session), frame).await;
        }
        let mut watched = self.watched.swap_remove(at);
        watched.later.push_back(message);
        let result = self.settle(&mut watched).await;
        let waiting = watched.later.len();
        self.watched.push(watched);
        self.bounded(waiting).await?;
        result
    }

    /// Closes the connection of a client that lets too much pile up: it is not reading.
    async fn bounded(&mut self, waiting: usize) -> Result<(), Closed> {
        if waiting > MAX_WAITING_MESSAGES {
            self.wire
                .close(OVERLOADED_CLOSE_CODE, "the client does not read what it is sent")
                .await;
            return Err(Closed);
        }
        Ok(())
    }

    async fn say(&mut self, view: &View, message: LaneMessage) -> Result<(), Closed> {
        let frame = match message.direct {
            Direct::Frame(frame) => Some(view.passed(frame)),
            Direct::Request { relay, frame } => view.request(&frame, What::Relay(relay)),
            Direct::Withdraw { relay } => view.withdraw(relay),
            Direct::Presence { member, connected } => {
                for frame in view.presence(&member, connected) {
                    self.wire.feed(FrameOrigin::Beside(view.session()), frame.into()).await?;
                }
                None
            }
        };
        match frame {
            Some(frame) => {
                let frame = OutFrame::from(frame).counted_by(message.permit);
                self.wire.feed(FrameOrigin::Beside(view.session()), frame).await
            }
            None => Ok(()),
        }
    }

    async fn feed_events(
        &mut self,
        watched: &Subscription,
        at: At<'_>,
        frames: Vec<Bytes>,
    ) -> Result<(), Closed> {
        let count = frames.len();
        for (nth, frame) in frames.into_iter().enumerate() {
            self.feed_event(watched, at, frame, nth + 1 == count).await?;
        }
        Ok(())
    }

    async fn feed_event(
        &mut self,
        watched: &Subscription,
        at: At<'_>,
        frame: Bytes,
        last: bool,
    ) -> Result<(), Closed> {
        let (batch, entry) = at;
        let is_large = frame.len() > ByteBudget::UNCOUNTED_BYTES;
        let own = is_large && !entry.holds(&frame);
        let mut out = if watched.view.event_ids {
            with_event_id(&frame, entry.id())
        } else {
            OutFrame::from(frame)
        };
        if own {
            out = self.count(out);
        } else if is_large {
            out = out.of_batch(batch);
        }
        let again = if View::is_plain(entry) { Again::FromLog } else { Again::Never };
        let origin = FrameOrigin::Event {
            session: watched.session(),
            epoch: entry.epoch,
            seq: entry.seq,
            last,
            again,
        };
        self.wire.feed(origin, out).await
    }

    /// Counts a large message that was made for this client alone.
    fn count(&self, frame: OutFrame) -> OutFrame {
        let permit = self.buffers.charge_out(frame.len());
        frame.counted_by(Some(Arc::new(permit)))
    }
}

/// An event, and the batch that it is part of.
type At<'a> = (&'a Batch, &'a Entry);

fn is_answer(frame: &[u8]) -> bool {
    wharf_acp::scan(frame)
        .is_ok_and(|envelope| matches!(envelope.kind, FrameKind::Result | FrameKind::Error))
}
