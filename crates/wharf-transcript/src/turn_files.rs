//! The files that a turn has changed, for its end. They follow the rule of
//! [`list_file_changes`](crate::list_file_changes).

use serde::{Deserialize, Serialize};
use wharf_api::FileChangeCount;

use crate::file_changes::RowFileChange;
use crate::limits::MAX_TURN_FILES;

/// The changed files of a turn so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TurnFiles(Vec<TurnFile>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct TurnFile {
    path: String,
    /// The number of changes.
    changes: u64,
    added: u64,
    removed: u64,
}

impl TurnFiles {
    /// Replaces the changes of one tool call.
    pub(crate) fn replace(&mut self, before: &[RowFileChange], after: &[RowFileChange]) {
        for change in before {
            if let Some(file) = self.0.iter_mut().find(|file| file.path == change.path) {
                file.changes = file.changes.saturating_sub(1);
                file.added = file.added.saturating_sub(change.added);
                file.removed = file.removed.saturating_sub(change.removed);
            }
        }
        for change in after {
            let added = change.added;
            let removed = change.removed;
            if let Some(file) = self.0.iter_mut().find(|file| file.path == change.path) {
                file.changes += 1;
                (file.added, file.removed) = (file.added + added, file.removed + removed);
            } else if self.0.len() < MAX_TURN_FILES {
                self.0.push(TurnFile { path: change.path.clone(), changes: 1, added, removed });
            }
        }
        self.0.retain(|file| file.changes > 0);
    }

    pub(crate) fn to_counts(&self) -> Vec<FileChangeCount> {
        let count = |file: &TurnFile| FileChangeCount {
            path: file.path.clone(),
            added: file.added,
            removed: file.removed,
        };
        self.0.iter().map(count).collect()
    }
}
