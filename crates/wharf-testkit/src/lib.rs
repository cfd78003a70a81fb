//! Test tools for Wharf: a scripted agent that behaves and misbehaves on command, a harness around the real binary, an
//! ACP client, a REST client, a source of odd frames, and helpers to inspect processes and to compare transcripts.
//!
//! Nothing here is part of the product. Every wait ends by an event or fails at its limit.
#![expect(clippy::disallowed_methods, reason = "tests read what they wrote themselves")]

pub mod agent;
pub mod client;
pub mod cold;
pub mod dice;
pub mod disk;
pub mod host;
pub mod http;
pub mod limit;
pub mod look;
pub mod normal;
pub mod odd;
pub mod pipe;
pub mod procs;
pub mod program;

use std::time::Duration;

/// The time that a test waits for something that should happen at once: far longer than any delay of a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(20);
