//! The ids. Each kind has its own type, so that they cannot be confused.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

text_id!(
    /// A session's id, Wharf's own (`sess_` and 26 characters). It never changes.
    SessionId
);
text_id!(
    /// One attached client. Chosen by the client or assigned by the host.
    ClientId
);
text_id!(
    /// One submitted prompt. Chosen by the client, so that it can watch for the end before it
    /// submits.
    PromptId
);
number_id!(
    /// An event's position in its session's log: 1, 2, 3 … without a gap.
    Seq
);
number_id!(
    /// The host incarnation that appended an event.
    Epoch
);
number_id!(
    /// An ask, identified by the seq of the event that opened it.
    AskId
);
number_id!(
    /// The number of a start of the agent: 1 for the first. Messages of an earlier start are stale.
    StartNo
);
number_id!(
    /// Milliseconds: since the Unix epoch for instants, plain for durations.
    Millis
);

impl Seq {
    /// The position before the first event.
    pub const ZERO: Self = Self(0);

    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's form")]
    pub(crate) const fn is_zero(&self) -> bool {
        self.0 == 0
    }
}

/// Identifies an event for clients, written `<epoch>-<seq>` (rule 1.5). The epoch distinguishes an
/// event from a later event that got the same number after power loss had cut the first from the
/// log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId {
    pub epoch: Epoch,
    pub seq: Seq,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.epoch, self.seq)
    }
}

impl Serialize for EventId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for EventId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(|NotAnEventId| serde::de::Error::custom("not an event id"))
    }
}

/// The error for a text that is not an event id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAnEventId;

impl FromStr for EventId {
    type Err = NotAnEventId;

    fn from_str(text: &str) -> Result<Self, NotAnEventId> {
        let (epoch, seq) = text.split_once('-').ok_or(NotAnEventId)?;
        let number = |text| parse_digits(text).ok_or(NotAnEventId);
        Ok(Self { epoch: Epoch(number(epoch)?), seq: Seq(number(seq)?) })
    }
}

/// Reads a number that consists of digits alone: `parse` would take a plus sign, too.
pub fn parse_digits<N: FromStr>(text: &str) -> Option<N> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())
        .flatten()
}

impl Millis {
    #[must_use]
    pub const fn after(self, wait: Self) -> Self {
        Self(self.0.saturating_add(wait.0))
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
    pub(crate) const fn is_zero(&self) -> bool {
        self.0 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_ids_are_read_as_they_are_written() {
        for text in ["0-0", "3-17", "18446744073709551615-18446744073709551615"] {
            assert_eq!(text.parse::<EventId>().map(|id| id.to_string()).as_deref(), Ok(text));
        }
        for text in [
            "",
            "-",
            "7",
            "3-",
            "-7",
            "+3-7",
            "3-+7",
            "3--7",
            " 3-7",
            "3-7.1",
            "3-7@2",
            "3-18446744073709551616",
        ] {
            assert_eq!(text.parse::<EventId>(), Err(NotAnEventId), "{text}");
        }
    }
}
