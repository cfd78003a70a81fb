//! The files that a session has changed, as its agent reported it (rule 13.10).

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

words! {
    /// The fate of a file.
    pub enum ChangedFileStatus as "ChangedFileStatus" {
        Created = "created",
        Changed = "changed",
        Deleted = "deleted",
    }
}

/// Selects changed files.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub struct ChangedFileQuery {
    /// The id of a prompt: only the changes of its turn.
    pub turn: Option<String>,
    #[param(minimum = 1, maximum = 1000, default = 200)]
    pub limit: Option<usize>,
}

/// The files that the tool calls of a session have changed, the last changed first. They come from
/// the diffs that agents report: a change that an agent makes without a diff, such as by a command,
/// is not among them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangedFileList {
    /// The number of the rules by which the rows were made.
    pub fold: u32,
    pub session: String,
    /// The last event that the list covers.
    pub as_of: String,
    pub files: Vec<ChangedFile>,
    /// How many files there are, those beyond `limit` included.
    pub total: usize,
    /// The added lines of all these files.
    pub added: u64,
    /// The removed lines of all these files.
    pub removed: u64,
    /// True if there may be more changes than were counted: a tool call with very many diffs, or
    /// very many files.
    pub partial: bool,
}

/// A file that was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangedFile {
    /// Relative to the session's directory if it lies in it.
    pub path: String,
    pub status: ChangedFileStatus,
    /// The sum over all changes: a line that was changed twice counts twice.
    pub added: u64,
    /// The sum over all changes.
    pub removed: u64,
    /// False if a text was too large to be compared line by line, or a file was replaced without
    /// its old text.
    pub exact: bool,
    /// The ids of the rows that made the changes, the newest first, at most 20.
    pub rows: Vec<String>,
    pub row_count: usize,
    /// The ids of the prompts in whose turns it was changed, the newest first, at most 20.
    pub turns: Vec<String>,
    pub turn_count: usize,
    /// ISO 8601, the time of the last change.
    pub changed_at: String,
}
