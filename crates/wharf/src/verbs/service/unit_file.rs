//! The file of a service: it carries a mark, and a file without the mark is never touched.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::Context;
use wharf_render::text::quote;

use super::service_spec::ServiceSpec;
use crate::exit::{Exit, Failure};

/// Is in every file that wharf writes, in a comment.
pub(super) const MARK: &str = "Written by `wharf service install`";

/// Tells whether wharf wrote the file.
pub(super) fn is_ours(path: &Path) -> bool {
    fs::read_to_string(path).is_ok_and(|text| text.contains(MARK))
}

/// Refuses a file that wharf did not write, and one of a host with another state directory.
pub(super) fn check_replaceable(path: &Path, spec: &ServiceSpec) -> anyhow::Result<()> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
    };
    if !text.contains(MARK) {
        let words = format!(
            "{} was not written by wharf, and stays as it is; choose another --name",
            path.display()
        );
        return Err(Failure::new(Exit::Refused, words).into());
    }
    let mark = state_dir_mark(spec);
    if !text.lines().any(|line| line.strip_prefix("# ") == Some(&*mark)) {
        let words = format!(
            "{} is of a host with another state directory; choose another --name",
            path.display()
        );
        return Err(Failure::new(Exit::Refused, words).into());
    }
    Ok(())
}

/// Returns the comment that names the state directory, on one line.
pub(super) fn state_dir_mark(spec: &ServiceSpec) -> String {
    let dir = spec.state_dir.display().to_string().replace(char::is_control, " ");
    format!("State directory: {dir}")
}

/// Writes the file, complete before it takes the place of an older one.
pub(super) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let writing = || format!("writing {}", path.display());
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).with_context(writing)?;
    }
    let beside = path.with_extension(format!("new-{}", std::process::id()));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(&beside)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&beside, path)
        });
    written
        .inspect_err(|_| {
            let _ = fs::remove_file(&beside);
        })
        .with_context(writing)
}

pub(super) fn check_name(name: &str) -> Result<(), Failure> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if name.is_empty() || name.starts_with('-') || !name.chars().all(plain) {
        let words = format!(
            "{name} is not a name for a service; use letters, digits and dashes",
            name = quote(name)
        );
        return Err(Failure::new(Exit::Usage, words));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::systemd;
    use super::*;

    fn spec(state_dir: &str) -> ServiceSpec {
        ServiceSpec {
            name: "wharf".to_owned(),
            program: PathBuf::from("/bin/wharf"),
            state_dir: PathBuf::from(state_dir),
            config: PathBuf::from("/etc/wharf.toml"),
            path: String::new(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn file_of_a_state_directory_whose_path_begins_alike_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wharf.service");
        fs::write(&path, systemd::file_text(&spec("/tmp/sA2"))).unwrap();
        check_replaceable(&path, &spec("/tmp/sA2")).unwrap();
        check_replaceable(&path, &spec("/tmp/sA")).unwrap_err();
    }
}
