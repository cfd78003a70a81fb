//! Reading what Wharf itself wrote, and what its user configures: no frames.

use serde::Deserialize;

/// Reads a file or message that Wharf itself wrote, or its user: configuration, state, the host's own answers. `serde_json`
/// is right for those, since what it refuses is damage there. Frames of agents and clients go through [`crate::read`].
#[expect(clippy::disallowed_methods, reason = "the one place: not a frame")]
pub fn read_own<'a, T: Deserialize<'a>>(text: &'a [u8]) -> serde_json::Result<T> {
    serde_json::from_slice(text)
}
