//! Large answers: only so many are made at once, and those that wait to be read are counted in the budget of all.

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

/// So many are made at once.
const MAKING: usize = 8;
/// An answer of no more bytes than this is not counted.
const SMALL: usize = 64 << 10;
/// What goes out at once of one that is: what the connection holds besides.
const CHUNK: usize = 64 << 10;
/// How long a place is waited for.
const PLACE_WITHIN: Duration = Duration::from_secs(2);
/// One of which nothing is read for so long is dropped, and its reader cut off.
const READ_WITHIN: Duration = Duration::from_secs(30);

/// The bounds for all of them.
#[derive(Debug)]
pub(crate) struct Unread {
    making: CountLimit,
    buffers: Arc<ByteBudget>,
}

/// The rest of an answer, with the permit that counts it.
#[derive(Debug)]
struct Rest {
    bytes: Bytes,
    _permit: BytePermit,
}

/// `None` once all is read or given up.
type Left = Mutex<Option<Rest>>;

/// Nothing of the answer was read for too long.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the answer was not read in time")]
struct Stalled;

impl Unread {
    pub(crate) fn new(buffers: &Arc<ByteBudget>) -> Self {
        Self { making: CountLimit::new(MAKING), buffers: Arc::clone(buffers) }
    }

    /// Makes an answer; again if it turns out to be large and there is no place for it at first, since what waits for a
    /// place must hold nothing.
    pub(crate) async fn answer<T, F>(&self, make: impl Fn() -> F + Send + Sync) -> Result<Response, Fault>
    where
        T: Serialize + Send,
        F: Future<Output = Result<T, Fault>> + Send,
    {
        let body = self.make(&make).await?;
        if body.len() <= SMALL {
            return Ok(json(body.len(), Body::from(body)));
        }
        let bytes = body.len();
        if let Some(permit) = self.buffers.try_reserve_out(bytes) {
            return Ok(placed(body, permit));
        }
        drop(body);
        let permit = tokio::time::timeout(PLACE_WITHIN, self.buffers.reserve_out(bytes)).await;
        let permit = permit.map_err(|_| no_place())?;
        Ok(placed(self.make(&make).await?, permit))
    }

    async fn make<T, F>(&self, make: &(impl Fn() -> F + Send + Sync)) -> Result<Bytes, Fault>
    where
        T: Serialize + Send,
        F: Future<Output = Result<T, Fault>> + Send,
    {
        let _making = self.making.acquire().await;
        let answer = serde_json::to_vec(&make().await?)
            .map_err(|error| Fault::new(ErrorCode::INTERNAL, format!("cannot write the answer: {error}")))?;
        Ok(answer.into())
    }
}

fn no_place() -> Fault {
    let detail =
        "too many large answers wait to be read by their clients (limits.buffers); try again, or ask for less at once";
    Fault::new(ErrorCode::TOO_MANY_ANSWERS, detail).with_retry_after(1)
}

fn json(length: usize, body: Body) -> Response {
    let kind = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, kind), (header::CONTENT_LENGTH, length.into())], body).into_response()
}

/// An answer that is counted until its last piece is taken, or it is dropped.
fn placed(bytes: Bytes, permit: BytePermit) -> Response {
    let length = bytes.len();
    let left = Arc::new(Mutex::new(Some(Rest { bytes, _permit: permit })));
    tokio::spawn(give_up(Arc::downgrade(&left), length));
    json(length, Body::from_stream(stream::unfold((left, length), next)))
}

async fn next((left, unread): (Arc<Left>, usize)) -> Option<(Result<Bytes, Stalled>, (Arc<Left>, usize))> {
    if unread == 0 {
        return None;
    }
    let mut rest = lock(&left);
    let piece = rest.as_mut().map(|rest| rest.bytes.split_to(CHUNK.min(rest.bytes.len()))).ok_or(Stalled);
    let unread = piece.as_ref().map_or(0, |piece| unread - piece.len());
    if unread == 0 {
        *rest = None;
    }
    drop(rest);
    // A copy: a piece that waits further down must not keep the whole.
    Some((piece.map(|piece| Bytes::copy_from_slice(&piece)), (left, unread)))
}

/// Frees what nobody reads.
async fn give_up(left: Weak<Left>, mut unread: usize) {
    loop {
        tokio::time::sleep(READ_WITHIN).await;
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

fn lock(left: &Left) -> MutexGuard<'_, Option<Rest>> {
    left.lock().unwrap_or_else(PoisonError::into_inner)
}
