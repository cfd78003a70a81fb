//! Follows an event stream across reconnects without duplicates or gaps.

use std::time::{Duration, Instant};

use super::HostClient;
use super::connection::StreamConnection;
use super::sse::SseEvent;
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
    connection: Option<StreamConnection>,
    pause: Duration,
}

impl StreamFollower {
    pub(crate) fn new(client: &HostClient, path: String, from: StreamStart) -> Self {
        let last = match from {
            StreamStart::Beginning => None,
            StreamStart::After(id) => Some(id),
        };
        Self { client: client.clone(), path, last, connection: None, pause: FIRST_RETRY_DELAY }
    }

    /// Returns the next event, or `None` when the host ends the stream. Dropping the future loses no event.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<SseEvent>> {
        loop {
            let Some(connection) = &mut self.connection else {
                self.connection = self.open_stream().await?;
                if self.connection.is_none() {
                    return Ok(None);
                }
                continue;
            };
            if let Some(event) = connection.next().await? {
                self.last = event.id.clone().or_else(|| self.last.take());
                self.pause = FIRST_RETRY_DELAY;
                return Ok(Some(event));
            }
            // The stream ended, or the connection was lost: the next request tells which.
            self.reconnect();
            tokio::time::sleep(self.pause).await;
            self.pause = (self.pause * 2).min(MAX_RETRY_DELAY);
        }
    }

    /// Drops the connection: the next event comes over a new one. For a connection that has gone silent.
    pub(crate) fn reconnect(&mut self) {
        self.connection = None;
    }

    /// Requests the stream, again and again for a while if the host is gone. Returns `None` if it is over.
    async fn open_stream(&mut self) -> anyhow::Result<Option<StreamConnection>> {
        let give_up_at = Instant::now() + RECONNECT_TIMEOUT;
        loop {
            match StreamConnection::open(&self.client, &self.path, self.last.as_deref()).await {
                Ok(connection) => return Ok(connection),
                Err(ConnectError::NoHost) if Instant::now() < give_up_at => {
                    tokio::time::sleep(MAX_RETRY_DELAY / 4).await;
                }
                Err(no) => return Err(self.client.host_gone_error(no)),
            }
        }
    }
}
