//! A limit on requests that are carried out at once, by number and by size.

use super::count::{CountLimit, CountPermit};

/// Sizes are counted in units of so many bytes.
const UNIT_BYTES: usize = 1 << 10;

/// Permits for requests of one peer. Clones share them.
#[derive(Clone, Debug)]
pub struct RequestLimit {
    requests: CountLimit,
    units: CountLimit,
}

/// The permit of one request, given back when this is dropped.
#[derive(Debug)]
pub struct RequestPermit {
    _request: CountPermit,
    _units: CountPermit,
}

impl RequestLimit {
    /// All requests together may be as large as `max_messages` messages of `message_bytes`.
    pub fn new(max_requests: usize, max_messages: usize, message_bytes: usize) -> Self {
        let units = max_messages.saturating_mul(message_bytes.div_ceil(UNIT_BYTES));
        Self {
            requests: CountLimit::new(max_requests),
            units: CountLimit::new(units),
        }
    }

    /// Returns `None` if too many requests are under way, or too large ones.
    pub fn try_acquire(&self, bytes: usize) -> Option<RequestPermit> {
        let request = self.requests.try_acquire()?;
        let units = self.units.try_acquire_many(bytes.div_ceil(UNIT_BYTES))?;
        Some(RequestPermit { _request: request, _units: units })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_limited_by_number_and_by_size() {
        let limit = RequestLimit::new(8, 2, 1 << 20);
        let largest = [limit.try_acquire(1 << 20).unwrap(), limit.try_acquire(1 << 20).unwrap()];
        assert!(limit.try_acquire(1).is_none(), "larger than two of the largest messages");
        drop(largest);
        let many: Vec<RequestPermit> = (0..8).map(|_| limit.try_acquire(1).unwrap()).collect();
        assert!(limit.try_acquire(1).is_none(), "one too many");
        drop(many);
        assert!(limit.try_acquire(1 << 20).is_some());
        assert_eq!(
            (limit.requests.in_use(), limit.units.in_use()),
            (0, 0),
            "a refused request holds nothing"
        );
    }
}
