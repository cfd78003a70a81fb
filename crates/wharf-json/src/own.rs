//! Reads JSON that Wharf itself or its user wrote, as opposed to frames.

use serde::Deserialize;

/// Reads a file or message that Wharf itself or its user wrote: configuration, state, the host's
/// own answers. `serde_json` fits these, since a value that it refuses is damaged. Frames of agents
/// and clients go through [`crate::read`].
#[expect(clippy::disallowed_methods, reason = "the one place: not a frame")]
pub fn read_own<'a, T: Deserialize<'a>>(text: &'a [u8]) -> serde_json::Result<T> {
    serde_json::from_slice(text)
}
