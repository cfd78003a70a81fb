//! The limit on open files. The host raises its own limit to the system's maximum; its agents get
//! the original limit, since old programs fail with a higher one.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The environment variable that tells the keeper the original limit; the agent does not see it.
pub(super) const LIMIT_VARIABLE: &str = "WHARF_KEEPER_FILES";

static ORIGINAL_LIMIT: OnceLock<u64> = OnceLock::new();

/// Raises this process's limit on open files to the maximum. Returns the limit in force then, or
/// `None` if open files are unlimited.
pub fn raise_open_files() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let current = current?;
    if maximum == Some(current) {
        return Some(current);
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => {
            let _ = ORIGINAL_LIMIT.set(current);
            maximum
        }
        // Some systems name no maximum and give less.
        Err(_) => Some(current),
    }
}

/// Returns the original limit, for a keeper's environment.
pub(super) fn original_limit() -> Option<String> {
    ORIGINAL_LIMIT.get().map(ToString::to_string)
}

/// Restores the original limit; called in the keeper.
pub(super) fn restore_limit() {
    let before = std::env::var(LIMIT_VARIABLE).ok().and_then(|before| before.parse().ok());
    if let Some(before) = before {
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(before), maximum });
    }
}
