//! Requests of one connection that run beside the others: how many there may be, and how large all together.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wharf_host::frame::Envelope;

use super::errors::RpcError;

/// So many at once: far more than sessions are opened together.
const REQUESTS: usize = 1_024;
/// So many of the largest messages at once.
const LARGEST: usize = 2;
/// Sizes are counted in these.
const UNIT: usize = 1 << 10;
/// Bytes of a request's id, which comes back in the answer.
pub(super) const LONGEST_ID: usize = 4 << 10;
/// Bytes of a method's or a session's name, which refusals repeat.
const NAME: usize = 1 << 10;

/// The places of one connection.
#[derive(Debug)]
pub(super) struct UnderWay {
    requests: Arc<Semaphore>,
    units: Arc<Semaphore>,
}

/// One request's place, until its answer is on its way.
#[derive(Debug)]
pub(super) struct Place {
    _request: OwnedSemaphorePermit,
    _units: OwnedSemaphorePermit,
}

impl UnderWay {
    /// `frame` is the size of the largest message.
    pub(super) fn new(frame: usize) -> Self {
        let units = (LARGEST * frame.div_ceil(UNIT)).min(Semaphore::MAX_PERMITS);
        Self { requests: Arc::new(Semaphore::new(REQUESTS)), units: Arc::new(Semaphore::new(units)) }
    }

    /// A place for a message of so many bytes. Nobody waits for one: cancels and answers come the same way, and must
    /// get through.
    pub(super) fn take(&self, bytes: usize) -> Result<Place, RpcError> {
        let units = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX);
        let request = Arc::clone(&self.requests).try_acquire_owned().map_err(|_| RpcError::too_many_requests())?;
        let units = Arc::clone(&self.units).try_acquire_many_owned(units).map_err(|_| RpcError::too_many_requests())?;
        Ok(Place { _request: request, _units: units })
    }
}

/// Is what an answer repeats of the request too long to be repeated?
pub(super) fn too_long(envelope: &Envelope<'_>) -> Option<RpcError> {
    let session = envelope.session.as_ref().map_or(0, |session| session.value.len());
    let (what, limit) = match envelope {
        envelope if envelope.id.as_ref().is_some_and(|id| id.len() > LONGEST_ID) => ("the id of a request", LONGEST_ID),
        envelope if envelope.method.len() > NAME => ("the name of a method", NAME),
        _ if session > NAME => ("the id of a session", NAME),
        _ => return None,
    };
    Some(RpcError::invalid_request(format!("{what} may have {limit} bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_by_number_and_by_bytes() {
        let under_way = UnderWay::new(1 << 20);
        let largest = [under_way.take(1 << 20).unwrap(), under_way.take(1 << 20).unwrap()];
        assert!(under_way.take(1).is_err(), "more bytes than two of the largest");
        drop(largest);
        let many: Vec<Place> = (0..REQUESTS).map(|_| under_way.take(1).unwrap()).collect();
        assert!(under_way.take(1).is_err(), "one too many");
        drop(many);
        assert!(under_way.take(1 << 20).is_ok(), "a place is free again");
    }
}
