//! What the demo agent remembers of a session, in a small file of its own, so that another process can load it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde_json::{Value, json};

use crate::turn::lock;

/// Where the files are: `WHARF_DEMO_STATE`, else `wharf-demo` in the user's state directory.
pub(crate) fn directory() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("WHARF_DEMO_STATE")
        .or_else(|| variable("XDG_STATE_HOME").map(|state| state.join("wharf-demo")))
        .or_else(|| variable("HOME").map(|home| home.join(".local/state/wharf-demo")))
        .unwrap_or_else(|| std::env::temp_dir().join("wharf-demo"))
}

/// One session's file, open for appending. One JSON object per line: `cwd`, `settings`, `title`, `turn`, `update`, `burst`.
#[derive(Debug)]
pub(crate) struct History {
    path: Option<PathBuf>,
    file: Option<Mutex<File>>,
}

impl History {
    /// Makes a new file under the first free number; the file's existence is what reserves the id.
    pub(crate) fn create(directory: &Path, cwd: &str) -> (String, Self) {
        let history = Self::reserve(directory);
        let (id, history) = match history {
            Ok(made) => made,
            // Nowhere to write: the session works, but no later process will know it.
            Err(_) => (format!("demo-unsaved-{}-{}", std::process::id(), unsaved()), Self { path: None, file: None }),
        };
        history.append(&json!({ "cwd": cwd }));
        (id, history)
    }

    fn reserve(directory: &Path) -> io::Result<(String, Self)> {
        // What was said is for its owner alone.
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let mut number = fs::read_dir(directory)?.count() + 1;
        loop {
            let id = format!("demo-{number}");
            let path = file_path(directory, &id);
            match OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path) {
                Ok(file) => return Ok((id, Self { path: Some(path), file: Some(Mutex::new(file)) })),
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

    /// Appends one record. A full disk costs the demo its memory, not its life.
    pub(crate) fn append(&self, record: &Value) {
        if let Some(file) = &self.file {
            let _ = lock(file).write_all(format!("{record}\n").as_bytes());
        }
    }

    /// All records; a line that was cut by a crash is left out.
    pub(crate) fn records(&self) -> Vec<Value> {
        let text = self.path.as_ref().and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

/// Deletes a session's file, if there is one.
pub(crate) fn remove(directory: &Path, id: &str) {
    if is_ours(id) {
        let _ = fs::remove_file(file_path(directory, id));
    }
}

/// Is it an id of a session on file? Anything else could name a file elsewhere.
fn is_ours(id: &str) -> bool {
    id.strip_prefix("demo-").is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The ids of all sessions on file, newest first.
pub(crate) fn ids(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut numbers: Vec<u64> =
        names.filter_map(|name| name.strip_prefix("demo-")?.strip_suffix(".jsonl")?.parse().ok()).collect();
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    numbers.into_iter().map(|number| format!("demo-{number}")).collect()
}

fn file_path(directory: &Path, id: &str) -> PathBuf {
    directory.join(format!("{id}.jsonl"))
}

fn unsaved() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
