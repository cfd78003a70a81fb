//! Holds the directories of a session, and finds the way to a file beneath them so that no symlink
//! leads astray.
//!
//! Every step starts at an open directory, takes one name and does not follow links; the walk reads
//! links and follows them itself. So the file that is opened in the end lies beneath a root even if
//! the tree changes meanwhile, and the walk does not need `openat2`.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::ServiceError;
use crate::sandbox::SandboxProfile;

/// As many links as Linux follows in one path.
const MAX_LINKS: usize = 40;

/// Opens a directory as a starting point for further steps; this needs no right to list it.
const DIRECTORY_FLAGS: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// The directories that a session works in; the first is its cwd.
#[derive(Debug)]
pub(crate) struct Roots {
    all: Vec<Root>,
    sandbox: Option<SandboxProfile>,
    /// The process that `/proc/self` stands for, if it is not the process that walks.
    process: Option<u32>,
}

#[derive(Debug)]
struct Root {
    /// The path as the client wrote it, without `.` and `..`.
    given: PathBuf,
    /// The path without symlinks, as of the start: a root that is replaced by a link later is not
    /// followed.
    real: PathBuf,
}

/// The place that a path leads to: a name in an open directory. The name is not a symlink; it may
/// not exist yet.
#[derive(Debug)]
pub(super) struct FileLocation {
    pub(super) dir: OwnedFd,
    /// `.` when the path is a root.
    pub(super) name: OsString,
    /// The full path without symlinks.
    pub(super) path: PathBuf,
}

/// A walk along a path: the directories entered so far, and the names ahead.
struct PathWalk<'a> {
    root: &'a Root,
    start: OwnedFd,
    entered: Vec<(OsString, OwnedFd)>,
    ahead: VecDeque<OsString>,
}

impl Roots {
    pub(crate) fn new(cwd: PathBuf, additional: Vec<PathBuf>) -> Self {
        let root = |path: PathBuf| {
            let given = without_dots(&path);
            Root { real: resolve_links(&given), given }
        };
        Self {
            all: std::iter::once(cwd).chain(additional).map(root).collect(),
            sandbox: None,
            process: None,
        }
    }

    /// Returns the whole file system as the process `agent` sees it: `/proc/self` is its own.
    pub(crate) fn whole_file_system(agent: u32) -> Self {
        Self {
            process: Some(agent),
            ..Self::new(PathBuf::from("/"), Vec::new())
        }
    }

    /// Returns the same roots without the paths that the agent's sandbox forbids (rule 3.8).
    pub(crate) fn with_sandbox(self, sandbox: Option<SandboxProfile>) -> Self {
        Self { sandbox, ..self }
    }

    pub(super) fn cwd(&self) -> &Path {
        self.all.first().map_or(Path::new("/"), |root| &root.given)
    }

    /// Finds a file to read or to write. For a write, missing directories on the way are created.
    pub(super) fn find(&self, path: &Path, write: bool) -> Result<FileLocation, ServiceError> {
        if !path.is_absolute() {
            return Err(ServiceError::unfit(path, "is not an absolute path"));
        }
        let place = self.walk_path(path, write)?;
        self.check_sandbox(path, &place.path, write)?;
        Ok(place)
    }

    fn check_sandbox(&self, path: &Path, real: &Path, write: bool) -> Result<(), ServiceError> {
        let allows = |sandbox: &SandboxProfile| {
            if write { sandbox.allows_write(real) } else { sandbox.allows_read(real) }
        };
        let allowed = self.sandbox.as_ref().is_none_or(allows);
        allowed.then_some(()).ok_or_else(|| ServiceError::Confined(path.to_owned()))
    }

    fn walk_path(&self, path: &Path, write: bool) -> Result<FileLocation, ServiceError> {
        let mut walk = self.enter_root(path, path, write)?;
        let mut links = 0;
        while let Some(name) = walk.ahead.pop_front() {
            if name == ".." {
                if walk.entered.pop().is_none() {
                    // Out of this root, perhaps into the next.
                    walk = self.enter_root(
                        path,
                        &walk.root.real.join("..").join(walk.remaining_path()),
                        write,
                    )?;
                }
                continue;
            }
            match rustix::fs::readlinkat(walk.current_dir(), &name, Vec::new()) {
                Ok(target) => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(ServiceError::unfit(path, "goes through too many symlinks"));
                    }
                    let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                    let target = self.own_process(&walk, &name).unwrap_or(target);
                    if target.is_absolute() {
                        walk = self.enter_root(path, &target.join(walk.remaining_path()), write)?;
                    } else {
                        path_names(&target)
                            .rev()
                            .for_each(|name| walk.ahead.push_front(name.to_owned()));
                    }
                }
                // No link. The last name may also be missing: that is for the caller to say.
                Err(Errno::INVAL | Errno::NOENT) if walk.ahead.is_empty() => {
                    return Ok(walk.into_location(name));
                }
                Err(Errno::NOENT) if write => {
                    match rustix::fs::mkdirat(walk.current_dir(), &name, Mode::from_raw_mode(0o777))
                    {
                        Ok(()) | Err(Errno::EXIST) => walk.enter_directory(path, name)?,
                        Err(error) => {
                            return Err(ServiceError::from_io(
                                "make the directories of",
                                path,
                                error,
                            ));
                        }
                    }
                }
                Err(Errno::INVAL) => walk.enter_directory(path, name)?,
                Err(error) => return Err(ServiceError::from_io("reach", path, error)),
            }
        }
        Ok(walk.into_location(".".into()))
    }

    /// Returns where `/proc/self` and `/proc/thread-self` lead, if `name` in the directory of the
    /// walk is one of them.
    fn own_process(&self, walk: &PathWalk<'_>, name: &OsStr) -> Option<PathBuf> {
        let process = self.process?;
        let is_in_proc = walk.root.real == Path::new("/")
            && matches!(&walk.entered[..], [(dir, _)] if dir == "proc");
        match name.to_str().filter(|_| is_in_proc)? {
            "self" => Some(process.to_string().into()),
            "thread-self" => Some(format!("{process}/task/{process}").into()),
            _ => None,
        }
    }

    /// Starts a walk at the root that holds `to`, the innermost if several do.
    fn enter_root(
        &self,
        path: &Path,
        to: &Path,
        write: bool,
    ) -> Result<PathWalk<'_>, ServiceError> {
        let to = without_dots(to);
        let spellings = self.all.iter().flat_map(|root| [(root, &root.given), (root, &root.real)]);
        let held =
            spellings.filter_map(|(root, spelling)| Some((root, to.strip_prefix(spelling).ok()?)));
        let Some((root, rest)) = held.min_by_key(|(_, rest)| rest.components().count()) else {
            return Err(ServiceError::Outside { path: path.to_owned(), to });
        };
        self.check_sandbox(path, &root.real, write)?;
        let mut start = rustix::fs::openat(CWD, "/", DIRECTORY_FLAGS, Mode::empty());
        for name in path_names(&root.real) {
            start = start
                .and_then(|dir| rustix::fs::openat(&dir, name, DIRECTORY_FLAGS, Mode::empty()));
        }
        let start = start.map_err(|error| ServiceError::from_io("enter", &root.given, error))?;
        Ok(PathWalk {
            root,
            start,
            entered: Vec::new(),
            ahead: path_names(rest).map(OsStr::to_owned).collect(),
        })
    }
}

impl PathWalk<'_> {
    fn current_dir(&self) -> &OwnedFd {
        self.entered.last().map_or(&self.start, |(_, dir)| dir)
    }

    fn remaining_path(&self) -> PathBuf {
        self.ahead.iter().collect()
    }

    fn enter_directory(&mut self, path: &Path, name: OsString) -> Result<(), ServiceError> {
        let dir = rustix::fs::openat(self.current_dir(), &name, DIRECTORY_FLAGS, Mode::empty());
        self.entered
            .push((name, dir.map_err(|error| ServiceError::from_io("reach", path, error))?));
        Ok(())
    }

    fn into_location(mut self, name: OsString) -> FileLocation {
        let mut real = self.root.real.clone();
        real.extend(self.entered.iter().map(|(name, _)| name));
        if name != "." {
            real.push(&name);
        }
        let dir = self.entered.pop().map_or(self.start, |(_, dir)| dir);
        FileLocation { dir, name, path: real }
    }
}

impl FileLocation {
    /// Returns the metadata of the entry itself; a symlink is not followed.
    pub(super) fn stat(&self) -> Result<Stat, Errno> {
        rustix::fs::statat(&self.dir, &self.name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
    }
}

/// Returns the names of a path, `..` included; roots and `.` are left out.
fn path_names(path: &Path) -> impl DoubleEndedIterator<Item = &OsStr> {
    path.components()
        .filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir))
        .map(Component::as_os_str)
}

/// Removes `.` and `..` from the text of a path; the file system is not read.
fn without_dots(path: &Path) -> PathBuf {
    let mut out = PathBuf::from("/");
    for name in path_names(path) {
        if name == ".." {
            out.pop();
        } else {
            out.push(name);
        }
    }
    out
}

/// Returns the path without symlinks, as far as it exists.
fn resolve_links(path: &Path) -> PathBuf {
    let found = path
        .ancestors()
        .find_map(|above| Some(above.canonicalize().ok()?.join(path.strip_prefix(above).ok()?)));
    found.map_or_else(|| path.to_owned(), |real| without_dots(&real))
}
