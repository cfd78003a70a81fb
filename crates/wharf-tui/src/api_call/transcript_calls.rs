//! Requests that read parts of a transcript.

use super::{ApiCall, join_path, percent_encode};
use crate::rows::OlderRows;

/// Rows of a page that is loaded above those that are there.
const OLDER_PAGE_ROWS: usize = 100;
/// The number of rows of a page around the newest held row: about half of them are newer.
const NEWER_PAGE_ROWS: usize = 200;
/// The prompts that the composer can walk through: the most rows of a page.
const MAX_READ_PROMPTS: usize = 200;

/// Reads one row whole.
pub(crate) fn read_row(session: &str, row: &str) -> ApiCall {
    ApiCall::get(join_path(&["sessions", session, "rows", row]))
}

/// Reads the page before the oldest row that is held. Returns `None` if there is none.
pub(crate) fn read_older_rows(session: &str, older: &OlderRows) -> Option<ApiCall> {
    let position = match older {
        OlderRows::None => return None,
        OlderRows::Before(cursor) => format!("before={}", percent_encode(cursor)),
        OlderRows::Around(row) => format!("around={}", percent_encode(row)),
    };
    let path = join_path(&["sessions", session, "rows"]);
    Some(ApiCall::get(format!("{path}?limit={OLDER_PAGE_ROWS}&{position}")))
}

/// Reads the page around the newest row that is held, after newer ones were dropped.
pub(crate) fn read_newer_rows(session: &str, newest: &str) -> ApiCall {
    let path = join_path(&["sessions", session, "rows"]);
    ApiCall::get(format!("{path}?limit={NEWER_PAGE_ROWS}&around={}", percent_encode(newest)))
}

/// Reads the newest row of a session that says something, and little beside it.
pub(crate) fn read_newest_row(session: &str) -> ApiCall {
    let path = join_path(&["sessions", session, "rows"]);
    ApiCall::get(format!("{path}?kinds=prompt,message,thought,tool,ask&limit=1"))
}

/// Reads the newest prompts of a session.
pub(crate) fn read_prompts(session: &str) -> ApiCall {
    ApiCall::get(format!(
        "{}?kinds=prompt&limit={MAX_READ_PROMPTS}",
        join_path(&["sessions", session, "rows"])
    ))
}

/// Reads the prompts of a turn, or without one the newest prompt of the session; long ones are cut.
pub(crate) fn read_turn_prompts(session: &str, turn: Option<&str>) -> ApiCall {
    let path = join_path(&["sessions", session, "rows"]);
    match turn {
        Some(turn) => {
            ApiCall::get(format!("{path}?kinds=prompt&limit=200&turn={}", percent_encode(turn)))
        }
        None => ApiCall::get(format!("{path}?kinds=prompt&limit=1")),
    }
}

/// Searches the rows of all sessions.
pub(crate) fn search_rows(query: &str) -> ApiCall {
    ApiCall::get(format!("{}?q={}", join_path(&["search"]), percent_encode(query)))
}

/// Reads a text of a row from this byte on.
pub(crate) fn read_row_text(session: &str, row: &str, part: &str, offset: u64) -> ApiCall {
    let path = join_path(&["sessions", session, "rows", row, "text"]);
    ApiCall::get(format!("{path}?part={}&offset={offset}", percent_encode(part)))
}

/// Lists the files that the session has changed.
pub(crate) fn list_changed_files(session: &str) -> ApiCall {
    ApiCall::get(join_path(&["sessions", session, "changes"]))
}

/// Searches the rows of one session, the newest first.
pub(crate) fn search_session(session: &str, query: &str, cursor: Option<&str>) -> ApiCall {
    let cursor = cursor
        .map(|cursor| format!("&cursor={}", percent_encode(cursor)))
        .unwrap_or_default();
    let session = percent_encode(session);
    let query = percent_encode(query);
    ApiCall::get(format!("/search?q={query}&session={session}&limit=100{cursor}"))
}
