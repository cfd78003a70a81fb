//! Files that a prompt may name.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

words! {
    /// The kind of an entry of a directory.
    pub enum FileKind as "FileKind" {
        File = "file",
        Directory = "directory",
    }
}

/// Selects files of a session.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub struct FileQuery {
    /// A part of a name or of a path; without it, what lies nearest.
    pub q: Option<String>,
    /// The most files in the answer.
    #[param(minimum = 1, maximum = 100, default = 20)]
    pub limit: Option<usize>,
}

/// Selects files of a directory.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct DirectoryFileQuery {
    /// The directory, absolute.
    pub cwd: String,
    /// A part of a name or of a path; without it, what lies nearest.
    #[serde(default)]
    pub q: Option<String>,
    /// The most files in the answer.
    #[param(minimum = 1, maximum = 100, default = 20)]
    #[serde(default)]
    pub limit: Option<usize>,
}

/// Files and directories that fit, the best first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileList {
    pub files: Vec<FileInfo>,
    /// True if the search ended before it had seen everything.
    pub partial: bool,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = File)]
pub struct FileInfo {
    /// Relative to the session's directory, absolute in its further directories.
    pub path: String,
    pub absolute: String,
    pub kind: FileKind,
}
