//! A random number generator whose sequence can be repeated.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use anyhow::{Context, Result};

/// SplitMix64.
#[derive(Debug, Clone)]
pub struct TestRandom(u64);

impl TestRandom {
    /// Creates a generator with the random seed of `WHARF_WALK_SEED`, or a random one, and prints
    /// it.
    #[expect(
        clippy::print_stderr,
        reason = "the random seed belongs to the output of the test, which captures only this macro"
    )]
    pub fn from_environment() -> Result<Self> {
        let seed = match std::env::var("WHARF_WALK_SEED") {
            Ok(seed) => seed.parse().context("reading WHARF_WALK_SEED")?,
            Err(_) => RandomState::new().build_hasher().finish(),
        };
        eprintln!("WHARF_WALK_SEED={seed}");
        Ok(Self(seed))
    }

    pub const fn from_seed(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next_number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from 0 up to but without `end`.
    pub fn next_below(&mut self, end: u64) -> u64 {
        self.next_number() % end
    }

    /// Returns true once in this many times.
    pub fn is_once_in(&mut self, times: u64) -> bool {
        self.next_below(times) == 0
    }

    pub fn pick_one<T: Copy>(&mut self, choices: &[T]) -> T {
        let place = self.next_below(choices.len() as u64);
        choices[usize::try_from(place).unwrap_or_default()]
    }
}
