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
pub(crate) struct StreamConnection {
    body: Incoming,
    reader: SseReader,
    ready: VecDeque<SseEvent>,
    /// When the last bytes came.
    heard_at: Instant,
}

impl StreamConnection {
    /// Requests a stream, after the event with the id `last`. Returns `None` if the host says that
    /// it is over.
    pub(crate) async fn open(
        client: &HostClient,
        path: &str,
        last: Option<&str>,
    ) -> Result<Option<Self>, ConnectError> {
        let mut call = HostCall::get(path).with_header("accept", "text/event-stream");
        if let Some(last) = last {
            call = call.with_header("last-event-id", last);
        }
        let response = client.start_call(&call).await?;
        match response.status() {
            StatusCode::NO_CONTENT => Ok(None),
            StatusCode::OK => {
                let body = response.into_body();
                let reader = SseReader::default();
                let ready = VecDeque::new();
                Ok(Some(Self { body, reader, ready, heard_at: Instant::now() }))
            }
            status => {
                let body =
                    response.into_body().collect().await.map(http_body_util::Collected::to_bytes);
                Err(ConnectError::Refused(client.refusal(status, &body.unwrap_or_default())))
            }
        }
    }

    /// Returns true if no byte has come for the time of `limit`.
    pub(crate) fn is_silent(&self, limit: Duration) -> bool {
        self.heard_at.elapsed() >= limit
    }

    /// Returns the next event, or `None` if the stream has ended or the connection is lost. A
    /// connection on which no byte comes for the time of `silence` counts as lost. Dropping the
    /// future loses no event.
    pub(crate) async fn next_unless_silent(
        &mut self,
        silence: Option<Duration>,
    ) -> anyhow::Result<Option<SseEvent>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            let frame = match silence {
                Some(limit) => timeout_at(self.heard_at + limit, self.body.frame()).await,
                None => Ok(self.body.frame().await),
            };
            let Ok(Some(Ok(frame))) = frame else { return Ok(None) };
            self.heard_at = Instant::now();
            if let Some(bytes) = frame.data_ref() {
                self.ready.extend(self.reader.feed_bytes(bytes)?);
            }
        }
    }
}
