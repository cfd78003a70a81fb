//! Follows the rows of a session: over reconnects and restarts of the host, without a gap and
//! without a repetition.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::Instant;
use wharf_api::{
    RowBody, RowPage, RowPart, RowStreamEvent, RowTextPage, TranscriptRow, TranscriptState,
};
use wharf_tui::rows::{RowEffect, RowPlace, RowSet};

use super::follow::{AWAY_RETRY_DELAY, RECONNECT_TIMEOUT};
use super::{
    FollowLimits, FollowStep, HostCall, HostClient, SILENCE_LIMIT, SseEvent, StreamFollower,
    StreamLoss, StreamStart, url_path,
};
use crate::connect::percent_encode;
use crate::exit::Failure;

const FOLLOW_LIMITS: FollowLimits =
    FollowLimits { silence: Some(SILENCE_LIMIT), ..FollowLimits::FOR_VERBS };
/// The updates that wait for their reader. A reader that is slow holds the stream up, not the
/// memory.
const WAITING_UPDATES: usize = 64;
/// The rows that are kept. Older ones are printed already; a change of one of them is dropped.
const MAX_KEPT_ROWS: usize = 500;

/// A change of a session's transcript.
#[derive(Debug)]
pub(crate) enum TranscriptUpdate {
    /// The newest rows, once at the beginning.
    FirstPage {
        rows: Vec<TranscriptRow>,
        mid_turn: bool,
    },
    /// A row that is new or has changed, whole: also the text of a long message.
    Row(Box<TranscriptRow>),
    /// The session beside its rows.
    State(Box<TranscriptState>),
    /// An event as the host sent it; only if it was asked for.
    Event(SseEvent),
    /// The session was deleted.
    Gone,
    /// The host does not answer; it is waited for.
    HostAway,
    HostBack,
}

/// The changes of one session's rows, from the newest page on. The stream is read by a task of its
/// own, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct TranscriptStream {
    updates: Receiver<anyhow::Result<TranscriptUpdate>>,
}

impl TranscriptStream {
    /// Follows the session. With `events`, each event is passed on as it came, before its changes.
    pub(crate) fn open(client: &HostClient, session: &str, events: bool) -> Self {
        Self::open_with_limits(client, session, events, FOLLOW_LIMITS)
    }

    fn open_with_limits(
        client: &HostClient,
        session: &str,
        events: bool,
        limits: FollowLimits,
    ) -> Self {
        let (sender, updates) = channel(WAITING_UPDATES);
        let path = url_path(&["sessions", session, "rows", "stream"]);
        let follower =
            StreamFollower::new(client, path, StreamStart::Beginning).with_limits(limits);
        let reader = RowReader {
            client: client.clone(),
            session: session.to_owned(),
            events,
            rows: RowSet::new(MAX_KEPT_ROWS),
            is_loaded: false,
            is_host_away: false,
            texts: CompletedTexts::default(),
            sender,
        };
        tokio::spawn(reader.run(follower));
        Self { updates }
    }

    /// Returns the next change, or `None` if the host has ended the stream. Dropping the future
    /// loses no change.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<TranscriptUpdate>> {
        self.updates.recv().await.transpose()
    }
}

/// Why the stream is not read any further.
#[derive(Debug)]
enum ReadEnd {
    /// The updates are not taken any more.
    Unwanted,
    Failed(anyhow::Error),
}

impl From<anyhow::Error> for ReadEnd {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

#[derive(Debug)]
struct RowReader {
    client: HostClient,
    session: String,
    events: bool,
    rows: RowSet,
    is_loaded: bool,
    /// The reader of the updates knows that the host is away.
    is_host_away: bool,
    texts: CompletedTexts,
    sender: Sender<anyhow::Result<TranscriptUpdate>>,
}

impl RowReader {
    async fn run(mut self, mut follower: StreamFollower) {
        if let Err(ReadEnd::Failed(error)) = self.read_events(&mut follower).await {
            let _ = self.sender.send(Err(error)).await;
        }
    }

    /// Reads events until the host ends the stream.
    async fn read_events(&mut self, follower: &mut StreamFollower) -> Result<(), ReadEnd> {
        loop {
            let step = tokio::select! {
                step = follower.next_step() => step?,
                () = self.sender.closed() => return Err(ReadEnd::Unwanted),
            };
            match step {
                Some(FollowStep::Event(event)) => self.take_event(event).await?,
                Some(FollowStep::Connected) if std::mem::take(&mut self.is_host_away) => {
                    self.send(TranscriptUpdate::HostBack).await?;
                }
                Some(FollowStep::Lost { loss: StreamLoss::Away, .. })
                    if !std::mem::replace(&mut self.is_host_away, true) =>
                {
                    self.send(TranscriptUpdate::HostAway).await?;
                }
                Some(FollowStep::Connected | FollowStep::Lost { .. }) => {}
                None => return Ok(()),
            }
        }
    }

    async fn take_event(&mut self, event: SseEvent) -> Result<(), ReadEnd> {
        let parsed = event.parse_row_event()?;
        if self.events {
            self.send(TranscriptUpdate::Event(event)).await?;
        }
        if matches!(parsed, RowStreamEvent::Gone) {
            return self.send(TranscriptUpdate::Gone).await;
        }
        let page =
            if let RowStreamEvent::Page(page) = &parsed { Some(page.mid_turn) } else { None };
        let changed = match self.rows.apply(parsed) {
            RowEffect::None | RowEffect::Gone => Vec::new(),
            RowEffect::Changed(rows) => rows,
            RowEffect::State => return self.send_state().await,
            RowEffect::Stale(id) => {
                let call = HostCall::get(url_path(&["sessions", &self.session, "rows", &id]));
                let row = fetch_when_back(&self.client, &call).await?;
                self.rows.load(vec![row])
            }
            RowEffect::Gap { before, rows } => self.fill_gap(before, rows).await?,
        };
        let changed =
            changed.into_iter().filter_map(|place| self.rows.get(place).cloned()).collect();
        self.rows.drop_oldest();
        self.send_rows(changed, page).await
    }

    /// Reads older pages until they meet a row that is known.
    async fn fill_gap(
        &mut self,
        before: String,
        rows: Vec<TranscriptRow>,
    ) -> anyhow::Result<Vec<RowPlace>> {
        let mut pages = vec![rows];
        let mut cursor = Some(before);
        while let Some(before) = cursor.take() {
            let path = url_path(&["sessions", &self.session, "rows"]);
            let call =
                HostCall::get(format!("{path}?limit=200&before={}", percent_encode(&before)));
            let page: RowPage = fetch_when_back(&self.client, &call).await?;
            if !page.rows.iter().any(|row| self.rows.knows(&row.id)) {
                cursor = page.before;
            }
            pages.push(page.rows);
        }
        Ok(self.rows.load(pages.into_iter().rev().flatten().collect()))
    }

    /// Sends the rows; `page` tells of a page of rows whether it begins in the middle of a turn.
    async fn send_rows(
        &mut self,
        mut rows: Vec<TranscriptRow>,
        page: Option<bool>,
    ) -> Result<(), ReadEnd> {
        for row in &mut rows {
            if matches!(row.body, RowBody::Message(_)) {
                self.texts.complete(&self.client, &self.session, row).await?;
            }
        }
        match page {
            Some(mid_turn) if !std::mem::replace(&mut self.is_loaded, true) => {
                self.send(TranscriptUpdate::FirstPage { rows, mid_turn }).await?;
            }
            Some(_) | None => {
                for row in rows {
                    self.send(TranscriptUpdate::Row(Box::new(row))).await?;
                }
            }
        }
        if page.is_some() { self.send_state().await } else { Ok(()) }
    }

    async fn send_state(&self) -> Result<(), ReadEnd> {
        match self.rows.state() {
            Some(state) => self.send(TranscriptUpdate::State(Box::new(state.clone()))).await,
            None => Ok(()),
        }
    }

    async fn send(&self, update: TranscriptUpdate) -> Result<(), ReadEnd> {
        self.sender.send(Ok(update)).await.map_err(|_| ReadEnd::Unwanted)
    }
}

/// Sends a request, again and again while the host is away.
async fn fetch_when_back<T: DeserializeOwned>(
    client: &HostClient,
    call: &HostCall,
) -> anyhow::Result<T> {
    let give_up_at = Instant::now() + RECONNECT_TIMEOUT;
    loop {
        match client.fetch_json(call).await {
            Err(error) if Failure::code_of(&error).is_none() && Instant::now() < give_up_at => {
                tokio::time::sleep(AWAY_RETRY_DELAY).await;
            }
            answered => return answered,
        }
    }
}

/// The texts of open messages that were read beyond the beginning that their rows hold, by row and
/// part: a message that grows is read from there on.
#[derive(Debug, Default)]
struct CompletedTexts(BTreeMap<(String, usize), String>);

impl CompletedTexts {
    /// Completes the texts of a message's row.
    async fn complete(
        &mut self,
        client: &HostClient,
        session: &str,
        row: &mut TranscriptRow,
    ) -> anyhow::Result<()> {
        let cut = self.restore(row);
        complete_texts(client, session, row).await?;
        // A message that is complete is read as a whole, and not again.
        self.0.retain(|(id, _), _| row.open || *id != row.id);
        if let (RowBody::Message(message), true) = (&row.body, row.open) {
            for index in cut {
                if let Some(RowPart::Text(part)) = message.parts.get(index) {
                    self.0.insert((row.id.clone(), index), part.text.clone());
                }
            }
        }
        Ok(())
    }

    /// Puts the known text into each part of an open message that is cut. Returns the places of
    /// these parts.
    fn restore(&self, row: &mut TranscriptRow) -> Vec<usize> {
        let RowBody::Message(message) = &mut row.body else { return Vec::new() };
        let mut cut = Vec::new();
        for (index, part) in message.parts.iter_mut().enumerate() {
            let RowPart::Text(part) = part else { continue };
            if part.cut.is_none() || !row.open {
                continue;
            }
            cut.push(index);
            let known = self.0.get(&(row.id.clone(), index));
            if let Some(known) = known.filter(|known| known.starts_with(&part.text)) {
                part.text.clone_from(known);
            }
        }
        cut
    }
}

/// Reads the rest of the texts of which a message's row holds only the beginning.
pub(crate) async fn complete_texts(
    client: &HostClient,
    session: &str,
    row: &mut TranscriptRow,
) -> anyhow::Result<()> {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{UnixListener, UnixStream};

    use super::*;
    use crate::client::Patience;
    use crate::connect::HostAddress;
    use crate::exit::Exit;
    use crate::transcript::test_row;

    /// Long enough for a slow machine, and reached only if the reader never gives up.
    const TEST_LIMIT: Duration = Duration::from_secs(20);
    const STREAM_HEAD: &[u8] =
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

    /// Waits for a host that is away for longer than a stream may be silent.
    const LIMITS: FollowLimits = FollowLimits {
        patience: Patience::Until(Duration::from_millis(400)),
        silence: Some(Duration::from_millis(100)),
        ..FOLLOW_LIMITS
    };

    /// Reads updates until the stream fails, and returns the error.
    async fn read_to_failure(rows: &mut TranscriptStream) -> anyhow::Error {
        let read = async {
            loop {
                match rows.next().await {
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("the stream ended without an error"),
                    Err(error) => return error,
                }
            }
        };
        tokio::time::timeout(TEST_LIMIT, read).await.expect("the reader waits for ever")
    }

    async fn read_request(stream: &mut UnixStream) -> String {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            request.push(stream.read_u8().await.unwrap());
        }
        String::from_utf8(request).unwrap()
    }

    /// Takes one request and begins the answer of a stream that stays open.
    async fn accept_stream(host: &UnixListener) -> UnixStream {
        let (mut stream, _) = host.accept().await.unwrap();
        read_request(&mut stream).await;
        stream.write_all(STREAM_HEAD).await.unwrap();
        stream
    }

    #[tokio::test]
    async fn follower_gives_up_when_the_host_stays_away() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("wharf.sock");
        let host = UnixListener::bind(&socket).unwrap();
        let client = HostClient::unconnected(HostAddress::Socket(socket.clone()));
        let mut rows = TranscriptStream::open_with_limits(&client, "sess_1", false, LIMITS);
        drop(accept_stream(&host).await);
        drop(host);
        std::fs::remove_file(&socket).unwrap();
        assert_eq!(Failure::exit_of(&read_to_failure(&mut rows).await), Exit::NoHost);
    }

    #[tokio::test]
    async fn silent_stream_is_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("wharf.sock");
        let host = UnixListener::bind(&socket).unwrap();
        let client = HostClient::unconnected(HostAddress::Socket(socket));
        let _rows = TranscriptStream::open_with_limits(&client, "sess_1", false, LIMITS);
        let _silent = accept_stream(&host).await;
        tokio::time::timeout(TEST_LIMIT, accept_stream(&host))
            .await
            .expect("the silent stream is kept");
    }

    /// Answers one request for a part of a text, and returns the path of the request.
    async fn answer_text(host: &UnixListener, text: &str) -> String {
        let (mut stream, _) = host.accept().await.unwrap();
        let request = read_request(&mut stream).await;
        let page = RowTextPage {
            row: "1-2".to_owned(),
            part: "0".to_owned(),
            offset: 0,
            bytes: 0,
            text: text.to_owned(),
            next: None,
        };
        let body = serde_json::to_string(&page).unwrap();
        let length = body.len();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        );
        stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        request.lines().next().unwrap_or_default().to_owned()
    }

    #[tokio::test]
    async fn long_message_that_grows_is_read_on_from_its_known_end() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("wharf.sock");
        let host = UnixListener::bind(&socket).unwrap();
        let client = HostClient::unconnected(HostAddress::Socket(socket));
        let mut texts = CompletedTexts::default();
        let pieces = [
            (true, 4, "-one", "head-one"),
            (true, 8, "-two", "head-one-two"),
            (false, 4, "-all", "head-all"),
        ];
        for (open, offset, piece, whole) in pieces {
            let part =
                serde_json::json!({ "type": "text", "text": "head", "cut": { "bytes": 99 } });
            let mut row = test_row("message", open, "", serde_json::json!({ "parts": [part] }));
            let (completed, request) = tokio::join!(
                texts.complete(&client, "sess_1", &mut row),
                answer_text(&host, piece)
            );
            completed.unwrap();
            assert!(request.contains(&format!("part=0&offset={offset} ")), "{request}");
            let RowBody::Message(message) = &row.body else { panic!("another row") };
            let Some(RowPart::Text(text)) = message.parts.first() else { panic!("another part") };
            assert_eq!(text.text, whole);
        }
        assert!(texts.0.is_empty(), "the message is complete");
    }
}
