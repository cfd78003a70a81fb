//! Makes a profile that the kernel can enforce from the wishes of settings and manifests, or says
//! why it cannot.

use std::path::{Path, PathBuf};

use super::paths::{list_positions, resolve_links};
use super::{SandboxError, SandboxProfile, SandboxSupport};

/// Devices that every program expects to write to. The rest of `/dev` may only be read.
const WRITABLE_DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
    "/dev/shm",
];

/// A directory of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionRoot {
    /// The path as the client wrote it.
    pub(crate) given: PathBuf,
    /// The same path without links, as of the session's creation. An agent may write beside the
    /// directory, and a link in its place must not be a way out.
    pub(crate) was: Option<PathBuf>,
}

/// The paths that an agent is to have, and the paths that are to be kept from it.
#[derive(Clone, Debug, Default)]
pub(crate) struct SandboxPlan {
    pub(crate) roots: Vec<SessionRoot>,
    pub(crate) temporary: PathBuf,
    /// The agent's own directories and files.
    pub(crate) own: Vec<PathBuf>,
    /// The host's own paths: the agent may neither read nor write them.
    pub(crate) kept: Vec<PathBuf>,
    /// Further paths that the user keeps from the agent; `readable` can give back parts of them.
    pub(crate) hidden: Vec<PathBuf>,
    pub(crate) readable: Vec<PathBuf>,
    /// Paths that must not be writable: an agent that writes there decides what runs without a
    /// sandbox.
    pub(crate) sealed: Vec<PathBuf>,
    /// A path that may be written although it is inside of a kept one.
    pub(crate) except: Option<PathBuf>,
}

impl SandboxPlan {
    /// Returns the profile, on a system that supports sandboxes.
    pub(crate) fn make_profile(
        &self,
        support: &SandboxSupport,
    ) -> Result<SandboxProfile, SandboxError> {
        if let SandboxSupport::None(why) = support {
            return Err(SandboxError::Unsupported(why.clone()));
        }
        let mut write = Vec::new();
        for root in &self.roots {
            // A missing directory needs no rule; the start of an agent refuses a missing cwd.
            let Ok(now) = root.given.canonicalize() else { continue };
            match &root.was {
                Some(was) if *was != now => {
                    return Err(SandboxError::Moved {
                        given: root.given.clone(),
                        was: was.clone(),
                        now,
                    });
                }
                Some(_) | None => write.push(now),
            }
        }
        let mut own: Vec<&Path> = self.own.iter().map(PathBuf::as_path).collect();
        own.sort_by_key(|path| path.components().count());
        let devices = WRITABLE_DEVICES.iter().map(Path::new);
        for path in std::iter::once(self.temporary.as_path()).chain(own).chain(devices) {
            // A path inside of a writable directory needs no rule of its own, and a link there is
            // not followed: the agent itself may have made it.
            let inside = list_positions(path).any(|station| {
                write.iter().any(|open| station != *open && station.starts_with(open))
            });
            match path.canonicalize() {
                Ok(path) if !inside && !write.contains(&path) => write.push(path),
                Ok(_) | Err(_) => {}
            }
        }
        let hidden = [resolve_all_links(&self.kept), resolve_all_links(&self.hidden)].concat();
        let read = self.readable.iter().filter_map(|path| path.canonicalize().ok()).collect();
        let profile = SandboxProfile { write, hidden, read };
        self.check_overlaps(&profile)?;
        Ok(profile)
    }

    fn check_overlaps(&self, profile: &SandboxProfile) -> Result<(), SandboxError> {
        let kept = resolve_all_links(&self.kept);
        let sealed = resolve_all_links(&self.sealed);
        let hidden = resolve_all_links(&self.hidden);
        let except = self.except.as_deref().map(resolve_links);
        let crosses =
            |path: &Path, other: &PathBuf| other.starts_with(path) || path.starts_with(other);
        for write in profile.write.iter().filter(|write| Some(*write) != except.as_ref()) {
            let clash = kept.iter().chain(&sealed).find(|kept| crosses(write, kept));
            // The kernel can allow a part of a hidden path, but it cannot forbid a part of an
            // allowed path. So only a hidden path inside of a writable path is a clash.
            let clash = clash.or_else(|| hidden.iter().find(|hidden| hidden.starts_with(write)));
            if let Some(kept) = clash {
                return Err(SandboxError::Overlap { write: write.clone(), kept: kept.clone() });
            }
        }
        for read in &profile.read {
            if let Some(kept) = kept.iter().find(|kept| crosses(read, kept)) {
                return Err(SandboxError::Readable { read: read.clone(), kept: kept.clone() });
            }
        }
        let all = profile.write.iter().chain(&profile.hidden).chain(&profile.read);
        match all.into_iter().find(|path| path.to_str().is_none()) {
            Some(path) => Err(SandboxError::NotText { path: path.clone() }),
            None => Ok(()),
        }
    }
}

fn resolve_all_links(paths: &[PathBuf]) -> Vec<PathBuf> {
    paths.iter().map(|path| resolve_links(path)).collect()
}
