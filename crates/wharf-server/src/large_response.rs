//! Large JSON responses: few are built at once, and the byte budget counts those that wait to be read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use serde::Serialize;
use wharf_api::ErrorCode;
use wharf_host::{ByteBudget, BytePermit, CountLimit};

use crate::fault::Fault;

/// Responses that are built at once.
const MAX_BUILDING: usize = 8;
/// A response of no more bytes than this is not counted.
const MAX_UNCOUNTED_BYTES: usize = 64 << 10;
/// The bytes of a counted response that are given to the connection at once.
const CHUNK_BYTES: usize = 64 << 10;
/// How long a response waits for room in the byte budget.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(2);
/// A response of which nothing is read for so long is dropped, and its reader cut off.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// The limits of all large responses.
#[derive(Debug)]
pub(crate) struct LargeResponses {
    building: CountLimit,
    buffers: Arc<ByteBudget>,
}

/// The rest of a response, with the permit that counts it.
#[derive(Debug)]
struct UnreadRest {
    bytes: Bytes,
    _permit: BytePermit,
}

/// `None` once all is read or given up.
type Left = Mutex<Option<UnreadRest>>;

/// The client read nothing of the response for too long.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the answer was not read in time")]
struct ReadStalled;

impl LargeResponses {
    pub(crate) fn new(buffers: &Arc<ByteBudget>) -> Self {
        Self { building: CountLimit::new(MAX_BUILDING), buffers: Arc::clone(buffers) }
    }

    /// Builds a response. A large one for which there is no room at first is dropped and built again later: a response
    /// that waits for room must hold no bytes.
    pub(crate) async fn respond<T, F>(&self, make: impl Fn() -> F + Send + Sync) -> Result<Response, Fault>
    where
        T: Serialize + Send,
        F: Future<Output = Result<T, Fault>> + Send,
    {
        let body = self.build(&make).await?;
        if body.len() <= MAX_UNCOUNTED_BYTES {
            return Ok(json_response(body.len(), Body::from(body)));
        }
        let bytes = body.len();
        if let Some(permit) = self.buffers.try_reserve_out(bytes) {
            return Ok(counted_response(body, permit));
        }
        drop(body);
        let permit = tokio::time::timeout(PERMIT_TIMEOUT, self.buffers.reserve_out(bytes)).await;
        let permit = permit.map_err(|_| too_many_answers())?;
        Ok(counted_response(self.build(&make).await?, permit))
    }

    /// Builds a response of bytes that are not JSON, with what its caller knows of them. Its headers are the caller's to set.
    pub(crate) async fn respond_bytes<T, F>(&self, make: impl Fn() -> F + Send + Sync) -> Result<(T, Response), Fault>
    where
        T: Send,
        F: Future<Output = Result<(T, Vec<u8>), Fault>> + Send,
    {
        let build = async || {
            let _making = self.building.acquire().await;
            make().await
        };
        let (known, body) = build().await?;
        if body.len() <= MAX_UNCOUNTED_BYTES {
            return Ok((known, Response::new(Body::from(body))));
        }
        let bytes = body.len();
        if let Some(permit) = self.buffers.try_reserve_out(bytes) {
            return Ok((known, counted_response(body.into(), permit)));
        }
        drop(body);
        let permit = tokio::time::timeout(PERMIT_TIMEOUT, self.buffers.reserve_out(bytes)).await;
        let permit = permit.map_err(|_| too_many_answers())?;
        let (known, body) = build().await?;
        Ok((known, counted_response(body.into(), permit)))
    }

    async fn build<T, F>(&self, make: &(impl Fn() -> F + Send + Sync)) -> Result<Bytes, Fault>
    where
        T: Serialize + Send,
        F: Future<Output = Result<T, Fault>> + Send,
    {
        let _making = self.building.acquire().await;
        let answer = serde_json::to_vec(&make().await?)
            .map_err(|error| Fault::new(ErrorCode::INTERNAL, format!("cannot write the answer: {error}")))?;
        Ok(answer.into())
    }
}

fn too_many_answers() -> Fault {
    let detail =
        "too many large answers wait to be read by their clients (limits.buffers); try again, or ask for less at once";
    Fault::new(ErrorCode::TOO_MANY_ANSWERS, detail).with_retry_after(1)
}

fn json_response(length: usize, body: Body) -> Response {
    let kind = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, kind), (header::CONTENT_LENGTH, length.into())], body).into_response()
}

/// Returns a response that is counted until its last chunk is taken, or it is dropped.
fn counted_response(bytes: Bytes, permit: BytePermit) -> Response {
    let length = bytes.len();
    let left = Arc::new(Mutex::new(Some(UnreadRest { bytes, _permit: permit })));
    tokio::spawn(drop_when_stalled(Arc::downgrade(&left), length));
    json_response(length, Body::from_stream(stream::unfold((left, length), next_chunk)))
}

async fn next_chunk((left, unread): (Arc<Left>, usize)) -> Option<(Result<Bytes, ReadStalled>, (Arc<Left>, usize))> {
    if unread == 0 {
        return None;
    }
    let mut rest = lock(&left);
    let piece = rest.as_mut().map(|rest| rest.bytes.split_to(CHUNK_BYTES.min(rest.bytes.len()))).ok_or(ReadStalled);
    let unread = piece.as_ref().map_or(0, |piece| unread - piece.len());
    if unread == 0 {
        *rest = None;
    }
    drop(rest);
    // A copy: a chunk that waits in the connection must not keep the whole response.
    Some((piece.map(|piece| Bytes::copy_from_slice(&piece)), (left, unread)))
}

/// Drops the rest of a response once nothing of it was read for [`READ_TIMEOUT`].
async fn drop_when_stalled(left: Weak<Left>, mut unread: usize) {
    loop {
        tokio::time::sleep(READ_TIMEOUT).await;
        let Some(left) = left.upgrade() else { return };
        let mut rest = lock(&left);
        let now = rest.as_ref().map_or(0, |rest| rest.bytes.len());
        if now == unread {
            *rest = None;
        }
        if rest.is_none() {
            return;
        }
        unread = now;
    }
}

fn lock(left: &Left) -> MutexGuard<'_, Option<UnreadRest>> {
    left.lock().unwrap_or_else(PoisonError::into_inner)
}
