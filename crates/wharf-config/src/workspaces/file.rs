//! `workspaces.json`: AIP-46's format, read strictly and written whole. Unknown members are kept.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Map, Value};
use wharf_api::quote_visibly;
use wharf_core::Millis;
use wharf_transcript::format_timestamp;

use super::slug::Slug;
use super::{DEFAULT_BUCKET, WorkspaceError};
use crate::private_file::write_private;

/// The format that this version reads and writes.
const FORMAT_VERSION: u64 = 1;
/// A registry of thousands of directories is far below this.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// The registry as it is on disk and on the wire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceList {
    pub version: u64,
    /// The workspace of spawns that name none.
    #[serde(default)]
    pub active: Option<Slug>,
    #[serde(deserialize_with = "deserialize_distinct")]
    pub workspaces: Vec<Workspace>,
    /// Members that this version does not know.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// A registered directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Workspace {
    pub slug: Slug,
    #[serde(deserialize_with = "deserialize_absolute_path")]
    pub path: PathBuf,
    /// Empty until [`WorkspaceList::read`] has filled it in, if the file does not have it.
    #[serde(default)]
    pub added_at: String,
    #[serde(default)]
    pub updated_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

impl Workspace {
    pub(super) fn new(slug: Slug, path: PathBuf, label: Option<String>, now: String) -> Self {
        Self {
            slug,
            path,
            added_at: now.clone(),
            updated_at: now,
            label,
            more: Map::new(),
        }
    }
}

impl Default for WorkspaceList {
    fn default() -> Self {
        Self {
            version: FORMAT_VERSION,
            active: None,
            workspaces: Vec::new(),
            more: Map::new(),
        }
    }
}

impl WorkspaceList {
    /// Removes everything but this workspace, for a caller that knows no other.
    pub(super) fn keep_only(&mut self, slug: &str) {
        self.workspaces.retain(|known| known.slug.as_str() == slug);
        self.active.take_if(|active| active.as_str() != slug);
        self.more.clear();
    }

    pub fn get(&self, slug: &str) -> Option<&Workspace> {
        self.workspaces.iter().find(|workspace| workspace.slug.as_str() == slug)
    }

    /// Reads the file; none is an empty registry.
    pub(super) fn read(path: &Path) -> Result<Self, WorkspaceError> {
        let unreadable = |why: String| WorkspaceError::Unreadable { path: path.to_owned(), why };
        let file = match std::fs::metadata(path) {
            Ok(file) if file.len() > MAX_FILE_BYTES => {
                return Err(unreadable(format!("it is over {MAX_FILE_BYTES} bytes long")));
            }
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(unreadable(error.to_string())),
        };
        let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
        let mut list = Self::parse(&text, path)?;
        list.fill_in_times(&format_timestamp(modified_at(&file)));
        Ok(list)
    }

    /// Sets the time stamps that a person who edited the file left out.
    fn fill_in_times(&mut self, at: &str) {
        for Workspace { added_at, updated_at, .. } in &mut self.workspaces {
            for time in [added_at, updated_at] {
                if time.is_empty() {
                    at.clone_into(time);
                }
            }
        }
    }

    pub(crate) fn parse(text: &str, path: &Path) -> Result<Self, WorkspaceError> {
        // First the version alone: the rest of a newer version may have another meaning.
        #[derive(Deserialize)]
        struct Version {
            version: u64,
        }
        let damaged = |error: serde_json::Error| WorkspaceError::Damaged {
            path: path.to_owned(),
            line: error.line(),
            column: error.column(),
            why: without_place(&error),
        };
        let Version { version } = wharf_json::read_own(text.as_bytes()).map_err(damaged)?;
        if version != FORMAT_VERSION {
            return Err(WorkspaceError::Version { path: path.to_owned(), version });
        }
        wharf_json::read_own(text.as_bytes()).map_err(damaged)
    }

    pub(super) fn write(&self, path: &Path) -> Result<(), WorkspaceError> {
        let unwritable = |error: std::io::Error| WorkspaceError::Unwritable {
            path: path.to_owned(),
            why: error.to_string(),
        };
        let mut text =
            serde_json::to_string_pretty(self).map_err(|error| unwritable(error.into()))?;
        text.push('\n');
        write_private(path, text.as_bytes()).map_err(unwritable)?;
        let dir = path.parent().unwrap_or(Path::new("."));
        std::fs::File::open(dir).and_then(|dir| dir.sync_all()).map_err(unwritable)
    }
}

fn modified_at(file: &std::fs::Metadata) -> Millis {
    let since = file
        .modified()
        .ok()
        .and_then(|at| at.duration_since(UNIX_EPOCH).ok())
        .unwrap_or_default();
    Millis(u64::try_from(since.as_millis()).unwrap_or_default())
}

/// Returns the message in plain words, without the line and column that serde adds: the error has
/// its own fields for them.
fn without_place(error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "the text ends too early".to_owned();
    }
    let text = error.to_string();
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message);
    match text.strip_prefix("missing field ") {
        Some(field) => format!("{} is missing", field.replace('`', "")),
        None => text.to_owned(),
    }
}

fn deserialize_absolute_path<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<PathBuf, D::Error> {
    let path = PathBuf::deserialize(deserializer)?;
    if path.is_absolute() {
        return Ok(path);
    }
    let quoted = quote_visibly(&path.to_string_lossy());
    Err(de::Error::custom(format!("{quoted} is not an absolute path")))
}

fn deserialize_distinct<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Workspace>, D::Error> {
    let list = Vec::<Workspace>::deserialize(deserializer)?;
    // Sessions outside every workspace are kept there, and would be purged with it.
    if list.iter().any(|workspace| workspace.slug.as_str() == DEFAULT_BUCKET) {
        return Err(de::Error::custom(format!("the slug {DEFAULT_BUCKET:?} cannot be used")));
    }
    let mut seen = std::collections::HashSet::new();
    match list.iter().find(|workspace| !seen.insert(&workspace.slug)) {
        Some(twice) => {
            Err(de::Error::custom(format!("the slug {:?} is there twice", twice.slug.as_str())))
        }
        None => Ok(list),
    }
}
