//! Paths as rows show them: relative to the session's directory if they lie in it.

use std::path::{Component, Path, PathBuf};

use crate::limits::MAX_PATH_BYTES;
use crate::text_rules::TextRules;

/// Returns the path as it is shown: relative if it lies in the session's directory, otherwise
/// absolute. Links are not followed: the fold reads no disk. A path with control characters is
/// always absolute, since it is not the path that is shown.
pub(crate) fn show_path(texts: &TextRules, path: &str) -> String {
    let path = path
        .strip_prefix("file://")
        .filter(|path| path.starts_with('/'))
        .unwrap_or(path);
    if path.is_empty() || path.contains("://") {
        return texts.clean_line(path, MAX_PATH_BYTES);
    }
    let whole = normalise(&Path::new(&texts.cwd).join(path));
    let has_control = path.chars().any(char::is_control);
    match whole.strip_prefix(normalise(Path::new(&texts.cwd))) {
        Ok(inside) if !has_control && inside.as_os_str().is_empty() => ".".to_owned(),
        Ok(inside) if !has_control => texts.clean_line(&inside.to_string_lossy(), MAX_PATH_BYTES),
        Ok(_) | Err(_) => texts.clean_line(&whole.to_string_lossy(), MAX_PATH_BYTES),
    }
}

/// Returns true if a path that [`show_path`] returned does not lie in the session's directory, or
/// if its place is unknown. Cutting and redacting a path leave its beginning, so they do not change
/// the answer.
pub(crate) fn is_outside(shown: &str) -> bool {
    shown.starts_with('/') || shown.contains("://")
}

/// Resolves `.` and `..` by their names.
fn normalise(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => match normal.components().next_back() {
                Some(Component::Normal(_)) => {
                    normal.pop();
                }
                Some(Component::RootDir) => {}
                Some(Component::Prefix(_) | Component::CurDir | Component::ParentDir) | None => {
                    normal.push(component)
                }
            },
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                normal.push(component)
            }
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_inside_the_directory_are_relative() {
        let texts = TextRules { cwd: "/w/blog".to_owned(), ..TextRules::default() };
        for (path, shown) in [
            ("/w/blog/src/a.rs", "src/a.rs"),
            ("/w/blog", "."),
            ("/w/blog/../shop/b.rs", "/w/shop/b.rs"),
            ("../shop/b.rs", "/w/shop/b.rs"),
            ("https://example.org/a", "https://example.org/a"),
            ("", ""),
            ("/w/blogger/a", "/w/blogger/a"),
            ("src/a.rs", "src/a.rs"),
            ("file:///w/blog/a", "a"),
        ] {
            assert_eq!(show_path(&texts, path), shown);
        }
    }

    #[test]
    fn paths_that_leave_the_directory_are_outside() {
        let texts = TextRules { cwd: "/w/blog".to_owned(), ..TextRules::default() };
        for (path, outside) in [
            ("/w/blog/a", false),
            ("a/../b", false),
            ("../shop/a", true),
            ("/etc/passwd", true),
            ("/w/blog/../x", true),
        ] {
            assert_eq!(is_outside(&show_path(&texts, path)), outside, "{path}");
        }
    }
}
