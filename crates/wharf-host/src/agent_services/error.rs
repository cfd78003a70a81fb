//! The errors of files and terminals, with the message for the agent and the JSON-RPC code.

use std::path::{Path, PathBuf};

use rustix::io::Errno;
use serde_json::{Value, json};
use wharf_json::rpc::code;

/// A refusal or a failure; the text names the path and the reason.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServiceError {
    #[error("unknown method {0}")]
    Method(String),
    #[error("bad parameters: {0}")]
    Params(String),
    #[error("{} leads to {}, outside of the session's directories", .path.display(), .to.display())]
    Outside { path: PathBuf, to: PathBuf },
    #[error("the agent's sandbox does not allow {}", .0.display())]
    Confined(PathBuf),
    #[error("{} {why}", .path.display())]
    Unfit { path: PathBuf, why: String },
    #[error("{} does not exist", .0.display())]
    NotFound(PathBuf),
    #[error(
        "no terminal {0}; it was released, never created, or ended when the host was restarted"
    )]
    NoTerminal(String),
    #[error("{0} terminals are open; release one first")]
    Full(usize),
    #[error("{0}")]
    Failed(String),
    /// An error of the process that serves files outside of the session's directories.
    #[error("{message}")]
    Outsiders { code: i32, message: String, data: Option<Value> },
}

impl ServiceError {
    pub(super) fn unfit(path: &Path, why: impl Into<String>) -> Self {
        Self::Unfit { path: path.to_owned(), why: why.into() }
    }

    /// Describes a failed operation; `what` is its verb, as in "read".
    pub(super) fn from_io(what: &str, path: &Path, error: impl Into<std::io::Error>) -> Self {
        let error: std::io::Error = error.into();
        match Errno::from_io_error(&error) {
            Some(Errno::NOENT) => Self::NotFound(path.to_owned()),
            _ => Self::Failed(format!("cannot {what} {}: {error}", path.display())),
        }
    }

    pub(crate) fn code(&self) -> i32 {
        match self {
            Self::Method(_) => code::METHOD_NOT_FOUND,
            Self::Params(_) | Self::Outside { .. } | Self::Confined(_) | Self::Unfit { .. } => {
                code::INVALID_PARAMS
            }
            Self::NotFound(_) | Self::NoTerminal(_) => code::RESOURCE_NOT_FOUND,
            Self::Full(_) | Self::Failed(_) => code::INTERNAL_ERROR,
            Self::Outsiders { code, .. } => *code,
        }
    }

    /// The `data` of the JSON-RPC error.
    pub(crate) fn data(&self) -> Option<Value> {
        match self {
            Self::NotFound(path) => Some(json!({ "uri": to_file_uri(path) })),
            Self::NoTerminal(id) => Some(json!({ "terminalId": id })),
            Self::Outsiders { data, .. } => data.clone(),
            Self::Method(_)
            | Self::Params(_)
            | Self::Outside { .. }
            | Self::Confined(_)
            | Self::Unfit { .. }
            | Self::Full(_)
            | Self::Failed(_) => None,
        }
    }
}

fn to_file_uri(path: &Path) -> String {
    let mut uri = "file://".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
                uri.push(char::from(*byte))
            }
            byte => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}
