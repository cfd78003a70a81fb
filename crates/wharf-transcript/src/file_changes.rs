//! The changes of files that a row stands for (rule 13.10).

use wharf_api::{FileChange, RowBody, ToolState, TranscriptRow};

use crate::diff::has_exact_counts;
use crate::limits::MAX_DIFFS;

/// The effect of one tool call on a file, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileChangeKind {
    Created,
    Changed,
    Deleted,
}

/// The change of one file by one tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowFileChange {
    /// The path as rows show it.
    pub path: String,
    pub kind: FileChangeKind,
    pub added: u64,
    pub removed: u64,
    /// False if the texts were too large to be compared line by line.
    pub exact: bool,
    /// ISO 8601, the end of the tool call.
    pub at: String,
}

/// Returns the changes of files that a row tells of. Only a completed tool call has changed
/// anything: the diffs of a running one are an intention, those of a failed, refused, cancelled or
/// interrupted one did not happen as far as is known.
pub fn list_file_changes(row: &TranscriptRow) -> Vec<RowFileChange> {
    let RowBody::Tool(tool) = &row.body else { return Vec::new() };
    if tool.state != ToolState::Completed {
        return Vec::new();
    }
    let at = tool.ended_at.as_ref().unwrap_or(&row.changed_at);
    // An agent that replaces a fragment by nothing sends an empty text, too: only the kind of the
    // tool call tells.
    let deletes = tool.tool_kind.as_deref() == Some("delete");
    let changes = tool.diffs.iter().map(|diff| RowFileChange {
        path: diff.path.clone(),
        kind: match diff.change {
            FileChange::Create => FileChangeKind::Created,
            FileChange::Delete if deletes => FileChangeKind::Deleted,
            FileChange::Delete | FileChange::Modify | FileChange::Other(_) => {
                FileChangeKind::Changed
            }
        },
        added: diff.added,
        removed: diff.removed,
        exact: has_exact_counts(diff),
        at: at.clone(),
    });
    changes.collect()
}

/// Returns true if a row with so many changes may have left some out.
pub const fn may_have_more_changes(count: usize) -> bool {
    count >= MAX_DIFFS
}
