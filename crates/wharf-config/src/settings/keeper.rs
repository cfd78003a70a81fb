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
    /// Whether keepers get a scope of systemd each.
    pub scope: KeeperScope,
}

/// The systemd manager that gives each keeper a scope of its own, so that the end of the host's
/// service does not end it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeeperScope {
    /// Keepers stay in the control group of the host.
    #[default]
    None,
    /// The manager of the user: for a host that is a user service.
    User,
    /// The manager of the machine: for a host that is a system service, as root.
    System,
}

impl Default for KeeperSettings {
    fn default() -> Self {
        let minutes = |minutes: u64| Duration::from_millis(minutes * 60_000);
        Self {
            enabled: true,
            absence: minutes(12 * 60),
            idle_absence: minutes(30),
            output: Size(64 << 20),
            scope: KeeperScope::None,
        }
    }
}
