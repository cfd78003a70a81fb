//! Counts wrong tokens and codes by address, so that the host can make a client that keeps guessing
//! wait. It always takes right tokens, since all programs of a machine share an address.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use wharf_host::{RateLimit, Refill};

use super::peer::SocketPeer;

/// The source of a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Source {
    Address(IpAddr),
    Socket,
}

impl From<SocketPeer> for Source {
    fn from(peer: SocketPeer) -> Self {
        match peer {
            SocketPeer::Network(address) => match address.to_canonical() {
                // A single machine may have all addresses of a /64 network.
                IpAddr::V6(address) => {
                    Self::Address(Ipv6Addr::from_bits(address.to_bits() & (!0 << 64)).into())
                }
                address @ IpAddr::V4(_) => Self::Address(address),
            },
            SocketPeer::Local
            | SocketPeer::Agent(_)
            | SocketPeer::Stray { .. }
            | SocketPeer::Unnamed
            | SocketPeer::Stranger => Self::Socket,
        }
    }
}

/// Wrong tokens and codes of each source.
#[derive(Debug)]
pub(crate) struct FailedLogins {
    limit: usize,
    recent: RateLimit<Source>,
    total: AtomicU64,
}

impl FailedLogins {
    /// `limit` is the number of failures that a source may have in a minute
    /// (`limits.failed_logins`).
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            recent: RateLimit::new(limit, Refill::AfterMinute),
            total: AtomicU64::new(0),
        }
    }

    /// Returns the number of failures since the host began.
    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Counts a failure. If the source is over the limit, the error is the time until it is not.
    pub(crate) fn record(&self, peer: SocketPeer) -> Result<(), Duration> {
        self.record_at(peer.into(), Instant::now())
    }

    fn record_at(&self, source: Source, now: Instant) -> Result<(), Duration> {
        self.total.fetch_add(1, Ordering::Relaxed);
        self.recent.take(source, now).map_err(|exceeded| {
            if exceeded.is_first {
                tracing::warn!(
                    ?source,
                    limit = self.limit,
                    "many wrong tokens or codes (limits.failed_logins)"
                );
            }
            exceeded.retry_after
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(address: &str) -> Source {
        SocketPeer::Network(address.parse().unwrap()).into()
    }

    #[test]
    fn each_address_has_its_own_failures_a_minute() {
        let failures = FailedLogins::new(3);
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        for _ in 0..3 {
            assert_eq!(failures.record_at(from("10.0.0.1"), start), Ok(()));
        }
        assert_eq!(failures.record_at(from("10.0.0.1"), after(20)), Err(Duration::from_secs(40)));
        assert_eq!(
            failures.record_at(from("::ffff:10.0.0.1"), after(20)),
            Err(Duration::from_secs(40))
        );
        assert_eq!(failures.record_at(from("10.0.0.2"), after(20)), Ok(()));
        assert_eq!(failures.record_at(from("10.0.0.1"), after(60)), Ok(()));
        assert_eq!(failures.total(), 7);
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_source() {
        let failures = FailedLogins::new(1);
        let start = Instant::now();
        assert_eq!(failures.record_at(from("2001:db8::1"), start), Ok(()));
        assert!(failures.record_at(from("2001:db8::2"), start).is_err());
        assert_eq!(failures.record_at(from("2001:db8:0:1::2"), start), Ok(()));
    }
}
