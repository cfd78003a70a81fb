//! Following a stream of the host past lost connections: what comes twice or not at all is neither.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use http_body_util::BodyExt;
use hyper::StatusCode;
use hyper::body::Incoming;

use super::sse::{Event, Reader};
use super::{Call, Client, answer};
use crate::connect::NoLink;

/// A host that is restarted is back sooner.
const COMES_BACK_WITHIN: Duration = Duration::from_secs(30);
/// Between two tries: soon at first, then at a pace that costs nothing.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// Where a stream begins.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    Beginning,
    /// After the event with this id.
    After(String),
}

/// A stream that is being followed.
#[derive(Debug)]
pub(crate) struct Follow {
    client: Client,
    path: String,
    last: Option<String>,
    body: Option<Incoming>,
    reader: Reader,
    ready: VecDeque<Event>,
    pause: Duration,
}

impl Follow {
    pub(crate) fn new(client: &Client, path: String, from: Place) -> Self {
        let last = match from {
            Place::Beginning => None,
            Place::After(id) => Some(id),
        };
        Self {
            client: client.clone(),
            path,
            last,
            body: None,
            reader: Reader::default(),
            ready: VecDeque::new(),
            pause: FIRST_PAUSE,
        }
    }

    /// The next event; `None` when the host says that nothing more will come. Nothing is lost if this is dropped
    /// before it is done.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<Event>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.last = event.id.clone().or_else(|| self.last.take());
                self.pause = FIRST_PAUSE;
                return Ok(Some(event));
            }
            let Some(body) = &mut self.body else {
                if !self.connect().await? {
                    return Ok(None);
                }
                continue;
            };
            match body.frame().await {
                Some(Ok(frame)) => {
                    if let Some(bytes) = frame.data_ref() {
                        self.ready.extend(self.reader.feed(bytes)?);
                    }
                }
                // It ended, or was lost: asked again, the host says which.
                Some(Err(_)) | None => {
                    self.body = None;
                    self.reader = Reader::default();
                    tokio::time::sleep(self.pause).await;
                    self.pause = (self.pause * 2).min(LAST_PAUSE);
                }
            }
        }
    }

    /// False if the stream is over.
    async fn connect(&mut self) -> anyhow::Result<bool> {
        let mut call = Call::get(&self.path).header("accept", "text/event-stream");
        if let Some(last) = &self.last {
            call = call.header("last-event-id", last);
        }
        let give_up_at = Instant::now() + COMES_BACK_WITHIN;
        let response = loop {
            match self.client.start(&call).await {
                Ok(response) => break response,
                Err(NoLink::NoHost) if Instant::now() < give_up_at => tokio::time::sleep(LAST_PAUSE / 4).await,
                Err(no) => return Err(self.client.lost(no)),
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
                Err(answer::refusal(status, &body.unwrap_or_default()).into())
            }
        }
    }
}
