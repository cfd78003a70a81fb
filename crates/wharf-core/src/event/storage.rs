//! Events of the log itself: the storage pause and snapshots.

use serde::{Deserialize, Serialize};

use crate::Raw;

/// A fact about the session's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StorageEvent {
    /// The log could not be written: from here on the agent is paused and prompts are refused (rule
    /// 10.5).
    Paused { why: PauseReason },
    /// The log can be written again, and the agent continues.
    Continued,
    /// The folded state of everything before this event; a restore may begin here.
    Snapshot(Raw),
}

/// The reason why a log could not be written for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseReason {
    StorageFull,
    StorageReadOnly,
}
