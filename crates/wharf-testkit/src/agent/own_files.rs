//! File operations that an agent does by itself, without asking its client.

use std::path::Path;

/// Runs the command if it is one of this module, and returns its result as text.
pub(super) fn run_command(name: &str, rest: &str) -> Option<String> {
    let (path, text) = rest.split_once(' ').unwrap_or((rest, ""));
    Some(match name {
        "load" => describe_outcome(
            std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
        ),
        "save" => describe_outcome(std::fs::write(path, text).map(|()| "saved".to_owned())),
        "ls" => describe_outcome(
            std::fs::read_dir(Path::new(path))
                .map(|entries| format!("{} entries", entries.count())),
        ),
        _ => return None,
    })
}

fn describe_outcome(outcome: std::io::Result<String>) -> String {
    outcome.unwrap_or_else(|error| format!("failed: {error}"))
}
