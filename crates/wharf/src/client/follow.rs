//! Follows an event stream across reconnects without duplicates or gaps.

use std::collections::VecDeque;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::Incoming;
use tokio::time::{Instant, timeout_at};

use super::sse::{SseEvent, SseReader};
use super::{HostCall, HostClient};
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
    body: Option<Incoming>,
    reader: SseReader,
    ready: VecDeque<SseEvent>,
    pause: Duration,
    limits: FollowLimits,
    /// When the last bytes of the open stream came.
    heard_at: Instant,
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
            body: None,
            reader: SseReader::default(),
            ready: VecDeque::new(),
            pause: FIRST_RETRY_DELAY,
            limits: FollowLimits { away: RECONNECT_TIMEOUT, silence: None },
            heard_at: Instant::now(),
            gives_up_at: None,
            is_away_told: false,
        }
    }

    pub(crate) fn with_limits(self, limits: FollowLimits) -> Self {
        Self { limits, ..self }
    }

    /// Returns the next event, or `None` when the host ends the stream. Dropping the future loses no event.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<SseEvent>> {
        loop {
            match self.next_step().await? {
                Some(FollowStep::Event(event)) => return Ok(Some(event)),
                Some(FollowStep::HostAway | FollowStep::HostBack) => {}
                None => return Ok(None),
            }
        }
    }

    /// Returns the next event or the news that the host is away or back, or `None` when the host ends the stream. Fails if
    /// the host stays away. Dropping the future loses nothing.
    pub(crate) async fn next_step(&mut self) -> anyhow::Result<Option<FollowStep>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.last = event.id.clone().or_else(|| self.last.take());
                self.pause = FIRST_RETRY_DELAY;
                return Ok(Some(FollowStep::Event(event)));
            }
            if self.body.is_some() {
                self.read_bytes().await?;
                continue;
            }
            match self.request_stream().await? {
                StreamRequest::Open if std::mem::take(&mut self.is_away_told) => return Ok(Some(FollowStep::HostBack)),
                StreamRequest::Open => {}
                StreamRequest::Over => return Ok(None),
                StreamRequest::NoHost if !std::mem::replace(&mut self.is_away_told, true) => {
                    return Ok(Some(FollowStep::HostAway));
                }
                StreamRequest::NoHost => tokio::time::sleep(MAX_RETRY_DELAY / 4).await,
            }
        }
    }

    /// Reads the next bytes of the open stream. Drops a stream that has ended or has been silent for too long: the next
    /// request tells why.
    async fn read_bytes(&mut self) -> anyhow::Result<()> {
        let Some(body) = &mut self.body else { return Ok(()) };
        let frame = match self.limits.silence {
            Some(limit) => timeout_at(self.heard_at + limit, body.frame()).await,
            None => Ok(body.frame().await),
        };
        match frame {
            Ok(Some(Ok(frame))) => {
                self.heard_at = Instant::now();
                if let Some(bytes) = frame.data_ref() {
                    self.ready.extend(self.reader.feed_bytes(bytes)?);
                }
            }
            Ok(Some(Err(_)) | None) => {
                self.drop_stream();
                let pause = self.pause;
                self.pause = (self.pause * 2).min(MAX_RETRY_DELAY);
                tokio::time::sleep(pause).await;
            }
            Err(_) => self.drop_stream(),
        }
        Ok(())
    }

    fn drop_stream(&mut self) {
        self.body = None;
        self.reader = SseReader::default();
    }

    /// Requests the stream once. Fails if the host has been away for too long.
    async fn request_stream(&mut self) -> anyhow::Result<StreamRequest> {
        let mut call = HostCall::get(&self.path).with_header("accept", "text/event-stream");
        if let Some(last) = &self.last {
            call = call.with_header("last-event-id", last);
        }
        let gives_up_at = *self.gives_up_at.get_or_insert_with(|| Instant::now() + self.limits.away);
        let response = match timeout_at(gives_up_at, self.client.start_call(&call)).await {
            Ok(Ok(response)) => response,
            Ok(Err(ConnectError::NoHost)) if Instant::now() < gives_up_at => return Ok(StreamRequest::NoHost),
            Ok(Err(no)) => return Err(self.client.host_gone_error(no)),
            Err(_) => return Err(self.client.host_gone_error(ConnectError::NoHost)),
        };
        self.gives_up_at = None;
        match response.status() {
            StatusCode::NO_CONTENT => Ok(StreamRequest::Over),
            StatusCode::OK => {
                self.body = Some(response.into_body());
                self.heard_at = Instant::now();
                Ok(StreamRequest::Open)
            }
            status => {
                let body = response.into_body().collect().await.map(http_body_util::Collected::to_bytes);
                Err(self.client.refusal(status, &body.unwrap_or_default()))
            }
        }
    }
}
