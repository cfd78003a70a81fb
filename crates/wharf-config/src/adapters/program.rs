//! Finds a program on the search path, as the system does when it starts one.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Returns the file that starting `name` would run, given this `PATH`.
pub(super) fn find_program(name: &str, path: &OsStr) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|file| is_program(file));
    }
    // An empty part of a PATH means the working directory. That is the session's, so the host does
    // not look for programs there.
    let dirs = std::env::split_paths(path).filter(|dir| dir.is_absolute());
    dirs.map(|dir| dir.join(name)).find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    file.metadata()
        .is_ok_and(|known| known.is_file() && known.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_as_the_system_finds_it() {
        let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [first, second] = [0, 1].map(|at| dirs[at].path().join("prog"));
        std::fs::write(&first, "").unwrap();
        std::fs::write(&second, "").unwrap();
        std::fs::set_permissions(&second, std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = std::env::join_paths(dirs.iter().map(tempfile::TempDir::path)).unwrap();
        assert_eq!(find_program("prog", &path), Some(second.clone()), "the first is no program");
        assert_eq!(find_program(second.to_str().unwrap(), OsStr::new("")), Some(second));
        assert_eq!(find_program(first.to_str().unwrap(), &path), None);
        assert_eq!(find_program("other", &path), None);
        assert_eq!(find_program("src", OsStr::new(":.:")), None);
    }
}
