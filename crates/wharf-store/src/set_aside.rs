//! Damaged files: kept under another name, for a person to look at.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::file::sync_dir;

/// The end of the name of a file that was set aside; a number may follow.
pub const SET_ASIDE_SUFFIX: &str = ".damaged";

/// Renames a damaged file, and returns its new path. A file that was set aside before is kept. Callers must not do this to one
/// file at the same time.
pub fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let name_of = |nth: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(SET_ASIDE_SUFFIX);
        if nth > 1 {
            name.push(format!("-{nth}"));
        }
        PathBuf::from(name)
    };
    let mut nth = 1;
    while fs::symlink_metadata(name_of(nth)).is_ok() {
        nth += 1;
    }
    let aside = name_of(nth);
    fs::rename(path, &aside)?;
    path.parent().map_or(Ok(()), sync_dir)?;
    Ok(aside)
}
