//! Follows the host's streams over any number of connections, and reports every loss to the core.

use std::time::Duration;

use anyhow::Context;
use tokio::sync::mpsc::Sender;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use wharf_api::{ErrorCode, RowStreamEvent, SessionInfo, SessionStreamEvent};
use wharf_tui::{StreamId, StreamInput, TuiInput};

use crate::client::{HostClient, SseEvent, StreamConnection, url_path};
use crate::connect::ConnectError;
use crate::exit::Failure;

/// The delay between two attempts: short at first, then at a pace that costs nothing.
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(250);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(5);
/// The same for a host of this machine, where an attempt costs little.
const MAX_LOCAL_RETRY_DELAY: Duration = Duration::from_secs(1);
/// A longer event is parsed beside the loop, which keeps reading keys.
const MAX_PARSED_IN_LOOP_BYTES: usize = 32 << 10;
/// The host sends something at least every 10 s (rule 13.5). Without a byte for this time, the host
/// does not answer or the connection is dead (rule 19.8).
const SILENCE_LIMIT: Duration = Duration::from_secs(25);

/// A stream that is followed. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct FollowedStream(JoinHandle<()>);

impl Drop for FollowedStream {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Follows the stream of all sessions.
pub(super) fn follow_list(client: &HostClient, inputs: Sender<TuiInput>) -> FollowedStream {
    let follower = Follower {
        client: client.clone(),
        path: "/sessions/stream".to_owned(),
        silence_limit: SILENCE_LIMIT,
        inputs,
        keeps_place: false,
    };
    let read = |event: &SseEvent| -> anyhow::Result<SessionStreamEvent<SessionInfo>> {
        Ok(SessionStreamEvent::read(&event.kind, wharf_acp::to_value(event.data.as_bytes()))?)
    };
    FollowedStream(tokio::spawn(follower.run(read, TuiInput::List, |_| None)))
}

/// Follows the rows of one session.
pub(super) fn follow_rows(
    client: &HostClient,
    session: &str,
    stream: StreamId,
    inputs: Sender<TuiInput>,
) -> FollowedStream {
    let follower = Follower {
        client: client.clone(),
        path: url_path(&["sessions", session, "rows", "stream"]),
        silence_limit: SILENCE_LIMIT,
        inputs,
        keeps_place: true,
    };
    let gone =
        |code: ErrorCode| (code == ErrorCode::UNKNOWN_SESSION).then_some(RowStreamEvent::Gone);
    let to_input = move |input| TuiInput::Rows { stream, input };
    FollowedStream(tokio::spawn(follower.run(SseEvent::parse_row_event, to_input, gone)))
}

#[derive(Debug)]
struct Follower {
    client: HostClient,
    path: String,
    silence_limit: Duration,
    inputs: Sender<TuiInput>,
    /// True if a new connection continues after the last event; otherwise it starts over.
    keeps_place: bool,
}

/// The end of a connection.
enum StreamLoss {
    /// The connection was lost, or there was none. A new one may be possible.
    Lost(String),
    /// Nothing came from the host for too long. It may answer a new connection.
    Silent,
    /// The host has refused the stream.
    Refused(String),
    /// The client has left, or the stream is over for good.
    Over,
}

impl Follower {
    /// Reads the stream over any number of connections. Ends when the client has left or the stream
    /// is over.
    async fn run<E: Send + 'static>(
        self,
        read: fn(&SseEvent) -> anyhow::Result<E>,
        to_input: impl Fn(StreamInput<E>) -> TuiInput,
        last_event: impl Fn(ErrorCode) -> Option<E>,
    ) {
        let mut last: Option<String> = None;
        let mut delay = FIRST_RETRY_DELAY;
        let max_delay =
            if self.client.is_remote() { MAX_RETRY_DELAY } else { MAX_LOCAL_RETRY_DELAY };
        loop {
            // A host that was stopped by a signal accepts connections and answers nothing.
            let opening = StreamConnection::open(&self.client, &self.path, last.as_deref());
            let loss = match timeout(self.silence_limit, opening).await {
                Ok(Ok(Some(connection))) => {
                    delay = FIRST_RETRY_DELAY;
                    self.read_events(connection, &mut last, read, &to_input).await
                }
                Ok(Ok(None)) => StreamLoss::Lost("the stream is over".to_owned()),
                Ok(Err(ConnectError::NoHost)) => StreamLoss::Lost("no host is running".to_owned()),
                Ok(Err(ConnectError::Refused(error))) => {
                    // The host may not know the last event any more: the next attempt starts over.
                    last = None;
                    if let Some(event) = Failure::code_of(&error).and_then(&last_event) {
                        let _ = self.inputs.send(to_input(StreamInput::Event(event))).await;
                        return;
                    }
                    StreamLoss::Refused(error.to_string())
                }
                Err(_) => StreamLoss::Silent,
            };
            let lost = match loss {
                StreamLoss::Lost(reason) => StreamInput::Lost { reason, retry_in: Some(delay) },
                StreamLoss::Silent => StreamInput::Silent,
                StreamLoss::Refused(reason) => StreamInput::Refused { reason, retry_in: delay },
                StreamLoss::Over => return,
            };
            if self.inputs.send(to_input(lost)).await.is_err() {
                return;
            }
            tokio::time::sleep(delay).await;
            delay = (delay * 2).min(max_delay);
        }
    }

    async fn read_events<E: Send + 'static>(
        &self,
        mut connection: StreamConnection,
        last: &mut Option<String>,
        read: fn(&SseEvent) -> anyhow::Result<E>,
        to_input: impl Fn(StreamInput<E>) -> TuiInput,
    ) -> StreamLoss {
        let mut input = StreamInput::Connected;
        loop {
            if self.inputs.send(to_input(input)).await.is_err() {
                return StreamLoss::Over;
            }
            let event = match connection.next_unless_silent(Some(self.silence_limit)).await {
                Ok(Some(event)) => event,
                Ok(None) if connection.is_silent(self.silence_limit) => return StreamLoss::Silent,
                Ok(None) => return StreamLoss::Lost("the connection was lost".to_owned()),
                Err(error) => return StreamLoss::Lost(error.to_string()),
            };
            if self.keeps_place && event.id.is_some() {
                last.clone_from(&event.id);
            }
            input = match parse_event(event, read).await {
                Ok(event) => StreamInput::Event(event),
                Err(error) => {
                    return StreamLoss::Lost(format!("an event is not readable: {error}"));
                }
            };
        }
    }
}

/// Parses an event, a large one on another thread.
async fn parse_event<E: Send + 'static>(
    event: SseEvent,
    read: fn(&SseEvent) -> anyhow::Result<E>,
) -> anyhow::Result<E> {
    if event.data.len() <= MAX_PARSED_IN_LOOP_BYTES {
        return read(&event);
    }
    tokio::task::spawn_blocking(move || read(&event))
        .await
        .context("parsing an event")?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::HostAddress;

    /// The test fails then.
    const NEVER: Duration = Duration::from_secs(60);

    /// A host that is stopped by a signal accepts connections, since its kernel does, and answers
    /// nothing.
    #[tokio::test]
    async fn host_that_accepts_and_answers_nothing_is_told_as_silent() -> anyhow::Result<()> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("wharf.sock");
        let _listener = tokio::net::UnixListener::bind(&path)?;
        let (sender, mut inputs) = tokio::sync::mpsc::channel(1);
        let follower = Follower {
            client: HostClient::unconnected(HostAddress::Socket(path)),
            path: "/sessions/stream".to_owned(),
            silence_limit: Duration::from_millis(10),
            inputs: sender,
            keeps_place: false,
        };
        let read = |_: &SseEvent| -> anyhow::Result<SessionStreamEvent<SessionInfo>> {
            anyhow::bail!("an event")
        };
        let _stream = FollowedStream(tokio::spawn(follower.run(read, TuiInput::List, |_| None)));
        for _ in 0..2 {
            let input = timeout(NEVER, inputs.recv()).await.context("the attempt has no end")?;
            anyhow::ensure!(
                matches!(input, Some(TuiInput::List(StreamInput::Silent))),
                "{input:?}"
            );
        }
        Ok(())
    }
}
