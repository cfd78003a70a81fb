//! The files that a session has changed, for a model: a line each.

use wharf_api::mcp::{LinesOutput, OutputInput};
use wharf_api::{ChangedFile, ChangedFileQuery};

use super::{rows, wait};
use crate::App;
use crate::fault::Fault;
use crate::use_cases::{self, Caller};

/// The most characters of all files of an answer.
const MAX_FILES_CHARS: usize = 25_000;

/// Lists the changed files, and returns them with the text that a model reads.
pub(super) async fn read_changed_files(
    app: &App,
    caller: &Caller,
    input: OutputInput,
) -> Result<(LinesOutput, String), Fault> {
    rows::refuse_row_arguments(&input)?;
    let OutputInput { session_id, last_n, turn, .. } = input;
    let query = ChangedFileQuery { turn, limit: last_n };
    let mut changes = use_cases::list_changed_files(app, caller, &session_id, &query).await?;
    let session = use_cases::get_session(app, caller, &session_id)?;
    let asks = wait::list_open_asks(app, caller, &session).await?;
    changes.files.truncate(count_fitting_files(&changes.files));
    let text = changes.files.iter().map(show_file).collect::<Vec<_>>().join("\n");
    let output = LinesOutput {
        session_id,
        lines: Vec::new(),
        rows: None,
        truncated: changes.files.len() < changes.total,
        changes: Some(changes),
        before: None,
        status: session.status,
        turn: session.turn,
        asks,
    };
    Ok((output, text))
}

fn show_file(file: &ChangedFile) -> String {
    let about = if file.exact { "" } else { " (about)" };
    format!("{} {} +{} −{}{about}", file.status, file.path, file.added, file.removed)
}

/// Returns how many of the files, the last changed first, fit into an answer.
fn count_fitting_files(files: &[ChangedFile]) -> usize {
    let mut room = MAX_FILES_CHARS;
    let fits = |file: &&ChangedFile| {
        let chars = serde_json::to_string(file).map_or(0, |text| text.chars().count());
        room.checked_sub(chars).map(|rest| room = rest).is_some()
    };
    files.iter().take_while(fits).count()
}
