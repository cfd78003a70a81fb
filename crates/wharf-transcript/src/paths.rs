//! Paths as rows show them: relative to the session's directory if they lie in it.

use std::path::{Component, Path, PathBuf};

use crate::limits::MAX_PATH_BYTES;
use crate::plain_text::clean_line;

/// Returns the path as it is shown.
pub(crate) fn show_path(cwd: &str, path: &str) -> String {
    let path = path.strip_prefix("file://").unwrap_or(path);
    let inside = normalise(Path::new(path)).strip_prefix(normalise(Path::new(cwd))).map(Path::to_path_buf);
    match inside {
        Ok(inside) if inside.as_os_str().is_empty() => ".".to_owned(),
        Ok(inside) => clean_line(&inside.to_string_lossy(), MAX_PATH_BYTES),
        Err(_) => clean_line(path, MAX_PATH_BYTES),
    }
}

/// Returns true if the path, relative to the directory if it is relative, does not lie in the directory. Links are not followed:
/// the fold reads no disk.
pub(crate) fn is_outside(cwd: &str, path: &str) -> bool {
    let path = path.strip_prefix("file://").unwrap_or(path);
    !normalise(&Path::new(cwd).join(path)).starts_with(normalise(Path::new(cwd)))
}

/// Resolves `.` and `..` by their names.
fn normalise(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                if !normal.pop() {
                    normal.push("..");
                }
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => normal.push(component),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_inside_the_directory_are_relative() {
        for (path, shown) in [
            ("/w/blog/src/a.rs", "src/a.rs"),
            ("/w/blog", "."),
            ("/w/blog/../shop/b.rs", "/w/blog/../shop/b.rs"),
            ("/w/blogger/a", "/w/blogger/a"),
            ("src/a.rs", "src/a.rs"),
            ("file:///w/blog/a", "a"),
        ] {
            assert_eq!(show_path("/w/blog", path), shown);
        }
    }

    #[test]
    fn paths_that_leave_the_directory_are_outside() {
        for (path, outside) in [
            ("/w/blog/a", false),
            ("a/../b", false),
            ("../shop/a", true),
            ("/etc/passwd", true),
            ("/w/blog/../x", true),
        ] {
            assert_eq!(is_outside("/w/blog", path), outside, "{path}");
        }
    }
}
