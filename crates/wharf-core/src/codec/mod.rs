//! Events as bytes: one JSON object in one line each, payloads embedded as they are.
//!
//! `kind` and `at` always come first, and an update's `frame` comes last, so that the hot path can
//! be written and read without a JSON parser.

mod decode;
mod encode;
mod lost;
mod stored;

use std::fmt;
use std::sync::Arc;

pub use decode::decode;
pub use encode::encode;
pub use lost::{DecodedEvent, decode_or_lost};
pub(crate) use stored::{Saved, SavedRef, StoredEnd, StoredOutcome, present};

/// The version of the log's event format that this build writes.
pub const FORMAT_VERSION: u32 = 1;

/// The version of a snapshot's content. It may be raised without the log's.
pub(crate) const SNAPSHOT_VERSION: u32 = 1;

/// The reason why stored bytes are no event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodecError {
    /// Not a JSON object with `kind` and `at`.
    NotAnEvent { why: Arc<str> },
    /// A known kind with members that do not fit it.
    Malformed { kind: Arc<str>, why: Arc<str> },
    /// A snapshot by a newer version of Wharf.
    Newer { found: u32, known: u32 },
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAnEvent { why } => write!(f, "not an event: {why}"),
            Self::Malformed { kind, why } => write!(f, "malformed {kind} event: {why}"),
            Self::Newer { found, known } => {
                write!(
                    f,
                    "snapshot of format {found}, but this version knows up to {known}; use a newer wharf"
                )
            }
        }
    }
}

impl std::error::Error for CodecError {}
