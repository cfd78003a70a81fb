//! Follows an event stream across reconnects without duplicates or gaps.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::Incoming;

use super::sse::{SseEvent, SseReader};
use super::{HostCall, HostClient};
use crate::connect::ConnectError;

/// How long to wait for a host that was restarted; it is usually back sooner.
pub(super) const RECONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// The delay between two attempts: short at first, then at a pace that costs nothing.
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(20);
pub(super) const MAX_RETRY_DELAY: Duration = Duration::from_secs(1);

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
        }
    }

    /// Returns the next event, or `None` when the host ends the stream. Dropping the future loses no event.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<SseEvent>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.last = event.id.clone().or_else(|| self.last.take());
                self.pause = FIRST_RETRY_DELAY;
                return Ok(Some(event));
            }
            let Some(body) = &mut self.body else {
                if !self.open_stream().await? {
                    return Ok(None);
                }
                continue;
            };
            match body.frame().await {
                Some(Ok(frame)) => {
                    if let Some(bytes) = frame.data_ref() {
                        self.ready.extend(self.reader.feed_bytes(bytes)?);
                    }
                }
                // The stream ended, or the connection was lost: the next request tells which.
                Some(Err(_)) | None => {
                    self.reconnect();
                    tokio::time::sleep(self.pause).await;
                    self.pause = (self.pause * 2).min(MAX_RETRY_DELAY);
                }
            }
        }
    }

    /// Drops the connection: the next event comes over a new one. For a connection that has gone silent.
    pub(crate) fn reconnect(&mut self) {
        self.body = None;
        self.reader = SseReader::default();
    }

    /// Requests the stream. Returns false if it is over.
    async fn open_stream(&mut self) -> anyhow::Result<bool> {
        let mut call = HostCall::get(&self.path).with_header("accept", "text/event-stream");
        if let Some(last) = &self.last {
            call = call.with_header("last-event-id", last);
        }
        let give_up_at = Instant::now() + RECONNECT_TIMEOUT;
        let response = loop {
            match self.client.start_call(&call).await {
                Ok(response) => break response,
                Err(ConnectError::NoHost) if Instant::now() < give_up_at => {
                    tokio::time::sleep(MAX_RETRY_DELAY / 4).await
                }
                Err(no) => return Err(self.client.host_gone_error(no)),
            }
        };
        match response.status() {
            StatusCode::NO_CONTENT => Ok(false),
            StatusCode::OK => {
                self.body = Some(response.into_body());
                Ok(true)
            }
            status => {
                let body = response.into_body().collect().await.map(http_body_util::Collected::to_bytes);
                Err(self.client.refusal(status, &body.unwrap_or_default()))
            }
        }
    }
}
