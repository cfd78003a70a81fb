//! Test tools for Wharf: a scripted agent that behaves and misbehaves on command, a harness around the real binary,
//! an ACP client, a REST client, a source of odd frames, and small things to look at processes and to compare
//! transcripts with.
//!
//! Nothing here is part of the product. Waits end by an event or fail loudly at their limit; none of them guesses.
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

/// How long a test waits for something that should come at once: far beyond any hiccup of a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(20);
