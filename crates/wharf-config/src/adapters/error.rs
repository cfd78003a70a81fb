//! Lists the reasons why the host cannot start an agent as requested. The host has not created
//! anything when it returns one of them.

use std::path::PathBuf;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdapterError {
    #[error("no agent called {name:?}{hint}; known: {known}. See: wharf agents")]
    Unknown { name: String, hint: String, known: String },
    #[error("agent {adapter:?} is not installed: there is no `{bin}` on the PATH{}", .install.as_ref().map(|install| format!("; install it with: {install}")).unwrap_or_default())]
    NotInstalled { adapter: String, bin: String, install: Option<String> },
    /// The manifest names a protocol that Wharf does not speak.
    #[error("agent {adapter:?} speaks {protocol:?}; Wharf starts agents that speak \"acp\"")]
    Protocol { adapter: String, protocol: String },
    #[error("agent {adapter:?} has no mode {mode:?}; it has: {known}")]
    UnknownMode { adapter: String, mode: String, known: String },
    #[error("agent {adapter:?}, option {option:?}: {why}")]
    Option { adapter: String, option: String, why: String },
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

/// A manifest that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {field}: {why}", path = path.display())]
pub struct ManifestError {
    pub path: PathBuf,
    /// Dotted, as in `options[1].type`.
    pub field: String,
    pub why: String,
}
