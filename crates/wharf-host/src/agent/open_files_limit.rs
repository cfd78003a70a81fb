//! How many files may be open: the host takes as many as the system gives it; its agents get what they would have had
//! without it, since old programs do not bear more.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Tells the shim what was before; the agent does not see it.
pub(super) const LIMIT_VARIABLE: &str = "WHARF_SHIM_FILES";

static ORIGINAL_LIMIT: OnceLock<u64> = OnceLock::new();

/// Raises what this process may open to the most that it may ask for. The number then; `None`: there is no limit.
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

/// For a shim's environment.
pub(super) fn original_limit() -> Option<String> {
    ORIGINAL_LIMIT.get().map(ToString::to_string)
}

/// In the shim.
pub(super) fn restore_limit() {
    let before = std::env::var(LIMIT_VARIABLE).ok().and_then(|before| before.parse().ok());
    if let Some(before) = before {
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(before), maximum });
    }
}
