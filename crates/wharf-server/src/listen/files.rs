//! Room for connections among the files that this process may open.

use wharf_host::{Limits, raise_open_files};

/// An agent's pipes, its shim's socket, its log and what its start takes for a moment.
const OF_A_SESSION: u64 = 8;
/// The index, the listeners, the runtime, logs that are read.
const BESIDES: u64 = 64;

/// Takes what the system gives, and says so if that is less than the limits promise.
pub(crate) fn make_room(limits: &Limits) {
    let Some(files) = raise_open_files() else { return };
    let needed = limits.connections as u64 + limits.sessions as u64 * OF_A_SESSION + BESIDES;
    if files < needed {
        tracing::warn!(
            files,
            needed,
            connections = limits.connections,
            sessions = limits.sessions,
            "the system lets this host open fewer files than limits.connections and limits.sessions may need; \
             connections beyond that wait: raise the hard limit (ulimit -Hn) or lower the settings"
        );
    }
}
