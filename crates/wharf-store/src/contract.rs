//! The checks of an append that all engines share, so that they refuse alike.

use std::io;

use bytes::Bytes;

use crate::{AppendError, Head, StoreError};

/// Checks whether a batch may be appended to a log that ends at `head`.
pub(crate) fn check_append(
    head: Head,
    epoch: u64,
    expected: u64,
    bodies: &[Bytes],
) -> Result<(), AppendError> {
    if epoch < head.epoch {
        return Err(AppendError::StaleEpoch { ours: epoch, current: head.epoch });
    }
    if expected != head.seq {
        return Err(AppendError::Conflict { expected, actual: head.seq });
    }
    if bodies.iter().any(|body| memchr::memchr(b'\n', body).is_some()) {
        let source =
            io::Error::new(io::ErrorKind::InvalidInput, "a record's body must be one line");
        return Err(StoreError::Io { what: "appending".into(), source }.into());
    }
    Ok(())
}
