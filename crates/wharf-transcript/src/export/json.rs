//! The export for programs: the rows as they are.

use serde_json::json;
use wharf_api::{FOLD_NUMBER, TranscriptRow};

use super::ExportHead;

pub(super) fn begin(head: &ExportHead) -> String {
    let head = json!({
        "fold": FOLD_NUMBER, "session": head.session, "title": head.title, "agent": head.agent,
        "directory": head.directory, "startedAt": head.started_at,
    });
    // The rows follow as the last member.
    let head = head.to_string();
    format!("{},\"rows\":[", head.strip_suffix('}').unwrap_or(&head))
}

pub(super) fn row(row: &TranscriptRow, is_first: bool) -> String {
    let comma = if is_first { "\n" } else { ",\n" };
    format!("{comma}{}", serde_json::to_string(row).unwrap_or_else(|_| "null".to_owned()))
}
