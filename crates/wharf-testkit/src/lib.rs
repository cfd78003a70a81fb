//! Test tools for Wharf: a scripted agent that behaves and misbehaves on command, a harness around
//! the real binary, an ACP client, a REST client, a source of odd frames, and helpers to inspect
//! processes and to compare transcripts.
//!
//! Nothing here is part of the product. Every wait ends by an event or fails at its limit.
#![expect(clippy::disallowed_methods, reason = "tests read what they wrote themselves")]

pub mod agent;
pub mod agent_pipe;
pub mod client;
#[cfg(feature = "cold-sessions")]
pub mod cold_sessions;
pub mod fuzzing;
pub mod host;
pub mod http;
pub mod normaliser;
pub mod odd_json;
pub mod pauses;
pub mod pipe_baseline;
pub mod polling;
pub mod processes;
pub mod program;
pub mod random;
pub mod small_disk;

use std::time::Duration;

/// The time that a test waits for something that should happen at once: far longer than any delay
/// of a busy machine.
pub const WAIT_LIMIT: Duration = Duration::from_secs(20);
