//! Follows the rows of a session: over reconnects and restarts of the host, without a gap and without a repetition.

use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::Instant;
use wharf_api::{RowBody, RowPage, RowPart, RowStreamEvent, RowTextPage, TranscriptRow, TranscriptState};
use wharf_tui::rows::{RowEffect, RowPlace, RowSet};

use crate::client::{HostCall, HostClient, SseEvent, StreamFollower, StreamStart, url_path};
use crate::connect::percent_encode;
use crate::exit::Failure;

/// The host sends a beat every 10 s; without one for so long the connection is dead (rule 13.5).
const SILENCE_LIMIT: Duration = Duration::from_secs(25);
/// How long a request waits for a host that restarts, and the delay between two attempts.
const RETURN_TIMEOUT: Duration = Duration::from_secs(30);
const RETRY_DELAY: Duration = Duration::from_millis(250);
/// The updates that wait for their reader. A reader that is slow holds the stream up, not the memory.
const WAITING_UPDATES: usize = 64;
/// The rows that are kept. Older ones are printed already; a change of one of them is dropped.
const MAX_KEPT_ROWS: usize = 500;

/// A change of a session's transcript.
#[derive(Debug)]
pub(crate) enum TranscriptUpdate {
    /// The newest rows, once at the beginning.
    FirstPage { rows: Vec<TranscriptRow>, mid_turn: bool },
    /// A row that is new or has changed, whole: also the text of a long message.
    Row(Box<TranscriptRow>),
    /// The session beside its rows.
    State(Box<TranscriptState>),
    /// An event as the host sent it; only if it was asked for.
    Event(SseEvent),
    /// The session was deleted.
    Gone,
}

/// The changes of one session's rows, from the newest page on. The stream is read by a task of its own, which ends when this
/// is dropped.
#[derive(Debug)]
pub(crate) struct TranscriptStream {
    updates: Receiver<anyhow::Result<TranscriptUpdate>>,
}

impl TranscriptStream {
    /// Follows the session. With `events`, each event is passed on as it came, before its changes.
    pub(crate) fn open(client: &HostClient, session: &str, events: bool) -> Self {
        let (sender, updates) = channel(WAITING_UPDATES);
        let path = url_path(&["sessions", session, "rows", "stream"]);
        let follower = StreamFollower::new(client, path, StreamStart::Beginning);
        let reader = RowReader {
            client: client.clone(),
            session: session.to_owned(),
            events,
            rows: RowSet::new(MAX_KEPT_ROWS),
            is_loaded: false,
            sender,
        };
        tokio::spawn(reader.run(follower));
        Self { updates }
    }

    /// Returns the next change, or `None` if the host has ended the stream. Dropping the future loses no change.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<TranscriptUpdate>> {
        self.updates.recv().await.transpose()
    }
}

/// The reader of the updates is gone.
#[derive(Debug)]
struct ReaderGone;

#[derive(Debug)]
struct RowReader {
    client: HostClient,
    session: String,
    events: bool,
    rows: RowSet,
    is_loaded: bool,
    sender: Sender<anyhow::Result<TranscriptUpdate>>,
}

impl RowReader {
    async fn run(mut self, mut follower: StreamFollower) {
        loop {
            let event = tokio::select! {
                event = tokio::time::timeout(SILENCE_LIMIT, follower.next()) => event,
                () = self.sender.closed() => return,
            };
            let taken = match event {
                Err(_) => {
                    follower.reconnect();
                    continue;
                }
                Ok(Ok(None)) => return,
                Ok(Ok(Some(event))) => self.take_event(event).await,
                Ok(Err(error)) => Err(error),
            };
            match taken {
                Ok(Ok(())) => {}
                Ok(Err(ReaderGone)) => return,
                Err(error) => {
                    let _ = self.sender.send(Err(error)).await;
                    return;
                }
            }
        }
    }

    async fn take_event(&mut self, event: SseEvent) -> anyhow::Result<Result<(), ReaderGone>> {
        let parsed = event.parse_row_event()?;
        if self.events && self.send(TranscriptUpdate::Event(event)).await.is_err() {
            return Ok(Err(ReaderGone));
        }
        if matches!(parsed, RowStreamEvent::Gone) {
            return Ok(self.send(TranscriptUpdate::Gone).await);
        }
        let page = if let RowStreamEvent::Page(page) = &parsed { Some(page.mid_turn) } else { None };
        let changed = match self.rows.apply(parsed) {
            RowEffect::None | RowEffect::Gone => Vec::new(),
            RowEffect::Changed(rows) => rows,
            RowEffect::State => return Ok(self.send_state().await),
            RowEffect::Stale(id) => {
                let call = HostCall::get(url_path(&["sessions", &self.session, "rows", &id]));
                let row = fetch_when_back(&self.client, &call).await?;
                self.rows.load(vec![row])
            }
            RowEffect::Gap { before, rows } => self.fill_gap(before, rows).await?,
        };
        let changed = changed.into_iter().filter_map(|place| self.rows.get(place).cloned()).collect();
        self.rows.drop_oldest();
        self.send_rows(changed, page).await
    }

    /// Reads older pages until they meet a row that is known.
    async fn fill_gap(&mut self, before: String, rows: Vec<TranscriptRow>) -> anyhow::Result<Vec<RowPlace>> {
        let mut pages = vec![rows];
        let mut cursor = Some(before);
        while let Some(before) = cursor.take() {
            let path = url_path(&["sessions", &self.session, "rows"]);
            let call = HostCall::get(format!("{path}?limit=200&before={}", percent_encode(&before)));
            let page: RowPage = fetch_when_back(&self.client, &call).await?;
            if !page.rows.iter().any(|row| self.rows.knows(&row.id)) {
                cursor = page.before;
            }
            pages.push(page.rows);
        }
        Ok(self.rows.load(pages.into_iter().rev().flatten().collect()))
    }

    async fn send_rows(
        &mut self,
        mut rows: Vec<TranscriptRow>,
        page: Option<bool>,
    ) -> anyhow::Result<Result<(), ReaderGone>> {
        for row in &mut rows {
            if matches!(row.body, RowBody::Message(_)) {
                complete_texts(&self.client, &self.session, row).await?;
            }
        }
        let is_first = page.is_some() && !std::mem::replace(&mut self.is_loaded, true);
        if is_first {
            let mid_turn = page.unwrap_or_default();
            if self.send(TranscriptUpdate::FirstPage { rows, mid_turn }).await.is_err() {
                return Ok(Err(ReaderGone));
            }
        } else {
            for row in rows {
                if self.send(TranscriptUpdate::Row(Box::new(row))).await.is_err() {
                    return Ok(Err(ReaderGone));
                }
            }
        }
        Ok(if page.is_some() { self.send_state().await } else { Ok(()) })
    }

    async fn send_state(&self) -> Result<(), ReaderGone> {
        match self.rows.state() {
            Some(state) => self.send(TranscriptUpdate::State(Box::new(state.clone()))).await,
            None => Ok(()),
        }
    }

    async fn send(&self, update: TranscriptUpdate) -> Result<(), ReaderGone> {
        self.sender.send(Ok(update)).await.map_err(|_| ReaderGone)
    }
}

/// Sends a request, again and again while the host is away.
async fn fetch_when_back<T: DeserializeOwned>(client: &HostClient, call: &HostCall) -> anyhow::Result<T> {
    let give_up_at = Instant::now() + RETURN_TIMEOUT;
    loop {
        match client.fetch_json(call).await {
            Err(error) if Failure::code_of(&error).is_none() && Instant::now() < give_up_at => {
                tokio::time::sleep(RETRY_DELAY).await;
            }
            answered => return answered,
        }
    }
}

/// Reads the rest of the texts of which a message's row holds only the beginning.
pub(crate) async fn complete_texts(client: &HostClient, session: &str, row: &mut TranscriptRow) -> anyhow::Result<()> {
    let RowBody::Message(message) = &mut row.body else { return Ok(()) };
    for (index, part) in message.parts.iter_mut().enumerate() {
        let RowPart::Text(part) = part else { continue };
        if part.cut.take().is_none() {
            continue;
        }
        loop {
            let path = url_path(&["sessions", session, "rows", &row.id, "text"]);
            let call = HostCall::get(format!("{path}?part={index}&offset={}", part.text.len()));
            let page: RowTextPage = fetch_when_back(client, &call).await?;
            part.text.push_str(&page.text);
            if page.next.is_none() || page.text.is_empty() {
                break;
            }
        }
    }
    Ok(())
}
