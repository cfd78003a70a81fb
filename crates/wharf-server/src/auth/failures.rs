//! Wrong tokens and codes, counted: whoever keeps guessing is told to wait. Right ones are taken all the same, since all
//! programs of a machine share an address.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::peer::Peer;

const MINUTE: Duration = Duration::from_secs(60);
/// Beyond so many in a minute, further sources are counted as one.
const MOST_SOURCES: usize = 1_024;

/// Where a login comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Source {
    Address(IpAddr),
    Socket,
    Others,
}

impl From<Peer> for Source {
    fn from(peer: Peer) -> Self {
        match peer {
            Peer::Network(address) => match address.to_canonical() {
                // A single machine has all the addresses of such a net.
                IpAddr::V6(address) => Self::Address(Ipv6Addr::from_bits(address.to_bits() & (!0 << 64)).into()),
                address @ IpAddr::V4(_) => Self::Address(address),
            },
            Peer::Local | Peer::Agent(_) | Peer::Stray { .. } | Peer::Unnamed | Peer::Stranger => Self::Socket,
        }
    }
}

#[derive(Debug)]
struct Window {
    since: Instant,
    count: usize,
}

#[derive(Debug)]
pub(crate) struct Failures {
    limit: usize,
    seen: Mutex<HashMap<Source, Window>>,
    total: AtomicU64,
}

impl Failures {
    /// So many a minute, from one address.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, seen: Mutex::default(), total: AtomicU64::new(0) }
    }

    /// Since the host began.
    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Counts one. The error: it is over the limit, and for how long.
    pub(crate) fn note(&self, peer: Peer) -> Result<(), Duration> {
        self.note_at(peer.into(), Instant::now())
    }

    fn note_at(&self, source: Source, now: Instant) -> Result<(), Duration> {
        self.total.fetch_add(1, Ordering::Relaxed);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= MOST_SOURCES && !seen.contains_key(&source) {
            seen.retain(|_, window| now < window.since + MINUTE);
        }
        let source = if seen.len() >= MOST_SOURCES && !seen.contains_key(&source) { Source::Others } else { source };
        let window = seen.entry(source).or_insert(Window { since: now, count: 0 });
        if now >= window.since + MINUTE {
            *window = Window { since: now, count: 0 };
        }
        window.count += 1;
        if window.count <= self.limit {
            return Ok(());
        }
        if window.count == self.limit + 1 {
            // Once a minute, whatever comes.
            tracing::warn!(?source, limit = self.limit, "many wrong tokens or codes (limits.failed_logins)");
        }
        Err(window.since + MINUTE - now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(address: &str) -> Source {
        Peer::Network(address.parse().unwrap()).into()
    }

    #[test]
    fn each_address_has_so_many_a_minute() {
        let (failures, start) = (Failures::new(3), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        for _ in 0..3 {
            assert_eq!(failures.note_at(from("10.0.0.1"), start), Ok(()));
        }
        assert_eq!(failures.note_at(from("10.0.0.1"), after(20)), Err(Duration::from_secs(40)));
        assert_eq!(failures.note_at(from("::ffff:10.0.0.1"), after(20)), Err(Duration::from_secs(40)));
        assert_eq!(failures.note_at(from("10.0.0.2"), after(20)), Ok(()));
        assert_eq!(failures.note_at(from("10.0.0.1"), after(60)), Ok(()));
        assert_eq!(failures.total(), 7);
    }

    #[test]
    fn a_net_of_addresses_is_one_and_many_sources_cost_bounded_memory() {
        let (failures, start) = (Failures::new(1), Instant::now());
        assert_eq!(failures.note_at(from("2001:db8::1"), start), Ok(()));
        assert!(failures.note_at(from("2001:db8::2"), start).is_err());
        for number in 0..10_000_u32 {
            let _ = failures.note_at(Source::Address(IpAddr::V4(number.into())), start);
        }
        assert!(failures.seen.lock().unwrap().len() <= MOST_SOURCES + 1);
        assert!(failures.note_at(from("10.9.9.9"), start).is_err(), "together they are over it");
        assert_eq!(failures.note_at(from("10.9.9.9"), start + MINUTE), Ok(()));
    }
}
