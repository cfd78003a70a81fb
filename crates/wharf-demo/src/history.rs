//! The stored history of a session: a small file, so that another process can load the session.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde_json::{Value, json};

use crate::turn::lock_mutex;

/// Returns the directory of the files: `WHARF_DEMO_STATE`, else `wharf-demo` in the user's state
/// directory.
pub(crate) fn state_directory() -> PathBuf {
    let variable =
        |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("WHARF_DEMO_STATE")
        .or_else(|| variable("XDG_STATE_HOME").map(|state| state.join("wharf-demo")))
        .or_else(|| variable("HOME").map(|home| home.join(".local/state/wharf-demo")))
        .unwrap_or_else(|| std::env::temp_dir().join("wharf-demo"))
}

/// One session's file, open for appending. One JSON object per line: `cwd`, `settings`, `title`,
/// `turn`, `update`, `burst`.
#[derive(Debug)]
pub(crate) struct DemoHistory {
    path: Option<PathBuf>,
    file: Option<Mutex<File>>,
}

impl DemoHistory {
    /// Creates a file under the first free number; the existence of the file reserves the id.
    pub(crate) fn create(directory: &Path, cwd: &str) -> (String, Self) {
        let history = Self::reserve_id(directory);
        let (id, history) = match history {
            Ok(made) => made,
            // No directory is writable: the session works, but no later process can load it.
            Err(_) => (
                format!("demo-unsaved-{}-{}", std::process::id(), next_unsaved_number()),
                Self { path: None, file: None },
            ),
        };
        history.append(&json!({ "cwd": cwd }));
        (id, history)
    }

    fn reserve_id(directory: &Path) -> io::Result<(String, Self)> {
        // The conversation is private to its owner.
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let mut number = fs::read_dir(directory)?.count() + 1;
        loop {
            let id = format!("demo-{number}");
            let path = file_path(directory, &id);
            match OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path) {
                Ok(file) => {
                    return Ok((id, Self { path: Some(path), file: Some(Mutex::new(file)) }));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Opens the file of a known session.
    pub(crate) fn open(directory: &Path, id: &str) -> io::Result<Self> {
        if !is_ours(id) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let path = file_path(directory, id);
        let file = OpenOptions::new().append(true).open(&path)?;
        Ok(Self { path: Some(path), file: Some(Mutex::new(file)) })
    }

    /// Appends one record. On a full disk the record is lost and the agent goes on.
    pub(crate) fn append(&self, record: &Value) {
        if let Some(file) = &self.file {
            let _ = lock_mutex(file).write_all(format!("{record}\n").as_bytes());
        }
    }

    /// Returns all records, without a line that a crash interrupted.
    pub(crate) fn read_records(&self) -> Vec<Value> {
        let text = self
            .path
            .as_ref()
            .and_then(|path| fs::read_to_string(path).ok())
            .unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

/// Deletes a session's file, if there is one.
pub(crate) fn remove_session(directory: &Path, id: &str) {
    if is_ours(id) {
        let _ = fs::remove_file(file_path(directory, id));
    }
}

/// Returns true for an id of a stored session. Any other text could name a file elsewhere.
fn is_ours(id: &str) -> bool {
    id.strip_prefix("demo-")
        .is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns the ids of all stored sessions, newest first.
pub(crate) fn list_ids(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut numbers: Vec<u64> = names
        .filter_map(|name| name.strip_prefix("demo-")?.strip_suffix(".jsonl")?.parse().ok())
        .collect();
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    numbers.into_iter().map(|number| format!("demo-{number}")).collect()
}

fn file_path(directory: &Path, id: &str) -> PathBuf {
    directory.join(format!("{id}.jsonl"))
}

fn next_unsaved_number() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);
    NEXT_NUMBER.fetch_add(1, Ordering::Relaxed)
}
