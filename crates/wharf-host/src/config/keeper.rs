//! `[keeper]`: how long agents go on without a host.

use serde::Deserialize;

use super::{Duration, Size};

/// How agents outlive the host (rule 2.14).
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct KeeperSettings {
    /// Without it, agents end with the host.
    pub enabled: bool,
    /// How long an agent goes on without a host while it works on a turn.
    pub absence: Duration,
    /// The same for an agent that is idle.
    pub idle_absence: Duration,
    /// The most output of an agent that is kept for the next host; more holds the agent back.
    pub output: Size,
}

impl Default for KeeperSettings {
    fn default() -> Self {
        let minutes = |minutes: u64| Duration::from_millis(minutes * 60_000);
        Self { enabled: true, absence: minutes(12 * 60), idle_absence: minutes(30), output: Size(64 << 20) }
    }
}
