//! `[sandbox]` and `[agents.NAME.sandbox]`: whether an agent is kept to its own files, and what
//! these are.

use serde::Deserialize;

/// The settings of one source; [`SandboxSettings::merged_with`] combines several.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SandboxSettings {
    /// `None` if this source does not set it.
    pub mode: Option<SandboxMode>,
    /// Where the agent may write, besides its session's directories and the directory for temporary
    /// files. A path may begin with `~/` or a variable. If a path ends with `/`, it is a directory,
    /// which the host creates if it is missing.
    pub writable: Vec<String>,
    /// Paths that the agent may not even read, besides the host's own files.
    pub hidden: Vec<String>,
    /// Paths that the agent may read although they are inside of a hidden path.
    pub readable: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SandboxMode {
    #[default]
    Off,
    /// The kernel's Landlock; where it has none, no session starts.
    Landlock,
}

impl SandboxSettings {
    /// Combines two sources: the paths of both, and the sandbox if one of them asks for it, so that
    /// no manifest can loosen the user's settings.
    pub(crate) fn merged_with(&self, other: &Self) -> Self {
        let asked = [self.mode, other.mode].contains(&Some(SandboxMode::Landlock));
        Self {
            mode: if asked { Some(SandboxMode::Landlock) } else { self.mode.or(other.mode) },
            writable: [&self.writable[..], &other.writable].concat(),
            hidden: [&self.hidden[..], &other.hidden].concat(),
            readable: [&self.readable[..], &other.readable].concat(),
        }
    }

    /// Returns the first path that is not a path template.
    pub(crate) fn find_bad_path(&self) -> Option<&str> {
        let mut all = [&self.writable, &self.hidden, &self.readable].into_iter().flatten();
        all.find(|path| !crate::path_template::is_path_template(path))
            .map(String::as_str)
    }

    pub fn is_on(&self) -> bool {
        self.mode == Some(SandboxMode::Landlock)
    }
}
