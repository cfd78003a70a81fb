//! Requests of one connection that run beside the others: how many there may be, and how large all
//! together.

use wharf_acp::Envelope;
use wharf_host::{RequestLimit, RequestPermit};

use super::errors::RpcError;

/// Requests at once: far more than sessions are opened together.
const MAX_REQUESTS: usize = 1_024;
/// Together the requests may be as large as so many of the largest messages.
const MAX_LARGE_REQUESTS: usize = 2;
/// Bytes of a request's id, which comes back in the answer.
pub(super) const MAX_ID_BYTES: usize = 4 << 10;
/// Bytes of a method's or a session's name, which refusals repeat.
const MAX_NAME_BYTES: usize = 1 << 10;

/// The limit of one connection.
#[derive(Debug)]
pub(super) struct UnderWay(RequestLimit);

impl UnderWay {
    /// `frame` is the size of the largest message.
    pub(super) fn new(frame: usize) -> Self {
        Self(RequestLimit::new(MAX_REQUESTS, MAX_LARGE_REQUESTS, frame))
    }

    /// Takes a permit for a message of so many bytes, to be held until its answer is on its way. No
    /// caller waits for one: cancels and answers come the same way, and must get through.
    pub(super) fn take(&self, bytes: usize) -> Result<RequestPermit, RpcError> {
        self.0.try_acquire(bytes).ok_or_else(RpcError::too_many_requests)
    }
}

/// Is what an answer repeats of the request too long to be repeated?
pub(super) fn too_long(envelope: &Envelope<'_>) -> Option<RpcError> {
    let session = envelope.session.as_ref().map_or(0, |session| session.value.len());
    let (what, limit) = match envelope {
        envelope if envelope.id.as_ref().is_some_and(|id| id.len() > MAX_ID_BYTES) => {
            ("the id of a request", MAX_ID_BYTES)
        }
        envelope if envelope.method.len() > MAX_NAME_BYTES => {
            ("the name of a method", MAX_NAME_BYTES)
        }
        _ if session > MAX_NAME_BYTES => ("the id of a session", MAX_NAME_BYTES),
        _ => return None,
    };
    Some(RpcError::invalid_request(format!("{what} may have {limit} bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_limited_by_number_and_by_bytes() {
        let under_way = UnderWay::new(1 << 20);
        let largest = [under_way.take(1 << 20).unwrap(), under_way.take(1 << 20).unwrap()];
        assert!(under_way.take(1).is_err(), "more bytes than two of the largest");
        drop(largest);
        let many: Vec<RequestPermit> =
            (0..MAX_REQUESTS).map(|_| under_way.take(1).unwrap()).collect();
        assert!(under_way.take(1).is_err(), "one too many");
        drop(many);
        assert!(under_way.take(1 << 20).is_ok(), "a permit is free again");
    }
}
