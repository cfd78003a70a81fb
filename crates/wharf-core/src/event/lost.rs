//! Events that the log holds no longer in a form that can be read.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Seq;

/// Takes the place of events of the log that cannot be read. It is never written: the reader of the
/// log makes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostEvents {
    /// The first of them. The last one is the event under whose number they stand.
    pub first: Seq,
    /// True if they may have changed the agent's settings.
    pub settings: SettingsLoss,
    /// The reason, for a person.
    pub why: Arc<str>,
}

/// Tells whether the newest settings of an agent are missing in a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SettingsLoss {
    #[default]
    None,
    /// An event of an unknown kind is lost. It may have changed settings.
    Possible,
    /// An event that reports or changes settings is lost.
    Certain,
}

impl SettingsLoss {
    pub const fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Returns the greater loss of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        self.max(other)
    }
}

impl LostEvents {
    /// Creates the event for a range of damaged lines. The first event of a log never concerns
    /// settings; the kinds of all other events are unknown.
    pub fn of_damage(first: Seq, last: Seq, place: &str) -> Self {
        let settings = if last > Seq(1) { SettingsLoss::Possible } else { SettingsLoss::None };
        Self { first, settings, why: format!("damaged: {place}").into() }
    }
}
