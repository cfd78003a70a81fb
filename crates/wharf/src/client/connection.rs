//! One connection that carries server-sent events.

use std::collections::VecDeque;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::Incoming;

use super::sse::{SseEvent, SseReader};
use super::{HostCall, HostClient};
use crate::connect::ConnectError;

/// An open event stream. When the connection is lost, a new one goes on after the last event's id.
#[derive(Debug)]
pub(crate) struct StreamConnection {
    body: Incoming,
    reader: SseReader,
    ready: VecDeque<SseEvent>,
}

impl StreamConnection {
    /// Requests a stream, after the event with the id `last`. Returns `None` if the host says that it is over.
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
                Ok(Some(Self { body, reader: SseReader::default(), ready: VecDeque::new() }))
            }
            status => {
                let body = response.into_body().collect().await.map(http_body_util::Collected::to_bytes);
                Err(ConnectError::Refused(client.refusal(status, &body.unwrap_or_default())))
            }
        }
    }

    /// Returns the next event, or `None` if the stream has ended or the connection is lost. Dropping the future loses no
    /// event.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<SseEvent>> {
        self.next_unless_silent(Duration::MAX).await
    }

    /// Returns the next event like [`Self::next`]; a connection on which no byte comes for so long counts as lost.
    pub(crate) async fn next_unless_silent(&mut self, limit: Duration) -> anyhow::Result<Option<SseEvent>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            match tokio::time::timeout(limit, self.body.frame()).await {
                Ok(Some(Ok(frame))) => {
                    if let Some(bytes) = frame.data_ref() {
                        self.ready.extend(self.reader.feed_bytes(bytes)?);
                    }
                }
                Ok(Some(Err(_)) | None) | Err(_) => return Ok(None),
            }
        }
    }
}
