//! Workspaces: named directories. Spawns refer to them by name, and sessions are stored under it
//! (rule 8.6).
//!
//! The file is read for every request, so that a hand edit counts at once. A damaged file is
//! reported and never overwritten.

mod directory_scope;
mod file;
mod slug;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

pub use directory_scope::DirectoryScope;
pub use file::{Workspace, WorkspaceList};
pub use slug::{BadSlug, Slug};

use wharf_api::quote_visibly;
use wharf_core::Millis;
use wharf_transcript::format_timestamp;

/// The bucket of sessions that belong to no registered workspace.
pub(crate) const DEFAULT_BUCKET: &str = "default";
/// In a REST path this stands for the slug of the active workspace.
const ACTIVE_ALIAS: &str = "active";
/// The longest label of a workspace or a session, which is part of every listing.
pub const MAX_LABEL_BYTES: usize = 1024;

#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    #[error("{path}, line {line}, column {column}: {why}; repair it, or move it away to start with an empty registry", path = path.display())]
    Damaged { path: PathBuf, line: usize, column: usize, why: String },
    #[error("{path} has version {version}, and this Wharf knows version 1; use the newer Wharf that wrote it", path = path.display())]
    Version { path: PathBuf, version: u64 },
    #[error("cannot read {path}: {why}", path = path.display())]
    Unreadable { path: PathBuf, why: String },
    #[error("the registry of workspaces cannot be read; the host's own log says why")]
    Hidden,
    #[error("cannot write {path}: {why}", path = path.display())]
    Unwritable { path: PathBuf, why: String },
    #[error(transparent)]
    Slug(#[from] BadSlug),
    #[error("the slug {0:?} is reserved; choose another one")]
    Reserved(String),
    #[error("the label is over 1 KiB long; shorten it")]
    Label,
    #[error("{path} {why}; create it or give another", path = path.display(), why = explain_unfit_directory(path))]
    Path { path: PathBuf },
    #[error("no workspace called {name}; known: {known}. See: wharf workspace list", name = quote_visibly(slug))]
    Unknown { slug: String, known: String },
    #[error("there is a workspace {slug:?} already, for {path}; remove it first or choose another slug", path = path.display())]
    Exists { slug: String, path: PathBuf },
    #[error(
        "workspace {slug:?} has {live} running sessions; end them first, or remove it without purging"
    )]
    InUse { slug: String, live: usize },
    #[error("the sessions of workspace {slug:?} cannot all be deleted: {why}")]
    Purge { slug: String, why: String },
}

/// Returns why a path cannot be a directory to work in.
pub fn explain_unfit_directory(path: &Path) -> &'static str {
    if path.is_absolute() { "is no directory that exists" } else { "is not an absolute path" }
}

/// The directory in which a session runs, and the bucket in which its log is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpawnLocation {
    pub cwd: PathBuf,
    pub bucket: String,
    pub warnings: Vec<String>,
}

/// The registry of one state directory.
#[derive(Debug)]
pub struct Workspaces {
    path: PathBuf,
    /// Held from reading the file to writing it.
    changing: Mutex<()>,
}

impl Workspaces {
    pub fn of(state_dir: &Path) -> Self {
        Self {
            path: state_dir.join("workspaces.json"),
            changing: Mutex::default(),
        }
    }

    pub fn list(&self) -> Result<WorkspaceList, WorkspaceError> {
        WorkspaceList::read(&self.path)
    }

    /// Registers a directory. The first one becomes the active one.
    pub fn add(
        &self,
        slug: &str,
        path: &Path,
        label: Option<&str>,
        now: Millis,
    ) -> Result<Workspace, WorkspaceError> {
        let slug: Slug = slug.parse()?;
        if [DEFAULT_BUCKET, ACTIVE_ALIAS].contains(&slug.as_str()) {
            return Err(WorkspaceError::Reserved(slug.to_string()));
        }
        if label.is_some_and(|label| label.len() > MAX_LABEL_BYTES) {
            return Err(WorkspaceError::Label);
        }
        // A path that could not be written down would be lost.
        if !path.is_absolute() || !path.is_dir() || path.to_str().is_none() {
            return Err(WorkspaceError::Path { path: path.to_owned() });
        }
        self.change_list(|list| {
            if let Some(known) = list.get(slug.as_str()) {
                return Err(WorkspaceError::Exists {
                    slug: slug.to_string(),
                    path: known.path.clone(),
                });
            }
            let label = label.map(ToOwned::to_owned);
            let workspace =
                Workspace::new(slug.clone(), normalize_path(path), label, format_timestamp(now));
            list.workspaces.push(workspace.clone());
            list.active.get_or_insert(slug);
            Ok(workspace)
        })
    }

    /// Removes a directory from the registry. Its sessions stay.
    pub fn remove(&self, slug: &str) -> Result<Workspace, WorkspaceError> {
        self.change_list(|list| {
            let at = list.workspaces.iter().position(|known| known.slug.as_str() == slug);
            let removed = list.workspaces.remove(at.ok_or_else(|| unknown_workspace(list, slug))?);
            list.active.take_if(|active| *active == removed.slug);
            Ok(removed)
        })
    }

    /// Makes this the workspace of spawns that name none.
    pub fn activate(&self, slug: &str, now: Millis) -> Result<WorkspaceList, WorkspaceError> {
        self.change_list(|list| {
            let known = list.workspaces.iter_mut().find(|known| known.slug.as_str() == slug);
            let Some(known) = known else { return Err(unknown_workspace(list, slug)) };
            known.updated_at = format_timestamp(now);
            list.active = Some(known.slug.clone());
            Ok(list.clone())
        })
    }

    /// Returns where a spawn runs: in `cwd`, else in the workspace's directory, else in the active
    /// one's, else in the host's own.
    ///
    /// A registry that cannot be read refuses whatever needs it; a bare cwd does not, and goes to
    /// the default bucket.
    pub fn resolve_location(
        &self,
        cwd: Option<&Path>,
        slug: Option<&str>,
    ) -> Result<SpawnLocation, WorkspaceError> {
        let list = match (self.list(), cwd, slug) {
            (Ok(list), _, _) => list,
            (Err(error), Some(cwd), None) => {
                let warning = format!("{error}. The session is kept under {DEFAULT_BUCKET:?}");
                return Ok(SpawnLocation {
                    cwd: cwd.to_owned(),
                    bucket: DEFAULT_BUCKET.to_owned(),
                    warnings: vec![warning],
                });
            }
            (Err(error), _, _) => return Err(error),
        };
        let place = |cwd: &Path, bucket: &str| SpawnLocation {
            cwd: cwd.to_owned(),
            bucket: bucket.to_owned(),
            warnings: Vec::new(),
        };
        if slug == Some(DEFAULT_BUCKET) {
            return Ok(match cwd {
                Some(cwd) => place(cwd, DEFAULT_BUCKET),
                None => {
                    let why = format!("the workspace {DEFAULT_BUCKET:?} has no directory");
                    SpawnLocation {
                        bucket: DEFAULT_BUCKET.to_owned(),
                        ..locate_in_host_dir(&list, &why)
                    }
                }
            });
        }
        let named = slug
            .map(|slug| list.get(slug).ok_or_else(|| unknown_workspace(&list, slug)))
            .transpose()?;
        match (cwd, named) {
            (Some(cwd), Some(named)) => Ok(place(cwd, named.slug.as_str())),
            (Some(cwd), None) => Ok(place(cwd, &bucket_in(&list, cwd))),
            (None, Some(named)) => Ok(place(&named.path, named.slug.as_str())),
            (None, None) => {
                Ok(match list.active.as_ref().map(|active| (active, list.get(active.as_str()))) {
                    Some((_, Some(active))) => place(&active.path, active.slug.as_str()),
                    Some((active, None)) => locate_in_host_dir(
                        &list,
                        &format!("the active workspace {:?} is not registered", active.as_str()),
                    ),
                    None => locate_in_host_dir(&list, "no workspace is active"),
                })
            }
        }
    }

    /// Returns the slug of the innermost workspace that holds `path`, else `default`. Links are
    /// followed.
    pub fn bucket_of(&self, path: &Path) -> String {
        match self.list() {
            Ok(list) => bucket_in(&list, path),
            Err(error) => {
                tracing::warn!(%error, "the registry of workspaces cannot be read: a session is kept under {DEFAULT_BUCKET:?}");
                DEFAULT_BUCKET.to_owned()
            }
        }
    }

    fn change_list<T>(
        &self,
        change: impl FnOnce(&mut WorkspaceList) -> Result<T, WorkspaceError>,
    ) -> Result<T, WorkspaceError> {
        let _one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut list = self.list()?;
        let done = change(&mut list)?;
        list.write(&self.path)?;
        Ok(done)
    }
}

/// Returns the host's own directory, with a warning that says why.
fn locate_in_host_dir(list: &WorkspaceList, why: &str) -> SpawnLocation {
    let cwd = std::env::current_dir().unwrap_or_else(|_| "/".into());
    let warning = format!(
        "{why}, and no cwd was given: the session runs in the host's own directory, {}",
        cwd.display()
    );
    SpawnLocation { bucket: bucket_in(list, &cwd), cwd, warnings: vec![warning] }
}

fn bucket_in(list: &WorkspaceList, path: &Path) -> String {
    find_innermost(list, path)
        .map_or(DEFAULT_BUCKET, |found| found.slug.as_str())
        .to_owned()
}

fn find_innermost<'a>(list: &'a WorkspaceList, path: &Path) -> Option<&'a Workspace> {
    let path = path.canonicalize().ok()?;
    let holds = |workspace: &'a Workspace| {
        let root = workspace.path.canonicalize().ok()?;
        path.starts_with(&root).then(|| (root.components().count(), workspace))
    };
    // Of two workspaces for the same directory the first counts.
    list.workspaces
        .iter()
        .rev()
        .filter_map(holds)
        .max_by_key(|(depth, _)| *depth)
        .map(|(_, workspace)| workspace)
}

/// Removes `.` and doubled slashes; `..` and links stay as they are.
fn normalize_path(path: &Path) -> PathBuf {
    path.components().collect()
}

/// Returns the error for a caller that knows only one workspace: other slugs are not revealed.
fn unknown_in_scope(scope: &DirectoryScope, slug: &str) -> WorkspaceError {
    let known = scope.only_workspace().filter(|own| *own != slug).unwrap_or("none");
    WorkspaceError::Unknown {
        slug: slug.chars().take(65).collect(),
        known: known.to_owned(),
    }
}

fn unknown_workspace(list: &WorkspaceList, slug: &str) -> WorkspaceError {
    let known: Vec<&str> =
        list.workspaces.iter().map(|known| known.slug.as_str()).take(20).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    WorkspaceError::Unknown { slug: slug.chars().take(65).collect(), known }
}
