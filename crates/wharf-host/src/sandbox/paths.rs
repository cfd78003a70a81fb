//! Paths without links, and the list of all paths beside a few hidden ones: Landlock can only allow
//! paths, not forbid them.

use std::path::{Path, PathBuf};

/// Returns paths that together hold all of `root` except the `hidden` paths and everything beneath
/// them. Leaves links out: their targets are reached by their own paths, and a link to a hidden
/// path would open it.
pub(super) fn list_all_but(root: &Path, hidden: &[PathBuf]) -> Vec<PathBuf> {
    if hidden.iter().any(|hidden| root.starts_with(hidden)) {
        return Vec::new();
    }
    if !hidden.iter().any(|hidden| hidden.starts_with(root)) {
        return vec![root.to_owned()];
    }
    let Ok(entries) = std::fs::read_dir(root) else { return Vec::new() };
    let real = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()));
    real.flat_map(|entry| list_all_but(&entry.path(), hidden)).collect()
}

/// Returns the path without links, as far as it exists; the rest as it is written.
pub(crate) fn resolve_links(path: &Path) -> PathBuf {
    let found = path
        .ancestors()
        .find_map(|above| Some(above.canonicalize().ok()?.join(path.strip_prefix(above).ok()?)));
    // Without the `/` that joining nothing leaves at the end.
    found.unwrap_or_else(|| path.to_owned()).components().collect()
}

/// Returns the directory entries that the names of a path stand for, each without links on the way
/// to it. A process that may write to one of them can make the path lead elsewhere.
pub(super) fn list_positions(path: &Path) -> impl Iterator<Item = PathBuf> {
    path.ancestors()
        .filter_map(|above| Some(resolve_links(above.parent()?).join(above.file_name()?)))
}
