//! The newest lines of a session (rule 8.4).

use wharf_api::{OutputLines, OutputQuery};
use wharf_transcript::lines::LineChoice;

use super::faults::{invalid_query, unreadable_session};
use super::{Caller, open_session};
use crate::App;
use crate::fault::Fault;
use crate::output_lines::{LastLines, LineLimit, read_last_lines};

const DEFAULT_OUTPUT_LINES: usize = 200;
const MAX_OUTPUT_LINES: usize = 10_000;

/// Reads the newest lines of a session's transcript.
pub(crate) async fn read_output(
    app: &App,
    caller: &Caller,
    id: &str,
    query: &OutputQuery,
) -> Result<OutputLines, Fault> {
    let count = query.last_n.unwrap_or(DEFAULT_OUTPUT_LINES);
    if count == 0 || count > MAX_OUTPUT_LINES {
        let detail = format!("lastN: {count} is not between 1 and {MAX_OUTPUT_LINES}");
        return Err(invalid_query(detail));
    }
    let choice = read_line_choice(app, query.include.as_deref())?;
    let handle = open_session(app, caller, id).await?;
    let most = LineLimit { lines: count, bytes: app.host.config().limits.history.0 };
    let _permit = app.limits.acquire_log_scan().await;
    let last = read_last_lines(&handle, most, choice).await;
    let LastLines { lines, truncated } = last.map_err(|error| unreadable_session(id, &error))?;
    let last_event_id = lines.last().map(|line| line.id.to_string());
    let lines = lines.into_iter().map(|line| line.text).collect();
    Ok(OutputLines { id: id.to_owned(), lines, last_event_id, truncated })
}

/// Returns the lines that every reader gets.
pub(crate) fn standard_lines(app: &App) -> LineChoice {
    LineChoice {
        secrets: !app.host.config().redact_output,
        ..LineChoice::default()
    }
}

/// Reads the names of lines that a reader wants besides those of AIP-46's table.
pub(crate) fn read_line_choice(app: &App, include: Option<&str>) -> Result<LineChoice, Fault> {
    let mut choice = standard_lines(app);
    for name in include
        .unwrap_or_default()
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
    {
        match name {
            "prompts" => choice.prompts = true,
            "plans" => choice.plans = true,
            _ => {
                return Err(invalid_query(
                    "include: must be a list of prompts and plans, separated by commas",
                ));
            }
        }
    }
    Ok(choice)
}
