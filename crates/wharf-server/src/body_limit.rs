//! Reads request bodies: each up to a size and within a time, and all together within the byte
//! budget.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use tokio::time::Instant;
use wharf_config::Limits;
use wharf_host::{BudgetFull, ByteBudget, BytePermit};
use wharf_json::rpc::HEAD_BYTES;

/// The time in which a body must come to its end, however steadily it comes.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// The time without a byte after which a body is given up, if `limits.silence` is off.
const DEFAULT_STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// The reason why a body was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyError {
    /// The body has more bytes than this.
    TooLarge(usize),
    /// No more bytes came, or the body did not come to its end in time.
    Stalled,
    /// The client went away.
    CutOff,
    /// Other clients are sending so much that the budget has no room.
    NoRoom,
}

/// Reads bodies under the limits of the server.
#[derive(Debug)]
pub(crate) struct BodyReader {
    /// No more than a message may have: a body becomes one.
    max_body_bytes: usize,
    buffers: Arc<ByteBudget>,
    stall_timeout: Duration,
    body_timeout: Duration,
}

impl From<BudgetFull> for BodyError {
    fn from(_: BudgetFull) -> Self {
        Self::NoRoom
    }
}

impl BodyReader {
    pub(crate) fn new(limits: &Limits, buffers: &Arc<ByteBudget>) -> Self {
        let stall_timeout = limits.silence.to_std().unwrap_or(DEFAULT_STALL_TIMEOUT);
        let max_body_bytes = limits.body.0.min(limits.frame.0);
        Self {
            max_body_bytes,
            buffers: Arc::clone(buffers),
            stall_timeout,
            body_timeout: BODY_TIMEOUT,
        }
    }

    /// Returns the body, if it is not too large.
    pub(crate) async fn read(&self, headers: &HeaderMap, body: Body) -> Result<Bytes, BodyError> {
        self.read_counted(headers, body).await.map(|(body, _)| body)
    }

    /// Returns the body with the permit that counts it for as long as it is in use.
    pub(crate) async fn read_counted(
        &self,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<(Bytes, BytePermit), BodyError> {
        if self.is_too_large(headers) {
            return Err(BodyError::TooLarge(self.max_body_bytes));
        }
        self.read_chunks(&mut body.into_data_stream(), &mut BytesMut::new()).await
    }

    /// Returns a message with its permit. The error has the first bytes of the message, which may
    /// tell its id.
    pub(crate) async fn read_message(
        &self,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<(Bytes, BytePermit), (BodyError, Bytes)> {
        let mut chunks = body.into_data_stream();
        let mut held = BytesMut::new();
        let why = if self.is_too_large(headers) {
            while held.len() < HEAD_BYTES
                && let Ok(Some(Ok(chunk))) =
                    tokio::time::timeout(self.stall_timeout, chunks.next()).await
            {
                held.extend_from_slice(&chunk[..chunk.len().min(HEAD_BYTES)]);
            }
            BodyError::TooLarge(self.max_body_bytes)
        } else {
            match self.read_chunks(&mut chunks, &mut held).await {
                Ok(read) => return Ok(read),
                Err(why) => why,
            }
        };
        held.truncate(HEAD_BYTES);
        Err((why, Bytes::copy_from_slice(&held)))
    }

    fn is_too_large(&self, headers: &HeaderMap) -> bool {
        let announced = headers
            .get(header::CONTENT_LENGTH)
            .and_then(|length| length.to_str().ok()?.trim().parse().ok());
        announced.is_some_and(|length: usize| length > self.max_body_bytes)
    }

    /// Reads to the end. If that is not reached, `held` has the bytes that came.
    async fn read_chunks(
        &self,
        chunks: &mut BodyDataStream,
        held: &mut BytesMut,
    ) -> Result<(Bytes, BytePermit), BodyError> {
        let limit = self.max_body_bytes;
        let mut permit = self.buffers.begin_in();
        let end = Instant::now() + self.body_timeout;
        loop {
            match tokio::time::timeout_at(
                end.min(Instant::now() + self.stall_timeout),
                chunks.next(),
            )
            .await
            {
                Err(_) => return Err(BodyError::Stalled),
                Ok(None) => return Ok((std::mem::take(held).freeze(), permit)),
                Ok(Some(Err(_))) => return Err(BodyError::CutOff),
                Ok(Some(Ok(chunk))) if held.len() + chunk.len() > limit => {
                    return Err(BodyError::TooLarge(limit));
                }
                Ok(Some(Ok(chunk))) => {
                    permit.try_grow(chunk.len())?;
                    held.extend_from_slice(&chunk);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use wharf_config::Size;
    use wharf_host::Direction;

    use super::*;

    fn intake(limit: usize, all: usize) -> BodyReader {
        let stalled = DEFAULT_STALL_TIMEOUT;
        let whole = Duration::from_millis(50);
        let buffers = ByteBudget::new(&Limits { bodies: Size(all), ..Limits::default() });
        BodyReader {
            max_body_bytes: limit,
            buffers,
            stall_timeout: stalled,
            body_timeout: whole,
        }
    }

    #[tokio::test]
    async fn body_that_trickles_without_end_is_cut_off() {
        let ticks = tokio::time::interval(Duration::from_millis(5));
        let trickle = futures_util::stream::unfold(ticks, async |mut ticks| {
            ticks.tick().await;
            Some((Ok::<_, std::io::Error>("x"), ticks))
        });
        let intake = intake(1 << 20, 1 << 20);
        let headers = HeaderMap::new();
        let read = intake.read(&headers, Body::from_stream(trickle));
        assert_eq!(
            tokio::time::timeout(DEFAULT_STALL_TIMEOUT, read).await.unwrap(),
            Err(BodyError::Stalled)
        );
        assert_eq!(intake.buffers.bytes_in_use(Direction::In), 0);
    }

    #[tokio::test]
    async fn all_bodies_share_one_limit_and_give_their_bytes_back() {
        let intake = intake(100, 100);
        let chunk =
            |bytes: usize| futures_util::stream::iter([Ok::<_, std::io::Error>("x".repeat(bytes))]);
        let unfinished = Body::from_stream(chunk(80).chain(futures_util::stream::pending()));
        let headers = HeaderMap::new();
        let mut first = Box::pin(intake.read(&headers, unfinished));
        assert!(first.as_mut().now_or_never().is_none(), "it goes on");
        let second = intake.read(&headers, Body::from_stream(chunk(30))).await;
        assert_eq!(second, Err(BodyError::NoRoom));
        assert!(
            intake.read(&headers, Body::from_stream(chunk(20))).await.is_ok(),
            "a small one fits"
        );
        drop(first);
        assert!(intake.read(&headers, Body::from_stream(chunk(100))).await.is_ok());
        assert_eq!(
            intake.read(&headers, Body::from_stream(chunk(101))).await,
            Err(BodyError::TooLarge(100))
        );
        assert_eq!(intake.buffers.bytes_in_use(Direction::In), 0);
    }
}
