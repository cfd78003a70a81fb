//! Keeping an agent to its own files: it writes only where it may, and cannot read the host's state and token.
//!
//! The kernel does it (Landlock, Linux). The shim starts `wharf __confine PROFILE -- COMMAND…`, which gives up the
//! rights and becomes the command; everything that the command starts is confined in the same way.

mod confine;
mod paths;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use confine::{Support, run, support};

/// What a confined process may do with files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// Where it may write, with everything beneath.
    pub write: Vec<PathBuf>,
    /// What it may not even read: everything else it may.
    pub hidden: Vec<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    #[error("the sandbox was asked for, and {0}; take `sandbox` out of the agent's settings, or run elsewhere")]
    Unsupported(String),
    #[error(
        "the sandbox cannot let an agent write in {write} and keep {hidden} from it, which is inside; choose another cwd",
        write = write.display(), hidden = hidden.display()
    )]
    Overlap { write: PathBuf, hidden: PathBuf },
}

impl Profile {
    /// Resolves links, and refuses what cannot be kept: a place to write that holds a hidden one.
    pub fn resolved(mut self) -> Result<Self, SandboxError> {
        if let Support::None(why) = support() {
            return Err(SandboxError::Unsupported(why));
        }
        for path in self.write.iter_mut().chain(&mut self.hidden) {
            if let Ok(real) = path.canonicalize() {
                *path = real;
            }
        }
        self.write.retain(|path| path.exists());
        for write in &self.write {
            if let Some(hidden) = self.hidden.iter().find(|hidden| hidden.starts_with(write)) {
                return Err(SandboxError::Overlap { write: write.clone(), hidden: hidden.clone() });
            }
        }
        Ok(self)
    }

    /// May a confined process write here? Wharf's own files for agents obey the same (rule 3.8). `path` is resolved.
    pub fn allows_write(&self, path: &Path) -> bool {
        self.write.iter().any(|root| path.starts_with(root)) && self.allows_read(path)
    }

    pub fn allows_read(&self, path: &Path) -> bool {
        !self.hidden.iter().any(|hidden| path.starts_with(hidden))
    }

    /// The command that confines itself and becomes `command`.
    pub(crate) fn wrap(&self, program: &Path, command: &[String]) -> Vec<String> {
        let profile = serde_json::to_string(self).unwrap_or_default();
        let before = [program.display().to_string(), confine::VERB.to_owned(), profile, "--".to_owned()];
        before.into_iter().chain(command.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests;
