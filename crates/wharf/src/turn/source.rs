//! The events of a watched turn: from the session's lines, or from its rows.

use std::collections::VecDeque;

use wharf_api::{
    AskState, OutputLine, RowBody, StreamEvent, TranscriptRow, TranscriptState, TurnStep,
};

use crate::client::{
    HostClient, SseEvent, StreamFollower, StreamStart, TranscriptStream, TranscriptUpdate, url_path,
};

/// Something that happened in the session.
#[derive(Debug)]
pub(super) enum TurnEvent {
    Line {
        text: String,
        stderr: bool,
    },
    Row(Box<TranscriptRow>),
    State(Box<TranscriptState>),
    /// An event of the rows' stream as it came.
    Raw(SseEvent),
    /// The watched turn has begun.
    Begun,
    AskOpened(u64),
    AskClosed(u64),
    /// The watched turn has ended for this reason.
    Ended(String),
    /// The session was deleted, or has ended for good.
    SessionOver,
}

#[derive(Debug)]
pub(super) struct TurnSource {
    feed: EventFeed,
    prompt: String,
    ready: VecDeque<TurnEvent>,
}

#[derive(Debug)]
enum EventFeed {
    Lines(StreamFollower),
    Rows(TranscriptStream),
}

impl TurnSource {
    pub(super) fn of_lines(
        client: &HostClient,
        (session, prompt): (&str, &str),
        from: StreamStart,
    ) -> Self {
        let feed = EventFeed::Lines(StreamFollower::new(
            client,
            url_path(&["sessions", session, "stream"]),
            from,
        ));
        Self { feed, prompt: prompt.to_owned(), ready: VecDeque::new() }
    }

    pub(super) fn of_rows(client: &HostClient, (session, prompt): (&str, &str), raw: bool) -> Self {
        let feed = EventFeed::Rows(TranscriptStream::open(client, session, raw));
        Self { feed, prompt: prompt.to_owned(), ready: VecDeque::new() }
    }

    /// Returns the next event. Dropping the future loses none.
    pub(super) async fn next(&mut self) -> anyhow::Result<TurnEvent> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(event);
            }
            match &mut self.feed {
                EventFeed::Lines(follower) => match follower.next().await? {
                    Some(event) => self.take_line_event(event.parse_session_event()?),
                    None => return Ok(TurnEvent::SessionOver),
                },
                EventFeed::Rows(rows) => match rows.next().await? {
                    Some(update) => self.take_row_update(update),
                    None => return Ok(TurnEvent::SessionOver),
                },
            }
        }
    }

    fn take_line_event(&mut self, event: StreamEvent) {
        let event = match event {
            StreamEvent::Line(line) => {
                TurnEvent::Line { stderr: line.stream == OutputLine::STDERR, text: line.line }
            }
            StreamEvent::Turn(change) if change.prompt_id == self.prompt => match change.turn {
                TurnStep::Started => TurnEvent::Begun,
                TurnStep::Ended => {
                    TurnEvent::Ended(change.stop_reason.unwrap_or_else(|| "unknown".to_owned()))
                }
                TurnStep::Other(_) => return,
            },
            StreamEvent::Ask(change) if change.open => TurnEvent::AskOpened(change.ask_id),
            StreamEvent::Ask(change) => TurnEvent::AskClosed(change.ask_id),
            // Other turns, changes of status, and unknown events of a newer host.
            StreamEvent::Status(_)
            | StreamEvent::Turn(_)
            | StreamEvent::Pause(_)
            | StreamEvent::Other => return,
        };
        self.ready.push_back(event);
    }

    fn take_row_update(&mut self, update: TranscriptUpdate) {
        match update {
            TranscriptUpdate::FirstPage { rows, .. } => {
                rows.into_iter().for_each(|row| self.take_row(Box::new(row)));
            }
            TranscriptUpdate::Row(row) => self.take_row(row),
            TranscriptUpdate::State(state) => self.ready.push_back(TurnEvent::State(state)),
            TranscriptUpdate::Event(event) => self.ready.push_back(TurnEvent::Raw(event)),
            TranscriptUpdate::Gone => self.ready.push_back(TurnEvent::SessionOver),
            TranscriptUpdate::HostAway | TranscriptUpdate::HostBack => {}
        }
    }

    fn take_row(&mut self, row: Box<TranscriptRow>) {
        let is_watched = row.turn.as_deref() == Some(&self.prompt);
        let extra = match &row.body {
            RowBody::Prompt(_) if is_watched => Some(TurnEvent::Begun),
            // An ask of another turn is not this caller's to answer.
            RowBody::Ask(ask) if ask.state == AskState::Open => {
                (is_watched || row.turn.is_none()).then_some(TurnEvent::AskOpened(ask.ask_id))
            }
            RowBody::Ask(ask) => Some(TurnEvent::AskClosed(ask.ask_id)),
            // A prompt that is repeated after a crash has a further end.
            RowBody::TurnEnd(end)
                if is_watched && !end.next.as_ref().is_some_and(|next| next.requeued) =>
            {
                self.ready.push_back(TurnEvent::Ended(end.reason.clone()));
                return;
            }
            RowBody::Prompt(_)
            | RowBody::Message(_)
            | RowBody::Thought(_)
            | RowBody::Tool(_)
            | RowBody::Plan(_)
            | RowBody::Notice(_)
            | RowBody::TurnEnd(_)
            | RowBody::Unknown => None,
        };
        let begun = matches!(extra, Some(TurnEvent::Begun));
        // The beginning comes before its row, the ask after it.
        let (before, after) = if begun { (extra, None) } else { (None, extra) };
        self.ready.extend(before);
        self.ready.push_back(TurnEvent::Row(row));
        self.ready.extend(after);
    }
}
