//! The location of the repo and its files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::process;

/// Returns the repo's root: the directory above this crate's, independent of the current directory.
pub(crate) fn find_root() -> Result<PathBuf> {
    let crate_dir = std::env::var_os("CARGO_MANIFEST_DIR").context("run this as `cargo xtask`")?;
    let root = Path::new(&crate_dir).parent().context("finding the repo's root")?;
    Ok(root.to_path_buf())
}

/// Returns cargo's target directory.
pub(crate) fn target_dir(root: &Path) -> Result<PathBuf> {
    let text = process::capture_stdout(process::cargo_command(root).args([
        "metadata",
        "--no-deps",
        "--format-version",
        "1",
        "--offline",
    ]))?;
    let metadata: serde_json::Value =
        serde_json::from_str(&text).context("reading cargo's metadata")?;
    let dir = metadata["target_directory"]
        .as_str()
        .context("cargo's metadata has no target directory")?;
    Ok(PathBuf::from(dir))
}

/// Returns every file of the repo as sorted paths relative to `root`, without build output and
/// git's own files.
pub(crate) fn list_files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(dir) = open.pop() {
        let entries = fs::read_dir(&dir).with_context(|| format!("listing {}", dir.display()))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("listing {}", dir.display()))?;
            let kind = entry
                .file_type()
                .with_context(|| format!("looking at {}", entry.path().display()))?;
            if kind.is_dir() && !is_left_out(&entry.file_name().to_string_lossy()) {
                open.push(entry.path());
            } else if kind.is_file() {
                found.push(entry.path().strip_prefix(root)?.to_path_buf());
            }
        }
    }
    found.sort();
    Ok(found)
}

fn is_left_out(dir: &str) -> bool {
    dir == ".git" || dir == "node_modules" || dir == "target" || dir.starts_with("target-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_output_is_not_part_of_the_repo() {
        let dir = tempfile::tempdir().unwrap();
        for file in ["src/a.rs", "target/b.rs", "target-me/c.rs", ".git/d", ".ci/run"] {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        assert_eq!(list_files(dir.path()).unwrap(), [Path::new(".ci/run"), Path::new("src/a.rs")]);
    }
}
