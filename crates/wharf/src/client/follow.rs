//! Follows an event stream across reconnects without duplicates or gaps.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::HostClient;
use super::connection::StreamConnection;
use super::sse::SseEvent;
use crate::connect::ConnectError;

/// How long to wait for a host that was restarted; it is usually back sooner.
pub(super) const RECONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// The delay between two attempts: short at first, then at a pace that costs nothing.
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(20);
pub(super) const MAX_RETRY_DELAY: Duration = Duration::from_secs(1);

/// How long a follower waits for the host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FollowLimits {
    /// For a host that is away; it is usually back sooner.
    pub(crate) away: Duration,
    /// For the next bytes of an open stream. `None` for a stream whose host may be silent.
    pub(crate) silence: Option<Duration>,
}

/// The start of a stream.
#[derive(Clone, Debug)]
pub(crate) enum StreamStart {
    Beginning,
    /// After the event with this id.
    After(String),
}

/// Follows one event stream.
#[derive(Debug)]
pub(crate) struct StreamFollower {
    client: HostClient,
    path: String,
    last: Option<String>,
    connection: Option<StreamConnection>,
    pause: Duration,
    limits: FollowLimits,
    /// When the host, which is away, is given up. It stays over all attempts.
    gives_up_at: Option<Instant>,
    /// The caller knows that the host is away.
    is_away_told: bool,
}

/// The next thing that a follower tells.
#[derive(Debug)]
pub(crate) enum FollowStep {
    Event(SseEvent),
    /// The host does not answer; once until it is back.
    HostAway,
    HostBack,
}

/// The outcome of a request for the stream.
enum StreamRequest {
    Open,
    /// The stream is over.
    Over,
    NoHost,
}

impl StreamFollower {
    pub(crate) fn new(client: &HostClient, path: String, from: StreamStart) -> Self {
        let last = match from {
            StreamStart::Beginning => None,
            StreamStart::After(id) => Some(id),
        };
        Self {
            client: client.clone(),
            path,
            last,
            connection: None,
            pause: FIRST_RETRY_DELAY,
            limits: FollowLimits { away: RECONNECT_TIMEOUT, silence: None },
            gives_up_at: None,
            is_away_told: false,
        }
    }

    pub(crate) fn with_limits(self, limits: FollowLimits) -> Self {
        Self { limits, ..self }
    }

    /// Returns the next event, or `None` when the host ends the stream. Dropping the future loses
    /// no event.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<SseEvent>> {
        loop {
            match self.next_step().await? {
                Some(FollowStep::Event(event)) => return Ok(Some(event)),
                Some(FollowStep::HostAway | FollowStep::HostBack) => {}
                None => return Ok(None),
            }
        }
    }

    /// Returns the next event or the news that the host is away or back, or `None` when the host
    /// ends the stream. Fails if the host stays away. Dropping the future loses nothing.
    pub(crate) async fn next_step(&mut self) -> anyhow::Result<Option<FollowStep>> {
        loop {
            if let Some(connection) = &mut self.connection {
                if let Some(event) = connection.next_unless_silent(self.limits.silence).await? {
                    self.last = event.id.clone().or_else(|| self.last.take());
                    self.pause = FIRST_RETRY_DELAY;
                    return Ok(Some(FollowStep::Event(event)));
                }
                // The stream ended, or the connection was lost: the next request tells which.
                self.connection = None;
                let pause = self.pause;
                self.pause = (self.pause * 2).min(MAX_RETRY_DELAY);
                tokio::time::sleep(pause).await;
            }
            match self.request_stream().await? {
                StreamRequest::Open if std::mem::take(&mut self.is_away_told) => {
                    return Ok(Some(FollowStep::HostBack));
                }
                StreamRequest::Open => {}
                StreamRequest::Over => return Ok(None),
                StreamRequest::NoHost if !std::mem::replace(&mut self.is_away_told, true) => {
                    return Ok(Some(FollowStep::HostAway));
                }
                StreamRequest::NoHost => tokio::time::sleep(MAX_RETRY_DELAY / 4).await,
            }
        }
    }

    /// Requests the stream once. Fails if the host has been away for too long.
    async fn request_stream(&mut self) -> anyhow::Result<StreamRequest> {
        let gives_up_at =
            *self.gives_up_at.get_or_insert_with(|| Instant::now() + self.limits.away);
        let opening = StreamConnection::open(&self.client, &self.path, self.last.as_deref());
        let opened = match timeout_at(gives_up_at, opening).await {
            Ok(Ok(opened)) => opened,
            Ok(Err(ConnectError::NoHost)) if Instant::now() < gives_up_at => {
                return Ok(StreamRequest::NoHost);
            }
            Ok(Err(no)) => return Err(self.client.host_gone_error(no)),
            Err(_) => return Err(self.client.host_gone_error(ConnectError::NoHost)),
        };
        self.gives_up_at = None;
        self.connection = opened;
        Ok(if self.connection.is_some() { StreamRequest::Open } else { StreamRequest::Over })
    }
}
