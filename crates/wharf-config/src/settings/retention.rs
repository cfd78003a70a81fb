//! `[retention]`: how long ended sessions are kept. By default for ever.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Duration;

/// Which ended sessions are forgotten (rule 2.12).
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct RetentionSettings {
    /// Ended sessions that are older are forgotten.
    pub keep_for: Duration,
    /// So many ended sessions of each workspace are kept, the newest; 0 for all.
    pub keep_sessions: usize,
    /// Settings of one workspace, by its slug, which count before the others.
    pub workspaces: BTreeMap<String, WorkspaceRetention>,
    /// Only log what would be forgotten.
    pub dry_run: bool,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub struct WorkspaceRetention {
    pub keep_for: Option<Duration>,
    pub keep_sessions: Option<usize>,
}

impl Default for RetentionSettings {
    fn default() -> Self {
        Self {
            keep_for: Duration::NEVER,
            keep_sessions: 0,
            workspaces: BTreeMap::new(),
            dry_run: false,
        }
    }
}

impl RetentionSettings {
    /// Returns how long and how many ended sessions of a workspace are kept; `None` for ever, and
    /// for all.
    pub fn of_workspace(&self, slug: &str) -> (Duration, Option<usize>) {
        let own = self.workspaces.get(slug).copied().unwrap_or_default();
        let count = own.keep_sessions.unwrap_or(self.keep_sessions);
        (own.keep_for.unwrap_or(self.keep_for), Some(count).filter(|count| *count > 0))
    }

    /// Returns the shortest time for which sessions are kept anywhere.
    pub fn shortest(&self) -> Option<std::time::Duration> {
        let own = self.workspaces.values().filter_map(|own| own.keep_for);
        own.chain([self.keep_for]).filter_map(Duration::to_std).min()
    }
}
