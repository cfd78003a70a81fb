//! The core's tests: scenarios by concern, the codec, and random walks.
#![expect(clippy::disallowed_methods, reason = "tests read what they wrote themselves")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![expect(
    unused_must_use,
    reason = "a scenario keeps the events of every step; a test looks at the steps that it is about"
)]

mod agent_usage;
mod asks;
mod attention;
mod codec;
mod deaths;
mod forks;
mod identity;
mod join;
mod life;
mod limits;
mod losses;
mod pause;
mod races;
mod restart;
mod send_now;
mod snapshots;
mod stage;
mod turns;
mod walk;
