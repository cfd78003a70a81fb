//! One connection that carries server-sent events.

use std::collections::VecDeque;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::Incoming;
use tokio::time::{Instant, timeout_at};

use super::sse::{SseEvent, SseReader};
use super::{HostCall, HostClient};
use crate::connect::ConnectError;

/// An open event stream. When the connection is lost, a new one goes on after the last event's id.
#[derive(Debug)]
pub(super) struct StreamConnection {
    body: Incoming,
    reader: SseReader,
    ready: VecDeque<SseEvent>,
    /// When the last bytes came.
    heard_at: Instant,
}

/// The reason why there is no connection.
#[derive(Debug)]
pub(crate) enum StreamLoss {
    /// The stream ended, or the connection was lost: the next request tells which.
    Cut,
    /// The host says that the stream is over.
    Over,
    /// Nothing came from the host for too long. It may answer a new connection.
    Silent,
    /// The host sent something else than events.
    Unreadable(anyhow::Error),
    /// No host is running.
    Away,
    /// The host has refused the stream.
    Refused(anyhow::Error),
}

impl StreamConnection {
    /// Requests a stream, after the event with the id `last`.
    pub(super) async fn open(
        client: &HostClient,
        path: &str,
        last: Option<&str>,
    ) -> Result<Self, StreamLoss> {
        let mut call = HostCall::get(path).with_header("accept", "text/event-stream");
        if let Some(last) = last {
            call = call.with_header("last-event-id", last);
        }
        let response = client.start_call(&call).await.map_err(|no| match no {
            ConnectError::NoHost => StreamLoss::Away,
            ConnectError::Refused(error) => StreamLoss::Refused(error),
        })?;
        match response.status() {
            StatusCode::NO_CONTENT => Err(StreamLoss::Over),
            StatusCode::OK => {
                let body = response.into_body();
                let reader = SseReader::default();
                let ready = VecDeque::new();
                Ok(Self { body, reader, ready, heard_at: Instant::now() })
            }
            status => {
                let body =
                    response.into_body().collect().await.map(http_body_util::Collected::to_bytes);
                Err(StreamLoss::Refused(client.refusal(status, &body.unwrap_or_default())))
            }
        }
    }

    /// Returns the next event. A connection on which no byte comes for the time of `silence` counts
    /// as lost. Dropping the future loses no event.
    pub(super) async fn next(&mut self, silence: Option<Duration>) -> Result<SseEvent, StreamLoss> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(event);
            }
            let frame = match silence {
                Some(limit) => timeout_at(self.heard_at + limit, self.body.frame()).await,
                None => Ok(self.body.frame().await),
            };
            let Ok(Some(Ok(frame))) = frame else {
                let is_silent = silence.is_some_and(|limit| self.heard_at.elapsed() >= limit);
                return Err(if is_silent { StreamLoss::Silent } else { StreamLoss::Cut });
            };
            self.heard_at = Instant::now();
            if let Some(bytes) = frame.data_ref() {
                let events = self.reader.feed_bytes(bytes).map_err(StreamLoss::Unreadable)?;
                self.ready.extend(events);
            }
        }
    }
}
