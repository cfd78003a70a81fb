//! The files that a session has changed (rule 13.10).

use wharf_api::{ChangedFileList, ChangedFileQuery, FOLD_NUMBER};

use super::Caller;
use super::faults::invalid_query;
use super::rows::{open_transcript, show_position, transcript_fault, unknown_turn};
use crate::App;
use crate::fault::Fault;

const DEFAULT_FILES: usize = 200;
const MAX_FILES: usize = 1000;

/// Lists the files that a session, or one of its turns, has changed.
pub(crate) async fn list_changed_files(
    app: &App,
    caller: &Caller,
    id: &str,
    query: &ChangedFileQuery,
) -> Result<ChangedFileList, Fault> {
    let limit = query.limit.unwrap_or(DEFAULT_FILES);
    if limit == 0 || limit > MAX_FILES {
        return Err(invalid_query(format!("limit: {limit} is not between 1 and {MAX_FILES}")));
    }
    let turn = query.turn.clone().filter(|turn| !turn.is_empty());
    let transcript = open_transcript(app, caller, id).await?;
    let found = transcript.changed_files(turn.clone(), limit).await;
    let found = found.map_err(|failure| transcript_fault(app, id, &failure))?;
    let slice = found.ok_or_else(|| unknown_turn(turn.as_deref().unwrap_or_default()))?;
    Ok(ChangedFileList {
        fold: FOLD_NUMBER,
        session: id.to_owned(),
        as_of: show_position(slice.as_of),
        files: slice.files,
        total: slice.total,
        added: slice.added,
        removed: slice.removed,
        partial: slice.is_partial,
    })
}
