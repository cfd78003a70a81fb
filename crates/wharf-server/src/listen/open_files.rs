//! The limit of files that this process may open.

use wharf_config::Limits;
use wharf_host::raise_open_files;

/// The files of a session: its agent's pipes, its keeper's socket, its log and those that a start
/// opens for a moment.
const FILES_PER_SESSION: u64 = 8;
/// Further files: the index, the listeners, the runtime, logs that are read.
const OTHER_FILES: u64 = 64;

/// Raises the limit as far as the system allows, and warns if that is less than the configured
/// limits may need.
pub(crate) fn raise_open_file_limit(limits: &Limits) {
    let Some(files) = raise_open_files() else { return };
    let needed =
        limits.connections as u64 + limits.sessions as u64 * FILES_PER_SESSION + OTHER_FILES;
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
