//! Large responses: few are built at once, and the byte budget counts those that wait to be read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use serde::Serialize;
use tokio::sync::mpsc;
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
/// How long the client may read no bytes of a response before the host drops the rest and cuts the
/// client off.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// The bytes that a document counts for while it is sent: the piece that is being made and the
/// piece that waits.
const DOCUMENT_BYTES: usize = 2 << 20;

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

/// The client read no bytes of the response for too long.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the answer was not read in time")]
struct ReadStalled;

/// A piece of a document on its way to the body.
enum DocumentPiece {
    Bytes(Bytes),
    End,
}

/// The document lacks its end: a piece could not be made, or the client did not read in time.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the document cannot be sent")]
struct CutDocument;

impl LargeResponses {
    pub(crate) fn new(buffers: &Arc<ByteBudget>) -> Self {
        Self {
            building: CountLimit::new(MAX_BUILDING),
            buffers: Arc::clone(buffers),
        }
    }

    /// Builds a response. A large response that gets no room at first is dropped and built again
    /// later: a response that waits for room must hold no bytes.
    pub(crate) async fn respond<T, F>(
        &self,
        make: impl Fn() -> F + Send + Sync,
    ) -> Result<Response, Fault>
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

    /// Builds a response of bytes that are not JSON, with what its caller knows of them. Its
    /// headers are the caller's to set.
    pub(crate) async fn respond_bytes<T, F>(
        &self,
        make: impl Fn() -> F + Send + Sync,
    ) -> Result<(T, Response), Fault>
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

    /// Returns a body that is made piece by piece while the client reads it. A client that stops
    /// reading is cut off.
    pub(crate) async fn send_document(
        &self,
        pieces: impl Stream<Item = Result<Bytes, Fault>> + Send + 'static,
    ) -> Result<Body, Fault> {
        let permit =
            tokio::time::timeout(PERMIT_TIMEOUT, self.buffers.reserve_out(DOCUMENT_BYTES)).await;
        Ok(document_body(pieces, permit.map_err(|_| too_many_answers())?, READ_TIMEOUT))
    }

    async fn build<T, F>(&self, make: &(impl Fn() -> F + Send + Sync)) -> Result<Bytes, Fault>
    where
        T: Serialize + Send,
        F: Future<Output = Result<T, Fault>> + Send,
    {
        let _making = self.building.acquire().await;
        let answer = serde_json::to_vec(&make().await?).map_err(|error| {
            Fault::new(ErrorCode::INTERNAL, format!("cannot write the answer: {error}"))
        })?;
        Ok(answer.into())
    }
}

/// Returns the body of a document of which each piece has to be read in time.
fn document_body(
    pieces: impl Stream<Item = Result<Bytes, Fault>> + Send + 'static,
    permit: BytePermit,
    read_timeout: Duration,
) -> Body {
    let (sender, mut receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let _permit = permit;
        let mut pieces = std::pin::pin!(pieces);
        loop {
            // A piece that cannot be made leaves the body without its end, which the client
            // notices.
            let piece = match pieces.next().await {
                Some(Ok(piece)) => DocumentPiece::Bytes(piece),
                Some(Err(_)) => return,
                None => DocumentPiece::End,
            };
            let is_end = matches!(piece, DocumentPiece::End);
            let is_sent = sender.send_timeout(piece, read_timeout).await.is_ok();
            if is_end || !is_sent {
                return;
            }
        }
    });
    Body::from_stream(stream::poll_fn(move |context| {
        receiver.poll_recv(context).map(|piece| match piece {
            Some(DocumentPiece::Bytes(piece)) => Some(Ok(piece)),
            Some(DocumentPiece::End) => None,
            None => Some(Err(CutDocument)),
        })
    }))
}

fn too_many_answers() -> Fault {
    let detail = "too many large answers wait to be read by their clients (limits.buffers); try again, or ask for less at once";
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

async fn next_chunk(
    (left, unread): (Arc<Left>, usize),
) -> Option<(Result<Bytes, ReadStalled>, (Arc<Left>, usize))> {
    if unread == 0 {
        return None;
    }
    let mut rest = lock(&left);
    let piece = rest
        .as_mut()
        .map(|rest| rest.bytes.split_to(CHUNK_BYTES.min(rest.bytes.len())))
        .ok_or(ReadStalled);
    let unread = piece.as_ref().map_or(0, |piece| unread - piece.len());
    if unread == 0 {
        *rest = None;
    }
    drop(rest);
    // A copy: a chunk that waits in the connection must not keep the whole response.
    Some((piece.map(|piece| Bytes::copy_from_slice(&piece)), (left, unread)))
}

/// Drops the rest of a response once its client has read no bytes of it for [`READ_TIMEOUT`].
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

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use wharf_config::Limits;

    use super::*;

    #[tokio::test]
    async fn document_is_sent_whole_and_a_failure_cuts_it() {
        let large = LargeResponses::new(&ByteBudget::new(&Limits::default()));
        let pieces = stream::iter(["a", "b"].map(|piece| Ok(Bytes::from(piece))));
        let body = large.send_document(pieces).await.unwrap();
        assert_eq!(&to_bytes(body, 100).await.unwrap()[..], b"ab");
        let failure = Fault::new(ErrorCode::INTERNAL, "no rows");
        let body = large
            .send_document(stream::iter([Ok(Bytes::from("a")), Err(failure)]))
            .await
            .unwrap();
        assert!(to_bytes(body, 100).await.is_err());
    }

    #[tokio::test]
    async fn document_that_nobody_reads_gives_its_bytes_back() {
        let buffers = ByteBudget::new(&Limits::default());
        let mut all: Vec<BytePermit> =
            std::iter::from_fn(|| buffers.try_reserve_out(DOCUMENT_BYTES)).collect();
        let permit = all.pop().unwrap();
        let endless = stream::repeat_with(|| Ok(Bytes::from("x")));
        let unread = document_body(endless, permit, Duration::from_millis(10));
        buffers.reserve_out(DOCUMENT_BYTES).await;
        assert!(to_bytes(unread, usize::MAX).await.is_err(), "the cut document looks whole");
    }
}
