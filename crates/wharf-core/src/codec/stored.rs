//! Types for reading a tag beside a payload that is to stay unparsed, which serde's tagged enums
//! cannot do.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

use crate::{AskOutcome, PromptEnd, Raw, Sender, State};

/// Reads an optional payload. A payload that is `null` is present, not missing.
pub(crate) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Raw>, D::Error> {
    Raw::deserialize(deserializer).map(Some)
}

/// A [`PromptEnd`] with every member that any of its variants has.
#[derive(Deserialize)]
pub(crate) struct StoredEnd {
    how: Box<str>,
    stop_reason: Option<Arc<str>>,
    #[serde(default, deserialize_with = "present")]
    frame: Option<Raw>,
    by: Option<Sender>,
}

impl TryFrom<StoredEnd> for PromptEnd {
    type Error = String;

    fn try_from(stored: StoredEnd) -> Result<Self, String> {
        let StoredEnd { how, stop_reason, frame, by } = stored;
        Ok(match (how.as_ref(), stop_reason, frame) {
            ("answered", Some(stop_reason), Some(frame)) => Self::Answered { stop_reason, frame },
            ("failed", _, Some(frame)) => Self::Failed { frame },
            ("cancelled", ..) => Self::Cancelled,
            ("removed", ..) => Self::Removed { by },
            ("agent_exited", ..) => Self::AgentExited,
            ("start_failed", ..) => Self::StartFailed,
            ("session_ended", ..) => Self::SessionEnded,
            ("host_shutdown", ..) => Self::HostShutdown,
            ("host_restarted", ..) => Self::HostRestarted,
            _ => return Err(format!("no prompt ends as \"{how}\" with these members")),
        })
    }
}

/// An [`AskOutcome`] with every member that any of its variants has.
#[derive(Deserialize)]
pub(crate) struct StoredOutcome {
    how: Box<str>,
    option: Option<Arc<str>>,
    #[serde(default, deserialize_with = "present")]
    answer: Option<Raw>,
}

impl TryFrom<StoredOutcome> for AskOutcome {
    type Error = String;

    fn try_from(stored: StoredOutcome) -> Result<Self, String> {
        let StoredOutcome { how, option, answer } = stored;
        Ok(match (how.as_ref(), answer) {
            ("answered", Some(answer)) => Self::Answered { option, answer },
            ("declined", Some(answer)) => Self::Declined { answer },
            ("cancelled", _) => Self::Cancelled,
            ("withdrawn", _) => Self::Withdrawn,
            ("agent_gone", _) => Self::AgentGone,
            _ => return Err(format!("no ask ends as \"{how}\" with these members")),
        })
    }
}

/// The content of a snapshot event, for writing.
#[derive(Serialize)]
pub(crate) struct SavedRef<'a> {
    pub(crate) v: u32,
    pub(crate) state: &'a State,
}

/// The content of a snapshot event, for reading.
#[derive(Deserialize)]
pub(crate) struct Saved {
    pub(crate) state: State,
}
