//! Identifies the events of a log that were lost when its rows were made.

use serde::{Deserialize, Serialize};
use wharf_core::Seq;

/// Identifies a set of lost events in a few bytes, however many there are. Two sets that were added
/// in the order of the log are the same set if their digests are equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossDigest {
    /// The hash of all runs of lost events before the last one.
    hash: u64,
    /// The last run. A page of the log may end within a run, so that neighbours are joined.
    first: u64,
    last: u64,
}

impl LossDigest {
    /// Adds lost events that come after the ones added before.
    pub fn add(&mut self, first: Seq, last: Seq) {
        if self.last > 0 && first.0 == self.last + 1 {
            self.last = last.0;
            return;
        }
        if self.last > 0 {
            self.hash = mix(mix(self.hash, self.first), self.last);
        }
        self.first = first.0;
        self.last = last.0;
    }

    /// Returns true if no event was lost.
    pub const fn is_empty(&self) -> bool {
        self.last == 0
    }
}

/// Adds a number to a hash (FNV-1a with whole numbers). It is stored, so it must never depend on a
/// version of Rust.
const fn mix(hash: u64, number: u64) -> u64 {
    (hash.rotate_left(23) ^ number).wrapping_mul(0x0000_0100_0000_01b3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(runs: &[(u64, u64)]) -> LossDigest {
        let mut digest = LossDigest::default();
        for (first, last) in runs {
            digest.add(Seq(*first), Seq(*last));
        }
        digest
    }

    #[test]
    fn digests_are_equal_for_the_same_events_only() {
        assert!(digest(&[]).is_empty() && !digest(&[(1, 1)]).is_empty());
        assert_eq!(
            digest(&[(2, 3), (4, 4), (9, 9)]),
            digest(&[(2, 4), (9, 9)]),
            "a run in two pages"
        );
        let others: [&[(u64, u64)]; 6] = [
            &[],
            &[(9, 9)],
            &[(2, 4)],
            &[(2, 3), (9, 9)],
            &[(2, 2), (4, 4), (9, 9)],
            &[(2, 4), (9, 10)],
        ];
        for other in others {
            assert_ne!(digest(other), digest(&[(2, 4), (9, 9)]), "{other:?}");
        }
    }
}
