//! Turns the host's streams into inputs of the core, which hears of every loss.

use std::time::Duration;

use anyhow::Context;
use tokio::sync::mpsc::Sender;
use tokio::task::JoinSet;
use wharf_api::{ErrorCode, RowStreamEvent, SessionInfo, SessionStreamEvent};
use wharf_tui::{StreamId, StreamInput, TuiInput};

use crate::client::{
    FollowLimits, FollowStep, HostClient, Patience, SILENCE_LIMIT, SseEvent, StreamFollower,
    StreamLoss, StreamStart, url_path,
};
use crate::exit::Failure;

/// A longer event is parsed beside the loop, which keeps reading keys.
const MAX_PARSED_IN_LOOP_BYTES: usize = 32 << 10;

/// A stream that is followed: one task, which ends when this is dropped.
pub(super) type FollowedStream = JoinSet<()>;

/// Follows the stream of all sessions.
pub(super) fn follow_list(client: &HostClient, inputs: Sender<TuiInput>) -> FollowedStream {
    let follower = start_follower(client, "/sessions/stream", StreamStart::EachTimeBeginning);
    let read = |event: &SseEvent| -> anyhow::Result<SessionStreamEvent<SessionInfo>> {
        Ok(SessionStreamEvent::read(&event.kind, wharf_acp::to_value(event.data.as_bytes()))?)
    };
    FollowedStream::from_iter([pass_on(follower, inputs, read, TuiInput::List, None)])
}

/// Follows the rows of one session.
pub(super) fn follow_rows(
    client: &HostClient,
    session: &str,
    stream: StreamId,
    inputs: Sender<TuiInput>,
) -> FollowedStream {
    let path = url_path(&["sessions", session, "rows", "stream"]);
    let follower = start_follower(client, &path, StreamStart::Beginning);
    let to_input = move |input| TuiInput::Rows { stream, input };
    let gone = Some(RowStreamEvent::Gone);
    let read = SseEvent::parse_row_event;
    FollowedStream::from_iter([pass_on(follower, inputs, read, to_input, gone)])
}

fn start_follower(client: &HostClient, path: &str, from: StreamStart) -> StreamFollower {
    // An attempt costs little if the host is on this machine.
    let max_delay = Duration::from_secs(if client.is_remote() { 5 } else { 1 });
    StreamFollower::new(client, path.to_owned(), from).with_limits(FollowLimits {
        patience: Patience::Forever,
        silence: Some(SILENCE_LIMIT),
        first_delay: Duration::from_millis(250),
        max_delay,
    })
}

/// Passes each step of the stream on as an input. Ends when the client has left, or with the event
/// `gone` when the host does not know the session.
async fn pass_on<E: Send + 'static>(
    mut follower: StreamFollower,
    inputs: Sender<TuiInput>,
    read: fn(&SseEvent) -> anyhow::Result<E>,
    to_input: impl Fn(StreamInput<E>) -> TuiInput,
    gone: Option<E>,
) {
    while let Ok(Some(step)) = follower.next_step().await {
        let input = match step {
            FollowStep::Connected => StreamInput::Connected,
            FollowStep::Event(event) => match parse_event(event, read).await {
                Ok(event) => StreamInput::Event(event),
                Err(error) => StreamInput::Lost {
                    reason: format!("an event is not readable: {error}"),
                    retry_in: Some(follower.drop_connection()),
                },
            },
            FollowStep::Lost { loss: StreamLoss::Refused(error), .. }
                if gone.is_some()
                    && Failure::code_of(&error) == Some(ErrorCode::UNKNOWN_SESSION) =>
            {
                break;
            }
            FollowStep::Lost { loss, retry_in } => tell_loss(loss, retry_in),
        };
        if inputs.send(to_input(input)).await.is_err() {
            return;
        }
    }
    if let Some(gone) = gone {
        let _ = inputs.send(to_input(StreamInput::Event(gone))).await;
    }
}

fn tell_loss<E>(loss: StreamLoss, retry_in: Duration) -> StreamInput<E> {
    let reason = match loss {
        StreamLoss::Silent => return StreamInput::Silent,
        StreamLoss::Refused(error) => {
            return StreamInput::Refused { reason: error.to_string(), retry_in };
        }
        StreamLoss::Cut => "the connection was lost".to_owned(),
        StreamLoss::Over => "the stream is over".to_owned(),
        StreamLoss::Away => "no host is running".to_owned(),
        StreamLoss::Unreadable(error) => error.to_string(),
    };
    StreamInput::Lost { reason, retry_in: Some(retry_in) }
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
    use tokio::time::timeout;

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
        let client = HostClient::unconnected(HostAddress::Socket(path));
        let limits = FollowLimits {
            patience: Patience::Forever,
            silence: Some(Duration::from_millis(10)),
            ..FollowLimits::FOR_VERBS
        };
        let follower = StreamFollower::new(&client, "/stream".to_owned(), StreamStart::Beginning)
            .with_limits(limits);
        let read = |_: &SseEvent| -> anyhow::Result<SessionStreamEvent<SessionInfo>> {
            anyhow::bail!("an event")
        };
        let following = pass_on(follower, sender, read, TuiInput::List, None);
        let _stream = FollowedStream::from_iter([following]);
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
