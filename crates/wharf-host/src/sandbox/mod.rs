//! Keeping an agent to its own files: it writes only where it may, and cannot read the host's state
//! and token.
//!
//! The kernel does it (Landlock, Linux; a filter on system calls for what Landlock does not cover).
//! The keeper starts `wharf __confine PROFILE -- COMMAND…`, which gives up the rights and becomes
//! the command; everything that the command starts is confined in the same way.

mod confine;
mod paths;
mod plan;
mod seccomp;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub(crate) use confine::CARRIED_PREFIX;
pub use confine::{SandboxSupport, detect_support, run};
pub(crate) use paths::resolve_links;
pub(crate) use plan::{SandboxPlan, SessionRoot};

/// The files that a confined process may read and write. Every path is free of links.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SandboxProfile {
    /// Where it may write, with everything beneath.
    pub(crate) write: Vec<PathBuf>,
    /// Paths that it may not even read; it may read everything else.
    pub(crate) hidden: Vec<PathBuf>,
    /// Paths that it may read although they are inside of a hidden path.
    pub(crate) read: Vec<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    #[error(
        "the sandbox is switched on, but {0}; see `wharf doctor`, or turn it off with: [agents.NAME.sandbox] mode = \"off\""
    )]
    Unsupported(String),
    #[error(
        "the sandbox cannot let the agent write in {write} and keep {kept} from it; move one of the two: choose another \
         cwd, --state-dir, or place for the configuration",
        write = write.display(), kept = kept.display()
    )]
    Overlap { write: PathBuf, kept: PathBuf },
    #[error(
        "the sandbox cannot let the agent read {read} and keep {kept} from it; take it out of `readable`",
        read = read.display(), kept = kept.display()
    )]
    Readable { read: PathBuf, kept: PathBuf },
    #[error(
        "{given} was {was} when the session was made, and now leads to {now}: the sandbox does not follow; put it back, \
         or start a new session there",
        given = given.display(), was = was.display(), now = now.display()
    )]
    Moved { given: PathBuf, was: PathBuf, now: PathBuf },
    #[error("the sandbox cannot use {path}: the path is not UTF-8; rename it", path = path.display())]
    NotText { path: PathBuf },
}

impl SandboxProfile {
    /// Tells whether a confined process may write to `path`, which has no links. Wharf's own file
    /// service obeys it too (rule 3.8).
    pub(crate) fn allows_write(&self, path: &Path) -> bool {
        self.write.iter().any(|root| path.starts_with(root))
    }

    pub(crate) fn allows_read(&self, path: &Path) -> bool {
        let beneath = |places: &[PathBuf]| places.iter().any(|place| path.starts_with(place));
        beneath(&self.write) || beneath(&self.read) || !beneath(&self.hidden)
    }

    /// Returns the command line that confines itself and then becomes `command`.
    pub(crate) fn wrap(&self, program: &Path, command: &[String]) -> Vec<OsString> {
        // Paths that are not text were refused; if one were here, the profile would be empty and
        // nothing would run.
        let profile = serde_json::to_string(self).unwrap_or_default();
        let before = [program.into(), confine::CONFINE_VERB.into(), profile.into(), "--".into()];
        before.into_iter().chain(command.iter().map(OsString::from)).collect()
    }
}

#[cfg(test)]
mod tests;
